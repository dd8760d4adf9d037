//! The index: which fingerprint each slot holds, and what follows of it for a key.

use super::growing::UnfinishedGrowth;
use super::hashes::{Candidates, Hashes};
use super::parts::Parts;
use super::path::Path;
use super::shape::Shape;
use super::stash::StashHashes;
use crate::duo::bytes::SlotNumber;
use smallvec::{SmallVec, smallvec};
use std::collections::btree_set::Range;

/// How a new key enters the index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// By its primary fingerprint, in either of its buckets.
    Primary,
    /// By its backup fingerprint, in its bucket of the first array.
    Backup,
    /// By its primary fingerprint, in its bucket of the first array; the key that stands there by
    /// the same one stands by its backup fingerprint from then on, in the same slot.
    InsteadOf(SlotNumber, Candidates),
    /// By no fingerprint that is not ambiguous: in the stash.
    Stash,
}

/// What a key meets in its buckets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BucketMatch {
    /// The first slot that may be its own.
    Match(SlotNumber),
    /// No such slot, and a free one of the roomier bucket: of equally roomy ones the first.
    Free(SlotNumber),
    /// Neither.
    Full,
}

impl BucketMatch {
    /// The slot, if there is one.
    #[inline]
    #[must_use]
    pub const fn slot(self) -> Option<SlotNumber> {
        match self {
            Self::Match(slot) | Self::Free(slot) => Some(slot),
            Self::Full => None,
        }
    }
}

/// The index.
pub struct Placement {
    pub(super) shape: Shape,
    pub(super) hashes: Hashes,
    pub(super) parts: Parts,
    pub(super) growing: Option<UnfinishedGrowth>,
    stash: StashHashes,
    live: u64,
}

impl Placement {
    /// An index of empty slots. It takes [`Placement::bytes`] of memory.
    #[must_use]
    pub fn new(shape: Shape) -> Self {
        let mut parts = Parts::new(shape.bucket_slots, shape.fingerprint_bits);
        parts.add(shape.buckets);
        Self {
            hashes: Hashes {
                buckets: shape.buckets,
                fingerprint_bits: shape.fingerprint_bits,
            },
            parts,
            growing: None,
            stash: StashHashes::new(shape.stash),
            live: 0,
            shape,
        }
    }

    /// Its dimensions: those that it grows to, if it does.
    #[must_use]
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// Keys in it, those in the stash included.
    #[must_use]
    pub const fn live(&self) -> u64 {
        self.live
    }

    /// Keys in the stash.
    #[must_use]
    pub fn stashed(&self) -> usize {
        self.stash.keys()
    }

