//! Growth by a whole ratio r, bucket by bucket (paper 001, section III-D).
//!
//! With r times the buckets m, a key's bucket in either array is one of b, b + m, ..., b + (r-1)m, where b
//! was its bucket before: for the first array this is plain, and for the second because the sum of the first
//! bucket and the fingerprint's step is, modulo rm, congruent to what it was modulo m. So a bucket is
//! *split* on its own: each of its keys goes on to that of the r buckets that is its own, in the same slot
//! of it, and no other bucket has anything to do with that.
//!
//! Invariant: the key of a bucket that is not split is in the bucket that it had before, in that array; the r-1
//! others are not in use. So every key has one bucket in each array at every moment.
//!
//! Which of the r is a key's own, a fingerprint does not say: the key's hash does. So a record in a bucket that
//! is not split cannot be moved by its fingerprint to one that is.
//!
//! A sub-table of an extendible index ([`subtables`](super::subtables)) is split by the same rules: each of its buckets into
//! itself and the bucket of the same number in the new sub-table, of which a bit of the key's hash says which is its own.

use super::{Candidates, Placement, SlotNumber};

/// A key of the stash of a sub-table that goes to the new one's when its bucket is split.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stashed {
    /// Its slot.
    pub from: SlotNumber,
    /// The slot of the same number of the new sub-table's stash.
    pub to: SlotNumber,
    /// Its hash.
    pub hash: u64,
}

/// Buckets, of which one after the other is split.
pub(super) struct SplitBits {
    /// A bit for each: whether it is split.
    words: Vec<u64>,
    buckets: u64,
    left: u64,
    /// Words at the front that have no bucket left.
    done: usize,
}

impl SplitBits {
    /// So many, none of them split.
    pub(super) fn new(buckets: u64) -> Self {
        Self {
            words: vec![0; buckets.div_ceil(64) as usize],
            buckets,
            left: buckets,
            done: 0,
        }
    }

    /// Bytes of memory.
    fn bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    /// Buckets that are not split.
    pub(super) const fn left(&self) -> u64 {
        self.left
    }

    #[inline]
    fn is_set(&self, bucket: u64) -> bool {
        self.words[(bucket / 64) as usize] >> (bucket % 64) & 1 != 0
    }

    /// Notes that a bucket is split; whether it was not.
    pub(super) fn set(&mut self, bucket: u64) -> bool {
        if self.is_set(bucket) {
            return false;
        }
        self.words[(bucket / 64) as usize] |= 1 << (bucket % 64);
        self.left -= 1;
        while self.words.get(self.done) == Some(&u64::MAX) {
            self.done += 1;
        }
        true
    }

    /// The buckets that are not split, from one on.
    pub(super) fn unset_from(&self, from: u64) -> impl Iterator<Item = u64> + '_ {
        let mut next = from.max(64 * self.done as u64);
        std::iter::from_fn(move || {
            while next < self.buckets {
                let left = !self.words[(next / 64) as usize] >> (next % 64);
                next += u64::from(left.trailing_zeros()).min(64 - next % 64);
                if left != 0 && next < self.buckets {
                    next += 1;
                    return Some(next - 1);
                }
            }
            None
        })
    }
}

/// A growth of the whole table that is not over.
pub(super) struct Whole {
    /// Buckets of an array before it.
    before: u64,
    /// Those of both arrays.
    buckets: SplitBits,
}

impl Whole {
    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.buckets.bytes()
    }
}

/// What a growth that is not over is to a bucket.
#[derive(Clone, Copy)]
pub(super) struct Growing<'i> {
    /// The bucket that this one comes from.
    pub(super) origin: u64,
    /// The last one of those that that is split into.
    pub(super) newest: u64,
    /// From one of those to the next.
    pub(super) apart: u64,
    /// The origin's bit.
    pub(super) bit: u64,
    pub(super) split: &'i SplitBits,
}

impl Growing<'_> {
    #[inline]
    fn is_split(&self) -> bool {
        self.split.is_set(self.bit)
    }
}

/// What grows as one: the whole table, or a sub-table of an extendible one. While one sub-table is being split from
/// another, these are as one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Growable {
    /// Its number: 0 of a whole table, that of a key's sub-table.
    pub number: u64,
    /// Keys in it, those in its stash included.
    pub live: u64,
    /// Its slots.
    pub slots: u64,
    /// The first bucket of it that a growth has left to be split, if there is one.
    pub unsplit: Option<u64>,
}

