//! The numbers that are fitted, beside those of the NIC profiles, each with the figure that it is
//! fitted on.

use super::mix::{Demand, Mix, only};
use super::systems::{CALL, Fits, PAPERS_THREADS, System, read_or_call};
use farslot::fabric::sim::NicProfile;

/// Figure 4: a table with few collisions beside calls alone.
pub(super) const OVERSUBSCRIBED: f64 = 1.7;
/// Figure 5: eRPC without congestion control beside eRPC; Storm beside LITE.
pub(super) const WITHOUT_CONTROL: f64 = 1.53;
pub(super) const BESIDE_LITE: f64 = 17.1;
/// Table 5, ConnectX-4 on InfiniBand, us: LITE's latency less that of a READ.
const LITE_US: f64 = 5.8 - 1.8;

/// Fits all, by what the busiest part of a machine allows.
pub(super) fn fit() -> Fits {
    let nic = NicProfile::connectx4_edr();
    let rate = |mix: &Mix| Demand::of(&nic, mix).rate(PAPERS_THREADS);
    let calls = rate(&only(vec![(CALL, 1.0)]));
    let load = falling(1e-6, 10.0, OVERSUBSCRIBED, |load| {
        rate(&only(read_or_call(load))) / calls
    });
    let partly = rate(&only(read_or_call(load)));
    let free = Fits {
        load,
        control_ns: 0.0,
        locked_ns: 1e3 * BESIDE_LITE / partly,
        kernel_ns: LITE_US * 1e3,
    };
    let erpc = |control_ns| {
        let fits = Fits { control_ns, ..free };
        let system = System::Erpc { controlled: true };
        Demand::of(&system.profile(&fits), &system.mix(&fits, 1.0)).rate(PAPERS_THREADS)
    };
    let without = erpc(0.0);
    Fits {
        control_ns: falling(0.0, 1e5, without / WITHOUT_CONTROL, erpc),
        ..free
    }
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
        let fits = fit();
        let rate = |system: System| {
            Demand::of(&system.profile(&fits), &system.mix(&fits, 1.0)).rate(PAPERS_THREADS)
        };
        let near = |ours: f64, paper: f64| assert!((ours / paper - 1.0).abs() < 1e-3, "{ours}");
        near(
            rate(System::Oversubscribed) / rate(System::Calls),
            OVERSUBSCRIBED,
        );
        near(
            rate(System::Oversubscribed) / rate(System::Lite),
            BESIDE_LITE,
        );
        let [with, without] = [true, false].map(|controlled| rate(System::Erpc { controlled }));
        near(without / with, WITHOUT_CONTROL);
        assert!((0.05..0.5).contains(&fits.load), "{fits:?}");
    }
}
