//! Slots whose keys and values are words, in a mapping: what lookups of many keys by the fast path
//! go by, of the owner and of readers.

use super::bytes::{DuoLayout, SlotNumber, VaultMap, hash_in, live_head};
use super::placement::Primary;
use crate::hash::{Hasher, checksum, xxh3};
use crate::slot::SlotKind;
use farslot_fabric::{InPlace, Piece};

/// Bytes of a key, and of a value, that is a word; bytes of a slot that holds both; and their
/// lengths, as the slot's second word has them behind the checksum.
pub(super) const WORD: usize = 8;
pub(super) const SLOT: usize = 32;
const LENGTHS: u32 = (WORD as u32) << 16 | WORD as u32;

/// The slots.
pub(super) struct WordSlots<'t> {
    layout: &'t DuoLayout,
    seed: u64,
    /// Buckets of each array of the table as it was made, bytes of each, and the byte of the region
    /// at which the first of them begins: the second array is behind the first. No buckets where
    /// they are not all in the region.
    buckets: u64,
    bucket_bytes: u64,
    first: u64,
}

/// What is known of a key before its slot is.
#[derive(Clone, Copy, Default)]
pub(super) struct WordKey {
    pub(super) hash: u64,
    pub(super) of: Primary,
}

/// The slot that may be a key's.
#[derive(Clone, Copy)]
pub(super) struct WordSlot {
    pub(super) hash: u64,
    key: u64,
    /// The byte of the region at which it begins.
    start: u64,
}

impl<'t> WordSlots<'t> {
    /// Those of a table, if it has such.
    pub(super) fn of(layout: &'t DuoLayout, vault: &VaultMap, view: &InPlace<'_>) -> Option<Self> {
        let Hasher::Xxh3 { seed } = layout.hasher else {
            return None;
        };
        let are_words = layout.kind == SlotKind::Inline
            && (layout.key.most(), layout.value.most()) == (WORD, WORD)
            && layout.slot_bytes() == SLOT;
        let bucket_bytes = layout.bucket_bytes();
        let first = view.offset_of(Piece {
            from: vault.bucket_at(layout, 0),
            len: 2 * layout.buckets as usize * bucket_bytes,
        });
        are_words.then_some(Self {
            layout,
            seed,
            buckets: first.map_or(0, |_| layout.buckets),
            bucket_bytes: bucket_bytes as u64,
            first: first.unwrap_or_default(),
        })
    }

    /// Hashes a key, for which the index is asked then; of one of another length all is 0.
    #[inline(always)]
    pub(super) fn hashed(&self, key: &[u8], ask: impl FnOnce(u64) -> Primary) -> WordKey {
        let Ok(key) = <&[u8; WORD]>::try_from(key) else {
            return WordKey::default();
        };
        let hash = hash_in(live_head(xxh3(key, self.seed)));
        WordKey {
            hash,
            of: ask(hash),
        }
    }

    /// A slot, by its bucket and its number there.
    #[inline(always)]
    pub(super) fn slot(
        &self,
        (key, hash): (&[u8], u64),
        (bucket, slot): (u64, u32),
        vault: &VaultMap,
        view: &InPlace<'_>,
    ) -> Option<WordSlot> {
        let key = u64::from_le_bytes(key.try_into().ok()?);
        let (pair, array) = (bucket / 2, bucket % 2);
        let start = match pair < self.buckets {
            true => {
                let before = pair + array * self.buckets;
                self.first + before * self.bucket_bytes + u64::from(slot) * SLOT as u64
            }
            false => self.start_of_any((bucket, slot), vault, view)?,
        };
        Some(WordSlot { hash, key, start })
    }

    /// Where a slot of those begins that the table has grown by.
    #[inline(never)]
    fn start_of_any(
        &self,
        (bucket, slot): (u64, u32),
        vault: &VaultMap,
        view: &InPlace<'_>,
    ) -> Option<u64> {
        let slot = bucket * u64::from(self.layout.bucket_slots) + u64::from(slot);
        view.offset_of(Piece {
            from: vault.slot_at(self.layout, SlotNumber(slot)),
            len: SLOT,
        })
    }

    /// The value in a slot that is the key's, and whole.
    #[inline(always)]
    pub(super) fn value_in(&self, of: &WordSlot, view: &InPlace<'_>) -> Option<u64> {
        let [head, second, key, value] = [0, 1, 2, 3].map(view.slot::<{ SLOT / 8 }>(of.start));
        let (sum, lengths) = (second as u32, (second >> 32) as u32);
        // What the checksum is over begins in the middle of a word. By halves of words: what is
        // written by words and then loaded across them would wait for them.
        let halves = [key, value].map(|word| [word as u32, (word >> 32) as u32]);
        let [[key_low, key_high], [value_low, value_high]] = halves;
        let record = [lengths, key_low, key_high, value_low, value_high];
        let record: [u8; 4 + 2 * WORD] = bytemuck::cast(record);
        let is_own = head == live_head(of.hash) && lengths == LENGTHS && key == of.key;
        (is_own && checksum(&record, self.layout.checksum_seed) == sum).then_some(value)
    }
}

impl WordSlot {
    /// Has it fetched.
    #[inline(always)]
    pub(super) fn fetch(&self, view: &InPlace<'_>) {
        view.prefetch(self.start, SLOT);
    }
}
