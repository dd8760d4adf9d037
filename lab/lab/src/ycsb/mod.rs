//! The workloads of YCSB's core, on Farslot and on other stores side by side.
//!
//! Every system has the same records, the same client threads, and as many records under way at
//! once; all of them batch: Farslot by `get_many`, `update_many` and `put_many`, Redis by pipelines
//! of GETs and SETs, memcached by a multi-get and sets in one request. Systems take turns within
//! each round, and every figure is a median over rounds, so that what else the machine does meets
//! all alike. Every value that is read is checked to be one that was written for its key.
//!
//! Where this differs from YCSB's own client:
//!
//! * A record is one value, as long as YCSB's ten fields of 100 bytes unless told otherwise. An
//!   update replaces all of it.
//! * A hash table has no order. A scan reads as many records as a scan of YCSB would, of
//!   consecutive numbers, by their keys: in all systems alike (in Redis by one MGET).
//! * Operations are issued in batches, not one by one. An operation's latency is its batch's: from
//!   its issue until all of it is answered. With a pipeline of 1 it is the operation's own.
//! * Popularity is Zipf's over the records that were loaded, by rank; ranks are scattered over the
//!   records by YCSB's hash. The latest records are those that the reading client knows of: the
//!   loaded ones, and its own.
//!
//! With a cache ([`Options::cache`]) Farslot's clients answer some of the reads themselves, which
//! the others' do not: to be had by `farslot-lab ycsb --cache 16MiB --stale-for 10ms`, beside the
//! same without.

pub(crate) mod caches;
pub(crate) mod echo;
mod memcached_client;
mod peers;
mod record;
mod redis_client;
mod report;
mod round;
mod system;
mod workload;
#[cfg(test)]
mod ycsb_tests;

pub use peers::{PeerAddress, PeerKind};
pub use record::{KEY_BYTES, LEAST_VALUE_BYTES};
pub use report::{YcsbReport, YcsbRow};
pub use system::ServedStore;
pub use workload::{LONGEST_SCAN, OperationMix, SKEW, Workload};

use crate::{LabError, Progress, Result};
use echo::EchoProcess;
use farslot::layout::Scheme;
use farslot::{Cache, SlotKind, TableOptions};
use farslot_bench::simulated::Zipf;
use farslot_bench::{BenchError, median};
use memcached_client::MemcachedClient;
pub(crate) use peers::{PeerResources, PeerServer, find_program, free_port};
use record::Records;
pub(crate) use redis_client::RedisClient;
use round::{Plan, YcsbClient, YcsbRound};
use std::path::PathBuf;
use std::time::Duration;
use system::{FarslotTable, WorkloadSystem};
use workload::Generator;
pub(crate) use workload::scatter;

/// What the benchmark may vary.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The workloads, each on tables of its own.
    pub workloads: Vec<Workload>,
    /// Records that are loaded.
    pub records: u64,
    /// Bytes of a value. YCSB's default makes 1000; 64 show what an operation costs where copying
    /// hardly counts.
    pub value_bytes: usize,
    /// What a slot of Farslot's table holds, if not what suits the sizes. One that has room in it
    /// has room for all of a record.
    pub slots: Option<SlotKind>,
    /// Client threads of each system.
    pub threads: usize,
    /// Records under way at once, of each thread. Farslot's batches keep at most
    /// [`BATCH_WIDTH`](farslot::index::BATCH_WIDTH) under way.
    pub pipeline: usize,
    /// How long each system is measured under each workload, in all rounds together. Where a
    /// workload inserts, less if it has doubled the records.
    pub time: Duration,
    /// Rounds, of which the median counts.
    pub rounds: usize,
    /// Threads of each server. Farslot's are its agent's, as whoever serves it was told; Redis has
    /// so many for its connections where that is more than one.
    pub server_threads: usize,
    /// The cache of each of Farslot's client threads: whoever serves the store opens it with that.
    pub cache: Option<Cache>,
    /// What Farslot is held against.
    pub against: Vec<PeerAddress>,
    /// The program `farslot-lab`, which serves an echo of the same bytes to measure beside them;
    /// nothing for none.
    pub echo: Option<PathBuf>,
    /// What keys, values and operations derive from.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            workloads: Workload::ALL.to_vec(),
            records: 100_000,
            value_bytes: 1000,
            slots: None,
            threads: 1,
            pipeline: farslot::index::BATCH_WIDTH,
            time: Duration::from_secs(5),
            rounds: 5,
            server_threads: 1,
            cache: None,
            against: Vec::new(),
            echo: None,
            seed: 0,
        }
    }
}

