//! Paper 003, figure 7: clusters of up to 128 machines, whose connections no longer fit into the
//! NIC's cache.

use super::common::{MachineRate, rate};
use super::fits::fit;
use super::systems::DataplaneSystem;
use crate::scale::Scale;
use crate::{Axis, Basis, Line, Plot, Progress, ReproReport, ReproRow, Result, threads};

pub(crate) const ID: &str = "003-fig7";
pub(crate) const SCALE: Scale = super::common::SCALE;

const MACHINES: [u32; 4] = [32, 64, 96, 128];
const THREADS: [u32; 2] = [20, 10];
/// How much slower 96 machines of 20 threads are than 64.
const LOST: f64 = 1.57;

/// Measures the figure.
pub(crate) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let fits = fit()?;
    let profile = DataplaneSystem::Perfect.profile(&fits);
    let rates: Vec<MachineRate> = threads::in_order(MACHINES.len() * THREADS.len(), |number| {
        let (machines, threads) = (MACHINES[number / 2], THREADS[number % 2]);
        progress(&format!("{machines} machines, {threads} threads"));
        rate(
            scale,
            (DataplaneSystem::Perfect, &fits, 1.0),
            (machines, threads),
        )
    })?;
    let at = |machines: usize, threads: usize| &rates[machines * THREADS.len() + threads];
    let mut rows = Vec::new();
    for (number, machines) in MACHINES.iter().enumerate() {
        for (column, threads) in THREADS.iter().enumerate() {
            let cell = format!("M lookups/s of a machine, {machines} machines, {threads} threads");
            rows.push(at(number, column).row(cell, Basis::Follows));
        }
    }
    rows.extend([
        at(1, 0)
            .over(at(0, 0), "64 machines / 32 machines, 20 threads", 1.0)
            .following(),
        at(1, 0)
            .over(at(2, 0), "64 machines / 96 machines, 20 threads", LOST)
            .fitted(),
        at(3, 1)
            .over(at(0, 1), "128 machines / 32 machines, 10 threads", 1.0)
            .following(),
        ReproRow::new(
            "fitted: bytes of a connection in the NIC's cache",
            None,
            f64::from(profile.cache.queue_pair_bytes),
        )
        .fitted(),
    ]);
    let lines = THREADS.iter().enumerate().map(|(column, threads)| {
        let points = MACHINES.iter().enumerate();
        let points = points
            .map(|(number, machines)| (f64::from(*machines), at(number, column).measured.rate));
        Line::ours(format!("{threads} threads"), points.collect())
    });
    let setup = format!(
        "Simulated: Storm (perfect), figure 4's lookups in the product's tables, on ConnectX-4 on InfiniBand; {} lookups a cell. At most nine machines stand for all, each with the 2 m t connections of a \
         machine among m with t threads, as the paper emulates with 32 of them. In the NIC's cache of 2 MiB lie connections and the translations of 20 GB in \
         pages of 2 MiB. A connection's context has 375 bytes; with these alone the cache would hold those of 128 machines: how many \
         bytes a connection takes there is fitted on the loss at 96. What a miss costs is fitted on figure 1.",
        scale.lookups
    );
    let plot = Plot {
        title: "Storm (perfect) by machines".into(),
        x: Axis::linear("machines"),
        y: Axis::linear("M lookups/s of a machine"),
        lines: lines.collect(),
    };
    Ok(ReproReport::emulated(ID, setup, rows, vec![plot]))
}
