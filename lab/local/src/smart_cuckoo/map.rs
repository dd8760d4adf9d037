//! The map: what it holds, how it is made, and lookups.

use super::buckets::{BucketBackups, Buckets};
use super::forest::{Forest, Scenario};
use super::plan::Planner;
use super::sizes::{self, TooManyRecords};
use super::stash::{self, Stashed};
use crate::InsertionCounters;
use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash, RandomState};

/// Records that the stash takes by default. With a stash of four, the probability that a table of n
/// buckets overflows it falls as n to the power of minus five.
pub(super) const STASH_LIMIT: usize = 4;

/// A hash map whose lookups read at most two buckets, and whose insertions never walk in a circle.
///
/// It has the manners of [`std::collections::HashMap`]; what it does differently is said in the
/// module's documentation, which is [here](crate::smart_cuckoo).
///
/// ```
/// use farslot_local::SmartCuckooMap;
///
/// let mut sizes = SmartCuckooMap::new();
/// sizes.insert("bin", 1_200);
/// *sizes.entry("bin").or_insert(0) += 34;
/// assert_eq!(sizes["bin"], 1_234);
/// assert_eq!(sizes.get("lib"), None);
/// ```
#[derive(Clone)]
pub struct SmartCuckooMap<K, V, S = RandomState> {
    pub(super) buckets: Buckets<K, V>,
    pub(super) forest: Forest,
    pub(super) stash: Vec<Stashed<K, V>>,
    pub(super) stash_limit: usize,
    /// Whether records were removed since the stash was last looked through for ones that fit
    /// again.
    pub(super) stash_may_fit: bool,
    /// Records in buckets.
    pub(super) placed: usize,
    pub(super) hasher: S,
    pub(super) planner: Planner,
    /// Those that the planner does not count.
    pub(super) counted: InsertionCounters,
}

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Location {
    Bucket(u32),
    Stash(usize),
}

impl<K, V> SmartCuckooMap<K, V, RandomState> {
    /// An empty map, which allocates nothing before the first insertion.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty map with room for so many records before it grows.
    ///
    /// # Panics
    /// If that is more than a map can hold (see [`TooManyRecords`]).
    #[must_use]
    pub fn with_capacity(records: usize) -> Self {
        Self::with_capacity_and_hasher(records, RandomState::new())
    }
}

impl<K, V, S> SmartCuckooMap<K, V, S> {
    /// An empty map that hashes keys with `hasher`.
    #[must_use]
    pub fn with_hasher(hasher: S) -> Self {
        Self::of_side(0, hasher)
    }

    /// An empty map with room for so many records before it grows.
    ///
    /// # Panics
    /// If that is more than a map can hold (see [`TooManyRecords`]).
    #[must_use]
    pub fn with_capacity_and_hasher(records: usize, hasher: S) -> Self {
        match sizes::side_for::<K, V>(records) {
            Ok(side) => Self::of_side(side, hasher),
            Err(error) => panic!("{error}"),
        }
    }

    /// An empty map of at least so many slots, which is twice the size that
    /// [`SmartCuckooMap::insert_within`] can hope to fill.
    ///
    /// # Errors
    /// [`TooManyRecords`] if there cannot be so many slots.
    pub fn with_slots_and_hasher(slots: usize, hasher: S) -> Result<Self, TooManyRecords> {
        let most = 2 * Buckets::<K, V>::MOST_SIDE as usize;
        if slots > most {
            let records = slots;
            return Err(TooManyRecords { records, most });
        }
        Ok(Self::of_side(slots.div_ceil(2) as u32, hasher))
    }

    fn of_side(side: u32, hasher: S) -> Self {
        Self {
            buckets: Buckets::new(side, 0),
            forest: Forest::unbuilt(2 * side),
            stash: Vec::new(),
            stash_limit: STASH_LIMIT,
            stash_may_fit: false,
            placed: 0,
            hasher,
            planner: Planner::default(),
            counted: InsertionCounters::default(),
        }
    }

