//! The usual steps of lookups by the copy, made ready for many keys, where keys and values are words:
//! the first slot that the copy has for the key.
//!
//! A record that is found whole there is the answer. Whatever else is there, the key is looked up in
//! steps.

use super::client::DuoReader;
use super::copy::IndexCopy;
use crate::duo::bytes::live_head;
use crate::duo::placement::Candidates;
use crate::hash::checksum;
use crate::slot::SlotKind;
use crate::step::{Glance, Glanced};
use farslot_fabric::{Endpoint, InPlace, Piece, Steps};
use std::cell::Ref;

/// Bytes of a key, and of a value, that is a word; bytes of a slot that holds both; and their lengths,
/// as the slot's second word has them behind the checksum.
const WORD: usize = 8;
const SLOT: usize = 32;
const LENGTHS: u32 = (WORD as u32) << 16 | WORD as u32;

/// Lookups of a reader.
pub(super) struct SlotGlance<'t, E: Endpoint> {
    reader: &'t DuoReader<E>,
    copy: Ref<'t, IndexCopy>,
}

impl<'t, E: Endpoint> SlotGlance<'t, E> {
    /// That of a table whose lookups can do with it.
    pub(super) fn of(reader: &'t DuoReader<E>) -> Option<Self> {
        let layout = &reader.layout;
        let are_words = layout.kind == SlotKind::Inline
            && (layout.key.most(), layout.value.most()) == (WORD, WORD)
            && layout.slot_bytes() == SLOT;
        are_words.then(|| Self {
            reader,
            copy: reader.copy.borrow(),
        })
    }
}

/// What is known of a key.
#[derive(Clone, Copy, Default)]
pub(super) struct Fetched {
    hash: u64,
    of: Option<Candidates>,
}

/// The slot that may be its own.
#[derive(Clone, Copy, Default)]
pub(super) struct FirstMatch {
    head: u64,
    key: u64,
    /// The byte of the region at which it begins.
    start: u64,
}

impl<E: Endpoint> Glance<&[u8]> for SlotGlance<'_, E> {
    type Prepared = Fetched;
    type Place = FirstMatch;

    #[inline(always)]
    fn prepare(&self, key: &[u8], _: &InPlace<'_>) -> Fetched {
        let hash = self.reader.layout.hash_of(key);
        let of = Some(self.copy.prefetch(hash));
        Fetched { hash, of }
    }

    #[inline(always)]
    fn place(&self, key: &[u8], fetched: Fetched, view: &InPlace<'_>) -> Option<FirstMatch> {
        let key = u64::from_le_bytes(key.try_into().ok()?);
        let Fetched { hash, of } = fetched;
        let slot = self.copy.matches_of(hash, &of?).next()?;
        let start = view.offset_of(Piece {
            from: self.copy.vault.slot_at(&self.reader.layout, slot),
            len: SLOT,
        })?;
        view.prefetch(start, SLOT);
        Some(FirstMatch {
            head: live_head(hash),
            key,
            start,
        })
    }

    #[inline(always)]
    fn look(&self, of: &FirstMatch, view: &InPlace<'_>) -> Glanced {
        let [head, second, key, value] = [0, 1, 2, 3].map(view.words(of.start));
        let (sum, lengths) = (second as u32, (second >> 32) as u32);
        // What the checksum is over begins in the middle of a word.
        let mut record = [0; 4 + 2 * WORD];
        record[..4].copy_from_slice(&lengths.to_le_bytes());
        record[4..4 + WORD].copy_from_slice(&key.to_le_bytes());
        record[4 + WORD..].copy_from_slice(&value.to_le_bytes());
        let is_own = head == of.head && lengths == LENGTHS && key == of.key;
        match is_own && checksum(&record, self.reader.layout.checksum_seed) == sum {
            true => Glanced::Found(value, 0),
            false => Glanced::Undecided,
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
