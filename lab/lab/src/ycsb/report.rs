//! What a run gives.

use super::workload::Workload;
use farslot::SlotKind;
use serde::Serialize;

/// The figures of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct YcsbReport {
    /// Always `ycsb`.
    pub bench: &'static str,
    /// Where Farslot's table was.
    pub fabric: String,
    /// Records that are loaded.
    pub records: u64,
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// What a slot of Farslot's table holds.
    pub slots: SlotKind,
    /// Client threads of each system.
    pub threads: usize,
    /// Records under way at once, of each thread.
    pub pipeline: usize,
    /// Threads that serve, of each system.
    pub server_threads: usize,
    /// Bytes of the cache of each of Farslot's client threads; none by default.
    pub cache_bytes: Option<u64>,
    /// Interleaved rounds, of which medians count.
    pub rounds: usize,
    /// What the figures mean, in words.
    pub notes: Vec<&'static str>,
    /// By workload, and there by system, Farslot first.
    pub rows: Vec<YcsbRow>,
}

/// One system under one workload.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct YcsbRow {
    /// The workload.
    pub workload: Workload,
    /// The system.
    pub system: &'static str,
    /// Its version.
    pub version: String,
    /// Operations a second, of all threads. A scan is one operation, and so is a read-modify-write.
    pub operations_per_second: f64,
    /// From the issue of an operation's batch until the batch is answered, in microseconds.
    pub p50_us: f64,
    /// As [`YcsbRow::p50_us`].
    pub p99_us: f64,
    /// Round trips of a record's read or write, each its own longest chain, where the client counts
    /// them.
    pub round_trips: Option<f64>,
    /// The part of the records read or written that came from the client's cache, where it has one.
    pub cache_hits: Option<f64>,
    /// Processor seconds of the server's process in a million operations, where it has one here.
    pub server_cpu_seconds_per_million: Option<f64>,
    /// Processor seconds of the client threads in a million operations.
    pub client_cpu_seconds_per_million: f64,
    /// Operations that were measured; every value that they read was checked.
    pub operations: u64,
    /// Farslot's rate divided by this system's, the median over rounds; of Farslot none.
    pub farslot_ratio: Option<f64>,
}
