//! Whether the simulator agrees: each ranked scheme as a small table of the same load factor and the same
//! slots, looked up behind the same NIC. Lookups only; updates and puts are not simulated.

use super::candidates::{Plan, Reads, lookup_order};
use super::{Question, Ranked};
use crate::answers::Answers;
use crate::simulated::{
    Answer, Ask, BuiltSealed, Experiment, Filling, OpenCuckoo, OpenLinear, OpenSealed, OpenTable,
    Records, TABLE_AT, TableMemory, Until, WARM_UP, Zipf, built_cuckoo,
};
use crate::{BenchError, Progress, Result};
use farslot::index::cuckoo::{CuckooLayout, CuckooTable, LookupOrder};
use farslot::index::linear::{LinearLayout, ReadPolicy, ReadSizes};
use farslot::index::sealed::SealedOptions;
use farslot::index::{FieldSize, Hasher, Index, SlotKind};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use std::rc::Rc;

/// Bytes of the keys of the records that are simulated; values have the rest.
const KEY_BYTES: usize = 4;
/// Client threads and lookups under way of each that saturate a NIC.
const THREADS: usize = 28;
const WIDTH: usize = 8;

/// The most memory of a table that is simulated, and the fewest slots that mean anything.
const MOST_BYTES: f64 = (256 << 20) as f64;
const FEWEST_SLOTS: u64 = 1 << 12;
/// Rankings of the keys over which skewed lookups are averaged: in one table few keys have most of the lookups, and
/// each of them one place.
const RANKINGS: u32 = 4;

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

/// What a check says of a scheme.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Checked {
    /// It was simulated.
    Simulated(CheckRow),
    /// It was not.
    Not {
        /// What it is called.
        scheme: String,
        /// Why not.
        why: String,
    },
}

/// Simulates ranked schemes, as far as they can be.
///
/// # Errors
/// [`BenchError::BadOption`] for a check of no size, or what a table says.
pub fn check(
    question: &Question,
    ranked: &[Ranked],
    options: &CheckOptions,
    progress: Progress<'_>,
) -> Result<Vec<Checked>> {
    if !(1 << 10..=1 << 24).contains(&options.slots) {
        return Err(BenchError::bad("slots", options.slots, "from 2^10 to 2^24"));
    }
    if options.lookups == 0 {
        return Err(BenchError::bad("lookups", 0, "at least 1"));
    }
    let mut rows = Vec::with_capacity(ranked.len());
    let mut cuckoo = LastCuckoo::default();
    for row in by_tables(ranked) {
        let ranked = &ranked[row];
        progress(&ranked.scheme);
        let checked = match slots_of_check(question, &ranked.plan, options) {
            Ok(slots) => {
                let options = CheckOptions { slots, ..*options };
                Checked::Simulated(simulate(question, ranked, &options, &mut cuckoo)?)
            }
            Err(why) => Checked::Not {
                scheme: ranked.scheme.clone(),
                why,
            },
        };
        rows.push((row, checked));
    }
    rows.sort_unstable_by_key(|(row, _)| *row);
    Ok(rows.into_iter().map(|(_, checked)| checked).collect())
}

/// The rows in an order in which schemes that only read the same cuckoo table differently stand together.
fn by_tables(ranked: &[Ranked]) -> Vec<usize> {
    let table = |row: usize| match &ranked[row].plan.reads {
        Reads::Cuckoo { layout, .. } => Some((layout, ranked[row].plan.load)),
        _ => None,
    };
    let first_with_it = |row: usize| {
        let mut before = 0..row;
        let same = before.find(|other| table(row).is_some() && table(*other) == table(row));
        same.unwrap_or(row)
    };
    let mut rows: Vec<usize> = (0..ranked.len()).collect();
    rows.sort_by_key(|row| first_with_it(*row));
    rows
}

/// The cuckoo table that was made last, with its layout and how many records it has.
#[derive(Default)]
struct LastCuckoo(Option<(CuckooLayout, u32, TableMemory)>);

