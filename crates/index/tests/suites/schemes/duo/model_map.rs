//! One client's operations on a CuckooDuo table against a plain map: tiny and full tables, short
//! fingerprints that collide all the time, one operation at a time and many; and those of threads
//! that share a nearly full one, against a map of each.

use crate::common::duo::{
    Dimensions, SLOTS, ShmTable, WORDS, growing_node, memory_behind, shm_client, shm_endpoint,
    shm_node,
};
use crate::common::model::{Checked, Model, Records, Room, Step, run_cases, step};
use crate::common::{INLINE, Slot, TABLE, scan_all};
use farslot_fabric::Executor;
use farslot_index::Sizing;
use farslot_index::duo::{DuoGrowth, DuoLayout, DuoOptions, DuoOwner};
use farslot_index::{Got, Index, IndexError, IndexExt, Occupancy, Operation, Outcome, SlotKind};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Barrier};

/// More keys than the tables have slots.
const KEYS: u64 = 30;

fn dimensions() -> impl Strategy<Value = Dimensions> {
    let fingerprint_bits = prop_oneof![4 => Just(8), 1 => 8..=32u32];
    (
        1..=28u64,
        1..=16u32,
        fingerprint_bits,
        0..=6u32,
        0..=4u32,
        any::<bool>(),
    )
        .prop_map(
            |(slots, bucket_slots, fingerprint_bits, longest_path, stash, readers)| Dimensions {
                slots,
                bucket_slots,
                fingerprint_bits,
                longest_path,
                stash,
                readers,
            },
        )
}

impl Room for DuoLayout {
    type Table = ShmTable;

    fn takes(&mut self, _: &[u8]) -> Checked {
        Ok(())
    }

    /// Only a new key is refused, and only where a bucket and the stash can be full, or
    /// fingerprints of 8 bits collide.
    fn refuses(&self, key: &[u8], records: &Records, error: &IndexError) -> Checked {
        let IndexError::Full { probed, slots } = error else {
            return Err(TestCaseError::fail(error.to_string()));
        };
        prop_assert_eq!(*slots, self.slots());
        prop_assert!(*probed > 0 && *probed <= self.slots());
        prop_assert!(!records.contains_key(key));
        prop_assert!(records.len() >= self.bucket_slots.min(2) as usize);
        Ok(())
    }

    fn counts(&self, _: &ShmTable, records: &Records, occupancy: Occupancy) -> Checked {
        prop_assert!(records.len() as u64 <= self.slots() + u64::from(self.stash));
        prop_assert_eq!(occupancy.used_slots, self.slots().min(records.len() as u64));
        prop_assert_eq!(occupancy.slots, self.slots());
        Ok(())
    }
}

/// Plays the steps; then the next owner finds the same.
fn play(slot: Slot, dimensions: Dimensions, seed: u64, steps: &[Step], more: &[Step]) -> Checked {
    let layout = dimensions.layout(slot, seed);
    let node = shm_node(&layout);
    let (executor, table) = shm_client(&node, &layout);
    let model = Model::new(slot, KEYS, layout.clone());
    let model = executor.block_on(model.play(&table, steps))?;
    executor.block_on(table.resign()).unwrap();
    let (executor, table) = shm_client(&node, &layout);
    executor.block_on(model.play(&table, more)).map(drop)
}

#[test]
fn every_shape_is_a_map_also_to_the_next_owner() {
    for slot in SLOTS.into_iter().chain([WORDS]) {
        let steps = || vec(step(KEYS), 0..100);
        let runs = (dimensions(), any::<u64>(), steps(), steps());
        run_cases(150, slot.name, &runs, |(dimensions, seed, steps, more)| {
            play(slot, dimensions, seed, &steps, &more)
        });
    }
}

const THREADS: u64 = 4;
/// Each thread's.
const OWN_KEYS: u64 = 500;
/// What each thread does to its keys, so many at a time.
const TURNS: u64 = 500;
/// Keys whose values the threads replace one after the other, each by a greater one of its own.
const COMMON_KEYS: u64 = 8;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// A key of a thread.
fn key_of(slot: Slot, thread: u64, number: u64) -> Vec<u8> {
    let mut key = [thread as u32, number as u32]
        .map(u32::to_le_bytes)
        .concat();
    key.resize(slot.key.most(), 0);
    key
}

