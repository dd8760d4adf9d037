//! The tables that threads share, under stress.

mod common;

use common::SevenEqual;
use farslot_local::{ConcurrentSmartCuckoo, OptimisticCuckoo};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

type Hashing = BuildHasherDefault<DefaultHasher>;
type Value = [u64; 3];

/// What both tables can do.
trait Shared: Sync {
    fn get(&self, key: u64) -> Option<Value>;
    fn insert(&self, key: u64, value: Value) -> bool;
    fn remove(&self, key: u64) -> Option<Value>;
    fn len(&self) -> usize;
}

impl Shared for ConcurrentSmartCuckoo<u64, Value, Hashing> {
    fn get(&self, key: u64) -> Option<Value> {
        self.get(&key)
    }

    fn insert(&self, key: u64, value: Value) -> bool {
        self.insert(key, value).is_ok()
    }

    fn remove(&self, key: u64) -> Option<Value> {
        self.remove(&key)
    }

    fn len(&self) -> usize {
        self.len()
    }
}

impl Shared for OptimisticCuckoo<u64, Value, Hashing> {
    fn get(&self, key: u64) -> Option<Value> {
        self.get(&key)
    }

    fn insert(&self, key: u64, value: Value) -> bool {
        self.insert(key, value).is_ok()
    }

    fn remove(&self, key: u64) -> Option<Value> {
        self.remove(&key)
    }

    fn len(&self) -> usize {
        self.len()
    }
}

#[test]
fn keys_of_one_hash_are_kept_apart_and_the_map_does_not_grow_for_them() {
    let hasher = BuildHasherDefault::<SevenEqual>::default;
    let map = || ConcurrentSmartCuckoo::<u64, Value, _>::with_capacity_and_hasher(0, 4, hasher());
    let (with, without) = (map(), map());
    for key in 0..20_000 {
        assert_eq!(with.insert(key, value(key, 0)).unwrap(), None);
        if key >= 7 {
            without.insert(key, value(key, 0)).unwrap();
        }
    }
    assert_eq!((with.len(), with.slots()), (20_000, without.slots()));
    // Values are replaced wherever their keys are; and readers see each while others come and go.
    thread::scope(|threads| {
        threads.spawn(|| {
            for turn in 1..2_000 {
                for key in 2..7 {
                    let old = with.insert(key, value(key, turn)).unwrap();
                    assert_eq!(old.is_none(), turn % 2 == 0);
                    if turn % 2 == 1 {
                        assert_eq!(with.remove(&key), Some(value(key, turn)));
                    }
                }
            }
        });
        threads.spawn(|| {
            for _ in 0..10_000 {
                for key in 0..2 {
                    assert_eq!(with.get(&key), Some(value(key, 0)));
                }
                if let Some(read) = with.get(&5) {
                    version_of(5, read);
                }
            }
        });
    });
    assert_eq!(with.len(), 19_995, "the last turn removed");
    for key in 0..7 {
        assert_eq!(with.get(&key).is_some(), key < 2, "{key}");
    }
    for key in 0..2 {
        assert!(with.remove(&key).is_some() && with.get(&key).is_none());
    }
    assert_eq!(with.insert(3, value(3, 9)).unwrap(), None);
    assert_eq!(with.get(&3), Some(value(3, 9)));
}

/// A value that tells its key and its version, and whether it is whole.
fn value(key: u64, version: u64) -> Value {
    [key ^ version, version, key.wrapping_mul(31) ^ version]
}

fn version_of(key: u64, read: Value) -> u64 {
    assert_eq!(read, value(key, read[1]), "a mixture");
    read[1]
}

/// Keys that stay, `0..PINNED`, and keys that come and go: each belongs to one writer.
const PINNED: u64 = 2_000;
const CHANGING: u64 = 20_000;
const WRITERS: u64 = 2;

