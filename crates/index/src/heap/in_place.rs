//! Records where the memory is mapped.
//!
//! A record does not change while a slot names its block. So what was read of one is whole, without
//! a look at its checksum, if the slot's word was loaded before and is still there afterwards:
//! either it is loaded once more, or it is swapped from what it was.

use super::allocator::Heap;
use super::layout::{BlockRef, encode, record_bytes, seal};
use crate::hash::word_of;
use farslot_fabric::{Endpoint, InPlace, Piece};

/// Bytes of a record that hold its lengths and most keys.
const LIKELY: usize = 64;

/// A key and a value as they lie in memory: in a block, or in a slot.
pub(crate) struct Stored {
    /// Byte of the region at which the key starts, a multiple of 8. The value follows it.
    pub(crate) key_at: u64,
    pub(crate) key_len: usize,
    pub(crate) value_len: usize,
}

impl<E: Endpoint> Heap<E> {
    /// Asks for the record in a block.
    #[inline]
    pub(crate) fn prefetch(&self, view: InPlace<'_>, block: BlockRef) {
        let piece = self.piece(block);
        if let Some(at) = view.offset_of(piece) {
            view.prefetch(at, LIKELY.min(piece.len));
        }
    }

    /// The record in a block; nothing if it is not that of this use, or of lengths that it cannot
    /// have.
    #[inline]
    pub(crate) fn stored(&self, view: InPlace<'_>, block: BlockRef) -> Option<Stored> {
        let piece = self.piece(block);
        let at = view.offset_of(piece)?;
        let word = view.words(at);
        let lengths = word(1);
        let (key_len, value_len) = (lengths as u32 as usize, (lengths >> 32) as usize);
        let is_its = word(0) >> 32 == block.generation;
        let fits = record_bytes(key_len, value_len) <= piece.len;
        (is_its && fits).then_some(Stored {
            key_at: at + record_bytes(0, 0) as u64,
            key_len,
            value_len,
        })
    }

    /// Writes a record into a block that this client has, for which it need not ask; returns the
    /// block, and the record's bytes. No slot names it yet.
    pub(crate) fn write_at_once(
        &self,
        view: InPlace<'_>,
        key: &[u8],
        value: &[u8],
    ) -> Option<(BlockRef, u64)> {
        let mut record = encode(&self.endpoint.core().buffers, key, value).ok()?;
        let block = self.allocate_own(record.len())?;
        let piece = Piece {
            from: self.at(block.granule),
            len: record.len(),
        };
        // A block that is not in the memory is lost: nobody can use it.
        let at = view.offset_of(piece)?;
        seal(&mut record, block);
        view.write(at, record.len(), record.words());
        Some((block, record.len() as u64))
    }
}

impl Stored {
    #[inline]
    pub(crate) fn has_key(&self, view: InPlace<'_>, key: &[u8]) -> bool {
        if self.key_len != key.len() {
            return false;
        }
        let word = view.words(self.key_at);
        let (words, rest) = key.as_chunks::<8>();
        let mut whole = words.iter().enumerate();
        if !whole.all(|(at, bytes)| word(at) == u64::from_le_bytes(*bytes)) {
            return false;
        }
        let mask = !(u64::MAX << (8 * rest.len()));
        rest.is_empty() || word(words.len()) & mask == word_of(rest)
    }

    /// Compares the value, with memory to copy it to.
    pub(crate) fn has_value(
        &self,
        view: InPlace<'_>,
        value: &[u8],
        scratch: &mut Vec<u64>,
    ) -> bool {
        if self.value_len != value.len() {
            return false;
        }
        scratch.clear();
        let start = self.key_at + self.key_len as u64;
        view.append_to(start, value.len(), scratch);
        bytemuck::cast_slice::<_, u8>(scratch)[..value.len()] == *value
    }
}
