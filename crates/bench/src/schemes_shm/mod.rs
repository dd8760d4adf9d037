//! The schemes side by side in memory that another process lends: lookups/s of one thread, hits and misses,
//! beside what the memory itself gives.
//!
//! All tables have the same 8-byte records in as many bytes, so that they are as full. Within a repetition
//! every scheme is measured once, one after the other, and the medians count: what else the machine does meets
//! all alike. Keys are drawn before the clock starts, and every answer is checked.
//!
//! Lookups of unique keys in the linear table take the index's batches; those of all others run as many futures
//! side by side, which costs instructions: READs are to be compared as well as rates.

mod tables;

use crate::median::median;
use crate::memory_limit::{self, random_lines};
use crate::{BenchError, BenchReport, BenchRow, Keys, Progress, Result};
use farslot::Store;
use farslot::fabric::RegionId;
use farslot::fabric::shm::Node;
use farslot::model::NicModel;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tables::{Areas, Tables};

/// What the benchmark may vary.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Bytes of the slots of each table.
    pub table_bytes: u64,
    /// Load factors, rising.
    pub loads: Vec<f64>,
    /// Repetitions, of which the median counts.
    pub repetitions: usize,
    /// Lookups of each scheme in a repetition, hits and misses each.
    pub operations: usize,
    /// What the linear tables' read sizes are chosen by.
    pub nic: NicModel,
    /// What the keys derive from.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            table_bytes: 1 << 30,
            loads: vec![0.5, 0.9],
            repetitions: 5,
            operations: 1 << 19,
            nic: NicModel::shared_memory(),
            seed: 0,
        }
    }
}

impl Options {
    /// Bytes that the memory must have.
    ///
    /// # Errors
    /// [`BenchError::BadOption`].
    pub fn memory(&self) -> Result<u64> {
        self.check()?;
        Ok(Areas::new(self.table_bytes).end())
    }

    fn check(&self) -> Result<()> {
        if !(1 << 16..=1 << 34).contains(&self.table_bytes) {
            return Err(BenchError::bad(
                "table bytes",
                self.table_bytes,
                "from 2^16 to 2^34",
            ));
        }
        for (option, value) in [
            ("repetitions", self.repetitions),
            ("operations", self.operations),
        ] {
            if value == 0 {
                return Err(BenchError::bad(option, 0, "at least 1"));
            }
        }
        let rising = self.loads.is_sorted() && !self.loads.is_empty();
        if let Some(load) = self
            .loads
            .iter()
            .find(|load| !(**load > 0.0 && **load <= 0.95))
        {
            return Err(bad_loads(load.to_string()));
        }
        if rising {
            Ok(())
        } else {
            Err(bad_loads(format!("{:?}", self.loads)))
        }
    }
}

fn bad_loads(value: String) -> BenchError {
    BenchError::BadOption {
        option: "load factors",
        value,
        limit: "above 0, at most 0.95, and rising".into(),
    }
}

/// Fills tables in the memory at `address`, all of which is overwritten: it must be nobody else's, fresh, and have
/// [`Options::memory`] bytes. Measures them.
///
/// # Errors
/// [`BenchError::BadOption`], [`BenchError::NotSharedMemory`], or what a table says.
pub fn run(address: &str, options: &Options, progress: Progress<'_>) -> Result<BenchReport> {
    let store = Store::open(address)?;
    let node = fresh_memory(&store, address, options.memory()?)?;
    let mut bench = Bench {
        options,
        progress,
        node,
        tables: Tables::new(node.clone(), options)?,
        random: ChaCha8Rng::seed_from_u64(options.seed),
        rows: Vec::new(),
    };
    for load in &options.loads {
        bench.at_load(*load)?;
    }
    let (page, mib) = (node.info().page_bytes >> 10, options.table_bytes >> 20);
    Ok(BenchReport {
        bench: "schemes",
        fabric: format!(
            "shared memory of another process, tables of {mib} MiB in pages of {page} KiB"
        ),
        rows: bench.rows,
    })
}

/// The memory at `address`, if it is shared, nobody's, and has so many bytes.
pub(crate) fn fresh_memory<'s>(store: &'s Store, address: &str, needed: u64) -> Result<&'s Node> {
    let Some(node) = store.shm_node() else {
        return Err(BenchError::NotSharedMemory {
            address: address.into(),
        });
    };
    let has = node.info().regions.first().map_or(0, |region| region.len);
    if has < needed {
        let limit = format!("at least {needed} bytes");
        return Err(BenchError::bad("memory", has, limit));
    }
    if !store.tables()?.is_empty() {
        let limit = "none: it is overwritten";
        return Err(BenchError::bad("tables in the memory", 1, limit));
    }
    Ok(node)
}

