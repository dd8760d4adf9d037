//! Clients that remember where records lie: one round trip where that still holds, and the same
//! answers where it does not, whatever others do and whatever goes wrong.

use crate::common::chaos::{ClientKind, Tally, run_as};
use crate::common::costs::cost_of_one;
use crate::common::{HEAP, HYBRID, INLINE, Reads, Slot, WORD, new_client, new_node};
use farslot_fabric::{Executor, OperationClass};
use farslot_index::linear::{KeyRule, LinearLayout, LinearTable};
use farslot_index::{FIND_OR_PUT, GET, Hasher, Index, IndexExt, PUT, UPDATE};
use farslot_testbed::{AnyEndpoint, Fabric};
use std::rc::Rc;

/// Seeds of each slot kind that go through the simulator's faults.
const SEEDS: u64 = 400;

/// Runs the seeds of all slot kinds that have records out of band.
fn judge(seeds: u64, kind_of: impl Fn(u64) -> ClientKind) -> Tally {
    let mut total = Tally::default();
    for slot in [HEAP, HYBRID, INLINE] {
        for seed in 0..seeds {
            let kind = kind_of(seed);
            match run_as(slot, seed, kind) {
                Ok((tally, _)) => total += tally,
                Err(failure) => panic!("{} {seed}, {kind:?}: {}", slot.name, failure.error),
            }
        }
    }
    let (seen, in_doubt) = (total.seen, total.in_doubt);
    assert!(
        seen > 2 * total.runs && in_doubt > total.runs / 10,
        "{total:?}"
    );
    total
}

/// Clients that remember a record, which keys drive each other out of, and ones that remember them
/// all.
const MOST_RECORDS: [usize; 2] = [1, 64];

#[test]
fn histories_with_remembered_records_are_linearizable() {
    let remembering = judge(SEEDS, |seed| ClientKind {
        records: MOST_RECORDS[seed as usize % 2],
        clusters: [0, 0, 3][seed as usize % 3],
        ..ClientKind::default()
    });
    let without = judge(SEEDS, |_| ClientKind::default());
    assert!(
        remembering.gathers > without.gathers + remembering.runs,
        "{remembering:?}"
    );
}

/// An update writes its record and swaps the slot in one batch. Where the send queue has no room
/// for both, the swap must not follow a WRITE that has failed: the slot would name a record that is
/// not there.
#[test]
fn histories_with_short_send_queues_are_linearizable() {
    judge(SEEDS / 2, |seed| ClientKind {
        records: MOST_RECORDS[seed as usize % 2],
        send_queue_depth: 1 + seed as usize / 2 % 4,
        ..ClientKind::default()
    });
}

/// Two clients of one table; the first remembers.
struct Two {
    executor: Executor<AnyEndpoint>,
    table: LinearTable<AnyEndpoint>,
    other: LinearTable<AnyEndpoint>,
    slot: Slot,
}

impl Two {
    fn new(slot: Slot, keys: KeyRule) -> Self {
        let mut options = slot.options(1 << 12, 5);
        options.sizing.keys = keys;
        let layout: LinearLayout = options.layout().unwrap();
        let node = new_node(Fabric::Sim, &layout);
        let (executor, table) = new_client(&node, &layout, Reads::fixed(4));
        let other = executor.block_on(LinearTable::open(
            Rc::clone(executor.endpoint()),
            crate::common::TABLE,
            layout.clone(),
            Reads::fixed(4).sizes(&layout),
        ));
        let two = Self {
            table: table.with_record_locations(1 << 10),
            other: other.unwrap(),
            executor,
            slot,
        };
        // The first records of a client open a run of the heap, which later ones do not need.
        for table in [&two.table, &two.other] {
            two.executor.block_on(async {
                for value in 1..40 {
                    table.put(&slot.key(100), &slot.value(value)).await.unwrap();
                }
            });
        }
        two
    }

    /// Runs an operation; returns its verbs and its round trips.
    fn cost(&self, class: OperationClass, operation: impl Future<Output = ()>) -> (u64, u64) {
        cost_of_one(&self.executor, class, operation)
    }

    /// A lookup that is to find this value.
    fn get(&self, key: u64, value: Option<u64>) -> (u64, u64) {
        let key = self.slot.key(key);
        let expected = value.map(|value| self.slot.value(value));
        self.cost(GET, async {
            let got = self.table.get(&key).await.unwrap();
            assert_eq!(got.as_deref(), expected.as_deref());
        })
    }

