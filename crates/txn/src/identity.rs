//! Names of transactions, as they stand in lock words.
//!
//! ```text
//! owner   | high bits of the number, 24 | home + 1, 8 |      epoch   | its low bits, 32 |
//! ```
//! A home has 2^56 numbers. It hands them out in blocks, each to one client, which counts through
//! its block; so no two transactions of a home's life have the same name. Numbers are not kept
//! anywhere, so that a home that lost its memory cannot go on where it was; it starts at a place
//! that the time of its start leads to. Two lives of a home give the same name with a probability
//! of about 2^-56 times the transactions of both.

use farslot_fabric::Nanos;
use farslot_remote::Lock;
use std::collections::BTreeSet;
use std::fmt;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Most nodes of a database: a lock word has 8 bits for its home.
pub(crate) const MOST_NODES: usize = 255;
/// Names of a block: a client asks for the next block once in as many transactions.
const BLOCK: u64 = 1 << 16;
/// Numbers of a home, which is 2^40 blocks.
const NUMBERS: u64 = 1 << 56;

/// The names that a home has handed out in its life, and those of them that it has given up. A name
/// that was given up stays so for as long as the home lives.
#[derive(Debug)]
pub(crate) struct Names {
    home: u8,
    /// The number at which this life begins. All others are counted from there.
    start: u64,
    /// Numbers that were handed out.
    given: u64,
    /// What is given up: all numbers below this one, ...
    floor: u64,
    /// ... and these, of which there are no more than `most`.
    given_up: BTreeSet<u64>,
    most: usize,
}

impl Names {
    pub(crate) fn new(home: u8, since: Nanos, most: usize) -> Self {
        let start = xxh3_64_with_seed(&since.to_le_bytes(), home.into());
        Self {
            home,
            start: start % NUMBERS / BLOCK * BLOCK,
            given: 0,
            floor: 0,
            given_up: BTreeSet::new(),
            most,
        }
    }

    /// The names of a home whose owner noted these [words](Self::words).
    pub(crate) fn noted(home: u8, words: [u64; 3], most: usize) -> Self {
        let mut names = Self::new(home, 0, most);
        names.set(words);
        names
    }

    /// Where this life begins, how many names it has handed out, and up to where they are given up.
    pub(crate) fn words(&self) -> [u64; 3] {
        [self.start, self.given, self.floor]
    }

    pub(crate) fn set(&mut self, [start, given, floor]: [u64; 3]) {
        self.start = start % NUMBERS / BLOCK * BLOCK;
        self.given = given.min(NUMBERS);
        self.floor = floor;
    }

    /// The names that are given up one by one, as places.
    pub(crate) fn given_up(&self) -> impl Iterator<Item = u64> {
        self.given_up.iter().copied()
    }

    /// The first name of a new block; nothing once all are handed out.
    pub(crate) fn block(&mut self) -> Option<Lock> {
        if self.given == NUMBERS {
            return None;
        }
        let number = (self.start + self.given) % NUMBERS;
        self.given += BLOCK;
        Some(Lock {
            owner: (number >> 32) as u32 | (u32::from(self.home) + 1) << 24,
            epoch: number as u32,
        })
    }

    /// How many names before this one were handed out in this life; nothing if it was not.
    fn place(&self, lock: Lock) -> Option<u64> {
        let number = u64::from(lock.owner & 0xff_ffff) << 32 | u64::from(lock.epoch);
        let place = (number + NUMBERS - self.start) % NUMBERS;
        (home_of(lock) == Some(self.home) && place < self.given).then_some(place)
    }

    /// Whether a transaction of this name may still begin.
    pub(crate) fn may_begin(&self, lock: Lock) -> bool {
        let place = self.place(lock);
        place.is_some_and(|place| place >= self.floor && !self.given_up.contains(&place))
    }

