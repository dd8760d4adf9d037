//! What the reproductions share.

use super::cluster::{Cluster, measure};
use super::mix::{Demand, Mix};
use super::systems::Fits;
use crate::scale::Scale;
use crate::{ReproRow, Result};
use farslot::fabric::sim::NicProfile;

/// Pages of 2 MiB of 20 GB, the memory of figure 1.
pub(super) const PAGES: u64 = 10_240;
/// Bytes that a NIC fetches of its tables at once, and how many translations these are.
const LINE: u64 = 64;
const TRANSLATIONS: u64 = LINE / 8;
/// The scale of what is simulated: lookups of all machines behind a cell.
pub(super) const SCALE: Scale = Scale {
    slots: 1 << 16,
    tables: 1,
    lookups: 100_000,
    seed: 0,
};

/// Operations a microsecond of a machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    /// In the simulator.
    pub(super) simulated: f64,
    /// By what the busiest part of a machine allows.
    pub(super) model: f64,
}

impl Rate {
    pub(super) fn row(self, cell: String) -> ReproRow {
        ReproRow {
            model: Some(self.model),
            ..ReproRow::new(cell, None, self.simulated)
        }
        .predicted()
    }

    /// How many times faster it is than another.
    pub(super) fn over(self, other: Self, cell: impl Into<String>, paper: f64) -> ReproRow {
        ReproRow {
            model: Some(self.model / other.model),
            ..ReproRow::new(cell, Some(paper), self.simulated / other.simulated)
        }
    }
}

/// Measures a mix on a cluster of so many machines of so many threads.
pub(super) fn rate(
    scale: &Scale,
    profile: NicProfile,
    mix: &Mix,
    (machines, threads): (u32, u32),
) -> Result<Rate> {
    let mut profile = profile;
    // A page stands for all whose translations are fetched together.
    profile.cache.translation_bytes = LINE as u32;
    let pages = PAGES / TRANSLATIONS;
    let connections = u64::from(2 * machines * threads);
    let demand = Demand::of(&profile, mix).with_cache(&profile, connections, pages)?;
    let model = demand.rate(threads);
    let simulated = measure(&Cluster {
        profile,
        machines,
        threads,
        pages,
        mix,
        operations: scale.lookups,
        expected: model,
        seed: scale.seed,
    })?;
    Ok(Rate { simulated, model })
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
