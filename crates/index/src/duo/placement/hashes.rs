//! From a key's hash to its two buckets and two fingerprints.

/// Where a key may be, and by what it is known there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Candidates {
    /// Its bucket in the first array: the hash modulo the buckets of an array, so that a table can
    /// grow by any whole ratio.
    pub first: u64,
    /// Its bucket in the second array, counted within that array.
    pub second: u64,
    /// Its primary fingerprint, not 0. It gives either bucket from the other.
    pub primary: u32,
    /// Its backup fingerprint, not 0.
    pub backup: u32,
}

/// A [`Candidates`] without its backup fingerprint, which is hardly ever looked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Primary {
    pub(super) first: u64,
    pub(super) second: u64,
    pub(super) fingerprint: u32,
}

/// What turns hashes into candidates.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hashes {
    pub(super) buckets: u64,
    pub(super) fingerprint_bits: u32,
}

impl Hashes {
    #[inline(always)]
    pub(super) fn of(self, hash: u64) -> Candidates {
        let primary = self.primary_of(hash);
        Candidates {
            first: primary.first,
            second: primary.second,
            primary: primary.fingerprint,
            backup: self.backup_of(hash),
        }
    }

    #[inline(always)]
    pub(super) fn primary_of(self, hash: u64) -> Primary {
        let first = hash % self.buckets;
        let fingerprint = self.fingerprint(mix(hash ^ 0x9e37_79b9_7f4a_7c15));
        Primary {
            first,
            second: self.second_of(first, fingerprint),
            fingerprint,
        }
    }

    #[inline(always)]
    pub(super) fn backup_of(self, hash: u64) -> u32 {
        self.fingerprint(mix(hash ^ 0xc2b2_ae3d_27d4_eb4f))
    }

    /// 1 to 2^f - 1, each as likely: 0 is an empty slot.
    #[inline]
    fn fingerprint(self, hash: u64) -> u32 {
        let all = (1_u64 << self.fingerprint_bits) - 1;
        1 + ((u128::from(hash) * u128::from(all)) >> 64) as u32
    }

    /// The bucket of the second array that a primary fingerprint of this first bucket leads to.
    #[inline]
    pub(super) fn second_of(self, first: u64, primary: u32) -> u64 {
        let sum = first + self.step(primary);
        if sum < self.buckets {
            sum
        } else {
            sum - self.buckets
        }
    }

    /// The bucket of the first array that a primary fingerprint of this second bucket leads to.
    #[inline]
    pub(super) fn first_of(self, second: u64, primary: u32) -> u64 {
        let step = self.step(primary);
        if step <= second {
            second - step
        } else {
            second + self.buckets - step
        }
    }

    /// The fingerprint is hashed: else both buckets would lie close together.
    #[inline]
    fn step(self, primary: u32) -> u64 {
        mix(u64::from(primary)) % self.buckets
    }
}

/// The finalizer of SplitMix64.
#[inline]
pub(super) const fn mix(hash: u64) -> u64 {
    let mut mixed = hash.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}
