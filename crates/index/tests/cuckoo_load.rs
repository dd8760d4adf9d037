//! How full a cuckoo table can be, and what its operations cost on the way there, as the endpoint
//! counts it: verbs, and round trips one after the other.

mod common;

use common::cuckoo::{
    ORDERS, SIGNATURES, ShmTable, Ways, options, shm_client, shm_node, shm_table, ways,
};
use common::{HEAP, INLINE, Slot, WORD};
use farslot_fabric::shm::ShmEndpoint;
use farslot_fabric::{Endpoint, Executor, OperationClass};
use farslot_index::cuckoo::LookupOrder;
use farslot_index::{FIND_OR_PUT, GET, Index, IndexError, PUT, REMOVE, UPDATE};

const SLOTS: u64 = 1 << 16;
const VALUE: [u8; 3] = [7; 3];

fn key(number: u64) -> [u8; 4] {
    (number as u32).to_le_bytes()
}

/// What operations cost together.
#[derive(Clone, Copy, Default, Debug)]
struct Spent {
    count: u64,
    verbs: u64,
    round_trips: u64,
    most_round_trips: u32,
}

impl Spent {
    fn per_operation(self) -> (f64, f64) {
        let per = |sum: u64| sum as f64 / self.count as f64;
        (per(self.verbs), per(self.round_trips))
    }
}

fn spent(
    executor: &Executor<ShmEndpoint>,
    class: OperationClass,
    operations: impl Future<Output = ()>,
) -> Spent {
    let counters = || executor.endpoint().core().counters.snapshot();
    let before = counters();
    executor.block_on(operations);
    let of = counters().since(&before).operation(class);
    Spent {
        count: of.count,
        verbs: of.verbs,
        round_trips: of.round_trips,
        most_round_trips: of.most_round_trips,
    }
}

/// Puts keys from `held` on until so many are held; returns how many there are, at the latest when
/// the table is full.
async fn fill(table: &ShmTable, held: u64, wanted: u64) -> u64 {
    for number in held..wanted {
        match table.put(&key(number), &VALUE).await {
            Ok(new) => assert!(new),
            Err(IndexError::Full { probed, slots }) => {
                assert!(probed <= slots && slots == table.layout().slots());
                return number;
            }
            Err(error) => panic!("{error}"),
        }
    }
    wanted
}

/// Fills a table in steps of 5% until it is full, and prints what the insertions of each step cost;
/// returns the load factor.
fn load_by_insertion(of: Ways, order: LookupOrder) -> f64 {
    let (executor, table) = shm_table(&options(WORD, SLOTS, of, 3), order);
    let slots = table.layout().slots();
    let mut held = 0;
    for step in 1..=20 {
        let (before, wanted) = (held, slots * step / 20);
        let moves = executor.block_on(table.displacements()).unwrap();
        let spent = spent(&executor, PUT, async {
            held = fill(&table, before, wanted).await;
        });
        let moves = executor.block_on(table.displacements()).unwrap() - moves;
        let (verbs, round_trips) = spent.per_operation();
        println!(
            "{of:?} to {:.2}: {verbs:6.2} verbs, {round_trips:5.2} round trips, {:.3} moves",
            held as f64 / slots as f64,
            moves as f64 / spent.count as f64,
        );
        // A READ of the key's buckets, a level of the search each, the chain.
        assert!(spent.most_round_trips <= 2 + 16, "{spent:?}");
        if step <= 5 && of.bucket_slots >= 4 {
            assert!(
                verbs <= f64::from(of.ways) + 1.1 && round_trips < 2.1,
                "{spent:?}"
            );
        }
        if held < wanted {
            break;
        }
    }
    executor.block_on(async {
        for number in 0..held {
            let got = table.get(&key(number)).await.unwrap();
            assert_eq!(got.as_deref(), Some(&VALUE[..]), "{number}");
        }
        assert!(table.get(&key(held)).await.unwrap().is_none());
    });
    held as f64 / slots as f64
}

#[test]
fn insertion_alone_fills_a_table_nearly_to_its_threshold() {
    let parallel = LookupOrder::Parallel;
    // Thresholds: 0.9990, 0.9804, 0.9768, 0.9179, 0.5.
    assert!(load_by_insertion(ways(3, 4), parallel) >= 0.95);
    assert!(load_by_insertion(ways(2, 4), LookupOrder::Sequential) >= 0.94);
    assert!(load_by_insertion(ways(4, 1), parallel) >= 0.9);
    assert!(load_by_insertion(ways(3, 1), parallel) >= 0.85);
    let two = load_by_insertion(ways(2, 1), LookupOrder::Gathered);
    assert!((0.4..0.55).contains(&two), "{two}");
}

