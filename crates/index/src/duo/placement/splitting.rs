//! Growth by a whole ratio r, bucket by bucket (paper 001, section III-D).
//!
//! With r times the buckets m, a key's bucket in either array is one of b, b + m, ..., b + (r-1)m,
//! where b was its bucket before: for the first array this is plain, and for the second because the
//! sum of the first bucket and the fingerprint's step is, modulo rm, congruent to what it was
//! modulo m. So a bucket is *split* on its own: each of its keys goes on to that of the r buckets
//! that is its own, in the same slot of it, and no other bucket has anything to do with that.
//!
//! Invariant: the key of a bucket that is not split is in the bucket that it had before, in that
//! array; the r-1 others are not in use. So every key has one bucket in each array at every moment.
//!
//! Which of the r is a key's own, a fingerprint does not say: the key's hash does. So a record in a
//! bucket that is not split cannot be moved by its fingerprint to one that is.

use super::growing::UnfinishedGrowth;
use super::hashes::Candidates;
use super::index::Placement;
use crate::duo::bytes::SlotNumber;

impl Placement {
    /// Grows by a ratio of 2 or more: no key is anywhere else yet, and no bucket is split.
    ///
    /// # Panics
    /// While a growth is not over.
    pub fn grow(&mut self, ratio: u64) {
        assert!(self.growing.is_none(), "one growth at a time");
        let before = self.shape.buckets;
        self.parts.add(before * (ratio - 1));
        self.shape.buckets *= ratio;
        self.hashes.buckets = self.shape.buckets;
        self.growing = Some(UnfinishedGrowth::new(before, self.shape.buckets));
    }

    /// The buckets of each array, while no growth is under way: as long as there are so many, a
    /// hash has the same candidates.
    #[inline]
    #[must_use]
    pub const fn buckets_without_growth(&self) -> Option<u64> {
        match self.growing {
            None => Some(self.shape.buckets),
            Some(_) => None,
        }
    }

    /// How many buckets of a growth that is not over are not split: 0 if there is none.
    #[must_use]
    pub fn unsplit(&self) -> u64 {
        self.growing
            .as_ref()
            .map_or(0, |growing| growing.split.left)
    }

