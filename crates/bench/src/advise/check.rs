//! Whether the simulator agrees: each ranked scheme as a small table of the same load factor and the same
//! slots, looked up behind the same NIC. Lookups only; updates are not simulated.

use super::candidates::{Plan, Reads, lookup_order};
use super::{Question, Ranked};
use crate::answers::Answers;
use crate::simulated::{
    Answer, Ask, Experiment, Filling, OpenCuckoo, OpenLinear, OpenTable, Records, TABLE_AT,
    TableMemory, Until, WARM_UP, built_cuckoo,
};
use crate::{BenchError, Progress, Result};
use farslot::index::cuckoo::{CuckooLayout, CuckooTable, LookupOrder};
use farslot::index::linear::{LinearLayout, ReadPolicy, ReadSizes};
use farslot::index::{FieldSize, Hasher, Index, SlotKind};
use serde::Serialize;
use std::rc::Rc;

/// Bytes of the keys of the records that are simulated; values have the rest.
const KEY_BYTES: usize = 4;
/// Client threads and lookups under way of each that saturate a NIC.
const THREADS: usize = 28;
const WIDTH: usize = 8;

/// How large a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckOptions {
    /// Slots of the tables.
    pub slots: u64,
    /// Lookups of each measurement.
    pub lookups: u64,
    /// What all chance derives from.
    pub seed: u64,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self {
            slots: 1 << 18,
            lookups: 40_000,
            seed: 0,
        }
    }
}

/// A scheme as it was predicted and simulated.
#[derive(Clone, Debug, Serialize)]
pub struct CheckRow {
    /// What it is called.
    pub scheme: String,
    /// Lookups/s, simulated.
    pub lookups_per_second: f64,
    /// READs of slots and records of a lookup, simulated.
    pub reads: f64,
    /// The mean latency of one lookup at a time, in ns, simulated.
    pub latency_ns: f64,
    /// Lookups/s, predicted divided by simulated.
    pub throughput_ratio: f64,
    /// READs, predicted divided by simulated.
    pub reads_ratio: f64,
    /// Latency, predicted divided by simulated.
    pub latency_ratio: f64,
}

impl CheckRow {
    /// The largest of the errors, as a part of what was simulated.
    #[must_use]
    pub fn worst_error(&self) -> f64 {
        let errors = [self.throughput_ratio, self.reads_ratio, self.latency_ratio];
        errors
            .into_iter()
            .map(|ratio| (ratio - 1.0).abs())
            .fold(0.0, f64::max)
    }
}

/// Simulates ranked schemes.
///
/// # Errors
/// [`BenchError::BadOption`] for what cannot be simulated (updates, keys with several records, values of several
/// sizes), or what a table says.
pub fn check(
    question: &Question,
    ranked: &[Ranked],
    options: &CheckOptions,
    progress: Progress<'_>,
) -> Result<Vec<CheckRow>> {
    let cannot = |option, value: String, limit: &str| BenchError::BadOption {
        option,
        value,
        limit: limit.into(),
    };
    if question.updates > 0.0 {
        let value = question.updates.to_string();
        return Err(cannot(
            "updates",
            value,
            "0 for a check: it simulates lookups",
        ));
    }
    if !question.unique || question.values.len() != 1 {
        let limit = "one value size and one record a key, for a check";
        return Err(cannot("records", "several".into(), limit));
    }
    if !(1 << 10..=1 << 24).contains(&options.slots) {
        return Err(BenchError::bad("slots", options.slots, "from 2^10 to 2^24"));
    }
    if options.lookups == 0 {
        return Err(BenchError::bad("lookups", 0, "at least 1"));
    }
    let rows = ranked.iter().map(|ranked| {
        progress(&ranked.scheme);
        simulate(question, ranked, options)
    });
    rows.collect()
}

