//! What operations cost, as the endpoint counts it: verbs, and round trips one after the other.

use crate::common::costs::cost_of_one;
use crate::common::{
    HEAP, HYBRID, INLINE, PAIR, Reads, Slot, WORD, WORD_SET, new_client, new_node,
};
use farslot_fabric::{Endpoint, Executor, OperationClass, VerbKind};
use farslot_index::hash::scale;
use farslot_index::linear::{LinearLayout, LinearTable};
use farslot_index::{FIND_OR_PUT, GET, Index, IndexExt, PUT, REMOVE, UPDATE};
use farslot_testbed::{AnyEndpoint, Fabric, TestNode};
use std::sync::Arc;

/// Large enough that the clients' counts of its slots are reported now and then only.
const SLOTS: u64 = 1 << 16;

struct Client {
    executor: Executor<AnyEndpoint>,
    table: LinearTable<AnyEndpoint>,
    slot: Slot,
    node: Arc<TestNode>,
}

fn client(fabric: Fabric, slot: Slot, slots: u64, reads: Reads) -> Client {
    let layout = slot.options(slots, 5).layout().unwrap();
    attach(Arc::new(new_node(fabric, &layout)), slot, &layout, reads)
}

fn attach(node: Arc<TestNode>, slot: Slot, layout: &LinearLayout, reads: Reads) -> Client {
    let (executor, table) = new_client(&node, layout, reads);
    Client {
        executor,
        table,
        slot,
        node,
    }
}

/// Verbs of an operation, and its round trips.
type Cost = (u64, u64);

impl Client {
    /// Runs one operation of a class.
    fn cost(&self, class: OperationClass, operation: impl Future<Output = ()>) -> Cost {
        cost_of_one(&self.executor, class, operation)
    }

    fn get(&self, key: u64, found: bool) -> Cost {
        self.cost(GET, async {
            let got = self.table.get(&self.slot.key(key)).await.unwrap();
            assert_eq!(got.is_some(), found);
        })
    }

    fn put(&self, key: u64, value: u64, new: bool) -> Cost {
        let (key, value) = (self.slot.key(key), self.slot.value(value));
        self.cost(PUT, async {
            assert_eq!(self.table.put(&key, &value).await.unwrap(), new);
        })
    }

    fn find_or_put(&self, key: u64, value: u64) -> Cost {
        let (key, value) = (self.slot.key(key), self.slot.value(value));
        self.cost(FIND_OR_PUT, async {
            self.table.find_or_put(&key, &value).await.unwrap();
        })
    }

    fn update(&self, key: u64, value: u64, present: bool) -> Cost {
        let (key, value) = (self.slot.key(key), self.slot.value(value));
        self.cost(UPDATE, async {
            assert_eq!(self.table.update(&key, &value).await.unwrap(), present);
        })
    }

    fn remove(&self, key: u64, present: bool) -> Cost {
        self.cost(REMOVE, async {
            let key = self.slot.key(key);
            assert_eq!(self.table.remove(&key).await.unwrap(), present);
        })
    }
}

/// The costs of a key's life.
#[derive(PartialEq, Eq, Debug)]
struct Costs {
    miss: Cost,
    put_new: Cost,
    hit: Cost,
    found: Cost,
    put_again: Cost,
    update: Cost,
    /// After its value was replaced.
    hit_replaced: Cost,
    remove: Cost,
    miss_dead: Cost,
    update_absent: Cost,
    remove_absent: Cost,
    revive: Cost,
}

fn costs(fabric: Fabric, slot: Slot) -> Costs {
    let client = client(fabric, slot, SLOTS, Reads::fixed(4));
    // The first record of a client opens a run of the heap, with verbs that later ones do
    // not need.
    client.put(1, 1, true);
    client.put(1, 2, false);
    Costs {
        miss: client.get(2, false),
        put_new: client.put(2, 1, true),
        hit: client.get(2, true),
        found: client.find_or_put(2, 2),
        put_again: client.put(2, 3, false),
        update: client.update(2, 4, true),
        hit_replaced: client.get(2, true),
        remove: client.remove(2, true),
        miss_dead: client.get(2, false),
        update_absent: client.update(2, 5, false),
        remove_absent: client.remove(2, false),
        revive: client.put(2, 6, true),
    }
}

/// READ the slot, and one compare-and-swap of the word that holds everything.
pub fn words(fabric: Fabric) {
    for slot in [WORD, WORD_SET] {
        let expected = Costs {
            miss: (1, 1),
            put_new: (2, 2),
            hit: (1, 1),
            found: (1, 1),
            put_again: (2, 2),
            update: (2, 2),
            hit_replaced: (1, 1),
            remove: (2, 2),
            miss_dead: (1, 1),
            update_absent: (1, 1),
            remove_absent: (1, 1),
            revive: (2, 2),
        };
        assert_eq!(costs(fabric, slot), expected);
    }
}