impl Placement {
    /// Grows by a ratio of 2 or more: no key is anywhere else yet, and no bucket is split.
    ///
    /// # Panics
    /// While a growth is not over, and if the table is extendible.
    pub fn grow(&mut self, ratio: u64) {
        assert!(self.growing.is_none(), "one growth at a time");
        assert!(self.subtables.is_none(), "sub-tables are split");
        let before = self.shape.buckets;
        self.parts.add(before * (ratio - 1));
        self.shape.buckets *= ratio;
        self.hashes.buckets = self.shape.buckets;
        self.growing = Some(Whole {
            before,
            buckets: SplitBits::new(2 * before),
        });
    }

    /// How many buckets of growths that are not over are not split: 0 if there is none.
    #[must_use]
    pub fn unsplit(&self) -> u64 {
        let whole = self.growing.iter().map(|whole| whole.buckets.left());
        let subtables = self.subtables.iter().map(|subtables| subtables.unsplit());
        whole.chain(subtables).sum()
    }

    /// The buckets that are not split, numbered through both arrays, from one on.
    pub fn unsplit_from(&self, bucket: u64) -> impl Iterator<Item = u64> + '_ {
        let whole = self.growing.iter();
        let whole = whole.flat_map(move |whole| whole.buckets.unset_from(bucket));
        let subtables = self.subtables.iter();
        whole.chain(subtables.flat_map(move |subtables| subtables.unsplit_from(bucket)))
    }

    /// As [`Placement::unsplit_from`], of the growth that this bucket takes part in.
    pub fn unsplit_beside(&self, bucket: u64) -> impl Iterator<Item = u64> + '_ {
        let end = match &self.subtables {
            None => 2 * self.shape.buckets,
            Some(subtables) => subtables.first_bucket(subtables.with(bucket) + 1),
        };
        let unsplit = self.unsplit_from(bucket);
        unsplit.take_while(move |unsplit| *unsplit < end)
    }

    /// What grows as one, with the buckets of a key with this hash.
    #[must_use]
    pub fn growable(&self, hash: u64) -> Growable {
        let Some(subtables) = &self.subtables else {
            return Growable {
                number: 0,
                live: self.live,
                slots: self.shape.slots(),
                unsplit: self.unsplit_from(0).next(),
            };
        };
        let number = subtables.of(hash);
        let slots = self.shape.slots() / subtables.count();
        match subtables.split_with(number) {
            None => Growable {
                number,
                live: subtables.live_in(number),
                slots,
                unsplit: None,
            },
            Some((from, into)) => Growable {
                number,
                live: subtables.live_in(from) + subtables.live_in(into),
                slots: 2 * slots,
                unsplit: self.unsplit_from(subtables.first_bucket(from)).next(),
            },
        }
    }

    /// What a growth that is not over is to this bucket.
    #[inline]
    fn growth_of(&self, bucket: u64) -> Option<Growing<'_>> {
        if let Some(subtables) = &self.subtables {
            return subtables.growth_of(bucket);
        }
        let whole = self.growing.as_ref()?;
        let origin = 2 * (bucket / 2 % whole.before) + bucket % 2;
        Some(Growing {
            origin,
            newest: origin + 2 * (self.shape.buckets - whole.before),
            apart: 2 * whole.before,
            bit: origin,
            split: &whole.buckets,
        })
    }

    /// The bucket that has to be split for this one, if it was not.
    #[inline]
    #[must_use]
    pub fn to_split(&self, bucket: u64) -> Option<u64> {
        let growing = self.growth_of(bucket)?;
        (!growing.is_split()).then_some(growing.origin)
    }

    /// Where keys of this bucket are now, numbered through both arrays.
    #[inline]
    fn now(&self, bucket: u64) -> u64 {
        self.to_split(bucket).unwrap_or(bucket)
    }

    /// Whether a bucket has keys of its own: not if it is one of those that another has to be split for.
    #[inline]
    #[must_use]
    pub fn is_in_use(&self, bucket: u64) -> bool {
        self.to_split(bucket).is_none_or(|origin| origin == bucket)
    }

    /// The buckets that a bucket is split into, itself the first.
    pub fn siblings(&self, bucket: u64) -> impl Iterator<Item = u64> + use<> {
        let (newest, apart) = match self.growth_of(bucket) {
            Some(growing) => (growing.newest, growing.apart),
            None => (bucket, 1),
        };
        (bucket..=newest).step_by(apart as usize)
    }

    /// Where it is kept in the vault that a bucket is split: in the extent of the last one of those that it is split
    /// into, and as which bit of that extent's.
    #[must_use]
    pub fn split_bit(&self, origin: u64) -> Option<(u64, u64)> {
        let growing = self.growth_of(origin)?;
        Some((growing.newest, growing.bit))
    }

    /// Whether a key with this hash can be in this slot as things stand. What is in a slot and cannot be there was
    /// left behind when its bucket was split, and is nobody's: it could not be there at any later moment either,
    /// for a bucket's keys after a growth are some of those before. In the stash of a sub-table are keys whose bucket of the
    /// first array is in that sub-table.
    #[must_use]
    pub fn belongs(&self, slot: SlotNumber, hash: u64) -> bool {
        let buckets = || self.buckets_of(&self.candidates(hash));
        match (slot.in_stash(), &self.subtables) {
            (None, _) => {
                let bucket = slot.0 / u64::from(self.shape.bucket_slots);
                buckets().contains(&bucket)
            }
            (Some(_), None) => true,
            (Some(index), Some(subtables)) => {
                let of_slot = index.checked_div(u64::from(self.shape.stash));
                of_slot == Some(subtables.with(buckets()[0]))
            }
        }
    }

    /// The slot of a key of a bucket that is to be split, once it is.
    #[must_use]
    pub fn slot_after_split(&self, slot: SlotNumber, hash: u64) -> SlotNumber {
        let slots = u64::from(self.shape.bucket_slots);
        let [first, second] = self.buckets_of(&self.candidates_after(hash));
        let bucket = [first, second][(slot.0 / slots % 2) as usize];
        SlotNumber(bucket * slots + slot.0 % slots)
    }

    /// Notes that a bucket is split, whose slots hold no keys.
    pub fn note_split(&mut self, origin: u64) {
        if let Some(subtables) = &mut self.subtables {
            subtables.note_split(origin);
        }
        if let Some(whole) = &mut self.growing {
            whole.buckets.set(origin);
            if whole.buckets.left() == 0 {
                self.growing = None;
            }
        }
    }

    /// Notes that all buckets are split, whose slots hold no keys.
    pub fn note_all_split(&mut self) {
        self.growing = None;
    }

    /// Splits a bucket whose keys have these hashes: each goes on in [`Placement::slot_after_split`]. Keys of the stash go on
    /// with it, as [`Placement::stash_of_split`] says.
    pub fn split(&mut self, origin: u64, keys: &[(SlotNumber, u64)]) {
        for stashed in self.stash_of_split(origin) {
            self.vacate(stashed.from);
            self.assign(stashed.to, stashed.hash);
        }
        for (slot, hash) in keys {
            let after = self.slot_after_split(*slot, *hash);
            if after != *slot {
                let backup = self.is_backup(*slot);
                self.parts.set(after, self.parts.get(*slot), backup);
                self.parts.set(*slot, 0, false);
                self.count(*slot, -1);
                self.count(after, 1);
            }
        }
        self.note_split(origin);
    }

    /// Where a key with this hash may be, whichever buckets are split.
    #[inline]
    pub(super) fn candidates_now(&self, hash: u64) -> Candidates {
        let mut of = self.candidates_after(hash);
        if self.unsplit() > 0 {
            let [first, second] = self.buckets_of(&of);
            of.first = self.now(first) / 2;
            of.second = self.now(second) / 2;
        }
        of
    }

    /// Where a key with this hash may be when all buckets are split.
    #[inline]
    fn candidates_after(&self, hash: u64) -> Candidates {
        let mut of = self.hashes.of(hash);
        if let Some(subtables) = &self.subtables {
            let first = subtables.first_bucket(subtables.of(hash)) / 2;
            of.first += first;
            of.second += first;
        }
        of
    }

    /// Where the record of a slot with a primary fingerprint could go, if the fingerprint tells.
    #[inline]
    pub(super) fn other_bucket(&self, slot: SlotNumber) -> Option<u64> {
        let primary = self.parts.get(slot);
        let bucket = slot.0 / u64::from(self.shape.bucket_slots);
        let is_split = self.to_split(bucket).is_none();
        let mut hashes = self.hashes;
        if let Some(whole) = &self.growing
            && !is_split
        {
            hashes.buckets = whole.before;
        }
        let subtables = self.subtables.as_ref();
        let before = subtables.map_or(0, |all| all.first_bucket(all.with(bucket)));
        let (pair, of_first) = ((bucket - before) / 2, bucket & 1 == 0);
        let other = if of_first {
            before + 2 * hashes.second_of(pair, primary) + 1
        } else {
            before + 2 * hashes.first_of(pair, primary)
        };
        // Of a bucket as it was before, only one that is not split either is known.
        match self.to_split(other) {
            Some(origin) => Some(origin),
            None => is_split.then_some(other),
        }
    }
}
