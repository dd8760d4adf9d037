//! Gets/s of one thread from memory that another process lends, over shared memory, TCP or verbs, beside what the
//! memory itself, or the fabric, gives.
//!
//! Keys and values have 8 bytes, slots 16. Every figure is the median over repetitions, and within each
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
use crate::{BenchError, BenchReport, BenchRow, Keys, Progress, Result, threads};
use farslot::index::GET;
use farslot::{Cache, FieldSize, OpenOptions, Store, Table, TableOptions};
use hdrhistogram::Histogram;
use measures::{Fabric, Lines, fill, get_many, gets};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// What the benchmark may vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Slots of the table.
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
const TABLE: &str = "lookup";

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

    /// Bytes that the store must have.
    ///
    /// # Errors
    /// [`BenchError::BadOption`], or an option that no table can have.
    pub fn memory(&self) -> Result<u64> {
        /// The catalog, and what a table is rounded up to.
        const BESIDES: u64 = 1 << 20;
        self.check()?;
        let table = self.table().scheme()?.table_bytes();
        Ok(u64::try_from(table)
            .unwrap_or(u64::MAX)
            .saturating_add(BESIDES))
    }

    fn table(&self) -> TableOptions {
        TableOptions::new(self.slots)
            .load_factor(1.0)
            .keys(FieldSize::Fixed(8))
            .values(FieldSize::Fixed(8))
    }

    fn check(&self) -> Result<()> {
        let options = [
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

/// Makes a table in the store at `address`, which must have [`Options::memory`] bytes, and measures it.
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
    let record = store.create(TABLE, &options.table())?;
    let mut bench = Bench {
        options,
        progress,
        lines: Lines::of(fabric, &record),
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

struct Bench<'o> {
    options: &'o Options,
    progress: Progress<'o>,
    lines: Lines,
    keys: Keys,
    /// How many of the keys are in the table.
    records: u64,
    threads: usize,
    random: ChaCha8Rng,
    rows: Vec<BenchRow>,
}

impl Bench<'_> {
    /// Fills the table on to a load and measures it there.
    fn at_load(&mut self, store: &Store, load: f64) -> Result<()> {
        let name = |what: &str| format!("load {load}, {what}");
        let records = (self.options.slots as f64 * load).round() as u64;
        (self.progress)(&name(&format!(
            "putting {} records",
            records - self.records
        )));
        let puts = fill(store, TABLE, self.keys, self.records..records, self.threads)?;
        self.records = records;

        let table = store.table(TABLE)?;
        let mut samples = Samples::new();
        for repetition in 1..=self.options.repetitions {
            let of = self.options.repetitions;
            (self.progress)(&name(&format!("repetition {repetition} of {of}")));
            self.measure(&table, &mut samples)?;
        }
        let filling = name(&format!("put_many, {} threads, on to it", self.threads));
        self.rows.push(BenchRow::new(filling, puts, "puts/s"));
        let has_cache = self.options.cache.is_some();
        self.rows.extend(samples.rows(&table, has_cache, name));
        Ok(())
    }

    /// Measures everything once.
    fn measure(&mut self, table: &Table, samples: &mut Samples) -> Result<()> {
        let lines = self.lines.draw(self.options.operations, &mut self.random);
        samples.loads.extend(self.lines.loads(&lines)?);
        let prefetched = self.lines.prefetched_loads(&lines)?;
        samples.prefetched.extend(prefetched);
        samples.reads.push(self.lines.reads(&lines)?);
        let keys = self.draw(self.options.operations);
        samples.get_many.push(get_many(table, &keys)?);
        let keys = self.draw(self.options.single_gets);
        samples.get.push(gets(table, &keys, &mut samples.latency)?);
        Ok(())
    }

    /// Random keys of the table.
    fn draw(&mut self, count: usize) -> Vec<[u8; 8]> {
        let key = |_| self.keys.long(self.random.random_range(0..self.records));
        (0..count).map(key).collect()
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

    fn rows(&self, table: &Table, has_cache: bool, name: impl Fn(&str) -> String) -> Vec<BenchRow> {
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
        let lookups = (counted.count + hits) as f64;
        let counted = |row| BenchRow {
            read_size: Some(table.read_size()),
            reads_per_lookup: Some(counted.verbs as f64 / lookups),
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

    const SMALL: Options = Options {
        slots: 1 << 14,
        repetitions: 2,
        operations: 1 << 10,
        single_gets: 1 << 10,
        seed: 3,
        cache: None,
    };

    #[test]
    fn every_figure_is_there_and_gets_are_one_read_or_little_more() {
        let name = format!("shm://bench-lookup-{}", std::process::id());
        check_rows(&name, 8, &SMALL);
        check_rows("tcp://127.0.0.1:0", 6, &SMALL);
    }

    #[test]
    fn a_cache_saves_reads() {
        let cached = Options {
            cache: Some(Cache::new(1 << 20).stale_for(Duration::from_secs(3_600))),
            ..SMALL
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
            assert!(row.value > 0.0, "{row:?}");
            let compared = row.limit.map(|limit| row.value / limit);
            assert_eq!(row.ratio, compared, "{row:?}");
            if let Some(reads) = row.reads_per_lookup {
                assert!((1.0..3.0).contains(&reads), "{row:?}");
            }
        }
    }

    #[test]
    fn only_memory_of_a_process_will_do() {
        let error = run("sim://cx5-edr", &SMALL, &|_| {}).unwrap_err();
        assert!(matches!(error, BenchError::NotReal { .. }));
        let none = Options {
            repetitions: 0,
            ..SMALL
        };
        assert!(none.memory().unwrap_err().is_usage());
    }
}
