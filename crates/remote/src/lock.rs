//! Lock words: who holds an item, and in which of its lives.

use std::fmt;

/// A lock as its word says it: its owner and the owner's epoch. A release is conditional on both,
/// so that a late one never frees what another holds by now.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Lock {
    /// Who holds it, from 1 on.
    pub owner: u32,
    /// In which of the owner's lives or transactions.
    pub epoch: u32,
}

impl Lock {
    /// The word; 0 is no lock, as is any of owner 0.
    #[must_use]
    pub const fn word(self) -> u64 {
        if self.owner == 0 {
            return 0;
        }
        self.owner as u64 | (self.epoch as u64) << 32
    }

    /// The lock of a word, if it is one.
    #[must_use]
    pub const fn of_word(word: u64) -> Option<Self> {
        match word as u32 {
            0 => None,
            owner => Some(Self {
                owner,
                epoch: (word >> 32) as u32,
            }),
        }
    }
}

impl fmt::Display for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "owner {} in epoch {}", self.owner, self.epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_its_word() {
        let lock = Lock { owner: 3, epoch: 9 };
        assert_eq!(Lock::of_word(lock.word()), Some(lock));
        assert_eq!(Lock { owner: 0, epoch: 9 }.word(), 0);
        assert_eq!(Lock::of_word(0), None);
    }
}
