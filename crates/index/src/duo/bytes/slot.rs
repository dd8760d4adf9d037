//! The bytes of one slot: whether it is live, whose it is, and its record or the block of the heap
//! that has it.
//!
//! ```text
//! slot     | head: 0 if dead, else live, 1 bit | hash of the key, 63 bits |
//!          | checksum, 32 bits | key length, 16 | value length, 16 |
//!          | key bytes | value bytes |    room for the longest
//! slot     | head | which block of the heap, 51 bits | checksum of that, 13 |
//!          of a table with a heap
//! ```
//! The checksum is over what follows it: so a record is either whole or none.
//!
//! **The word behind the head publishes the record** of a table with readers beside its owner. That
//! word differs from one record to the next, and is 0 in a dead slot. An insertion writes the head
//! and the record first, and then swaps this word in; a removal swaps it out before it clears the
//! head. So a record that is read whole was in the table at the moment its second word was loaded.
//! It does not matter when the other words were loaded, nor which use of the slot the head is of.
//! In a table of its owner alone, the head publishes the record, and locks order the lookups of the
//! owner's threads.

use super::layout::{DuoLayout, SLOT_HEADER};
use crate::hash::{checksum, word_of};
use crate::heap::BlockRef;
use crate::slot::SlotKind;
use std::ops::Range;

/// The head of a live slot has this bit, and the others of the key's hash.
const LIVE: u64 = 1 << 63;

impl DuoLayout {
    /// What buckets and fingerprints derive from: the 63 bits of the key's hash that the head of
    /// its slot has, so that the head says where the slot's key can be.
    #[inline]
    pub(in super::super) fn hash_of(&self, key: &[u8]) -> u64 {
        hash_in(live_head(self.hasher.hash(key)))
    }

    /// Bytes of a slot behind its head with this record, in whole words.
    pub(in super::super) const fn body_len(&self, key: &[u8], value: &[u8]) -> usize {
        (SLOT_HEADER - 8 + (key.len() + value.len())).next_multiple_of(8)
    }

    /// Makes these bytes those: key and value are of the table's sizes.
    pub(in super::super) fn fill_body(&self, body: &mut [u8], key: &[u8], value: &[u8]) {
        let len = SLOT_HEADER - 8 + (key.len() + value.len());
        body[len..].fill(0);
        body[4..6].copy_from_slice(&(key.len() as u16).to_le_bytes());
        body[6..8].copy_from_slice(&(value.len() as u16).to_le_bytes());
        body[8..8 + key.len()].copy_from_slice(key);
        body[8 + key.len()..len].copy_from_slice(value);
        let sum = checksum(&body[4..len], self.checksum_seed);
        body[..4].copy_from_slice(&sum.to_le_bytes());
    }

    /// The record of a slot that was read; nothing if it is dead or not whole.
    #[inline]
    pub(in super::super) fn record_in<'s>(&self, slot: &'s [u8]) -> Option<InlineRecord<'s>> {
        if head_in(slot) == 0 {
            return None;
        }
        let (key, value) = match self.kind {
            // The record was found whole where it is; what names it has other lengths.
            SlotKind::Heap => {
                let lengths = word_of(&slot[8..16]);
                (lengths as u32 as usize, (lengths >> 32) as usize)
            }
            _ => {
                let length = |at: usize| usize::from(u16::from_le_bytes([slot[at], slot[at + 1]]));
                (length(12), length(14))
            }
        };
        let end = SLOT_HEADER + key + value;
        let is_intact = key > 0
            && end <= slot.len()
            && (self.kind == SlotKind::Heap
                || checksum(&slot[12..end], self.checksum_seed).to_le_bytes() == slot[8..12]);
        is_intact.then(|| InlineRecord {
            key: &slot[SLOT_HEADER..SLOT_HEADER + key],
            value: &slot[SLOT_HEADER + key..end],
            value_at: SLOT_HEADER + key,
        })
    }
}

/// Slots that name a block of the heap.
impl DuoLayout {
    /// The word that names a block. What it has besides the block's number makes it a whole one.
    pub(in super::super) fn reference_to(&self, block: BlockRef) -> u64 {
        let packed = block.pack();
        let check = u64::from(checksum(&packed.to_le_bytes(), self.checksum_seed));
        packed | check << BlockRef::BITS
    }

    /// The block that a word names, if it is whole.
    pub(in super::super) fn block_of(&self, reference: u64) -> Option<BlockRef> {
        let block = BlockRef::unpack(reference);
        let is_intact = block.granule != 0 && self.reference_to(block) == reference;
        is_intact.then_some(block)
    }
}

/// A record in a slot that was read.
pub(in super::super) struct InlineRecord<'s> {
    pub(in super::super) key: &'s [u8],
    pub(in super::super) value: &'s [u8],
    /// Bytes from the slot's start to the value.
    pub(in super::super) value_at: usize,
}

impl InlineRecord<'_> {
    /// The value's bytes, in those of the slot.
    #[inline]
    pub(in super::super) fn value_range(&self) -> Range<usize> {
        self.value_at..self.value_at + self.value.len()
    }
}

/// The head of a live slot of the key with this hash.
#[inline]
pub(in super::super) const fn live_head(hash: u64) -> u64 {
    hash | LIVE
}

/// The hash in the head of a live slot.
#[inline]
pub(in super::super) const fn hash_in(head: u64) -> u64 {
    head & !LIVE
}

/// The head of a slot that was read: 0 if it is dead.
#[inline]
pub(in super::super) fn head_in(slot: &[u8]) -> u64 {
    word_of(&slot[..8])
}

/// The word behind the head of a slot that was read: it publishes the record, or is 0.
#[inline]
pub(in super::super) fn second_in(slot: &[u8]) -> u64 {
    word_of(&slot[8..SLOT_HEADER])
}

/// Whether a slot that was read is dead: also one whose insertion or removal is under way.
#[inline]
pub(in super::super) fn is_dead(slot: &[u8]) -> bool {
    head_in(slot) == 0 || second_in(slot) == 0
}