    /// The buckets that are not split, numbered through both arrays, from one on.
    pub fn unsplit_from(&self, bucket: u64) -> impl Iterator<Item = u64> + '_ {
        let growing = self.growing.iter();
        growing.flat_map(move |growing| growing.split.unset_from(bucket))
    }

    /// The bucket that has to be split for this one, if it was not.
    #[inline]
    #[must_use]
    pub fn to_split(&self, bucket: u64) -> Option<u64> {
        let growing = self.growing.as_ref()?;
        let origin = growing.origin(bucket);
        (!growing.split.is_set(origin)).then_some(origin)
    }

    /// Where keys of this bucket are now, numbered through both arrays.
    #[inline]
    fn now(&self, bucket: u64) -> u64 {
        self.to_split(bucket).unwrap_or(bucket)
    }

    /// Those of a key's buckets that have to be split before it is inserted.
    #[must_use]
    pub fn to_split_of(&self, buckets: [u64; 2]) -> Vec<u64> {
        let buckets = buckets.into_iter();
        buckets.filter_map(|bucket| self.to_split(bucket)).collect()
    }

    /// Whether none of a key's buckets has to be split before it is inserted.
    #[inline]
    #[must_use]
    pub fn are_split(&self, buckets: [u64; 2]) -> bool {
        buckets
            .iter()
            .all(|bucket| self.to_split(*bucket).is_none())
    }

    /// Whether a bucket has keys of its own: not if it is one of those that another has to be split
    /// for.
    #[inline]
    #[must_use]
    pub fn is_in_use(&self, bucket: u64) -> bool {
        self.to_split(bucket).is_none_or(|origin| origin == bucket)
    }

    /// The buckets that a bucket is split into, itself the first.
    pub fn siblings(&self, bucket: u64) -> impl Iterator<Item = u64> + use<> {
        let (newest, apart) = match &self.growing {
            Some(growing) => (growing.newest(growing.origin(bucket)), 2 * growing.before),
            None => (bucket, 1),
        };
        (bucket..=newest).step_by(apart as usize)
    }

    /// The last one of the buckets that a bucket is split into, in whose extent the vault keeps
    /// that it is split, as the bit of the bucket's own number; nothing if no growth is under way.
    #[must_use]
    pub fn newest_sibling(&self, origin: u64) -> Option<u64> {
        self.growing.as_ref().map(|growing| growing.newest(origin))
    }

    /// Whether a key with this hash can be in this slot as things stand. What is in a slot and
    /// cannot be there was left behind when its bucket was split, and is nobody's: it could not be
    /// there at any later moment either, for a bucket's keys after a growth are some of those
    /// before. In the stash any key can be.
    #[must_use]
    pub fn belongs(&self, slot: SlotNumber, hash: u64) -> bool {
        let bucket = self.bucket_of(slot);
        bucket.is_none_or(|bucket| self.buckets_of(&self.candidates(hash)).contains(&bucket))
    }

    /// The slot of a key of a bucket that is to be split, once it is.
    #[must_use]
    pub fn slot_after_split(&self, slot: SlotNumber, hash: u64) -> SlotNumber {
        let slots = u64::from(self.shape.bucket_slots);
        let [first, second] = self.buckets_of(&self.hashes.of(hash));
        let bucket = [first, second][(slot.0 / slots % 2) as usize];
        SlotNumber(bucket * slots + slot.0 % slots)
    }

    /// Notes that a bucket is split, whose slots hold no keys.
    pub fn note_split(&mut self, origin: u64) {
        if let Some(growing) = &mut self.growing {
            growing.split.set(origin);
            if growing.split.left == 0 {
                self.growing = None;
            }
        }
    }

    /// Notes that all buckets are split, whose slots hold no keys.
    pub fn note_all_split(&mut self) {
        self.growing = None;
    }

    /// Splits a bucket whose keys have these hashes: each goes on in
    /// [`Placement::slot_after_split`].
    pub fn split(&mut self, origin: u64, keys: &[(SlotNumber, u64)]) {
        for (slot, hash) in keys {
            let after = self.slot_after_split(*slot, *hash);
            if after != *slot {
                let backup = self.is_backup(*slot);
                self.parts.set(after, self.parts.get(*slot), backup);
                self.parts.set(*slot, 0, false);
            }
        }
        self.note_split(origin);
    }

    /// Where a key with this hash may be, whichever buckets are split.
    #[inline(always)]
    pub(super) fn candidates_now(&self, hash: u64) -> Candidates {
        let of = self.hashes.of(hash);
        match self.growing {
            None => of,
            Some(_) => self.before_splits(of),
        }
    }

    /// The same, of those where a key will be when all buckets are split.
    fn before_splits(&self, mut of: Candidates) -> Candidates {
        let [first, second] = self.buckets_of(&of);
        of.first = self.now(first) / 2;
        of.second = self.now(second) / 2;
        of
    }

    /// Where the record of a slot with a primary fingerprint could go, if the fingerprint tells.
    #[inline]
    pub(super) fn other_bucket(&self, slot: SlotNumber) -> Option<u64> {
        let primary = self.parts.get(slot);
        let bucket = slot.0 / u64::from(self.shape.bucket_slots);
        let is_split = self.to_split(bucket).is_none();
        let mut hashes = self.hashes;
        if let Some(growing) = &self.growing
            && !is_split
        {
            hashes.buckets = growing.before;
        }
        let (pair, of_first) = (bucket / 2, bucket & 1 == 0);
        let other = if of_first {
            2 * hashes.second_of(pair, primary) + 1
        } else {
            2 * hashes.first_of(pair, primary)
        };
        // Of a bucket as it was before, only one that is not split either is known.
        match self.to_split(other) {
            Some(origin) => Some(origin),
            None => is_split.then_some(other),
        }
    }
}
