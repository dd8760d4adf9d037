//! How keys and values become the words of Word and Pair slots.

use super::{RecordShape, SlotKind};
use crate::hash::{derive, word_of};
use crate::{IndexError, Result};

/// The words of a table: which bits are the key's, and the masks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WordFormat {
    key_bits: u32,
    /// All bits of a key within a Word slot.
    key_field: u64,
    mask: u64,
    value_mask: u64,
}

const LIVE: u64 = 1 << 63;

impl RecordShape {
    /// How these records become the words of slots of this kind.
    pub(crate) fn words(&self, kind: SlotKind, mask_seed: u64) -> WordFormat {
        let value_bits = match kind {
            SlotKind::Word => self.value.most() as u32 * 8,
            _ => 0,
        };
        WordFormat::new(self.key.most() as u32 * 8, value_bits, mask_seed)
    }
}

impl WordFormat {
    fn new(key_bits: u32, value_bits: u32, seed: u64) -> Self {
        let key_field = if key_bits >= 63 {
            !LIVE
        } else {
            (1 << key_bits) - 1
        };
        let mut mask = derive(seed, 1);
        if value_bits > 0 {
            // With a mask that is not all zeros above the key, no dead slot can look empty.
            mask |= 1 << key_bits;
        }
        Self {
            key_bits,
            key_field,
            mask,
            value_mask: derive(seed, 2),
        }
    }

    /// A key's word in a Pair slot; none for the one key that would look like an empty slot.
    #[inline]
    pub(crate) fn pair_key(self, key: &[u8]) -> Option<u64> {
        match word_of(key) ^ self.mask {
            0 => None,
            word => Some(word),
        }
    }

    fn key_of_pair(self, word: u64) -> u64 {
        word ^ self.mask
    }

    /// A value's word in a Pair slot.
    pub(crate) fn pair_value(self, value: &[u8]) -> Result<u64> {
        not_reserved("value", word_of(value), self.value_mask)
    }

    #[inline]
    pub(crate) fn value_of_pair(self, word: u64) -> u64 {
        word ^ self.value_mask
    }

    /// The dead form of a key's Word slot: what it has in common with all its live forms.
    pub(crate) fn dead_word(self, key: &[u8]) -> Result<u64> {
        let word = word_of(key);
        if word & LIVE != 0 {
            return Err(IndexError::SixtyThreeBits { record: word });
        }
        not_reserved("key", word, self.mask & !LIVE)
    }

    /// The live form of a Word slot.
    pub(crate) fn live_word(self, dead: u64, value: &[u8]) -> Result<u64> {
        let value = word_of(value);
        let shifted = value.checked_shl(self.key_bits).unwrap_or(0);
        if shifted & LIVE != 0 {
            let record = shifted | (dead ^ self.mask) & self.key_field;
            return Err(IndexError::SixtyThreeBits { record });
        }
        Ok(LIVE | dead ^ shifted)
    }

    /// Whether a Word slot, live or dead, is that of the key with this dead form.
    #[inline]
    pub(crate) fn same_key(self, word: u64, dead: u64) -> bool {
        (word ^ dead) & self.key_field == 0
    }

    #[inline]
    pub(crate) const fn is_live(word: u64) -> bool {
        word & LIVE != 0
    }

    /// The dead form of any Word slot that is in use.
    #[inline]
    pub(crate) fn bury(self, word: u64) -> u64 {
        (word & self.key_field) | (self.mask & !LIVE & !self.key_field)
    }

    #[inline]
    pub(crate) fn value_of_word(self, word: u64) -> u64 {
        ((word ^ self.mask) & !LIVE)
            .checked_shr(self.key_bits)
            .unwrap_or(0)
    }

    #[inline]
    pub(crate) fn key_of_word(self, word: u64) -> u64 {
        (word ^ self.mask) & self.key_field
    }

    /// Visits the records of consecutive Word or Pair slots.
    pub(crate) fn visit(
        self,
        kind: SlotKind,
        shape: RecordShape,
        words: &[u64],
        mut visit: impl FnMut(&[u8], &[u8]),
    ) {
        let (key_len, value_len) = (shape.key.most(), shape.value.most());
        let mut give = |key: u64, value: u64| {
            visit(
                &key.to_le_bytes()[..key_len],
                &value.to_le_bytes()[..value_len],
            );
        };
        if kind == SlotKind::Pair {
            let live = words
                .chunks_exact(2)
                .filter(|pair| pair[0] != 0 && pair[1] != 0);
            live.for_each(|pair| give(self.key_of_pair(pair[0]), self.value_of_pair(pair[1])));
        } else {
            let live = words.iter().filter(|word| Self::is_live(**word));
            live.for_each(|word| give(self.key_of_word(*word), self.value_of_word(*word)));
        }
    }
}

fn not_reserved(field: &'static str, bits: u64, mask: u64) -> Result<u64> {
    match bits ^ mask {
        0 => Err(IndexError::ReservedPattern { field, bits }),
        word => Ok(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn word_slots_keep_key_and_value(
            key_len in 1usize..=8,
            key: u64, value: u64, other: u64, seed: u64,
        ) {
            let value_len = 8 - key_len;
            let words = WordFormat::new(key_len as u32 * 8, value_len as u32 * 8, seed);
            let bytes = |word: u64, len: usize| word.to_le_bytes()[..len].to_vec();
            let (key, value) = if value_len == 0 { (key >> 1, 0) } else { (key, value) };
            let mut value = bytes(value, value_len);
            if let Some(top) = value.last_mut() {
                *top &= 0x7f;
            }
            let dead = words.dead_word(&bytes(key, key_len)).unwrap();
            let live = words.live_word(dead, &value).unwrap();
            prop_assert!(WordFormat::is_live(live) && !WordFormat::is_live(dead) && dead != 0);
            prop_assert!(words.same_key(live, dead) && words.same_key(dead, dead));
            prop_assert_eq!(words.bury(live), dead);
            prop_assert_eq!(words.value_of_word(live), word_of(&value));
            prop_assert_eq!(words.key_of_word(live), word_of(&bytes(key, key_len)));
            let other = bytes(other >> 1, key_len);
            let same = word_of(&other) == word_of(&bytes(key, key_len));
            prop_assert_eq!(words.same_key(live, words.dead_word(&other).unwrap()), same);
        }
    }
}
