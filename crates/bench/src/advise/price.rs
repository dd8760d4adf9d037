//! What operations cost in a table, and in words what that comes from.

use super::candidates::{Plan, Reads};
use super::{Question, Ranked};
use crate::{BenchError, Result};
use farslot::index::SlotKind;
use farslot::model::advise::{CuckooReads, Limit, VerbCosts, Work, cuckoo_lookup, linear_lookup};
use farslot::model::{Objective, TableLoad, Workload};

/// Prices a table.
pub(super) fn price(
    question: &Question,
    costs: &VerbCosts,
    scheme: String,
    plan: Plan,
) -> Result<Ranked> {
    let lookup = lookup(question, costs, &plan, question.workload()?)?;
    let operation = if question.updates > 0.0 {
        let update = update(question, costs, &plan)?;
        lookup * (1.0 - question.updates) + update * question.updates
    } else {
        lookup
    };
    let capacity = operation.capacity();
    Ok(Ranked {
        scheme,
        load: plan.load,
        read_slots: match &plan.reads {
            Reads::Linear { read_slots, .. } => Some(*read_slots),
            Reads::Cuckoo { .. } => None,
        },
        reads: lookup.verbs,
        bytes: lookup.bytes,
        round_trips: lookup.round_trips,
        messages: operation.verbs,
        latency_ns: lookup.latency_ns,
        lookups_per_second: lookup.capacity().per_second,
        operations_per_second: capacity.per_second,
        limit: capacity.limit,
        memory_bytes: plan.reads.table_bytes() as u64,
        why: why(question, costs, &plan, &lookup, &operation, capacity.limit),
        plan,
    })
}

/// Bytes that a hit reads out of band, if it does.
fn record_bytes(question: &Question, kind: SlotKind) -> Result<Option<usize>> {
    let is_out = match kind {
        SlotKind::Heap | SlotKind::Hybrid | SlotKind::Signatures => true,
        // In the long run every value has been replaced.
        SlotKind::Inline => question.updates > 0.0,
        SlotKind::Word | SlotKind::Pair => false,
    };
    Ok(if is_out { Some(block(question)?) } else { None })
}

fn block(question: &Question) -> Result<usize> {
    let bytes = question
        .block_bytes()
        .ok_or_else(|| BenchError::BadOption {
            option: "value size",
            value: format!("{:?}", question.values),
            limit: "what a block of a heap holds".into(),
        })?;
    Ok(bytes.round() as usize)
}

fn lookup(question: &Question, costs: &VerbCosts, plan: &Plan, workload: Workload) -> Result<Work> {
    let record = record_bytes(question, plan.kind)?;
    match &plan.reads {
        Reads::Linear { layout, read_slots } => {
            let table = TableLoad::from_load(layout.slots, plan.load)?;
            let slot = layout.slot_bytes();
            Ok(linear_lookup(
                costs,
                table,
                slot,
                *read_slots as usize,
                workload,
                record,
            )?)
        }
        Reads::Cuckoo {
            layout,
            reads,
            places,
            sealed,
        } => {
            let bucket = layout.bucket_bytes();
            let work = cuckoo_lookup(
                costs,
                places,
                bucket,
                *reads,
                workload.hit_ratio(),
                record,
                *sealed,
            );
            // Gathers are only asked for where the NIC has them.
            work.ok_or_else(|| BenchError::BadOption {
                option: "gathers",
                value: "false".into(),
                limit: "true for gathered lookups".into(),
            })
        }
    }
}

/// The replacement of a value: the lookup of a key that is there, a WRITE of the record where it is out of band,
/// and a compare-and-swap.
fn update(question: &Question, costs: &VerbCosts, plan: &Plan) -> Result<Work> {
    let hits = Workload::hits(question.workload()?.hit_policy());
    let found = match &plan.reads {
        // The writer looks into all buckets.
        Reads::Cuckoo {
            reads: CuckooReads::Sequential,
            layout,
            places,
            sealed,
        } => {
            let parallel = Plan {
                reads: Reads::Cuckoo {
                    reads: CuckooReads::Parallel,
                    layout: layout.clone(),
                    places: *places,
                    sealed: *sealed,
                },
                ..plan.clone()
            };
            lookup(question, costs, &parallel, hits)?
        }
        _ => lookup(question, costs, plan, hits)?,
    };
    let written = match plan.kind {
        SlotKind::Word | SlotKind::Pair => Work::default(),
        _ => costs.transfer(block(question)? as f64),
    };
    Ok(found + written + costs.atomic())
}

fn why(
    question: &Question,
    costs: &VerbCosts,
    plan: &Plan,
    lookup: &Work,
    operation: &Work,
    limit: Limit,
) -> String {
    let mut why = match question.objective {
        Objective::Latency => format!(
            "{:.2} round trips of {:.0} ns, and {:.0} bytes",
            lookup.round_trips, costs.nic.read_latency_ns, lookup.bytes
        ),
        Objective::Throughput => throughput_reason(operation, limit),
    };
    match (&plan.reads, plan.kind) {
        (_, SlotKind::Heap) => why += "; a hit reads its record out of band",
        (_, SlotKind::Inline) if question.updates > 0.0 => {
            why += "; values that were replaced are out of band";
        }
        _ => {}
    }
    if matches!(&plan.reads, Reads::Cuckoo { .. }) && question.updates > 0.0 {
        why += "; one writer at a time";
    }
    why
}

fn throughput_reason(work: &Work, limit: Limit) -> String {
    let Work { verbs, bytes, .. } = work;
    match limit {
        Limit::NodeMessages => format!(
            "message rate: {verbs:.2} messages take {:.1} of the {:.1} ns at the node's NIC",
            work.messages_ns,
            work.node_ns()
        ),
        Limit::NodePayload => format!(
            "bandwidth: {bytes:.0} bytes take {:.1} of the {:.1} ns at the node's NIC",
            work.payload_ns,
            work.node_ns()
        ),
        Limit::Requester => format!(
            "message rate: {verbs:.2} messages take {:.1} ns at the clients' NIC",
            work.requester_ns
        ),
        Limit::Link => format!(
            "bandwidth: {bytes:.0} bytes take {:.1} ns on the link",
            work.link_ns
        ),
    }
}
