//! Paper 004's future work: several hash functions and slots. How full such tables get, how many
//! buckets an insertion reads, and how many failures the vacant slots of connected components do
//! not tell.

use super::loop_ratio::random_integers;
use crate::scale::Scale;
use crate::{LabError, Progress, ReproReport, ReproRow, Result, threads};
use farslot_local::counting::{SpareBound, WhenFull, fill, occupancy, spare_bound_error};
use farslot_local::{LocalTable, SeveralCuckoo};
use std::hash::{BuildHasherDefault, DefaultHasher};

pub(crate) const ID: &str = "004-several";

/// Some seconds.
pub(crate) const SCALE: Scale = Scale {
    slots: 1 << 16,
    tables: 1,
    lookups: 1,
    seed: 0,
};

/// Hash functions and slots of a bucket, and the load at which random keys stop fitting:
/// Fountoulakis and Panagiotou ("Sharp load thresholds for cuckoo hashing", 2012) for one slot,
/// Fernholz and Ramachandran (2007) and Cain, Sanders and Wormald (2007) for two ways.
const SHAPES: [(usize, usize, f64); 6] = [
    (2, 1, 0.5),
    (2, 2, 0.897),
    (2, 4, 0.980),
    (3, 1, 0.918),
    (3, 2, 0.988),
    (4, 1, 0.977),
];

type Hashing = BuildHasherDefault<DefaultHasher>;

struct WaysMeasurement {
    full_at: f64,
    bound: SpareBound,
    known: f64,
    overhead: f64,
}

/// Measures it.
pub(crate) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let measured = threads::in_order(SHAPES.len(), |number| {
        progress(&name(number));
        measure(scale, number)
    })?;
    let mut rows = Vec::new();
    for (number, measured) in measured.iter().enumerate() {
        let name = name(number);
        rows.push(ReproRow {
            model: Some(SHAPES[number].2),
            ..ReproRow::new(
                format!("load at the first failure, {name}"),
                None,
                measured.full_at,
            )
        });
        let failures = measured.bound.failures.max(1) as f64;
        rows.push(ReproRow::new(
            format!("failures that component capacity takes for possible (%), {name}"),
            None,
            100.0 * measured.bound.falsely_possible as f64 / failures,
        ));
        rows.push(ReproRow::new(
            format!("failures known without a search (%), {name}"),
            None,
            100.0 * measured.known,
        ));
        rows.push(ReproRow::new(
            format!("bytes of closed sets a slot, at most, {name}"),
            None,
            measured.overhead,
        ));
    }
    Ok(ReproReport {
        id: ID,
        setup: format!(
            "RandomInteger into tables of {} slots. Failures: those of the insertions that take a table 0.01 of its slots \
             past the first one, dropped. All of them are known before anything moves: by a set of full \
             buckets that was found before, or else by the read-only search that finds it.",
            scale.slots
        ),
        rows,
        plots: Vec::new(),
    })
}

fn name(number: usize) -> String {
    let (ways, slots, _) = SHAPES[number];
    let plural = if slots == 1 { "" } else { "s" };
    format!("{ways} ways, {slots} slot{plural}")
}

fn table<V>(scale: &Scale, number: usize) -> Result<SeveralCuckoo<u32, V, Hashing>> {
    let (ways, bucket_slots, _) = SHAPES[number];
    let slots = scale.slots as usize;
    SeveralCuckoo::with_shape(ways, bucket_slots, slots, Hashing::default())
        .map_err(|error| LabError::bad("slots", scale.slots, error.to_string()))
}

fn measure(scale: &Scale, number: usize) -> Result<WaysMeasurement> {
    let keys = || random_integers(scale.seed_of(0));
    let mut filled = table::<()>(scale, number)?;
    fill(&mut filled, keys(), &[1.0], WhenFull::Stop);
    let full_at = occupancy(&filled);
    let mut dropping = table::<()>(scale, number)?;
    let to = (full_at + 0.01).min(0.9999);
    let steps = spare_bound_error(&mut dropping, keys(), &[to]);
    let bound = steps
        .first()
        .copied()
        .ok_or(LabError::wrong(1, scale.slots))?;
    let counters = dropping.counters();
    // Of a slot, beside its key and what tells whether it is vacant.
    let option = size_of::<Option<(u32, ())>>() - size_of::<u32>();
    Ok(WaysMeasurement {
        full_at,
        bound,
        known: counters.known_failures as f64 / (counters.failures as f64).max(1.0),
        overhead: dropping.overhead_per_slot() - option as f64,
    })
}
