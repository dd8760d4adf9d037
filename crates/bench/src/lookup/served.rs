//! Lookups of one thread on memory that another process lends, over shared memory, TCP or verbs.
//!
//! Keys and values have 8 bytes. A client that learns where keys are has met each of them once
//! before it is measured. Every figure is the median over repetitions, and within each repetition
//! every table is measured once, one after the other, so that what else the machine does meets all
//! alike. Keys are drawn before the clock starts; every answer is checked. As many threads as there
//! are processors, each with a client of its own, are measured beside as many times what one does.
//!
//! Over shared memory the limit is loads of cache lines at random places of the table, through the
//! same mapping, the next ones prefetched. Between them and the lookups stand READs of a line
//! through an endpoint: what is lost up to there is the fabric's, the rest the index's. Over TCP
//! and verbs such READs are the limit; what they are worth themselves, [`raw`](crate::raw) tells.
//!
//! What a cache in the client brings: `farslot bench lookup --fabric tcp --slots 262144 --cache
//! 16MiB --stale-for 1s`, beside the same without.

use super::figures::{Figures, LoadPoint};
use super::timed::{self, CacheLines, Fabric, Refused};
use super::{LookupScheme, Options};
use crate::median::median;
use crate::{BenchError, BenchReport, BenchRow, Keys, Progress, Result, threads};
use farslot::index::GET;
use farslot::{Access, Cache, OpenOptions, Store, Table};
use hdrhistogram::Histogram;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How much is measured in real time, and with which clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Repetitions, of which the median counts.
    pub repetitions: usize,
    /// Lookups, loads or READs of one repetition.
    pub operations: usize,
    /// Lookups of one repetition that are timed one by one.
    pub single_lookups: usize,
    /// Whether batches of writes are measured too, of tables that are not built whole.
    pub writes: bool,
    /// The client's cache. Keys are drawn with equal chances, so that what it brings depends on how
    /// many of all records it has room for.
    pub cache: Option<Cache>,
}

impl Default for Served {
    fn default() -> Self {
        Self {
            repetitions: 7,
            operations: 1 << 21,
            single_lookups: 1 << 18,
            writes: false,
            cache: None,
        }
    }
}

impl Served {
    /// Defaults for TCP and verbs, where a READ takes much longer.
    #[must_use]
    pub fn over_network() -> Self {
        Self {
            operations: 1 << 20,
            single_lookups: 1 << 15,
            ..Self::default()
        }
    }

    fn check(&self) -> Result<()> {
        for (option, value) in [
            ("repetitions", self.repetitions),
            ("operations", self.operations),
            ("single lookups", self.single_lookups),
        ] {
            if value == 0 {
                return Err(BenchError::bad(option, 0, "at least 1"));
            }
        }
        Ok(())
    }
}

/// Bytes that the store must have.
///
/// # Errors
/// [`BenchError::BadOption`], or an option that no table can have.
pub fn memory(options: &Options) -> Result<u64> {
    /// More than the largest catalog, and what each table is rounded up to.
    const CATALOG: u64 = 5 << 20;
    const BESIDES: u64 = 1 << 20;
    options.check()?;
    let mut memory = CATALOG;
    for scheme in &options.schemes {
        let loads = tables_of(*scheme, &options.loads).iter();
        for load in loads.filter(|load| scheme.has_room_at(**load)) {
            let table = scheme.table(options.slots, *load).scheme()?.table_bytes();
            let table = u64::try_from(table).unwrap_or(u64::MAX);
            memory = memory.saturating_add(table).saturating_add(BESIDES);
        }
    }
    Ok(memory)
}

/// The load factors for which a scheme has a table of its own: one that is built whole for all,
/// others for the first, which then fills on.
fn tables_of(scheme: LookupScheme, loads: &[f64]) -> &[f64] {
    match scheme.is_built() {
        true => loads,
        false => &loads[..1],
    }
}