impl LastCuckoo {
    /// A table of this layout that holds the records. Which these are follows, in one check, from the layout and from
    /// how many there are.
    fn table(
        &mut self,
        layout: &CuckooLayout,
        sealed: bool,
        records: &Records,
    ) -> Result<&TableMemory> {
        let is_it = |(made, count, _): &(CuckooLayout, u32, TableMemory)| {
            made == layout && *count == records.count()
        };
        let last = match self.0.take().filter(is_it) {
            Some(last) => last,
            None => {
                let memory = if sealed {
                    built_cuckoo(layout, records)?
                } else {
                    inserted_cuckoo(layout, records)?
                };
                (layout.clone(), records.count(), memory)
            }
        };
        Ok(&self.0.insert(last).2)
    }
}

/// Slots of the table to simulate, or why it cannot be.
fn slots_of_check(
    question: &Question,
    plan: &Plan,
    options: &CheckOptions,
) -> std::result::Result<u64, String> {
    if question.updates > 0.0 && matches!(plan.kind, SlotKind::Inline | SlotKind::Hybrid) {
        return Err("updates are not simulated, and in it they move values out of band".into());
    }
    let is_small = matches!(plan.kind, SlotKind::Word | SlotKind::Pair);
    for size in question.record_sizes() {
        let most = KEY_BYTES + usize::from(u16::MAX);
        if !(KEY_BYTES..=most).contains(&size.bytes) && !is_small {
            return Err(format!(
                "records of {KEY_BYTES} to {most} bytes are simulated"
            ));
        }
    }
    let slot_bytes = plan.reads.table_bytes() as f64 / plan.reads.slots() as f64;
    let mut slots = options.slots;
    while slots as f64 * slot_bytes > MOST_BYTES {
        slots /= 2;
        if slots < FEWEST_SLOTS {
            return Err("its records are too large for a table in memory".into());
        }
    }
    Ok(slots)
}

/// Records of the same sizes, so many.
pub(super) fn small_records(question: &Question, plan: &Plan, seed: u64, count: u32) -> Records {
    if matches!(plan.kind, SlotKind::Word | SlotKind::Pair) {
        // Any such record fills such a slot.
        return Records::distinct(seed, count, KEY_BYTES);
    }
    let sizes = question.record_sizes();
    if let [one] = &sizes[..] {
        return Records::distinct(seed, count, one.bytes - KEY_BYTES);
    }
    let total: f64 = sizes.iter().map(|size| size.weight).sum();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut draw = || {
        let mut weight = random.random_range(0.0..total);
        let drawn = sizes.iter().find(|size| {
            weight -= size.weight;
            weight < 0.0
        });
        (drawn.unwrap_or(&sizes[0]).bytes - KEY_BYTES) as u16
    };
    Records::varied(seed, (0..count).map(|_| draw()))
}

/// The sizes of the keys and values of records that are simulated.
fn field_sizes(question: &Question, plan: &Plan) -> (FieldSize, FieldSize) {
    let small = matches!(plan.kind, SlotKind::Word | SlotKind::Pair);
    let largest = question.record_sizes().iter().map(|size| size.bytes).max();
    let value = match largest {
        Some(bytes) if !small => (bytes - KEY_BYTES) as u32,
        _ => KEY_BYTES as u32,
    };
    let value = match question.values.len() {
        1 => FieldSize::Fixed(value),
        _ => FieldSize::UpTo(value),
    };
    (FieldSize::Fixed(KEY_BYTES as u32), value)
}

/// A small table like a linear one, filled.
pub(super) fn small_linear(
    question: &Question,
    plan: &Plan,
    layout: &LinearLayout,
    options: &CheckOptions,
    records: &Records,
) -> Result<Filling> {
    let (key, value) = field_sizes(question, plan);
    let layout = LinearLayout {
        slots: options.slots,
        key,
        value,
        hasher: Hasher::Xxh3 { seed: options.seed },
        longest_probe: layout.longest_probe.min(options.slots),
        heap_bytes: heap_bytes(plan.kind, layout.heap_bytes, layout.slots, options.slots),
        ..layout.clone()
    };
    let mut filling = Filling::new(layout)?;
    filling.fill_with(records)?;
    Ok(filling)
}