/// As words, but a new key takes two compare-and-swaps, of the key's word and of the value's.
pub fn pairs(fabric: Fabric) {
    let expected = Costs {
        miss: (1, 1),
        put_new: (3, 3),
        hit: (1, 1),
        found: (1, 1),
        put_again: (2, 2),
        update: (2, 2),
        hit_replaced: (1, 1),
        remove: (2, 2),
        miss_dead: (1, 1),
        update_absent: (1, 1),
        remove_absent: (1, 1),
        revive: (2, 2),
    };
    assert_eq!(costs(fabric, PAIR), expected);
}

/// The records of another kind in hybrid slots.
const fn hybrid(inline_bytes: u32, records: Slot) -> Slot {
    Slot {
        kind: HYBRID.kind,
        inline_bytes: Some(inline_bytes),
        ..records
    }
}

/// Also in a hybrid slot that has room for it: a new key is READ, claimed, then written and
/// published in one batch. A value that replaces another goes out of band, written and published in
/// one batch too, and is read after its slot.
pub fn inline_records(fabric: Fabric) {
    let expected = Costs {
        miss: (1, 1),
        put_new: (4, 3),
        hit: (1, 1),
        found: (1, 1),
        put_again: (3, 2),
        update: (4, 3),
        hit_replaced: (2, 2),
        remove: (3, 3),
        miss_dead: (1, 1),
        update_absent: (1, 1),
        remove_absent: (1, 1),
        revive: (3, 2),
    };
    assert_eq!(costs(fabric, INLINE), expected);
    assert_eq!(costs(fabric, hybrid(32, INLINE)), expected);
}

/// Also where it does not fit into a hybrid slot: a record is written while its slot is looked for,
/// then published. A lookup reads the slot, then the record, and so does an update, which then
/// writes and publishes in one batch.
pub fn records_out_of_band(fabric: Fabric) {
    let expected = Costs {
        miss: (1, 1),
        put_new: (3, 2),
        hit: (2, 2),
        found: (2, 2),
        put_again: (4, 3),
        update: (4, 3),
        hit_replaced: (2, 2),
        remove: (3, 3),
        miss_dead: (1, 1),
        update_absent: (1, 1),
        remove_absent: (1, 1),
        revive: (3, 2),
    };
    assert_eq!(costs(fabric, HEAP), expected);
    assert_eq!(costs(fabric, hybrid(8, HEAP)), expected);
}

/// A chunk that wraps around the table's end is one gather (paper 002, section 3.2).
pub fn a_lookup_that_wraps_reads_many_once(fabric: Fabric) {
    for slot in [WORD, PAIR, INLINE] {
        let client = client(fabric, slot, 16, Reads::fixed(4));
        let layout = client.table.layout();
        let home = |key: &u64| scale(layout.hasher.hash(&slot.key(*key)), layout.slots);
        let last = (0..128).find(|key| home(key) == 15).unwrap();
        let first = (0..128).find(|key| home(key) == 0).unwrap();
        client.put(last, 1, true);
        client.put(first, 1, true);
        let kinds = || {
            let counters = client.executor.endpoint().core().counters.snapshot();
            [VerbKind::Read, VerbKind::ReadMany].map(|kind| counters.verbs_of(kind))
        };
        let before = kinds();
        assert_eq!(client.get(last, true), (1, 1));
        assert_eq!(kinds(), [before[0], before[1] + 1], "{}", slot.name);
        assert_eq!(client.get(first, true), (1, 1));
        assert_eq!(kinds(), [before[0] + 1, before[1] + 1], "{}", slot.name);
    }
}

/// At high load a lookup takes as many READs as it has chunks to look through; looking ahead, two
/// chunks share a round trip.
pub fn chunks_are_round_trips_unless_the_next_is_asked_for_ahead(fabric: Fabric) {
    let fill = client(fabric, WORD_SET, 64, Reads::fixed(64));
    for key in 0..64 {
        fill.put(key, 0, true);
    }
    let layout = fill.table.layout().clone();
    let missing = 100;
    let in_turn = attach(Arc::clone(&fill.node), WORD_SET, &layout, Reads::fixed(16));
    assert_eq!(in_turn.get(missing, false), (4, 4));
    let ahead = Reads {
        look_ahead: true,
        ..Reads::fixed(16)
    };
    let ahead = attach(fill.node, WORD_SET, &layout, ahead);
    let (verbs, round_trips) = ahead.get(missing, false);
    assert_eq!(verbs, 4);
    assert!(round_trips <= 3, "{round_trips}");
}
