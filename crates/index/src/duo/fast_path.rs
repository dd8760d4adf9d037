//! The usual steps of the owner's lookups, made ready for many keys, where keys and values are
//! words: the first slot that the index has for the key, or that it has none.
//!
//! The index stays as it is while this looks. A record that is found whole in the slot is the
//! answer, as it is in steps (`lookup.rs`), and so is that the index names no slot; whatever else
//! is there, the key is looked up in steps.

use super::placement::Placement;
use super::state::DuoTable;
use super::words::{SLOT, WORD, WordKey, WordSlot, WordSlots};
use crate::step::{FastPath, FastPathResult};
use farslot_fabric::{Endpoint, InPlace, Steps};
use std::sync::RwLockReadGuard;
use std::sync::atomic::{Ordering, fence};

/// Lookups of the owner.
pub(super) struct OwnerFastPath<'t, E> {
    table: &'t DuoTable<E>,
    index: RwLockReadGuard<'t, Placement>,
    slots: WordSlots<'t>,
}

/// Where the word of a key may be.
#[derive(Clone, Copy)]
pub(super) enum WordPlace {
    Slot(WordSlot),
    /// In none, and the key has this hash.
    Nowhere(u64),
}

impl<'t, E: Endpoint> OwnerFastPath<'t, E> {
    /// That of a table whose lookups can do with it, while its index is that of the vault.
    pub(super) fn of(table: &'t DuoTable<E>, view: &InPlace<'_>) -> Option<Self> {
        let slots = WordSlots::of(&table.layout, &table.vault, view)?;
        let index = table.index.borrow();
        // While nobody changes the index: else this could be one that is made anew.
        table.is_settled().then_some(Self {
            table,
            index,
            slots,
        })
    }

    /// Whether what was found of a key may be news that others could not have had, as someone
    /// writes in one of its buckets, or has left a write in doubt.
    #[inline(always)]
    fn may_be_new(&self, hash: u64) -> bool {
        self.table.has_others() && !self.is_quiet(hash)
    }

    #[inline(never)]
    fn is_quiet(&self, hash: u64) -> bool {
        // What others do they tell after they have written.
        fence(Ordering::Acquire);
        let buckets = self.index.buckets_of(&self.index.candidates(hash));
        self.table.is_quiet(buckets)
    }
}

impl<E: Endpoint> FastPath<&[u8]> for OwnerFastPath<'_, E> {
    type Prepared = WordKey;
    type Place = WordPlace;

    #[inline(always)]
    fn prepare(&self, key: &[u8], _: &InPlace<'_>) -> WordKey {
        self.slots
            .hashed(key, |hash| self.index.prefetch_first(hash))
    }

    #[inline(always)]
    fn place(&self, key: &[u8], hashed: WordKey, view: &InPlace<'_>) -> Option<WordPlace> {
        let WordKey { hash, of } = hashed;
        if key.len() != WORD || self.index.has_stashed(hash) {
            return None;
        }
        let Some(place) = self.index.first_match(hash, &of) else {
            return Some(WordPlace::Nowhere(hash));
        };
        let slot = (self.slots).slot((key, hash), place, &self.table.vault, view)?;
        Some(WordPlace::Slot(slot))
    }

    #[inline(always)]
    fn fetch(&self, place: &WordPlace, view: &InPlace<'_>) {
        if let WordPlace::Slot(slot) = place {
            slot.fetch(view);
        }
    }

    #[inline(always)]
    fn look(&self, place: &WordPlace, view: &InPlace<'_>) -> FastPathResult {
        match place {
            WordPlace::Slot(slot) => match self.slots.value_in(slot, view) {
                Some(value) if !self.may_be_new(slot.hash) => FastPathResult::Found(value, 0),
                _ => FastPathResult::Undecided,
            },
            // A reader beside the owner may have met a key that is about to be in the index.
            WordPlace::Nowhere(hash) => match self.may_be_new(*hash) {
                true => FastPathResult::Undecided,
                false => FastPathResult::AbsentUnread,
            },
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