fn simulate(
    question: &Question,
    ranked: &Ranked,
    options: &CheckOptions,
    cuckoo: &mut LastCuckoo,
) -> Result<CheckRow> {
    let plan = &ranked.plan;
    let count = (options.slots as f64 * plan.load).round() as u32;
    let records = small_records(question, plan, options.seed, count);
    let (key, value) = field_sizes(question, plan);
    let hasher = Hasher::Xxh3 { seed: options.seed };
    let run = Run {
        question,
        ranked,
        options,
        records: &records,
    };
    match &plan.reads {
        Reads::Linear { layout, read_slots } => {
            let filling = small_linear(question, plan, layout, options, &records)?;
            let layout = filling.layout().clone();
            let sizes = ReadSizes::new(&layout, ReadPolicy::Fixed(*read_slots as u32))?;
            let table = OpenLinear {
                layout,
                sizes,
                hints: 0,
            };
            run.measure(filling.memory(), table, 0.0)
        }
        Reads::Sealed { layout, read_slots } => {
            let sealed = SealedOptions {
                load_factor: plan.load,
                form: Some(layout.form),
                offset_bytes: (layout.offset_bytes > 0).then_some(layout.offset_bytes),
                order: layout.order,
                keys: layout.keys,
                hasher,
                ..SealedOptions::new(key, value, options.seed)
            };
            let built = BuiltSealed::new(&sealed, &records)?;
            let table = OpenSealed {
                layout: built.layout.clone(),
                read_size: *read_slots as u32,
            };
            run.measure(&built.memory, table, 0.0)
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
            let memory = cuckoo.table(&layout, *sealed, &records)?;
            // The READ of the count of displacements is none of slots or records.
            let uncounted = if *sealed {
                0.0
            } else {
                1.0 - question.hit_ratio
            };
            let order = lookup_order(*reads);
            run.measure(memory, OpenCuckoo { layout, order }, uncounted)
        }
    }
}

/// A heap for a smaller table, with room for what a client takes at a time.
fn heap_bytes(kind: SlotKind, bytes: u64, slots: u64, of: u64) -> u64 {
    if matches!(kind, SlotKind::Word | SlotKind::Pair) {
        return 0;
    }
    let part = bytes as f64 * (of as f64 / slots as f64);
    (part * 1.1 + f64::from(8 << 20)) as u64 / 64 * 64
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
        let question = self.question;
        let rankings = if question.skew > 0.0 { RANKINGS } else { 1 };
        let ask = |ranking: u32| match question.skew {
            0.0 => Ask::Mixed {
                hit_ratio: question.hit_ratio,
            },
            skew => Ask::MixedPopular {
                hit_ratio: question.hit_ratio,
                popularity: Zipf::new(self.records.count(), skew),
                ranking,
            },
        };
        let answer = match question.unique {
            true => Answer::Value,
            false => Answer::AllRecords,
        };
        let experiment = |ranking, threads, width, lookups: u64| Experiment {
            table: table.clone(),
            records: self.records.clone(),
            ask: ask(ranking),
            answer,
            threads,
            width,
            warm_up: WARM_UP,
            until: Until::SettledLookups(lookups),
            seed: self.options.seed,
        };
        let world = || memory.world(self.options.seed, question.profile.clone());
        // Lookups, the time they took, and their READs.
        let measured = |threads, width, lookups: u64| -> Result<(f64, f64, f64)> {
            let mut sums = (0.0, 0.0, 0.0);
            for ranking in 0..rankings {
                let one = experiment(ranking, threads, width, lookups).run(world()?)?;
                let lookups = one.lookups as f64;
                sums.0 += lookups;
                sums.1 += one.span as f64;
                sums.2 += one.reads_per_lookup() * lookups;
            }
            Ok(sums)
        };
        let busy = measured(THREADS, WIDTH, self.options.lookups)?;
        let idle = measured(1, 1, self.options.lookups / 2 + 1)?;
        let latency_ns = idle.1 / idle.0;
        let (rate, reads) = (busy.0 * 1e9 / busy.1, busy.2 / busy.0);
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
