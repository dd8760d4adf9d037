//! Models of the lock-free readers: loom runs every order of the threads' steps (up to a number of
//! preemptions) that the memory model allows, stale relaxed loads included.
//!
//! Writers are the first thread and readers are spawned, in that order: of each location loom
//! remembers only the last access, so that a reader that came before a writer's own load of the
//! same header would count as no race, and the orders in between would not be run.

mod sync {
    pub(super) use loom::sync::{
        Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering, fence},
    };

    pub(super) use LoomBackoff as SpinBackoff;

    #[derive(Default)]
    pub(super) struct LoomBackoff {}

    impl LoomBackoff {
        pub(super) fn wait(&mut self) {
            loom::thread::yield_now();
        }
    }

    pub(super) fn lock<T>(mutex: &Mutex<T>) -> impl std::ops::DerefMut<Target = T> + '_ {
        mutex
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

// The same files once more, over loom's atomics, which work inside of its models alone.
#[allow(dead_code, clippy::duplicate_mod)]
#[path = "optimistic.rs"]
mod optimistic;
#[allow(dead_code, clippy::duplicate_mod)]
#[path = "smart.rs"]
mod smart;
#[allow(dead_code, clippy::duplicate_mod)]
#[path = "versioned.rs"]
mod versioned;
use super::words;

use crate::hash::TaggedCandidates;
use crate::oracle::AsChosen;
use loom::model::Builder;
use loom::sync::Arc;
use loom::thread;
use optimistic::{OptimisticCuckoo, OptimisticSlot};
use smart::ConcurrentSmartCuckoo;

type Smart<V> = ConcurrentSmartCuckoo<u64, V, AsChosen>;
type Optimistic<V> = OptimisticCuckoo<u64, V, AsChosen>;

/// Runs a model.
fn model(preemptions: usize, of: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(of);
}

/// The first `count` keys with these candidates in tables of `side` buckets.
fn keys(side: u32, first: u32, second: u32, count: usize) -> Vec<u64> {
    let is_there = |key: &u64| {
        let candidates = TaggedCandidates::of(*key, 0, side);
        (candidates.first, candidates.second) == (first, side + second)
    };
    (0..).filter(is_there).take(count).collect()
}

/// Spawns a reader.
fn reader<T: Send + Sync + 'static>(
    table: &Arc<T>,
    reads: impl FnOnce(&T) + Send + 'static,
) -> thread::JoinHandle<()> {
    let table = Arc::clone(table);
    thread::spawn(move || reads(&table))
}

#[test]
fn a_key_that_is_kicked_out_is_never_missed() {
    model(3, || {
        let side = 4;
        let both = keys(side, 0, 0, 2);
        let (moved, inserted) = (keys(side, 0, 1, 1)[0], both[1]);
        let map = Arc::new(Smart::<u64>::with_slots_and_hasher(8, 1, AsChosen));
        map.insert_within(moved, 1).unwrap();
        map.insert_within(both[0], 2).unwrap();
        let reader = reader(&map, move |map| {
            assert!(map.get(&inserted).is_none_or(|value| value == 3));
            assert_eq!(map.get(&moved), Some(1));
        });
        map.insert_within(inserted, 3).unwrap();
        reader.join().unwrap();
        assert_eq!(map.counters().kick_outs, 1);
        let all = [moved, both[0], inserted].map(|key| map.get(&key));
        assert_eq!(all, [Some(1), Some(2), Some(3)]);
    });
}

/// From the second table to the first, while the reader looks from the first to the second.
#[test]
fn a_key_that_comes_back_is_never_missed() {
    model(3, || {
        let side = 4;
        let moved = keys(side, 1, 0, 1)[0];
        let blocker = keys(side, 1, 2, 1)[0];
        let both = keys(side, 0, 0, 2);
        let map = Arc::new(Smart::<u64>::with_slots_and_hasher(8, 1, AsChosen));
        for (key, value) in [(blocker, 0), (moved, 1), (both[0], 2)] {
            map.insert_within(key, value).unwrap();
        }
        map.remove(&blocker);
        let reader = reader(&map, move |map| assert_eq!(map.get(&moved), Some(1)));
        map.insert_within(both[1], 3).unwrap();
        reader.join().unwrap();
        assert_eq!(map.counters().kick_outs, 1);
        let all = [moved, both[0], both[1]].map(|key| map.get(&key));
        assert_eq!(all, [Some(1), Some(2), Some(3)]);
    });
}

#[test]
fn a_value_is_never_torn_and_never_goes_back() {
    model(3, || {
        let map = Arc::new(Smart::<[u64; 2]>::with_slots_and_hasher(8, 1, AsChosen));
        map.insert_within(5, [1; 2]).unwrap();
        let reader = reader(&map, |map| {
            let seen = [map.get(&5), map.get(&5)];
            let states = [Some([1; 2]), Some([2; 2]), None];
            let at = seen.map(|seen| states.iter().position(|state| *state == seen).unwrap());
            assert!(at.is_sorted(), "{seen:?}");
        });
        map.insert_within(5, [2; 2]).unwrap();
        map.remove(&5);
        reader.join().unwrap();
    });
}

#[test]
fn growth_hides_nothing() {
    model(2, || {
        let map = Arc::new(Smart::<u64>::with_slots_and_hasher(8, 1, AsChosen));
        for key in 0..3 {
            map.insert(key, key).unwrap();
        }
        let reader = reader(&map, |map| {
            let seen = [map.get(&0).unwrap(), map.get(&0).unwrap()];
            assert!([[0, 0], [0, 10], [10, 10]].contains(&seen), "{seen:?}");
        });
        map.insert(3, 3).unwrap();
        map.insert(0, 10).unwrap();
        reader.join().unwrap();
        assert!(map.slots() > 8);
        let all = [3, 0, 2].map(|key| map.get(&key));
        assert_eq!(all, [Some(3), Some(10), Some(2)]);
    });
}

#[test]
fn writers_of_one_shard_take_turns() {
    model(2, || {
        let map = Arc::new(Smart::<u64>::with_slots_and_hasher(8, 1, AsChosen));
        let both = keys(4, 0, 0, 2);
        let (one, other) = (both[0], both[1]);
        let writer = reader(&map, move |map| assert!(map.insert_within(one, 1).is_ok()));
        map.insert_within(other, 2).unwrap();
        writer.join().unwrap();
        assert_eq!([one, other].map(|key| map.get(&key)), [Some(1), Some(2)]);
        assert_eq!(map.len(), 2);
    });
}

#[test]
fn optimistic_reads_miss_no_displaced_key() {
    model(2, || {
        let moved = keys(2, 0, 1, 1)[0];
        let table = Arc::new(Optimistic::<u64>::with_slots_and_hasher(16, AsChosen));
        table.insert(moved, 1).unwrap();
        let reader = reader(&table, move |table| assert_eq!(table.get(&moved), Some(1)));
        let [from, to] = [0, 3].map(|bucket| OptimisticSlot { bucket, slot: 0 });
        assert!(table.displace(&moved, from, to));
        reader.join().unwrap();
        assert_eq!(table.get(&moved), Some(1));
    });
}

#[test]
fn optimistic_values_are_never_torn() {
    model(3, || {
        let table = Arc::new(Optimistic::<[u64; 2]>::with_slots_and_hasher(8, AsChosen));
        table.insert(5, [1; 2]).unwrap();
        let reader = reader(&table, |table| {
            let seen = table.get(&5).unwrap();
            assert!(seen == [1; 2] || seen == [2; 2], "{seen:?}");
        });
        table.insert(5, [2; 2]).unwrap();
        reader.join().unwrap();
    });
}
