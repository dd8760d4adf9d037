//! What the reproductions share.

use super::mix::Demand;
use super::systems::{DataplaneSystem, Fits};
use crate::cluster::{Cluster, ClusterMeasurement, hosts};
use crate::scale::Scale;
use crate::{Basis, ReproRow, Result};
use farslot::fabric::VerbKind;
use farslot::fabric::sim::NicProfile;

/// Pages of 2 MiB of 20 GB, the memory of figure 1.
pub(super) const PAGES: u64 = 10_240;
/// Bytes that a NIC fetches of its tables at once, and how many translations these are.
const LINE: u64 = 64;
const TRANSLATIONS: u64 = LINE / 8;
/// Operations that a thread has under way: more than enough to keep every NIC busy.
const WIDTH: usize = 16;
/// The scale of what is simulated: lookups of all machines behind a cell.
pub(super) const SCALE: Scale = Scale {
    slots: 1 << 16,
    tables: 1,
    lookups: 100_000,
    seed: 0,
};

/// Operations a microsecond of a machine.
#[derive(Clone, Debug)]
pub(super) struct MachineRate {
    /// In the simulator.
    pub(super) measured: ClusterMeasurement,
    /// By what the busiest part of a machine allows, for the verbs that were counted.
    pub(super) model: f64,
}

impl MachineRate {
    pub(super) fn row(&self, cell: String, basis: Basis) -> ReproRow {
        ReproRow {
            model: Some(self.model),
            basis: Some(basis),
            ..ReproRow::new(cell, None, self.measured.rate)
        }
    }

    /// How many times faster it is than another.
    pub(super) fn over(&self, other: &Self, cell: impl Into<String>, paper: f64) -> ReproRow {
        ReproRow {
            model: Some(self.model / other.model),
            ..ReproRow::new(cell, Some(paper), self.measured.rate / other.measured.rate)
        }
    }

    /// What an operation took.
    pub(super) fn rows_of_each(&self, of: &str) -> Vec<ReproRow> {
        let measured = &self.measured;
        let posted = &measured.posted;
        let figures = [
            ("READs", measured.each(posted.verbs_of(VerbKind::Read))),
            ("calls", measured.each(posted.verbs_of(VerbKind::Call))),
            (
                "bytes",
                measured.each(posted.bytes_read + posted.bytes_written),
            ),
            ("us at the median", measured.us(0.5)),
            ("us at 99 %", measured.us(0.99)),
        ];
        let row = |(label, figure)| ReproRow::new(format!("{label} of {of}"), None, figure);
        figures.map(row).into()
    }
}

/// A cluster of so many machines of so many threads with ConnectX-4 NICs.
pub(super) fn cluster(
    scale: &Scale,
    profile: NicProfile,
    (machines, threads): (u32, u32),
    expected: f64,
) -> Cluster {
    let mut profile = profile;
    // A page stands for all whose translations are fetched together.
    profile.cache.translation_bytes = LINE as u32;
    Cluster {
        profile,
        machines,
        threads,
        width: WIDTH,
        page_bytes: 2 << 20,
        operations: scale.lookups,
        expected,
        seed: scale.seed,
    }
}

/// What operations of a cluster occupy, with what is not in the NICs' caches.
pub(super) fn cached(cluster: &Cluster, demand: Demand) -> Result<Demand> {
    let connections = u64::from(2 * cluster.machines * cluster.threads);
    Ok(demand.with_cache(&cluster.profile, connections, PAGES / TRANSLATIONS)?)
}

/// Measures lookups of a system on a cluster.
pub(super) fn rate(
    scale: &Scale,
    (system, fits, farm_reads): (DataplaneSystem, &Fits, f64),
    size: (u32, u32),
) -> Result<MachineRate> {
    let mut cluster = cluster(scale, system.profile(fits), size, 1.0);
    let known = cached(&cluster, system.demand(fits, farm_reads))?;
    cluster.expected = known.rate(cluster.threads);
    let pages = PAGES / TRANSLATIONS / u64::from(hosts(cluster.machines).1);
    let measured = system.measure(fits, farm_reads, (cluster.clone(), pages))?;
    let counted = Demand::counted(&cluster.profile, &measured);
    let locked = match system {
        DataplaneSystem::Lite => fits.locked_ns,
        _ => 0.0,
    };
    let model = cached(&cluster, counted.locked_for(locked))?.rate(cluster.threads);
    Ok(MachineRate { measured, model })
}

/// What is fitted beside the NIC profile, as rows.
pub(super) fn fitted_rows(fits: &Fits) -> Vec<ReproRow> {
    let row =
        |cell: &str, value: f64| ReproRow::new(format!("fitted: {cell}"), None, value).fitted();
    vec![
        row("keys a bucket of the oversubscribed table", fits.load),
        row(
            "ns of eRPC's congestion control, a message",
            fits.control_ns,
        ),
        row(
            "ns that LITE's kernel is locked for an operation",
            fits.locked_ns,
        ),
    ]
}