/// Makes tables in the store at `address`, which must have [`memory`] bytes, and measures them.
///
/// # Errors
/// [`BenchError::BadOption`], [`BenchError::NotReal`], or what the store says.
pub fn served(
    address: &str,
    options: &Options,
    measure: &Served,
    progress: Progress<'_>,
) -> Result<BenchReport> {
    options.check()?;
    measure.check()?;
    let store = Store::open_with(
        address,
        OpenOptions {
            cache: measure.cache,
            // What is measured is the schemes' own lookups, and READs are what is counted.
            access: Access::Reads,
            ..OpenOptions::default()
        },
    )?;
    let fabric = Fabric::of(&store)?;
    let description = match store.shm_node() {
        Some(node) => {
            let page = node.info().page_bytes >> 10;
            format!("shared memory of another process, in pages of {page} KiB")
        }
        None => format!("{} to another process", fabric.name()),
    };
    let mut bench = StoreBench {
        options,
        measure,
        progress,
        store: &store,
        fabric: &fabric,
        keys: Keys::new(options.seed),
        records: 0,
        random: ChaCha8Rng::seed_from_u64(options.seed),
        refused: BTreeMap::new(),
        rows: Vec::new(),
    };
    for load in &options.loads {
        bench.at_load(*load)?;
    }
    Ok(BenchReport {
        bench: "lookup",
        fabric: description + &options.left_out(),
        rows: bench.rows,
    })
}

struct StoreBench<'o> {
    options: &'o Options,
    measure: &'o Served,
    progress: Progress<'o>,
    store: &'o Store,
    fabric: &'o Fabric,
    keys: Keys,
    /// How many of the keys are in the tables that are filled.
    records: u64,
    random: ChaCha8Rng,
    /// By scheme: keys that a table has not any more.
    refused: BTreeMap<&'static str, Refused>,
    rows: Vec<BenchRow>,
}

impl StoreBench<'_> {
    /// Brings the tables to a load factor and measures them there, in turns.
    fn at_load(&mut self, load: f64) -> Result<()> {
        let records = self.options.records_at(load);
        let schemes = self.options.schemes_at(load);
        let filled: Result<Vec<_>> = schemes
            .map(|scheme| self.filled(LoadPoint { load, scheme }, records))
            .collect();
        let mut filled = filled?;
        self.records = records;
        let of = self.measure.repetitions;
        for repetition in 1..=of {
            for filled in &mut filled {
                let figure = format!("repetition {repetition} of {of}");
                (self.progress)(&filled.point.name(&figure));
                self.measure(filled)?;
            }
        }
        for filled in filled {
            let refused = &self.refused[filled.point.scheme.name()];
            let has_cache = self.measure.cache.is_some();
            self.rows
                .extend(filled.rows(records, has_cache, refused.len()));
        }
        Ok(())
    }

    /// A table that holds so many records.
    fn filled(&self, point: LoadPoint, records: u64) -> Result<FilledTable> {
        let LoadPoint { load, scheme } = point;
        (self.progress)(&point.name(&format!("writing {} records", records - self.records)));
        let options = scheme.table(self.options.slots, load);
        let (name, puts) = match scheme.is_built() {
            true => {
                let name = format!("lookup-{scheme}-{load}");
                let built = timed::build(self.store, &name, &options, self.keys, records)?;
                (name, (built, 0))
            }
            false => {
                let name = format!("lookup-{scheme}");
                if self.records == 0 {
                    self.store.create(&name, &options)?;
                }
                let threads = match scheme.has_many_writers() {
                    true => threads::available(),
                    false => 1,
                };
                let numbers = self.records..records;
                let puts = timed::fill(self.store, &name, self.keys, numbers, threads)?;
                (name, (puts, threads))
            }
        };
        let since = Instant::now();
        let table = self.store.table(&name)?;
        let opening = since.elapsed();
        let writer_alone = table.scheme().writer_alone();
        if writer_alone {
            table.start_writing()?;
        }
        if scheme.learns() {
            timed::meet(&table, self.keys, records)?;
        }
        Ok(FilledTable {
            point,
            puts,
            opening,
            lines: CacheLines::of(table.record()),
            table,
            memory: Memory::default(),
            // Clients that have to meet the keys first, or of which there is one, are measured
            // alone.
            threads: (!scheme.learns() && !writer_alone)
                .then(threads::available)
                .filter(|threads| *threads > 1),
            hits: LatencySamples::new(),
            hits_of_threads: Vec::new(),
            misses: self.options.misses.then(LatencySamples::new),
            writes: (self.measure.writes && !scheme.is_built()).then(Default::default),
        })
    }

    /// Measures everything of one table once.
    fn measure(&mut self, filled: &mut FilledTable) -> Result<()> {
        let lines = filled.lines.draw(self.measure.operations, &mut self.random);
        let memory = &mut filled.memory;
        memory.loads.extend(self.fabric.loads(&lines)?);
        memory
            .prefetched
            .extend(self.fabric.prefetched_loads(&lines)?);
        memory.reads.push(self.fabric.reads(&lines)?);
        let scheme = filled.point.scheme.name();
        let refused = self.refused.entry(scheme).or_default();
        let present = 0..self.records;
        let absent = self.records..u64::MAX;
        for (samples, numbers, are_there) in [
            (Some(&mut filled.hits), present, true),
            (filled.misses.as_mut(), absent, false),
        ] {
            let Some(samples) = samples else { continue };
            let mut draw = |count: usize| -> Vec<[u8; 8]> {
                let key = || self.keys.long(self.random.random_range(numbers.clone()));
                let keys = std::iter::repeat_with(key).filter(|key| !refused.contains(key));
                keys.take(count).collect()
            };
            let (many, single) = (
                draw(self.measure.operations),
                draw(self.measure.single_lookups),
            );
            let before = ClientCounts::of(&filled.table);
            let rate = timed::get_many(&filled.table, &many, are_there)?;
            samples.per_second.push(rate);
            timed::gets(&filled.table, &single, are_there, &mut samples.latency)?;
            samples.counts.add(ClientCounts::of(&filled.table), before);
            if are_there && let Some(threads) = filled.threads {
                let rate = timed::get_many_on(threads, self.store, filled.table.name(), &many)?;
                filled.hits_of_threads.push(rate);
            }
        }
        if let Some(writes) = &mut filled.writes {
            let key = || self.keys.long(self.random.random_range(0..self.records));
            let keys = std::iter::repeat_with(key).filter(|key| !refused.contains(key));
            let keys: Vec<_> = keys.take(self.measure.operations).collect();
            // Where one client writes at a time, this one does meanwhile.
            filled.table.start_writing()?;
            let rates = timed::writes(&filled.table, &keys, refused)?;
            if !filled.table.scheme().writer_alone() {
                filled.table.resign()?;
                // Which forgets what it had learned.
                if filled.point.scheme.learns() {
                    timed::meet(&filled.table, self.keys, self.records)?;
                }
            }
            for (samples, rate) in writes.iter_mut().zip(rates) {
                samples.push(rate);
            }
        }
        Ok(())
    }
}

