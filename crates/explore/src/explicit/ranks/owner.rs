//! Which rank owns a state, and which states need not be sent again.

use xxhash_rust::xxh3::xxh3_64;

/// Words of the memory of what was sent.
const MEMORY_WORDS: usize = 1 << 18;

/// A hash of a state that has nothing to do with those that sets place it by.
#[inline]
pub(super) fn hash_of(state: &[u64]) -> u64 {
    xxh3_64(bytemuck::cast_slice(state))
}

/// The rank that owns the states with this hash.
#[inline]
pub(super) fn owner_of(hash: u64, ranks: usize) -> usize {
    (((hash >> 32) * ranks as u64) >> 32) as usize
}

/// States that were sent lately, whole: a state that is here is with its owner already, or on its
/// way.
#[derive(Debug)]
pub(super) struct SentLately {
    words: usize,
    mask: usize,
    /// Each 1 and a state, or zeros.
    entries: Box<[u64]>,
}

impl SentLately {
    pub(super) fn new(words: usize) -> Self {
        let entries = (MEMORY_WORDS / (1 + words)).max(1);
        // A power of two, not above what the memory holds.
        let entries = 1 << entries.ilog2();
        Self {
            words,
            mask: entries - 1,
            entries: vec![0; entries * (1 + words)].into(),
        }
    }

    /// Whether a state was sent lately; from now on it was.
    #[inline]
    pub(super) fn note(&mut self, hash: u64, state: &[u64]) -> bool {
        let start = (hash as usize & self.mask) * (1 + self.words);
        let entry = &mut self.entries[start..start + 1 + self.words];
        if entry[0] == 1 && entry[1..] == *state {
            return true;
        }
        entry[0] = 1;
        entry[1..].copy_from_slice(state);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_same_state_was_sent() {
        let mut sent = SentLately::new(2);
        assert!(!sent.note(5, &[0, 0]));
        assert!(sent.note(5, &[0, 0]));
        assert!(!sent.note(5, &[0, 1]), "another of the same hash");
        assert!(!sent.note(5, &[0, 0]), "forgotten meanwhile");
        // Longer than the whole memory: one entry.
        let long = vec![7; MEMORY_WORDS];
        let mut sent = SentLately::new(long.len());
        assert!(!sent.note(u64::MAX, &long));
        assert!(sent.note(u64::MAX, &long));
    }

    #[test]
    fn every_rank_owns_its_share() {
        for ranks in [1, 2, 3, 7] {
            let mut owned = vec![0usize; ranks];
            for state in 0..10_000u64 {
                owned[owner_of(hash_of(&[state]), ranks)] += 1;
            }
            let share = 10_000 / ranks;
            assert!(owned.iter().all(|owned| owned.abs_diff(share) < share / 5));
        }
    }
}
