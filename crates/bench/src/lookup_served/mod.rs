//! Gets/s of one thread from memory that another process lends, over shared memory, TCP or verbs, beside what the
//! memory itself, or the fabric, gives: of one scheme, or of several side by side.
//!
//! Keys and values have 8 bytes. A client that learns where keys are has met each of them once before it is measured. Every
//! figure is the median over repetitions, and within each
//! repetition everything is measured once, one after the other, so that what else the machine does
//! meets all alike. Keys are drawn before the clock starts; every answer is checked.
//!
//! Over shared memory the ceilings are loads of cache lines at random places of the table, through the same mapping: one
//! after the other, or with the next ones prefetched. Between them and the gets stand READs of a line
//! through an endpoint: what is lost up to there is the fabric's, the rest the index's. Over TCP and verbs such READs are
//! the ceiling: what they are worth themselves, [`raw`](crate::raw) tells.
//!
//! What a cache in the client brings: `farslot bench lookup --fabric tcp --slots 262144 --cache 16MiB --stale-for 1s`,
//! beside the same without.

mod measures;

use crate::median::median;
use crate::{BenchError, BenchReport, BenchRow, Keys, LookupScheme, Progress, Result, threads};
use farslot::fabric::OperationCounters;
use farslot::index::GET;
use farslot::{Cache, OpenOptions, Store, Table, TableRecord};
use hdrhistogram::Histogram;
use measures::{Fabric, Lines, fill, get_many, gets, meet};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// What the benchmark may vary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The schemes, at least one.
    pub schemes: Vec<LookupScheme>,
    /// Slots of each table, about.
    pub slots: u64,
    /// Repetitions, of which the median counts.
    pub repetitions: usize,
    /// Gets, loads or READs of one repetition.
    pub operations: usize,
    /// Gets of one repetition that are timed one by one.
    pub single_gets: usize,
    /// What the keys derive from.
    pub seed: u64,
    /// The client's cache. Keys are drawn with equal chances: of what it has room for among all records comes what it
    /// brings.
    pub cache: Option<Cache>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            schemes: vec![LookupScheme::Linear],
            slots: 1 << 26,
            repetitions: 7,
            operations: 1 << 21,
            single_gets: 1 << 18,
            seed: 0,
            cache: None,
        }
    }
}

/// The load factors at which the table is measured, as it fills.
const LOADS: [f64; 2] = [0.5, 0.9];

impl Options {
    /// Defaults for TCP: what a READ costs there hardly depends on the size of the table, and is much more.
    #[must_use]
    pub fn over_tcp() -> Self {
        Self {
            slots: 1 << 22,
            operations: 1 << 20,
            single_gets: 1 << 15,
            ..Self::default()
        }
    }

    /// The same of these schemes, in tables small enough for all to be measured side by side.
    #[must_use]
    pub fn of_schemes(self, schemes: Vec<LookupScheme>) -> Self {
        Self {
            schemes,
            slots: self.slots.min(1 << 22),
            ..self
        }
    }

    /// Bytes that the store must have.
    ///
    /// # Errors
    /// [`BenchError::BadOption`], or an option that no table can have.
    pub fn memory(&self) -> Result<u64> {
        /// The catalog, and what each table is rounded up to.
        const BESIDES: u64 = 1 << 20;
        self.check()?;
        let mut memory = BESIDES;
        for scheme in &self.schemes {
            let table = scheme.table(self.slots).scheme()?.table_bytes();
            let table = u64::try_from(table).unwrap_or(u64::MAX);
            memory = memory.saturating_add(table).saturating_add(BESIDES);
        }
        Ok(memory)
    }

    fn check(&self) -> Result<()> {
        let options = [
            ("number of schemes", self.schemes.len() as u64, 1),
            ("slots", self.slots, 1 << 10),
            ("repetitions", self.repetitions as u64, 1),
            ("operations", self.operations as u64, 1),
            ("single gets", self.single_gets as u64, 1),
        ];
        match options.into_iter().find(|(_, value, least)| value < least) {
            None => Ok(()),
            Some((option, value, least)) => {
                Err(BenchError::bad(option, value, format!("at least {least}")))
            }
        }
    }
}

