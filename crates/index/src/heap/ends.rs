//! Records that end: those of a table whose values begin with the moment at which they do.
//!
//! A client appends records that live for about as long to the same run, and the stamp of a run
//! says when the first and the last of its records end. So who needs room finds runs whose time is
//! over, or nearly so, by the words of their pages: what has ended in them is removed from its
//! slots, without being moved, and they are free (after Segcache, NSDI 2021: segments chained by
//! time to live). A record that has ended is not moved out of any other run that is cleaned either.
//!
//! The stamp is a hint: a record goes only if its own moment is past. One that has another moment
//! by then lies in another block, and its slot does not name this one.
//!
//! ```text
//! value          | moment in milliseconds, 6 bytes, 0 for never | ... |
//! stamp of a run | 0, 1 bit | milliseconds from the first moment to the last: power of 2, 5 bits |
//!                | factor, 9 | the last moment, 49: 0 if it is not known, 2^48 for never |
//! ```

use super::layout::RecordView;
use super::pages::Stamp;
use std::fmt;

/// Bytes of the moment, with which a value begins.
const MOMENT_BYTES: usize = 6;
/// Later than every moment.
const NEVER: u64 = 1 << (8 * MOMENT_BYTES);
/// Bits of a stamp that have the last moment.
const LAST_BITS: u32 = 49;
const LENGTH_BITS: u32 = 9;
const MOST_POWER: u64 = 31;
/// Spans that are told apart are eighths of a power of two of milliseconds, but no shorter than
/// this.
const SHORTEST_SPAN: u64 = 64;

/// When a record ends, and with which others it lies.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct RecordEnd {
    /// The moment, or never; 0 of a table whose records have none.
    pub(super) at: u64,
    /// Alike of records that live for about as long; 0 of those that never end.
    pub(super) span: u16,
}

/// When the first and the last record of a run end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct EndRange {
    first: u64,
    last: u64,
}

impl EndRange {
    /// Of a run without records.
    pub(super) const NONE: Self = Self {
        first: u64::MAX,
        last: 0,
    };
    /// Of one of whose records that is not known.
    const UNKNOWN: Self = Self {
        first: 0,
        last: u64::MAX,
    };

    /// A record that never ends counts only beside others that do not either: a run that has others
    /// is cleaned for those, and it is moved.
    pub(super) fn add(&mut self, RecordEnd { at, .. }: RecordEnd) {
        if at == NEVER && self.last != 0 {
            return;
        }
        if self.last == NEVER {
            *self = Self::NONE;
        }
        self.first = self.first.min(at);
        self.last = self.last.max(at);
    }

    /// As a stamp, which says no earlier moment than the first.
    pub(super) const fn stamp(self) -> Stamp {
        if self.last > NEVER {
            return Stamp(0);
        }
        let length = self.last.saturating_sub(self.first);
        // No longer than some thirty years.
        let longest = ((1 << LENGTH_BITS) - 1) << MOST_POWER;
        let length = if length < longest { length } else { longest };
        let power = (u64::BITS - length.leading_zeros()).saturating_sub(LENGTH_BITS);
        let length = length >> power | (power as u64) << LENGTH_BITS;
        Stamp(self.last | length << LAST_BITS)
    }

    pub(super) const fn of(stamp: Stamp) -> Self {
        let last = stamp.0 & ((1 << LAST_BITS) - 1);
        if last == 0 {
            return Self::UNKNOWN;
        }
        let length = stamp.0 >> LAST_BITS;
        let power = length >> LENGTH_BITS & MOST_POWER;
        let length = (length & ((1 << LENGTH_BITS) - 1)) << power;
        Self {
            first: last.saturating_sub(length),
            last,
        }
    }

    /// About which part of the records has ended at a moment, of 1,024.
    pub(super) const fn ended(self, now: u64) -> u64 {
        if self.last <= now {
            1024
        } else if self.first > now || self.last >= NEVER {
            0
        } else {
            (now - self.first) * 1024 / (self.last - self.first)
        }
    }
}

/// What says which moments are past.
pub(crate) struct EndClock {
    now: Option<Box<dyn Fn() -> u64>>,
}

impl fmt::Debug for EndClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndClock").finish_non_exhaustive()
    }
}

impl EndClock {
    /// By a clock in milliseconds; without one no record has ended.
    pub(super) const fn by(now: Option<Box<dyn Fn() -> u64>>) -> Self {
        Self { now }
    }

    pub(super) fn now(&self) -> u64 {
        self.now.as_ref().map_or(0, |now| now())
    }

