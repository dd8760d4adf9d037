//! Where the parts of a table lie, whatever the scheme.
//!
//! ```text
//! 0     used slots | entries | ... | heap mark | ...
//! 4096  slot 0 | slot 1 | ... |       slots, or buckets of them, to a multiple of 64 bytes
//!       heap: the words of its pages, and the records out of band
//! ```
//! Sealed tables have another header.

use crate::heap::{GRANULE, HeapPlace};
use farslot_fabric::RemoteAddr;
use std::ops::Range;

/// Byte of the mark of a table's heap, from the table's start, in tables that are written record by
/// record.
pub const HEAP_HEADER_AT: u64 = 64;
/// Bytes of a table before its slots.
pub(crate) const HEADER_BYTES: u64 = 4096;

/// The sizes that decide it.
pub(crate) struct TableMap {
    /// Slots, or buckets of them.
    pub(crate) slots: u64,
    /// Bytes of each.
    pub(crate) slot_bytes: usize,
    pub(crate) heap_bytes: u64,
    /// Bytes of the segments that its memory is made of: its heap begins with one. 0 where it is in
    /// one piece.
    pub(crate) segment: u64,
}

impl TableMap {
    fn slot_area(&self) -> u128 {
        let slots = u128::from(self.slots) * self.slot_bytes as u128;
        let before = u128::from(HEADER_BYTES);
        match self.segment {
            0 => slots.next_multiple_of(64),
            segment => (before + slots).next_multiple_of(u128::from(segment)) - before,
        }
    }

    /// Bytes of the whole table, in so many segments where it is made of these.
    pub(crate) fn bytes(&self) -> u128 {
        u128::from(HEADER_BYTES) + self.slot_area() + u128::from(self.heap_bytes)
    }

    /// Bytes from the table's start that may have been written, where the word of the heap's mark
    /// is `heap_mark`: none behind what was handed out of the heap.
    pub(crate) fn written(&self, heap_mark: u64) -> [Range<u64>; 2] {
        let heap = HEADER_BYTES + self.slot_area() as u64;
        let handed_out = heap_mark.saturating_add(GRANULE).min(self.heap_bytes);
        [0..heap, heap..heap + handed_out]
    }

    #[inline]
    pub(crate) fn slot_at(&self, table: RemoteAddr, slot: u64) -> RemoteAddr {
        table.plus(HEADER_BYTES + slot * self.slot_bytes as u64)
    }

    /// Where the heap starts.
    #[inline]
    pub(crate) fn heap_at(&self, table: RemoteAddr) -> RemoteAddr {
        table.plus(HEADER_BYTES + self.slot_area() as u64)
    }

    /// The heap of tables that are written.
    pub(crate) fn heap_place(&self, table: RemoteAddr) -> HeapPlace {
        HeapPlace {
            header: table.plus(HEAP_HEADER_AT),
            start: self.heap_at(table),
            bytes: self.heap_bytes,
        }
    }
}
