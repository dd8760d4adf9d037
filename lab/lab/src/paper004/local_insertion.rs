//! What an insertion into the tables of paper 004 costs by occupancy, counted: buckets read,
//! records moved, and walks in vain.

use super::loop_ratio::{random_integers, smart};
use crate::scale::Scale;
use crate::{Axis, Line, Plot, Progress, ReproReport, ReproRow, Result, threads};
use farslot_local::counting::{Step, WhenFull, fill, replace};
use farslot_local::{BucketizedCuckoo, CuckooWithStash, LocalTable, OptimisticCuckoo};
use std::hash::{BuildHasherDefault, DefaultHasher};

pub(crate) const ID: &str = "004-insertion";

/// Some seconds.
pub(crate) const SCALE: Scale = Scale {
    slots: 1 << 20,
    tables: 1,
    lookups: 1,
    seed: 0,
};

const OCCUPANCIES: [f64; 10] = [0.1, 0.2, 0.3, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9];

type PlainHashing = BuildHasherDefault<DefaultHasher>;

const DESIGNS: [&str; 4] = ["SmartCuckoo", "CHS", "BCHT", "libcuckoo-like"];

/// A cost: its name, and how it follows from a step.
type Cost = (&'static str, fn(&Step) -> f64);

const COSTS: [Cost; 3] = [
    ("bucket probes", |step| {
        step.per_insertion(|counted| counted.bucket_probes)
    }),
    ("kick-outs", |step| {
        step.per_insertion(|counted| counted.kick_outs)
    }),
    ("walks in vain", |step| {
        step.per_insertion(|counted| counted.failed_walks)
    }),
];

/// Occupancies at which records are then removed and others inserted, and how often, by the slots.
const REPLACED_AT: [f64; 2] = [0.45, 0.8];
const REPLACED: u64 = 2;

/// Counts it.
pub(crate) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let slots = scale.slots as usize;
    let filled = threads::in_order(DESIGNS.len(), |design| {
        progress(DESIGNS[design]);
        let keys = random_integers(scale.seed_of(0));
        let hashing = PlainHashing::default();
        let drop = WhenFull::Drop;
        Ok(match design {
            0 => fill(&mut smart(scale.slots)?, keys, &OCCUPANCIES, drop),
            1 => {
                let mut table = CuckooWithStash::<u32, u32, _>::with_slots(slots, 0, hashing);
                fill(&mut table, keys, &OCCUPANCIES, drop)
            }
            2 => {
                let mut table = BucketizedCuckoo::<u32, u32, _>::with_slots(slots, 0, hashing);
                fill(&mut table, keys, &OCCUPANCIES, drop)
            }
            _ => {
                let mut table =
                    OptimisticCuckoo::<u32, u32, _>::with_slots_and_hasher(slots, hashing);
                fill(&mut table, keys, &OCCUPANCIES, drop)
            }
        })
    })?;
    let mut rows = Vec::new();
    for (design, steps) in DESIGNS.into_iter().zip(&filled) {
        for step in steps {
            for (label, of) in COSTS {
                let cell = format!(
                    "{label} an insertion, {design}, occupancy up to {:.2}",
                    step.occupancy
                );
                rows.push(ReproRow::new(cell, None, of(step)));
            }
        }
    }
    rows.extend(after_removals(scale, progress)?);
    let plots = COSTS.map(|(label, of)| {
        let lines = DESIGNS.into_iter().zip(&filled).map(|(design, steps)| {
            let points = steps.iter().map(|step| (step.occupancy, of(step)));
            Line::ours(design, points.collect())
        });
        Plot {
            title: format!("{label} an insertion by occupancy"),
            x: Axis::linear("occupancy"),
            y: Axis::linear(label),
            lines: lines.collect(),
        }
    });
    Ok(ReproReport {
        id: ID,
        setup: format!(
            "RandomInteger into tables of {} slots, counted; each row is of the insertions since the occupancy \
             of the row before. Insertions without a place are dropped; below 0.5 (SmartCuckoo, CHS) and 0.9 (BCHT, \
             libcuckoo-like) there are next to none. After removals: the oldest record is removed and new ones are              offered until one finds a place, {REPLACED} times as often as there are slots.",
            scale.slots
        ),
        rows,
        plots: plots.into(),
    })
}

/// What insertions cost where as many records are removed: the forest then knows less.
fn after_removals(scale: &Scale, progress: Progress<'_>) -> Result<Vec<ReproRow>> {
    let designs = &DESIGNS[..2];
    let jobs = designs.len() * REPLACED_AT.len();
    let rows = threads::in_order(jobs, |number| {
        let (design, at) = (designs[number % 2], REPLACED_AT[number / 2]);
        progress(&format!("{design} after removals"));
        let step = match number % 2 {
            0 => replaced(&mut smart(scale.slots)?, scale, at),
            _ => {
                let slots = scale.slots as usize;
                let mut table = CuckooWithStash::with_slots(slots, 0, PlainHashing::default());
                replaced(&mut table, scale, at)
            }
        };
        let cells = COSTS.map(|(label, of)| {
            let cell = format!("{label} an insertion, {design}, after removals at {at:.2}");
            ReproRow::new(cell, None, step.as_ref().map_or(0.0, of))
        });
        let rebuilds = ReproRow::new(
            format!("rebuilds, {design}, after removals at {at:.2}"),
            None,
            step.map_or(0.0, |step| step.in_step.rebuilds as f64),
        );
        Ok(cells.into_iter().chain([rebuilds]).collect::<Vec<_>>())
    })?;
    Ok(rows.into_iter().flatten().collect())
}

fn replaced(table: &mut impl LocalTable<u32, u32>, scale: &Scale, at: f64) -> Option<Step> {
    let mut keys = random_integers(scale.seed_of(0));
    let mut offered = Vec::new();
    let noted = keys.by_ref().inspect(|&key| offered.push(key));
    fill(table, noted, &[at], WhenFull::Drop);
    let held = offered.into_iter().filter(|key| table.get(key).is_some());
    let held = held.collect();
    replace(table, held, keys, (REPLACED * scale.slots) as usize)
}