fn simulate(question: &Question, ranked: &Ranked, options: &CheckOptions) -> Result<CheckRow> {
    let plan = &ranked.plan;
    let count = (options.slots as f64 * plan.load).round() as u32;
    let records = Records::distinct(options.seed, count, value_bytes(question, plan)?);
    let (key, value) = (
        FieldSize::Fixed(KEY_BYTES as u32),
        FieldSize::Fixed(records.value_bytes() as u32),
    );
    let hasher = Hasher::Xxh3 { seed: options.seed };
    let run = Run {
        question,
        ranked,
        options,
        records: &records,
    };
    match &plan.reads {
        Reads::Linear { layout, read_slots } => {
            let layout = LinearLayout {
                slots: options.slots,
                key,
                value,
                hasher,
                longest_probe: layout.longest_probe.min(options.slots),
                heap_bytes: heap_bytes(plan.kind, layout.heap_bytes, layout.slots, options.slots),
                ..layout.clone()
            };
            let mut filling = Filling::new(layout.clone())?;
            filling.fill_with(&records)?;
            let sizes = ReadSizes::new(&layout, ReadPolicy::Fixed(*read_slots as u32))?;
            run.measure(
                filling.memory(),
                OpenLinear {
                    layout,
                    sizes,
                    hints: 0,
                },
                0.0,
            )
        }
        Reads::Cuckoo {
            layout,
            reads,
            sealed,
            ..
        } => {
            let layout = CuckooLayout {
                buckets: options.slots / u64::from(layout.bucket_slots),
                key,
                value,
                hasher,
                heap_bytes: heap_bytes(plan.kind, layout.heap_bytes, layout.slots(), options.slots),
                ..layout.clone()
            };
            let memory = if *sealed {
                built_cuckoo(&layout, &records)?
            } else {
                inserted_cuckoo(&layout, &records)?
            };
            // The READ of the count of displacements is none of slots or records.
            let uncounted = if *sealed {
                0.0
            } else {
                1.0 - question.hit_ratio
            };
            let order = lookup_order(*reads);
            run.measure(&memory, OpenCuckoo { layout, order }, uncounted)
        }
    }
}

/// Bytes of the values with which records take as much as those asked about.
fn value_bytes(question: &Question, plan: &Plan) -> Result<usize> {
    let (value, _) = question.values[0];
    if matches!(plan.kind, SlotKind::Word | SlotKind::Pair) {
        // Any such record fills such a slot.
        return Ok(KEY_BYTES);
    }
    let all = question.key as usize + value as usize;
    all.checked_sub(KEY_BYTES)
        .ok_or_else(|| BenchError::BadOption {
            option: "record size",
            value: all.to_string(),
            limit: format!("at least {KEY_BYTES} bytes for a check"),
        })
}

/// A heap for a smaller table, with room for what a client takes at a time.
fn heap_bytes(kind: SlotKind, bytes: u64, slots: u64, of: u64) -> u64 {
    if matches!(kind, SlotKind::Word | SlotKind::Pair) {
        return 0;
    }
    let part = bytes as f64 * (of as f64 / slots as f64);
    (part * 1.1 + f64::from(2 << 20)) as u64 / 64 * 64
}

/// The memory of a cuckoo table into which records were put one after the other.
fn inserted_cuckoo(layout: &CuckooLayout, records: &Records) -> Result<TableMemory> {
    let memory = TableMemory::new(layout.table_bytes())?;
    let executor = memory.executor();
    let endpoint = Rc::clone(executor.endpoint());
    let opening = CuckooTable::open(endpoint, TABLE_AT, layout.clone(), LookupOrder::Parallel);
    let table = executor.block_on(opening)?;
    let mut answers = Answers::default();
    executor.block_on(async {
        for record in 0..records.count() {
            let (key, value) = (records.key(record), records.value(record));
            answers.note(table.put(&key, &value).await);
        }
    });
    answers.check()?;
    executor.block_on(table.flush())?;
    drop(table);
    Ok(memory)
}

/// The measurements of one scheme.
struct Run<'r> {
    question: &'r Question,
    ranked: &'r Ranked,
    options: &'r CheckOptions,
    records: &'r Records,
}

impl Run<'_> {
    /// Measures a table with many lookups under way, and with one.
    fn measure<T: OpenTable>(
        &self,
        memory: &TableMemory,
        table: T,
        uncounted: f64,
    ) -> Result<CheckRow> {
        let experiment = |threads, width, lookups| Experiment {
            table: table.clone(),
            records: self.records.clone(),
            ask: Ask::Mixed {
                hit_ratio: self.question.hit_ratio,
            },
            answer: Answer::Value,
            threads,
            width,
            warm_up: WARM_UP,
            until: Until::SettledLookups(lookups),
            seed: self.options.seed,
        };
        let profile = &self.question.profile;
        let world = || memory.world(self.options.seed, profile.clone());
        let busy = experiment(THREADS, WIDTH, self.options.lookups).run(world()?)?;
        let idle = experiment(1, 1, self.options.lookups / 4 + 1).run(world()?)?;
        let latency_ns = idle.span as f64 / idle.lookups as f64;
        let (rate, reads) = (busy.lookups_per_second(), busy.reads_per_lookup());
        let ranked = self.ranked;
        Ok(CheckRow {
            scheme: ranked.scheme.clone(),
            lookups_per_second: rate,
            reads,
            latency_ns,
            throughput_ratio: ranked.lookups_per_second / rate,
            reads_ratio: (ranked.reads - uncounted) / reads,
            latency_ratio: ranked.latency_ns / latency_ns,
        })
    }
}