    fn get_in_batch(&self, key: u64, value: Option<u64>) -> (u64, u64) {
        let key = self.slot.key(key);
        let expected = value.map(|value| self.slot.value(value));
        self.cost(GET, async {
            let mut answers = 0;
            let done = |_, got: farslot_index::Result<Option<farslot_index::Value>>| {
                assert_eq!(got.unwrap().as_deref(), expected.as_deref());
                answers += 1;
            };
            self.table.get_many([&key[..]], done).await;
            assert_eq!(answers, 1);
        })
    }

    fn update(&self, key: u64, value: u64, present: bool) -> (u64, u64) {
        let (key, value) = (self.slot.key(key), self.slot.value(value));
        self.cost(UPDATE, async {
            assert_eq!(self.table.update(&key, &value).await.unwrap(), present);
        })
    }

    fn put(&self, key: u64, value: u64, new: bool) -> (u64, u64) {
        let (key, value) = (self.slot.key(key), self.slot.value(value));
        self.cost(PUT, async {
            assert_eq!(self.table.put(&key, &value).await.unwrap(), new);
        })
    }

    fn find_or_put(&self, key: u64, value: u64, found: Option<u64>) -> (u64, u64) {
        let (key, value) = (self.slot.key(key), self.slot.value(value));
        let expected = found.map(|value| self.slot.value(value));
        self.cost(FIND_OR_PUT, async {
            match self.table.find_or_put(&key, &value).await.unwrap() {
                Some(value) => assert_eq!(Some(&value[..]), expected.as_deref()),
                None => assert_eq!(expected, None),
            }
        })
    }

    fn other_puts(&self, key: u64, value: u64) {
        let (key, value) = (self.slot.key(key), self.slot.value(value));
        self.executor
            .block_on(self.other.put(&key, &value))
            .unwrap();
    }

    fn other_removes(&self, key: u64) {
        let key = self.slot.key(key);
        assert!(self.executor.block_on(self.other.remove(&key)).unwrap());
    }
}

#[test]
fn what_is_remembered_takes_one_round_trip() {
    let two = Two::new(HEAP, KeyRule::Unique);
    two.other_puts(1, 10);
    // Looked for, then remembered.
    assert_eq!(two.get(1, Some(10)), (2, 2));
    assert_eq!(two.get(1, Some(10)), (1, 1));
    assert_eq!(two.get_in_batch(1, Some(10)), (1, 1));
    assert_eq!(two.find_or_put(1, 11, Some(10)), (1, 1));
    assert_eq!(two.update(1, 12, true), (2, 1));
    assert_eq!(two.put(1, 13, false), (2, 1));
    assert_eq!(two.get(1, Some(13)), (1, 1));
    // From the insert itself, and from a lookup in a batch.
    assert_eq!(two.put(2, 20, true), (3, 2));
    assert_eq!(two.get_in_batch(2, Some(20)), (1, 1));
    two.other_puts(3, 30);
    assert_eq!(two.get_in_batch(3, Some(30)), (2, 2));
    assert_eq!(two.update(3, 31, true), (2, 1));
}

/// Two keys of 16 bytes with one hash of a table with this seed. XXH3 multiplies the halves of such
/// keys, each mixed with a word that the seed gives: where one is 0 so, the product is, and the
/// hash is that of the other.
fn twins(seed: u64) -> [Vec<u8>; 2] {
    /// Those words of XXH3's secret, as the difference of two each.
    const SECRET: [u64; 2] = [
        0x1f67_b3b7_a4a4_4072 ^ 0x78e5_c0cc_4ee6_79cb,
        0x2172_ffcc_7dd0_5a82 ^ 0x8e24_43f7_7446_08b8,
    ];
    let mixed_with = [SECRET[0].wrapping_add(seed), SECRET[1].wrapping_sub(seed)];
    let other_half = 0x0123_4567_89ab_cdef_u64;
    [[0, other_half], [other_half.swap_bytes(), 0]].map(|halves| {
        let words = halves.iter().zip(mixed_with);
        words
            .flat_map(|(half, mixed)| (half ^ mixed).to_le_bytes())
            .collect()
    })
}

