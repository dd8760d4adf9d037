//! CuckooDuo nearly full beside a linear table half full, in memory that another process lends: records/s put, gets/s of
//! one thread, and bytes a key, beside what the memory itself gives.
//!
//! Both tables have the same records, of 8 bytes of key and 8 of value. Within a repetition everything is measured once, one
//! after the other, and the medians count: what else the machine does meets all alike. Keys are drawn before
//! the clock starts, and every answer is checked.

use crate::answers::Answers;
use crate::gets::{self, ReadsTaken};
use crate::median::median;
use crate::memory_limit::{self, random_lines};
use crate::{BenchError, BenchReport, BenchRow, Keys, Progress, Result};
use farslot::Store;
use farslot::fabric::shm::{Node, ShmEndpoint};
use farslot::fabric::{Endpoint, Executor, Limits, NodeId, RegionId, RemoteAddr};
use farslot::index::duo::{DuoLayout, DuoOptions, DuoTable};
use farslot::index::linear::{
    LinearLayout, LinearOptions, LinearTable, ReadPolicy, ReadSizes, SlotKind,
};
use farslot::index::{FieldSize, GET, Index, IndexExt};
use farslot::model::NicModel;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::rc::Rc;
use std::time::Instant;

/// What the benchmark may vary.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Records of each table.
    pub records: u64,
    /// Keys per slot of CuckooDuo's table.
    pub load: f64,
    /// Keys per slot of the linear table.
    pub linear_load: f64,
    /// Repetitions, of which the median counts.
    pub repetitions: usize,
    /// Gets of each table in a repetition, hits and misses each.
    pub operations: usize,
    /// What the linear table's read sizes are chosen by.
    pub nic: NicModel,
    /// What the keys derive from.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            records: 10_000_000,
            load: 0.97,
            linear_load: 0.5,
            repetitions: 5,
            operations: 1 << 20,
            nic: NicModel::shared_memory(),
            seed: 0,
        }
    }
}

const FIELD: FieldSize = FieldSize::Fixed(8);
/// Records that are put at a time.
const AT_A_TIME: u64 = 1 << 14;
/// What tables begin at multiples of.
const ALIGNMENT: u64 = 4096;

impl Options {
    /// Bytes that the memory must have.
    ///
    /// # Errors
    /// [`BenchError::BadOption`].
    pub fn memory(&self) -> Result<u64> {
        Ok(self.layouts()?.end)
    }

    fn layouts(&self) -> Result<Layouts> {
        for (option, value, least) in [
            ("records", self.records, 1000),
            ("repetitions", self.repetitions as u64, 1),
            ("operations", self.operations as u64, 1),
        ] {
            if value < least {
                return Err(BenchError::bad(option, value, format!("at least {least}")));
            }
        }
        let duo = DuoOptions {
            load_factor: self.load,
            ..DuoOptions::new(self.records, FIELD, FIELD, self.seed)
        };
        let linear = LinearOptions {
            load_factor: self.linear_load,
            slot: Some(SlotKind::Pair),
            ..LinearOptions::new(self.records, FIELD, FIELD, self.seed)
        };
        let (duo, linear) = (duo.layout()?, linear.layout()?);
        let bytes = |of: u128| u64::try_from(of).unwrap_or(u64::MAX / 4);
        let linear_at = bytes(duo.table_bytes()).next_multiple_of(ALIGNMENT);
        Ok(Layouts {
            end: linear_at + bytes(linear.table_bytes()),
            linear_at,
            duo,
            linear,
        })
    }
}

/// The tables, and where they lie.
struct Layouts {
    duo: DuoLayout,
    linear: LinearLayout,
    linear_at: u64,
    end: u64,
}

const fn at(offset: u64) -> RemoteAddr {
    RemoteAddr {
        node: NodeId(0),
        region: RegionId(0),
        offset,
    }
}