    /// The records held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.placed + self.stash.len()
    }

    /// Whether no record is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The records that the map holds before [`SmartCuckooMap::insert`] makes it grow:
    /// [`MAX_LOAD`](super::MAX_LOAD) of its slots. It may have to grow earlier, though for random
    /// keys it next to never does.
    #[must_use]
    pub fn capacity(&self) -> usize {
        sizes::load_limit(self.slots())
    }

    /// Buckets of both tables together, each of one slot.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.buckets.slots()
    }

    /// The records in buckets divided by the slots; 0 if there are none.
    #[must_use]
    pub fn load(&self) -> f64 {
        self.placed as f64 / (self.slots() as f64).max(1.0)
    }

    /// Records in the stash: those that no arrangement has a bucket for beside the others.
    #[must_use]
    pub fn stashed(&self) -> usize {
        self.stash.len()
    }

    /// How many records the stash takes before the map grows for them, or refuses them; by default
    /// 4. With 0 every record is in a bucket (unless the hasher makes that impossible, see
    /// [here](crate::smart_cuckoo)). Records that are in the stash stay.
    pub fn set_stash_limit(&mut self, records: usize) {
        self.stash_limit = records;
    }

    /// What hashes the keys.
    pub fn hasher(&self) -> &S {
        &self.hasher
    }

    /// What all insertions together have cost.
    #[must_use]
    pub fn counters(&self) -> InsertionCounters {
        InsertionCounters {
            bucket_probes: 2 * self.counted.offered() + self.planner.steps,
            known_failures: self.planner.known_failures,
            ..self.counted
        }
    }

    /// Bytes that are allocated for the records, their tags, and the forest if it is kept; the
    /// stash apart.
    #[must_use]
    pub fn allocated_bytes(&self) -> usize {
        let per_bucket = size_of::<K>() + size_of::<V>() + Self::overhead_per_slot();
        let forest = usize::from(self.forest.is_built()) * Forest::bytes_per_bucket();
        self.slots() * (per_bucket + forest)
    }

    /// Bytes of each slot beside its key and its value: the tag, and what an `Option` adds. Where
    /// the forest is kept, four more.
    #[must_use]
    pub fn overhead_per_slot() -> usize {
        Buckets::<K, V>::overhead_per_bucket()
    }
}

impl<K: Eq + Hash, V, S: BuildHasher> SmartCuckooMap<K, V, S> {
    /// The value of a key.
    pub fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.get_key_value(key).map(|(_, value)| value)
    }

    /// A key as the map holds it, and its value.
    pub fn get_key_value<Q>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let location = self.locate(key)?;
        self.at(location).map(|(key, value)| (key, value))
    }

    /// The value of a key, to be changed.
    pub fn get_mut<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let location = self.locate(key)?;
        self.at_mut(location).map(|(_, value)| value)
    }

    /// Whether a key is there.
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.locate(key).is_some()
    }

    /// What an insertion of a key that is not there would meet (paper 004, section 3.2); `None` if
    /// the map has no buckets. [`Scenario::Unknown`] after removals, and before the map [tracks its
    /// subgraphs](Self::track_subgraphs).
    pub fn scenario<Q>(&self, key: &Q) -> Option<Scenario>
    where
        K: Borrow<Q>,
        Q: Hash + ?Sized,
    {
        (self.slots() > 0).then(|| {
            let candidates = self.buckets.candidates(self.hasher.hash_one(key));
            self.forest.scenario(candidates.first, candidates.second)
        })
    }

    /// Builds the forest now, and keeps it from now on until the map grows: four bytes a slot, and
    /// some time for each insertion. The map does so by itself once reading paths has cost more.
    /// What it tells is the same with and without; to be asked for where a map is to be filled
    /// beyond half of its slots by [`SmartCuckooMap::insert_within`].
    pub fn track_subgraphs(&mut self) {
        if !self.forest.is_built() {
            self.rebuild_forest();
        }
    }

    /// Whether a key that is not there has a place in the buckets as they are: exactly if some
    /// arrangement of all placed records and this one exists. Moves nothing.
    pub fn has_place<Q>(&mut self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + ?Sized,
    {
        if self.slots() == 0 {
            return false;
        }
        let candidates = self.buckets.candidates(self.hasher.hash_one(key));
        let Self {
            buckets, hasher, ..
        } = self;
        let backups = BucketBackups {
            buckets,
            hash_of: |key: &K| hasher.hash_one(key),
        };
        !self.planner.fails(&mut self.forest, candidates, &backups)
    }

    #[inline]
    pub(super) fn locate<Q>(&self, key: &Q) -> Option<Location>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        if self.is_empty() {
            return None;
        }
        self.locate_hashed(self.hasher.hash_one(key), key)
    }

    #[inline]
    pub(super) fn locate_hashed<Q>(&self, hash: u64, key: &Q) -> Option<Location>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let is_it = |held: &K| held.borrow() == key;
        if self.placed > 0 {
            let candidates = self.buckets.candidates(hash);
            if let Some(bucket) = self.buckets.find(candidates, is_it) {
                return Some(Location::Bucket(bucket));
            }
        }
        if self.stash.is_empty() {
            return None;
        }
        stash::find(&self.stash, hash, is_it).map(Location::Stash)
    }
}

impl<K, V, S> SmartCuckooMap<K, V, S> {
    #[inline]
    pub(super) fn at(&self, location: Location) -> Option<&(K, V)> {
        match location {
            Location::Bucket(bucket) => self.buckets.get(bucket),
            Location::Stash(index) => self.stash.get(index).map(|stashed| &stashed.record),
        }
    }

    #[inline]
    pub(super) fn at_mut(&mut self, location: Location) -> Option<&mut (K, V)> {
        match location {
            Location::Bucket(bucket) => self.buckets.get_mut(bucket),
            Location::Stash(index) => {
                let stashed = self.stash.get_mut(index);
                stashed.map(|stashed| &mut stashed.record)
            }
        }
    }
}
