//! Read sizes for a lookup that knows where the next cluster lies: paper 000, sections 3.4 and 4.4.
//!
//! A cluster is a run of slots in use with an empty slot behind it. Who knows of one knows that no
//! lookup ends within it, and that every lookup ends at the slot behind it at the latest. Eq. 10
//! puts that into C_k, the probability that the first k slots contain the one that ends the lookup:
//! up to the cluster C_k is what it was, over the cluster it stands still, behind it it is 1.
//!
//! In terms of this crate's survival functions, with the cluster `ahead` slots in front of the
//! probe's place and `len` slots long: P(distance >= k) is S(k) for k <= ahead, S(ahead) for ahead
//! < k <= ahead + len, and 0 from there on. All else, Eqs. 1, 2 and 4, stays.

use crate::read_size::{cheaper, least_reads};
use crate::{ProbeDistribution, ReadCost, ReadSizeModel};

/// Where the next cluster lies, as seen from the slot where a READ shall begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hint {
    /// The slot lies within a cluster.
    Inside {
        /// Slots from it to the cluster's end, itself included: the slot so many slots ahead is
        /// empty.
        left: u64,
    },
    /// The slot lies in front of a cluster.
    Ahead {
        /// Slots from it to the cluster's first slot; of these slots nothing is known.
        ahead: u64,
        /// Slots of the cluster; the slot behind them is empty.
        len: u64,
    },
}

impl Hint {
    /// Slots from the READ's first slot to the one that is known to be empty: a READ of one slot
    /// more than that ends every lookup.
    #[must_use]
    pub fn to_empty_slot(self) -> u64 {
        match self {
            Self::Inside { left } => left,
            Self::Ahead { ahead, len } => ahead.saturating_add(len),
        }
    }

    /// h - h* and len of Eq. 10. Within a cluster, what is left of it is a cluster that begins
    /// here.
    pub(crate) fn parts(self) -> (u64, u64) {
        match self {
            Self::Inside { left } => (0, left),
            Self::Ahead { ahead, len } => (ahead, len),
        }
    }
}

impl ProbeDistribution {
    /// E\[X(R)\] of paper 000, Eq. 4, with C_k of Eq. 10: the mean number of READs of `read_size`
    /// slots until a lookup ends that has this hint. A `read_size` of 0 is taken as 1.
    ///
    /// The tabulated part is summed term by term, however far ahead the cluster is, and the tail in
    /// closed form.
    #[must_use]
    pub fn expected_reads_hinted(&self, read_size: usize, hint: Hint) -> f64 {
        let (ahead, len) = hint.parts();
        let step = read_size.max(1);
        let frozen = (ahead.saturating_add(len) / step as u64) - ahead / step as u64;
        let behind = self.survival(ahead) * frozen as f64;
        self.sum_up_to(ahead, step) + behind
    }

    /// The sum of P(distance >= k) over k = 0, step, 2 step, ... up to `last`.
    fn sum_up_to(&self, last: u64, step: usize) -> f64 {
        let tabulated = self.tabulated();
        let end = tabulated.len();
        let near = usize::try_from(last).map_or(end, |last| end.min(last.saturating_add(1)));
        let sum: f64 = tabulated[..near].iter().step_by(step).sum();
        // A multiple of the step beyond the table and not beyond `last`, and the first one that is.
        let first = end.div_ceil(step).saturating_mul(step);
        let beyond = (last / step as u64)
            .saturating_add(1)
            .saturating_mul(step as u64);
        if first as u64 > last {
            return sum;
        }
        let beyond = usize::try_from(beyond).unwrap_or(usize::MAX);
        sum + self.tail_sum(first, step) - self.tail_sum(beyond, step)
    }
}

impl ReadSizeModel {
    /// [`ReadSizeModel::cost`] for a lookup that has this hint.
    #[must_use]
    pub fn cost_hinted(
        &self,
        distances: &ProbeDistribution,
        hint: Hint,
        read_size: usize,
    ) -> ReadCost {
        let read_size = read_size.max(1);
        let reads = distances.expected_reads_hinted(read_size, hint);
        self.priced(read_size, reads)
    }

    /// R* of paper 000, Eq. 1, with C_k of Eq. 10: the read size of the least cost for a lookup
    /// that has this hint, the smallest if several have it.
    ///
    /// Within a cluster (and right in front of one) it is the cluster's rest and the empty slot
    /// behind it, whatever the limit on the choice is: the caller splits READs that are too long
    /// (paper 000, section 4.4). Without a limit Eq. 1 says the same: reading n times costs n c +
    /// alpha n R w with n R at least as long as the rest, and that is least for n = 1.
    #[must_use]
    pub fn choose_hinted(&self, distances: &ProbeDistribution, hint: Hint) -> ReadCost {
        let (ahead, _) = hint.parts();
        let covering = usize::try_from(hint.to_empty_slot().saturating_add(1));
        let covering = covering.unwrap_or(usize::MAX);
        if ahead == 0 {
            return self.cost_hinted(distances, hint, covering);
        }
        // A READ that reaches the empty slot is the only one: no longer one is cheaper.
        let limit = self.max_read_slots().min(covering);
        let cost = |read_size| self.cost_hinted(distances, hint, read_size);
        let slot_by_slot = cost(1);
        let powers = (1..usize::BITS).map(|shift| 1usize << shift);
        let mut best = powers
            .take_while(|&size| size < limit)
            .chain([limit])
            .map(cost)
            .fold(slot_by_slot, cheaper);
        for read_size in 2..=limit {
            let one = self.cost_of_one(read_size);
            if one > best.cost_ns {
                break;
            }
            if one * least_reads(slot_by_slot.reads, read_size) <= best.cost_ns {
                best = cheaper(best, cost(read_size));
            }
        }
        best
    }
}

#[cfg(test)]
#[path = "hinted_tests.rs"]
mod tests;
