//! The bytes of a slot.
//!
//! ```text
//! slot | checksum, 32 bits | key length, 16: 0 if free | value length, 16 |
//!      | key bytes | value bytes | room for the longest, a multiple of 8 bytes
//! ```

use farslot::index::hash::{checksum, word_of};
use farslot::index::{FieldSize, IndexError, Result};
use std::rc::Rc;

/// Bytes of a slot before its key.
pub(super) const HEADER: usize = 8;

/// How records become the bytes of slots.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotFormat {
    pub(super) key: FieldSize,
    pub(super) value: FieldSize,
    pub(super) checksum_seed: u64,
}

/// A record, with the hash of its key.
pub struct Record {
    /// The key's hash.
    pub hash: u64,
    /// The bytes of its slot.
    pub(super) bytes: Rc<[u8]>,
}

/// What a slot is to hold.
#[derive(Clone)]
pub(super) struct SlotWrite {
    pub(super) slot: u64,
    pub(super) bytes: Rc<[u8]>,
}

/// A record in a slot that was read.
#[derive(Clone, Copy)]
pub(super) struct DecodedSlot<'s> {
    pub(super) key: &'s [u8],
    pub(super) value: &'s [u8],
    /// Bytes from the slot's start to the value.
    pub(super) value_at: usize,
}

/// What a slot that was read holds.
pub(super) enum Slot<'s> {
    Free,
    Record(DecodedSlot<'s>),
    /// Its checksum does not fit: it was read while it was written, or is damaged.
    Torn,
}

impl SlotFormat {
    /// Bytes of one slot, a multiple of 8.
    pub(super) const fn slot_bytes(&self) -> usize {
        HEADER + (self.key.most() + self.value.most()).next_multiple_of(8)
    }

    /// Refuses a key that the table does not hold.
    pub(super) fn check_key(&self, key: &[u8]) -> Result<()> {
        let (len, allowed) = (key.len(), self.key);
        match len {
            0 => Err(IndexError::EmptyKey),
            _ if allowed.admits(len) => Ok(()),
            _ => Err(IndexError::KeyLength { len, allowed }),
        }
    }

    /// Refuses a value that the table does not hold.
    pub(super) fn check_value(&self, value: &[u8]) -> Result<()> {
        let (len, allowed) = (value.len(), self.value);
        if allowed.admits(len) {
            return Ok(());
        }
        Err(IndexError::ValueLength { len, allowed })
    }

    /// A record as the bytes of a slot, whole words. Key and value are of the table's sizes.
    pub(super) fn encode(&self, key: &[u8], value: &[u8]) -> Rc<[u8]> {
        let end = HEADER + key.len() + value.len();
        let mut bytes = vec![0; end.next_multiple_of(8)];
        bytes[4..6].copy_from_slice(&(key.len() as u16).to_le_bytes());
        bytes[6..8].copy_from_slice(&(value.len() as u16).to_le_bytes());
        bytes[HEADER..HEADER + key.len()].copy_from_slice(key);
        bytes[HEADER + key.len()..end].copy_from_slice(value);
        let sum = checksum(&bytes[4..end], self.checksum_seed);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        bytes.into()
    }

    /// The bytes that make a slot free.
    pub(super) fn free() -> Rc<[u8]> {
        [0; HEADER].into()
    }

    /// What a slot holds.
    pub(super) fn decode<'s>(&self, slot: &'s [u8]) -> Slot<'s> {
        if is_free(slot) {
            return Slot::Free;
        }
        let length = |at: usize| usize::from(u16::from_le_bytes([slot[at], slot[at + 1]]));
        let (key, value) = (length(4), length(6));
        let end = HEADER + key + value;
        let is_whole = end <= slot.len()
            && checksum(&slot[4..end], self.checksum_seed).to_le_bytes() == slot[..4];
        if !is_whole {
            return Slot::Torn;
        }
        Slot::Record(DecodedSlot {
            key: &slot[HEADER..HEADER + key],
            value: &slot[HEADER + key..end],
            value_at: HEADER + key,
        })
    }
}

/// Whether a slot that was read holds nothing.
#[inline]
pub(super) fn is_free(slot: &[u8]) -> bool {
    word_of(&slot[..HEADER]) == 0
}
