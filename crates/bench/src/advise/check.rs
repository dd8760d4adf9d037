//! Whether the simulator agrees: each ranked scheme as a small table of the same load factor and
//! the same slots, looked up behind the same NIC by many clients and by one; and updated, and put
//! into, by its writer.

use super::candidates::{Reads, lookup_order};
use super::small::{CheckOptions, Small, slots_of_check, small_records};
use super::{AdviceQuestion, Ranked, WritePrice};
use crate::simulated::{
    Answer, Ask, BuiltSealed, Experiment, Records, RunLimit, SimulatedTable, TableMemory, WARM_UP,
    WriteCost, Writes, WrittenTable, Zipf, built_cuckoo,
};
use crate::{BenchError, Progress, Result};
use farslot::index::Sizing;
use farslot::index::SlotKind;
use farslot::index::cuckoo::CuckooLayout;
use farslot::index::duo::DuoLayout;
use farslot::index::linear::LinearLayout;
use farslot::index::sealed::SealedOptions;
use farslot::layout::Scheme;
use farslot::{OpenOptions, ReadPolicy};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

/// Client threads and lookups under way of each that saturate a NIC.
const THREADS: usize = 28;
const WIDTH: usize = 8;
/// Rankings of the keys over which skewed lookups are averaged: in one table few keys have most of
/// the lookups, and each of them one place.
const RANKINGS: u32 = 4;
/// New keys are at most this part of those that are there: half of them before the load factor,
/// half beyond.
const MOST_NEW: u32 = 50;

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
    /// The replacement of a value, where the question has any.
    pub update: Option<WriteCheck>,
    /// The put of a new key, where the question has any.
    pub put: Option<WriteCheck>,
}

impl CheckRow {
    /// The largest of the errors, as a part of what was simulated.
    #[must_use]
    pub fn worst_error(&self) -> f64 {
        let lookups = [self.throughput_ratio, self.reads_ratio, self.latency_ratio];
        let writes = [&self.update, &self.put].into_iter().flatten();
        let writes = writes.flat_map(|write| {
            [
                write.verbs_ratio,
                write.bytes_ratio,
                write.round_trips_ratio,
                write.latency_ratio,
            ]
        });
        let errors = lookups.into_iter().chain(writes);
        let error = |ratio: f64| match ratio.is_finite() {
            true => (ratio - 1.0).abs(),
            false => f64::INFINITY,
        };
        errors.map(error).fold(0.0, f64::max)
    }
}

/// Writes of one client, one after the other on an idle network, as they were simulated. The client
/// is the table's writer already; what it counts for others is not in it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct WriteCheck {
    /// Verbs, simulated.
    pub verbs: f64,
    /// Round trips, simulated.
    pub round_trips: f64,
    /// The mean latency, in ns, simulated.
    pub latency_ns: f64,
    /// Verbs, predicted divided by simulated.
    pub verbs_ratio: f64,
    /// Round trips, predicted divided by simulated.
    pub round_trips_ratio: f64,
    /// Bytes of payload, predicted divided by simulated.
    pub bytes_ratio: f64,
    /// Latency, predicted divided by simulated.
    pub latency_ratio: f64,
}

