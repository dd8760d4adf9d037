//! The usual steps of lookups, made ready for many keys, where keys and values are words in Inline
//! slots and all buckets of a key are read side by side.
//!
//! What is found whole in a slot is the answer. What is not found, not whole, or has become a
//! record out of band is looked up in steps, but for absent keys of a sealed table. The first
//! bucket's memory is looked at before that of the others is fetched, for a third of all keys or
//! more are there.

use super::client::CuckooTable;
use super::layout::{CuckooLayout, LookupOrder, MOST_WAYS};
use crate::hash::{Hasher, checksum, xxh3};
use crate::slot::{SlotHead, SlotKind};
use crate::step::{FastPath, FastPathResult};
use farslot_fabric::{Endpoint, InPlace, Piece, Steps};

/// Bytes of a key, and of a value, that is a word; and words of a slot that holds both.
const WORD: usize = 8;
const SLOT_WORDS: usize = 3;

/// Lookups in a table.
pub(super) struct InlineFastPath<'t> {
    layout: &'t CuckooLayout,
    seed: u64,
    ways: usize,
    bucket_slots: usize,
    bucket_bytes: usize,
    /// The byte of the region at which the buckets begin.
    first: u64,
    sealed: bool,
}

impl<'t> InlineFastPath<'t> {
    /// That of a table whose lookups can do with it.
    pub(super) fn of<E: Endpoint>(table: &'t CuckooTable<E>, view: &InPlace<'_>) -> Option<Self> {
        let layout = &table.layout;
        let Hasher::Xxh3 { seed } = layout.hasher else {
            return None;
        };
        let are_words = layout.kind == SlotKind::Inline
            && (layout.key.most(), layout.value.most()) == (WORD, WORD)
            && table.slot_words == SLOT_WORDS;
        let is_plain = table.order == LookupOrder::Parallel && !table.predetermines;
        let all = Piece {
            from: table.first_bucket,
            len: layout.buckets as usize * table.bucket_bytes,
        };
        Some(Self {
            layout,
            seed,
            ways: layout.ways as usize,
            bucket_slots: layout.bucket_slots as usize,
            bucket_bytes: table.bucket_bytes,
            first: view.offset_of(all).filter(|_| are_words && is_plain)?,
            sealed: table.sealed.get(),
        })
    }
}

/// What is known of a key.
#[derive(Clone, Copy, Default)]
pub(super) struct Buckets {
    key: [u8; WORD],
    hash: u64,
    /// The bytes of the region at which they begin.
    starts: [u64; MOST_WAYS],
}

impl InlineFastPath<'_> {
    /// Looks at one of a key's buckets; nothing if the key is not in it.
    #[inline(always)]
    fn look_in(&self, of: &Buckets, bucket: usize, view: &InPlace<'_>) -> Option<FastPathResult> {
        let words = view.words(of.starts[bucket]);
        for slot in 0..self.bucket_slots {
            let head = words(slot * SLOT_WORDS);
            if !SlotHead::has_record_of(head, of.hash) {
                continue;
            }
            let SlotHead::Inline { sum, .. } = SlotHead::decode(head) else {
                return Some(FastPathResult::Undecided);
            };
            let [key, value] = [1, 2].map(|word| words(slot * SLOT_WORDS + word).to_le_bytes());
            let record = bytemuck::cast::<_, [u8; 2 * WORD]>([key, value]);
            if checksum(&record, self.layout.mask_seed) != sum {
                return Some(FastPathResult::Undecided);
            }
            if key == of.key {
                return Some(FastPathResult::Found(u64::from_le_bytes(value), 0));
            }
        }
        None
    }
}

impl FastPath<&[u8]> for InlineFastPath<'_> {
    type Prepared = ();
    type Place = Buckets;

    #[inline(always)]
    fn prepare(&self, _: &[u8], _: &InPlace<'_>) {}

    #[inline(always)]
    fn place(&self, key: &[u8], (): (), _: &InPlace<'_>) -> Option<Buckets> {
        let key: &[u8; WORD] = key.try_into().ok()?;
        let hash = xxh3(key, self.seed);
        let candidates = self.layout.buckets_of(hash);
        let buckets = candidates.as_slice();
        if buckets.len() != self.ways {
            return None;
        }
        let mut starts = [0; MOST_WAYS];
        for (start, bucket) in starts.iter_mut().zip(buckets) {
            *start = self.first + bucket * self.bucket_bytes as u64;
        }
        Some(Buckets {
            key: *key,
            hash,
            starts,
        })
    }

    #[inline(always)]
    fn fetch(&self, of: &Buckets, view: &InPlace<'_>) {
        view.prefetch(of.starts[0], self.bucket_bytes);
    }

    #[inline(always)]
    fn look(&self, of: &Buckets, view: &InPlace<'_>) -> FastPathResult {
        match self.look_in(of, 0, view) {
            Some(glanced) => glanced,
            None => {
                for start in &of.starts[1..self.ways] {
                    view.prefetch(*start, self.bucket_bytes);
                }
                FastPathResult::Fetching
            }
        }
    }

    #[inline(always)]
    fn look_on(&self, of: &Buckets, view: &InPlace<'_>) -> FastPathResult {
        let absent = match self.sealed {
            true => FastPathResult::Absent(0),
            false => FastPathResult::Undecided,
        };
        let glanced = (1..self.ways).find_map(|bucket| self.look_in(of, bucket, view));
        glanced.unwrap_or(absent)
    }

    #[inline]
    fn usual(&self) -> Steps {
        let bytes = self.ways * self.bucket_bytes;
        Steps::begun(self.ways as u32, bytes as u64)
    }

    #[inline]
    fn value_len(&self) -> usize {
        WORD
    }
}