/// A table at one load.
struct FilledTable {
    point: LoadPoint,
    /// Puts/s that brought it there, and by how many threads; by none it was built.
    puts: (f64, usize),
    /// How long a client took to open it.
    opening: Duration,
    lines: CacheLines,
    table: Table,
    memory: Memory,
    /// Threads that are measured together too.
    threads: Option<usize>,
    hits: LatencySamples,
    /// Of all threads together.
    hits_of_threads: Vec<f64>,
    misses: Option<LatencySamples>,
    /// Writes/s of each of [`timed::WRITES`].
    writes: Option<[Vec<f64>; timed::WRITES.len()]>,
}

impl FilledTable {
    fn rows(&self, records: u64, has_cache: bool, refused: usize) -> Vec<BenchRow> {
        let (point, mut rows) = (self.point, Vec::new());
        let (puts, threads) = self.puts;
        rows.push(match threads {
            0 => BenchRow::new(point.name("built"), puts, "records/s"),
            _ => {
                let figure = format!("puts up to there, {threads} threads");
                BenchRow::new(point.name(&figure), puts, "puts/s")
            }
        });
        let opening = self.opening.as_nanos() as f64;
        rows.push(BenchRow::new(point.name("opening"), opening, "ns"));
        let remote = self.table.scheme().table_bytes() as f64;
        rows.extend(point.memory(remote, self.table.client_bytes() as f64, records));
        rows.extend(self.memory.rows(point));
        for (samples, kind) in [(Some(&self.hits), "hits"), (self.misses.as_ref(), "misses")] {
            let Some(samples) = samples else { continue };
            let figures = samples.figures(&self.table, self.memory.limit());
            rows.extend(figures.rows(point, kind));
            if has_cache {
                let name = point.name(&format!("{kind} answered from the cache"));
                let share = 100.0 * samples.counts.per_lookup(samples.counts.cache_hits);
                rows.push(BenchRow::new(name, share, "%"));
            }
        }
        if self.memory.is_loaded() {
            let counts = &self.hits.counts;
            let [reads, bytes] = [counts.reads, counts.bytes].map(|of| counts.per_lookup(of));
            let name = point.name("hits, cache lines of the READs");
            rows.push(BenchRow::new(
                name,
                point.scheme.lines(reads, bytes),
                "lines",
            ));
        }
        if let Some(threads) = self.threads {
            let one = median(self.hits.per_second.iter().copied());
            let rate = median(self.hits_of_threads.iter().copied());
            let row = BenchRow::new(
                point.name(&format!("hits, {threads} threads")),
                rate,
                "lookups/s",
            );
            // At best as many times as much as of one.
            rows.push(row.limited_by(one * threads as f64));
        }
        for (figure, rates) in timed::WRITES.iter().zip(self.writes.iter().flatten()) {
            let rate = median(rates.iter().copied());
            let row = BenchRow::new(point.name(figure), rate, "writes/s");
            rows.push(row.limited_by(self.memory.limit()));
        }
        if refused > 0 {
            let name = point.name("keys that were removed and then refused");
            rows.push(BenchRow::new(name, refused as f64, "keys"));
        }
        rows
    }
}