/// No update takes another key's record for its own, however alike their hashes are. (Of removed
/// keys the table itself keeps nothing but 61 bits of their hashes.)
#[test]
fn keys_of_one_hash_are_not_confused() {
    let two = Two::new(HEAP, KeyRule::Unique);
    let layout = two.table.layout();
    let Hasher::Xxh3 { seed } = layout.hasher else {
        panic!("the table hashes by {:?}", layout.hasher);
    };
    let [one, other] = twins(seed);
    assert_ne!(one, other);
    assert_eq!(layout.hasher.hash(&one), layout.hasher.hash(&other));
    let value = |number| HEAP.value(number);
    two.executor.block_on(async {
        let table = &two.table;
        let read = async |key: &[u8]| table.get(key).await.unwrap().map(|value| value.to_vec());
        table.put(&one, &value(1)).await.unwrap();
        // The first one's record is remembered, the other key is absent.
        assert!(!table.update(&other, &value(2)).await.unwrap());
        assert_eq!(read(&other).await, None);
        assert_eq!(read(&one).await, Some(value(1)));
        assert!(table.put(&other, &value(3)).await.unwrap());
        for (update, key) in (4..).zip([&one, &other, &other, &one, &one]) {
            assert!(table.update(key, &value(update)).await.unwrap());
            assert_eq!(read(key).await, Some(value(update)));
        }
        assert_eq!(read(&one).await, Some(value(8)));
        assert_eq!(read(&other).await, Some(value(6)));
    });
}

#[test]
fn a_key_that_others_have_changed_is_found_all_the_same() {
    let two = Two::new(HEAP, KeyRule::Unique);
    let gets = [Two::get, Two::get_in_batch];
    for (key, get) in (1..).zip(gets) {
        two.put(key, 10, true);
        two.other_puts(key, 11);
        assert_eq!(get(&two, key, Some(11)), (2, 2), "the slot says where");
        assert_eq!(get(&two, key, Some(11)), (1, 1));
        two.other_removes(key);
        assert_eq!(get(&two, key, None), (2, 2));
        assert_eq!(
            get(&two, key, None),
            (1, 1),
            "it is not looked for where it was"
        );
        two.other_puts(key, 12);
        assert_eq!(get(&two, key, Some(12)), (2, 2));
    }
}

#[test]
fn an_update_from_what_is_no_longer_so_takes_effect_once() {
    let two = Two::new(HEAP, KeyRule::Unique);
    two.put(1, 10, true);
    two.other_puts(1, 11);
    // Written, and swapped in vain; then swapped from what was found.
    assert_eq!(two.update(1, 12, true), (3, 2));
    assert_eq!(two.get(1, Some(12)), (1, 1));
    two.other_puts(1, 13);
    two.put(1, 14, false);
    assert_eq!(two.get(1, Some(14)), (1, 1));
    two.other_removes(1);
    two.update(1, 15, false);
    assert_eq!(two.get(1, None), (1, 1));
    two.put(1, 16, true);
    two.other_removes(1);
    two.put(1, 17, true);
    assert_eq!(two.get(1, Some(17)), (1, 1));
    two.other_removes(1);
    two.find_or_put(1, 18, None);
    assert_eq!(two.get(1, Some(18)), (1, 1));
}

/// A record in its slot needs no hint; one that was replaced is out of band.
#[test]
fn records_in_slots_are_remembered_once_they_leave_them() {
    for slot in [INLINE, HYBRID] {
        let two = Two::new(slot, KeyRule::Unique);
        two.put(1, 1, true);
        let in_slot = two.get(1, Some(1));
        assert_eq!(in_slot.1, 1, "{}", slot.name);
        two.put(1, 2, false);
        assert_eq!(two.get(1, Some(2)), (1, 1), "{}", slot.name);
        assert_eq!(two.update(1, 4, true), (2, 1), "{}", slot.name);
        assert_eq!(two.get_in_batch(1, Some(4)), (1, 1), "{}", slot.name);
    }
}

/// Of several records of a key no one is the key's; words have nothing out of band.
#[test]
fn other_tables_are_as_without() {
    let two = Two::new(HEAP, KeyRule::Multi);
    two.put(1, 10, true);
    assert_eq!(two.get(1, Some(10)), (2, 2));
    assert_eq!(two.get(1, Some(10)), (2, 2));
    let two = Two::new(WORD, KeyRule::Unique);
    two.put(1, 10, true);
    assert_eq!(two.get(1, Some(10)), (1, 1));
    assert_eq!(two.update(1, 11, true), (2, 2));
}
