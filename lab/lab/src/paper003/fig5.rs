//! Paper 003, figure 5: lookups in Storm, eRPC, FaRM and LITE.

use super::common::fitted_rows;
use super::fits::{BESIDE_LITE, WITHOUT_CONTROL};
use super::hopscotch::reads_per_lookup;
use super::lookups::Lookups;
use super::systems::{DataplaneSystem, PAPERS_THREADS};
use crate::scale::Scale;
use crate::{Progress, ReproReport, ReproRow, Result};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

pub(crate) const ID: &str = "003-fig5";
pub(crate) const SCALE: Scale = super::common::SCALE;

const MACHINES: [u32; 4] = [4, 8, 12, 16];
const SYSTEMS: [DataplaneSystem; 5] = [
    DataplaneSystem::Oversubscribed,
    DataplaneSystem::Erpc { controlled: true },
    DataplaneSystem::Erpc { controlled: false },
    DataplaneSystem::Farm,
    DataplaneSystem::Lite,
];
/// How full FaRM's table is: assumed.
const FARM_LOAD: f64 = 0.9;
/// Storm beside eRPC and FaRM, at 16 machines.
const BESIDE_ERPC: f64 = 3.3;
const BESIDE_FARM: f64 = 3.6;

/// Measures the figure.
pub(crate) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let mut random = ChaCha8Rng::seed_from_u64(scale.seed);
    let farm_reads = reads_per_lookup(scale.slots, FARM_LOAD, &mut random);
    let lookups = Lookups::measure(scale, SYSTEMS, MACHINES, farm_reads, progress)?;
    let mut rows = lookups.rows();
    let [storm, erpc, free, farm, lite] = lookups.of_most_machines();
    rows.extend([
        storm
            .over(erpc, "Storm / eRPC, 16 machines", BESIDE_ERPC)
            .predicted(),
        free.over(
            erpc,
            "eRPC without congestion control / eRPC, 16 machines",
            WITHOUT_CONTROL,
        )
        .fitted(),
        storm
            .over(
                free,
                "Storm / eRPC without congestion control, 16 machines",
                BESIDE_ERPC / WITHOUT_CONTROL,
            )
            .predicted(),
        storm
            .over(farm, "Storm / FaRM, 16 machines", BESIDE_FARM)
            .predicted(),
        storm
            .over(lite, "Storm / LITE, 16 machines", BESIDE_LITE)
            .fitted(),
        ReproRow::new("READs of a lookup, FaRM, table 0.9 full", None, farm_reads).predicted(),
    ]);
    rows.extend(fitted_rows(&lookups.fits));
    let setup = format!(
        "Simulated: machines with a ConnectX-4 on InfiniBand and {PAPERS_THREADS} threads of 16 lookups under way; {} lookups a cell. Storm (oversub) is that of \
         figure 4, by the product's tables, and so is what LITE does above its kernel; of eRPC and FaRM there are the verbs. eRPC: a datagram each way, for which the receiver's NIC fetches a descriptor of 16 bytes \
         and writes a header of 40 beside the 128; the time of its congestion control is fitted. FaRM: one READ of 1 KiB, a second for a key in a chain \
         (counted, at 0.9 of {} slots, which is assumed: the paper does not say it). LITE: the time for which its kernel is locked is fitted. That eRPC loses with more machines, by the paper for \
         posting onto receive queues, is not emulated.",
        scale.lookups, scale.slots
    );
    Ok(ReproReport::emulated(ID, setup, rows, vec![lookups.plot()]))
}
