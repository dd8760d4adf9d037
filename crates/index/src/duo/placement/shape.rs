//! The dimensions of an index.

/// The dimensions of an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Buckets of each of both arrays: m. At least 1.
    pub buckets: u64,
    /// Slots of a bucket: d, 1 to [`MOST_BUCKET_SLOTS`](super::MOST_BUCKET_SLOTS).
    pub bucket_slots: u32,
    /// Bits of a fingerprint: f, 8 to 32.
    pub fingerprint_bits: u32,
    /// The most records that an insertion moves: L.
    pub longest_path: u32,
    /// Slots of the stash: s.
    pub stash: u32,
    /// Whether colliding keys may stand by a backup fingerprint. Otherwise all go to the stash.
    pub backups: bool,
}

impl Shape {
    /// Slots of both arrays.
    #[must_use]
    pub const fn slots(&self) -> u64 {
        2 * self.buckets * self.bucket_slots as u64
    }

    /// Slots that a path search looks at, at most.
    #[must_use]
    pub const fn most_searched(&self) -> u64 {
        let (mut buckets, mut level, mut moves) = (2_u64, 2_u64, 0);
        while moves < self.longest_path {
            level = level.saturating_mul(self.bucket_slots as u64);
            buckets = buckets.saturating_add(level);
            moves += 1;
        }
        buckets.saturating_mul(self.bucket_slots as u64)
    }
}
