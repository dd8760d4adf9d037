//! The numbers that are fitted, beside those of the NIC profiles, each with the figure that it is
//! fitted on.

use super::mix::Demand;
use super::systems::{DataplaneSystem, Fits, PAPERS_THREADS};
use super::tables::{Tables, collisions};
use crate::Result;
use crate::cluster::idle;
use farslot::fabric::sim::NicProfile;

/// Figure 4: a table with few collisions beside calls alone.
pub(super) const OVERSUBSCRIBED: f64 = 1.7;
/// Figure 5: eRPC without congestion control beside eRPC; Storm beside LITE.
pub(super) const WITHOUT_CONTROL: f64 = 1.53;
pub(super) const BESIDE_LITE: f64 = 17.1;
/// Table 5, ConnectX-4 on InfiniBand, us: LITE's latency less that of a READ.
const LITE_US: f64 = 5.8 - 1.8;
/// Buckets of the table whose lookups are counted.
const BUCKETS: u32 = 1 << 13;

/// Fits all, by what the busiest part of a machine allows.
pub(super) fn fit() -> Result<Fits> {
    let nic = NicProfile::connectx4_edr();
    let counted = |tables: Tables| {
        let measured = idle(nic.clone(), tables, 0)?;
        Ok::<_, crate::LabError>(Demand::counted(&nic, &measured))
    };
    // One key or two in all: no collisions.
    let read = counted(Tables::new(BUCKETS, 0.0)?.knowing_chains())?;
    let call = counted(Tables::new(BUCKETS, 0.0)?.by_calls())?;
    let rate = |demand: Demand| demand.rate(PAPERS_THREADS);
    let partly = |load: f64| rate(read.plus(call, collisions(load)));
    let load = falling(1e-6, 10.0, OVERSUBSCRIBED, |load| partly(load) / rate(call));
    let free = Fits {
        load,
        control_ns: 0.0,
        locked_ns: 1e3 * BESIDE_LITE / partly(load),
        kernel_ns: LITE_US * 1e3,
        read,
        call,
    };
    let erpc = |control_ns| {
        let fits = Fits { control_ns, ..free };
        rate(DataplaneSystem::Erpc { controlled: true }.demand(&fits, 1.0))
    };
    Ok(Fits {
        control_ns: falling(0.0, 1e5, erpc(0.0) / WITHOUT_CONTROL, erpc),
        ..free
    })
}

/// Where a falling function has a value.
fn falling(low: f64, high: f64, value: f64, of: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (low, high);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if of(middle) > value {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fitted_gives_what_it_was_fitted_on() {
        let fits = fit().unwrap();
        let rate = |system: DataplaneSystem| system.demand(&fits, 1.0).rate(PAPERS_THREADS);
        let near = |ours: f64, paper: f64| assert!((ours / paper - 1.0).abs() < 1e-3, "{ours}");
        near(
            rate(DataplaneSystem::Oversubscribed) / rate(DataplaneSystem::Calls),
            OVERSUBSCRIBED,
        );
        near(
            rate(DataplaneSystem::Oversubscribed) / rate(DataplaneSystem::Lite),
            BESIDE_LITE,
        );
        let [with, without] =
            [true, false].map(|controlled| rate(DataplaneSystem::Erpc { controlled }));
        near(without / with, WITHOUT_CONTROL);
        assert!((0.05..0.5).contains(&fits.load), "{fits:?}");
    }
}
