//! Growth, and other hash functions: all records in new buckets.
//!
//! First all keys are hashed, which is the user's code and may panic; then the new place of each
//! record is planned by hashes alone; only then do records move, and nothing can fail any more.

use super::buckets::{Bucket, Buckets};
use super::forest::Forest;
use super::map::SmartCuckooMap;
use super::plan::{Backups, Plan, Planner};
use super::sizes::{LEAST_SIDE, TooManyRecords, is_hopeless, side_for};
use super::stash::Stashed;
use crate::hash::TaggedCandidates;
use std::hash::{BuildHasher, Hash};

/// Hash functions that are tried at one size.
const MOST_SEEDS: u64 = 2;

/// New buckets, and which of the old places' records goes where.
struct RehashPlan {
    side: u32,
    seed: u64,
    forest: Forest,
    /// For each new bucket 1 + the place of its record; 0 if it stays vacant.
    sources: Vec<u32>,
    /// Places of the records for which there is none.
    unplaced: Vec<u32>,
}

/// A plan as what defines the pseudoforest.
struct Sources<'a> {
    sources: &'a [u32],
    hashes: &'a [u64],
    side: u32,
    seed: u64,
}

impl Backups for Sources<'_> {
    fn is_vacant(&self, bucket: u32) -> bool {
        self.sources[bucket as usize] == 0
    }

    fn backup(&self, bucket: u32) -> u32 {
        let hash = self.hashes[self.sources[bucket as usize] as usize - 1];
        TaggedCandidates::of(hash, self.seed, self.side).backup_of(bucket)
    }
}

impl RehashPlan {
    /// Places the records of the places that `is_held` says, as single insertions would.
    fn plan(side: u32, seed: u64, hashes: &[u64], is_held: impl Fn(u32) -> bool) -> Self {
        let mut plan = Self {
            side,
            seed,
            forest: Forest::unbuilt(2 * side),
            sources: vec![0; 2 * side as usize],
            unplaced: Vec::new(),
        };
        let mut planner = Planner::default();
        for place in (0..hashes.len() as u32).filter(|&place| is_held(place)) {
            let candidates = TaggedCandidates::of(hashes[place as usize], seed, side);
            let sources = Sources {
                sources: &plan.sources,
                hashes,
                side,
                seed,
            };
            let mut to = match planner.plan(&mut plan.forest, candidates, &sources) {
                Plan::Fails => {
                    plan.unplaced.push(place);
                    continue;
                }
                Plan::Direct(bucket) => {
                    plan.sources[bucket as usize] = place + 1;
                    plan.forest.connect(candidates.first, candidates.second);
                    continue;
                }
                Plan::KickOut(vacant) => vacant as usize,
            };
            for &from in planner.path().iter().rev() {
                plan.sources[to] = plan.sources[from as usize];
                to = from as usize;
            }
            plan.sources[to] = place + 1;
            plan.forest.connect(candidates.first, candidates.second);
        }
        plan
    }

    /// Records without a place that no size would give one: of each hash that more than two records
    /// have, all but two.
    fn beyond_help(&self, hashes: &[u64]) -> usize {
        let unplaced = self.unplaced.iter().map(|place| hashes[*place as usize]);
        beyond_help(unplaced.collect(), |hash| {
            let candidates = TaggedCandidates::of(hash, self.seed, self.side);
            let holds = |bucket: &u32| {
                let place = self.sources[*bucket as usize].checked_sub(1);
                place.is_some_and(|place| hashes[place as usize] == hash)
            };
            let buckets = [candidates.first, candidates.second];
            buckets.iter().filter(|bucket| holds(bucket)).count()
        })
    }
}

/// Of records without a place, by their hashes, those that are more than two with those of equal
/// hash that are `placed`.
pub(super) fn beyond_help(mut unplaced: Vec<u64>, placed: impl Fn(u64) -> usize) -> usize {
    unplaced.sort_unstable();
    let equal = unplaced.chunk_by(|one, other| one == other);
    equal
        .map(|equal| {
            (equal.len() + placed(equal[0]))
                .saturating_sub(2)
                .min(equal.len())
        })
        .sum()
}

impl<K: Eq + Hash, V, S: BuildHasher> SmartCuckooMap<K, V, S> {
    /// Makes room for so many more records before the map grows.
    ///
    /// # Panics
    /// If that is more than a map can hold; see [`SmartCuckooMap::try_reserve`].
    pub fn reserve(&mut self, additional: usize) {
        if let Err(error) = self.try_reserve(additional) {
            panic!("{error}");
        }
    }

