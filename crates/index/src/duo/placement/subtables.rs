//! Extendible hashing: which sub-table of an extendible table a key is in (paper 001, section III-D).
//!
//! A sub-table has m buckets in each array. Its buckets are numbered behind those of the sub-tables that were there
//! before it: sub-table s has the buckets sm to (s + 1)m of each array, its slots and its part of the stash
//! likewise. Within its sub-table, a key's buckets derive from its hash as they do in a table that is none.
//!
//! The sub-table itself is the directory's business: the low bits of another hash of the key, as many as the
//! directory's depth, the *global* one, choose an entry, and the entry names the sub-table. All keys of a sub-table have the
//! same low bits, as many as its own depth, the *local* one. So one that is full is split on its own: half of
//! its keys, by the next bit, are a new sub-table's from then on. Only where the local depth was the global one is
//! the directory doubled.
//!
//! Invariant: as that of [`growing`](super::growing), for each sub-table: until a bucket is split, the keys of either
//! side are in it. A sub-table takes part in one split at a time, as the one that is split or as the new one.
//!
//! The stash is split with the buckets of the first array: a key in it is in that of the sub-table that its bucket there is
//! in, and goes on to the slot of the same number when that bucket is split. Until then nobody else may take that slot: so
//! it is free.

use super::growing::{Growing, SplitBits, Stashed};
use super::hashes::mix;
use super::{Placement, SlotNumber};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// The largest depth of a directory, in bits: 64 MiB of local memory.
pub const MOST_DEPTH: u32 = 24;

/// A sub-table.
struct Subtable {
    /// How many low bits of their directory hash its keys have in common: the local depth.
    depth: u32,
    /// Those bits.
    bits: u32,
    /// Keys in its buckets and in its part of the stash.
    live: u64,
    /// Where half of its keys are going, if it is being split.
    split: Option<Split>,
    /// The sub-table that it is being split from.
    from: Option<u32>,
}

/// A split of a sub-table that is not over.
struct Split {
    into: u32,
    /// A bit for each bucket, numbered through both arrays.
    buckets: SplitBits,
}

/// All sub-tables, and the directory.
pub(super) struct Subtables {
    /// Buckets of each of both arrays of a sub-table.
    buckets: u64,
    /// The global depth.
    depth: u32,
    /// The sub-table of each value of that many bits.
    directory: Vec<u32>,
    all: Vec<Subtable>,
    /// Those that are being split.
    splitting: BTreeSet<u32>,
    /// Buckets of those that are not split.
    unsplit: u64,
}

impl Subtables {
    /// One sub-table, which has all keys.
    pub(super) fn new(buckets: u64) -> Self {
        Self {
            buckets,
            depth: 0,
            directory: vec![0],
            all: vec![Subtable {
                depth: 0,
                bits: 0,
                live: 0,
                split: None,
                from: None,
            }],
            splitting: BTreeSet::new(),
            unsplit: 0,
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.all.len() as u64
    }

    /// The global depth.
    pub(super) const fn depth(&self) -> u32 {
        self.depth
    }

    /// The local depth of one.
    pub(super) fn depth_of(&self, subtable: u64) -> u32 {
        self.all[subtable as usize].depth
    }

    /// Keys in one's buckets, and in its part of the stash.
    pub(super) fn live_in(&self, subtable: u64) -> u64 {
        self.all[subtable as usize].live
    }

    /// Buckets that are to be split and are not.
    pub(super) const fn unsplit(&self) -> u64 {
        self.unsplit
    }

    /// Bytes of memory, about.
    pub(super) fn bytes(&self) -> usize {
        self.directory.len() * 4 + self.all.len() * size_of::<Subtable>()
    }

    /// The sub-table of a key, once all splits are over.
    #[inline]
    pub(super) fn of(&self, hash: u64) -> u64 {
        let entry = mix(hash ^ 0x1656_67b1_9e37_79f9) & ((1 << self.depth) - 1);
        u64::from(self.directory[entry as usize])
    }

    /// The sub-table of a bucket, numbered through both arrays.
    #[inline]
    pub(super) const fn with(&self, bucket: u64) -> u64 {
        bucket / (2 * self.buckets)
    }

    /// The first bucket of a sub-table, numbered through both arrays.
    #[inline]
    pub(super) const fn first_bucket(&self, subtable: u64) -> u64 {
        2 * self.buckets * subtable
    }

    /// Notes keys that came to a sub-table, or that went.
    pub(super) fn count_keys(&mut self, subtable: u64, change: i64) {
        let live = &mut self.all[subtable as usize].live;
        *live = live.saturating_add_signed(change);
    }

    /// The sub-table that is being split, of the split that this one takes part in, and the new one.
    pub(super) fn split_with(&self, subtable: u64) -> Option<(u64, u64)> {
        let from = self.all[subtable as usize].from.map_or(subtable, u64::from);
        let split = self.all[from as usize].split.as_ref()?;
        Some((from, u64::from(split.into)))
    }

    /// The part of a bucket in the split that its sub-table takes part in.
    #[inline]
    pub(super) fn growth_of(&self, bucket: u64) -> Option<Growing<'_>> {
        if self.splitting.is_empty() {
            return None;
        }
        let subtable = self.with(bucket);
        let (from, into) = self.split_with(subtable)?;
        let split = self.all[from as usize].split.as_ref()?;
        let bit = bucket - self.first_bucket(subtable);
        let origin = self.first_bucket(from) + bit;
        Some(Growing {
            origin,
            newest: self.first_bucket(into) + bit,
            apart: self.first_bucket(into - from),
            bit,
            split: &split.buckets,
        })
    }

