//! What operations cost in a table, and in words what that comes from.

use super::candidates::{Plan, Reads, Writers};
use super::question::AdviceQuestion;
use super::ranked::{Ranked, WritePrice};
use crate::{BenchError, Result};
use farslot::index::cuckoo::CuckooLayout;
use farslot::index::duo::DuoLayout;
use farslot::index::heap::record_bytes;
use farslot::index::linear::LinearLayout;
use farslot::index::sealed::SlotOrder;
use farslot::index::{BATCH_WIDTH, SlotKind};
use farslot::model::advise::{
    CalledOperation, CuckooPlaces, CuckooReads, CuckooSlots, CuckooWrite, DuoPages, DuoRecords,
    DuoSlots, Limit, LinearSlots, LinearWrite, OutOfBand, VerbCosts, Work, cuckoo_lookup,
    cuckoo_put, cuckoo_update, duo_lookup, duo_put, duo_update, linear_lookup, linear_put,
    linear_update, perfect_lookup, race_lookup, race_put, race_update,
};
use farslot::model::{Objective, TableLoad, Workload};

/// What each operation takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prices {
    pub(super) lookup: Work,
    /// Of a key that is there, where values can be replaced.
    pub(super) update: Option<Work>,
    /// Of a new key, where there can be any.
    pub(super) put: Option<Work>,
    /// What growing adds to each put of a new key, on average.
    pub(super) growth: Option<Work>,
}

impl Prices {
    /// Those of a table.
    pub(super) fn of(question: &AdviceQuestion, costs: &VerbCosts, plan: &Plan) -> Result<Self> {
        let changes = !question.sealed;
        let updates = changes && question.unique;
        let looked = lookup(question, costs, plan, question.workload()?)?;
        let at_the_client = local_index(costs, plan, looked.verbs);
        let updated = updates.then(|| update(question, costs, plan)).transpose()?;
        let put = changes.then(|| put(question, costs, plan)).transpose()?;
        let grows = question.grow_to.is_some_and(|most| most > question.entries);
        let growth = (changes && grows).then(|| growth(question, costs, plan));
        Ok(Self {
            lookup: looked + at_the_client,
            update: updated.map(|work| work + at_the_client),
            put: put.map(|work| work + at_the_client),
            growth: growth.transpose()?.flatten(),
        })
    }

    /// Lookups, updates and puts in their proportion.
    fn operation(&self, question: &AdviceQuestion) -> Work {
        let lookups = 1.0 - question.updates - question.inserts;
        // A question has no share of what cannot be.
        self.lookup * lookups
            + self.update.unwrap_or_default() * question.updates
            + (self.put.unwrap_or_default() + self.growth.unwrap_or_default()) * question.inserts
    }
}

/// Prices a table.
pub(super) fn price(
    question: &AdviceQuestion,
    costs: &VerbCosts,
    scheme: String,
    plan: Plan,
) -> Result<Ranked> {
    let prices = Prices::of(question, costs, &plan)?;
    let operation = prices.operation(question);
    let why = why(
        question,
        costs,
        &plan,
        &prices.lookup,
        &operation,
        operation.capacity_of(question.threads.into()).limit,
    );
    let ranked = ranked(question, scheme, plan, prices, why);
    Ok(ranked)
}

/// Prices a table that is used by calls of its owner; nothing where it is not.
pub(super) fn price_calls(
    question: &AdviceQuestion,
    costs: &VerbCosts,
    scheme: &str,
    plan: &Plan,
) -> Result<Option<Ranked>> {
    let writes = match &plan.reads {
        Reads::Linear { .. } | Reads::Race { .. } => true,
        Reads::Cuckoo { .. } | Reads::Sealed { .. } => false,
        Reads::Duo { .. } => return Ok(None),
    };
    if !question.calls {
        return Ok(None);
    }
    let by_verbs = Prices::of(question, costs, plan)?;
    let key = f64::from(question.key);
    let value = question.mean_value();
    let together = BATCH_WIDTH as u32;
    // Of a call each operation has its part; the heads are of all.
    let called = |request_bytes, reply_bytes| {
        costs.call(CalledOperation {
            request_bytes,
            reply_bytes,
            owner_ns: question.profile.handler_ns,
            together,
        })
    };
    let head = 8.0;
    let write = called(head + key + value, head);
    let by_call = |verbs: Option<Work>| verbs.map(|verbs| if writes { write } else { verbs });
    let prices = Prices {
        lookup: called(head + key, head + value * question.hit_ratio),
        update: by_call(by_verbs.update),
        put: by_call(by_verbs.put),
        growth: by_verbs.growth,
    };
    let why = format!(
        "the owner executes {}: one round trip, {together} operations a call, {:.0} ns of its processor each",
        if writes { "operations" } else { "lookups" },
        question.profile.handler_ns
    );
    let scheme = format!("{scheme}, by calls");
    let ranked = ranked(question, scheme, plan.clone(), prices, why);
    Ok(Some(Ranked {
        by_calls: true,
        read_slots: None,
        ..ranked
    }))
}

