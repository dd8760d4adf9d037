//! Removal (paper 004, algorithm 5, without numbering subgraphs anew: see [`super::forest`]).

use super::buckets::{BucketBackups, Buckets};
use super::iter::{Drain, IntoIter};
use super::map::{Location, SmartCuckooMap};
use super::{Standing, forest::Forest};
use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

impl<K: Eq + Hash, V, S: BuildHasher> SmartCuckooMap<K, V, S> {
    /// Removes a key and returns its value.
    pub fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.remove_entry(key).map(|(_, value)| value)
    }

    /// Removes a record and returns it.
    pub fn remove_entry<Q>(&mut self, key: &Q) -> Option<(K, V)>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        if self.is_empty() {
            return None;
        }
        let hash = self.hasher.hash_one(key);
        let location = self.locate_hashed(hash, key)?;
        self.remove_at(location, hash)
    }

    /// Removes all records that `keep` declines, in any order.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        for bucket in 0..self.slots() as u32 {
            let Some((key, value)) = self.buckets.get_mut(bucket) else {
                continue;
            };
            if !keep(key, value) {
                let hash = self.hasher.hash_one(&*key);
                // Not `remove_at`, which could bring a record here from the stash, to be asked
                // twice.
                self.remove_placed(bucket, hash);
            }
        }
        self.stash
            .retain_mut(|stashed| keep(&stashed.record.0, &mut stashed.record.1));
        self.stash_may_fit = !self.stash.is_empty();
    }

    /// Removes a record whose key has that hash.
    pub(super) fn remove_at(&mut self, location: Location, hash: u64) -> Option<(K, V)> {
        match location {
            Location::Bucket(bucket) => {
                let removed = self.remove_placed(bucket, hash);
                self.readmit_into(bucket);
                removed
            }
            Location::Stash(index) => Some(self.stash.swap_remove(index).record),
        }
    }

    /// Takes the record out of a bucket. The user's code runs before anything changes.
    fn remove_placed(&mut self, bucket: u32, hash: u64) -> Option<(K, V)> {
        let backup = self.buckets.candidates(hash).backup_of(bucket);
        let is_maximal = self.forest.standing(bucket).0 == Standing::Maximal;
        let Self {
            buckets, hasher, ..
        } = self;
        let backups = BucketBackups {
            buckets,
            hash_of: |key: &K| hasher.hash_one(key),
        };
        let is_on_cycle = is_maximal && self.planner.is_on_short_cycle(bucket, backup, &backups);
        self.forest.disconnect(bucket, backup, is_on_cycle);
        let removed = self.buckets.take(bucket)?;
        self.placed -= 1;
        Some(removed)
    }

    /// Brings a record back from the stash into a bucket that has become vacant, if it is a
    /// candidate of one; whatever else fits now, the next insertion brings back.
    fn readmit_into(&mut self, bucket: u32) {
        let fits = |hash: u64| {
            let candidates = self.buckets.candidates(hash);
            [candidates.first, candidates.second].contains(&bucket)
        };
        let Some(index) = self.stash.iter().position(|stashed| fits(stashed.hash)) else {
            self.stash_may_fit = !self.stash.is_empty();
            return;
        };
        let stashed = self.stash.swap_remove(index);
        let candidates = self.buckets.candidates(stashed.hash);
        self.buckets.put(bucket, candidates.tag, stashed.record);
        self.forest.connect(candidates.first, candidates.second);
        self.placed += 1;
    }
}

impl<K, V, S> SmartCuckooMap<K, V, S> {
    /// Removes all records. The slots stay.
    pub fn clear(&mut self) {
        drop(self.drain());
    }

    /// Removes all records and returns them, in any order. The slots stay; what was not consumed is
    /// dropped with the iterator.
    pub fn drain(&mut self) -> Drain<'_, K, V> {
        let (side, seed) = (self.buckets.side(), self.buckets.seed());
        let len = self.len();
        // Into new buckets, so that the map is whole even if the iterator is never dropped.
        let buckets = std::mem::replace(&mut self.buckets, Buckets::new(side, seed));
        let stash = std::mem::take(&mut self.stash);
        self.forest = Forest::unbuilt(2 * side);
        (self.placed, self.stash_may_fit) = (0, false);
        Drain::new(IntoIter::of(buckets.into_buckets(), stash, len))
    }
}
