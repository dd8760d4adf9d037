//! Blocks, the bytes of a record, and size classes: how much of a block who follows a slot reads.
//! The block itself has the bytes of its record, to a multiple of [`GRANULE`].

use crate::hash::{checksum, word_of};
use crate::{IndexError, Result};
use farslot_fabric::{Buffer, BufferPool, Fetched, Piece, RemoteAddr};
use std::ops::Range;

/// Blocks start at multiples of this.
pub const GRANULE: u64 = 16;
/// Bits of a block's number within its heap.
const OFFSET_BITS: u32 = 34;
/// Bits of the generation that a slot keeps.
pub(super) const GENERATION_BITS: u32 = 11;
/// Bits of the size class.
const CLASS_BITS: u32 = 6;
/// Size classes: 32 to 128 bytes in steps of 16, then four to each doubling.
pub(super) const CLASSES: usize = 1 << CLASS_BITS;
/// The largest heap, in bytes.
pub const LARGEST_HEAP: u64 = GRANULE << OFFSET_BITS;
/// The largest record, its header included, in bytes.
pub const LARGEST_RECORD: usize = block_bytes(CLASSES - 1);
/// Bytes of a record before its key.
const RECORD_HEADER: usize = 16;
/// The bit of a record's first word that says that it was read, of a heap that evicts.
pub(super) const WAS_READ: u64 = 1 << 63;

/// Which use of its block a record is of, by its first word.
#[inline(always)]
pub(crate) const fn generation_by_head(head: u64) -> u64 {
    (head & !WAS_READ) >> 32
}

/// Where a heap lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeapPlace {
    /// The word that says how many of its bytes were ever handed out, and three more.
    pub header: RemoteAddr,
    /// Its first byte. The first granule is no record's, so that block 0 can mean "none".
    pub start: RemoteAddr,
    /// Its length in bytes.
    pub bytes: u64,
}

/// Names one use of a block, in 51 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockRef {
    /// Where it starts, in granules from the heap's start.
    pub granule: u64,
    /// Which use of the block it is.
    pub generation: u64,
    /// Its size class.
    pub class: usize,
}

impl BlockRef {
    /// The largest generation.
    pub(super) const LAST_GENERATION: u64 = (1 << GENERATION_BITS) - 1;
    /// Bits that [`BlockRef::pack`] uses.
    pub const BITS: u32 = OFFSET_BITS + GENERATION_BITS + CLASS_BITS;

    /// The reference in the low [`BlockRef::BITS`] bits.
    #[inline]
    #[must_use]
    pub const fn pack(self) -> u64 {
        self.granule
            | self.generation << OFFSET_BITS
            | (self.class as u64) << (OFFSET_BITS + GENERATION_BITS)
    }

    /// What [`BlockRef::pack`] packed; higher bits are ignored.
    #[inline]
    #[must_use]
    pub const fn unpack(bits: u64) -> Self {
        Self {
            granule: bits & ((1 << OFFSET_BITS) - 1),
            generation: bits >> OFFSET_BITS & ((1 << GENERATION_BITS) - 1),
            class: (bits >> (OFFSET_BITS + GENERATION_BITS) & (CLASSES as u64 - 1)) as usize,
        }
    }
}

/// Bytes of the blocks of a class.
#[must_use]
pub const fn block_bytes(class: usize) -> usize {
    if class < 7 {
        return 32 + 16 * class;
    }
    let (doubling, step) = ((class - 7) / 4, (class - 7) % 4);
    (128 << doubling) / 4 * (5 + step)
}

/// The smallest class whose blocks hold `bytes`.
#[must_use]
pub fn class_for(bytes: usize) -> Option<usize> {
    if bytes > LARGEST_RECORD {
        return None;
    }
    if bytes <= block_bytes(6) {
        return Some(bytes.saturating_sub(32).div_ceil(16));
    }
    // The doubling that it is in, and the quarter of that.
    let doubling = ((bytes - 1) / 128).ilog2() as usize;
    let step = (bytes - (128 << doubling)).div_ceil(32 << doubling) - 1;
    Some(7 + doubling * 4 + step)
}

/// Bytes of a record with a key and a value of these lengths.
#[must_use]
pub const fn record_bytes(key: usize, value: usize) -> usize {
    RECORD_HEADER + key + value
}

/// The most bytes of heap that a record with a key and a value of these lengths takes, which are
/// what a READ fetches where its slot alone says how long it is. `None` of one larger than
/// [`LARGEST_RECORD`], which no heap holds.
#[must_use]
pub fn record_block_bytes(key: usize, value: usize) -> Option<usize> {
    class_for(record_bytes(key, value)).map(block_bytes)
}

