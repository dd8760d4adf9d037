//! Paper 003, figure 6: TATP in Storm, by transactions over chained tables.

use super::common::{MachineRate, cached, cluster, fitted_rows};
use super::fits::fit;
use super::mix::Demand;
use super::systems::{DataplaneSystem, Fits, PAPERS_THREADS};
use crate::cluster::{hosts, measure};
use crate::scale::Scale;
use crate::transactions::TatpMachines;
use crate::{Axis, Basis, Line, Plot, Progress, ReproReport, ReproRow, Result, threads};

pub(crate) const ID: &str = "003-fig6";
pub(crate) const SCALE: Scale = super::common::SCALE;

const MACHINES: [u32; 4] = [4, 8, 16, 32];
/// Storm (oversub) beside calls alone, at 32 machines.
const GAIN: f64 = 1.49;
const SYSTEMS: [DataplaneSystem; 2] = [DataplaneSystem::Oversubscribed, DataplaneSystem::Calls];
/// Transactions that a thread has under way.
const WIDTH: usize = 8;
/// Buckets of a machine's subscribers.
const BUCKETS: u64 = 1 << 15;
/// Bytes that stand for a page.
const PAGE: u64 = 32 << 10;

fn measured(
    scale: &Scale,
    fits: &Fits,
    system: DataplaneSystem,
    machines: u32,
) -> Result<MachineRate> {
    let (hosts, nodes) = hosts(machines);
    let mut cluster = cluster(
        scale,
        system.profile(fits),
        (machines, PAPERS_THREADS),
        // Most transactions are one lookup; the others take several calls.
        0.5 * system.demand(fits, 1.0).rate(PAPERS_THREADS),
    );
    cluster.width = WIDTH;
    cluster.page_bytes = PAGE;
    let subscribers = (fits.load * (BUCKETS / u64::from(nodes)) as f64) as u64;
    let by_calls = system == DataplaneSystem::Calls;
    let tatp = TatpMachines::new(hosts * nodes, subscribers.max(1), fits.load, by_calls);
    let measured = measure(&cluster, tatp)?;
    let counted = Demand::counted(&cluster.profile, &measured);
    let model = cached(&cluster, counted)?.rate(PAPERS_THREADS);
    Ok(MachineRate { measured, model })
}

/// Measures the figure.
pub(crate) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let fits = fit()?;
    let rates: Vec<MachineRate> = threads::in_order(MACHINES.len() * SYSTEMS.len(), |number| {
        let machines = MACHINES[number / SYSTEMS.len()];
        let system = SYSTEMS[number % SYSTEMS.len()];
        progress(&format!("{}, {machines} machines", system.name()));
        measured(scale, &fits, system, machines)
    })?;
    let mut rows = Vec::new();
    for (number, rate) in rates.iter().enumerate() {
        let (machines, system) = (MACHINES[number / 2], SYSTEMS[number % 2]);
        let cell = format!(
            "M transactions/s of a machine, {}, {machines} machines",
            system.name()
        );
        rows.push(rate.row(cell, Basis::Predicted));
    }
    let last = MACHINES.len() - 1;
    let [oversubscribed, calls] = [0, 1].map(|system| &rates[last * SYSTEMS.len() + system]);
    let cell = format!("oversub / calls alone, {} machines", MACHINES[last]);
    rows.push(oversubscribed.over(calls, cell, GAIN).predicted());
    for (system, rate) in SYSTEMS.iter().zip([oversubscribed, calls]) {
        let of = format!(
            "a transaction, {}, {} machines",
            system.name(),
            MACHINES[last]
        );
        rows.extend(rate.rows_of_each(&of));
        let conflicts = 1e6 * rate.measured.each(rate.measured.conflicts);
        let cell = format!("conflicts in a million transactions, {}", system.name());
        rows.push(ReproRow::new(cell, None, conflicts));
    }
    rows.extend(fitted_rows(&fits).into_iter().take(1));
    let lines = SYSTEMS.iter().enumerate().map(|(column, system)| {
        let points = MACHINES.iter().enumerate().map(|(number, machines)| {
            (
                f64::from(*machines),
                rates[number * SYSTEMS.len() + column].measured.rate,
            )
        });
        Line::ours(system.name(), points.collect())
    });
    let setup = format!(
        "Simulated: TATP's mix by transactions of farslot-txn over its chained tables, with buckets of one slot and about as many keys a bucket as in figure \
         4; rows are read by a READ and a call where keys collide, or by calls alone; those that are written are locked as they are read, READs validate \
         the others unless a transaction reads one row and writes none, and a call at each node writes and unlocks (section 5.4). {PAPERS_THREADS} \
         threads a machine with {WIDTH} transactions under way on rows of the other machines, {:.0} subscribers a machine, drawn evenly (of so few the favourites of \
         TATP would meet too often), {} transactions a cell; what they read is \
         checked. At most nine machines are simulated: with 16 and 32 each has several nodes, and as many connections as that many machines would have. \
         Nothing is fitted here but figure 4's keys a bucket.",
        fits.load * BUCKETS as f64,
        scale.lookups
    );
    let plot = Plot {
        title: "TATP by machines".into(),
        x: Axis::linear("machines"),
        y: Axis::linear("M transactions/s of a machine"),
        lines: lines.collect(),
    };
    Ok(ReproReport::emulated(ID, setup, rows, vec![plot]))
}
