//! The compared: cuckoo hashing that walks and sees. With one slot a bucket and a stash it is CHS
//! (Kirsch, Mitzenmacher and Wieder, 2009), with four it is BCHT (Erlingsson, Manasse and McSherry,
//! 2006).
//!
//! As their authors have them: records side by side, no tags, no knowledge of the graph. A record
//! that finds its buckets full takes the place of one in them, which goes to its other bucket, and
//! so on, until there is room or a number of kick-outs is reached. That the walk was in vain is
//! known only then.
//!
//! A `Hash` that panics within a walk drops the record that is on its way;
//! [`SmartCuckooMap`](crate::SmartCuckooMap) is the map that holds against that.

use crate::hash::{TaggedCandidates, scaled};
use crate::{Full, InsertionCounters, LocalTable};
use std::hash::{BuildHasher, Hash};

/// Cuckoo hashing with a stash: buckets of one slot.
pub type CuckooWithStash<K, V, S> = RandomWalkCuckoo<K, V, S, 1>;
/// Bucketized cuckoo hashing: buckets of four slots.
pub type BucketizedCuckoo<K, V, S> = RandomWalkCuckoo<K, V, S, 4>;

/// Kick-outs before a walk is given up: MemC3's choice.
pub const KICK_OUT_LIMIT: u32 = 500;

/// Two tables of buckets of `SLOTS` slots, and insertion by a random walk.
#[derive(Clone, Debug)]
pub struct RandomWalkCuckoo<K, V, S, const SLOTS: usize> {
    slots: Box<[Option<(K, V)>]>,
    stash: Vec<(K, V)>,
    stash_limit: usize,
    kick_out_limit: u32,
    /// Buckets of each of the two tables.
    side: u32,
    hasher: S,
    placed: usize,
    counters: InsertionCounters,
    /// The slots of the last walk.
    walk: Vec<usize>,
    /// Which slot of a full bucket is vacated next: xorshift's state.
    random: u32,
}

impl<K: Eq + Hash, V, S: BuildHasher, const SLOTS: usize> RandomWalkCuckoo<K, V, S, SLOTS> {
    /// A table of at least so many slots, up to 2^30, and a stash of at most so many records.
    pub fn with_slots(slots: usize, stash_limit: usize, hasher: S) -> Self {
        let side = slots.min(1 << 30).div_ceil(2 * SLOTS).max(1);
        Self {
            slots: std::iter::repeat_with(|| None)
                .take(2 * side * SLOTS)
                .collect(),
            stash: Vec::new(),
            stash_limit,
            kick_out_limit: KICK_OUT_LIMIT,
            side: side as u32,
            hasher,
            placed: 0,
            counters: InsertionCounters::default(),
            walk: Vec::new(),
            random: 0x9e37_79b9,
        }
    }

    /// Sets the kick-outs before a walk is given up; by default [`KICK_OUT_LIMIT`].
    pub fn set_kick_out_limit(&mut self, kick_outs: u32) {
        self.kick_out_limit = kick_outs;
    }

    /// The value of a key: all slots of two buckets, then the stash.
    pub fn get(&self, key: &K) -> Option<&V> {
        let in_slot = self.locate(key).and_then(|slot| self.slots[slot].as_ref());
        in_slot
            .or_else(|| self.stash.iter().find(|(stashed, _)| stashed == key))
            .map(|(_, value)| value)
    }

    fn candidates(&self, key: &K) -> TaggedCandidates {
        TaggedCandidates::of(self.hasher.hash_one(key), 0, self.side)
    }

    fn slots_of(bucket: u32) -> std::ops::Range<usize> {
        let first = bucket as usize * SLOTS;
        first..first + SLOTS
    }

    fn locate(&self, key: &K) -> Option<usize> {
        self.locate_in(self.candidates(key), key)
    }

    fn locate_in(&self, candidates: TaggedCandidates, key: &K) -> Option<usize> {
        let holds = |slot: &usize| matches!(&self.slots[*slot], Some((held, _)) if held == key);
        Self::slots_of(candidates.first)
            .find(holds)
            .or_else(|| Self::slots_of(candidates.second).find(holds))
    }