    /// The buckets that are not split, from one on.
    pub(super) fn unsplit_from(&self, bucket: u64) -> impl Iterator<Item = u64> + '_ {
        let from = self.with(bucket) as u32;
        self.splitting.range(from..).flat_map(move |subtable| {
            let first = self.first_bucket(u64::from(*subtable));
            let split = self.all[*subtable as usize].split.iter();
            let from = bucket.saturating_sub(first);
            split.flat_map(move |split| split.buckets.unset_from(from).map(move |bit| first + bit))
        })
    }

    /// Whether one can be split now, as it takes part in no split and is not as deep as can be.
    pub(super) fn can_be_split(&self, subtable: u64) -> bool {
        self.split_with(subtable).is_none() && self.depth_of(subtable) < MOST_DEPTH
    }

    /// Begins a split, of one that can be split: half of its keys are those of a new one, which is the last.
    pub(super) fn split(&mut self, subtable: u64) {
        assert!(self.can_be_split(subtable), "one split at a time");
        let into = self.all.len() as u32;
        let origins = 2 * self.buckets;
        let old = &mut self.all[subtable as usize];
        let bits = old.bits | 1 << old.depth;
        old.depth += 1;
        old.split = Some(Split {
            into,
            buckets: SplitBits::new(origins),
        });
        let depth = old.depth;
        self.all.push(Subtable {
            depth,
            bits,
            live: 0,
            split: None,
            from: Some(subtable as u32),
        });
        if depth > self.depth {
            self.directory.extend_from_within(..);
            self.depth = depth;
        }
        let entries = self.directory.iter_mut().skip(bits as usize);
        entries.step_by(1 << depth).for_each(|entry| *entry = into);
        self.splitting.insert(subtable as u32);
        self.unsplit += origins;
    }

    /// Notes that all buckets are split of the split that a sub-table takes part in.
    fn finish(&mut self, subtable: u64) {
        let Some((from, into)) = self.split_with(subtable) else {
            return;
        };
        let split = self.all[from as usize].split.take();
        self.unsplit -= split.map_or(0, |split| split.buckets.left());
        self.all[into as usize].from = None;
        self.splitting.remove(&(from as u32));
    }

    /// Notes that a bucket is split.
    pub(super) fn note_split(&mut self, origin: u64) {
        let (subtable, bit) = (self.with(origin), origin % (2 * self.buckets));
        let old = &mut self.all[subtable as usize];
        let Some(split) = &mut old.split else { return };
        if split.buckets.set(bit) {
            self.unsplit -= 1;
        }
        if split.buckets.left() == 0 {
            self.finish(subtable);
        }
    }
}

impl Placement {
    /// How many sub-tables there are: 1 of an index that is not extendible.
    #[must_use]
    pub fn subtables(&self) -> u64 {
        self.subtables.as_ref().map_or(1, Subtables::count)
    }