/// What the figures mean, in words.
const NOTES: [&str; 5] = [
    "a hash table has no order: a scan of workload e reads as many records of consecutive numbers, by their keys, \
     in all systems alike",
    "latency: from the issue of an operation's batch until all of the batch is answered",
    "client: the redis crate, and a memcached client of our own; what they cost is in the client's figures",
    "every value that was read was checked to be one that was written for its key",
    "farslot's client asks once for a record that a batch writes several times, or reads and writes: the batch's operations \
     are under way together, and one write answers for them",
];

/// What Farslot's clients remember, without a cache and with one.
const REMEMBERED: [&str; 2] = [
    "farslot over a network: a client remembers where the records of up to 262144 keys lie, and never what is in them: \
     every value is read from the server by every operation that returns it",
    "farslot's clients keep answers in a cache, empty when a round begins: what they read may be as old as was allowed, \
     and what another client has written since is not in it; the other systems' clients ask the server each time",
];

/// What the echo is.
const ECHO: &str = "echo: a process that takes as many bytes as a batch has by calls, answers with as many as its answers \
     have, and stores nothing: what can be reached with a request and a reply for each batch";

// The note on hints names what the store does unless told otherwise.
const _: () = assert!(farslot::RECORD_LOCATIONS == 262_144);

impl Options {
    fn check(&self) -> Result<()> {
        LabError::check_ranges([
            ("records", self.records, 1..=1 << 31),
            (
                "value bytes",
                self.value_bytes as u64,
                LEAST_VALUE_BYTES as u64..=64 << 10,
            ),
            ("threads", self.threads as u64, 1..=1024),
            ("pipeline", self.pipeline as u64, 1..=1024),
            ("rounds", self.rounds as u64, 1..=1000),
            ("server threads", self.server_threads as u64, 1..=128),
        ])?;
        // A server that waits until its answers are taken must not meet a client that waits until
        // its request is.
        let request = self.pipeline as u64 * self.value_bytes as u64;
        if request > 1 << 20 {
            return Err(LabError::bad(
                "pipeline times value bytes",
                request,
                "at most 1 MiB",
            ));
        }
        if self.time < Duration::from_millis(1) || self.time > Duration::from_secs(86_400) {
            let seconds = format!("{:?}", self.time);
            let limit = "from 0.001 to 86400";
            return Err(BenchError::bad_text("seconds", seconds, limit).into());
        }
        Ok(())
    }

    /// Records that a workload may insert, over all rounds and clients.
    fn inserts(&self, workload: Workload) -> u64 {
        if workload.inserts() { self.records } else { 0 }
    }

    fn table(&self, workload: Workload) -> TableOptions {
        // Each client ends its round with the batch that exceeds its share.
        let rounding = (self.rounds * self.threads * (self.pipeline + 1)) as u64;
        let most = self.records + self.inserts(workload) + rounding;
        let table = FarslotTable::options(most, self.value_bytes);
        match self.slots {
            None => table,
            Some(SlotKind::Hybrid) => {
                let room = (KEY_BYTES + self.value_bytes).next_multiple_of(8);
                table.slots(SlotKind::Hybrid).inline_bytes(room as u32)
            }
            Some(slots) => table.slots(slots),
        }
    }

    /// What a slot holds.
    fn slot_kind(&self) -> Result<SlotKind> {
        match self.table(Workload::C).scheme()? {
            Scheme::Linear(layout) => Ok(layout.kind),
            other => unreachable!("the table is linear, and not {}", other.name()),
        }
    }

