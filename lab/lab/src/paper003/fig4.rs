//! Paper 003, figure 4: lookups in Storm by READs, by READs and calls, and by calls.

use super::common::fitted_rows;
use super::fits::OVERSUBSCRIBED;
use super::lookups::Lookups;
use super::systems::{DataplaneSystem, PAPERS_THREADS};
use super::tables::collisions;
use crate::scale::Scale;
use crate::{Progress, ReproReport, ReproRow, Result};
use farslot::fabric::VerbKind;

pub(crate) const ID: &str = "003-fig4";
pub(crate) const SCALE: Scale = super::common::SCALE;

const MACHINES: [u32; 4] = [4, 8, 16, 32];
/// READs alone beside calls alone, at 32 machines.
const PERFECT_OVER_CALLS: f64 = 2.2;
const SYSTEMS: [DataplaneSystem; 3] = [
    DataplaneSystem::Perfect,
    DataplaneSystem::Oversubscribed,
    DataplaneSystem::Calls,
];

/// Measures the figure.
pub(crate) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let lookups = Lookups::measure(scale, SYSTEMS, MACHINES, 1.0, progress)?;
    let mut rows = lookups.rows();
    let [perfect, oversubscribed, calls] = lookups.of_most_machines();
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
    for (system, rate) in SYSTEMS.iter().zip([perfect, oversubscribed, calls]) {
        rows.extend(rate.rows_of_each(&format!("a lookup, {}, 32 machines", system.name())));
    }
    rows.extend(fitted_rows(&lookups.fits).into_iter().take(1));
    let called = oversubscribed.measured.posted.verbs_of(VerbKind::Call);
    rows.push(
        ReproRow {
            model: Some(100.0 * collisions(lookups.fits.load)),
            ..ReproRow::new(
                "% of the keys that a READ does not find",
                None,
                100.0 * oversubscribed.measured.each(called),
            )
        }
        .following(),
    );
    let setup = format!(
        "Simulated: lookups of random keys in chained tables of farslot-remote, by its clients and calls; every value is checked. Machines with a ConnectX-4 on \
         InfiniBand and {PAPERS_THREADS} threads of 16 lookups under way; {} lookups a cell. At most nine machines are simulated: with 16 and 32 each has several \
         nodes, and as many connections as that many machines would have. The NIC's occupancies are those of ConnectX-5, fitted on paper 000's table 2. Buckets \
         have one slot, and a READ of one moves 128 bytes. How full they are the paper does not say: that is fitted on oversub / calls. Perfect: clients know \
         where the keys in chains are. The model is what the busiest part of a machine allows for the verbs and bytes that were counted. Not emulated: \
         descriptors that NICs fetch for messages; that the rates of the paper change with the number of machines, by its account for polling at the \
         receiver, and for collisions that differ.",
        scale.lookups
    );
    Ok(ReproReport::emulated(ID, setup, rows, vec![lookups.plot()]))
}