/// A table with its prices.
fn ranked(
    question: &AdviceQuestion,
    scheme: String,
    plan: Plan,
    prices: Prices,
    why: String,
) -> Ranked {
    let Prices {
        lookup,
        update,
        put,
        growth,
    } = prices;
    let operation = prices.operation(question);
    let threads = f64::from(question.threads);
    let capacity = operation.capacity_of(threads);
    let bytes = plan.reads.table_bytes() as u64;
    let most = question.grow_to.unwrap_or(question.entries) as f64;
    let remembered = remembered(question, &plan);
    let written = |work| match question.profile.processor.is_in_place() {
        // Where their processors are the only limit, there is none of as many clients as it takes.
        true => WritePrice::of(work, threads),
        false => WritePrice::of(work, f64::INFINITY),
    };
    // An entry is a hash of the key, and where its slot and record are.
    let client_bytes = plan.reads.client_bytes() + remembered * 16;
    Ranked {
        scheme,
        by_calls: false,
        load: plan.load,
        read_slots: plan.reads.read_slots(),
        reads: lookup.verbs,
        bytes: lookup.bytes,
        round_trips: lookup.round_trips,
        client_ns: lookup.client_ns,
        lines: lookup.lines,
        remembered,
        messages: operation.verbs,
        latency_ns: lookup.latency_ns,
        lookups_per_second: lookup.capacity_of(threads).per_second,
        operations_per_second: capacity.per_second,
        update: update.map(written),
        put: put.map(written),
        growth: growth.map(written),
        limit: capacity.limit,
        memory_bytes: bytes,
        bytes_per_record: bytes as f64 / most,
        client_bytes,
        client_bytes_per_record: client_bytes as f64 / question.entries as f64,
        writers: plan.reads.writers(),
        can_grow: plan.reads.can_grow(),
        why,
        plan,
    }
}

/// Keys of which a client remembers where their records are; 0 where it can remember none.
fn remembered(question: &AdviceQuestion, plan: &Plan) -> u64 {
    match (&plan.reads, plan.kind) {
        (_, SlotKind::Word | SlotKind::Pair | SlotKind::Signatures) => 0,
        (_, SlotKind::Inline) if question.updates == 0.0 => 0,
        (Reads::Linear { layout, .. }, _) if question.unique => question.remembered(layout.slots),
        _ => 0,
    }
}

/// Bytes of a client's own index that stay in its processor's cache, among all that passes through
/// it: the second level of a server's core, assumed.
pub(super) const CACHED_INDEX_BYTES: f64 = 1_048_576.0;

/// A look into the client's index of the table. CuckooDuo's is two buckets of fingerprints, each on
/// one cache line; a perfect hash function reads one line of its own. In mapped memory a lookup
/// that needs no verb takes as long as one beside its lines, assumed.
fn local_index(costs: &VerbCosts, plan: &Plan, verbs: f64) -> Work {
    let (bytes, lines) = match &plan.reads {
        Reads::Duo { layout, .. } => (layout.index_bytes(), 2.0),
        Reads::Sealed { layout, .. } if layout.order == SlotOrder::Perfect => {
            (layout.client_bytes(), 1.0)
        }
        _ => return Work::default(),
    };
    let from_memory = lines * (1.0 - CACHED_INDEX_BYTES / bytes as f64).max(0.0);
    costs
        .own_lines((1.0 - verbs).max(0.0), from_memory)
        .unwrap_or_else(|| Work {
            client_ns: local_index_ns(bytes) * lines / 2.0,
            ..Work::default()
        })
}

