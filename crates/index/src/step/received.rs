//! What verbs have read for a step.

use super::lookup::{ReadPieces, Reads, ValueLocation};
use crate::Value;
use farslot_fabric::{Buffer, Piece};
use std::ops::Range;

/// A value that takes less than this share of the buffer that it came in is copied out, so that who
/// keeps it does not keep the rest.
const SHARE: usize = 4;

/// The pieces of a step.
pub(super) enum ReceivedPieces {
    One(Buffer),
    /// Each in a buffer of its own.
    Apart(Vec<Buffer>),
    /// All in one, the pieces from these bytes on, each a multiple of 8.
    Gathered(Buffer, Vec<usize>),
}

impl ReceivedPieces {
    /// Pieces that were read by one request.
    pub(super) fn gathered(buffer: Buffer, pieces: impl Iterator<Item = Piece>) -> Self {
        let mut start = 0;
        let starts = pieces.map(|piece| {
            let from = start;
            start += piece.len.next_multiple_of(8);
            from
        });
        Self::Gathered(buffer, starts.collect())
    }

    /// The buffer of a piece, and where in it the piece starts.
    #[inline]
    fn buffer(&self, piece: usize) -> (&Buffer, usize) {
        match self {
            Self::One(buffer) => (buffer, 0),
            Self::Apart(buffers) => (&buffers[piece], 0),
            Self::Gathered(buffer, starts) => (buffer, starts[piece]),
        }
    }

    /// The value that was found, without a copy where it fills a good part of what was read.
    #[inline]
    pub(super) fn into_value(self, found: ValueLocation) -> Value {
        let (piece, bytes) = match found {
            ValueLocation::Word { word, len } => return Value::of_word(word, len),
            ValueLocation::Value(value) => return *value,
            ValueLocation::Bytes { piece, bytes } => (piece, bytes),
        };
        let (buffer, start) = self.buffer(piece);
        let range = start + bytes.start..start + bytes.end;
        if range.len() * SHARE < buffer.len() {
            return Value::from(&buffer[range]);
        }
        let buffer = match self {
            Self::One(buffer) | Self::Gathered(buffer, _) => buffer,
            Self::Apart(mut buffers) => buffers.swap_remove(piece),
        };
        Value::of_buffer(buffer, range)
    }
}

impl ReadPieces for ReceivedPieces {
    #[inline]
    fn words(&self, piece: usize) -> impl Fn(usize) -> u64 {
        let (buffer, start) = self.buffer(piece);
        let words = &buffer.words()[start / 8..];
        move |number| words[number]
    }

    #[inline]
    fn bytes(&mut self, piece: usize, bytes: Range<usize>) -> &[u8] {
        self.bytes_again(piece, bytes)
    }

    #[inline]
    fn bytes_again(&self, piece: usize, bytes: Range<usize>) -> &[u8] {
        let (buffer, start) = self.buffer(piece);
        &buffer[start + bytes.start..start + bytes.end]
    }
}

impl Reads {
    /// The verbs that read them.
    #[inline(always)]
    pub(super) const fn verbs(self) -> u32 {
        if self.gathered { 1 } else { self.pieces as u32 }
    }

    /// The numbers of the pieces.
    #[inline]
    pub(super) fn numbers(self) -> Range<usize> {
        0..self.pieces
    }
}
