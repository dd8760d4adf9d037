//! RACE's placement, to be counted: where keys go, without growth.
//!
//! Buckets come in groups of three: a main one, an overflow bucket, and another main one. A key has
//! two main buckets by two hash functions, each read together with its group's overflow bucket; it
//! goes to the emptier pair, there to the main bucket first.
//!
//! Source: RACE (ATC 2021, and TOS 2022) as paper 001, section II-B, describes it, and the code
//! published with that.

use super::cost::{Cost, CountedTable};
use farslot::index::hash::{derive, scale};

/// How full each bucket is: nothing is ever moved, so that this is all that matters.
pub(crate) struct Race {
    bucket_slots: u64,
    used: Vec<u8>,
    stash: u64,
    stashed: u64,
}

impl Race {
    /// Groups of three buckets of so many slots, at most 255, with so many slots in all, at least.
    pub(crate) fn new(slots: u64, bucket_slots: u8, stash: u64) -> Self {
        let groups = slots.div_ceil(3 * u64::from(bucket_slots));
        Self {
            bucket_slots: bucket_slots.into(),
            used: vec![0; 3 * groups as usize],
            stash,
            stashed: 0,
        }
    }

    fn used_in(&self, pair: Pair) -> u64 {
        let buckets = [pair.main, pair.overflow].into_iter();
        buckets
            .map(|bucket| u64::from(self.used[bucket as usize]))
            .sum()
    }
}

/// Neighbouring buckets, read in one piece.
#[derive(Clone, Copy)]
pub(super) struct Pair {
    pub(super) main: u64,
    /// The bucket beside it, which it shares with another.
    pub(super) overflow: u64,
}

/// The two places of a key in a table of so many groups of buckets.
pub(super) fn pairs(hash: u64, groups: u64) -> [Pair; 2] {
    [1, 2].map(|function| {
        let main = scale(derive(hash, function), 2 * groups);
        let group = main / 2 * 3;
        Pair {
            main: group + main % 2 * 2,
            overflow: group + 1,
        }
    })
}

impl CountedTable for Race {
    fn slots(&self) -> u64 {
        self.used.len() as u64 * self.bucket_slots
    }

    fn insert(&mut self, hash: u64) -> Option<Cost> {
        let mut cost = Cost::begun();
        let pairs = pairs(hash, self.used.len() as u64 / 3);
        pairs
            .iter()
            .for_each(|_| cost.access(2 * self.bucket_slots));
        let emptier = usize::from(self.used_in(pairs[1]) < self.used_in(pairs[0]));
        let Pair { main, overflow } = pairs[emptier];
        let has_room = |bucket: &usize| u64::from(self.used[*bucket]) < self.bucket_slots;
        let Some(bucket) = [main as usize, overflow as usize]
            .into_iter()
            .find(has_room)
        else {
            cost.round_trips = 1;
            cost.pathless = 1;
            self.stashed += 1;
            return (self.stashed <= self.stash).then_some(cost);
        };
        self.used[bucket] += 1;
        cost.access(1);
        cost.round_trips = 2;
        Some(cost)
    }
}
