//! Keys whose records are too long for short ticks, so that these do not read them in vain time and
//! again.

use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::hash::BuildHasher;

/// For how many milliseconds it is remembered: perhaps another has written the key since.
const REMEMBERED: u64 = 10_000;
/// How many are remembered.
const MOST: usize = 4096;

/// Keys by their hashes, each with the milliseconds since 1970 until which it is remembered. Where
/// two have the same, one is taken for long that is not: its requests wait with the long ones.
#[derive(Default)]
pub(super) struct LongKeys {
    until: HashMap<u64, u64>,
    hasher: RandomState,
}

impl LongKeys {
    pub(super) fn is_empty(&self) -> bool {
        self.until.is_empty()
    }

    /// Whether a key of a database was long of late.
    pub(super) fn has(&mut self, key: (u8, &[u8]), now: u64) -> bool {
        let hash = self.hasher.hash_one(key);
        match self.until.get(&hash) {
            Some(until) if *until > now => true,
            Some(_) => {
                self.until.remove(&hash);
                false
            }
            None => false,
        }
    }

    /// Remembers a key of a database.
    pub(super) fn add(&mut self, key: (u8, &[u8]), now: u64) {
        if self.until.len() >= MOST {
            self.until.clear();
        }
        self.until
            .insert(self.hasher.hash_one(key), now + REMEMBERED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_long_for_a_while_in_their_database() {
        let mut long = LongKeys::default();
        assert!(long.is_empty() && !long.has((0, b"key"), 5));
        long.add((0, b"key"), 5);
        assert!(!long.is_empty());
        assert!(!long.has((1, b"key"), 5) && !long.has((0, b"other"), 5));
        assert!(long.has((0, b"key"), 4 + REMEMBERED));
        assert!(!long.has((0, b"key"), 5 + REMEMBERED));
        assert!(long.is_empty(), "it is forgotten");
    }

    #[test]
    fn no_more_are_remembered_than_so_many() {
        let mut long = LongKeys::default();
        for number in 0..3 * MOST {
            long.add((0, &number.to_le_bytes()), 0);
            assert!(long.until.len() <= MOST);
            assert!(long.has((0, &number.to_le_bytes()), 0));
        }
    }
}