struct Bench<'o> {
    options: &'o Options,
    progress: Progress<'o>,
    node: &'o Node,
    tables: Tables,
    random: ChaCha8Rng,
    rows: Vec<BenchRow>,
}

/// What one scheme did in all repetitions.
struct Samples {
    hits: Vec<f64>,
    misses: Vec<f64>,
}

impl Bench<'_> {
    fn at_load(&mut self, load: f64) -> Result<()> {
        let records = (self.options.table_bytes as f64 / 8.0 * load).round() as u32;
        self.tables.fill(records, load, self.progress)?;
        let schemes = self.tables.open(load)?;
        let mut limits = Vec::new();
        let mut samples: Vec<Samples> = schemes
            .iter()
            .map(|_| Samples {
                hits: Vec::new(),
                misses: Vec::new(),
            })
            .collect();
        for repetition in 1..=self.options.repetitions {
            (self.progress)(&format!(
                "load {load}: repetition {repetition} of {}",
                self.options.repetitions
            ));
            limits.push(self.limit()?);
            let hits = self.draw(0..records);
            let misses = self.draw(records..u32::MAX);
            for (scheme, samples) in schemes.iter().zip(&mut samples) {
                samples.hits.push(scheme.lookups(&hits, true)?);
                samples.misses.push(scheme.lookups(&misses, false)?);
            }
        }
        let limit = median(limits);
        let name = format!("load {load}, random loads of 64 B, prefetched");
        self.rows.push(BenchRow::new(name, limit, "loads/s"));
        for (scheme, samples) in schemes.iter().zip(samples) {
            let Samples { hits, misses } = samples;
            for (what, rates, hit) in [("hits", hits, true), ("misses", misses, false)] {
                let name = format!("load {load}, {what}, {}", scheme.name());
                let row = BenchRow::new(name, median(rates), "lookups/s").limited_by(limit);
                self.rows.push(BenchRow {
                    read_size: scheme.read_slots(),
                    reads_per_lookup: Some(scheme.reads_per_lookup(hit)),
                    ..row
                });
            }
        }
        Ok(())
    }

    /// Loads/s of lines of one table's worth of memory.
    fn limit(&mut self) -> Result<f64> {
        let (bytes, count) = (self.options.table_bytes, self.options.operations);
        let lines = random_lines(0, bytes, count, &mut self.random);
        memory_limit::prefetched(self.node, RegionId(0), &lines)
    }

    /// Numbers of random keys, and the keys.
    fn draw(&mut self, numbers: std::ops::Range<u32>) -> Vec<(u32, [u8; 4])> {
        let keys = Keys::new(self.options.seed);
        let draw = |_| {
            let number = self.random.random_range(numbers.clone());
            (number, keys.short(number))
        };
        (0..self.options.operations).map(draw).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farslot::Server;

    #[test]
    fn every_scheme_is_measured_and_answers_rightly() {
        let options = Options {
            table_bytes: 1 << 17,
            repetitions: 2,
            operations: 2_000,
            seed: 5,
            ..Options::default()
        };
        let address = format!("shm://bench-schemes-{}", std::process::id());
        let _server = Server::start(&address, options.memory().unwrap()).unwrap();
        let report = run(&address, &options, &|_| {}).unwrap();
        assert_eq!(report.rows.len(), 2 * (1 + 6 * 2));
        let reads = |name: &str| {
            let row = report.rows.iter().find(|row| row.name == name);
            row.unwrap_or_else(|| panic!("{name}"))
                .reads_per_lookup
                .unwrap()
        };
        // All three buckets, whatever is looked up; one after the other until it is found.
        // But for keys two of whose buckets are one.
        for what in ["hits", "misses"] {
            let all = reads(&format!("load 0.9, {what}, cuckoo 3 x 4, parallel"));
            assert!((2.98..=3.0).contains(&all), "{all}");
        }
        assert!((1.1..1.5).contains(&reads("load 0.9, hits, cuckoo 3 x 4, sequential")));
        assert!((1.0..1.4).contains(&reads("load 0.5, hits, linear, stop at match")));
        assert!((1.0..1.4).contains(&reads("load 0.9, misses, sealed, by hash")));
        assert!(report.rows.iter().all(|row| row.value > 0.0));
        // The memory is in use now.
        let again = Options {
            loads: vec![0.9, 0.5],
            ..options
        };
        assert!(again.memory().unwrap_err().is_usage());
        assert!(
            run(
                "sim://cx5-edr",
                &Options {
                    table_bytes: 1 << 17,
                    ..Options::default()
                },
                &|_| {}
            )
            .is_err()
        );
    }
}