impl WriteCheck {
    fn new(predicted: WritePrice, simulated: WriteCost) -> Self {
        Self {
            verbs: simulated.verbs,
            round_trips: simulated.round_trips,
            latency_ns: simulated.latency_ns,
            verbs_ratio: predicted.verbs / simulated.verbs,
            round_trips_ratio: predicted.round_trips / simulated.round_trips,
            bytes_ratio: predicted.bytes / simulated.bytes,
            latency_ratio: predicted.latency_ns / simulated.latency_ns,
        }
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
/// [`BenchError::BadOption`] for a check of no size, or of memory that no NIC reads, which is none
/// of the simulator's; or what a table says.
pub fn check(
    question: &AdviceQuestion,
    ranked: &[Ranked],
    options: &CheckOptions,
    progress: Progress<'_>,
) -> Result<Vec<Checked>> {
    if question.profile.processor.is_in_place() {
        let limit = "0 for a check: the simulator has NICs (`farslot bench lookup --fabric shm` measures lookups in mapped memory)";
        let line_ns = question.profile.processor.line_ns.to_string();
        return Err(BenchError::bad_text(
            "processor.line_ns of the profile",
            line_ns,
            limit,
        ));
    }
    if !(1 << 10..=1 << 24).contains(&options.slots) {
        return Err(BenchError::bad("slots", options.slots, "from 2^10 to 2^24"));
    }
    for (option, count) in [
        ("lookups", options.lookups),
        ("writes", options.writes.into()),
    ] {
        if count == 0 {
            return Err(BenchError::bad(option, 0, "at least 1"));
        }
    }
    let mut rows = Vec::with_capacity(ranked.len());
    let mut cuckoo = LastCuckoo::default();
    for row in by_tables(ranked) {
        let ranked = &ranked[row];
        progress(&ranked.scheme);
        let slots = match ranked.by_calls {
            true => Err("the owner executes it: there are no READs to simulate".into()),
            false if ranked.remembered > 0 => {
                Err("clients of the simulation remember no record locations".into())
            }
            false => slots_of_check(question, &ranked.plan, options),
        };
        let checked = match slots {
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

/// The rows in an order in which schemes that only read the same cuckoo table differently stand
/// together.
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

fn simulate(
    question: &AdviceQuestion,
    ranked: &Ranked,
    options: &CheckOptions,
    cuckoo: &mut LastCuckoo,
) -> Result<CheckRow> {
    let plan = &ranked.plan;
    let check = SchemeCheck::new(question, ranked, options);
    let small = Small::new(question, plan, options);
    match &plan.reads {
        Reads::Linear { layout, read_slots } => {
            let layout = small.linear(plan.kind, layout);
            check.linear(layout, *read_slots as u32)
        }
        Reads::Sealed { layout, read_slots } => {
            let sealed = SealedOptions {
                form: Some(layout.form),
                offset_bytes: (layout.offset_bytes > 0).then_some(layout.offset_bytes),
                order: layout.order,
                ..SealedOptions::new(Sizing {
                    load_factor: Some(plan.load),
                    keys: layout.keys,
                    hasher: small.hasher,
                    ..Sizing::new(0, small.key, small.value, options.seed)
                })
            };
            let built = BuiltSealed::new(&sealed, &check.records)?;
            let scheme = Scheme::Sealed(built.layout.clone());
            let policy = ReadPolicy::Fixed(*read_slots as u32);
            let table = SimulatedTable::by_policy(scheme, policy);
            check.lookups(&built.memory, &table, 0.0)
        }
        Reads::Cuckoo {
            layout,
            reads,
            sealed,
            ..
        } => {
            let order = lookup_order(*reads);
            let layout = small.cuckoo(plan.kind, layout);
            let table = SimulatedTable::cuckoo(layout.clone(), order);
            if *sealed {
                let build = || built_cuckoo(&layout, &check.records);
                let memory = cuckoo.table(&layout, check.count, build)?;
                return check.lookups(memory, &table, 0.0);
            }
            let fill = || Ok(check.written(table.clone())?.memory);
            let memory = cuckoo.table(&layout, check.count, fill)?;
            // The READ of the count of displacements is none of slots or records.
            let uncounted = 1.0 - question.hit_ratio;
            let row = check.lookups(memory, &table, uncounted)?;
            check.with_writes(row, &table, memory)
        }
        Reads::Race { layout, .. } => {
            let layout = small.race(layout);
            let table = SimulatedTable::new(Scheme::Race(layout), &OpenOptions::default());
            let WrittenTable { table, memory } = check.written(table)?;
            let row = check.lookups(&memory, &table, 0.0)?;
            check.with_writes(row, &table, &memory)
        }
        Reads::Duo { layout, .. } => check.duo(small.duo(layout)),
    }
}

/// The cuckoo table that was made last, with its layout and how many records it was made for.
#[derive(Default)]
struct LastCuckoo(Option<(CuckooLayout, u32, TableMemory)>);

impl LastCuckoo {
    /// A table of this layout, for so many records. Which these are, and what was done with them,
    /// follows in one check from both.
    fn table(
        &mut self,
        layout: &CuckooLayout,
        count: u32,
        make: impl FnOnce() -> Result<TableMemory>,
    ) -> Result<&TableMemory> {
        let is_it =
            |(made, of, _): &(CuckooLayout, u32, TableMemory)| made == layout && *of == count;
        let last = match self.0.take().filter(is_it) {
            Some(last) => last,
            None => (layout.clone(), count, make()?),
        };
        Ok(&self.0.insert(last).2)
    }
}

/// The measurements of one scheme.
struct SchemeCheck<'r> {
    question: &'r AdviceQuestion,
    ranked: &'r Ranked,
    options: &'r CheckOptions,
    /// All that are ever put.
    records: Records,
    /// Those of them that fill the table to its load factor: the first ones.
    count: u32,
    /// New keys that are put, half of them before that.
    new: u32,
}

impl<'r> SchemeCheck<'r> {
    fn new(question: &'r AdviceQuestion, ranked: &'r Ranked, options: &'r CheckOptions) -> Self {
        let count = (options.slots as f64 * ranked.plan.load).round() as u32;
        let new = match question.inserts > 0.0 {
            // Even: as many before the load factor as beyond.
            true => options.writes.min(count / MOST_NEW) / 2 * 2,
            false => 0,
        };
        Self {
            records: small_records(question, &ranked.plan, options.seed, count + new / 2),
            question,
            ranked,
            options,
            count,
            new,
        }
    }

    /// Records that are there when new ones are put.
    fn before(&self) -> u32 {
        self.count - self.new / 2
    }

    /// Of a table in the long run, every value has been replaced: those in slots are out of band
    /// then.
    fn replaces(&self) -> bool {
        let in_slots = matches!(self.ranked.plan.kind, SlotKind::Inline | SlotKind::Hybrid);
        self.question.updates > 0.0 && in_slots
    }

    /// Updates of all records up to one.
    fn all_replaced(&self, count: u32) -> Writes {
        Writes::Updates((0..count).collect())
    }

    /// A table with the records that are there before new ones are put. What else is measured in it
    /// is so too: except in linear tables, lookups hardly differ by the load factor.
    fn written(&self, table: SimulatedTable) -> Result<WrittenTable> {
        let written = WrittenTable::new(table)?;
        written.write(&self.records, &Writes::Puts(0..self.before()))?;
        if self.replaces() && !matches!(self.ranked.plan.reads, Reads::Duo { .. }) {
            written.write(&self.records, &self.all_replaced(self.before()))?;
        }
        Ok(written)
    }

    fn linear(&self, layout: LinearLayout, read_slots: u32) -> Result<CheckRow> {
        let policy = ReadPolicy::Fixed(read_slots);
        let table = SimulatedTable::by_policy(Scheme::Linear(layout), policy);
        let filled = self.written(table)?;
        let put = self.puts(&filled.table, &filled.memory)?;
        let rest = self.before()..self.count;
        filled.write(&self.records, &Writes::Puts(rest.clone()))?;
        if self.replaces() {
            filled.write(&self.records, &Writes::Updates(rest.collect()))?;
        }
        let row = self.lookups(&filled.memory, &filled.table, 0.0)?;
        let update = self.updates(&filled.table, &filled.memory)?;
        Ok(CheckRow { update, put, ..row })
    }

    fn duo(&self, layout: DuoLayout) -> Result<CheckRow> {
        // Pages of the published index are none of slots or records.
        let pages = match (layout.published, self.question.profile.gathers) {
            (false, _) => 0.0,
            (true, true) => 1.0,
            (true, false) => 3.0,
        };
        let table = SimulatedTable::new(Scheme::Duo(layout), &OpenOptions::default());
        let WrittenTable { table, memory } = self.written(table)?;
        let row = self.lookups(&memory, &table, (1.0 - self.question.hit_ratio) * pages)?;
        self.with_writes(row, &table, &memory)
    }

    /// A row with updates and puts, where the question has any.
    fn with_writes(
        &self,
        row: CheckRow,
        table: &SimulatedTable,
        memory: &TableMemory,
    ) -> Result<CheckRow> {
        let (update, put) = (self.updates(table, memory)?, self.puts(table, memory)?);
        Ok(CheckRow { update, put, ..row })
    }

    fn updates(&self, table: &SimulatedTable, memory: &TableMemory) -> Result<Option<WriteCheck>> {
        if self.question.updates == 0.0 {
            return Ok(None);
        }
        let mut random = ChaCha8Rng::seed_from_u64(self.options.seed);
        let draw = |_| random.random_range(0..self.before());
        let writes = Writes::Updates((0..self.options.writes).map(draw).collect());
        self.writes(table, memory, &writes, self.ranked.update)
    }

    fn puts(&self, table: &SimulatedTable, memory: &TableMemory) -> Result<Option<WriteCheck>> {
        if self.new == 0 {
            return Ok(None);
        }
        let writes = Writes::Puts(self.before()..self.before() + self.new);
        self.writes(table, memory, &writes, self.ranked.put)
    }

    fn writes(
        &self,
        table: &SimulatedTable,
        memory: &TableMemory,
        writes: &Writes,
        predicted: Option<WritePrice>,
    ) -> Result<Option<WriteCheck>> {
        let world = memory.world(self.options.seed, self.question.profile.clone())?;
        let wrote = WriteCost::one_by_one(table, &world, &self.records, writes)?;
        Ok(predicted.map(|predicted| WriteCheck::new(predicted, wrote)))
    }

    /// Measures a table with many lookups under way, and with one. So many READs of a lookup as are
    /// `uncounted` are not of slots or records.
    fn lookups(
        &self,
        memory: &TableMemory,
        table: &SimulatedTable,
        uncounted: f64,
    ) -> Result<CheckRow> {
        let question = self.question;
        // Those that are there.
        let populated = self.records.first(self.populated());
        let rankings = if question.skew > 0.0 { RANKINGS } else { 1 };
        let ask = |ranking: u32| match question.skew {
            0.0 => Ask::Mixed {
                hit_ratio: question.hit_ratio,
            },
            skew => Ask::MixedPopular {
                hit_ratio: question.hit_ratio,
                popularity: Zipf::new(populated.count(), skew),
                ranking,
            },
        };
        let answer = match question.unique {
            true => Answer::Value,
            false => Answer::AllRecords,
        };
        let experiment = |ranking, threads, width, lookups: u64| Experiment {
            table: table.clone(),
            records: populated.clone(),
            ask: ask(ranking),
            answer,
            threads,
            width,
            warm_up: WARM_UP,
            until: RunLimit::Lookups(lookups),
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
            update: None,
            put: None,
        })
    }

    /// Records that are looked up: linear tables are filled on.
    fn populated(&self) -> u32 {
        match self.ranked.plan.reads {
            Reads::Linear { .. } | Reads::Sealed { .. } => self.count,
            Reads::Cuckoo { sealed: true, .. } => self.count,
            _ => self.before(),
        }
    }
}