    /// Gives a name up. Where there are too many such, the oldest ones are kept no longer each by
    /// itself: all that are older still are given up with them. Returns its place, unless it was
    /// given up before.
    pub(crate) fn give_up(&mut self, lock: Lock) -> Option<u64> {
        let place = self.place(lock).filter(|_| self.may_begin(lock))?;
        self.give_up_place(place);
        Some(place)
    }

    pub(crate) fn give_up_place(&mut self, place: u64) {
        self.given_up.insert(place);
        while self.given_up.len() > self.most {
            let oldest = self.given_up.pop_first();
            self.floor = oldest.map_or(self.floor, |oldest| oldest + 1);
        }
    }
}

/// The name behind one in its block; nothing behind the last.
pub(crate) fn name_after(lock: Lock) -> Option<Lock> {
    let epoch = lock.epoch.wrapping_add(1);
    let is_first = u64::from(epoch).is_multiple_of(BLOCK);
    (!is_first).then_some(Lock { epoch, ..lock })
}

/// Whether two names are of one block.
pub(crate) fn is_same_block(a: Lock, b: Lock) -> bool {
    let block = |lock: Lock| (lock.owner, u64::from(lock.epoch) / BLOCK);
    block(a) == block(b)
}

/// The node that decides on a lock's transaction.
pub(crate) fn home_of(lock: Lock) -> Option<u8> {
    ((lock.owner >> 24) as u8).checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn names_lead_to_their_home_and_differ_between_lives() {
        let mut seen = HashSet::new();
        for home in [0, 1, 254] {
            for since in [0, 1, 1 << 40] {
                let mut names = Names::new(home, since, 10);
                for _ in 0..100 {
                    let lock = names.block().unwrap();
                    assert_eq!(home_of(lock), Some(home));
                    assert!(seen.insert(lock) && names.may_begin(lock));
                }
                let other = Names::new(home, since + 1, 10).block().unwrap();
                assert!(!names.may_begin(other));
            }
        }
        assert_eq!(home_of(Lock { owner: 5, epoch: 0 }), None);
    }

    #[test]
    fn a_block_has_its_names_and_numbers_go_round() {
        let mut names = Names::new(7, 3, 10);
        names.start = NUMBERS - BLOCK;
        let [last, first] = [(); 2].map(|()| names.block().unwrap());
        assert_eq!((first.owner & 0xff_ffff, first.epoch), (0, 0));
        let block = std::iter::successors(Some(last), |name| name_after(*name));
        let block: Vec<_> = block.collect();
        assert_eq!(block.len() as u64, BLOCK);
        assert!(block.iter().all(|name| is_same_block(last, *name)));
        assert!(block.iter().all(|name| names.may_begin(*name)));
        assert!(!is_same_block(last, first));
        names.given = NUMBERS;
        assert_eq!(names.block(), None);
    }

    proptest! {
        /// However few may be kept, and in whatever order they come.
        #[test]
        fn what_was_given_up_stays_so(
            most in 0_usize..6,
            given_up in proptest::collection::vec((0_usize..4, 0_u32..8), 1..40),
        ) {
            let mut names = Names::new(1, 9, most);
            let blocks: Vec<_> = (0..3).map(|_| names.block().unwrap()).collect();
            let mut gone = Vec::new();
            for (block, count) in given_up {
                // The fourth block is handed out in the middle of this.
                let first = match blocks.get(block) {
                    Some(first) => *first,
                    None => names.block().unwrap(),
                };
                let lock = Lock { epoch: first.epoch + count, ..first };
                names.give_up(lock);
                gone.push(lock);
                prop_assert!(gone.iter().all(|lock| !names.may_begin(*lock)));
                prop_assert!(names.given_up.len() <= most);
                let new = names.block().unwrap();
                prop_assert!(names.may_begin(new));
            }
        }
    }
}

/// Which of a database's tables, in the order in which they were added; in a procedure, the number
/// under which its node serves it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TableId(pub u64);

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table {}", self.0)
    }
}