    /// What a peer must hold.
    fn resources(&self, workload: Workload) -> PeerResources {
        /// Headers, links, and what slabs of fixed sizes waste.
        const OVERHEAD: u64 = 200;
        let records = self.records + self.inserts(workload);
        let bytes = (KEY_BYTES + self.value_bytes) as u64 + OVERHEAD;
        PeerResources {
            memory: (64 << 20) + records * bytes * 3 / 2,
            threads: self.server_threads,
            evicts: None,
        }
    }

    fn plan(&self, workload: Workload) -> Plan {
        Plan {
            records: Records::new(self.seed, self.value_bytes),
            width: self.pipeline,
            time: self.time / self.rounds as u32,
            inserts: self.inserts(workload) / (self.rounds * self.threads) as u64,
            is_scan: workload.mix().scan > 0.0,
        }
    }
}

/// Runs the workloads, one after the other. `serve` gives a store that has so many bytes and no
/// table of the name `ycsb-WORKLOAD`, once for each workload; the peers are started for each
/// workload as well.
///
/// # Errors
/// [`BenchError::BadOption`]; [`LabError::NotInstalled`], [`LabError::Peer`] and
/// [`LabError::PeerInUse`] of the peers; [`BenchError::WrongAnswers`]; what the store or `serve`
/// says.
pub fn run<E: From<LabError>>(
    options: &Options,
    mut serve: impl FnMut(u64) -> std::result::Result<ServedStore, E>,
    progress: Progress<'_>,
) -> std::result::Result<YcsbReport, E> {
    options.check()?;
    let remembered = &REMEMBERED[usize::from(options.cache.is_some())];
    let echo = options.echo.as_ref().map(|_| &ECHO);
    let notes = NOTES.iter().chain([remembered]).chain(echo);
    let mut report = YcsbReport {
        bench: "ycsb",
        fabric: String::new(),
        records: options.records,
        key_bytes: KEY_BYTES,
        value_bytes: options.value_bytes,
        slots: options.slot_kind()?,
        threads: options.threads,
        pipeline: options.pipeline,
        server_threads: options.server_threads,
        rounds: options.rounds,
        cache_bytes: options.cache.map(|cache| cache.bytes),
        notes: notes.copied().collect(),
        rows: Vec::new(),
    };
    for workload in options.workloads.iter().copied() {
        progress(&format!("workload {workload}: starting the servers"));
        let served = serve(memory(options, workload)?)?;
        report.fabric = fabric_of(&served);
        let systems = systems(options, workload, served)?;
        report
            .rows
            .extend(measure(options, workload, &systems, progress)?);
    }
    Ok(report)
}

/// Bytes that a store must have for a workload.
fn memory(options: &Options, workload: Workload) -> Result<u64> {
    /// The largest catalog, and what a table is rounded up to.
    const BESIDES: u64 = 6 << 20;
    let bytes = options.table(workload).scheme()?.table_bytes();
    Ok(u64::try_from(bytes)
        .unwrap_or(u64::MAX)
        .saturating_add(BESIDES))
}

/// Where the store is, without what is different in every run.
fn fabric_of(served: &ServedStore) -> String {
    let address = served.store.address().to_string();
    let fabric = address.split("://").next().unwrap_or_default().to_owned();
    match served.process {
        None => fabric,
        Some(_) => format!("{fabric}, to another process of this machine"),
    }
}

fn systems(
    options: &Options,
    workload: Workload,
    served: ServedStore,
) -> Result<Vec<Box<dyn WorkloadSystem>>> {
    let name = format!("ycsb-{workload}");
    let farslot = FarslotTable::new(served, name, &options.table(workload))?;
    let mut systems: Vec<Box<dyn WorkloadSystem>> = vec![Box::new(farslot)];
    let resources = options.resources(workload);
    for peer in &options.against {
        systems.push(match peer.kind {
            PeerKind::Redis => Box::new(PeerServer::<RedisClient>::open(peer.at, resources)?),
            PeerKind::Memcached => {
                Box::new(PeerServer::<MemcachedClient>::open(peer.at, resources)?)
            }
        });
    }
    if let Some(program) = &options.echo {
        systems.push(Box::new(EchoProcess::start(program, options.value_bytes)?));
    }
    Ok(systems)
}

