//! The owner's hold on a table's words: header, chains, slots, stamps.

use super::layout::{FREE, KEYS, LOCK, Meta, NEWEST, Shape, USED, check_of, stamp_of};
use crate::error::RefusalReason;
use farslot_fabric::OwnerMemory;
use farslot_rpc::Fault;
use smallvec::SmallVec;

/// A table as its owner has it.
pub(super) struct Owner<'m> {
    pub(super) shape: &'m Shape,
    pub(super) memory: &'m mut dyn OwnerMemory,
}

/// A slot's words; those of short keys and values are not on the heap.
pub(super) type Words = SmallVec<[u64; 16]>;

/// Where a slot is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SlotLocation {
    pub(super) slot: u64,
    /// Of a slot in a chain: its entry, and the word that names it.
    pub(super) link: Option<(u32, u64)>,
}

impl Owner<'_> {
    pub(super) fn header(&self, field: u64) -> Result<u64, Fault> {
        Ok(self.memory.load(self.shape.header(field))?)
    }

    pub(super) fn set_header(&mut self, field: u64, value: u64) -> Result<(), Fault> {
        Ok(self.memory.store(self.shape.header(field), value)?)
    }

    pub(super) fn add_keys(&mut self, change: i64) -> Result<(), Fault> {
        let keys = self.header(KEYS)?;
        self.set_header(KEYS, keys.wrapping_add_signed(change))
    }

    /// A version that no slot has had before.
    pub(super) fn next_version(&mut self) -> Result<u64, Fault> {
        let version = self.header(NEWEST)?.wrapping_add(1);
        self.set_header(NEWEST, version)?;
        Ok(version)
    }

    pub(super) fn meta(&self, bucket: u64) -> Result<Meta, Fault> {
        Ok(Meta::of_word(self.memory.load(bucket + 8)?))
    }

    pub(super) fn words(&self, slot: u64) -> Result<Words, Fault> {
        let mut words = Words::from_elem(0, self.shape.slot_words());
        self.memory.copy_out(slot, &mut words)?;
        Ok(words)
    }

    /// Stores a slot's words, its check last: from then on it is the key's.
    pub(super) fn put_slot(&mut self, slot: u64, words: &[u64]) -> Result<(), Fault> {
        self.memory.copy_in(slot + 8, &words[1..])?;
        Ok(self.memory.store(slot, check_of(slot, words))?)
    }

    /// Sets the lock of a key's slot, which is part of what its check is over.
    pub(super) fn set_lock(
        &mut self,
        spot: SlotLocation,
        bucket: u64,
        lock: u64,
    ) -> Result<(), Fault> {
        let mut words = self.words(spot.slot)?;
        words[1] = lock;
        self.memory.store(spot.slot + LOCK, lock)?;
        self.memory.store(spot.slot, check_of(spot.slot, &words))?;
        match spot.link {
            None => self.stamp(bucket),
            Some(_) => Ok(()),
        }
    }

    /// Counts a removed key in its bucket.
    pub(super) fn add_removal(&mut self, bucket: u64) -> Result<(), Fault> {
        let meta = self.meta(bucket)?;
        let removals = meta.removals.wrapping_add(1);
        let meta = Meta { removals, ..meta };
        Ok(self.memory.store(bucket + 8, meta.word())?)
    }

    pub(super) fn clear_slot(&mut self, slot: u64) -> Result<(), Fault> {
        self.memory.store(slot, 0)?;
        Ok(self.memory.store(slot + LOCK, 0)?)
    }

    /// Makes the bucket's stamp that of its content: what ends every change to it.
    pub(super) fn stamp(&mut self, bucket: u64) -> Result<(), Fault> {
        let meta = self.memory.load(bucket + 8)?;
        let mut checks = Words::new();
        for slot in 0..self.shape.slots {
            checks.push(self.memory.load(self.shape.slot_at(bucket, slot))?);
        }
        let stamp = stamp_of(bucket, meta, checks.into_iter());
        Ok(self.memory.store(bucket, stamp)?)
    }

    pub(super) fn entry_at(&self, entry: u32) -> Result<u64, Fault> {
        self.shape.entry_at(entry).ok_or(Fault::Damaged)
    }

    /// The entry that a word names: the second of a bucket, or the first of an entry.
    pub(super) fn named_by(&self, link: u64) -> Result<u32, Fault> {
        Ok(Meta::of_word(self.memory.load(link)?).first)
    }

    /// Has a word name another entry.
    pub(super) fn name(&mut self, link: u64, entry: u32) -> Result<(), Fault> {
        let meta = Meta::of_word(self.memory.load(link)?);
        let first = entry;
        let named = Meta { first, ..meta };
        Ok(self.memory.store(link, named.word())?)
    }

    /// Takes an entry out of its chain.
    pub(super) fn unlink(&mut self, entry: u32, link: u64) -> Result<(), Fault> {
        let next = self.named_by(self.entry_at(entry)?)?;
        self.name(link, next)
    }

    /// Puts an entry first in a bucket's chain.
    pub(super) fn chain(&mut self, bucket: u64, entry: u32) -> Result<(), Fault> {
        let first = self.named_by(bucket + 8)?;
        self.name(self.entry_at(entry)?, first)?;
        self.name(bucket + 8, entry)
    }

    /// Gives an entry back that is in no chain.
    pub(super) fn free(&mut self, entry: u32) -> Result<(), Fault> {
        let at = self.entry_at(entry)?;
        self.clear_slot(at + 8)?;
        let first = self.header(FREE)?;
        self.memory.store(at, first)?;
        self.set_header(FREE, entry.into())
    }

    /// An entry that is in no chain.
    pub(super) fn take_entry(&mut self) -> Result<u32, Fault> {
        let free = self.header(FREE)? as u32;
        if free != 0 {
            let next = self.named_by(self.entry_at(free)?)?;
            self.set_header(FREE, next.into())?;
            return Ok(free);
        }
        let used = self.header(USED)?;
        if used >= self.shape.overflow.into() {
            return Err(RefusalReason::Full.into());
        }
        self.set_header(USED, used + 1)?;
        Ok(used as u32 + 1)
    }

    /// Copies a slot's words and lock to another place, and clears it.
    pub(super) fn move_slot(&mut self, from: u64, to: u64) -> Result<(), Fault> {
        let words = self.words(from)?;
        self.put_slot(to, &words)?;
        self.clear_slot(from)
    }
}