    /// Makes room for so many more records before the map grows.
    ///
    /// # Errors
    /// [`TooManyRecords`] if that is more than a map can hold. The map is as before.
    pub fn try_reserve(&mut self, additional: usize) -> Result<(), TooManyRecords> {
        let side = side_for::<K, V>(self.len().saturating_add(additional))?;
        if side > self.buckets.side() {
            self.rehash(side, self.buckets.seed());
        }
        Ok(())
    }

    /// Gives back the memory that the records held do not need, as far as they then have places.
    pub fn shrink_to_fit(&mut self) {
        if let Ok(side) = side_for::<K, V>(self.len())
            && side < self.buckets.side()
        {
            self.rehash(side, self.buckets.seed());
        }
        self.stash.shrink_to_fit();
    }

    /// Twice the buckets. Returns whether there can be more.
    pub(super) fn grow(&mut self) -> bool {
        let old = self.buckets.side();
        let side = (2 * old).clamp(LEAST_SIDE, Buckets::<K, V>::MOST_SIDE);
        if side > old {
            self.rehash(side, self.buckets.seed());
        }
        side > old
    }

    /// Other hash functions for the same buckets, if all records find a place by them and one of
    /// the stash is left for another. Returns whether they did.
    pub(super) fn reseed(&mut self) -> bool {
        let (side, seed) = (self.buckets.side(), self.buckets.seed() + 1);
        let hashes = self.hashes();
        let plan = RehashPlan::plan(side, seed, &hashes, |place| self.is_held(place));
        let has_helped = plan.unplaced.len() < self.stash.len().max(1);
        if has_helped {
            self.adopt(plan, &hashes);
        }
        has_helped
    }

    /// Brings all records into tables of `side` buckets each, or larger ones if the stash does not
    /// take those that have no place there.
    fn rehash(&mut self, side: u32, seed: u64) {
        let hashes = self.hashes();
        let (mut side, mut seed) = (side, seed);
        let mut left = MOST_SEEDS;
        let plan = loop {
            let plan = RehashPlan::plan(side, seed, &hashes, |place| self.is_held(place));
            let slots = 2 * side as usize;
            let is_largest = side == Buckets::<K, V>::MOST_SIDE || is_hopeless(self.len(), slots);
            left -= 1;
            let to_place = plan.unplaced.len() - plan.beyond_help(&hashes);
            if to_place <= self.stash_limit || (is_largest && left == 0) {
                break plan;
            }
            seed += 1;
            if left == 0 {
                side = (2 * side).clamp(LEAST_SIDE, Buckets::<K, V>::MOST_SIDE);
                left = MOST_SEEDS;
            }
        };
        self.adopt(plan, &hashes);
    }

    /// The hashes of all places: the buckets, where one that is vacant has any, and then the stash.
    fn hashes(&self) -> Vec<u64> {
        let hash_of = |bucket: &Bucket<K, V>| {
            let key = bucket.as_ref().map(|tagged| &tagged.record.0);
            key.map_or(0, |key| self.hasher.hash_one(key))
        };
        let placed = self.buckets.iter().map(hash_of);
        placed
            .chain(self.stash.iter().map(|stashed| stashed.hash))
            .collect()
    }

    fn is_held(&self, place: u32) -> bool {
        place as usize >= self.slots() || self.buckets.get(place).is_some()
    }

    /// Moves all records to where a plan says. Calls no code of the user's.
    fn adopt(&mut self, plan: RehashPlan, hashes: &[u64]) {
        let mut new = Buckets::new(plan.side, plan.seed);
        let slots = self.slots();
        let mut stash: Vec<_> = std::mem::take(&mut self.stash)
            .into_iter()
            .map(|stashed| Some(stashed.record))
            .collect();
        let mut take = |place: usize| match place.checked_sub(slots) {
            Some(index) => stash[index].take(),
            None => self.buckets.take(place as u32),
        };
        let mut placed = 0;
        for (bucket, &source) in plan.sources.iter().enumerate() {
            let Some(place) = (source as usize).checked_sub(1) else {
                continue;
            };
            if let Some(record) = take(place) {
                let tag = new.candidates(hashes[place]).tag;
                new.put(bucket as u32, tag, record);
                placed += 1;
            }
        }
        let unplaced = plan.unplaced.iter().filter_map(|&place| {
            let hash = hashes[place as usize];
            take(place as usize).map(|record| Stashed { hash, record })
        });
        let unplaced = unplaced.collect();
        self.stash = unplaced;
        self.buckets = new;
        self.forest = plan.forest;
        (self.placed, self.stash_may_fit) = (placed, false);
    }
}
