//! The bytes of a linear table, and the options that decide them.
//!
//! ```text
//! 0     used slots | entries | heap mark | heap free lists, one word a class |
//! 4096  slot 0 | slot 1 | ... | slot M-1 |
//!       heap: blocks of the records out of band (tables that have one)
//! ```

use crate::hash::{derive, word_of};
use crate::heap::{self, HeapPlace};
use crate::{FieldSize, Hasher, IndexError, Result};
use farslot_fabric::RemoteAddr;
use serde::{Deserialize, Serialize};

/// Byte of the count of slots in use, from the table's start.
pub(super) const USED_AT: u64 = 0;
/// Byte of the count of entries.
pub(super) const ENTRIES_AT: u64 = 8;
const HEAP_HEADER_AT: u64 = 64;
const SLOTS_AT: u64 = 4096;

/// The most slots of a table (the model's limit).
pub const MOST_SLOTS: u64 = 1 << 40;
/// Records longer than this are stored out of band unless told otherwise (paper 000, section 5.7).
const LONGEST_INLINE: usize = 32;
/// No key is ever further from its home slot than this.
const LONGEST_PROBE: u64 = 1 << 16;

/// What a slot holds. The module's page draws each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum SlotKind {
    /// Key and value in one word of 63 bits.
    Word,
    /// A word of key and a word of value.
    Pair,
    /// Key and value of fixed sizes, in the slot.
    Inline,
    /// A reference to a record out of band.
    Heap,
}

/// How many records a key may have.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub enum KeyRule {
    /// One: a lookup may stop at the match.
    #[default]
    Unique,
    /// Any number: a lookup reads on to the first empty slot (paper 000).
    Multi,
}

/// What a linear table shall be. Everything but the capacity and the sizes has a default.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearOptions {
    /// Keys that the table must be able to hold.
    pub capacity: u64,
    /// The size of its keys.
    pub key: FieldSize,
    /// The size of its values.
    pub value: FieldSize,
    /// Slots in use per slot when `capacity` keys are in the table; decides the number of slots.
    pub load_factor: f64,
    /// What its slots hold; by default what suits the sizes.
    pub slot: Option<SlotKind>,
    /// How many records a key may have.
    pub keys: KeyRule,
    /// Bytes for records out of band; by default enough for `capacity` records of the largest size
    /// (of an eighth of them, for values that outgrow an inline slot).
    pub heap_bytes: Option<u64>,
    /// The hash function; by default XXH3 with the table's seed.
    pub hasher: Hasher,
    /// What the masks of Word and Pair slots derive from: random, of each table its own.
    pub mask_seed: u64,
}

impl LinearOptions {
    /// Options for `capacity` keys with these sizes, 3/4 full then. The seed should be random.
    #[must_use]
    pub fn new(capacity: u64, key: FieldSize, value: FieldSize, seed: u64) -> Self {
        Self {
            capacity,
            key,
            value,
            load_factor: 0.75,
            slot: None,
            keys: KeyRule::Unique,
            heap_bytes: None,
            hasher: Hasher::Xxh3 { seed },
            mask_seed: seed,
        }
    }

    /// The layout that these options ask for.
    ///
    /// # Errors
    /// [`IndexError::BadOption`] names the option, its value and what is possible.
    pub fn layout(&self) -> Result<LinearLayout> {
        let slots = self.slots()?;
        let kind = self.slot.unwrap_or_else(|| self.suitable_kind());
        self.check_sizes(kind)?;
        if self.hasher == Hasher::Knuth && self.key.most() > 8 {
            return Err(bad("hash", "knuth", "for keys of at most 8 bytes"));
        }
        Ok(LinearLayout {
            kind,
            slots,
            key: self.key,
            value: self.value,
            keys: self.keys,
            hasher: self.hasher,
            mask_seed: self.mask_seed,
            longest_probe: slots.min(LONGEST_PROBE),
            heap_bytes: self.heap_bytes(kind)?,
        })
    }

    fn slots(&self) -> Result<u64> {
        if self.capacity == 0 {
            return Err(bad("capacity", 0, "at least 1"));
        }
        if !(self.load_factor > 0.0 && self.load_factor <= 1.0) {
            return Err(bad(
                "load factor",
                self.load_factor,
                "above 0 and at most 1",
            ));
        }
        let slots = (self.capacity as f64 / self.load_factor).ceil();
        if slots > MOST_SLOTS as f64 {
            return Err(bad(
                "capacity",
                self.capacity,
                format!("at most {MOST_SLOTS} slots, not {slots}"),
            ));
        }
        Ok((slots as u64).max(self.capacity))
    }

