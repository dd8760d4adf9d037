//! Paper 003, figure 4: lookups in Storm by READs, by READs and calls, and by calls.

use super::common::fitted_rows;
use super::fits::OVERSUBSCRIBED;
use super::lookups::Lookups;
use super::systems::{PAPERS_THREADS, System, collisions};
use crate::scale::Scale;
use crate::{Progress, ReproReport, ReproRow, Result};

pub(crate) const ID: &str = "003-fig4";
pub(crate) const SCALE: Scale = super::common::SCALE;

const MACHINES: [u32; 4] = [4, 8, 16, 32];
/// READs alone beside calls alone, at 32 machines.
const PERFECT_OVER_CALLS: f64 = 2.2;
const SYSTEMS: [System; 3] = [System::Perfect, System::Oversubscribed, System::Calls];

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
    rows.extend(fitted_rows(&lookups.fits).into_iter().take(1));
    let missed = 100.0 * collisions(lookups.fits.load);
    rows.push(ReproRow::new("% of the keys that a READ does not find", None, missed).predicted());
    let setup = format!(
        "Simulated: machines with a ConnectX-4 on InfiniBand and {PAPERS_THREADS} threads of 16 lookups under way; {} lookups a cell. The NIC's occupancies are \
         those of ConnectX-5, fitted on paper 000's table 2. A call is a message of 128 bytes each way, for which the receiver's NIC fetches a descriptor of \
         16. Oversubscribed: buckets of one slot; the paper does not say how full they are, and that is fitted on oversub / calls. The model is what the \
         busiest part of a machine allows. Not emulated: that the rates of the paper change with the number of machines, by \
         its account for polling at the receiver, and for collisions that differ.",
        scale.lookups
    );
    Ok(ReproReport::emulated(ID, setup, rows, vec![lookups.plot()]))
}
