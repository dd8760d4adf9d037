//! Names of clients and transactions, as they stand in lock words.
//!
//! ```text
//! owner   | client, 24 bits | home + 1, 8 bits |      epoch   | transaction, 32 bits |
//! ```
//! A home names its clients. Numbers are not kept anywhere, so that a home that lost its memory may
//! name others than before; it starts at a place of the 2^56 names that the time of its start leads
//! to. Two lives of a home give the same name with a probability of about 2^-56 times the
//! transactions of both.

use farslot_remote::Lock;
use std::fmt;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Most nodes of a database: a lock word has 8 bits for its home.
pub(crate) const MOST_NODES: usize = 255;

/// The name of a home's client: its first transaction's lock.
pub(crate) fn name_client(home: u8, since: u64, count: u32) -> Lock {
    let start = xxh3_64_with_seed(&since.to_le_bytes(), home.into());
    let client = (start as u32).wrapping_add(count) & 0xff_ffff;
    Lock {
        owner: client | (u32::from(home) + 1) << 24,
        epoch: xxh3_64_with_seed(&start.to_le_bytes(), count.into()) as u32,
    }
}

/// The node that decides on a lock's transaction.
pub(crate) fn home_of(lock: Lock) -> Option<u8> {
    ((lock.owner >> 24) as u8).checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_lead_to_their_home_and_differ_between_lives() {
        let mut names = HashSet::new();
        for home in [0, 1, 254] {
            for since in [0, 1, 1 << 40] {
                for count in 1..100 {
                    let lock = name_client(home, since, count);
                    assert_eq!(home_of(lock), Some(home));
                    assert!(names.insert(lock));
                }
            }
        }
        assert_eq!(home_of(Lock { owner: 5, epoch: 0 }), None);
    }
}

/// Which of a database's tables, in the order in which they were added.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TableId(pub u16);

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table {}", self.0)
    }
}
