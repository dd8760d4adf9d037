//! What the operations of a cuckoo table cost, as the endpoint counts it: verbs, and round trips
//! one after the other.

use crate::common::costs::{cost_of_one, spent};
use crate::common::cuckoo::{ORDERS, SIGNATURES, new_client, new_node, new_table, options, ways};
use crate::common::{HEAP, INLINE, Slot, WORD};
use farslot_fabric::{Executor, OperationClass};
use farslot_index::cuckoo::{CuckooTable, LookupOrder};
use farslot_index::{FIND_OR_PUT, GET, Index, IndexExt, PUT, REMOVE, UPDATE};
use farslot_model::NicModel;
use farslot_model::advise::{
    CuckooPlaces, CuckooReads, CuckooShape, Filling, VerbCosts, cuckoo_lookup,
};
use farslot_testbed::{AnyEndpoint, Fabric, TestNode};

/// A table of one operation after the other.
struct Client {
    executor: Executor<AnyEndpoint>,
    table: CuckooTable<AnyEndpoint>,
    slot: Slot,
    _node: TestNode,
}

impl Client {
    fn new(fabric: Fabric, slot: Slot, order: LookupOrder, sealed: bool) -> Self {
        let (node, executor, table) =
            new_table(fabric, &options(slot, 1 << 15, ways(3, 4), 2), order);
        let (other, key, value) = (slot.key(0), slot.key(1), slot.value(1));
        executor.block_on(async {
            if sealed {
                table.build(&[(&key, &value)]).await.unwrap();
                return;
            }
            // The first record out of band opens a run of the heap, of which later ones have
            // their blocks.
            table.put(&other, &value).await.unwrap();
            table.put(&other, &value).await.unwrap();
            table.put(&key, &value).await.unwrap();
        });
        Self {
            executor,
            table,
            slot,
            _node: node,
        }
    }

    /// Verbs and round trips of one operation.
    fn cost(&self, class: OperationClass, operation: impl Future<Output = ()>) -> (u64, u64) {
        cost_of_one(&self.executor, class, operation)
    }

    fn get(&self, key: u64) -> (u64, u64) {
        self.cost(GET, async {
            let got = self.table.get(&self.slot.key(key)).await.unwrap();
            assert_eq!(got.is_some(), key == 1);
        })
    }

    fn put(&self, key: u64, new: bool) -> (u64, u64) {
        let (key, value) = (self.slot.key(key), self.slot.value(9));
        self.cost(PUT, async {
            assert_eq!(self.table.put(&key, &value).await.unwrap(), new);
        })
    }

    fn find_or_put(&self, key: u64) -> (u64, u64) {
        let (key, value) = (self.slot.key(key), self.slot.value(9));
        self.cost(FIND_OR_PUT, async {
            self.table.find_or_put(&key, &value).await.unwrap();
        })
    }

    fn update(&self, key: u64) -> (u64, u64) {
        let (key, value) = (self.slot.key(key), self.slot.value(9));
        self.cost(UPDATE, async {
            self.table.update(&key, &value).await.unwrap();
        })
    }

    fn remove(&self, key: u64) -> (u64, u64) {
        self.cost(REMOVE, async {
            self.table.remove(&self.slot.key(key)).await.unwrap();
        })
    }
}

/// A hit READs the buckets; a miss then looks whether anything was displaced meanwhile, unless
/// nothing ever is.
pub fn lookups(fabric: Fabric) {
    for slot in [WORD, INLINE, HEAP, SIGNATURES] {
        // The READ of the record.
        let out = u64::from(slot == HEAP || slot == SIGNATURES);
        for (order, buckets) in ORDERS.into_iter().zip([None, Some(3), Some(1)]) {
            for sealed in [false, true] {
                let client = Client::new(fabric, slot, order, sealed);
                let look = u64::from(!sealed);
                match buckets {
                    Some(verbs) => {
                        assert_eq!(client.get(1), (verbs + out, 1 + out));
                        assert_eq!(client.get(2), (verbs + look, 1 + look));
                    }
                    None => {
                        // A key is in its first bucket while there is room.
                        assert_eq!(client.get(1), (1 + out, 1 + out));
                        assert_eq!(client.get(2), (3 + look, 3 + look));
                    }
                }
            }
        }
    }
}

