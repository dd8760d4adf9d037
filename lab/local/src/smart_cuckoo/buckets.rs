//! Two tables of one-slot buckets.

use super::forest::MOST_BUCKETS;
use super::plan::{Backups, Plan, Planner};
use crate::hash::TaggedCandidates;
use std::hint::select_unpredictable;
use std::num::NonZeroU8;

/// A record with its tag (see [`TaggedCandidates::tag`]), which is where an `Option` of it has its
/// discriminant: a bucket is no larger than an `Option` of the record alone, and a probe is of one
/// cache line, or two.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct Tagged<K, V> {
    tag: NonZeroU8,
    pub(super) record: (K, V),
}

/// A bucket: of one slot.
pub(super) type Bucket<K, V> = Option<Tagged<K, V>>;

/// The tag of the record in a bucket; 0 if there is none.
#[inline]
fn tag_of<K, V>(bucket: &Bucket<K, V>) -> u8 {
    bucket.as_ref().map_or(0, |tagged| tagged.tag.get())
}

/// What a probe of a key's candidates finds.
pub(super) enum CandidateProbe {
    /// The key, in this bucket.
    At(u32),
    /// Not the key, and this bucket nothing.
    Vacant(u32),
    /// Other keys.
    Full,
}

/// The buckets of both tables.
#[derive(Clone, Debug)]
pub(super) struct Buckets<K, V> {
    buckets: Box<[Bucket<K, V>]>,
    /// Buckets of each of the two tables.
    side: u32,
    /// Chooses the hash functions.
    seed: u64,
}

impl<K, V> Buckets<K, V> {
    /// The most buckets of each of the two tables.
    pub(super) const MOST_SIDE: u32 = MOST_BUCKETS / 2;

    /// Bytes for each bucket beside its key and value.
    pub(super) fn overhead_per_bucket() -> usize {
        size_of::<Bucket<K, V>>() - size_of::<K>() - size_of::<V>()
    }

    /// Tables of `side` buckets each, at most [`Self::MOST_SIDE`]; with none, nothing is allocated.
    pub(super) fn new(side: u32, seed: u64) -> Self {
        debug_assert!(side <= Self::MOST_SIDE);
        let slots = 2 * side as usize;
        Self {
            buckets: std::iter::repeat_with(|| None).take(slots).collect(),
            side,
            seed,
        }
    }

    /// Buckets of both tables together.
    pub(super) fn slots(&self) -> usize {
        self.buckets.len()
    }

    pub(super) fn side(&self) -> u32 {
        self.side
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    /// The candidates of a key by its hash.
    #[inline]
    pub(super) fn candidates(&self, hash: u64) -> TaggedCandidates {
        TaggedCandidates::of(hash, self.seed, self.side)
    }

    /// The record in a bucket.
    #[inline]
    pub(super) fn get(&self, bucket: u32) -> Option<&(K, V)> {
        self.buckets[bucket as usize]
            .as_ref()
            .map(|tagged| &tagged.record)
    }

    /// The record in a bucket, of which the key must stay as it is.
    #[inline]
    pub(super) fn get_mut(&mut self, bucket: u32) -> Option<&mut (K, V)> {
        self.buckets[bucket as usize]
            .as_mut()
            .map(|tagged| &mut tagged.record)
    }

    /// All buckets in order.
    pub(super) fn iter(&self) -> std::slice::Iter<'_, Bucket<K, V>> {
        self.buckets.iter()
    }

    /// All buckets in order; keys must stay as they are.
    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Bucket<K, V>> {
        self.buckets.iter_mut()
    }

    /// All buckets in order.
    pub(super) fn into_buckets(self) -> Box<[Bucket<K, V>]> {
        self.buckets
    }

    /// The bucket with the record that `is_it` accepts: two probes at most.
    #[inline]
    pub(super) fn find(
        &self,
        candidates: TaggedCandidates,
        mut is_it: impl FnMut(&K) -> bool,
    ) -> Option<u32> {
        let TaggedCandidates { first, second, tag } = candidates;
        let mut holds = |bucket: u32| match &self.buckets[bucket as usize] {
            Some(tagged) => tagged.tag == tag && is_it(&tagged.record.0),
            None => false,
        };
        if holds(first) {
            return Some(first);
        }
        holds(second).then_some(second)
    }