fn stress(table: &impl Shared, steps: u64) {
    for key in 0..PINNED {
        assert!(table.insert(key, value(key, 0)));
    }
    let newest: Vec<AtomicU64> = (0..PINNED).map(|_| AtomicU64::new(0)).collect();
    let is_over = AtomicBool::new(false);
    let held = thread::scope(|threads| {
        let readers: Vec<_> = (0..2)
            .map(|seed| {
                threads.spawn({
                    let (newest, is_over) = (&newest, &is_over);
                    move || read(table, seed, newest, is_over)
                })
            })
            .collect();
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let newest = &newest;
                threads.spawn(move || write(table, writer, steps, newest))
            })
            .collect();
        let held: Vec<_> = writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .collect();
        is_over.store(true, Ordering::Relaxed);
        for reader in readers {
            assert!(reader.join().unwrap() > 0);
        }
        held
    });
    let held: HashMap<u64, u64> = held.into_iter().flatten().collect();
    assert_eq!(table.len(), held.len() + PINNED as usize);
    for key in PINNED..PINNED + CHANGING {
        let expected = held.get(&key).map(|&version| value(key, version));
        assert_eq!(table.get(key), expected);
    }
}

/// Reads until the writers are done: a pinned key is never missed, and never older than what its
/// writer had completed.
fn read(table: &impl Shared, seed: u64, newest: &[AtomicU64], is_over: &AtomicBool) -> u64 {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut reads = 0;
    loop {
        let key = random.random_range(0..PINNED);
        let completed = newest[key as usize].load(Ordering::Acquire);
        let read = table.get(key).expect("a key that stays was missed");
        assert!(version_of(key, read) >= completed);
        let other = random.random_range(PINNED..PINNED + CHANGING);
        if let Some(read) = table.get(other) {
            version_of(other, read);
        }
        reads += 1;
        if is_over.load(Ordering::Relaxed) {
            return reads;
        }
    }
}

/// Inserts, replaces and removes this writer's keys; returns those that it leaves, with their
/// versions.
fn write(table: &impl Shared, writer: u64, steps: u64, newest: &[AtomicU64]) -> HashMap<u64, u64> {
    let mut random = ChaCha8Rng::seed_from_u64(100 + writer);
    let mut held = HashMap::new();
    for version in 1..=steps {
        let own = random.random_range(0..CHANGING / WRITERS) * WRITERS + writer;
        let key = PINNED + own;
        if random.random_bool(0.55) {
            if table.insert(key, value(key, version)) {
                held.insert(key, version);
            }
        } else {
            let removed = table.remove(key).map(|read| version_of(key, read));
            assert_eq!(removed, held.remove(&key));
        }
        let pinned = random.random_range(0..PINNED / WRITERS) * WRITERS + writer;
        assert!(table.insert(pinned, value(pinned, version)));
        newest[pinned as usize].store(version, Ordering::Release);
    }
    held
}

#[test]
fn smart_cuckoo_grows_under_readers() {
    stress(
        &ConcurrentSmartCuckoo::with_capacity_and_hasher(0, 4, Hashing::default()),
        60_000,
    );
}

#[test]
fn smart_cuckoo_of_one_shard_serves_its_writers_in_turn() {
    stress(
        &ConcurrentSmartCuckoo::with_capacity_and_hasher(0, 1, Hashing::default()),
        40_000,
    );
}

#[test]
fn the_optimistic_table_serves_readers_and_writers() {
    stress(
        &OptimisticCuckoo::with_slots_and_hasher(14_000, Hashing::default()),
        60_000,
    );
}

#[test]
fn what_was_grown_out_of_can_be_given_back() {
    let mut map = ConcurrentSmartCuckoo::<u32, u32>::new();
    for key in 0..10_000 {
        assert_eq!(map.insert(key, !key).unwrap(), None);
    }
    map.reclaim();
    assert!((0..10_000).all(|key| map.get(&key) == Some(!key)));
    assert_eq!((map.len(), map.contains_key(&10_000)), (10_000, false));
}

#[test]
fn a_table_that_may_not_grow_refuses_and_stays_as_it_is() {
    let map = ConcurrentSmartCuckoo::<u32, u32, Hashing>::with_slots_and_hasher(
        64,
        1,
        Hashing::default(),
    );
    let refused: Vec<_> = (0..100)
        .filter_map(|key| map.insert_within(key, key).err())
        .collect();
    assert!(!refused.is_empty() && map.len() + refused.len() == 100);
    for full in refused {
        assert_eq!((full.key, map.get(&full.key)), (full.value, None));
    }
    assert_eq!((map.slots(), map.counters().failed_walks), (64, 0));
}