/// READ the buckets, and one batch; an Inline slot's body is a WRITE more. Records out of band are
/// written by the batch that makes a slot name them, and read where their slot may be the key's.
pub fn writes(fabric: Fabric) {
    let costs = |slot: Slot| {
        let client = Client::new(fabric, slot, LookupOrder::Parallel, false);
        [
            client.put(2, true),
            client.put(2, false),
            client.update(2),
            client.find_or_put(2),
            client.remove(2),
            client.remove(2),
            client.update(2),
        ]
    };
    let hit = (3, 1);
    let word = [(4, 2), (4, 2), (4, 2), hit, (4, 2), hit, hit];
    assert_eq!(costs(WORD), word);
    // What replaces an Inline record is out of band for a moment.
    let inline = [(5, 2), (7, 3), (7, 3), hit, (4, 2), hit, hit];
    assert_eq!(costs(INLINE), inline);
    let heap = [(5, 2), (6, 3), (6, 3), (4, 2), (5, 3), hit, hit];
    assert_eq!(costs(HEAP), heap);
    // A record goes out with the word that publishes it.
    let signatures = [(5, 2), (6, 3), (6, 3), (4, 2), (5, 3), hit, hit];
    assert_eq!(costs(SIGNATURES), signatures);
}

/// A reader from before the seal learns of it at its first miss.
pub fn a_seal_spares_the_next_miss_its_look(fabric: Fabric) {
    for slot in [WORD, HEAP, SIGNATURES] {
        seal_spares(fabric, slot);
    }
}

fn seal_spares(fabric: Fabric, slot: Slot) {
    let layout = options(slot, 64, ways(3, 4), 7).layout().unwrap();
    let node = new_node(fabric, &layout);
    let open = || new_client(&node, &layout, LookupOrder::Parallel);
    let ((executor, early), (building, builder)) = (open(), open());
    let (key, value) = (slot.key(1), slot.value(1));
    building.block_on(builder.build(&[(&key, &value)])).unwrap();
    assert!(!early.is_sealed());
    // Key 3 has another signature than key 1, so that its misses READ no record.
    for (verbs, round_trips) in [(4, 2), (3, 1), (3, 1)] {
        let missed = async { assert!(early.get(&slot.key(3)).await.unwrap().is_none()) };
        let cost = cost_of_one(&executor, GET, missed);
        assert_eq!(cost, (verbs, round_trips));
        assert!(early.is_sealed());
    }
}

/// What the advisor takes a miss to read is what one reads.
pub fn the_model_knows_what_a_miss_reads(fabric: Fabric) {
    let layout = options(WORD, 1 << 10, ways(3, 4), 7).layout().unwrap();
    let node = new_node(fabric, &layout);
    let (executor, table) = new_client(&node, &layout, LookupOrder::Parallel);
    // A key of which two ways lead to one bucket has fewer.
    let (spent, got) = spent(&executor, GET, table.get(&WORD.key(5)));
    assert!(got.unwrap().is_none());
    let costs = VerbCosts {
        nic: NicModel::connectx5_edr(),
        atomic_ns: 0.0,
        post_ns: 0.0,
        gather_piece_ns: None,
        outstanding: 16,
        in_place: None,
    };
    let shape = CuckooShape {
        ways: 3,
        bucket_slots: 4,
    };
    let places = CuckooPlaces::find(shape, 0.5, Filling::Inserted).unwrap();
    let (bytes, parallel) = (layout.bucket_bytes(), CuckooReads::Parallel);
    let miss = cuckoo_lookup(&costs, &places, bytes, parallel, 0.0, None, false).unwrap();
    assert_eq!(
        (spent.verbs as f64, spent.bytes as f64),
        (miss.verbs, miss.bytes)
    );
}