    /// Looks for the record that `is_it` accepts, and for a place for it.
    ///
    /// Which of the two buckets is vacant is as good as random: a branch on it is mispredicted by
    /// up to every second insertion, which costs more than all else here. So tags alone are looked
    /// at, and there is a branch only for what is rare: a tag that is the key's, and two occupied
    /// buckets.
    #[inline]
    pub(super) fn probe(
        &self,
        candidates: TaggedCandidates,
        is_it: impl FnMut(&K) -> bool,
    ) -> CandidateProbe {
        let TaggedCandidates { first, second, tag } = candidates;
        let buckets = [first, second].map(|bucket| self.buckets.get(bucket as usize));
        // A map without buckets has no vacant one.
        let [Some(one), Some(two)] = buckets else {
            return CandidateProbe::Full;
        };
        let (one, two, tag) = (tag_of(one), tag_of(two), tag.get());
        if (one == tag) | (two == tag)
            && let Some(bucket) = self.find(candidates, is_it)
        {
            return CandidateProbe::At(bucket);
        }
        // Tags are odd. By a comparison for each bucket it would be compiled to two branches.
        if one & two != 0 {
            return CandidateProbe::Full;
        }
        CandidateProbe::Vacant(select_unpredictable(one == 0, first, second))
    }

    /// Puts a record where it was planned to go. Returns its bucket, and a record that was there
    /// all the same, as only a `Hash` that contradicts itself can bring about. Calls no code of the
    /// user's.
    #[inline]
    pub(super) fn place(
        &mut self,
        tag: NonZeroU8,
        record: (K, V),
        plan: Plan,
        planner: &Planner,
    ) -> (u32, Option<(K, V)>) {
        let bucket = match plan {
            Plan::Direct(bucket) => bucket,
            Plan::KickOut(vacant) => self.kick_out(planner.path(), vacant),
            Plan::Fails => unreachable!("a failure is not placed"),
        };
        (bucket, self.put(bucket, tag, record))
    }

    /// Puts a record into a bucket, and returns what was there.
    #[inline]
    pub(super) fn put(&mut self, bucket: u32, tag: NonZeroU8, record: (K, V)) -> Option<(K, V)> {
        debug_assert!(tag.get() % 2 == 1, "tags are odd");
        let tagged = self.buckets[bucket as usize].replace(Tagged { tag, record });
        tagged.map(|tagged| tagged.record)
    }

    /// Takes the record out of a bucket.
    pub(super) fn take(&mut self, bucket: u32) -> Option<(K, V)> {
        let tagged = self.buckets[bucket as usize].take();
        tagged.map(|tagged| tagged.record)
    }

    /// Moves each record of a path on by one, the last one first, so that none is ever without a
    /// place. Returns the path's first bucket, which is vacant now.
    fn kick_out(&mut self, path: &[u32], vacant: u32) -> u32 {
        let mut to = vacant as usize;
        for &from in path.iter().rev() {
            self.buckets[to] = self.buckets[from as usize].take();
            to = from as usize;
        }
        to as u32
    }
}

/// The backups of the records in buckets, which define the pseudoforest: a record's backup follows
/// from its key's hash.
pub(super) struct BucketBackups<'a, K, V, H> {
    pub(super) buckets: &'a Buckets<K, V>,
    /// The hash of a key: the user's code, which may panic.
    pub(super) hash_of: H,
}

impl<K, V, H: Fn(&K) -> u64> Backups for BucketBackups<'_, K, V, H> {
    #[inline]
    fn is_vacant(&self, bucket: u32) -> bool {
        self.buckets.buckets[bucket as usize].is_none()
    }

    #[inline]
    fn backup(&self, bucket: u32) -> u32 {
        self.buckets.get(bucket).map_or(bucket, |(key, _)| {
            let candidates = self.buckets.candidates((self.hash_of)(key));
            candidates.backup_of(bucket)
        })
    }
}
