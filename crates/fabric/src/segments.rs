//! Regions that are made of segments of another: a table's memory that grows and shrinks while it
//! is used.
//!
//! ```text
//! list     | segment | segment | 0 | segment | ...     words in the region that has the segments
//! address  | number in the list | byte in the segment |
//! ```
//! All segments of a region have the same size, a power of two, and begin at multiples of it; a
//! segment's number is that of its place in the region that it lies in. What has no segment (0) has
//! no memory yet. An address says nothing of where a segment lies.

use crate::words::SharedWords;
use crate::{Piece, RegionId, RemoteAddr};
use std::ops::Range;

/// A region of a node that is made of segments of another one of its regions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segments {
    /// Its number: that of no region that the node has.
    pub region: RegionId,
    /// Bytes of all of its addresses.
    pub len: u64,
    /// Where the list begins, in the region that has the segments.
    pub list: RemoteAddr,
    /// The logarithm of a segment's bytes.
    pub shift: u32,
    /// Segments that lie before this byte are none, whatever the list says.
    pub least: u64,
}

impl Segments {
    /// Bytes of a segment.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        1 << self.shift
    }

    /// How many segments it has at most.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.len.div_ceil(self.bytes())
    }

    /// The numbers in the list of the segments that have so many bytes from `from` on; nothing if
    /// these are not the region's. A piece without bytes has the segment that it would begin in.
    #[inline]
    #[must_use]
    pub fn numbers(&self, Piece { from, len }: Piece) -> Option<Range<u64>> {
        let end = self.end_of(Piece { from, len })?;
        let last = end.saturating_sub(1).max(from.offset) >> self.shift;
        Some((from.offset >> self.shift)..last + 1)
    }

    /// The byte behind a piece; nothing if that is not the region's.
    #[inline]
    fn end_of(&self, Piece { from, len }: Piece) -> Option<u64> {
        let is_here = from.node == self.list.node && from.region == self.region;
        let end = from.offset.checked_add(len as u64)?;
        (is_here && end <= self.len).then_some(end)
    }

    /// Where the word of a segment stands.
    #[inline]
    #[must_use]
    pub const fn word_at(&self, number: u64) -> RemoteAddr {
        self.list.plus(number * 8)
    }

    /// The first byte of the segment that a word names, in the region that has it; nothing if it
    /// names none.
    #[inline]
    #[must_use]
    pub const fn start_of(&self, word: u64) -> Option<u64> {
        if word == 0 || word > u64::MAX >> self.shift {
            return None;
        }
        let start = word << self.shift;
        if start < self.least {
            None
        } else {
            Some(start)
        }
    }

    /// The byte of the region that has the segments at which a piece begins, if all of it lies in
    /// one place there. (Not inlined: otherwise loops over memory in one piece would compute its
    /// masks before each pass.)
    #[inline(never)]
    pub(crate) fn find(&self, piece: Piece, words: SharedWords<'_>) -> Option<u64> {
        let Piece { from, len } = piece;
        self.end_of(piece)?;
        let word = |number: u64| words.load((self.list.offset / 8 + number) as usize);
        let first = word(from.offset >> self.shift);
        let within = from.offset & (self.bytes() - 1);
        let start = self.start_of(first)? + within;
        // Most pieces lie in one segment.
        if len as u64 <= self.bytes() - within {
            return Some(start);
        }
        let numbers = self.numbers(piece)?;
        let is_next = |number| word(number) == first + (number - numbers.start);
        numbers.clone().all(is_next).then_some(start)
    }
}
