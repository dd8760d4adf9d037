//! Which scheme suits a workload: all of them priced by the model ([`farslot::model::advise`]), ranked, with
//! the reason; and whether the simulator agrees ([`check`]).

mod candidates;
mod check;
mod places;
mod price;
mod question;
mod small;

pub use candidates::{Plan, Reads, Writers};
pub use check::{CheckRow, Checked, WriteCheck, check};
pub use question::Question;
pub use small::CheckOptions;

use crate::Result;
use candidates::Candidate;
use farslot::fabric::sim::NicProfile;
use farslot::model::Objective;
use farslot::model::advise::{Limit, VerbCosts, Work};
use farslot::read_cost;
use places::Places;
use serde::Serialize;

/// The schemes for a workload.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// The NIC that they were priced for.
    pub profile: String,
    /// The best first.
    pub ranked: Vec<Ranked>,
    /// Those that will not do, and why.
    pub excluded: Vec<Excluded>,
    /// What the figures leave out.
    pub notes: Vec<String>,
}

/// A scheme, and what operations cost in it.
#[derive(Clone, Debug, Serialize)]
pub struct Ranked {
    /// What it is called.
    pub scheme: String,
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
    /// Such writes per second of all clients together, if there is nothing else, and as many write as it takes.
    pub per_second: f64,
}

impl From<Work> for WritePrice {
    fn from(work: Work) -> Self {
        Self {
            verbs: work.verbs,
            bytes: work.bytes,
            round_trips: work.round_trips,
            latency_ns: work.latency_ns,
            per_second: work.capacity().per_second,
        }
    }
}

/// A scheme that will not do.
#[derive(Clone, Debug, Serialize)]
pub struct Excluded {
    /// What it is called.
    pub scheme: String,
    /// Why not.
    pub why: String,
}

fn limit_name<S: serde::Serializer>(limit: &Limit, to: S) -> std::result::Result<S::Ok, S::Error> {
    to.serialize_str(match limit {
        Limit::NodeMessages => "node messages",
        Limit::NodePayload => "node payload",
        Limit::Requester => "client messages",
        Limit::Link => "link",
    })
}

/// What verbs cost behind a NIC, for the model.
#[must_use]
pub fn verb_costs(profile: &NicProfile) -> VerbCosts {
    VerbCosts {
        nic: read_cost(profile),
        atomic_ns: profile.atomic_ns,
        post_ns: profile.post_ns,
        gather_piece_ns: profile.gathers.then_some(profile.gather_piece_ns),
        outstanding: profile.max_outstanding_reads,
    }
}

/// Prices all schemes for a workload, and ranks them.
///
/// # Errors
/// [`BenchError::BadOption`](crate::BenchError::BadOption) for a workload that there is not, or what the model
/// says.
pub fn advise(question: &Question) -> Result<Advice> {
    question.check()?;
    let costs = verb_costs(&question.profile);
    costs.validate()?;
    let (mut ranked, mut excluded) = (Vec::new(), Vec::new());
    let mut places = Places::default();
    for candidate in Candidate::all(question) {
        let scheme = candidate.name();
        match candidate.plan(question, &mut places) {
            Ok(plan) => ranked.push(price::price(question, &costs, scheme, plan)?),
            Err(why) => excluded.push(Excluded { scheme, why }),
        }
    }
    ranked.sort_by(|one, other| match question.objective {
        Objective::Latency => one.latency_ns.total_cmp(&other.latency_ns),
        Objective::Throughput => other
            .operations_per_second
            .total_cmp(&one.operations_per_second),
    });
    Ok(Advice {
        profile: question.profile.name.clone(),
        ranked,
        excluded,
        notes: notes(question),
    })
}

fn notes(question: &Question) -> Vec<String> {
    let mut notes = Vec::new();
    if question.skew > 0.0 {
        notes.push(format!(
            "a skew of {} changes no figure: priced are clients that keep nothing of what they read, no cache and no \
             record hints, and popular keys stand no nearer than others",
            question.skew
        ));
    }
    if !question.unique {
        notes.push(
            "priced for keys that have one record, and may have more: each more takes its own READs and bytes"
                .into(),
        );
    }
    notes
}