/// Bytes of the record whose lengths are this word, the second one of its block: as it says, and
/// at most `most`.
#[inline]
pub(crate) const fn bytes_by_lengths(lengths: u64, most: usize) -> usize {
    let bytes = record_bytes(lengths as u32 as usize, (lengths >> 32) as usize);
    if bytes < most { bytes } else { most }
}

/// Writes a record into a buffer; its generation and checksum are set when it is
/// written into a block.
///
/// # Errors
/// Where the endpoint has no buffer of that size.
pub fn encode(pool: &BufferPool, key: &[u8], value: &[u8]) -> Result<Buffer> {
    let mut record = pool.take(record_bytes(key.len(), value.len()))?;
    fill(&mut record, key, value);
    Ok(record)
}

fn fill(record: &mut [u8], key: &[u8], value: &[u8]) {
    record[8..12].copy_from_slice(&(key.len() as u32).to_le_bytes());
    record[12..16].copy_from_slice(&(value.len() as u32).to_le_bytes());
    record[16..16 + key.len()].copy_from_slice(key);
    record[16 + key.len()..].copy_from_slice(value);
}

/// Gives an encoded record the generation of the block that it goes to, and its checksum.
pub(crate) fn seal(record: &mut Buffer, block: BlockRef) {
    let len = record.len();
    seal_words(record.words_mut(), len, block);
}

/// The same of a record of so many bytes.
fn seal_words(words: &mut [u64], len: usize, block: BlockRef) {
    let bytes: &[u8] = bytemuck::cast_slice(words);
    let sum = checksum(&bytes[8..len], block.generation);
    words[0] = u64::from(sum) | block.generation << 32;
}

/// A record that is to be written: into a block, or, without a header, into its slot.
pub(crate) struct NewRecord<'k> {
    pub(super) at: RemoteAddr,
    pub(super) block: Option<BlockRef>,
    pub(super) key: &'k [u8],
    pub(super) value: &'k [u8],
}

impl<'k> NewRecord<'k> {
    /// One that goes into its slot, from this byte on: the key's bytes, and the value's.
    pub(crate) const fn in_slot(at: RemoteAddr, (key, value): (&'k [u8], &'k [u8])) -> Self {
        Self {
            at,
            block: None,
            key,
            value,
        }
    }

    /// Where it is written: as many bytes as it has.
    pub(crate) const fn piece(&self) -> Piece {
        Piece {
            from: self.at,
            len: match self.block {
                Some(_) => record_bytes(self.key.len(), self.value.len()),
                None => self.key.len() + self.value.len(),
            },
        }
    }

    /// Its bytes, in a buffer.
    ///
    /// # Errors
    /// Where there is no buffer of that size.
    pub(crate) fn encode(&self, pool: &BufferPool) -> Result<Buffer> {
        let mut record = pool.take(self.piece().len)?;
        self.encode_in(record.words_mut());
        Ok(record)
    }

    /// The same at the start of words of which there are enough.
    #[inline]
    pub(crate) fn encode_in(&self, words: &mut [u64]) {
        let len = self.piece().len;
        let bytes = &mut bytemuck::cast_slice_mut(words)[..len];
        match self.block {
            Some(block) => {
                fill(bytes, self.key, self.value);
                seal_words(words, len, block);
            }
            None => {
                bytes[..self.key.len()].copy_from_slice(self.key);
                bytes[self.key.len()..].copy_from_slice(self.value);
            }
        }
    }
}

/// A record found whole in bytes that were read from its block.
pub(crate) struct RecordView<'b> {
    pub(crate) key: &'b [u8],
    pub(crate) value: &'b [u8],
    /// The byte at which the value starts.
    pub(crate) value_at: usize,
    /// Its first word.
    pub(crate) head: u64,
}

impl<'b> RecordView<'b> {
    /// Checks what was read from `block`; nothing if it is not the record of that use, or not
    /// whole.
    #[inline]
    pub(crate) fn decode(bytes: &'b [u8], block: BlockRef) -> Option<Self> {
        let (header, _) = bytes.split_at_checked(RECORD_HEADER)?;
        let (word, lengths) = (word_of(&header[..8]), word_of(&header[8..]));
        let (key, value) = (lengths as u32 as usize, (lengths >> 32) as usize);
        let value_at = RECORD_HEADER.checked_add(key)?;
        let end = value_at.checked_add(value)?;
        let fits = end <= bytes.len()
            && generation_by_head(word) == block.generation
            && word as u32 == checksum(&bytes[8..end], block.generation);
        fits.then(|| Self {
            key: &bytes[RECORD_HEADER..value_at],
            value: &bytes[value_at..end],
            value_at,
            head: word,
        })
    }

