//! Insertion (paper 004, algorithms 1 to 4).

use super::buckets::{BucketBackups, CandidateProbe};
use super::entry::{Entry, OccupiedEntry, VacantEntry};
use super::forest::Forest;
use super::map::{Location, SmartCuckooMap};
use super::plan::Plan;
use super::rehash::beyond_help;
use super::sizes::is_hopeless;
use super::stash::{self, Stashed};
use crate::Full;
use std::hash::{BuildHasher, Hash};

impl<K: Eq + Hash, V, S: BuildHasher> SmartCuckooMap<K, V, S> {
    /// Inserts a record, or replaces the value of a key that is there and returns the old value.
    /// The map grows where that is needed (see [here](crate::smart_cuckoo)).
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let hash = self.hasher.hash_one(&key);
        match self.insert_directly(hash, key, value, self.placed < self.capacity()) {
            Ok(old) => old,
            Err((key, value)) => self.insert_elsewhere(hash, key, value),
        }
    }

    /// Inserts a record, or replaces the value of a key that is there and returns the old value.
    /// The map never grows: it gives the record back if no arrangement of all records exists in its
    /// buckets and the stash is full.
    ///
    /// # Errors
    /// [`Full`], with the record. It was known before anything was moved, and the map is as before.
    ///
    /// ```
    /// use farslot_local::SmartCuckooMap;
    ///
    /// let mut cache = SmartCuckooMap::with_capacity(100);
    /// let refused = (0..1_000).find_map(|key| cache.insert_within(key, "value").err());
    /// let refused = refused.expect("a thousand records in a map for a hundred");
    /// assert!(!cache.contains_key(&refused.key));
    /// assert_eq!(cache.len(), refused.records);
    /// ```
    pub fn insert_within(&mut self, key: K, value: V) -> Result<Option<V>, Full<K, V>> {
        let hash = self.hasher.hash_one(&key);
        match self.insert_directly(hash, key, value, true) {
            Ok(old) => Ok(old),
            Err(record) => self.insert_within_elsewhere(hash, record),
        }
    }

    /// The place of a key: occupied or vacant. The key is looked up once.
    pub fn entry(&mut self, key: K) -> Entry<'_, K, V, S> {
        let hash = self.hasher.hash_one(&key);
        match self.locate_hashed(hash, &key) {
            Some(location) => Entry::Occupied(OccupiedEntry::new(self, hash, location)),
            None => Entry::Vacant(VacantEntry::new(self, hash, key)),
        }
    }

    /// The usual end of an insertion: the key is in one of its buckets, or one is vacant and a
    /// record `may_add` to those placed. Little code, so that the processor has the next
    /// insertion's buckets under way meanwhile. Gives the record back where it takes more: its key
    /// is in no bucket then.
    #[inline]
    fn insert_directly(
        &mut self,
        hash: u64,
        key: K,
        value: V,
        may_add: bool,
    ) -> Result<Option<V>, (K, V)> {
        let candidates = self.buckets.candidates(hash);
        match self.buckets.probe(candidates, |held| *held == key) {
            CandidateProbe::At(bucket) => Ok(self.replace(Location::Bucket(bucket), value)),
            CandidateProbe::Vacant(bucket) if self.stash.is_empty() && may_add => {
                self.buckets.put(bucket, candidates.tag, (key, value));
                self.forest.connect(candidates.first, candidates.second);
                self.placed += 1;
                self.counted.insertions += 1;
                Ok(None)
            }
            CandidateProbe::Vacant(_) | CandidateProbe::Full => Err((key, value)),
        }
    }

    /// Inserts a record whose key is in no bucket, or replaces its value in the stash. The map may
    /// grow.
    #[inline(never)]
    fn insert_elsewhere(&mut self, hash: u64, key: K, value: V) -> Option<V> {
        match stash::find(&self.stash, hash, |held| *held == key) {
            Some(index) => self.replace(Location::Stash(index), value),
            None => {
                self.insert_new(hash, (key, value));
                None
            }
        }
    }

    /// Inserts a record whose key is in no bucket, or replaces its value in the stash. The map
    /// never grows.
    #[inline(never)]
    fn insert_within_elsewhere(
        &mut self,
        hash: u64,
        (key, value): (K, V),
    ) -> Result<Option<V>, Full<K, V>> {
        if let Some(index) = stash::find(&self.stash, hash, |held| *held == key) {
            return Ok(self.replace(Location::Stash(index), value));
        }
        self.readmit();
        match self.try_place(hash, (key, value)) {
            Ok(_) => Ok(None),
            Err(record) if self.stash.len() < self.stash_limit => {
                self.put_in_stash(hash, record);
                Ok(None)
            }
            Err((key, value)) => Err(Full {
                key,
                value,
                records: self.len(),
                slots: self.slots(),
                stash: self.stash_limit,
            }),
        }
    }

    /// Inserts a record whose key is not there.
    pub(super) fn insert_new(&mut self, hash: u64, mut record: (K, V)) -> Location {
        self.readmit();
        if self.placed >= self.capacity() {
            self.grow();
        }
        let mut may_reseed = true;
        loop {
            record = match self.try_place(hash, record) {
                Ok(location) => return location,
                Err(record) => record,
            };
            if !self.needs_room(hash) || !self.make_room(may_reseed) {
                return self.put_in_stash(hash, record);
            }
            may_reseed = false;
        }
    }

    /// Whether a record that finds no place is one too many for the stash. Of equal hashes only two
    /// can ever be placed: what is beyond that has no part in the stash's limit, and no size and no
    /// other functions would help it.
    fn needs_room(&self, hash: u64) -> bool {
        if self.stash.len() < self.stash_limit {
            return false;
        }
        let mut unplaced: Vec<u64> = self.stash.iter().map(|stashed| stashed.hash).collect();
        unplaced.push(hash);
        let all = unplaced.len();
        let placed = |hash| {
            let candidates = self.buckets.candidates(hash);
            let holds = |bucket: &u32| {
                let held = self.buckets.get(*bucket);
                held.is_some_and(|record| self.hasher.hash_one(&record.0) == hash)
            };
            let buckets = [candidates.first, candidates.second];
            buckets.iter().filter(|bucket| holds(bucket)).count()
        };
        let to_place = all - beyond_help(unplaced, placed);
        to_place > self.stash_limit
    }

    /// Gives the records other hash functions, if they may, or more buckets. Returns whether
    /// anything changed.
    fn make_room(&mut self, may_reseed: bool) -> bool {
        if is_hopeless(self.len(), self.slots()) {
            return false;
        }
        let is_sparse = self.placed * 2 < self.capacity();
        (may_reseed && is_sparse && self.reseed()) || self.grow()
    }

    /// Places a record in a bucket, unless there is no place for all records.
    fn try_place(&mut self, hash: u64, record: (K, V)) -> Result<Location, (K, V)> {
        if self.slots() == 0 {
            return Err(record);
        }
        if self.forest.is_worth_rebuilding() {
            self.rebuild_forest();
        }
        let candidates = self.buckets.candidates(hash);
        let Self {
            buckets, hasher, ..
        } = self;
        let backups = BucketBackups {
            buckets,
            hash_of: |key: &K| hasher.hash_one(key),
        };
        let plan = self.planner.plan(&mut self.forest, candidates, &backups);
        match plan {
            Plan::Fails => {
                self.counted.failures += 1;
                return Err(record);
            }
            Plan::KickOut(_) => self.counted.kick_outs += self.planner.path().len() as u64,
            Plan::Direct(_) => {}
        }
        let (bucket, displaced) = self
            .buckets
            .place(candidates.tag, record, plan, &self.planner);
        self.forest.connect(candidates.first, candidates.second);
        self.counted.insertions += 1;
        self.placed += 1;
        if let Some(displaced) = displaced {
            self.placed -= 1;
            let hash = self.hasher.hash_one(&displaced.0);
            self.put_in_stash(hash, displaced);
        }
        Ok(Location::Bucket(bucket))
    }

    /// Derives the forest from the records: once over all of them.
    pub(super) fn rebuild_forest(&mut self) {
        let mut forest = Forest::new(2 * self.buckets.side());
        for tagged in self.buckets.iter().flatten() {
            let hash = self.hasher.hash_one(&tagged.record.0);
            let candidates = self.buckets.candidates(hash);
            forest.connect(candidates.first, candidates.second);
        }
        self.forest = forest;
        self.counted.rebuilds += 1;
    }

    /// Brings back from the stash what removals have made room for.
    #[inline]
    fn readmit(&mut self) {
        if self.stash_may_fit && self.slots() > 0 {
            self.readmit_all();
        }
    }

    #[inline(never)]
    fn readmit_all(&mut self) {
        self.stash_may_fit = false;
        for index in (0..self.stash.len()).rev() {
            let candidates = self.buckets.candidates(self.stash[index].hash);
            let Self {
                buckets, hasher, ..
            } = self;
            let backups = BucketBackups {
                buckets,
                hash_of: |key: &K| hasher.hash_one(key),
            };
            let plan = self.planner.plan(&mut self.forest, candidates, &backups);
            if plan == Plan::Fails {
                continue;
            }
            let stashed = self.stash.swap_remove(index);
            let record = stashed.record;
            let (_, displaced) = self
                .buckets
                .place(candidates.tag, record, plan, &self.planner);
            self.forest.connect(candidates.first, candidates.second);
            self.placed += 1;
            if let Some(record) = displaced {
                self.placed -= 1;
                let hash = stashed.hash;
                self.stash.push(Stashed { hash, record });
            }
        }
    }

    fn put_in_stash(&mut self, hash: u64, record: (K, V)) -> Location {
        self.stash.push(Stashed { hash, record });
        Location::Stash(self.stash.len() - 1)
    }

    fn replace(&mut self, location: Location, value: V) -> Option<V> {
        let held = self.at_mut(location)?;
        Some(std::mem::replace(&mut held.1, value))
    }
}
