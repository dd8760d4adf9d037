//! Records of a heap among the pieces of a step.

use super::lookup::ReadPieces;
use crate::heap::{BlockRef, RecordView, bytes_by_lengths, generation_by_head, record_bytes};

/// The record in a piece that was read of its block, of so many bytes; nothing if it is not the
/// record of that use, or not whole.
#[inline(always)]
pub(crate) fn record_in(
    read: &mut impl ReadPieces,
    piece: usize,
    block: BlockRef,
    len: usize,
) -> Option<RecordView<'_>> {
    let bytes = bytes_by_lengths(read.word(piece, 1), len);
    RecordView::decode(read.bytes(piece, 0..bytes), block)
}

/// Whether the record in such a piece has this key, as far as can be told without its checksum.
#[inline(always)]
pub(crate) fn has_key(
    read: &mut impl ReadPieces,
    piece: usize,
    block: BlockRef,
    len: usize,
    key: &[u8],
) -> bool {
    let words = read.words(piece);
    let (first, lengths) = (words(0), words(1));
    drop(words);
    record_bytes(key.len(), 0) <= len
        && generation_by_head(first) == block.generation
        && lengths as u32 as usize == key.len()
        && read.has_bytes(piece, record_bytes(0, 0), key)
}
