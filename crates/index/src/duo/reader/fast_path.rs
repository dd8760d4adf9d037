//! The usual steps of lookups by the copy, made ready for many keys, where keys and values are
//! words: the first slot that the copy has for the key.
//!
//! A record that is found whole there is the answer. Whatever else is there, the key is looked up
//! in steps.

use super::client::DuoReader;
use super::copy::IndexCopy;
use crate::duo::words::{SLOT, WORD, WordKey, WordSlot, WordSlots};
use crate::step::{FastPath, FastPathResult};
use farslot_fabric::{Endpoint, InPlace, Steps};
use std::cell::Ref;

/// Lookups of a reader.
pub(super) struct ReaderFastPath<'t> {
    copy: Ref<'t, IndexCopy>,
    slots: WordSlots<'t>,
}

impl<'t> ReaderFastPath<'t> {
    /// That of a table whose lookups can do with it.
    pub(super) fn of<E: Endpoint>(reader: &'t DuoReader<E>, view: &InPlace<'_>) -> Option<Self> {
        let copy = reader.copy.borrow();
        let slots = WordSlots::of(&reader.layout, &copy.vault, view)?;
        Some(Self { copy, slots })
    }
}

impl FastPath<&[u8]> for ReaderFastPath<'_> {
    type Prepared = WordKey;
    type Place = WordSlot;

    #[inline(always)]
    fn prepare(&self, key: &[u8], _: &InPlace<'_>) -> WordKey {
        self.slots
            .hashed(key, |hash| self.copy.prefetch_first(hash))
    }

    #[inline(always)]
    fn place(&self, key: &[u8], hashed: WordKey, view: &InPlace<'_>) -> Option<WordSlot> {
        let WordKey { hash, of } = hashed;
        let place = self.copy.first_match(hash, &of)?;
        self.slots.slot((key, hash), place, &self.copy.vault, view)
    }

    #[inline(always)]
    fn fetch(&self, slot: &WordSlot, view: &InPlace<'_>) {
        slot.fetch(view);
    }

    #[inline(always)]
    fn look(&self, slot: &WordSlot, view: &InPlace<'_>) -> FastPathResult {
        match self.slots.value_in(slot, view) {
            Some(value) => FastPathResult::Found(value, 0),
            None => FastPathResult::Undecided,
        }
    }

    #[inline]
    fn usual(&self) -> Steps {
        Steps::begun(1, SLOT as u64)
    }

    #[inline]
    fn value_len(&self) -> usize {
        WORD
    }
}
