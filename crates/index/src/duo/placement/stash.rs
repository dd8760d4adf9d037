//! Which keys are in the stash: by their slots, and by their hashes.

use crate::duo::bytes::SlotNumber;
use std::collections::BTreeSet;
use std::collections::btree_set::Range;

/// The hash of the key in each slot of the stash.
pub(super) struct StashHashes {
    slots: Vec<Option<u64>>,
    /// The hashes that there are, each with its slot.
    by_hash: BTreeSet<(u64, SlotNumber)>,
}

impl StashHashes {
    /// So many slots, all free.
    pub(super) fn new(slots: u32) -> Self {
        Self {
            slots: vec![None; slots as usize],
            by_hash: BTreeSet::new(),
        }
    }

    /// Keys in it.
    pub(super) fn keys(&self) -> usize {
        self.by_hash.len()
    }

    /// Bytes of memory, about.
    pub(super) fn bytes(&self) -> usize {
        (self.slots.len() + self.by_hash.len()) * 16
    }

    /// The hash of the key in a slot, counted from the first of the stash.
    pub(super) fn at(&self, index: u64) -> Option<u64> {
        self.slots[index as usize]
    }

    pub(super) fn put(&mut self, index: u64, hash: u64) {
        self.take(index);
        self.slots[index as usize] = Some(hash);
        self.by_hash.insert((hash, number(index)));
    }

    /// Frees a slot.
    pub(super) fn take(&mut self, index: u64) {
        if let Some(hash) = self.slots[index as usize].take() {
            self.by_hash.remove(&(hash, number(index)));
        }
    }

    /// The slots of keys with this hash; nothing if the stash is empty, which it nearly always is.
    #[inline]
    pub(super) fn of_hash(&self, hash: u64) -> Option<Range<'_, (u64, SlotNumber)>> {
        if self.by_hash.is_empty() {
            return None;
        }
        let all = (hash, SlotNumber(0))..=(hash, SlotNumber(u64::MAX));
        Some(self.by_hash.range(all))
    }

    /// All slots, with what is in them.
    pub(super) fn all(&self) -> impl Iterator<Item = (SlotNumber, Option<u64>)> + use<'_> {
        (0..).map(number).zip(self.slots.iter().copied())
    }
}

const fn number(index: u64) -> SlotNumber {
    SlotNumber(SlotNumber::STASH.0 + index)
}