    /// Whether it was read since it was written.
    pub(super) const fn was_read(&self) -> bool {
        self.head & WAS_READ != 0
    }

    /// The value's bytes, in those of the block.
    pub(crate) fn value_range(&self) -> Range<usize> {
        self.value_at..self.value_at + self.value.len()
    }
}

/// A record that was read and found whole.
pub struct Record {
    buffer: Buffer,
    key: usize,
    value: usize,
}

impl Record {
    /// Checks what was read from `block`; nothing if it is not the record of that use, or not
    /// whole.
    #[must_use]
    pub fn decode(buffer: Buffer, block: BlockRef) -> Option<Self> {
        let RecordView { key, value, .. } = RecordView::decode(&buffer, block)?;
        let (key, value) = (key.len(), value.len());
        Some(Self { buffer, key, value })
    }

    /// The record in a piece that was fetched of its block, by the piece's number; nothing if it is
    /// not the record of that use, or not whole.
    ///
    /// # Errors
    /// Where there is no buffer for it.
    #[inline]
    pub(crate) fn fetched(
        fetched: &mut Fetched<'_>,
        piece: usize,
        block: BlockRef,
    ) -> Result<Option<Self>> {
        let bytes = bytes_by_lengths(fetched.word(piece, 1), fetched.bytes(piece));
        Ok(Self::decode(fetched.take(piece, bytes)?, block))
    }

    /// The record's key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.buffer[RECORD_HEADER..RECORD_HEADER + self.key]
    }

    /// The record's value.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        &self.buffer[RECORD_HEADER + self.key..RECORD_HEADER + self.key + self.value]
    }

    /// The record's bytes, in its block's buffer.
    pub(crate) fn into_buffer(self) -> Buffer {
        self.buffer
    }

    /// The record's value, without a copy.
    #[must_use]
    pub fn into_value(self) -> crate::Value {
        let start = RECORD_HEADER + self.key;
        crate::Value::of_buffer(self.buffer, start..start + self.value)
    }
}

/// The error for a record that no block holds.
pub(super) fn too_large(record_bytes: usize, heap_bytes: u64) -> IndexError {
    IndexError::HeapFull {
        record_bytes,
        heap_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn classes_grow_and_waste_little() {
        for class in 1..CLASSES {
            assert!(block_bytes(class) > block_bytes(class - 1));
            assert!(block_bytes(class).is_multiple_of(GRANULE as usize));
            assert!(block_bytes(class - 1) * 2 > block_bytes(class));
        }
        for bytes in 0..=40_000 {
            let smallest = (0..CLASSES).find(|class| block_bytes(*class) >= bytes);
            assert_eq!(class_for(bytes), smallest, "{bytes}");
        }
        for class in 0..CLASSES {
            let bytes = block_bytes(class);
            assert_eq!(class_for(bytes), Some(class));
            assert_eq!(class_for(bytes - 1), Some(class));
        }
        assert_eq!(class_for(LARGEST_RECORD + 1), None);
    }

    proptest! {
        #[test]
        fn references_survive_packing(granule in 0u64..1 << 34, generation in 0u64..1 << 11, class in 0usize..64) {
            let block = BlockRef { granule, generation, class };
            prop_assert!(block.pack() < 1 << BlockRef::BITS);
            prop_assert_eq!(BlockRef::unpack(block.pack() | 7 << 61), block);
        }

        #[test]
        fn any_flipped_bit_or_other_use_is_noticed(
            key in proptest::collection::vec(any::<u8>(), 1..20),
            value in proptest::collection::vec(any::<u8>(), 0..50),
            flip in any::<proptest::sample::Index>(),
        ) {
            let pool = BufferPool::new(1 << 12, 1 << 20);
            let block = BlockRef { granule: 9, generation: 5, class: 3 };
            let mut record = encode(&pool, &key, &value).unwrap();
            seal(&mut record, block);
            let copy = || pool.copy_of(&record).unwrap();
            let decoded = Record::decode(copy(), block).unwrap();
            prop_assert_eq!((decoded.key(), decoded.value()), (&key[..], &value[..]));
            let other = BlockRef { generation: 6, ..block };
            prop_assert!(Record::decode(copy(), other).is_none());
            let mut flipped = copy();
            let bit = flip.index(flipped.len() * 8);
            flipped[bit / 8] ^= 1 << (bit % 8);
            let is_hint = 1 << bit.min(63) == WAS_READ && bit < 64;
            prop_assert_eq!(Record::decode(flipped, block).is_none(), !is_hint);
        }
    }
}