/// A value that says of which key it is, and which thread's it is, the how manyth.
fn value_of(slot: Slot, key: &[u8], thread: u64, count: u64) -> Vec<u8> {
    let (thread, count) = (thread as u16, count as u32);
    let sum = key.iter().fold(count as u16, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u16::from(*byte) + thread)
    });
    let mut value = [&sum.to_le_bytes()[..], &thread.to_le_bytes()].concat();
    value.extend(count.to_le_bytes());
    value.resize(slot.value.most(), sum as u8);
    value
}

/// The thread and the count of a value of this key.
fn said_by(slot: Slot, key: &[u8], value: &[u8]) -> (u64, u64) {
    let thread = u64::from(u16::from_le_bytes([value[2], value[3]]));
    let count = u32::from_le_bytes([value[4], value[5], value[6], value[7]]);
    let expected = value_of(slot, key, thread, u64::from(count));
    assert_eq!(value, expected, "torn");
    (thread, u64::from(count))
}

/// Changes keys of its own, and returns what should be there of them; replaces and looks at those
/// that all have.
async fn work_beside_others(slot: Slot, table: &ShmTable, thread: u64) -> Map {
    let mut rng = ChaCha8Rng::seed_from_u64(thread);
    let (mut map, mut full, mut newest) = (Map::new(), 0, BTreeMap::new());
    for turn in 0..TURNS {
        let mut records = Map::new();
        for _ in 0..16 {
            let key = key_of(slot, thread, rng.random_range(0..OWN_KEYS));
            records.insert(key.clone(), value_of(slot, &key, thread, turn));
        }
        let pairs: Vec<(&[u8], &[u8])> = records.iter().map(|(k, v)| (&k[..], &v[..])).collect();
        let keys = pairs.iter().map(|(key, _)| *key);
        match rng.random_range(0..8) {
            0..4 => {
                let mut put = Vec::new();
                table
                    .put_many(pairs.iter().copied(), |at, done| put.push((at, done)))
                    .await;
                for (at, done) in put {
                    let (key, value) = pairs[at];
                    match done {
                        Ok(new) => assert_eq!(new, map.insert(key.into(), value.into()).is_none()),
                        Err(IndexError::Full { .. }) if !map.contains_key(key) => full += 1,
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            4..6 => {
                let done = |at: usize, done: Result<Outcome, IndexError>| {
                    let (key, value) = pairs[at];
                    let known = map.get_mut(key).map(|before| *before = value.into());
                    assert_eq!(done, Ok(Outcome::Changed(known.is_some())));
                };
                let updates = pairs.iter();
                let updates = updates.map(|(key, value)| Operation::Update(key, value));
                table.run_each(&Vec::from_iter(updates), done).await;
            }
            6 => {
                let done = |at: usize, done: Result<Outcome, IndexError>| {
                    let known = map.remove(pairs[at].0).is_some();
                    assert_eq!(done, Ok(Outcome::Changed(known)));
                };
                let removals = keys.clone().map(Operation::Remove);
                table.run_each(&Vec::from_iter(removals), done).await;
            }
            _ => {
                let done = |at: usize, got: Result<Option<farslot_index::Value>, IndexError>| {
                    let got = got.unwrap();
                    assert_eq!(got.as_deref(), map.get(pairs[at].0).map(|value| &value[..]));
                };
                table.get_many(keys.clone(), done).await;
            }
        }
        let key = key_of(slot, THREADS, rng.random_range(0..COMMON_KEYS));
        let value = value_of(slot, &key, thread, turn);
        let replaced = table.put(&key, &value).await.unwrap();
        assert!(!replaced, "it was there from the start");
        let common: Vec<_> = (0..COMMON_KEYS)
            .map(|number| key_of(slot, THREADS, number))
            .collect();
        // Of each thread, nobody sees an older value after a newer one.
        let mut see = |number: usize, got: Got| {
            let value = got.unwrap().expect("nobody removes it");
            let (by, count) = said_by(slot, &common[number], &value);
            let seen = newest.entry((number, by)).or_insert(count);
            assert!(
                *seen <= count,
                "key {number}: {count} of {by} behind {seen}"
            );
            *seen = count;
        };
        if turn.is_multiple_of(2) {
            table.get_many(common.iter().map(|key| &key[..]), see).await;
        } else {
            for (number, key) in common.iter().enumerate() {
                see(number, table.get(key).await);
            }
        }
    }
    println!(
        "thread {thread}: {} keys, {full} were refused, {:?}",
        map.len(),
        table.work()
    );
    map
}

/// Threads of one owner side by side; then another owner finds what all of them have put.
fn threads_share(slot: Slot, slots: u64, grows: bool) {
    let dimensions = Dimensions {
        bucket_slots: if slot == WORDS { 8 } else { 4 },
        ..Dimensions::of_paper(slots)
    };
    let kind = slot.kind;
    let options = DuoOptions {
        sizing: Sizing {
            heap_bytes: (kind == SlotKind::Heap).then_some(1 << 20),
            ..dimensions.options(slot, 7).sizing
        },
        ..dimensions.options(slot, 7)
    };
    let layout = options.layout().unwrap();
    let memory = memory_behind(&layout, 4 << 20);
    let node = growing_node(&memory);
    let owner = DuoOwner::new(TABLE, layout.clone()).unwrap();
    let client = |owner: &Arc<DuoOwner>| {
        let endpoint = shm_endpoint(&node);
        let table = owner.table(Rc::clone(&endpoint));
        let table = match grows {
            true => table.with_growth(DuoGrowth::from(memory)).unwrap(),
            false => table,
        };
        (Executor::new(endpoint), table)
    };
    let (executor, table) = client(&owner);
    for number in 0..COMMON_KEYS {
        let key = key_of(slot, THREADS, number);
        let value = value_of(slot, &key, 0, 0);
        let inserted = executor.block_on(table.put(&key, &value));
        assert!(inserted.unwrap());
    }
    let start = Barrier::new(THREADS as usize);
    let work = |thread| {
        let (executor, table) = client(&owner);
        start.wait();
        let map = executor.block_on(work_beside_others(slot, &table, thread));
        executor.block_on(table.flush()).unwrap();
        (map, table.work().moved)
    };
    let (maps, moved): (Vec<Map>, Vec<u64>) = std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || work(thread)))
            .collect();
        let ended = threads.into_iter().map(|thread| thread.join().unwrap());
        ended.unzip()
    });
    let mut all: Map = maps.into_iter().flatten().collect();
    assert!(moved.iter().sum::<u64>() > 0, "no path was searched for");
    assert_eq!(table.slots() > layout.slots(), grows);
    executor.block_on(table.resign()).unwrap();
    let next = DuoOwner::new(TABLE, layout).unwrap();
    let (executor, table) = client(&next);
    for (key, value) in executor.block_on(scan_all(&table)).unwrap() {
        if key[..4] == (THREADS as u32).to_le_bytes() {
            said_by(slot, &key, &value);
        } else {
            assert_eq!(all.remove(&key), Some(value));
        }
        let found = executor.block_on(table.get(&key)).unwrap();
        assert!(found.is_some());
    }
    assert!(all.is_empty(), "{} keys are lost", all.len());
    let counted = executor.block_on(table.occupancy()).unwrap();
    println!("{kind:?}: {counted:?}");
}

#[test]
fn threads_share_a_nearly_full_table() {
    // Of the keys, some three in four are there at a time.
    for slot in [INLINE, WORDS] {
        threads_share(slot, 1_600, false);
    }
}

#[test]
fn threads_share_a_table_that_grows() {
    for slot in [INLINE, WORDS] {
        threads_share(slot, 64, true);
    }
}

#[test]
fn threads_share_a_heap() {
    let slot = Slot {
        kind: SlotKind::Heap,
        ..INLINE
    };
    threads_share(slot, 64, true);
}