/// Fills both tables in the memory at `address`, all of which is overwritten: it must be nobody else's, fresh, and have
/// [`Options::memory`] bytes. Measures them.
///
/// # Errors
/// [`BenchError::BadOption`], [`BenchError::NotSharedMemory`], or what a table says.
pub fn run(address: &str, options: &Options, progress: Progress<'_>) -> Result<BenchReport> {
    let layouts = options.layouts()?;
    let store = Store::open(address)?;
    let node = crate::schemes_shm::fresh_memory(&store, address, layouts.end)?;
    let duo = Client::new(
        node,
        "CuckooDuo",
        options.load,
        |_| 1,
        |endpoint| Ok(DuoTable::open(endpoint, at(0), layouts.duo.clone())?),
    )?;
    let sizes = ReadSizes::new(&layouts.linear, ReadPolicy::throughput(options.nic))?;
    let linear = Client::new(
        node,
        "linear",
        options.linear_load,
        LinearTable::read_size,
        |endpoint| {
            let layout = layouts.linear.clone();
            let opening =
                LinearTable::open(Rc::clone(&endpoint), at(layouts.linear_at), layout, sizes);
            Ok(Executor::new(endpoint).block_on(opening)?)
        },
    )?;
    let mut rows = Vec::new();
    for (client, bytes) in [
        (&duo as &dyn Scheme, layouts.duo.table_bytes()),
        (&linear, layouts.linear.table_bytes()),
    ] {
        progress(&client.name("putting"));
        let rate = client.fill(options)?;
        rows.push(BenchRow::new(
            client.name("put_many, on to it"),
            rate,
            "puts/s",
        ));
        let per_key = |bytes: f64| bytes / options.records as f64;
        let (remote, local) = (per_key(bytes as f64), per_key(client.local_bytes() as f64));
        rows.push(BenchRow::new(client.name("remote memory"), remote, "B/key"));
        rows.push(BenchRow::new(
            client.name("client's memory"),
            local,
            "B/key",
        ));
    }
    rows.extend(measure(node, &layouts, options, &duo, &linear, progress)?);
    let page = node.info().page_bytes >> 10;
    Ok(BenchReport {
        bench: "duo",
        fabric: format!(
            "shared memory of another process, in pages of {page} KiB; {} records",
            options.records
        ),
        rows,
    })
}

/// Gets of both tables, and loads from the memory of the first, in turns.
fn measure(
    node: &Node,
    layouts: &Layouts,
    options: &Options,
    duo: &dyn Scheme,
    linear: &dyn Scheme,
    progress: Progress<'_>,
) -> Result<Vec<BenchRow>> {
    let mut random = ChaCha8Rng::seed_from_u64(options.seed);
    let mut limits = Vec::new();
    // Of each table's hits, and of its misses.
    let mut rates = <[[Vec<f64>; 2]; 2]>::default();
    for repetition in 1..=options.repetitions {
        progress(&format!(
            "repetition {repetition} of {}",
            options.repetitions
        ));
        let lines = random_lines(0, layouts.linear_at, options.operations, &mut random);
        limits.push(memory_limit::prefetched(node, RegionId(0), &lines)?);
        let there = 0..options.records;
        let absent = options.records..u64::MAX;
        for (half, numbers) in [there, absent].into_iter().enumerate() {
            let draw = |_| random.random_range(numbers.clone());
            let keys: Vec<u64> = (0..options.operations).map(draw).collect();
            for (client, rates) in [duo, linear].into_iter().zip(&mut rates) {
                rates[half].push(client.gets(&keys, options)?);
            }
        }
    }
    let limit = median(limits);
    let name = "random loads of 64 B from CuckooDuo's table, prefetched";
    let mut rows = vec![BenchRow::new(name, limit, "loads/s")];
    for (client, [hits, misses]) in [duo, linear].into_iter().zip(rates) {
        for (what, rates, are_hits) in [
            ("get_many, hits", hits, true),
            ("get_many, misses", misses, false),
        ] {
            let row = BenchRow::new(client.name(what), median(rates), "gets/s");
            rows.push(BenchRow {
                read_size: Some(client.read_slots()),
                reads_per_lookup: Some(client.reads_per_get(are_hits)),
                ..row.limited_by(limit)
            });
        }
    }
    Ok(rows)
}

/// A table as it is measured.
trait Scheme {
    fn name(&self, what: &str) -> String;
    /// Bytes of the client's memory.
    fn local_bytes(&self) -> u64;
    /// Slots of a READ.
    fn read_slots(&self) -> u64;
    /// Puts all records; returns records/s.
    fn fill(&self, options: &Options) -> Result<f64>;
    /// Gets keys, which are all there or all not; returns gets/s.
    fn gets(&self, numbers: &[u64], options: &Options) -> Result<f64>;
    /// READs per get of hits or of misses, so far.
    fn reads_per_get(&self, hits: bool) -> f64;
}

struct Client<I> {
    name: &'static str,
    load: f64,
    executor: Executor<ShmEndpoint>,
    table: I,
    read_slots: fn(&I) -> u64,
    reads_taken: ReadsTaken,
}

