//! The counts of displacements as a client has seen them.

use super::layout::{CandidateBuckets, MOST_WAYS, STRIPES, stripe_of};
use std::cell::Cell;

/// The counts as they were when they were last read.
pub(super) struct MovesSeen([Cell<u64>; STRIPES]);

/// What the counts of a key's buckets were.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct StripeCounts([u64; MOST_WAYS]);

impl Default for MovesSeen {
    fn default() -> Self {
        Self([const { Cell::new(0) }; STRIPES])
    }
}

impl MovesSeen {
    /// The count of each stripe.
    pub(super) const fn counts(&self) -> &[Cell<u64>; STRIPES] {
        &self.0
    }

    pub(super) fn of(&self, candidates: &CandidateBuckets) -> StripeCounts {
        let mut before = [0; MOST_WAYS];
        for (count, bucket) in before.iter_mut().zip(candidates.as_slice()) {
            *count = self.0[stripe_of(*bucket)].get();
        }
        StripeCounts(before)
    }
}
