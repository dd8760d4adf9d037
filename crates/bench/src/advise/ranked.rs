//! A scheme that was priced.

use super::candidates::{Plan, Writers};
use farslot::model::advise::{Limit, Work};
use serde::Serialize;

/// A scheme, and what operations cost in it.
#[derive(Clone, Debug, Serialize)]
pub struct Ranked {
    /// What it is called.
    pub scheme: String,
    /// Whether the owner executes operations by call; else all is done by verbs.
    pub by_calls: bool,
    /// Its load factor.
    pub load: f64,
    /// Slots that a READ of a linear table fetches.
    pub read_slots: Option<u64>,
    /// READs of a lookup; a gather is one.
    pub reads: f64,
    /// Payload of a lookup, in bytes.
    pub bytes: f64,
    /// Round trips of a lookup.
    pub round_trips: f64,
    /// The client thread's processor for a lookup, in ns: for its verbs and in its local index.
    pub client_ns: f64,
    /// Cache lines that it loads for a lookup where no NIC moves the bytes, those of its local
    /// index included; else none.
    pub lines: f64,
    /// Keys of which each client remembers where their records are.
    pub remembered: u64,
    /// Messages of an operation, lookup or update.
    pub messages: f64,
    /// An unloaded lookup, in ns.
    pub latency_ns: f64,
    /// Lookups/s of all clients of one machine, if there is nothing else.
    pub lookups_per_second: f64,
    /// The same of lookups and updates in their proportion.
    pub operations_per_second: f64,
    /// The replacement of the value of a key that is there, where the table can be written.
    pub update: Option<WritePrice>,
    /// The put of a new key, where the table can be written.
    pub put: Option<WritePrice>,
    /// What growing costs for each new key, on average, where the table has to grow. It is an
    /// estimate: what a split moves, by the keys that fill what it made. No latency of a put has
    /// it, but the operations per second do.
    pub growth: Option<WritePrice>,
    /// What bounds the operations per second.
    #[serde(serialize_with = "limit_name")]
    pub limit: Limit,
    /// Bytes of the table, its heap and what it may grow into included.
    pub memory_bytes: u64,
    /// The same for each record that it has room for.
    pub bytes_per_record: f64,
    /// Bytes that each client keeps of the table in its own memory, as long as it has not grown.
    pub client_bytes: u64,
    /// The same for each record.
    pub client_bytes_per_record: f64,
    /// How many clients may write at the same time.
    pub writers: Writers,
    /// Whether tables of the scheme can grow while they are used.
    pub can_grow: bool,
    /// Why it stands where it does.
    pub why: String,
    /// The table itself.
    #[serde(skip)]
    pub plan: Plan,
}

/// What a write costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WritePrice {
    /// Verbs.
    pub verbs: f64,
    /// Payload, in bytes.
    pub bytes: f64,
    /// Round trips.
    pub round_trips: f64,
    /// Unloaded, in ns.
    pub latency_ns: f64,
    /// The client thread's processor, in ns.
    pub client_ns: f64,
    /// Such writes per second of all clients together, if there is nothing else, and as many write
    /// as it takes; of all client threads where no NIC moves the bytes.
    pub per_second: f64,
}

impl WritePrice {
    /// That of writes by so many client threads.
    pub(super) fn of(work: Work, threads: f64) -> Self {
        Self {
            client_ns: work.client_ns,
            verbs: work.verbs,
            bytes: work.bytes,
            round_trips: work.round_trips,
            latency_ns: work.latency_ns,
            per_second: work.capacity_of(threads).per_second,
        }
    }
}

fn limit_name<S: serde::Serializer>(limit: &Limit, to: S) -> std::result::Result<S::Ok, S::Error> {
    to.serialize_str(match limit {
        Limit::NodeMessages => "node messages",
        Limit::NodePayload => "node payload",
        Limit::Requester => "client messages",
        Limit::Link => "link",
        Limit::Clients => "client processors",
    })
}