    /// Bytes of local memory, as large as it has grown, without what a path search needs.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let growing = self.growing.as_ref().map_or(0, UnfinishedGrowth::bytes);
        self.parts.bytes() + self.stash.bytes() + growing
    }

    /// Where a key with this hash may be.
    #[inline]
    #[must_use]
    pub fn candidates(&self, hash: u64) -> Candidates {
        self.candidates_now(hash)
    }

    /// Has what is said of keys with these candidates fetched, for a look soon.
    #[inline(always)]
    pub fn prefetch(&self, of: &Candidates) {
        for bucket in self.buckets_of(of) {
            self.parts.prefetch(bucket);
        }
    }

    /// A key's two buckets, numbered through both arrays.
    #[inline]
    #[must_use]
    pub const fn buckets_of(&self, of: &Candidates) -> [u64; 2] {
        [2 * of.first, 2 * of.second + 1]
    }

    /// The bucket of a slot; none of those of the stash.
    #[must_use]
    pub const fn bucket_of(&self, slot: SlotNumber) -> Option<u64> {
        match slot.in_stash() {
            None => Some(slot.0 / self.shape.bucket_slots as u64),
            Some(_) => None,
        }
    }

    /// Every slot that may be that of the key with this hash, in the order in which they are to be
    /// read: the stash, backup fingerprints, primary ones.
    #[inline]
    #[must_use]
    pub fn matches(&self, hash: u64) -> Matches<'_> {
        self.matches_of(hash, &self.candidates(hash))
    }

    /// As [`Placement::matches`], of the key with this hash and these candidates.
    #[inline]
    #[must_use]
    pub fn matches_of(&self, hash: u64, of: &Candidates) -> Matches<'_> {
        let [first, second] = self.buckets_of(of);
        Matches {
            index: self,
            stashed: self.stash.of_hash(hash),
            buckets: [first, first, second],
            masks: self.masks_of(of),
        }
    }

    /// The slots of both arrays among those matches, a bit each: by backup fingerprints, by primary
    /// ones in the bucket of the first array, and in that of the second.
    #[inline(always)]
    fn masks_of(&self, of: &Candidates) -> [u32; 3] {
        let [first, second] = self.buckets_of(of).map(|of| self.parts.bucket(of));
        let backups = first.backups();
        let by_backup = match backups {
            0 => 0,
            _ => first.equal(of.backup) & backups,
        };
        [
            by_backup,
            first.equal(of.primary) & !backups,
            second.equal(of.primary),
        ]
    }

    /// The first of these matches that is in the arrays: its bucket, and its number there.
    #[inline(always)]
    #[must_use]
    pub fn first_in_arrays(&self, of: &Candidates) -> Option<(u64, u32)> {
        let [first, second] = self.buckets_of(of);
        let [by_backup, in_first, in_second] = self.masks_of(of);
        let in_first = match by_backup {
            0 => in_first,
            _ => by_backup,
        };
        first_of([first, second], [in_first, in_second])
    }

    /// What a key meets in its buckets.
    #[inline(always)]
    #[must_use]
    pub fn met_by(&self, of: &Candidates) -> BucketMatch {
        if let Some((bucket, slot)) = self.first_in_arrays(of) {
            return BucketMatch::Match(self.slot(bucket, slot));
        }
        // As a path's roots: of equally roomy ones the first.
        let [first, second] = self.buckets_of(of);
        self.room_in([second, first])
            .map_or(BucketMatch::Full, BucketMatch::Free)
    }

    /// Whether the stash has a key with this hash.
    #[inline]
    #[must_use]
    pub fn has_stashed(&self, hash: u64) -> bool {
        let stashed = self.stash.of_hash(hash);
        stashed.is_some_and(|mut all| all.next().is_some())
    }

    /// The slots of a bucket that hold a key.
    pub fn live_in(&self, bucket: u64) -> impl Iterator<Item = SlotNumber> + use<'_> {
        let free = self.free_in(bucket);
        (0..self.shape.bucket_slots)
            .filter(move |slot| free >> slot & 1 == 0)
            .map(move |slot| self.slot(bucket, slot))
    }

    /// Whether a slot holds a key.
    #[must_use]
    pub fn is_live(&self, slot: SlotNumber) -> bool {
        match slot.in_stash() {
            Some(index) => self.stash.at(index).is_some(),
            None => self.parts.get(slot) != 0,
        }
    }

    /// The fingerprint of a slot of the arrays, 0 if it is free, and whether it is a backup one.
    #[must_use]
    pub fn fingerprint_at(&self, slot: SlotNumber) -> (u32, bool) {
        (self.parts.get(slot), self.is_backup(slot))
    }

    /// Gives a slot of the arrays a fingerprint, 0 to free it: for copies of an index, which do not
    /// count their keys.
    pub fn copy_fingerprint(&mut self, slot: SlotNumber, fingerprint: u32, backup: bool) {
        self.parts.set(slot, fingerprint, backup);
    }

    /// The hash of the key in a slot of the stash, if there is one; nothing of other slots.
    #[must_use]
    pub fn stashed_at(&self, slot: SlotNumber) -> Option<Option<u64>> {
        slot.in_stash().map(|index| self.stash.at(index))
    }

    /// The slots of the stash that hold keys, with the keys' hashes.
    pub fn stashed_keys(&self) -> impl Iterator<Item = (SlotNumber, u64)> + use<'_> {
        let slots = (self.stash.keys() > 0).then(|| self.stash.all());
        let slots = slots.into_iter().flatten();
        slots.filter_map(|(slot, hash)| hash.map(|hash| (slot, hash)))
    }

    /// A free slot of the roomiest of these buckets, of equally roomy ones the last.
    #[inline(always)]
    #[must_use]
    pub fn room_in(&self, buckets: impl IntoIterator<Item = u64>) -> Option<SlotNumber> {
        let (mut roomiest, mut free, mut most) = (0, 0, 0);
        for bucket in buckets {
            let slots = self.free_in(bucket);
            if slots.count_ones() >= most {
                (roomiest, free, most) = (bucket, slots, slots.count_ones());
            }
        }
        (free != 0).then(|| self.slot(roomiest, free.trailing_zeros()))
    }

    /// A free slot of the stash that is `usable`.
    pub fn stash_room(&self, usable: impl Fn(SlotNumber) -> bool) -> Option<SlotNumber> {
        let mut free = self.stash.all().filter(|(_, key)| key.is_none());
        free.find_map(|(slot, _)| usable(slot).then_some(slot))
    }

    /// How a key that is in none of its matches enters. `known` are the keys of the slots that
    /// match it, and if there are any, of all in its bucket of the first array.
    #[must_use]
    pub fn entry(&self, of: &Candidates, known: &[(SlotNumber, Candidates)]) -> Entry {
        let [first, second] = self.buckets_of(of);
        let backups = self.backups_in(first);
        let primary = self.equal(first, of.primary) & !backups;
        let by_backup = self.equal(first, of.backup) & backups;
        if by_backup == 0 && primary == 0 && self.equal(second, of.primary) == 0 {
            return Entry::Primary;
        }
        if !self.shape.backups || by_backup != 0 {
            return Entry::Stash;
        }
        // Of the bucket's keys that stand by primary fingerprints, none may take the backup
        // fingerprint for its own.
        let mut occupants = known
            .iter()
            .filter(|(slot, _)| self.bucket_of(*slot) == Some(first) && !self.is_backup(*slot));
        if occupants
            .clone()
            .all(|(_, other)| other.backup != of.backup)
        {
            return Entry::Backup;
        }
        let Some((twin_slot, twin)) = occupants.find(|(_, other)| other.primary == of.primary)
        else {
            return Entry::Stash;
        };
        let unlike_twin = |(slot, other): &&(SlotNumber, Candidates)| {
            slot == twin_slot || other.backup != twin.backup
        };
        let alone = self.equal(first, twin.backup) & backups == 0
            && of.backup != twin.backup
            && known
                .iter()
                .filter(|(slot, _)| self.bucket_of(*slot) == Some(first) && !self.is_backup(*slot))
                .all(|known| unlike_twin(&known));
        if alone {
            Entry::InsteadOf(*twin_slot, *twin)
        } else {
            Entry::Stash
        }
    }

    /// The buckets in which a key that enters so can be.
    #[must_use]
    pub fn roots(&self, of: &Candidates, entry: Entry) -> SmallVec<[u64; 2]> {
        let buckets = self.buckets_of(of);
        match entry {
            // Of the stash: for a primary fingerprint that is ambiguous, should the stash be full.
            Entry::Primary | Entry::Stash => buckets.into(),
            Entry::Backup | Entry::InsteadOf(..) => smallvec![buckets[0]],
        }
    }

    /// Notes that the records of a path's slots have moved on by one, and that a new key has
    /// entered in its first slot: not by [`Entry::Stash`].
    pub fn enter(&mut self, path: &Path, of: &Candidates, entry: Entry) {
        for pair in path.slots.windows(2).rev() {
            let moved = self.parts.get(pair[0]);
            self.parts.set(pair[1], moved, false);
        }
        if let Entry::InsteadOf(slot, twin) = entry {
            self.parts.set(slot, twin.backup, true);
        }
        match entry {
            Entry::Backup => self.parts.set(path.slots[0], of.backup, true),
            _ => self.parts.set(path.slots[0], of.primary, false),
        }
        self.live += 1;
    }

    /// Notes that a key that has no matches is in a slot of its buckets that was free.
    pub fn enter_at(&mut self, slot: SlotNumber, of: &Candidates) {
        self.parts.set(slot, of.primary, false);
        self.live += 1;
    }

    /// Notes that the key with this hash is in a slot that was free: as far as that is possible by
    /// an unambiguous fingerprint.
    pub fn assign(&mut self, slot: SlotNumber, hash: u64) {
        self.live += 1;
        if let Some(index) = slot.in_stash() {
            self.stash.put(index, hash);
            return;
        }
        let of = self.candidates(hash);
        let [first, second] = self.buckets_of(&of);
        let taken = self.equal(first, of.primary) & !self.backups_in(first) != 0
            || self.equal(second, of.primary) != 0;
        if taken && self.bucket_of(slot) == Some(first) {
            self.parts.set(slot, of.backup, true);
        } else {
            self.parts.set(slot, of.primary, false);
        }
    }

    /// As [`Placement::assign`], of a key that can be there and matches none of the slots that hold
    /// keys; false of any other, and then nothing has changed.
    #[inline]
    pub fn assign_new(&mut self, slot: SlotNumber, hash: u64) -> bool {
        let of = self.candidates(hash);
        let buckets = self.buckets_of(&of).map(Some);
        let is_new = buckets.contains(&self.bucket_of(slot))
            && !self.has_stashed(hash)
            && self.first_in_arrays(&of).is_none();
        if is_new {
            self.enter_at(slot, &of);
        }
        is_new
    }

    /// Notes that a slot is free, if it was not.
    pub fn vacate(&mut self, slot: SlotNumber) {
        if !self.is_live(slot) {
            return;
        }
        self.live = self.live.saturating_sub(1);
        if let Some(index) = slot.in_stash() {
            self.stash.take(index);
        } else {
            self.parts.set(slot, 0, false);
        }
    }

    /// A slot of a bucket, by its number there.
    #[inline]
    #[must_use]
    pub fn slot(&self, bucket: u64, slot: u32) -> SlotNumber {
        SlotNumber(bucket * u64::from(self.shape.bucket_slots) + u64::from(slot))
    }

    #[inline(always)]
    pub(super) fn equal(&self, bucket: u64, fingerprint: u32) -> u32 {
        self.parts.equal(bucket, fingerprint)
    }

    #[inline]
    pub(super) fn free_in(&self, bucket: u64) -> u32 {
        self.equal(bucket, 0)
    }

    #[inline(always)]
    pub(super) fn backups_in(&self, bucket: u64) -> u32 {
        self.parts.backups_in(bucket)
    }

    pub(super) fn is_backup(&self, slot: SlotNumber) -> bool {
        let slots = u64::from(self.shape.bucket_slots);
        self.backups_in(slot.0 / slots) >> (slot.0 % slots) & 1 != 0
    }

    /// The slots of a full bucket whose records can be moved.
    #[inline]
    pub(super) fn movable_in(&self, bucket: u64) -> u32 {
        let all = (1_u32 << self.shape.bucket_slots) - 1;
        all & !self.backups_in(bucket)
    }
}