impl<I: Index> Client<I> {
    fn new(
        node: &Node,
        name: &'static str,
        load: f64,
        read_slots: fn(&I) -> u64,
        open: impl FnOnce(Rc<ShmEndpoint>) -> Result<I>,
    ) -> Result<Self> {
        let endpoint = Rc::new(ShmEndpoint::new(vec![node.clone()], Limits::default()));
        Ok(Self {
            table: open(Rc::clone(&endpoint))?,
            executor: Executor::new(endpoint),
            name,
            load,
            read_slots,
            reads_taken: ReadsTaken::default(),
        })
    }

    fn reads(&self) -> u64 {
        let counters = &self.executor.endpoint().core().counters;
        counters.snapshot().operation(GET).verbs
    }
}

/// The value of a key with this number.
fn value_of(number: u64) -> [u8; 8] {
    (!number).to_le_bytes()
}

impl<I: Index> Scheme for Client<I> {
    fn name(&self, what: &str) -> String {
        format!("{} at {}, {what}", self.name, self.load)
    }

    fn local_bytes(&self) -> u64 {
        self.table.state().client_bytes
    }

    fn read_slots(&self) -> u64 {
        (self.read_slots)(&self.table)
    }

    fn fill(&self, options: &Options) -> Result<f64> {
        let (keys, mut answers) = (Keys::new(options.seed), Answers::default());
        let since = Instant::now();
        for first in (0..options.records).step_by(AT_A_TIME as usize) {
            let numbers = first..options.records.min(first + AT_A_TIME);
            let records: Vec<_> = numbers
                .map(|number| (keys.long(number), value_of(number)))
                .collect();
            let records = records.iter().map(|(key, value)| (&key[..], &value[..]));
            let putting = self.table.put_many(records, |_, new| answers.note(new));
            self.executor.block_on(putting);
        }
        self.executor.block_on(self.table.flush())?;
        let rate = options.records as f64 / since.elapsed().as_secs_f64();
        answers.check()?;
        Ok(rate)
    }

    fn gets(&self, numbers: &[u64], options: &Options) -> Result<f64> {
        let source = Keys::new(options.seed);
        let keys: Vec<[u8; 8]> = numbers.iter().map(|number| source.long(*number)).collect();
        let are_there = numbers[0] < options.records;
        let before = self.reads();
        let slices = keys.iter().map(|key| &key[..]);
        let rate = gets::per_second(&self.executor, &self.table, slices, |at| {
            are_there.then(|| value_of(numbers[at]))
        })?;
        let reads = self.reads() - before;
        self.reads_taken.add(are_there, keys.len(), reads);
        Ok(rate)
    }

    fn reads_per_get(&self, hits: bool) -> f64 {
        self.reads_taken.per_lookup(hits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farslot::Server;

    #[test]
    fn both_tables_are_measured_and_answer_rightly() {
        let options = Options {
            records: 20_000,
            repetitions: 2,
            operations: 2_000,
            seed: 5,
            ..Options::default()
        };
        let address = format!("shm://bench-duo-{}", std::process::id());
        let memory = options.memory().unwrap() + (2 << 20);
        let _server = Server::start(&address, memory).unwrap();
        let report = run(&address, &options, &|_| {}).unwrap();
        assert_eq!(report.rows.len(), 2 * 3 + 1 + 4);
        let row = |name: &str| {
            let row = report.rows.iter().find(|row| row.name == name);
            row.unwrap_or_else(|| panic!("{name}"))
        };
        let reads = |name| row(name).reads_per_lookup.unwrap();
        // One READ, but for fingerprints that collide.
        assert!((1.0..1.01).contains(&reads("CuckooDuo at 0.97, get_many, hits")));
        assert!(reads("CuckooDuo at 0.97, get_many, misses") < 0.01);
        assert!((1.0..1.5).contains(&reads("linear at 0.5, get_many, hits")));
        // 32 bytes a slot, stash and journal; 16.5 bits of index.
        let remote = row("CuckooDuo at 0.97, remote memory").value;
        assert!((32.0..34.0).contains(&remote), "{remote}");
        let local = row("CuckooDuo at 0.97, client's memory").value;
        assert!((2.0..2.5).contains(&local), "{local}");
        assert!(report.rows.iter().all(|row| row.value >= 0.0));
        let few = Options {
            records: 10,
            ..options
        };
        assert!(few.memory().unwrap_err().is_usage());
        assert!(run("sim://cx5-edr", &options, &|_| {}).is_err());
    }
}
