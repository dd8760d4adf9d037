//! Which scheme suits a workload: all of them priced by the model ([`farslot::model::advise`]),
//! ranked, with the reason; and whether the simulator agrees ([`check`]).

mod candidates;
mod check;
mod places;
mod price;
mod question;
mod ranked;
mod small;

pub use candidates::{Plan, Reads, Writers};
pub use check::{CheckRow, Checked, WriteCheck, check};
pub use question::AdviceQuestion;
pub use ranked::{Ranked, WritePrice};
pub use small::CheckOptions;

use crate::calibrate::SHM_PROFILE;
use crate::{BenchError, Result};
use candidates::SchemeCandidate;
use farslot::fabric::sim::NicProfile;
use farslot::model::Objective;
use farslot::model::advise::{ProcessorCosts, VerbCosts};
use farslot::read_cost;
use places::PlacementCounts;
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

/// A scheme that will not do.
#[derive(Clone, Debug, Serialize)]
pub struct Excluded {
    /// What it is called.
    pub scheme: String,
    /// Why not.
    pub why: String,
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
        in_place: profile.processor.is_in_place().then_some(ProcessorCosts {
            verb_ns: profile.processor.verb_ns,
            line_ns: profile.processor.line_ns,
            atomic_ns: profile.processor.atomic_ns,
        }),
    }
}

/// Prices all schemes for a workload, and ranks them.
///
/// # Errors
/// [`BenchError::BadOption`] for a workload that there is not, or for a profile of mapped memory
/// that does not say what a processor needs; or what the model says.
pub fn advise(question: &AdviceQuestion) -> Result<Advice> {
    question.check()?;
    has_processor(&question.profile)?;
    let costs = verb_costs(&question.profile);
    costs.validate()?;
    let (mut ranked, mut excluded) = (Vec::new(), Vec::new());
    let mut places = PlacementCounts::default();
    for candidate in SchemeCandidate::all(question) {
        let scheme = candidate.name();
        match candidate.plan(question, &mut places) {
            Ok(plan) => {
                ranked.extend(price::price_calls(question, &costs, &scheme, &plan)?);
                ranked.push(price::price(question, &costs, scheme, plan)?);
            }
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
        notes: notes(question, &ranked),
        ranked,
        excluded,
    })
}

/// Refuses what calibrations of mapped memory wrote before they measured processors: ranks would be
/// those of a NIC that there is not.
fn has_processor(profile: &NicProfile) -> Result<()> {
    if profile.name != SHM_PROFILE || profile.processor.is_in_place() {
        return Ok(());
    }
    Err(BenchError::bad_text(
        "processor.line_ns of the profile",
        format!("{} in {SHM_PROFILE}", profile.processor.line_ns),
        "above 0: let `farslot calibrate` measure this memory again",
    ))
}

fn notes(question: &AdviceQuestion, ranked: &[Ranked]) -> Vec<String> {
    let mut notes = Vec::new();
    if question.skew > 0.0 {
        notes.push(format!(
            "a skew of {} changes no figure: priced are clients without a cache, record locations are of keys that are looked \
             up alike, and popular keys stand no nearer than others",
            question.skew
        ));
    }
    let processor = question.profile.processor;
    if processor.is_in_place() {
        notes.push(format!(
            "no NIC moves the bytes: an operation is priced by a client's processor, {:.1} ns a verb and {:.1} ns a cache line \
             (both measured, if the profile was calibrated), and {} threads have a processor each; that the cache \
             holds {:.0} KiB of the client's own index, a line beyond which costs as much, and that the memory keeps up with all \
             threads, is assumed",
            processor.verb_ns,
            processor.line_ns,
            question.threads,
            price::CACHED_INDEX_BYTES / 1024.0
        ));
    }
    let locals = |ranked: &&Ranked| {
        !processor.is_in_place() && ranked.client_ns > ranked.reads * question.profile.post_ns + 1.0
    };
    if ranked.iter().any(|ranked| locals(&ranked)) {
        notes.push(format!(
            "a client's look into its own index is priced from 115 ns at 2 MB to 1,124 ns at 200 MB: measured at these two, \
             assumed in between, on {} client threads",
            question.threads
        ));
    }
    if ranked.iter().any(|ranked| ranked.growth.is_some()) {
        notes.push(
            "what growing costs is an estimate: what splits move, by the keys that fill what they made; it is in the \
             operations per second and in no latency"
                .into(),
        );
    }
    if question.updates + question.inserts > 0.0 {
        notes.push(format!(
            "an atomic occupies the node's NIC {:.1} ns longer than a READ of 8 bytes, whatever the word, and a WRITE as long as \
             a READ: {}; real NICs serialise atomics on one word",
            question.profile.atomic_ns,
            match question.profile.name.as_str() {
                "tcp-loopback" | "shm" => "measured",
                _ => "assumed, unless the profile was calibrated",
            }
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
