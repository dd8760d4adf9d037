//! Two hash functions and a tag from the one 64-bit hash that a [`BuildHasher`] gives.
//!
//! [`BuildHasher`]: std::hash::BuildHasher

use std::num::NonZeroU8;

/// The candidate buckets of a key, one in each of the two tables, and its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaggedCandidates {
    /// In the first table: from 0.
    pub(crate) first: u32,
    /// In the second table: from the first table's number of buckets.
    pub(crate) second: u32,
    /// What is kept of the hash beside the key; 0 stands for a vacant slot. It is odd, so that two
    /// tags have a bit in common, and whether both of two slots are occupied is one operation
    /// without a branch.
    pub(crate) tag: NonZeroU8,
}

/// The bit that all tags have.
const ODD: NonZeroU8 = NonZeroU8::MIN;

impl TaggedCandidates {
    /// Those of a key in two tables of `side` buckets each; `seed` chooses the hash functions.
    ///
    /// Keys of equal hashes have equal candidates whatever the seed: three of them never fit.
    #[inline]
    pub(crate) fn of(hash: u64, seed: u64, side: u32) -> Self {
        let mixed = mix(hash, seed);
        Self {
            first: scaled(mixed as u32, side),
            second: side + scaled((mixed >> 32) as u32, side),
            // Low bits of one half and high ones of neither: the buckets are of the high bits.
            tag: ODD | mixed as u8,
        }
    }

    /// The candidate that is not this one. A bucket that is neither, which only a `Hash` that
    /// contradicts itself can bring about, gets one of the two.
    #[inline]
    pub(crate) fn backup_of(&self, bucket: u32) -> u32 {
        if bucket == self.first {
            self.second
        } else {
            self.first
        }
    }
}

/// Spreads a hash over all 64 bits, differently for each seed. A bijection of the hashes (the
/// constants are those of MurmurHash3's finaliser), so that hashes that differ stay different.
#[inline]
pub(crate) fn mix(hash: u64, seed: u64) -> u64 {
    let mut mixed = hash ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    mixed ^ (mixed >> 33)
}

/// Scales 32 random bits to `0..below`, without a division.
#[inline]
pub(crate) fn scaled(bits: u32, below: u32) -> u32 {
    ((u64::from(bits) * u64::from(below)) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn candidates_are_in_their_tables_and_spread() {
        let side = 100;
        let mut met = [0u32; 200];
        let mut tags = HashSet::new();
        for hash in 0..20_000 {
            let candidates = TaggedCandidates::of(hash, 1, side);
            assert!(candidates.first < side && (side..2 * side).contains(&candidates.second));
            assert_eq!(candidates.backup_of(candidates.first), candidates.second);
            assert_eq!(candidates.backup_of(candidates.second), candidates.first);
            assert_eq!(candidates.tag.get() % 2, 1);
            tags.insert(candidates.tag);
            met[candidates.first as usize] += 1;
            met[candidates.second as usize] += 1;
        }
        assert_eq!(tags.len(), 128);
        // 200 a bucket are expected; seven standard deviations are 99.
        assert!(met.iter().all(|&met| (100..300).contains(&met)), "{met:?}");
    }

    #[test]
    fn seeds_give_other_functions() {
        let same = (0..1000).filter(|&hash| {
            TaggedCandidates::of(hash, 1, 1000).first == TaggedCandidates::of(hash, 2, 1000).first
        });
        assert!(same.count() < 20);
    }
}
