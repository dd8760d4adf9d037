//! Paper 003, figure 4: lookups in Storm by READs, by READs and calls, and by calls.

use super::common::{Rate, fitted_rows, rate};
use super::fits::{OVERSUBSCRIBED, fit};
use super::systems::{PAPERS_THREADS, System, collisions};
use crate::scale::Scale;
use crate::{Axis, Line, Plot, Progress, ReproReport, ReproRow, Result, threads};

pub(crate) const ID: &str = "003-fig4";
pub(crate) const SCALE: Scale = super::common::SCALE;

const MACHINES: [u32; 4] = [4, 8, 16, 32];
/// READs alone beside calls alone, at 32 machines.
const PERFECT_OVER_CALLS: f64 = 2.2;
const SYSTEMS: [System; 3] = [System::Perfect, System::Oversubscribed, System::Calls];

/// Measures the figure.
pub(crate) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let fits = fit();
    let rates: Vec<Rate> = threads::in_order(MACHINES.len() * SYSTEMS.len(), |number| {
        let machines = MACHINES[number / SYSTEMS.len()];
        let system = SYSTEMS[number % SYSTEMS.len()];
        progress(&format!("{}, {machines} machines", system.name()));
        let mix = system.mix(&fits, 1.0);
        rate(
            scale,
            system.profile(&fits),
            &mix,
            (machines, PAPERS_THREADS),
        )
    })?;
    let at = |machines: usize, system: usize| rates[machines * SYSTEMS.len() + system];
    let mut rows = Vec::new();
    for (number, machines) in MACHINES.iter().enumerate() {
        for (column, system) in SYSTEMS.iter().enumerate() {
            let cell = format!(
                "M lookups/s of a machine, {}, {machines} machines",
                system.name()
            );
            rows.push(at(number, column).row(cell));
        }
    }
    let last = MACHINES.len() - 1;
    let [perfect, oversubscribed, calls] = [0, 1, 2].map(|system| at(last, system));
    rows.extend([
        perfect
            .over(
                calls,
                "perfect / calls alone, 32 machines",
                PERFECT_OVER_CALLS,
            )
            .predicted(),
        oversubscribed
            .over(calls, "oversub / calls alone, 32 machines", OVERSUBSCRIBED)
            .fitted(),
    ]);
    rows.extend(fitted_rows(&fits).into_iter().take(1));
    let missed = 100.0 * collisions(fits.load);
    rows.push(ReproRow::new("% of the keys that a READ does not find", None, missed).predicted());
    let lines = SYSTEMS.iter().enumerate().map(|(column, system)| {
        let points = MACHINES.iter().enumerate();
        let points =
            points.map(|(number, machines)| (f64::from(*machines), at(number, column).simulated));
        Line::ours(system.name(), points.collect())
    });
    let setup = format!(
        "Simulated: machines with a ConnectX-4 on InfiniBand and {PAPERS_THREADS} threads of 16 lookups under way; {} lookups a cell. The NIC's occupancies are \
         those of ConnectX-5, fitted on paper 000's table 2. A call is a message of 128 bytes each way, for which the receiver's NIC fetches a descriptor of \
         16. Oversubscribed: buckets of one slot; the paper does not say how full they are, and that is fitted on oversub / calls. The model is what the \
         busiest part of a machine allows. Not emulated: that the rates of the paper change with the number of machines, by \
         its account for polling at the receiver, and for collisions that differ.",
        scale.lookups
    );
    let plot = Plot {
        title: "Lookups by machines".into(),
        x: Axis::linear("machines"),
        y: Axis::linear("M lookups/s of a machine"),
        lines: lines.collect(),
    };
    Ok(ReproReport::emulated(ID, setup, rows, vec![plot]))
}