#[test]
fn a_build_fills_a_table_nearly_to_its_threshold() {
    for (of, load) in [
        (ways(3, 4), 0.99),
        (ways(2, 4), 0.96),
        (ways(4, 1), 0.96),
        (ways(3, 1), 0.9),
        (ways(2, 1), 0.46),
    ] {
        let layout = options(WORD, SLOTS, of, 3).layout().unwrap();
        let node = shm_node(&layout);
        let (executor, table) = shm_client(&node, &layout, LookupOrder::Parallel);
        let held = (layout.slots() as f64 * load) as u64;
        let keys: Vec<[u8; 4]> = (0..held).map(key).collect();
        let records: Vec<_> = keys.iter().map(|key| (&key[..], &VALUE[..])).collect();
        executor.block_on(table.build(&records)).unwrap();
        let (executor, table) = shm_client(&node, &layout, LookupOrder::Parallel);
        executor.block_on(async {
            for key in &keys {
                let got = table.get(key).await.unwrap();
                assert_eq!(got.as_deref(), Some(&VALUE[..]));
            }
            let occupancy = table.occupancy().await.unwrap();
            assert_eq!(occupancy.used_slots, held);
        });
    }
}

/// The last records look at thousands of buckets each: a search whose time grows with the square of that
/// makes this the slowest test of the file.
#[test]
fn a_build_fills_the_last_slots() {
    let layout = options(WORD, 1 << 15, ways(4, 8), 3).layout().unwrap();
    let (executor, table) = shm_client(&shm_node(&layout), &layout, LookupOrder::Parallel);
    let keys: Vec<[u8; 4]> = (0..layout.slots()).map(key).collect();
    let records: Vec<_> = keys.iter().map(|key| (&key[..], &VALUE[..])).collect();
    executor.block_on(table.build(&records)).unwrap();
    let occupancy = executor.block_on(table.occupancy()).unwrap();
    assert_eq!(occupancy.used_slots, layout.slots());
}

/// A table of one operation after the other.
struct Client {
    executor: Executor<ShmEndpoint>,
    table: ShmTable,
    slot: Slot,
}

impl Client {
    fn new(slot: Slot, order: LookupOrder, sealed: bool) -> Self {
        let (executor, table) = shm_table(&options(slot, 1 << 15, ways(3, 4), 2), order);
        let (other, key, value) = (slot.key(0), slot.key(1), slot.value(1));
        executor.block_on(async {
            if sealed {
                table.build(&[(&key, &value)]).await.unwrap();
                return;
            }
            // The first record out of band takes an extent of the heap, of which later ones have their
            // blocks.
            table.put(&other, &value).await.unwrap();
            table.put(&other, &value).await.unwrap();
            table.put(&key, &value).await.unwrap();
        });
        Self {
            executor,
            table,
            slot,
        }
    }

    /// Verbs and round trips of one operation.
    fn cost(&self, class: OperationClass, operation: impl Future<Output = ()>) -> (u64, u64) {
        let spent = spent(&self.executor, class, operation);
        assert_eq!(spent.count, 1);
        (spent.verbs, spent.round_trips)
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
#[test]
fn lookups() {
    for slot in [WORD, INLINE, HEAP, SIGNATURES] {
        // The READ of the record.
        let out = u64::from(slot == HEAP || slot == SIGNATURES);
        for (order, buckets) in ORDERS.into_iter().zip([None, Some(3), Some(1)]) {
            for sealed in [false, true] {
                let client = Client::new(slot, order, sealed);
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
/// written before their slot is, and read where their slot may be the key's.
#[test]
fn writes() {
    let costs = |slot: Slot| {
        let client = Client::new(slot, LookupOrder::Parallel, false);
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
    // What replaces an Inline record is out of band.
    let inline = [(5, 2), (5, 3), (6, 4), (4, 2), (5, 3), hit, hit];
    assert_eq!(costs(INLINE), inline);
    let heap = [(5, 3), (6, 4), (6, 4), (4, 2), (5, 3), hit, hit];
    assert_eq!(costs(HEAP), heap);
    // A record goes out with the word that publishes it.
    let signatures = [(5, 2), (6, 3), (6, 3), (4, 2), (5, 3), hit, hit];
    assert_eq!(costs(SIGNATURES), signatures);
}