/// Makes a table of each scheme in the store at `address`, which must have [`Options::memory`] bytes, and measures them.
///
/// # Errors
/// [`BenchError::BadOption`], [`BenchError::NotReal`], or what the store says.
pub fn run(address: &str, options: &Options, progress: Progress<'_>) -> Result<BenchReport> {
    options.check()?;
    let store = Store::open_with(
        address,
        OpenOptions {
            cache: options.cache,
            ..OpenOptions::default()
        },
    )?;
    let fabric = Fabric::of(&store)?;
    let description = match store.shm_node() {
        Some(node) => {
            let page = node.info().page_bytes >> 10;
            format!("shared memory of another process, in pages of {page} KiB")
        }
        None => "TCP to another process".into(),
    };
    let tables = options.schemes.iter().map(|scheme| {
        let record = store.create(&name_of(*scheme), &scheme.table(options.slots))?;
        Ok((*scheme, record))
    });
    let tables: Result<Vec<_>> = tables.collect();
    let tables = tables?;
    let places = tables.iter().map(|(_, record)| Lines::of(&fabric, record));
    let mut bench = Bench {
        options,
        progress,
        lines: places.collect(),
        tables: &tables,
        keys: Keys::new(options.seed),
        records: 0,
        threads: threads::available(),
        random: ChaCha8Rng::seed_from_u64(options.seed),
        rows: Vec::new(),
    };
    for load in LOADS {
        bench.at_load(&store, load)?;
    }
    Ok(BenchReport {
        bench: "lookup",
        fabric: description,
        rows: bench.rows,
    })
}

fn name_of(scheme: LookupScheme) -> String {
    format!("lookup-{}", scheme.name())
}

struct Bench<'o> {
    options: &'o Options,
    progress: Progress<'o>,
    /// The tables, and the cache lines of each.
    tables: &'o [(LookupScheme, TableRecord)],
    lines: Vec<Lines<'o>>,
    keys: Keys,
    /// How many of the keys are in the tables.
    records: u64,
    threads: usize,
    random: ChaCha8Rng,
    rows: Vec<BenchRow>,
}

impl Bench<'_> {
    /// Fills the tables on to a load and measures them there, in turns.
    fn at_load(&mut self, store: &Store, load: f64) -> Result<()> {
        let records = (self.options.slots as f64 * load).round() as u64;
        let mut filled = Vec::with_capacity(self.tables.len());
        for (scheme, record) in self.tables {
            filled.push(self.filled(store, load, *scheme, record, records)?);
        }
        self.records = records;
        for repetition in 1..=self.options.repetitions {
            let of = self.options.repetitions;
            for (number, filled) in filled.iter_mut().enumerate() {
                let scheme = filled.scheme.name();
                let at = format!("load {load}, {scheme}, repetition {repetition} of {of}");
                (self.progress)(&at);
                self.measure(number, filled)?;
            }
        }
        let has_cache = self.options.cache.is_some();
        for filled in filled {
            let scheme = filled.scheme.name();
            let name = |what: &str| format!("load {load}, {scheme}, {what}");
            self.rows.extend(filled.rows(records, has_cache, name));
        }
        Ok(())
    }

    /// Fills a table on to so many records, and opens it.
    fn filled(
        &self,
        store: &Store,
        load: f64,
        scheme: LookupScheme,
        record: &TableRecord,
        records: u64,
    ) -> Result<Filled> {
        let (name, more) = (scheme.name(), records - self.records);
        (self.progress)(&format!("load {load}, {name}, putting {more} records"));
        let threads = if scheme.has_many_writers() {
            self.threads
        } else {
            1
        };
        let table = name_of(scheme);
        let puts = fill(store, &table, self.keys, self.records..records, threads)?;
        let table = store.table(&table)?;
        if scheme.learns() {
            meet(&table, self.keys, records)?;
        }
        Ok(Filled {
            scheme,
            puts,
            threads,
            table_bytes: record.scheme.table_bytes(),
            counted_before: table.counters().operation(GET),
            table,
            samples: Samples::new(),
        })
    }

    /// Measures everything of one table once.
    fn measure(&mut self, number: usize, filled: &mut Filled) -> Result<()> {
        let Filled { table, samples, .. } = filled;
        let of_table = &self.lines[number];
        let lines = of_table.draw(self.options.operations, &mut self.random);
        samples.loads.extend(of_table.loads(&lines)?);
        let prefetched = of_table.prefetched_loads(&lines)?;
        samples.prefetched.extend(prefetched);
        samples.reads.push(of_table.reads(&lines)?);
        let keys = self.draw(self.options.operations);
        samples.get_many.push(get_many(table, &keys)?);
        let keys = self.draw(self.options.single_gets);
        samples.get.push(gets(table, &keys, &mut samples.latency)?);
        Ok(())
    }

    /// Random keys of the tables.
    fn draw(&mut self, count: usize) -> Vec<[u8; 8]> {
        let key = |_| self.keys.long(self.random.random_range(0..self.records));
        (0..count).map(key).collect()
    }
}

