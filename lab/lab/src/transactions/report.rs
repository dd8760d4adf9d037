//! What a run gives.

use super::options::{Options, TransactionBenchmark};
use super::round::{RoundTotals, TRANSACTION, TransactionRound};
use super::system::TransactionSystem;
use super::workload::Workload;
use farslot::fabric::VerbKind;
use farslot::fabric::counters::CounterSnapshot;
use farslot_bench::median;
use farslot_txn::Locking;
use serde::Serialize;

/// The figures of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TransactionsReport {
    /// `tatp`, `smallbank`, or `ycsb-a` to `ycsb-f`.
    pub bench: &'static str,
    /// Where Farslot's nodes were.
    pub fabric: &'static str,
    /// Subscribers, accounts or records.
    pub size: u64,
    /// Nodes that share them.
    pub nodes: u64,
    /// Where Farslot's transactions run whose rows one node has: `owner` or `client`.
    pub runs_at: &'static str,
    /// When those that run at the client lock: `execution` or `commit`.
    pub locking: &'static str,
    /// Client threads of each system.
    pub threads: usize,
    /// Transactions under way at once, of each thread.
    pub pipeline: usize,
    /// Threads that serve, of each system that has them.
    pub server_threads: usize,
    /// Interleaved rounds, of which medians count.
    pub rounds: usize,
    /// What the figures mean, in words.
    pub notes: Vec<&'static str>,
    /// By system, Farslot first.
    pub rows: Vec<SystemRow>,
}

/// One system.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SystemRow {
    /// The system.
    pub system: &'static str,
    /// Its version.
    pub version: String,
    /// Transactions a second, of all threads, those that failed by the specification included.
    pub attempted_per_second: f64,
    /// Those that committed.
    pub committed_per_second: f64,
    /// Median latency in microseconds, from a transaction's first attempt (in the others, the issue
    /// of its batch) to its end.
    pub p50_us: f64,
    /// As [`SystemRow::p50_us`], of 99 of 100.
    pub p99_us: f64,
    /// Times that a transaction was run again because of another, in a million transactions.
    pub conflicts_per_million: f64,
    /// Processor seconds of the server's processes in a million transactions, where it has some.
    pub server_cpu_seconds_per_million: Option<f64>,
    /// Processor seconds of the client threads in a million transactions.
    pub client_cpu_seconds_per_million: f64,
    /// Transactions that were measured; all that they read was checked.
    pub attempted: u64,
    /// Those that committed.
    pub committed: u64,
    /// By kind of transaction.
    pub kinds: Vec<KindRow>,
    /// What one transaction took in the mean, of Farslot.
    pub posted: Option<PostedRow>,
    /// Cents that were loaded, where the workload has a total.
    pub loaded_cents: Option<i64>,
    /// Cents that committed transactions have added.
    pub added_cents: Option<i64>,
    /// Cents that there are in the end: no more or less than both.
    pub final_cents: Option<i64>,
    /// Farslot's rate of attempted transactions divided by this system's, the median over rounds;
    /// of Farslot none.
    pub farslot_ratio: Option<f64>,
}

/// What a client posted for one transaction, in the mean: all of its tries, and those of others
/// that it finished.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PostedRow {
    /// READs.
    pub reads: f64,
    /// Calls.
    pub calls: f64,
    /// Bytes of READs, requests and replies.
    pub bytes: f64,
    /// The longest chain of READs and calls of which each waits for the one before.
    pub round_trips: f64,
    /// The most of these that any transaction took.
    pub most_round_trips: u32,
}

/// One kind of transaction on one system.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KindRow {
    /// Its name.
    pub kind: &'static str,
    /// How many were run.
    pub attempted: u64,
    /// How many committed.
    pub committed: u64,
    /// How many of a hundred did.
    pub success_percent: f64,
    /// What the specification implies for that.
    pub specified_percent: Option<f64>,
}

const NOTES: [&str; 4] = [
    "a transaction that fails by its specification is attempted, and not committed",
    "latency: of farslot a transaction's own; of the others from the issue of its batch until all of that is answered",
    "redis: one command or one Lua script a transaction, since WATCH and MULTI need two round trips that other transactions of the \
     connection may not share",
    "postgres: one prepared statement or function a transaction, isolation serializable, synchronous_commit off",
];

const YCSB_NOTES: [&str; 3] = [
    "a transaction has 1 to 8 keys, each number as probable as any, and each key an operation of the workload's mix; every value that \
     was read was checked to be a whole one of its record",
    "scans of workload e: farslot and postgres in the order of the keys, redis by one MGET of consecutive numbers, as its hash has no order",
    "a client inserts no more than doubles the records, and reads instead after that",
];

