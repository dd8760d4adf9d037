//! One look at a key's slots: where its record may be, and where there is room for it.

use super::buckets::{Buckets, SlotSpan};
use super::client::Key;
use super::directory::SubtableLeaf;
use super::word::{State, TagMatches, Word};
use crate::step::{ReadPieces, Reads};
use smallvec::SmallVec;
use std::ops::Range;

/// A slot and its word.
pub(super) type SlotWord = (u64, Word);

/// Slots with a key's tag. (With 32 slots and 8 bits one key in ten meets a second.)
pub(super) type Marked = SmallVec<[SlotWord; 2]>;

/// What was seen of a key's slots.
#[derive(Default)]
pub(super) struct TaggedSlots {
    /// Those with the key's tag that are live, or in which an insertion has begun.
    pub(super) marked: Marked,
    /// Whether an insertion has begun in any of them.
    pub(super) has_begun: bool,
    /// Which are empty, a bit each, in the order in which they were read: for those who write.
    empty: u128,
}

impl TaggedSlots {
    /// Looks through the spans of a key's slots; returns whether all of them are settled: of the
    /// depth that the directory has, and without a record on its way to another subtable.
    #[inline(always)]
    pub(super) fn look<const WRITES: bool>(
        &mut self,
        read: &impl ReadPieces,
        leaf: SubtableLeaf,
        key: &Key<'_>,
    ) -> bool {
        self.marked.clear();
        self.has_begun = false;
        self.empty = 0;
        let (first, second) = key.buckets.spans();
        let mut unsettled = self.look_at_span::<WRITES>(read, (0, first), (leaf, key), 0);
        if let Some(second) = second {
            let before = first.slots as usize;
            unsettled |= self.look_at_span::<WRITES>(read, (1, second), (leaf, key), before);
        }
        unsettled == 0
    }

    /// Looks at the slots of a span, before which so many were read; 0 if all are settled.
    #[inline]
    fn look_at_span<const WRITES: bool>(
        &mut self,
        read: &impl ReadPieces,
        (piece, span): (usize, SlotSpan),
        (leaf, key): (SubtableLeaf, &Key<'_>),
        before: usize,
    ) -> u64 {
        let slots = span.slots as usize;
        let mut met = TagMatches::nothing(Word::live(leaf.depth, key.tag));
        let empty_word = Word::empty(leaf.depth);
        // A bit each, the last word's the lowest.
        let mut empty = 0_u64;
        read.each_word(piece, slots, |word| {
            met.word(word);
            if WRITES {
                empty = empty << 1 | u64::from(Word(word) == empty_word);
            }
        });
        let Some(found) = met.quiet_among(slots) else {
            // Several have the tag, or something is under way: they are looked at one by one.
            return self.look_at_each(read, (piece, span), (leaf, key), before);
        };
        if let Some((number, word)) = found {
            self.marked.push((span.first + number, word));
        }
        if WRITES {
            let empty = empty.reverse_bits() >> (u64::BITS - slots as u32);
            self.empty |= u128::from(empty) << before;
        }
        0
    }

    /// Looks at the slots of a span one by one, before which so many were read; 0 if all are
    /// settled.
    #[cold]
    fn look_at_each(
        &mut self,
        read: &impl ReadPieces,
        (piece, span): (usize, SlotSpan),
        (leaf, key): (SubtableLeaf, &Key<'_>),
        before: usize,
    ) -> u64 {
        let words = read.words(piece);
        let mut unsettled = 0;
        for number in 0..span.slots {
            let word = Word(words(number as usize));
            unsettled |= word.unsettled_at(leaf.depth);
            let state = word.state();
            if matches!(state, State::Live | State::Begun) && word.tag() == key.tag {
                self.marked.push((span.first + number, word));
            }
            self.has_begun |= state == State::Begun;
            self.empty |= u128::from(state == State::Empty) << (before as u64 + number);
        }
        unsettled
    }

    /// The slot that a new key goes to.
    #[inline]
    pub(super) fn empty_slot(&self, buckets: &Buckets) -> Option<u64> {
        buckets.empty_slot(|slots| self.empty_in(buckets, slots))
    }

    /// How many of a bucket's slots are empty, and the first of them.
    #[inline]
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

/// The slots that are read as this piece.
#[inline]
pub(super) fn span_of(key: &Key<'_>, number: usize) -> SlotSpan {
    match (number, key.buckets.spans()) {
        (1, (_, Some(second))) => second,
        (_, (first, _)) => first,
    }
}

/// The spans of a key's slots.
#[inline]
pub(super) fn slots_of(key: &Key<'_>) -> Reads {
    let (_, second) = key.buckets.spans();
    Reads::apart(1 + usize::from(second.is_some()))
}
