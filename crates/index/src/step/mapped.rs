//! The pieces of a step in the mapping, and one step on them.

use super::lookup::{
    Answer, Booked, Change, Lookup, MOST_PIECES, NextStep, ReadPieces, Reads, ValueLocation,
};
use crate::answers::kept_bytes;
use crate::heap::NewRecord;
use crate::{Result, Value};
use farslot_fabric::{BufferPool, Endpoint, InPlace, Piece, Steps, Tally};
use smallvec::SmallVec;
use std::ops::Range;

/// Words that are copied without an allocation.
const COPIED: usize = 32;

/// The most words of values that are kept.
const MOST_KEPT: usize = 1 << 17;

/// The pieces of a step in the mapping.
pub(crate) struct Mapped<'m> {
    pub(super) view: InPlace<'m>,
    /// The bytes of the region at which they start.
    pub(super) starts: [u64; MOST_PIECES],
    /// What is booked, and not counted yet.
    pub(super) tally: Tally,
    /// The piece and the bytes that were copied last, and these: behind those that are kept.
    copied: (usize, Range<usize>),
    copies: Copies,
}

/// Words that were copied out of the mapping: those of values that are kept, so many, come first.
pub(super) struct Copies {
    words: SmallVec<[u64; COPIED]>,
    kept: usize,
}

impl Default for Copies {
    fn default() -> Self {
        Self {
            words: SmallVec::from_buf([0; COPIED]),
            kept: 0,
        }
    }
}

impl Copies {
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
    fn last(&self) -> &[u8] {
        bytemuck::cast_slice(&self.words[self.kept..])
    }

    /// Room for so many words more.
    #[inline(always)]
    fn room(&mut self, words: usize) -> &mut [u64] {
        let end = self.kept + words;
        if end > self.words.len() {
            self.words.resize(end.max(2 * self.words.len()), 0);
        }
        &mut self.words[self.kept..end]
    }
}

impl<'m> Mapped<'m> {
    #[inline]
    pub(super) fn new(view: InPlace<'m>) -> Self {
        Self::with(view, Copies::default())
    }

    /// The same beside what is kept.
    #[inline]
    pub(super) fn with(view: InPlace<'m>, copies: Copies) -> Self {
        Self {
            view,
            starts: [0; MOST_PIECES],
            tally: Tally::default(),
            copied: (0, 0..0),
            copies,
        }
    }

    /// What was copied, and what is booked.
    #[inline]
    pub(super) fn into_parts(self) -> (Copies, Tally) {
        (self.copies, self.tally)
    }

    /// Keeps some of the bytes that were copied last until they are told: their first byte among
    /// [those that are kept](Copies::kept), and in the low half how many. Nothing where too much is
    /// kept already.
    #[inline(always)]
    pub(super) fn keep(&mut self, bytes: Range<usize>) -> Option<u64> {
        let (_, within) = &self.copied;
        let start = self.copies.kept * 8 + bytes.start - within.start;
        self.copies.kept += within.len().div_ceil(8);
        let has_room = self.copies.kept <= MOST_KEPT;
        if !has_room {
            self.copies.kept -= within.len().div_ceil(8);
        }
        has_room.then_some((start as u64) << 32 | bytes.len() as u64)
    }

    /// A copy of what is kept so.
    pub(super) fn kept_value(&self, kept: u64, pool: &BufferPool) -> Result<Value> {
        Value::copied(kept_bytes(self.copies.kept(), kept), pool)
    }

    /// The value that was found.
    pub(super) fn value(&self, found: ValueLocation, pool: &BufferPool) -> Result<Value> {
        let (piece, bytes) = match found {
            ValueLocation::Word { word, len } => return Ok(Value::of_word(word, len)),
            ValueLocation::Value(value) => return Ok(*value),
            ValueLocation::Bytes { piece, bytes } => (piece, bytes),
        };
        Value::copied(self.bytes_again(piece, bytes), pool)
    }
}

impl Mapped<'_> {
    /// Makes a change behind which pieces of so many bytes are read, which are [located](locate),
    /// and looks at what came of it; nothing where what it reaches is not in the mapping, and then
    /// nothing is changed.
    #[inline(always)]
    pub(super) fn change_and_look<L: Lookup>(
        &mut self,
        table: &L,
        key: &L::Key<'_>,
        search: &mut L::Search,
        (reads, bytes): (Reads, u64),
        steps: &mut Steps,
    ) -> Option<NextStep<L::SlowPath>> {
        let (seen, count, changed) = match L::MAKES_CHANGES {
            true => {
                let (count, bytes) = table.make(search, self.view, &mut self.tally)?;
                (0, count, bytes)
            }
            false => self.make(&table.change(key, search))?,
        };
        steps.read(count + reads.verbs(), changed + bytes);
        let next = table.changed(key, search, seen, self);
        self.view.acquire();
        Some(next)
    }

    /// Makes a change: what the word was that is swapped, and the verbs that it stands for, with
    /// their bytes.
    #[inline(always)]
    fn make(&mut self, change: &Change<'_>) -> Option<(u64, u32, u64)> {
        let word = match &change.swap {
            Some(swap) => Some((
                self.view.offset_of(Piece {
                    from: swap.at,
                    len: 8,
                })?,
                swap,
            )),
            None => None,
        };
        let (mut seen, mut count, mut bytes) = (0, 0, 0);
        if let Some(record) = &change.record {
            (count, bytes) = (1, self.write(record)?);
        }
        if let Some((at, swap)) = word {
            seen = self.view.compare_swap(at, swap.expected, swap.new);
            self.tally.swap();
            (count, bytes) = (count + 1, bytes + 8);
        }
        Some((seen, count, bytes))
    }

    /// Writes a record: its bytes, or nothing where they are not in the mapping.
    #[inline]
    pub(super) fn write(&mut self, record: &NewRecord<'_>) -> Option<u64> {
        let piece = record.piece();
        let at = self.view.offset_of(piece)?;
        let words = self.copies.room(piece.len.div_ceil(8));
        record.encode_in(words);
        self.view.write(at, piece.len, words);
        self.tally.write(piece.len as u64);
        Some(piece.len as u64)
    }
}