/// The client's processor for two lines of an index of so many bytes, in ns, where all that is
/// known of the machine is its NIC. Measured on shared memory for absent keys of CuckooDuo tables,
/// which cost nothing else (docs/results.md): 115 ns at 2 MB, 1,124 at 200 MB; in between and
/// beyond by the logarithm, assumed. One line is half of it, assumed.
fn local_index_ns(bytes: u64) -> f64 {
    const SMALL: (f64, f64) = (2.1e6, 115.0);
    const LARGE: (f64, f64) = (2.1e8, 1_124.0);
    let decades = (bytes as f64 / SMALL.0).log10().max(0.0);
    let slope = (LARGE.1 - SMALL.1) / (LARGE.0 / SMALL.0).log10();
    SMALL.1 + decades * slope
}

/// What growing adds to each new key of a table that grows: what the splits of its slots move, by
/// the keys that fill the slots that they made. Nothing where the table does not grow.
fn growth(question: &AdviceQuestion, costs: &VerbCosts, plan: &Plan) -> Result<Option<Work>> {
    let load = plan.load;
    Ok(match &plan.reads {
        Reads::Race { .. } => {
            // Every slot of the parent and of the child is swapped once, that of a record which
            // goes once more, and each record is read to know whether it goes.
            let (swap, record) = (costs.atomic(), costs.transfer(question.block_bytes()?));
            let slot = swap * (2.0 + load / 2.0) + record * load;
            Some(slot * (1.0 / load))
        }
        Reads::Duo { layout, .. } => {
            // Of a bucket: its READ; the new bucket, the word that says so, and the old bucket.
            let bucket =
                costs.transfer((layout.slot_bytes() * layout.bucket_slots as usize) as f64);
            let split = bucket * 3.0 + costs.atomic();
            Some(split * (1.0 / (f64::from(layout.bucket_slots) * load)))
        }
        Reads::Linear { .. } | Reads::Sealed { .. } | Reads::Cuckoo { .. } => None,
    })
}

