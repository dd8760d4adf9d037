//! The pieces of a step in the mapping, and one step on them.

use super::lookup::{Answer, Found, Lookup, MOST_PIECES, Next, Read, Reads, Swap};
use crate::hash::word_of;
use crate::{Result, Value};
use farslot_fabric::{BufferPool, Endpoint, InPlace, Piece, Steps, Tally};
use smallvec::SmallVec;
use std::ops::Range;

/// The largest values that an answer holds in itself.
const SMALL: usize = 8;

/// Words that are copied without an allocation.
const COPIED: usize = 32;

/// The pieces of a step in the mapping.
pub(super) struct Mapped<'m> {
    pub(super) view: InPlace<'m>,
    /// The bytes of the region at which they start.
    pub(super) starts: [u64; MOST_PIECES],
    /// The piece and the bytes that were copied last, and these: at the start of the copy.
    copied: (usize, Range<usize>),
    copy: SmallVec<[u64; COPIED]>,
}

impl<'m> Mapped<'m> {
    #[inline]
    pub(super) fn new(view: InPlace<'m>) -> Self {
        Self {
            view,
            starts: [0; MOST_PIECES],
            copied: (0, 0..0),
            copy: SmallVec::from_buf([0; COPIED]),
        }
    }

    /// The value that was found as the first bytes of a word, if it has no more: the word, and how
    /// many.
    #[inline(always)]
    pub(super) fn small(&self, found: &Found) -> Option<(u64, usize)> {
        match found {
            Found::Word { word, len } => Some((*word, *len)),
            Found::Bytes { bytes, .. } if bytes.len() <= SMALL => {
                let start = bytes.start - self.copied.1.start;
                let copy: &[u8] = bytemuck::cast_slice(&self.copy);
                // There is more behind it, as the copy has room for more than any small record.
                match copy[start..].first_chunk() {
                    Some(word) => Some((u64::from_le_bytes(*word), bytes.len())),
                    None => Some((word_of(&copy[start..]), bytes.len())),
                }
            }
            _ => None,
        }
    }

    /// The value that was found.
    pub(super) fn value(&self, found: Found, pool: &BufferPool) -> Result<Value> {
        if let Some((word, len)) = self.small(&found) {
            return Ok(Value::of_word(word, len));
        }
        let (piece, bytes) = match found {
            Found::Word { word, len } => return Ok(Value::of_word(word, len)),
            Found::Value(value) => return Ok(*value),
            Found::Bytes { piece, bytes } => (piece, bytes),
        };
        let (copied, within) = &self.copied;
        debug_assert_eq!(*copied, piece, "a value is in what was copied last");
        let copy: &[u8] = bytemuck::cast_slice(&self.copy);
        let value = &copy[bytes.start - within.start..bytes.end - within.start];
        Value::copied(value, pool)
    }
}

impl Read for Mapped<'_> {
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
        let words = bytes.len().div_ceil(8);
        if words > self.copy.len() {
            self.copy.resize(words, 0);
        }
        let from = self.starts[piece] + bytes.start as u64;
        let copy = &mut self.copy[..words];
        self.view.copy_out(from, bytes.len(), copy);
        let len = bytes.len();
        self.copied = (piece, bytes);
        &bytemuck::cast_slice(copy)[..len]
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
) -> Option<std::result::Result<Next<L::Aside>, Answer>> {
    let view = table.in_place()?;
    let mut read = Mapped::new(view);
    if !locate(table, key, search, reads, &mut read) {
        return None;
    }
    let core = table.endpoint().core();
    if is_new {
        let (mut tally, mut steps) = (Tally::default(), Steps::default());
        book(
            &mut tally,
            &mut steps,
            reads,
            bytes_of(table, key, search, reads),
        );
        core.counters.done_in_place(tally, steps);
    }
    let next = table.look(key, search, &mut read);
    view.acquire();
    Some(match next {
        Next::Found(found) => Err(read.value(found, &core.buffers).map(Some)),
        next => Ok(next),
    })
}

/// Swaps a word, booked to the operation that runs; nothing where it is not in memory. Else what
/// the word had.
#[inline(always)]
pub(super) fn swap<L: Lookup>(table: &L, swap: Swap) -> Option<u64> {
    let view = table.in_place()?;
    let word = Piece {
        from: swap.at,
        len: 8,
    };
    let seen = view.compare_swap(view.offset_of(word)?, swap.expected, swap.new);
    let (mut tally, mut steps) = (Tally::default(), Steps::default());
    tally.swap();
    steps.swap();
    table.endpoint().core().counters.done_in_place(tally, steps);
    Some(seen)
}

/// Books the READs of a step, of so many bytes.
#[inline(always)]
pub(super) fn book(tally: &mut Tally, steps: &mut Steps, reads: Reads, bytes: u64) {
    if reads.gathered {
        tally.gather();
    }
    steps.read(reads.verbs(), bytes);
}

/// Bytes of the pieces of a step.
#[inline(always)]
pub(super) fn bytes_of<L: Lookup>(
    table: &L,
    key: &L::Key<'_>,
    search: &L::Search,
    reads: Reads,
) -> u64 {
    let lengths = reads
        .numbers()
        .map(|of| table.piece(key, search, of).len as u64);
    lengths.sum()
}

/// Finds the pieces of a step in the mapping; false if one is not there.
#[inline(always)]
pub(super) fn locate<L: Lookup>(
    table: &L,
    key: &L::Key<'_>,
    search: &L::Search,
    reads: Reads,
    read: &mut Mapped<'_>,
) -> bool {
    reads.numbers().all(|number| {
        let start = read.view.offset_of(table.piece(key, search, number));
        start.is_some_and(|start| {
            read.starts[number] = start;
            true
        })
    })
}