    fn suitable_kind(&self) -> SlotKind {
        match (self.key, self.value) {
            (FieldSize::Fixed(key), FieldSize::Fixed(value)) if key <= 8 && value <= 8 => {
                SlotKind::Pair
            }
            (FieldSize::Fixed(key), FieldSize::Fixed(value))
                if (key as usize).saturating_add(value as usize) <= LONGEST_INLINE =>
            {
                SlotKind::Inline
            }
            _ => SlotKind::Heap,
        }
    }

    fn check_sizes(&self, kind: SlotKind) -> Result<()> {
        let (key, value) = (self.key.most(), self.value.most());
        let record = heap::record_bytes(key, value);
        if key == 0 {
            return Err(bad("key size", 0, "at least 1 byte"));
        }
        let fixed =
            matches!(self.key, FieldSize::Fixed(_)) && matches!(self.value, FieldSize::Fixed(_));
        if kind != SlotKind::Heap && !fixed {
            return Err(bad(
                "slot",
                format!("{kind:?}"),
                "only for keys and values of fixed sizes",
            ));
        }
        let fits = match kind {
            SlotKind::Word => key + value <= 8,
            SlotKind::Pair => key <= 8 && value <= 8,
            SlotKind::Inline | SlotKind::Heap => true,
        };
        if !fits {
            let limit = "Word slots hold 8 bytes in all, Pair slots 8 of each";
            return Err(bad(
                "slot",
                format!("{kind:?} with {key} + {value} bytes"),
                limit,
            ));
        }
        if record > heap::LARGEST_RECORD {
            let limit = format!("at most {} bytes in all", heap::LARGEST_RECORD - 16);
            return Err(bad("key and value size", key + value, limit));
        }
        Ok(())
    }

    fn heap_bytes(&self, kind: SlotKind) -> Result<u64> {
        let records = match kind {
            SlotKind::Word | SlotKind::Pair => return Ok(0),
            SlotKind::Inline => self.capacity.div_ceil(8),
            SlotKind::Heap => self.capacity,
        };
        let largest = heap::record_bytes(self.key.most(), self.value.most());
        let class = heap::class_for(largest).expect("checked to be at most the largest record");
        // Some more than the records need: extents and free blocks of clients lie idle.
        let ample = u128::from(records) * heap::block_bytes(class) as u128 * 9 / 8 + (1 << 20);
        let asked = self
            .heap_bytes
            .map_or(ample, u128::from)
            .max(u128::from(heap::GRANULE) * 2);
        match u64::try_from(asked) {
            Ok(bytes) if bytes <= heap::LARGEST_HEAP => Ok(bytes.next_multiple_of(64)),
            _ => Err(bad(
                "heap bytes",
                asked,
                format!("at most {}", heap::LARGEST_HEAP),
            )),
        }
    }
}

fn bad(option: &'static str, value: impl ToString, limit: impl Into<String>) -> IndexError {
    IndexError::BadOption {
        option,
        value: value.to_string(),
        limit: limit.into(),
    }
}

/// All that a client must know of a table: kept in the catalog.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinearLayout {
    /// What a slot holds.
    pub kind: SlotKind,
    /// How many there are.
    pub slots: u64,
    /// The size of the keys.
    pub key: FieldSize,
    /// The size of the values.
    pub value: FieldSize,
    /// How many records a key may have.
    pub keys: KeyRule,
    /// From a key to its home slot.
    pub hasher: Hasher,
    /// What the masks of Word and Pair slots derive from.
    pub mask_seed: u64,
    /// No key is further from its home than this many slots.
    pub longest_probe: u64,
    /// Bytes of heap.
    pub heap_bytes: u64,
}

impl LinearLayout {
    /// Bytes of one slot, a multiple of 8.
    #[inline]
    #[must_use]
    pub const fn slot_bytes(&self) -> usize {
        match self.kind {
            SlotKind::Word | SlotKind::Heap => 8,
            SlotKind::Pair => 16,
            SlotKind::Inline => 8 + (self.key.most() + self.value.most()).next_multiple_of(8),
        }
    }

    /// Bytes of remote memory that the whole table takes. A fresh table is all zeros.
    #[must_use]
    pub fn table_bytes(&self) -> u128 {
        u128::from(SLOTS_AT) + self.slot_area() + u128::from(self.heap_bytes)
    }

    fn slot_area(&self) -> u128 {
        (u128::from(self.slots) * self.slot_bytes() as u128).next_multiple_of(64)
    }

    pub(super) fn slot_at(&self, table: RemoteAddr, slot: u64) -> RemoteAddr {
        table.plus(SLOTS_AT + slot * self.slot_bytes() as u64)
    }

