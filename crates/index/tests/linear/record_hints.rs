//! Clients that remember where records lie: one round trip where that still holds, and the same answers where it does
//! not, whatever others do and whatever goes wrong.

use crate::common::chaos::{Remembers, Tally, run_with_hints};
use crate::common::costs::cost_of_one;
use crate::common::{HEAP, HYBRID, INLINE, Reads, Slot, WORD, new_client, new_node};
use farslot_fabric::{Endpoint, Executor, OperationClass};
use farslot_index::linear::{KeyRule, LinearLayout, LinearTable};
use farslot_index::{FIND_OR_PUT, FindOrPut, GET, Index, PUT, UPDATE};
use farslot_testbed::{AnyEndpoint, Fabric};
use std::rc::Rc;

/// Seeds of each slot kind that go through the simulator's faults.
const SEEDS: u64 = 400;

#[test]
fn histories_with_remembered_records_are_linearizable() {
    for slot in [HEAP, HYBRID, INLINE] {
        let (mut total, mut without) = (Tally::default(), Tally::default());
        for seed in 0..SEEDS {
            let remembers = Remembers {
                // One that keys drive each other out of, and one that keeps them.
                records: [1, 64][seed as usize % 2],
                clusters: [0, 0, 3][seed as usize % 3],
            };
            match run_with_hints(slot, seed, remembers) {
                Ok((tally, _)) => total += tally,
                Err(failure) => panic!("{} {seed}, {remembers:?}: {}", slot.name, failure.error),
            }
            if let Ok((tally, _)) = run_with_hints(slot, seed, Remembers::default()) {
                without += tally;
            }
        }
        assert!(
            total.seen > 2 * total.runs && total.in_doubt > total.runs / 10,
            "{total:?}"
        );
        assert!(total.gathers > without.gathers + total.runs, "{total:?}");
    }
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
        options.keys = keys;
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
            table: table.with_record_hints(1 << 10),
            other: other.unwrap(),
            executor,
            slot,
        };
        // The first records of a client take an extent of the heap, which later ones do not need.
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
                FindOrPut::Found(value) => assert_eq!(Some(&value[..]), expected.as_deref()),
                FindOrPut::Inserted => assert_eq!(expected, None),
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