/// A table at one load.
struct Filled {
    scheme: LookupScheme,
    /// Puts/s that brought it there, and by how many threads.
    puts: f64,
    threads: usize,
    /// Bytes of remote memory.
    table_bytes: u128,
    table: Table,
    /// What its client's lookups had taken before they were measured.
    counted_before: OperationCounters,
    samples: Samples,
}

impl Filled {
    fn rows(&self, records: u64, has_cache: bool, name: impl Fn(&str) -> String) -> Vec<BenchRow> {
        let filling = name(&format!("put_many, {} threads, on to it", self.threads));
        let mut rows = vec![BenchRow::new(filling, self.puts, "puts/s")];
        let per_key = |bytes: f64| bytes / records as f64;
        for (what, bytes) in [
            ("remote memory", self.table_bytes as f64),
            ("client's memory", self.table.client_bytes() as f64),
        ] {
            rows.push(BenchRow::new(name(what), per_key(bytes), "B/key"));
        }
        rows.extend(
            self.samples
                .rows(&self.table, &self.counted_before, has_cache, name),
        );
        rows
    }
}

/// Repeated measurements at one load, in operations per second.
struct Samples {
    /// Nothing where the memory cannot be loaded from.
    loads: Vec<f64>,
    prefetched: Vec<f64>,
    reads: Vec<f64>,
    get_many: Vec<f64>,
    get: Vec<f64>,
    /// Nanoseconds of single gets.
    latency: Histogram<u64>,
}

impl Samples {
    fn new() -> Self {
        Self {
            loads: Vec::new(),
            prefetched: Vec::new(),
            reads: Vec::new(),
            get_many: Vec::new(),
            get: Vec::new(),
            latency: measures::histogram(),
        }
    }