    pub(super) fn heap_place(&self, table: RemoteAddr) -> HeapPlace {
        HeapPlace {
            header: table.plus(HEAP_HEADER_AT),
            start: table.plus(SLOTS_AT + self.slot_area() as u64),
            bytes: self.heap_bytes,
        }
    }

    pub(super) fn words(&self) -> WordFormat {
        let value_bits = match self.kind {
            SlotKind::Word => self.value.most() as u32 * 8,
            _ => 0,
        };
        WordFormat::new(self.key.most() as u32 * 8, value_bits, self.mask_seed)
    }
}

/// How keys and values become the words of Word and Pair slots.
#[derive(Clone, Copy, Debug)]
pub(super) struct WordFormat {
    key_bits: u32,
    /// All bits of a key within a Word slot.
    key_field: u64,
    mask: u64,
    value_mask: u64,
}

const LIVE: u64 = 1 << 63;

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
    pub(super) fn pair_key(self, key: &[u8]) -> Option<u64> {
        match word_of(key) ^ self.mask {
            0 => None,
            word => Some(word),
        }
    }

    pub(super) fn key_of_pair(self, word: u64) -> u64 {
        word ^ self.mask
    }

    /// A value's word in a Pair slot.
    pub(super) fn pair_value(self, value: &[u8]) -> Result<u64> {
        not_reserved("value", word_of(value), self.value_mask)
    }

    #[inline]
    pub(super) fn value_of_pair(self, word: u64) -> u64 {
        word ^ self.value_mask
    }

    /// The dead form of a key's Word slot: what it has in common with all its live forms.
    pub(super) fn dead_word(self, key: &[u8]) -> Result<u64> {
        let word = word_of(key);
        if word & LIVE != 0 {
            return Err(IndexError::SixtyThreeBits { record: word });
        }
        not_reserved("key", word, self.mask & !LIVE)
    }

    /// The live form of a Word slot.
    pub(super) fn live_word(self, dead: u64, value: &[u8]) -> Result<u64> {
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
    pub(super) fn same_key(self, word: u64, dead: u64) -> bool {
        (word ^ dead) & self.key_field == 0
    }

    #[inline]
    pub(super) const fn is_live(word: u64) -> bool {
        word & LIVE != 0
    }

    /// The dead form of any Word slot that is in use.
    #[inline]
    pub(super) fn bury(self, word: u64) -> u64 {
        (word & self.key_field) | (self.mask & !LIVE & !self.key_field)
    }

    #[inline]
    pub(super) fn value_of_word(self, word: u64) -> u64 {
        ((word ^ self.mask) & !LIVE)
            .checked_shr(self.key_bits)
            .unwrap_or(0)
    }

    #[inline]
    pub(super) fn key_of_word(self, word: u64) -> u64 {
        (word ^ self.mask) & self.key_field
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

    #[test]
    fn options_that_no_table_can_have_are_named() {
        let fixed =
            |key, value| LinearOptions::new(100, FieldSize::Fixed(key), FieldSize::Fixed(value), 1);
        let options: [(&str, LinearOptions); 8] = [
            (
                "capacity",
                LinearOptions {
                    capacity: 0,
                    ..fixed(8, 8)
                },
            ),
            (
                "capacity",
                LinearOptions {
                    capacity: u64::MAX,
                    ..fixed(8, 8)
                },
            ),
            (
                "load factor",
                LinearOptions {
                    load_factor: f64::NAN,
                    ..fixed(8, 8)
                },
            ),
            (
                "load factor",
                LinearOptions {
                    load_factor: 1.5,
                    ..fixed(8, 8)
                },
            ),
            ("key size", fixed(0, 8)),
            (
                "slot",
                LinearOptions {
                    slot: Some(SlotKind::Word),
                    ..fixed(8, 1)
                },
            ),
            (
                "hash",
                LinearOptions {
                    hasher: Hasher::Knuth,
                    ..fixed(9, 8)
                },
            ),
            ("key and value size", fixed(8, u32::MAX)),
        ];
        for (named, options) in options {
            match options.layout() {
                Err(IndexError::BadOption { option, .. }) => assert_eq!(option, named),
                other => panic!("{named}: {other:?}"),
            }
        }
    }

    #[test]
    fn sizes_choose_the_slot() {
        let kind = |key, value| LinearOptions::new(9, key, value, 1).layout().unwrap().kind;
        let (fixed, up_to) = (FieldSize::Fixed, FieldSize::UpTo);
        assert_eq!(kind(fixed(8), fixed(8)), SlotKind::Pair);
        assert_eq!(kind(fixed(8), fixed(24)), SlotKind::Inline);
        assert_eq!(kind(fixed(8), fixed(100)), SlotKind::Heap);
        assert_eq!(kind(up_to(8), fixed(8)), SlotKind::Heap);
    }

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
