//! The pieces of a step in the mapping, and one step on them.

use super::lookup::{Answer, Change, Counted, Lookup, NextStep, ReadPieces, Reads, ValueLocation};
use super::scratch::{Mapped, Scratch};
use crate::Value;
use farslot_fabric::{Endpoint, Piece, Steps, Tally};
use std::ops::Range;

impl Mapped<'_> {
    /// The value that was found.
    pub(super) fn value(&self, found: ValueLocation) -> Value {
        let (piece, bytes) = match found {
            ValueLocation::Word { word, len } => return Value::of_word(word, len),
            ValueLocation::Value(value) => return *value,
            ValueLocation::Bytes { piece, bytes } => (piece, bytes),
        };
        Value::from(self.bytes_again(piece, bytes))
    }

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
}

impl ReadPieces for Mapped<'_> {
    const IS_LIVE: bool = true;

    #[inline(always)]
    fn words(&self, piece: usize) -> impl Fn(usize) -> u64 {
        self.view.words(self.scratch.starts[piece])
    }

    #[inline(always)]
    fn each_word(&self, piece: usize, count: usize, each: impl FnMut(u64)) {
        self.view.each_word(self.scratch.starts[piece], count, each);
    }

    #[inline(always)]
    fn bytes(&mut self, piece: usize, bytes: Range<usize>) -> &[u8] {
        let from = self.scratch.starts[piece] + bytes.start as u64;
        let copy = self.scratch.room(bytes.len().div_ceil(8));
        self.view.copy_out(from, bytes.len(), copy);
        let len = bytes.len();
        self.copied = (piece, bytes);
        &bytemuck::cast_slice(copy)[..len]
    }

    #[inline(always)]
    fn bytes_again(&self, piece: usize, bytes: Range<usize>) -> &[u8] {
        let (copied, within) = &self.copied;
        debug_assert_eq!(*copied, piece, "they are in what was copied last");
        &self.scratch.last()[bytes.start - within.start..bytes.end - within.start]
    }

    #[inline(always)]
    fn has_bytes(&mut self, piece: usize, at: usize, bytes: &[u8]) -> bool {
        self.view
            .has_bytes(self.scratch.starts[piece] + at as u64, bytes)
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
    let (view, core) = (table.in_place()?, table.endpoint().core());
    let mut read = Mapped::new(view, Scratch::of(core));
    let bytes = locate(table, key, search, reads, &mut read)?;
    if is_new {
        let mut steps = Steps::default();
        book(&mut read.tally, &mut steps, reads, bytes);
        core.counters.done_in_place(read.tally, steps);
    }
    let next = table.look(key, search, &mut read);
    view.acquire();
    // There is no other time for it.
    table.while_waiting();
    let next = match next {
        NextStep::Found(found) => Err(Ok(Some(read.value(found)))),
        next => Ok(next),
    };
    read.scratch.give_back(core);
    Some(next)
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
    let (view, core) = (table.in_place()?, table.endpoint().core());
    let mut read = Mapped::new(view, Scratch::of(core));
    let bytes = locate(table, key, search, reads, &mut read)?;
    let mut steps = Steps::default();
    let next = read.change_and_look(table, key, search, (reads, bytes), &mut steps)?;
    core.counters.done_in_place(read.tally, steps);
    read.scratch.give_back(core);
    Some(next)
}

/// Books the READs of a step, of so many bytes.
#[inline(always)]
pub(super) fn book(tally: &mut Tally, steps: &mut Steps, reads: Reads, bytes: u64) {
    if reads.gathered {
        tally.gather();
    }
    match reads.counted {
        Counted::Apart => steps.read(reads.verbs(), bytes),
        Counted::WithLast => steps.add_to_step(reads.verbs(), bytes),
        Counted::Fetched => {}
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
        for start in &read.scratch.starts[..reads.pieces] {
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
        read.set_start(number, read.view.offset_of(piece)?);
        bytes += piece.len as u64;
    }
    Some(bytes)
}
