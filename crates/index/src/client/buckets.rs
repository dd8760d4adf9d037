//! How full the buckets of a table are.

use super::Parts;

/// What a look at every bucket has counted. Others may have written meanwhile: it is no snapshot.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct BucketCounts {
    /// All slots.
    pub slots: u64,
    /// Slots that hold a record, in buckets and elsewhere.
    pub live: u64,
    /// Slots in use per slot, in each of up to 64 equal parts of the buckets.
    pub parts: Vec<f64>,
    /// Buckets by their slots in use: entry i counts those in which i slots are in use.
    pub by_used: Vec<u64>,
}

impl BucketCounts {
    /// Records per slot: 0 to 1, and above where records are outside of the buckets' slots too.
    #[must_use]
    pub fn load_factor(&self) -> f64 {
        self.live as f64 / self.slots.max(1) as f64
    }

    /// Buckets in which no slot is free.
    #[must_use]
    pub fn full_buckets(&self) -> u64 {
        self.by_used.last().copied().unwrap_or(0)
    }
}

/// Counts the buckets of a table one by one.
pub(crate) struct BucketCounter {
    bucket_slots: u64,
    parts: Parts,
    by_used: Vec<u64>,
}

impl BucketCounter {
    /// Of so many buckets of so many slots.
    pub(crate) fn new(buckets: u64, bucket_slots: u32) -> Self {
        Self {
            bucket_slots: u64::from(bucket_slots),
            parts: Parts::new(buckets),
            by_used: vec![0; bucket_slots as usize + 1],
        }
    }

    /// Counts the bucket of this number, of whose slots so many are in use.
    pub(crate) fn count(&mut self, bucket: u64, used: u64) {
        self.parts.count(bucket, used, self.bucket_slots);
        self.by_used[used as usize] += 1;
    }

    /// What was counted, of a table of so many slots, which has so many records outside of its
    /// buckets.
    pub(crate) fn counts(self, slots: u64, elsewhere: u64) -> BucketCounts {
        BucketCounts {
            slots,
            live: self.parts.used() + elsewhere,
            parts: self.parts.load_factors(),
            by_used: self.by_used,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_counted_by_their_slots_in_use() {
        let mut counter = BucketCounter::new(3, 4);
        for (bucket, used) in (0..).zip([4, 0, 4]) {
            counter.count(bucket, used);
        }
        let counts = counter.counts(12, 1);
        assert_eq!((counts.live, counts.full_buckets()), (9, 2));
        assert_eq!(counts.load_factor(), 0.75);
        assert_eq!(counts.by_used, [1, 0, 0, 0, 2]);
        assert_eq!(counts.parts, [1.0, 0.0, 1.0]);
        let none = BucketCounts::default();
        assert_eq!((none.load_factor(), none.full_buckets()), (0.0, 0));
    }
}