    /// The depth of the directory, the paper's GD: 0 of an index that is not extendible.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.subtables.as_ref().map_or(0, Subtables::depth)
    }

    /// The depth of a sub-table, the paper's LD.
    #[must_use]
    pub fn depth_of(&self, subtable: u64) -> u32 {
        let subtables = self.subtables.as_ref();
        subtables.map_or(0, |subtables| subtables.depth_of(subtable))
    }

    /// Whether there is a sub-table of this number that can be split now: it takes part in no split, and is less deep
    /// than a directory can be.
    #[must_use]
    pub fn can_be_split(&self, subtable: u64) -> bool {
        let subtables = self.subtables.as_ref();
        subtables.is_some_and(|all| subtable < all.count() && all.can_be_split(subtable))
    }

    /// The fullest one of the sub-tables that can be split now; of equally full ones the one whose keys are the least alike.
    #[must_use]
    pub fn fullest(&self) -> Option<u64> {
        let all = self.subtables.as_ref()?;
        let can_be_split = (0..all.count()).filter(|subtable| all.can_be_split(*subtable));
        let depth = |subtable| Reverse(all.depth_of(subtable));
        can_be_split.max_by_key(|subtable| (all.live_in(*subtable), depth(*subtable)))
    }

    /// Begins the split of a sub-table: no key is anywhere else yet, and no bucket is split.
    ///
    /// # Panics
    /// If it [cannot be split](Placement::can_be_split).
    pub fn split_subtable(&mut self, subtable: u64) {
        let subtables = self.subtables.as_mut().expect("the index is extendible");
        let buckets = self.shape.buckets / subtables.count();
        subtables.split(subtable);
        self.parts.add(buckets);
        self.stash.add(self.shape.stash);
        self.shape.buckets += buckets;
    }

    /// Notes that the split is over that a sub-table takes part in, if there is one: as far as buckets were not known to be
    /// split, they hold no keys.
    pub fn finish_split(&mut self, subtable: u64) {
        let subtables = self.subtables.as_mut();
        if let Some(subtables) = subtables.filter(|all| subtable < all.count()) {
            subtables.finish(subtable);
        }
    }

    /// The split that a sub-table takes part in: the one that is split, and the new one.
    #[must_use]
    pub fn split_with(&self, subtable: u64) -> Option<(u64, u64)> {
        self.subtables.as_ref()?.split_with(subtable)
    }

    /// The keys of the stash that go to the new sub-table's when this bucket is split.
    #[must_use]
    pub fn stash_of_split(&self, origin: u64) -> Vec<Stashed> {
        let Some(subtables) = self.subtables.as_ref().filter(|_| self.stash.keys() > 0) else {
            return Vec::new();
        };
        let of_origin = |hash| self.buckets_of(&self.candidates(hash))[0] == origin;
        let leaving = self.leaving_stash(subtables, subtables.with(origin));
        leaving.filter(|key| of_origin(key.hash)).collect()
    }

    /// The keys of a sub-table's stash that go to the new sub-table's, if it is being split.
    fn leaving_stash<'i>(
        &'i self,
        subtables: &'i Subtables,
        subtable: u64,
    ) -> impl Iterator<Item = Stashed> + use<'i> {
        let slots = u64::from(self.shape.stash);
        let split = subtables.split_with(subtable);
        let split = split.filter(|(from, _)| *from == subtable).into_iter();
        split.flat_map(move |(from, into)| {
            let part = self.stash.part(from * slots, (from + 1) * slots);
            let keys = part.filter_map(|(slot, hash)| Some((slot, hash?)));
            let leaving = keys.filter(move |(_, hash)| subtables.of(*hash) == into);
            leaving.map(move |(slot, hash)| Stashed {
                from: slot,
                to: SlotNumber(slot.0 + (into - from) * slots),
                hash,
            })
        })
    }

    /// The slots of a sub-table's stash that keys of the one that it is split from will have, which are still there.
    pub(super) fn stash_to_come(&self, bucket: u64) -> Vec<SlotNumber> {
        let Some(subtables) = self.subtables.as_ref().filter(|_| self.stash.keys() > 0) else {
            return Vec::new();
        };
        let subtable = subtables.with(bucket);
        match subtables.split_with(subtable) {
            Some((from, into)) if into == subtable => {
                let leaving = self.leaving_stash(subtables, from);
                leaving.map(|key| key.to).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The slot of the stash whose key comes to this one by the split that its sub-table is made by, if that is not over.
    #[must_use]
    pub fn stash_before_split(&self, slot: SlotNumber) -> Option<SlotNumber> {
        let slots = u64::from(self.shape.stash);
        let subtable = slot.in_stash()?.checked_div(slots)?;
        let (from, into) = self.split_with(subtable)?;
        (subtable == into).then(|| SlotNumber(slot.0 - (into - from) * slots))
    }

    /// The first bucket of a sub-table, numbered through both arrays.
    #[must_use]
    pub fn first_bucket(&self, subtable: u64) -> u64 {
        let subtables = self.subtables.as_ref();
        subtables.map_or(0, |subtables| subtables.first_bucket(subtable))
    }

    /// The splits that are not over: each sub-table that is split, and the new one.
    pub fn splits(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let subtables = self.subtables.iter();
        subtables.flat_map(|subtables| {
            let splitting = subtables.splitting.iter();
            splitting.filter_map(|from| subtables.split_with(u64::from(*from)))
        })
    }
}