    fn vacant_in(&self, bucket: u32) -> Option<usize> {
        Self::slots_of(bucket).find(|&slot| self.slots[slot].is_none())
    }

    /// Places a new record, or returns the one that has no place at the end of the walk.
    fn walk(&mut self, candidates: TaggedCandidates, record: (K, V)) -> Result<(), (K, V)> {
        self.walk.clear();
        self.counters.bucket_probes += 2;
        let direct = self
            .vacant_in(candidates.first)
            .or_else(|| self.vacant_in(candidates.second));
        if let Some(slot) = direct {
            self.slots[slot] = Some(record);
            return Ok(());
        }
        let mut in_hand = record;
        let mut bucket = candidates.first;
        for _ in 0..self.kick_out_limit {
            let slot = bucket as usize * SLOTS + self.random_slot();
            self.walk.push(slot);
            self.counters.kick_outs += 1;
            match self.slots[slot].replace(in_hand) {
                Some(kicked_out) => in_hand = kicked_out,
                None => return Ok(()),
            }
            bucket = self.candidates(&in_hand.0).backup_of(bucket);
            self.counters.bucket_probes += 1;
            if let Some(vacant) = self.vacant_in(bucket) {
                self.slots[vacant] = Some(in_hand);
                return Ok(());
            }
        }
        self.counters.failed_walks += 1;
        Err(in_hand)
    }

    /// Moves all records of a walk back, and so returns the one that it began with.
    fn undo(&mut self, mut in_hand: (K, V)) -> (K, V) {
        while let Some(slot) = self.walk.pop() {
            self.counters.kick_outs += 1;
            if let Some(later) = self.slots[slot].replace(in_hand) {
                in_hand = later;
            } else {
                unreachable!("a slot of a walk is occupied");
            }
        }
        in_hand
    }

    fn random_slot(&mut self) -> usize {
        if SLOTS == 1 {
            return 0;
        }
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        scaled(self.random, SLOTS as u32) as usize
    }
}

impl<K: Eq + Hash, V: Clone, S: BuildHasher, const SLOTS: usize> LocalTable<K, V>
    for RandomWalkCuckoo<K, V, S, SLOTS>
{
    fn name(&self) -> &'static str {
        if SLOTS == 1 { "CHS" } else { "BCHT" }
    }

    fn slots(&self) -> usize {
        self.slots.len()
    }

    fn len(&self) -> usize {
        self.placed + self.stash.len()
    }

    fn stashed(&self) -> usize {
        self.stash.len()
    }

    fn get(&self, key: &K) -> Option<V> {
        RandomWalkCuckoo::get(self, key).cloned()
    }

    fn insert(&mut self, key: K, value: V) -> Result<Option<V>, Full<K, V>> {
        let candidates = self.candidates(&key);
        let in_slot = self.locate_in(candidates, &key);
        let held = match in_slot {
            Some(slot) => self.slots[slot].as_mut(),
            None => self.stash.iter_mut().find(|(stashed, _)| *stashed == key),
        };
        if let Some((_, held)) = held {
            return Ok(Some(std::mem::replace(held, value)));
        }
        let Err(left_over) = self.walk(candidates, (key, value)) else {
            self.placed += 1;
            self.counters.insertions += 1;
            return Ok(None);
        };
        self.counters.failures += 1;
        if self.stash.len() < self.stash_limit {
            self.stash.push(left_over);
            return Ok(None);
        }
        let (key, value) = self.undo(left_over);
        Err(Full {
            key,
            value,
            records: self.len(),
            slots: self.slots.len(),
            stash: self.stash_limit,
        })
    }

    fn remove(&mut self, key: &K) -> Option<V> {
        if let Some(slot) = self.locate(key) {
            self.placed -= 1;
            return self.slots[slot].take().map(|(_, value)| value);
        }
        let index = self.stash.iter().position(|(stashed, _)| stashed == key)?;
        Some(self.stash.swap_remove(index).1)
    }

    fn counters(&self) -> InsertionCounters {
        self.counters
    }

    fn overhead_per_slot(&self) -> f64 {
        (size_of::<Option<(K, V)>>() - size_of::<K>() - size_of::<V>()) as f64
    }
}