/// What the memory gives without any table: operations per second.
#[derive(Default)]
struct Memory {
    /// Nothing where the memory cannot be loaded from.
    loads: Vec<f64>,
    prefetched: Vec<f64>,
    reads: Vec<f64>,
}

impl Memory {
    /// Whether it could be loaded from.
    fn is_loaded(&self) -> bool {
        !self.prefetched.is_empty()
    }

    /// What lookups are compared with.
    fn limit(&self) -> f64 {
        let of_memory = match self.is_loaded() {
            true => &self.prefetched,
            false => &self.reads,
        };
        median(of_memory.iter().copied())
    }

    fn rows(&self, point: LoadPoint) -> Vec<BenchRow> {
        let rate = |figure, samples: &[f64], unit| {
            BenchRow::new(point.name(figure), median(samples.iter().copied()), unit)
        };
        let reads = rate("READs of 64 B through an endpoint", &self.reads, "READs/s");
        if !self.is_loaded() {
            return vec![reads];
        }
        let figure = "random loads of 64 B, prefetched";
        vec![
            rate("random loads of 64 B", &self.loads, "loads/s"),
            rate(figure, &self.prefetched, "loads/s"),
            reads.limited_by(self.limit()),
        ]
    }
}

/// Repeated measurements of lookups of one kind.
struct LatencySamples {
    per_second: Vec<f64>,
    /// Nanoseconds of single lookups.
    latency: Histogram<u64>,
    counts: ClientCounts,
}

impl LatencySamples {
    fn new() -> Self {
        Self {
            per_second: Vec::new(),
            latency: timed::histogram(),
            counts: ClientCounts::default(),
        }
    }

    fn figures(&self, table: &Table, limit: f64) -> Figures {
        let counts = &self.counts;
        Figures {
            per_second: median(self.per_second.iter().copied()),
            limit,
            model: None,
            latency: [0.5, 0.99].map(|quantile| self.latency.value_at_quantile(quantile) as f64),
            read_slots: table.read_size(),
            reads: counts.per_lookup(counts.reads),
            round_trips: counts.per_lookup(counts.round_trips),
            bytes: counts.per_lookup(counts.bytes),
        }
    }
}

/// What a client has counted of its lookups.
#[derive(Clone, Copy, Default)]
struct ClientCounts {
    lookups: u64,
    reads: u64,
    round_trips: u64,
    bytes: u64,
    cache_hits: u64,
}

impl ClientCounts {
    /// All so far.
    fn of(table: &Table) -> Self {
        let counted = table.counters().operation(GET);
        let cache_hits = table.cache_counts().hits;
        Self {
            lookups: counted.count + cache_hits,
            reads: counted.verbs,
            round_trips: counted.round_trips,
            bytes: counted.bytes,
            cache_hits,
        }
    }

    /// Adds what came between two moments.
    fn add(&mut self, now: Self, before: Self) {
        self.lookups += now.lookups - before.lookups;
        self.reads += now.reads - before.reads;
        self.round_trips += now.round_trips - before.round_trips;
        self.bytes += now.bytes - before.bytes;
        self.cache_hits += now.cache_hits - before.cache_hits;
    }

    fn per_lookup(&self, of: u64) -> f64 {
        of as f64 / self.lookups as f64
    }
}
