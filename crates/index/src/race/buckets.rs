//! The buckets that a key may be in, as slots of whichever subtable is the key's.

use std::ops::Range;

/// The most slots of a bucket.
pub(super) const MOST_BUCKET_SLOTS: u32 = 32;

/// A main bucket and the one that it overflows into, by their first slots: next to each other, so
/// that one READ fetches both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pair {
    pub(super) main: u64,
    pub(super) overflow: u64,
}

/// Consecutive slots of a subtable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SlotSpan {
    pub(super) first: u64,
    pub(super) slots: u64,
}

/// Where a key may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Buckets {
    pub(super) pairs: [Pair; 2],
    /// Slots of each.
    pub(super) bucket: u64,
}

impl Buckets {
    /// What there is to read: two spans, or one where both pairs share their overflow bucket.
    #[inline]
    pub(super) fn spans(&self) -> (SlotSpan, Option<SlotSpan>) {
        let [first, second] = self.pairs;
        let slots = 2 * self.bucket;
        let span = |pair: Pair| SlotSpan {
            first: pair.main.min(pair.overflow),
            slots,
        };
        if first.overflow == second.overflow {
            let first = first.main.min(second.main);
            let slots = 3 * self.bucket;
            return (SlotSpan { first, slots }, None);
        }
        (span(first), Some(span(second)))
    }

    /// The spans that there are.
    #[inline]
    pub(super) fn each_span(&self) -> impl Iterator<Item = SlotSpan> + use<> {
        let (first, second) = self.spans();
        [Some(first), second].into_iter().flatten()
    }

    /// The slot that a new key goes to: one of the less loaded of its pairs of buckets, of the main
    /// bucket before that for what it overflows. `empty_in` says how many of a bucket's slots are
    /// empty, and which is the first of them.
    pub(super) fn empty_slot(
        &self,
        empty_in: impl Fn(Range<u64>) -> (u64, Option<u64>),
    ) -> Option<u64> {
        let bucket = |first: u64| empty_in(first..first + self.bucket);
        let [first, second] = self.pairs.map(|pair| {
            let (in_main, main) = bucket(pair.main);
            let (in_overflow, overflow) = bucket(pair.overflow);
            (in_main + in_overflow, main.or(overflow))
        });
        match second.0 > first.0 {
            true => second.1.or(first.1),
            false => first.1.or(second.1),
        }
    }

    /// Whether a slot is in one of them.
    pub(super) fn contain(&self, slot: u64) -> bool {
        let inside = |first: u64| (first..first + self.bucket).contains(&slot);
        let mut pairs = self.pairs.iter();
        pairs.any(|pair| inside(pair.main) || inside(pair.overflow))
    }

    /// Slots that a key can be in.
    pub(super) fn slots(&self) -> u64 {
        let (first, second) = self.spans();
        first.slots + second.map_or(0, |span| span.slots)
    }
}
