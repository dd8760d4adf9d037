//! The usual steps of lookups by the copy, made ready for many keys, where keys and values are words:
//! the first slot that the copy has for the key.
//!
//! A record that is found whole there is the answer. Whatever else is there, the key is looked up in
//! steps.

use super::client::DuoReader;
use super::copy::IndexCopy;
use crate::duo::bytes::{SlotNumber, hash_in, live_head};
use crate::duo::placement::Candidates;
use crate::hash::{Hasher, checksum, xxh3};
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
    seed: u64,
    copy: Ref<'t, IndexCopy>,
    /// Buckets of each array of the table as it was made, bytes of each, and the byte of the region
    /// at which the first of them begins: the second array is behind the first. No buckets where
    /// they are not all in the region.
    buckets: u64,
    bucket_bytes: u64,
    first: u64,
}

impl<'t, E: Endpoint> SlotGlance<'t, E> {
    /// That of a table whose lookups can do with it.
    pub(super) fn of(reader: &'t DuoReader<E>, view: &InPlace<'_>) -> Option<Self> {
        let layout = &reader.layout;
        let Hasher::Xxh3 { seed } = layout.hasher else {
            return None;
        };
        let are_words = layout.kind == SlotKind::Inline
            && (layout.key.most(), layout.value.most()) == (WORD, WORD)
            && layout.slot_bytes() == SLOT;
        let copy = reader.copy.borrow();
        let bucket_bytes = layout.bucket_bytes();
        let first = view.offset_of(Piece {
            from: copy.vault.bucket_at(layout, 0),
            len: 2 * layout.buckets as usize * bucket_bytes,
        });
        are_words.then_some(Self {
            reader,
            seed,
            copy,
            buckets: first.map_or(0, |_| layout.buckets),
            bucket_bytes: bucket_bytes as u64,
            first: first.unwrap_or_default(),
        })
    }

    /// The byte of the region at which a slot begins, by its bucket and its number there.
    #[inline(always)]
    fn start_of(&self, bucket: u64, slot: u32, view: &InPlace<'_>) -> Option<u64> {
        let (pair, array) = (bucket / 2, bucket % 2);
        if pair >= self.buckets {
            return self.start_of_any(bucket, slot, view);
        }
        let before = pair + array * self.buckets;
        Some(self.first + before * self.bucket_bytes + u64::from(slot) * SLOT as u64)
    }

    /// The same of those that the table has grown by.
    #[inline(never)]
    fn start_of_any(&self, bucket: u64, slot: u32, view: &InPlace<'_>) -> Option<u64> {
        let layout = &self.reader.layout;
        let slot = bucket * u64::from(layout.bucket_slots) + u64::from(slot);
        view.offset_of(Piece {
            from: self.copy.vault.slot_at(layout, SlotNumber(slot)),
            len: SLOT,
        })
    }
}

/// What is known of a key.
#[derive(Clone, Copy, Default)]
pub(super) struct Fetched {
    hash: u64,
    of: Candidates,
}

/// The slot that may be its own.
#[derive(Clone, Copy)]
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
        let Ok(key) = <&[u8; WORD]>::try_from(key) else {
            return Fetched::default();
        };
        let hash = hash_in(live_head(xxh3(key, self.seed)));
        let of = self.copy.prefetch(hash);
        Fetched { hash, of }
    }

    #[inline(always)]
    fn place(&self, key: &[u8], fetched: Fetched, view: &InPlace<'_>) -> Option<FirstMatch> {
        let key = u64::from_le_bytes(key.try_into().ok()?);
        let Fetched { hash, of } = fetched;
        let (bucket, slot) = self.copy.first_in_arrays(hash, &of)?;
        let start = self.start_of(bucket, slot, view)?;
        Some(FirstMatch {
            head: live_head(hash),
            key,
            start,
        })
    }

    #[inline(always)]
    fn fetch(&self, of: &FirstMatch, view: &InPlace<'_>) {
        view.prefetch(of.start, SLOT);
    }

    #[inline(always)]
    fn look(&self, of: &FirstMatch, view: &InPlace<'_>) -> Glanced {
        let [head, second, key, value] = [0, 1, 2, 3].map(view.slot::<{ SLOT / 8 }>(of.start));
        let (sum, lengths) = (second as u32, (second >> 32) as u32);
        // What the checksum is over begins in the middle of a word. By halves of words: what is
        // written by words and then loaded across them would wait for them.
        let halves = [key, value].map(|word| [word as u32, (word >> 32) as u32]);
        let [[key_low, key_high], [value_low, value_high]] = halves;
        let record = [lengths, key_low, key_high, value_low, value_high];
        let record: [u8; 4 + 2 * WORD] = bytemuck::cast(record);
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
