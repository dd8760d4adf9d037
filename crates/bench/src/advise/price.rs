//! What operations cost in a table, and in words what that comes from.

use super::candidates::{Plan, Reads};
use super::{Question, Ranked};
use crate::{BenchError, Result};
use farslot::index::SlotKind;
use farslot::index::heap::record_bytes;
use farslot::index::linear::LinearLayout;
use farslot::index::sealed::SlotOrder;
use farslot::model::advise::{
    CuckooReads, Limit, LinearSlots, LinearWrite, OutOfBand, VerbCosts, Work, cuckoo_lookup,
    linear_lookup, linear_put,
};
use farslot::model::{Objective, TableLoad, Workload};

/// Prices a table.
pub(super) fn price(
    question: &Question,
    costs: &VerbCosts,
    scheme: String,
    plan: Plan,
) -> Result<Ranked> {
    let lookup = lookup(question, costs, &plan, question.workload()?)?;
    let mut operation = lookup * (1.0 - question.updates - question.inserts);
    if question.updates > 0.0 {
        operation = operation + update(question, costs, &plan)? * question.updates;
    }
    let put = put(question, costs, &plan)?;
    let unpriced_puts = put.is_none() && question.inserts > 0.0;
    operation = match put {
        Some(put) => operation + put * question.inserts,
        // What is left is all that is known.
        None if question.inserts < 1.0 => operation * (1.0 / (1.0 - question.inserts)),
        None => lookup,
    };
    let capacity = operation.capacity();
    Ok(Ranked {
        scheme,
        load: plan.load,
        read_slots: plan.reads.read_slots(),
        reads: lookup.verbs,
        bytes: lookup.bytes,
        round_trips: lookup.round_trips,
        messages: operation.verbs,
        latency_ns: lookup.latency_ns,
        lookups_per_second: lookup.capacity().per_second,
        operations_per_second: capacity.per_second,
        put_latency_ns: put.map(|put| put.latency_ns),
        unpriced_puts,
        limit: capacity.limit,
        memory_bytes: plan.reads.table_bytes() as u64,
        why: why(question, costs, &plan, &lookup, &operation, capacity.limit),
        plan,
    })
}

/// The records that are out of band, if any are.
fn out_of_band(question: &Question, plan: &Plan) -> Result<Option<OutOfBand>> {
    // In the long run every value has been replaced.
    let is_replaced = question.updates > 0.0;
    Ok(match (&plan.reads, plan.kind) {
        (_, SlotKind::Word | SlotKind::Pair) => None,
        (Reads::Sealed { .. }, SlotKind::Heap) => {
            let (bytes, reads) = question.sealed_record();
            Some(OutOfBand::sealed(bytes, reads))
        }
        (_, SlotKind::Signatures) => {
            let largest = question.record_sizes().iter().map(|size| size.bytes).max();
            let region = record_bytes(0, largest.unwrap_or(0)).next_multiple_of(8);
            Some(OutOfBand::signed(region as f64))
        }
        (Reads::Linear { layout, .. }, SlotKind::Hybrid) if !is_replaced => {
            let (bytes, share) = question.read_beyond(layout.inline_bytes as usize)?;
            Some(OutOfBand::tagged(share, bytes))
        }
        (_, SlotKind::Inline) if !is_replaced => None,
        (_, SlotKind::Heap | SlotKind::Hybrid | SlotKind::Inline) => {
            Some(OutOfBand::tagged(1.0, question.read_beyond(0)?.0))
        }
    })
}

const fn linear_slots(layout: &LinearLayout, read_slots: u64) -> LinearSlots {
    LinearSlots {
        slot_bytes: layout.slot_bytes(),
        read_slots: read_slots as usize,
        ordered: false,
    }
}

fn lookup(question: &Question, costs: &VerbCosts, plan: &Plan, workload: Workload) -> Result<Work> {
    let records = out_of_band(question, plan)?;
    match &plan.reads {
        Reads::Linear { layout, read_slots } => {
            let table = TableLoad::from_load(layout.slots, plan.load)?;
            let slots = linear_slots(layout, *read_slots);
            Ok(linear_lookup(costs, table, slots, workload, records)?)
        }
        Reads::Sealed { layout, read_slots } => {
            let table = TableLoad::new(layout.slots, question.entries)?;
            let slots = LinearSlots {
                slot_bytes: layout.slot_bytes(),
                read_slots: *read_slots as usize,
                ordered: layout.order == SlotOrder::ByHash,
            };
            Ok(linear_lookup(costs, table, slots, workload, records)?)
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
                records,
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

/// The put of a new key; nothing where keys are displaced, of which nothing is known but counts.
pub(super) fn put(question: &Question, costs: &VerbCosts, plan: &Plan) -> Result<Option<Work>> {
    let Reads::Linear { layout, read_slots } = &plan.reads else {
        return Ok(None);
    };
    let table = TableLoad::from_load(layout.slots, plan.load)?;
    let slots = linear_slots(layout, *read_slots);
    let records = out_of_band(question, plan)?;
    let put = |write| linear_put(costs, table, slots, records, write);
    let whole = |bytes| record_bytes(0, bytes) as f64;
    Ok(Some(match plan.kind {
        SlotKind::Word => put(LinearWrite::Word)?,
        SlotKind::Pair => put(LinearWrite::Pair)?,
        SlotKind::Inline => put(LinearWrite::Inline((layout.slot_bytes() - 8) as f64))?,
        SlotKind::Heap | SlotKind::Signatures => {
            put(LinearWrite::Out(question.mean_beyond(0, whole).0))?
        }
        SlotKind::Hybrid => {
            let room = layout.inline_bytes as usize;
            let (bytes, share) = question.mean_beyond(room, whole);
            let (all, _) = question.mean_beyond(0, |bytes| bytes as f64);
            let (larger, _) = question.mean_beyond(room, |bytes| bytes as f64);
            let smaller = (all - larger * share) / (1.0 - share).max(f64::MIN_POSITIVE);
            put(LinearWrite::Out(bytes))? * share
                + put(LinearWrite::Inline(smaller))? * (1.0 - share)
        }
    }))
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
        _ => costs.transfer(question.block_bytes()?.round()),
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
        (Reads::Linear { layout, .. }, SlotKind::Hybrid) if question.updates == 0.0 => {
            let room = layout.inline_bytes as usize;
            let (_, share) = question.mean_beyond(room, |_| 1.0);
            let percent = 100.0 * share;
            why += &format!(
                "; slots hold records of up to {room} bytes: {percent:.0}% are out of band"
            );
        }
        (_, SlotKind::Heap | SlotKind::Signatures) => {
            why += "; a hit reads its record out of band";
        }
        (_, SlotKind::Inline | SlotKind::Hybrid) if question.updates > 0.0 => {
            why += "; values that were replaced are out of band";
        }
        _ => {}
    }
    if matches!(&plan.reads, Reads::Cuckoo { .. }) {
        if question.inserts > 0.0 {
            why += "; puts of new keys displace others, and are not priced";
        }
        if question.updates + question.inserts > 0.0 {
            why += "; one writer at a time";
        }
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