pub(super) fn report(
    options: &Options,
    workload: &dyn Workload,
    fabric: &'static str,
    rows: Vec<SystemRow>,
) -> TransactionsReport {
    TransactionsReport {
        bench: workload.name(),
        fabric,
        size: match options.bench {
            TransactionBenchmark::Tatp { subscribers } => subscribers,
            TransactionBenchmark::SmallBank { accounts, .. } => accounts,
            TransactionBenchmark::Ycsb { records, .. } => records,
        },
        nodes: options.nodes,
        runs_at: match (options.at_owner, options.bench) {
            (true, TransactionBenchmark::Tatp { .. } | TransactionBenchmark::SmallBank { .. }) => {
                "owner"
            }
            _ => "client",
        },
        locking: match options.locking {
            Locking::Execution => "execution",
            Locking::Commit => "commit",
        },
        threads: options.threads,
        pipeline: options.pipeline,
        server_threads: options.server_threads,
        rounds: options.rounds,
        notes: match options.bench {
            TransactionBenchmark::Ycsb { .. } => [&NOTES[..], &YCSB_NOTES].concat(),
            _ => NOTES.to_vec(),
        },
        rows,
    }
}

/// The medians of a system's rounds, beside Farslot's.
pub(super) fn row(
    workload: &dyn Workload,
    system: &dyn TransactionSystem,
    rounds: &[TransactionRound],
    farslot: &[TransactionRound],
    total: Option<(i64, i64, i64)>,
) -> SystemRow {
    let sum =
        |of: &dyn Fn(&RoundTotals) -> u64| rounds.iter().map(|round| of(&round.all)).sum::<u64>();
    let attempted = sum(&RoundTotals::attempted);
    let per_million = |figure: f64| 1e6 * figure / attempted.max(1) as f64;
    let server: Option<f64> = rounds.iter().map(|round| round.server_cpu_seconds).sum();
    let client: f64 = rounds.iter().map(|round| round.all.cpu.as_secs_f64()).sum();
    let microseconds = |quantile| {
        median_of(rounds, |round| {
            round.all.latency.value_at_quantile(quantile) as f64 / 1e3
        })
    };
    let ratios = rounds.iter().zip(farslot);
    let ratios =
        ratios.map(|(own, farslot)| farslot.attempted_per_second / own.attempted_per_second);
    let kinds = workload.kinds().iter().enumerate().map(|(at, kind)| {
        let attempted = sum(&|share| share.tallies[at].attempted);
        let committed = sum(&|share| share.tallies[at].committed);
        KindRow {
            kind: kind.name,
            attempted,
            committed,
            success_percent: 100.0 * committed as f64 / attempted.max(1) as f64,
            specified_percent: kind.succeeds,
        }
    });
    let posted = rounds.iter().map(|round| round.all.posted);
    let posted = posted.reduce(|all, round| all.plus(&round));
    SystemRow {
        system: system.name(),
        version: system.version(),
        attempted_per_second: median_of(rounds, |round| round.attempted_per_second),
        committed_per_second: median_of(rounds, |round| round.committed_per_second),
        p50_us: microseconds(0.5),
        p99_us: microseconds(0.99),
        conflicts_per_million: per_million(sum(&|share| share.conflicts) as f64),
        server_cpu_seconds_per_million: server.map(per_million),
        client_cpu_seconds_per_million: per_million(client),
        attempted,
        committed: sum(&RoundTotals::committed),
        kinds: kinds.collect(),
        posted: posted.and_then(|posted| posted_row(&posted)),
        loaded_cents: total.map(|(loaded, ..)| loaded),
        added_cents: total.map(|(_, added, _)| added),
        final_cents: total.map(|(.., found)| found),
        farslot_ratio: (!std::ptr::eq(rounds, farslot)).then(|| median(ratios)),
    }
}

/// What one transaction took; nothing of a system whose clients count nothing.
fn posted_row(posted: &CounterSnapshot) -> Option<PostedRow> {
    let ended = posted.operation(TRANSACTION);
    let each = |count: u64| count as f64 / ended.count as f64;
    (ended.count > 0).then(|| PostedRow {
        reads: each(posted.verbs_of(VerbKind::Read)),
        calls: each(posted.verbs_of(VerbKind::Call)),
        bytes: each(posted.bytes_read + posted.bytes_written),
        round_trips: each(ended.round_trips),
        most_round_trips: ended.most_round_trips,
    })
}

/// The median of a figure over rounds.
fn median_of(rounds: &[TransactionRound], figure: impl Fn(&TransactionRound) -> f64) -> f64 {
    median(rounds.iter().map(figure))
}