    fn rows(
        &self,
        table: &Table,
        before: &OperationCounters,
        has_cache: bool,
        name: impl Fn(&str) -> String,
    ) -> Vec<BenchRow> {
        let of_memory = !self.prefetched.is_empty();
        let median = |samples: &[f64]| median(samples.iter().copied());
        let ceiling = median(if of_memory {
            &self.prefetched
        } else {
            &self.reads
        });
        let rate = |what, samples: &[f64], unit| BenchRow::new(name(what), median(samples), unit);
        let latency = |what, quantile| {
            let nanoseconds = self.latency.value_at_quantile(quantile);
            BenchRow::new(name(what), nanoseconds as f64, "ns")
        };
        let counted = table.counters().operation(GET);
        let hits = table.cache_counts().hits;
        let lookups = (counted.count - before.count + hits) as f64;
        let per_lookup = |now: u64, before: u64| Some((now - before) as f64 / lookups);
        let counted = |row| BenchRow {
            read_size: Some(table.read_size()),
            reads_per_lookup: per_lookup(counted.verbs, before.verbs),
            round_trips_per_lookup: per_lookup(counted.round_trips, before.round_trips),
            bytes_per_lookup: per_lookup(counted.bytes, before.bytes),
            ..row
        };
        let reads = rate("READs of 64 B through an endpoint", &self.reads, "READs/s");
        let mut rows = if of_memory {
            let what = "random loads of 64 B, prefetched";
            vec![
                rate("random loads of 64 B", &self.loads, "loads/s"),
                rate(what, &self.prefetched, "loads/s"),
                reads.limited_by(ceiling),
            ]
        } else {
            vec![reads]
        };
        rows.extend([
            counted(rate("get_many", &self.get_many, "gets/s").limited_by(ceiling)),
            counted(rate("get", &self.get, "gets/s")),
            latency("get, p50", 0.5),
            latency("get, p99", 0.99),
        ]);
        if has_cache {
            let share = 100.0 * hits as f64 / lookups;
            let what = name("lookups answered from the cache");
            rows.push(BenchRow::new(what, share, "%"));
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farslot::Server;
    use std::time::Duration;

    fn small() -> Options {
        Options {
            slots: 1 << 14,
            repetitions: 2,
            operations: 1 << 10,
            single_gets: 1 << 10,
            seed: 3,
            ..Options::default()
        }
    }

    #[test]
    fn every_figure_is_there_and_gets_are_one_read_or_little_more() {
        let name = format!("shm://bench-lookup-{}", std::process::id());
        check_rows(&name, 10, &small());
        check_rows("tcp://127.0.0.1:0", 8, &small());
    }

    #[test]
    fn schemes_are_measured_side_by_side() {
        use LookupScheme::{Cuckoo, Duo, Linear, Race};
        let name = format!("shm://bench-lookup-schemes-{}", std::process::id());
        let schemes = vec![Linear, Cuckoo, Race, Duo];
        let options = small().of_schemes(schemes);
        let report = report(&name, &options);
        assert_eq!(report.rows.len(), LOADS.len() * 4 * 10);
        let row = |name: &str| {
            let row = report.rows.iter().find(|row| row.name == name);
            row.unwrap_or_else(|| panic!("{name}: {report:?}"))
        };
        let near = |value: Option<f64>, expected: f64| {
            let value = value.unwrap();
            assert!((value / expected - 1.0).abs() < 0.05, "{value} {expected}");
        };
        // READs, round trips and bytes of a hit.
        for (scheme, reads, round_trips, bytes) in [
            ("cuckoo", 3.0, 1.0, 3.0 * 4.0 * 24.0),
            ("race", 3.0, 2.0, 2.0 * 128.0 + 32.0),
            ("duo", 1.0, 1.0, 32.0),
        ] {
            let gets = row(&format!("load 0.9, {scheme}, get_many"));
            near(gets.round_trips_per_lookup, round_trips);
            if scheme == "race" {
                // One in nine lookups reads another's record as well.
                assert!(
                    (3.0..3.3).contains(&gets.reads_per_lookup.unwrap()),
                    "{gets:?}"
                );
            } else {
                near(gets.reads_per_lookup, reads);
                near(gets.bytes_per_lookup, bytes);
            }
        }
        // 16.5 bits a slot, and a word of 4 bytes a bucket.
        let of_client = |scheme| row(&format!("load 0.9, {scheme}, client's memory")).value;
        let index = (16.5 / 8.0 + 0.5) / 0.9;
        assert!(
            (index..1.3 * index).contains(&of_client("duo")),
            "{}",
            of_client("duo")
        );
        assert!(of_client("cuckoo") == 0.0 && of_client("race") < 0.1);
    }

    #[test]
    fn a_cache_saves_reads() {
        let cached = Options {
            cache: Some(Cache::new(1 << 20).stale_for(Duration::from_secs(3_600))),
            ..small()
        };
        let report = report("tcp://127.0.0.1:0", &cached);
        let half_full = report.rows.iter().filter(|row| row.name.contains("0.5"));
        let mut reads = half_full.filter_map(|row| row.reads_per_lookup);
        // Without it at least one a lookup; nearly full tables take more than are saved, by chance.
        assert!(reads.all(|reads| reads < 0.95), "{report:?}");
        let hits = report.rows.iter().filter(|row| row.unit == "%");
        let hits: Vec<f64> = hits.map(|row| row.value).collect();
        assert_eq!(hits.len(), LOADS.len());
        // Each of 8,192 keys, then 14,746, is drawn with equal chances, 4,096 times.
        assert!((10.0..40.0).contains(&hits[0]), "{report:?}");
        assert!((5.0..25.0).contains(&hits[1]), "{report:?}");
    }

    fn report(address: &str, options: &Options) -> BenchReport {
        let server = Server::start(address, options.memory().unwrap()).unwrap();
        run(&server.addresses()[0].to_string(), options, &|_| {}).unwrap()
    }

    fn check_rows(address: &str, rows: usize, options: &Options) {
        let report = report(address, options);
        assert_eq!(report.rows.len(), LOADS.len() * rows);
        for row in &report.rows {
            assert!(
                row.value > 0.0 || row.name.ends_with("client's memory"),
                "{row:?}"
            );
            let compared = row.limit.map(|limit| row.value / limit);
            assert_eq!(row.ratio, compared, "{row:?}");
            if let Some(reads) = row.reads_per_lookup {
                assert!((1.0..3.0).contains(&reads), "{row:?}");
            }
        }
    }

    #[test]
    fn only_memory_of_a_process_will_do() {
        let error = run("sim://cx5-edr", &small(), &|_| {}).unwrap_err();
        assert!(matches!(error, BenchError::NotReal { .. }));
        let none = Options {
            repetitions: 0,
            ..small()
        };
        assert!(none.memory().unwrap_err().is_usage());
    }
}