    /// When a record with this value ends.
    pub(super) fn of(&self, value: &[u8]) -> RecordEnd {
        let at = moment_of(value);
        let span = match at {
            NEVER => 0,
            at => span_of(at.saturating_sub(self.now())),
        };
        RecordEnd { at, span }
    }

    /// Whether a record has ended.
    pub(super) fn has_ended(&self, record: &RecordView<'_>) -> bool {
        moment_of(record.value) <= self.now()
    }

    /// Whether the records of a run live for about as long as others, by its stamp.
    pub(super) fn are_of(&self, stamp: Stamp, span: u16) -> bool {
        match EndRange::of(stamp).last {
            NEVER => span == 0,
            u64::MAX => false,
            last if last <= self.now() => false,
            // Those that lie there came earlier.
            last => {
                let of_run = span_of(last.saturating_sub(self.now()));
                (of_run..=of_run + 1).contains(&span)
            }
        }
    }
}

/// The moment at which a record with this value ends.
fn moment_of(value: &[u8]) -> u64 {
    let mut moment = [0; 8];
    let bytes = value.len().min(MOMENT_BYTES);
    moment[..bytes].copy_from_slice(&value[..bytes]);
    match u64::from_le_bytes(moment) {
        0 => NEVER,
        moment => moment,
    }
}

/// Which of the spans a record has left to live.
fn span_of(left: u64) -> u16 {
    let steps = left / SHORTEST_SPAN;
    // The first eight are of one length; then there are four to each doubling.
    match steps.checked_ilog2() {
        Some(doubling @ 3..) => {
            (doubling * 4 - 4 + (steps >> (doubling - 2)) as u32 - 4 + 1) as u16
        }
        _ => steps as u16 + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spans_are_numbered_without_a_gap_and_a_quarter_long_at_most() {
        let (mut last, mut began) = (span_of(0), 0);
        assert_eq!(last, 1);
        for left in 1..200_000 {
            let span = span_of(left);
            if span != last {
                assert_eq!(span, last + 1, "{left}");
                let length = left - began;
                assert!(length <= SHORTEST_SPAN.max(began / 4), "{began} to {left}");
                (last, began) = (span, left);
            }
        }
        assert!(span_of(NEVER) < 200);
    }

    #[test]
    fn moments_are_read_from_values() {
        let ends = EndClock::by(Some(Box::new(|| 1_000)));
        assert_eq!(ends.of(&[0; 9]), RecordEnd { at: NEVER, span: 0 });
        assert_eq!(ends.of(&[]), RecordEnd { at: NEVER, span: 0 });
        let end = ends.of(&[0xe8, 3, 0, 0, 0, 0, 7, 7, 7]);
        assert_eq!((end.at, end.span), (1_000, 1));
        let stamp = |moments: &[u64]| {
            let mut lasts = EndRange::NONE;
            moments
                .iter()
                .for_each(|at| lasts.add(RecordEnd { at: *at, span: 1 }));
            lasts.stamp()
        };
        let cases: [(&[u64], u64); 9] = [
            (&[1_000], 1024),
            (&[1_001], 0),
            (&[500, 1_000], 1024),
            (&[900, 1_300, 1_000], 256),
            (&[1_001, 1_300], 0),
            (&[900, NEVER], 1024),
            (&[NEVER, 900, 1_100, NEVER], 512),
            (&[NEVER, NEVER], 0),
            (&[], 0),
        ];
        for (moments, part) in cases {
            assert_eq!(
                EndRange::of(stamp(moments)).ended(1_000),
                part,
                "{moments:?}"
            );
        }
        // Without a clock nothing has ended.
        assert_eq!(EndClock::by(None).now(), 0);
    }

    proptest! {
        #[test]
        fn a_stamp_has_the_last_moment_and_about_the_first(
            first in 1..NEVER, length in 0..NEVER, shift in 0u32..48,
        ) {
            let last = (first + (length >> shift)).min(NEVER - 1);
            let mut lasts = EndRange::NONE;
            lasts.add(RecordEnd { at: first, span: 1 });
            lasts.add(RecordEnd { at: last, span: 1 });
            let range = EndRange::of(lasts.stamp());
            prop_assert_eq!(range.last, last);
            prop_assert!(range.first >= first);
            let is_exact = last - first < 1 << 40;
            prop_assert!(!is_exact || range.first - first <= (last - first) / 256);
            prop_assert_eq!(lasts.stamp().0 >> 63, 0);
        }
    }
}
