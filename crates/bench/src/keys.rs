//! Keys: distinct, in an order that looks random, and known by their numbers.

/// A sequence of distinct keys of 4 or 8 bytes. The same seed gives the same sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    seed: u64,
}

impl Keys {
    /// The sequence of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Key number `index` of the 2^32 keys of 4 bytes.
    #[inline]
    #[must_use]
    pub fn short(self, index: u32) -> [u8; 4] {
        // The finaliser of MurmurHash3: a bijection, so that keys are distinct.
        let mut bits = index ^ self.seed as u32;
        bits = (bits ^ bits >> 16).wrapping_mul(0x85eb_ca6b);
        bits = (bits ^ bits >> 13).wrapping_mul(0xc2b2_ae35);
        (bits ^ bits >> 16).to_le_bytes()
    }

    /// Key number `index` of the 2^64 keys of 8 bytes.
    #[inline]
    #[must_use]
    pub fn long(self, index: u64) -> [u8; 8] {
        // The finaliser of SplitMix64: a bijection as well.
        let mut bits = index ^ self.seed;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ bits >> 31).to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_are_distinct_and_belong_to_their_seed() {
        let keys = Keys::new(7);
        let short: HashSet<_> = (0..10_000).map(|index| keys.short(index)).collect();
        let long: HashSet<_> = (0..10_000).map(|index| keys.long(index)).collect();
        assert_eq!((short.len(), long.len()), (10_000, 10_000));
        assert_ne!(keys.short(1), Keys::new(8).short(1));
        assert_eq!(keys.long(1), Keys::new(7).long(1));
    }
}