impl ReadPieces for Mapped<'_> {
    const IS_LIVE: bool = true;

    #[inline(always)]
    fn words(&self, piece: usize) -> impl Fn(usize) -> u64 {
        self.view.words(self.starts[piece])
    }

    #[inline(always)]
    fn each_word(&self, piece: usize, count: usize, each: impl FnMut(u64)) {
        self.view.each_word(self.starts[piece], count, each);
    }

    #[inline(always)]
    fn bytes(&mut self, piece: usize, bytes: Range<usize>) -> &[u8] {
        let from = self.starts[piece] + bytes.start as u64;
        let copy = self.copies.room(bytes.len().div_ceil(8));
        self.view.copy_out(from, bytes.len(), copy);
        let len = bytes.len();
        self.copied = (piece, bytes);
        &bytemuck::cast_slice(copy)[..len]
    }

    #[inline(always)]
    fn bytes_again(&self, piece: usize, bytes: Range<usize>) -> &[u8] {
        let (copied, within) = &self.copied;
        debug_assert_eq!(*copied, piece, "they are in what was copied last");
        &self.copies.last()[bytes.start - within.start..bytes.end - within.start]
    }

    #[inline(always)]
    fn has_bytes(&mut self, piece: usize, at: usize, bytes: &[u8]) -> bool {
        self.view.has_bytes(self.starts[piece] + at as u64, bytes)
    }
}

/// Does one step of a lookup, booked to the operation that runs; nothing where its pieces are not
/// in memory. What was found is the error. What is looked at once more is not booked.
#[inline(always)]
pub(super) fn step<L: Lookup>(
    table: &L,
    key: &L::Key<'_>,
    search: &mut L::Search,
    reads: Reads,
    is_new: bool,
) -> Option<std::result::Result<NextStep<L::SlowPath>, Answer>> {
    let view = table.in_place()?;
    let mut read = Mapped::new(view);
    let bytes = locate(table, key, search, reads, &mut read)?;
    let core = table.endpoint().core();
    if is_new {
        let mut steps = Steps::default();
        book(&mut read.tally, &mut steps, reads, bytes);
        core.counters.done_in_place(read.tally, steps);
    }
    let next = table.look(key, search, &mut read);
    view.acquire();
    // There is no other time for it.
    table.while_waiting();
    Some(match next {
        NextStep::Found(found) => Err(read.value(found, &core.buffers).map(Some)),
        next => Ok(next),
    })
}

/// Makes a change and looks at what came of it, booked to the operation that runs; nothing where
/// what it reaches is not in memory.
#[inline(always)]
pub(super) fn change<L: Lookup>(
    table: &L,
    key: &L::Key<'_>,
    search: &mut L::Search,
    reads: Reads,
) -> Option<NextStep<L::SlowPath>> {
    let mut read = Mapped::new(table.in_place()?);
    let bytes = locate(table, key, search, reads, &mut read)?;
    let mut steps = Steps::default();
    let next = read.change_and_look(table, key, search, (reads, bytes), &mut steps)?;
    let core = table.endpoint().core();
    core.counters.done_in_place(read.tally, steps);
    Some(next)
}

/// Books the READs of a step, of so many bytes.
#[inline(always)]
pub(super) fn book(tally: &mut Tally, steps: &mut Steps, reads: Reads, bytes: u64) {
    if reads.gathered {
        tally.gather();
    }
    match reads.booked {
        Booked::Apart => steps.read(reads.verbs(), bytes),
        Booked::WithLast => steps.beside(reads.verbs(), bytes),
        Booked::Fetched => {}
    }
}

/// Finds the pieces of a step in the mapping, and has the processor fetch them, so that they are
/// fetched side by side.
#[inline(always)]
pub(super) fn locate_and_prefetch<L: Lookup>(
    table: &L,
    key: &L::Key<'_>,
    search: &L::Search,
    reads: Reads,
    read: &mut Mapped<'_>,
) -> Option<u64> {
    let bytes = locate(table, key, search, reads, read)?;
    if reads.pieces > 1 || L::WRITES && reads.pieces > 0 {
        let likely = table.likely_bytes(search, bytes as usize / reads.pieces);
        for start in &read.starts[..reads.pieces] {
            read.view.prefetch(*start, likely);
        }
    }
    Some(bytes)
}

/// Finds the pieces of a step in the mapping; their bytes, or nothing if one is not there.
#[inline(always)]
pub(super) fn locate<L: Lookup>(
    table: &L,
    key: &L::Key<'_>,
    search: &L::Search,
    reads: Reads,
    read: &mut Mapped<'_>,
) -> Option<u64> {
    let mut bytes = 0;
    for number in reads.numbers() {
        let piece = table.piece(key, search, number);
        read.starts[number] = read.view.offset_of(piece)?;
        bytes += piece.len as u64;
    }
    Some(bytes)
}
