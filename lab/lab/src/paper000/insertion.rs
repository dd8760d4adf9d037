//! What an insertion into a cuckoo table costs by load factor: verbs, round trips one after the
//! other, and records that are displaced. Paper 000 says that this is what forbids high load
//! factors.

use super::cuckoo_tables::HashingShape;
use super::published;
use crate::scale::Scale;
use crate::{Axis, LabError, Line, Plot, Progress, ReproReport, ReproRow, Result, threads};
use farslot::bare::Leased;
use farslot::fabric::{Endpoint, Executor, OperationCounters};
use farslot::index::cuckoo::{CuckooTable, LookupOrder};
use farslot::index::{IndexError, IndexExt, PUT};
use farslot_bench::simulated::{Records, TABLE_AT, TableMemory};
use std::rc::Rc;

pub(crate) const ID: &str = "000-insertion";

/// A quarter of a minute.
pub(crate) const SCALE: Scale = Scale {
    slots: 1 << 18,
    tables: 1,
    lookups: 1,
    seed: 0,
};

const SHAPES: [HashingShape; 5] = [
    shape(3, 4),
    shape(2, 4),
    shape(2, 8),
    shape(4, 1),
    shape(3, 1),
];

const fn shape(ways: u32, bucket_slots: u32) -> HashingShape {
    HashingShape { ways, bucket_slots }
}

/// Steps of the load factor.
const STEPS: u32 = 20;

/// What the insertions of one step have cost.
struct Step {
    load: f64,
    counted: OperationCounters,
    displaced: u64,
}

/// The steps of a table, and how full it was when it first refused a record.
struct FillSteps {
    steps: Vec<Step>,
    full_at: f64,
}

/// Counts it.
pub(crate) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let tables = threads::in_order(SHAPES.len(), |number| {
        progress(&name(SHAPES[number]));
        fill(scale, SHAPES[number])
    })?;
    let mut rows = Vec::new();
    for (shape, table) in SHAPES.into_iter().zip(&tables) {
        for step in &table.steps {
            for (label, _, of) in COSTS {
                let cell = format!(
                    "{label} an insertion, {}, load up to {:.2}",
                    name(shape),
                    step.load
                );
                rows.push(ReproRow::new(cell, None, of(step)));
            }
        }
        let cell = format!("load at the first refusal, {}", name(shape));
        rows.push(ReproRow::new(cell, None, table.full_at));
    }
    let plots = COSTS.map(|(cost, label, of)| {
        let lines = SHAPES.into_iter().zip(&tables).map(|(shape, table)| {
            let points = table.steps.iter().map(|step| (step.load, of(step)));
            Line::ours(name(shape), points.collect())
        });
        Plot {
            title: format!("{cost} an insertion by load factor"),
            x: Axis::linear("load factor"),
            y: Axis::linear(label),
            lines: lines.collect(),
        }
    });
    Ok(ReproReport {
        id: ID,
        setup: format!(
            "Tables of {} slots of 8 bytes, filled by single insertions from one client that looks up in parallel; \
             counted by its endpoint, means over steps of {} % of the table.",
            scale.slots,
            100 / STEPS
        ),
        rows,
        plots: plots.into(),
    })
}

/// A cost: its name, the label of its axis, and how it follows from what was counted.
type Cost = (&'static str, &'static str, fn(&Step) -> f64);

const COSTS: [Cost; 3] = [
    ("verbs", "verbs", |step| {
        step.counted.verbs as f64 / step.counted.count as f64
    }),
    ("round trips", "round trips", |step| {
        step.counted.round_trips as f64 / step.counted.count as f64
    }),
    ("displaced records", "records", |step| {
        step.displaced as f64 / step.counted.count as f64
    }),
];

fn name(shape: HashingShape) -> String {
    let plural = if shape.bucket_slots == 1 { "" } else { "s" };
    format!("{}-way, {} slot{plural}", shape.ways, shape.bucket_slots)
}

fn fill(scale: &Scale, shape: HashingShape) -> Result<FillSteps> {
    let seed = scale.seed_of(0);
    let layout = shape.layout(scale.slots, seed)?;
    let slots = layout.slots();
    let memory = TableMemory::new(layout.table_bytes())?;
    let executor = memory.executor();
    let endpoint = Rc::clone(executor.endpoint());
    let opening = CuckooTable::open(endpoint, TABLE_AT, layout, LookupOrder::Parallel);
    let table = executor.block_on(opening)?;
    let records = published::distinct_records(seed, u32::try_from(slots).unwrap_or(u32::MAX));
    let mut filled = FillSteps {
        steps: Vec::new(),
        full_at: 1.0,
    };
    let mut held = 0;
    for step in 1..=STEPS {
        let wanted = (slots * u64::from(step) / u64::from(STEPS)) as u32;
        let counters = || executor.endpoint().core().counters.snapshot();
        let displaced = || executor.block_on(table.displacements());
        let (before, displaced_before) = (counters(), displaced()?);
        let until = executor.block_on(put(&table, &records, held..wanted))?;
        if until > held {
            filled.steps.push(Step {
                load: f64::from(until) / slots as f64,
                counted: counters().since(&before).operation(PUT),
                displaced: displaced()? - displaced_before,
            });
        }
        held = until;
        if held < wanted {
            filled.full_at = f64::from(held) / slots as f64;
            break;
        }
    }
    check(executor, &table, &records, held)?;
    Ok(filled)
}

/// Puts records; returns where it ended, which is before the range's end only if the table is full.
async fn put(
    table: &CuckooTable<Leased>,
    records: &Records,
    range: std::ops::Range<u32>,
) -> Result<u32> {
    for record in range.clone() {
        match table
            .put(&records.key(record), &records.value(record))
            .await
        {
            Ok(true) => {}
            Ok(false) => {
                return Err(LabError::wrong(1, u64::from(record)));
            }
            Err(IndexError::Full { .. }) => return Ok(record),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(range.end)
}

/// An error unless all records are there.
fn check(
    executor: &Executor<Leased>,
    table: &CuckooTable<Leased>,
    records: &Records,
    held: u32,
) -> Result<()> {
    let keys: Vec<_> = (0..held).map(|record| records.key(record)).collect();
    let mut answers = farslot_bench::Answers::default();
    let gets = table.get_many(keys.iter().map(|key| &key[..]), |record, value| {
        let is_right = |value: Option<farslot::index::Value>| {
            value.is_some_and(|value| records.is_value(record as u32, &value))
        };
        answers.note(value.map(is_right));
    });
    executor.block_on(gets);
    Ok(answers.check()?)
}