/// Loads all systems, then lets them take turns.
fn measure(
    options: &Options,
    workload: Workload,
    systems: &[Box<dyn WorkloadSystem>],
    progress: Progress<'_>,
) -> Result<Vec<YcsbRow>> {
    let plan = options.plan(workload);
    for system in systems {
        progress(&format!("workload {workload}: loading {}", system.name()));
        round::load(&**system, &plan.records, options.records, options.threads)?;
    }
    let popularity = Zipf::new(options.records as u32, SKEW);
    let clients = |_| -> Vec<YcsbClient> {
        let threads = options.threads as u64;
        let generator =
            |thread| Generator::new(workload, popularity.clone(), thread, threads, options.seed);
        let client = |thread| YcsbClient {
            generator: generator(thread),
            written: 0,
        };
        (0..threads).map(client).collect()
    };
    // Every system meets the same operations.
    let mut clients: Vec<_> = systems.iter().map(clients).collect();
    let mut rounds: Vec<Vec<YcsbRound>> = systems.iter().map(|_| Vec::new()).collect();
    for number in 0..options.rounds {
        for turn in 0..systems.len() {
            // Another one begins each round.
            let at = (number + turn) % systems.len();
            let system = &*systems[at];
            let (of, name) = (options.rounds, system.name());
            progress(&format!(
                "workload {workload}: round {} of {of}, {name}",
                number + 1
            ));
            rounds[at].push(round::run(system, &mut clients[at], &plan)?);
        }
    }
    let named = systems.iter().zip(&rounds);
    Ok(named
        .map(|(system, own)| row(options, workload, &**system, own, &rounds[0]))
        .collect())
}

/// The medians of a system's rounds, beside Farslot's.
fn row(
    options: &Options,
    workload: Workload,
    system: &dyn WorkloadSystem,
    rounds: &[YcsbRound],
    farslot: &[YcsbRound],
) -> YcsbRow {
    let of = |figure: &dyn Fn(&YcsbRound) -> f64| median(rounds.iter().map(figure));
    let per_million = |seconds: f64| seconds * 1e6;
    let operations: u64 = rounds.iter().map(|round| round.operations).sum();
    // The kernel counts in ticks: over all rounds together they weigh least.
    let server: Option<f64> = rounds.iter().map(|round| round.server_cpu_seconds).sum();
    let client: f64 = rounds.iter().map(|round| round.client_cpu_seconds).sum();
    let round_trips = rounds.iter().map(|round| {
        let counted = round.round_trips?;
        Some(counted.round_trips as f64 / counted.records as f64)
    });
    let round_trips: Option<Vec<f64>> = round_trips.collect();
    let cache_hits = rounds.iter().map(|round| {
        let counted = round.round_trips.filter(|_| options.cache.is_some())?;
        Some(counted.cache_hits as f64 / counted.records as f64)
    });
    let cache_hits: Option<Vec<f64>> = cache_hits.collect();
    let ratios = rounds.iter().zip(farslot);
    let ratios =
        ratios.map(|(own, farslot)| farslot.operations_per_second / own.operations_per_second);
    let microseconds =
        |quantile| of(&|round| round.latency.value_at_quantile(quantile) as f64 / 1e3);
    YcsbRow {
        workload,
        system: system.name(),
        version: system.version().to_owned(),
        operations_per_second: of(&|round| round.operations_per_second),
        p50_us: microseconds(0.5),
        p99_us: microseconds(0.99),
        round_trips: round_trips.map(median),
        cache_hits: cache_hits.map(median),
        server_cpu_seconds_per_million: server
            .map(|seconds| per_million(seconds / operations as f64)),
        client_cpu_seconds_per_million: per_million(client / operations as f64),
        operations,
        farslot_ratio: (!std::ptr::eq(rounds, farslot)).then(|| median(ratios)),
    }
}
