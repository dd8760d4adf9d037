//! The pieces of a step in the mapping, and one step on them.

use super::lookup::{Answer, Found, Lookup, MOST_PIECES, Next, Read, Reads, Swap};
use crate::{Result, Value};
use farslot_fabric::{Buffer, BufferPool, Endpoint, InPlace, Piece};
use std::ops::Range;

/// The largest values that an answer holds in itself.
const SMALL: usize = 8;
/// A value that takes less than this share of what was copied is copied out of it, so that who
/// keeps it does not keep the rest.
const SHARE: usize = 4;
/// So is one of more bytes: buffers are powers of two, and with its key and its lengths it may take
/// one of twice the size.
const MOST_KEPT: usize = 16 << 10;

/// The pieces of a step in the mapping.
pub(super) struct Mapped<'m> {
    pub(super) view: InPlace<'m>,
    /// The bytes of the region at which they start.
    pub(super) starts: [u64; MOST_PIECES],
    /// The piece and the bytes that were copied last.
    copied: (usize, Range<usize>),
    copy: Kept<'m>,
}

/// What was copied: into a buffer that the value may keep, or elsewhere if there is none.
struct Kept<'m> {
    pool: &'m BufferPool,
    buffer: Option<Buffer>,
    words: Vec<u64>,
}

impl Kept<'_> {
    /// Room for so many bytes.
    #[inline]
    fn room(&mut self, bytes: usize) -> &mut [u64] {
        let buffer = match self.buffer.take() {
            Some(used) => self.pool.take_again(used, bytes),
            None => self.pool.take(bytes),
        };
        match buffer {
            Ok(buffer) => self.buffer.insert(buffer).words_mut(),
            Err(_) => {
                self.words.resize(bytes.div_ceil(8), 0);
                &mut self.words
            }
        }
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        match &self.buffer {
            Some(buffer) => buffer,
            None => bytemuck::cast_slice(&self.words),
        }
    }

    /// Some of the bytes as a value: in their buffer, where they fill a good part of it.
    #[inline]
    fn value(&mut self, bytes: Range<usize>) -> Result<Value> {
        let all = self.bytes();
        let value = &all[bytes.clone()];
        if value.len() <= SMALL {
            return Ok(Value::of_word(crate::hash::word_of(value), value.len()));
        }
        let fills_it = value.len() * SHARE >= all.len() && all.len() <= MOST_KEPT;
        if let Some(buffer) = self.buffer.take_if(|_| fills_it) {
            return Ok(Value::of_buffer(buffer, bytes));
        }
        let buffer = self.pool.copy_of(&self.bytes()[bytes])?;
        let all = 0..buffer.len();
        Ok(Value::of_buffer(buffer, all))
    }
}

impl<'m> Mapped<'m> {
    #[inline]
    pub(super) fn new(view: InPlace<'m>, pool: &'m BufferPool) -> Self {
        Self {
            view,
            starts: [0; MOST_PIECES],
            copied: (0, 0..0),
            copy: Kept {
                pool,
                buffer: None,
                words: Vec::new(),
            },
        }
    }

    /// The value that was found.
    #[inline(always)]
    pub(super) fn value(&mut self, found: Found) -> Result<Value> {
        let (piece, bytes) = match found {
            Found::Word { word, len } => return Ok(Value::of_word(word, len)),
            Found::Value(value) => return Ok(*value),
            Found::Bytes { piece, bytes } => (piece, bytes),
        };
        let (copied, within) = &self.copied;
        debug_assert_eq!(*copied, piece, "a value is in what was copied last");
        let start = within.start;
        self.copy.value(bytes.start - start..bytes.end - start)
    }
}

impl Read for Mapped<'_> {
    #[inline(always)]
    fn words(&self, piece: usize) -> impl Fn(usize) -> u64 {
        self.view.words(self.starts[piece])
    }

    #[inline]
    fn bytes(&mut self, piece: usize, bytes: Range<usize>) -> &[u8] {
        let from = self.starts[piece] + bytes.start as u64;
        let room = self.copy.room(bytes.len());
        self.view.copy_out(from, bytes.len(), room);
        self.copied = (piece, bytes.clone());
        &self.copy.bytes()[..bytes.len()]
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
    let core = table.endpoint().core();
    let mut read = Mapped::new(view, &core.buffers);
    if !locate(table, key, search, reads, &mut read) {
        return None;
    }
    if is_new {
        let bytes = bytes_of(table, key, search, reads);
        core.counters
            .read_in_place(reads.pieces as u32, reads.gathered, bytes);
    }
    let next = table.look(key, search, &mut read);
    view.acquire();
    Some(match next {
        Next::Found(found) => Err(read.value(found).map(Some)),
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
    table.endpoint().core().counters.swap_in_place();
    Some(seen)
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