/// The records that are out of band, if any are, of schemes whose slots have a part of the hash.
fn out_of_band(question: &AdviceQuestion, plan: &Plan) -> Result<Option<OutOfBand>> {
    // In the long run every value has been replaced, and only in cuckoo tables comes back into its
    // slot.
    let is_replaced = question.updates > 0.0;
    Ok(match (&plan.reads, plan.kind) {
        (_, SlotKind::Word | SlotKind::Pair) => None,
        (Reads::Sealed { .. }, SlotKind::Heap) => {
            let (bytes, reads) = question.sealed_record();
            Some(OutOfBand::sealed(bytes, reads))
        }
        (_, SlotKind::Signatures) => Some(OutOfBand::signed(question.region_bytes())),
        (Reads::Linear { layout, .. }, SlotKind::Hybrid) if !is_replaced => {
            let (bytes, share) = question.read_beyond(layout.inline_bytes as usize)?;
            Some(OutOfBand::tagged(share, bytes))
        }
        (Reads::Race { .. } | Reads::Duo { .. }, _) => None,
        (Reads::Cuckoo { .. }, SlotKind::Inline) => None,
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

fn lookup(
    question: &AdviceQuestion,
    costs: &VerbCosts,
    plan: &Plan,
    workload: Workload,
) -> Result<Work> {
    let records = out_of_band(question, plan)?;
    match &plan.reads {
        Reads::Linear { layout, read_slots } => {
            let table = TableLoad::from_load(layout.slots, plan.load)?;
            let slots = linear_slots(layout, *read_slots);
            let looked = linear_lookup(costs, table, slots, workload, records)?;
            let known = question.known_share(remembered(question, plan));
            let Some(records) = records.filter(|_| known > 0.0) else {
                return Ok(looked);
            };
            // Of keys that are remembered slot and record are read at once.
            let hits = Workload::new(1.0, workload.hit_policy())?;
            let unknown = linear_lookup(costs, table, slots, hits, Some(records))?;
            let at_once = costs.together(&[costs.transfer(records.bytes), costs.transfer(8.0)]);
            let share = workload.hit_ratio() * known * records.share;
            Ok(looked + at_once * share + unknown * -share)
        }
        Reads::Sealed { layout, .. } if layout.order == SlotOrder::Perfect => {
            let (slot, hit_ratio) = (layout.slot_bytes() as f64, workload.hit_ratio());
            Ok(perfect_lookup(costs, slot, hit_ratio, records))
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
        Reads::Race { places, .. } => {
            let hit_ratio = workload.hit_ratio();
            Ok(race_lookup(
                costs,
                places,
                hit_ratio,
                question.block_bytes()?,
            ))
        }
        Reads::Duo { layout, .. } => {
            let slots = duo_slots(question, plan.load, layout)?;
            Ok(duo_lookup(costs, &slots, workload.hit_ratio()))
        }
    }
}

/// The put of a new key.
fn put(question: &AdviceQuestion, costs: &VerbCosts, plan: &Plan) -> Result<Work> {
    match &plan.reads {
        Reads::Linear { layout, read_slots } => {
            linear_put_of(question, costs, plan, layout, *read_slots)
        }
        Reads::Sealed { .. } => Err(unwritten()),
        Reads::Cuckoo {
            layout,
            reads,
            places,
            ..
        } => {
            let slots = cuckoo_slots(question, plan, layout, *reads, places)?;
            Ok(cuckoo_put(costs, &slots))
        }
        Reads::Race { places, .. } => {
            let (block, record) = (question.block_bytes()?, question.written_bytes());
            Ok(race_put(costs, places, block, record))
        }
        Reads::Duo { layout, insertions } => {
            let slots = duo_slots(question, plan.load, layout)?;
            Ok(duo_put(costs, &slots, insertions))
        }
    }
}

/// Sealed tables are only asked what lookups cost.
fn unwritten() -> BenchError {
    BenchError::BadOption {
        option: "writes",
        value: "some".into(),
        limit: "none in sealed tables".into(),
    }
}

fn linear_put_of(
    question: &AdviceQuestion,
    costs: &VerbCosts,
    plan: &Plan,
    layout: &LinearLayout,
    read_slots: u64,
) -> Result<Work> {
    let table = TableLoad::from_load(layout.slots, plan.load)?;
    let slots = linear_slots(layout, read_slots);
    let records = out_of_band(question, plan)?;
    let put = |write| linear_put(costs, table, slots, records, write);
    let record = |bytes| record_bytes(0, bytes) as f64;
    Ok(match plan.kind {
        SlotKind::Word => put(LinearWrite::Word)?,
        SlotKind::Pair => put(LinearWrite::Pair)?,
        SlotKind::Inline => put(LinearWrite::Inline((layout.slot_bytes() - 8) as f64))?,
        SlotKind::Heap | SlotKind::Signatures => put(LinearWrite::Out(question.written_bytes()))?,
        SlotKind::Hybrid => {
            let room = layout.inline_bytes as usize;
            let (bytes, share) = question.mean_beyond(room, record);
            let (all, _) = question.mean_beyond(0, |bytes| bytes as f64);
            let (larger, _) = question.mean_beyond(room, |bytes| bytes as f64);
            let smaller = (all - larger * share) / (1.0 - share).max(f64::MIN_POSITIVE);
            put(LinearWrite::Out(bytes))? * share
                + put(LinearWrite::Inline(smaller))? * (1.0 - share)
        }
    })
}

/// The replacement of a value.
fn update(question: &AdviceQuestion, costs: &VerbCosts, plan: &Plan) -> Result<Work> {
    match &plan.reads {
        Reads::Linear { layout, read_slots } => {
            let table = TableLoad::from_load(layout.slots, plan.load)?;
            let slots = linear_slots(layout, *read_slots);
            let records = out_of_band(question, plan)?;
            let written = match plan.kind {
                SlotKind::Word | SlotKind::Pair => None,
                _ => Some(question.written_bytes()),
            };
            let unknown = linear_update(costs, table, slots, records, written)?;
            let known = question.known_share(remembered(question, plan));
            // Of a key that is remembered the record is written and the slot swapped at once.
            let verbs = [costs.transfer(question.written_bytes()), costs.atomic()];
            Ok(unknown * (1.0 - known) + costs.together(&verbs) * known)
        }
        Reads::Sealed { .. } => Err(unwritten()),
        Reads::Cuckoo {
            layout,
            reads,
            places,
            ..
        } => {
            let slots = cuckoo_slots(question, plan, layout, *reads, places)?;
            Ok(cuckoo_update(costs, &slots))
        }
        Reads::Race { places, .. } => {
            let (block, record) = (question.block_bytes()?, question.written_bytes());
            Ok(race_update(costs, places, block, record))
        }
        Reads::Duo { layout, .. } => {
            let slots = duo_slots(question, plan.load, layout)?;
            Ok(duo_update(costs, &slots))
        }
    }
}

fn cuckoo_slots(
    question: &AdviceQuestion,
    plan: &Plan,
    layout: &CuckooLayout,
    reads: CuckooReads,
    places: &CuckooPlaces,
) -> Result<CuckooSlots> {
    let record_bytes = question.written_bytes();
    Ok(CuckooSlots {
        places: places.clone(),
        bucket_bytes: layout.bucket_bytes() as f64,
        reads,
        records: out_of_band(question, plan)?,
        write: match plan.kind {
            SlotKind::Word | SlotKind::Pair => CuckooWrite::Word,
            SlotKind::Inline | SlotKind::Hybrid => CuckooWrite::Inline {
                body_bytes: (layout.bucket_bytes() / layout.bucket_slots as usize - 8) as f64,
                record_bytes,
            },
            SlotKind::Heap => CuckooWrite::Out { record_bytes },
            SlotKind::Signatures => CuckooWrite::Signed {
                record_bytes,
                region_bytes: question.region_bytes(),
            },
        },
    })
}

fn duo_slots(question: &AdviceQuestion, load: f64, layout: &DuoLayout) -> Result<DuoSlots> {
    let is_heap = layout.kind == SlotKind::Heap;
    let records = match is_heap {
        true => Some(DuoRecords {
            block_bytes: question.block_bytes()?,
            record_bytes: question.written_bytes(),
        }),
        false => None,
    };
    let (stash, page) = layout.page_bytes_read();
    // Behind the head: checksum and lengths, or the word that names the record.
    let body = |record: usize| {
        if is_heap {
            8
        } else {
            8 + record.next_multiple_of(8)
        }
    };
    Ok(DuoSlots {
        slot_bytes: layout.slot_bytes() as f64,
        body_bytes: question.mean_beyond(0, |record| body(record) as f64).0,
        bucket_slots: layout.bucket_slots,
        load,
        fingerprint_bits: layout.fingerprint_bits,
        published: layout.published.then_some(DuoPages {
            page_bytes: page as f64,
            stash_bytes: stash as f64,
        }),
        records,
    })
}

fn why(
    question: &AdviceQuestion,
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
        (Reads::Linear { .. } | Reads::Cuckoo { .. }, SlotKind::Inline | SlotKind::Hybrid)
            if question.updates > 0.0 =>
        {
            why += "; values that were replaced are out of band";
        }
        _ => {}
    }
    match &plan.reads {
        Reads::Race { .. } if question.grow_to.is_some() => {
            why += "; puts that split a subtable cost more";
        }
        Reads::Sealed { layout, .. } if layout.order == SlotOrder::Perfect => {
            why += "; clients keep a perfect hash function";
        }
        Reads::Duo { layout, .. } => {
            let bits = layout.fingerprint_bits;
            why += &format!("; clients keep fingerprints of {bits} bits");
            if question.grow_to.is_some() {
                why += "; puts that split a bucket cost more";
            }
        }
        _ => {}
    }
    let writes = question.updates + question.inserts > 0.0;
    if writes && plan.reads.writers() == Writers::One {
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
        Limit::Clients if work.lines > 0.0 => format!(
            "client processors: {verbs:.2} verbs and {:.2} cache lines take {:.0} ns of a client thread",
            work.lines, work.client_ns
        ),
        Limit::Clients => format!(
            "client processors: {:.0} ns of a client thread",
            work.client_ns
        ),
    }
}
