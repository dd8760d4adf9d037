//! One look at a key's slots: where its record may be, and where there is room for it.

use super::buckets::{Buckets, CHUNKS};
use super::client::{Key, RaceTable};
use super::directory::Leaf;
use super::view::{Attempts, View};
use super::word::{State, Word};
use crate::Result;
use farslot_fabric::{Change, Endpoint, EndpointExt, Fetched, Piece, Pieces};
use smallvec::SmallVec;
use std::ops::Range;

/// A slot and its word.
pub(super) type Placed = (u64, Word);

/// Slots with a key's tag. (With 32 slots and 8 bits one key in ten meets a second.)
pub(super) type Marked = SmallVec<[Placed; 2]>;

/// What was seen, or a view of the slots if that is not all there is to know.
pub(super) type Looked = std::result::Result<Seen, View>;

/// What was seen of a key's slots, all of which are settled: of the depth that the directory has,
/// and without a record on its way to another subtable.
pub(super) struct Seen {
    pub(super) leaf: Leaf,
    /// Those with the key's tag that are live, or in which an insertion has begun.
    pub(super) marked: Marked,
    /// Whether an insertion has begun in any of them.
    pub(super) has_begun: bool,
    /// Which are in use, a bit each, chunk by chunk: the last word's of a chunk is the lowest.
    used: [u64; CHUNKS],
}

impl Seen {
    fn nothing(leaf: Leaf) -> Self {
        Self {
            leaf,
            marked: Marked::new(),
            has_begun: false,
            used: [0; CHUNKS],
        }
    }

    /// Looks through the words of a key's slots, with a few instructions for each and no branch;
    /// nothing if an insertion has begun in any of them, or some are not settled.
    #[inline]
    fn quick(fetched: &Fetched<'_>, leaf: Leaf, key: &Key<'_>) -> Option<Self> {
        let mut seen = Self::nothing(leaf);
        let wanted = Word::live(leaf.depth, key.tag);
        let mut differing = 0;
        for (chunk, of_chunk) in key.buckets.chunks().zip(&mut seen.used) {
            let (mut live, mut used, mut differs) = (0u64, 0, 0);
            fetched.words(chunk.piece, chunk.words.clone(), |word| {
                differs |= word ^ wanted.0;
                live = (live << 1) + u64::from(wanted.is_but_for_block(word));
                // Quiet words are live or empty.
                used = (used << 1) + (word >> 63);
            });
            *of_chunk = used;
            differing |= differs;
            while live != 0 {
                let number = chunk.words.end - 1 - live.trailing_zeros() as usize;
                live &= live - 1;
                // In memory that is mapped it may be another by now.
                let word = fetched.word(chunk.piece, number);
                if !wanted.is_but_for_block(word) {
                    return None;
                }
                seen.marked.push((chunk.slot_of(number), Word(word)));
            }
        }
        Word::are_quiet(differing).then_some(seen)
    }

    /// Looks through the words of a key's slots; nothing if some are not settled.
    fn thorough(fetched: &Fetched<'_>, leaf: Leaf, key: &Key<'_>) -> Option<Self> {
        let mut seen = Self::nothing(leaf);
        let mut unsettled = 0;
        for (chunk, used) in key.buckets.chunks().zip(&mut seen.used) {
            let mut number = chunk.words.start;
            fetched.words(chunk.piece, chunk.words.clone(), |word| {
                let word = Word(word);
                unsettled |= word.unsettled_at(leaf.depth);
                let state = word.state();
                if matches!(state, State::Live | State::Begun) && word.tag() == key.tag {
                    seen.marked.push((chunk.slot_of(number), word));
                }
                *used = (*used << 1) + u64::from(state != State::Empty);
                seen.has_begun |= state == State::Begun;
                number += 1;
            });
        }
        (unsettled == 0).then_some(seen)
    }

    /// The slot that a new key goes to.
    pub(super) fn empty_slot(&self, buckets: &Buckets) -> Option<u64> {
        buckets.empty_slot(|slots| self.empty_in(buckets, slots))
    }

    /// How many of a bucket's slots are empty, and the first of them.
    fn empty_in(&self, buckets: &Buckets, slots: Range<u64>) -> (u64, Option<u64>) {
        for (chunk, used) in buckets.chunks().zip(self.used) {
            let (from, to) = (
                chunk.slot_of(chunk.words.start),
                chunk.slot_of(chunk.words.end),
            );
            if !(from..to).contains(&slots.start) {
                continue;
            }
            // A bucket lies in one chunk: the last of its slots has the lowest of its bits.
            let bits = slots.end - slots.start;
            let empty = !used >> (to - slots.end) & ((1 << bits) - 1);
            let first = (empty != 0).then(|| slots.end - 1 - u64::from(empty.ilog2()));
            return (u64::from(empty.count_ones()), first);
        }
        (0, None)
    }
}

impl<E: Endpoint> RaceTable<E> {
    /// The spans of a key's slots in a leaf.
    #[inline]
    pub(super) fn pieces(&self, leaf: Leaf, key: &Key<'_>) -> impl Iterator<Item = Piece> {
        let spans = key.buckets.each_span();
        spans.map(move |span| self.piece_of(leaf.subtable, span.first, span.slots))
    }

    /// Makes a change, and with it looks at a key's slots in a leaf. The innermost error is a view of
    /// them, if they are not settled, or the leaf has been split as this client knows.
    #[inline(always)]
    pub(super) fn change_and_look_at(
        &self,
        change: Change,
        leaf: Leaf,
        key: &Key<'_>,
    ) -> impl Future<Output = farslot_fabric::Result<(u64, farslot_fabric::Result<Result<Looked>>)>>
    {
        let mut pieces = Pieces::new();
        for piece in self.pieces(leaf, key) {
            pieces.push(piece);
        }
        let look = move |fetched: &mut Fetched<'_>| {
            let seen = Seen::quick(fetched, leaf, key);
            let seen = seen.or_else(|| Seen::thorough(fetched, leaf, key));
            match seen.filter(|_| self.directory.borrow().leaf(leaf.subtable) == leaf) {
                Some(seen) => Ok(Ok(seen)),
                None => Ok(Err(View::taken(fetched, leaf, key)?)),
            }
        };
        self.endpoint.change_and_look(change, pieces, look)
    }

    /// The key's slots, for an operation that writes: no split has still to come to any of them.
    pub(super) async fn current(&self, key: &Key<'_>, attempts: &Attempts) -> Result<Seen> {
        loop {
            let leaf = self.leaf_of(key);
            let looking = self.change_and_look_at(Change::default(), leaf, key);
            match looking.await?.1?? {
                Ok(seen) => return Ok(seen),
                // Boxed, for it is rare: every write would be as large.
                Err(view) => Box::pin(self.make_current(view, key, attempts)).await?,
            }
        }
    }
}