/// The first of some slots of two buckets, of each a bit a slot: its bucket, and its number there.
/// Which of the two it is nobody can predict: so without a branch.
#[inline(always)]
pub(super) fn first_of(buckets: [u64; 2], [first, second]: [u32; 2]) -> Option<(u64, u32)> {
    let both = u64::from(first) | u64::from(second) << u32::BITS;
    let place = both.trailing_zeros();
    let bucket = buckets[(place / u32::BITS % 2) as usize];
    (place < 2 * u32::BITS).then_some((bucket, place % u32::BITS))
}

/// The slots that may be a key's. See [`Placement::matches`].
#[derive(Clone)]
pub struct Matches<'i> {
    index: &'i Placement,
    stashed: Option<Range<'i, (u64, SlotNumber)>>,
    buckets: [u64; 3],
    masks: [u32; 3],
}

impl Iterator for Matches<'_> {
    type Item = SlotNumber;

    #[inline]
    fn next(&mut self) -> Option<SlotNumber> {
        if let Some((_, slot)) = self.stashed.as_mut().and_then(Iterator::next) {
            return Some(*slot);
        }
        let masks = self.masks.iter_mut().zip(self.buckets);
        for (mask, bucket) in masks {
            if *mask != 0 {
                let slot = mask.trailing_zeros();
                *mask &= *mask - 1;
                return Some(self.index.slot(bucket, slot));
            }
        }
        None
    }

    /// Without a look at the places passed before each: most of them have no match.
    #[inline]
    fn fold<B, F: FnMut(B, SlotNumber) -> B>(self, init: B, mut f: F) -> B {
        let stashed = self.stashed.into_iter().flatten();
        let mut folded = stashed.fold(init, |folded, (_, slot)| f(folded, *slot));
        for (bucket, mut mask) in self.buckets.into_iter().zip(self.masks) {
            while mask != 0 {
                folded = f(folded, self.index.slot(bucket, mask.trailing_zeros()));
                mask &= mask - 1;
            }
        }
        folded
    }
}
