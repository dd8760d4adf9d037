//! A look at mapped memory: the view, what is booked of it, and memory of the client's own, which
//! one operation hands on to the next.

use crate::Value;
use crate::answers::kept_bytes;
use crate::heap::NewRecord;
use farslot_fabric::{EndpointCore, InPlace, Tally};
use std::ops::Range;

/// The most pieces that one step may want to have read.
pub(crate) const MOST_PIECES: usize = 32;

/// Words that there is room for at first.
const COPIED: usize = 32;

/// The most words of values that are kept.
const MOST_KEPT: usize = 1 << 17;

/// The pieces of a step in the mapping.
pub(crate) struct Mapped<'m> {
    pub(super) view: InPlace<'m>,
    /// What is booked, and not counted yet.
    pub(super) tally: Tally,
    /// The piece and the bytes that were copied last, and these: behind those that are kept.
    pub(super) copied: (usize, Range<usize>),
    pub(super) scratch: Scratch,
}

/// Memory for the looks at a mapping, which one operation hands on to the next.
pub(super) struct Scratch {
    /// The bytes of the region at which the pieces start: [`MOST_PIECES`].
    pub(super) starts: Vec<u64>,
    /// Words that were copied out: those of values that are kept, so many, come first.
    words: Vec<u64>,
    kept: usize,
}

impl Scratch {
    /// That which the last operation has given back.
    #[inline]
    pub(super) fn of(core: &EndpointCore) -> Self {
        let [mut starts, mut words] = core.scratch.take();
        if starts.is_empty() {
            starts.resize(MOST_PIECES, 0);
            words.resize(COPIED, 0);
        }
        Self {
            starts,
            words,
            kept: 0,
        }
    }

    /// Gives it back, unless it is large.
    #[inline]
    pub(super) fn give_back(self, core: &EndpointCore) {
        if self.words.len() <= MOST_KEPT {
            core.scratch.set([self.starts, self.words]);
        }
    }

    /// The bytes of the values that are kept.
    #[inline]
    pub(super) fn kept(&self) -> &[u8] {
        bytemuck::cast_slice(&self.words[..self.kept])
    }

    /// Keeps none any more.
    #[inline]
    pub(super) const fn forget(&mut self) {
        self.kept = 0;
    }

    /// What was copied last.
    #[inline(always)]
    pub(super) fn last(&self) -> &[u8] {
        bytemuck::cast_slice(&self.words[self.kept..])
    }

    /// Room for so many words more.
    #[inline(always)]
    pub(super) fn room(&mut self, words: usize) -> &mut [u64] {
        let end = self.kept + words;
        if end > self.words.len() {
            self.words.resize(end.max(2 * self.words.len()), 0);
        }
        &mut self.words[self.kept..end]
    }
}

impl<'m> Mapped<'m> {
    #[inline]
    pub(super) fn new(view: InPlace<'m>, scratch: Scratch) -> Self {
        Self {
            view,
            tally: Tally::default(),
            copied: (0, 0..0),
            scratch,
        }
    }

    /// What is booked, and the memory.
    #[inline]
    pub(super) fn into_parts(self) -> (Tally, Scratch) {
        (self.tally, self.scratch)
    }

    /// Takes a piece to start at this byte of the region.
    #[inline(always)]
    pub(super) fn set_start(&mut self, piece: usize, start: u64) {
        self.scratch.starts[piece] = start;
    }

    /// Keeps some of the bytes that were copied last until they are told: their first byte among
    /// [those that are kept](Scratch::kept), and in the low half how many. Nothing where too much
    /// is kept already.
    #[inline(always)]
    pub(super) fn keep(&mut self, bytes: Range<usize>) -> Option<u64> {
        let (_, within) = &self.copied;
        let start = self.scratch.kept * 8 + bytes.start - within.start;
        self.scratch.kept += within.len().div_ceil(8);
        let has_room = self.scratch.kept <= MOST_KEPT;
        if !has_room {
            self.scratch.kept -= within.len().div_ceil(8);
        }
        has_room.then_some((start as u64) << 32 | bytes.len() as u64)
    }

    /// A copy of what is kept so.
    pub(super) fn kept_value(&self, kept: u64) -> Value {
        Value::from(kept_bytes(self.scratch.kept(), kept))
    }

    /// Writes a record: its bytes, or nothing where they are not in the mapping.
    #[inline]
    pub(super) fn write(&mut self, record: &NewRecord<'_>) -> Option<u64> {
        let piece = record.piece();
        let at = self.view.offset_of(piece)?;
        let words = self.scratch.room(piece.len.div_ceil(8));
        record.encode_in(words);
        self.view.write(at, piece.len, words);
        self.tally.write(piece.len as u64);
        Some(piece.len as u64)
    }
}
