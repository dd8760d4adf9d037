//! Paper 004, figure 1: how many insertions walk into an endless loop by the table's occupancy,
//! where those without a place are dropped; and how many SmartCuckoo walks into.

use crate::scale::Scale;
use crate::stats::Mean;
use crate::{Axis, LabError, Line, Plot, Progress, ReproReport, ReproRow, Result, Source, threads};
use farslot_local::counting::{Step, WhenFull, failed_at_occupancy, fill};
use farslot_local::{CuckooWithStash, LocalTable, SmartCuckooMap};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::hash::{BuildHasherDefault, DefaultHasher};

pub(crate) const ID: &str = "004-fig1";

/// Some seconds.
pub(crate) const SCALE: Scale = Scale {
    slots: 1 << 20,
    tables: 4,
    lookups: 1,
    seed: 0,
};

/// The figure's occupancies, as far as they are in its text or follow from random-graph theory.
const OCCUPANCIES: [f64; 6] = [0.4, 0.5, 0.6, 0.7, 0.8, 0.9];

type LoopHashing = BuildHasherDefault<DefaultHasher>;

/// The paper's RandomInteger: uniform 32-bit integers.
pub(crate) fn random_integers(seed: u64) -> impl Iterator<Item = u32> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    std::iter::repeat_with(move || random.next_u32())
}

/// A table of exactly so many one-slot buckets and no stash.
pub(crate) fn smart(slots: u64) -> Result<SmartCuckooMap<u32, u32, LoopHashing>> {
    let of_slots = usize::try_from(slots).unwrap_or(usize::MAX);
    let map = SmartCuckooMap::with_slots_and_hasher(of_slots, LoopHashing::default());
    let mut map = map.map_err(|error| LabError::bad("slots", slots, error.to_string()))?;
    map.set_stash_limit(0);
    map.track_subgraphs();
    Ok(map)
}

/// The designs of the figure and of its explanation.
const DESIGNS: [&str; 2] = ["CHS", "SmartCuckoo"];

/// Measures it.
pub(crate) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let tables = scale.tables as usize;
    let filled = threads::in_order(DESIGNS.len() * tables, |number| {
        let (design, table) = (number / tables, number % tables);
        progress(DESIGNS[design]);
        let keys = random_integers(scale.seed_of(table as u32));
        let steps = match design {
            0 => {
                let slots = scale.slots as usize;
                let mut chs = CuckooWithStash::with_slots(slots, 0, LoopHashing::default());
                offered(&mut chs, keys)
            }
            _ => offered(&mut smart(scale.slots)?, keys),
        };
        Ok(steps)
    })?;
    let mut rows = Vec::new();
    let mut lines = Vec::new();
    for (design, steps) in DESIGNS.into_iter().zip(filled.chunks(tables)) {
        let at = |step: usize, of: fn(&Step) -> f64| {
            Mean::of(steps.iter().map(|table| of(&table[step])))
        };
        let mut points = Vec::new();
        for (step, occupancy) in OCCUPANCIES.into_iter().enumerate() {
            let failed = at(step, |step| 100.0 * step.failed_so_far());
            points.push((occupancy, failed.mean));
            let cell = format!("failed insertions so far (%), {design}, occupancy {occupancy}");
            rows.push(ReproRow {
                model: Some(100.0 * failed_at_occupancy(occupancy)),
                ..failed.row(cell, None)
            });
        }
        for (step, occupancy) in OCCUPANCIES.into_iter().enumerate() {
            let walked = at(step, |step| {
                100.0 * step.so_far.failed_walks as f64 / step.so_far.offered() as f64
            });
            let cell = format!("walks in vain so far (%), {design}, occupancy {occupancy}");
            rows.push(walked.row(cell, None));
        }
        lines.push(Line::ours(design, points));
    }
    lines.push(Line {
        name: "random graphs".into(),
        source: Source::Model,
        points: OCCUPANCIES
            .map(|occupancy| (occupancy, 100.0 * failed_at_occupancy(occupancy)))
            .into(),
    });
    Ok(ReproReport {
        id: ID,
        setup: format!(
            "RandomInteger: uniform 32-bit keys into two tables of {} one-slot buckets in all, insertions without \
             a place dropped, means over {tables} tables. The paper's text says more than 25 % at 0.9; its figure \
             gives no numbers. CHS gives a walk up after 500 kick-outs, so that it fails somewhat more often. \
             A map that keeps what it is given ends at an occupancy of 0.5.",
            scale.slots
        ),
        rows,
        plots: vec![Plot {
            title: "failed insertions so far by occupancy".into(),
            x: Axis::linear("occupancy"),
            y: Axis::linear("failed insertions so far (%)"),
            lines,
        }],
    })
}

fn offered(table: &mut impl LocalTable<u32, u32>, keys: impl Iterator<Item = u32>) -> Vec<Step> {
    fill(table, keys, &OCCUPANCIES, WhenFull::Drop)
}
