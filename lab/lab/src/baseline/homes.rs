//! What a design decides of keys that are there: in which buckets each may be.

/// Neighbouring buckets, read in one piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BucketWindow {
    /// The first.
    pub first: u64,
    /// How many.
    pub count: u64,
}

impl BucketWindow {
    /// One bucket.
    #[must_use]
    pub const fn of(bucket: u64) -> Self {
        Self {
            first: bucket,
            count: 1,
        }
    }

    /// Its buckets.
    pub fn buckets(self) -> impl Iterator<Item = u64> {
        self.first..self.first + self.count
    }
}

/// Where a design keeps its keys.
pub trait Homes {
    /// The buckets in which the key with this hash is, if it is in any; nothing if it can only be
    /// in the stash.
    fn window(&self, hash: u64) -> Option<BucketWindow>;

    /// Whether a record in this bucket is one of the table, and not a copy that was left there.
    fn belongs(&self, hash: u64, bucket: u64) -> bool;

    /// The bucket that has to be cleaned of copies together with this one, before anything in
    /// either is written.
    fn unclean_with(&self, bucket: u64) -> Option<u64>;

    /// Both have been cleaned.
    fn cleaned(&self, bucket: u64);

    /// Bytes of local memory, the stash not counted.
    fn local_bytes(&self) -> usize;
}
