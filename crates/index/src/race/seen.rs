//! One look at a key's slots: where its record may be, and where there is room for it.

use super::buckets::Buckets;
use super::client::{Key, RaceTable};
use super::directory::Leaf;
use super::view::{Attempts, View};
use super::word::{Met, State, Word};
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
    /// Which are empty, a bit each, in the order in which they were read.
    empty: u128,
}

impl Seen {
    /// Looks through the words of a key's slots; nothing if some are not settled.
    #[inline]
    fn of(fetched: &Fetched<'_>, leaf: Leaf, key: &Key<'_>) -> Option<Self> {
        Self::of_quiet(fetched, leaf, key).or_else(|| Self::of_any(fetched, leaf, key))
    }

    fn nothing(leaf: Leaf) -> Self {
        Self {
            leaf,
            marked: Marked::new(),
            has_begun: false,
            empty: 0,
        }
    }

    /// The same, where nothing is under way in the slots and no span has several of the key's tag.
    #[inline]
    fn of_quiet(fetched: &Fetched<'_>, leaf: Leaf, key: &Key<'_>) -> Option<Self> {
        let mut seen = Self::nothing(leaf);
        let mut before = 0;
        for (piece, span) in key.buckets.each_span().enumerate() {
            let slots = span.slots as usize;
            let mut met = Met::nothing(Word::live(leaf.depth, key.tag));
            // A bit each, the last word's the lowest.
            let mut empty = 0_u64;
            fetched.words(piece, 0..slots, |word| {
                met.word(word);
                empty = empty << 1 | u64::from(Word(word).state() == State::Empty);
            });
            if let Some((number, word)) = met.quiet_among(slots)? {
                seen.marked.push((span.first + number, word));
            }
            let empty = empty.reverse_bits() >> (u64::BITS - slots as u32);
            seen.empty |= u128::from(empty) << before;
            before += slots;
        }
        Some(seen)
    }

    #[cold]
    fn of_any(fetched: &Fetched<'_>, leaf: Leaf, key: &Key<'_>) -> Option<Self> {
        let mut seen = Self::nothing(leaf);
        let (mut unsettled, mut number) = (0, 0);
        for (piece, span) in key.buckets.each_span().enumerate() {
            let mut slot = span.first;
            fetched.words(piece, 0..span.slots as usize, |word| {
                let word = Word(word);
                unsettled |= word.unsettled_at(leaf.depth);
                let state = word.state();
                if matches!(state, State::Live | State::Begun) && word.tag() == key.tag {
                    seen.marked.push((slot, word));
                }
                seen.has_begun |= state == State::Begun;
                seen.empty |= u128::from(state == State::Empty) << number;
                slot += 1;
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
        let mut before = 0;
        for span in buckets.each_span() {
            if (span.first..span.first + span.slots).contains(&slots.start) {
                let all = (1 << (slots.end - slots.start)) - 1;
                let empty = self.empty >> (before + slots.start - span.first) & all;
                let first = slots.start + u64::from(empty.trailing_zeros());
                return (u64::from(empty.count_ones()), (empty != 0).then_some(first));
            }
            before += span.slots;
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

    /// Makes a change, and with it looks at a key's slots in a leaf; returns what the word was that
    /// was swapped. A look is a view of the slots if they are not settled, or the leaf has been
    /// split as this client knows. The outer error is the change's.
    pub(super) async fn change_and_look_at(
        &self,
        change: Change,
        leaf: Leaf,
        key: &Key<'_>,
    ) -> Result<(u64, Result<Looked>)> {
        let pieces: Pieces = self.pieces(leaf, key).collect();
        let swaps = change.swap.is_some();
        let look = |fetched: &mut Fetched<'_>| {
            let seen = match swaps {
                // Its own word is under way there.
                true => Seen::of_any(fetched, leaf, key),
                false => Seen::of(fetched, leaf, key),
            };
            match seen.filter(|_| self.directory.borrow().leaf(leaf.subtable) == leaf) {
                Some(seen) => Ok(Ok(seen)),
                None => Ok(Err(View::taken(fetched, leaf, key)?)),
            }
        };
        let (found, looked) = self.endpoint.change_and_look(change, pieces, look).await?;
        Ok((found, looked.unwrap_or_else(|error| Err(error.into()))))
    }

    /// The key's slots, for an operation that writes: no split has still to come to any of them.
    pub(super) async fn current(&self, key: &Key<'_>, attempts: &Attempts) -> Result<Seen> {
        loop {
            let leaf = self.leaf_of(key);
            let looking = self.change_and_look_at(Change::default(), leaf, key);
            match looking.await?.1? {
                Ok(seen) => return Ok(seen),
                // Boxed, for it is rare: every write would be as large.
                Err(view) => Box::pin(self.make_current(view, key, attempts)).await?,
            }
        }
    }
}
