//! Which buckets are split, of a growth that is not over.

/// Buckets, of which one after the other is split.
pub(super) struct SplitBits {
    /// A bit for each: whether it is split.
    words: Vec<u64>,
    buckets: u64,
    pub(super) left: u64,
    /// Words at the front that have no bucket left.
    done: usize,
}

impl SplitBits {
    /// So many, none of them split.
    fn new(buckets: u64) -> Self {
        Self {
            words: vec![0; buckets.div_ceil(64) as usize],
            buckets,
            left: buckets,
            done: 0,
        }
    }

    /// Bytes of memory.
    fn bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    #[inline]
    pub(super) fn is_set(&self, bucket: u64) -> bool {
        self.words[(bucket / 64) as usize] >> (bucket % 64) & 1 != 0
    }

    /// Notes that a bucket is split.
    pub(super) fn set(&mut self, bucket: u64) {
        if self.is_set(bucket) {
            return;
        }
        self.words[(bucket / 64) as usize] |= 1 << (bucket % 64);
        self.left -= 1;
        while self.words.get(self.done) == Some(&u64::MAX) {
            self.done += 1;
        }
    }

    /// The buckets that are not split, from one on.
    pub(super) fn unset_from(&self, from: u64) -> impl Iterator<Item = u64> + '_ {
        let mut next = from.max(64 * self.done as u64);
        std::iter::from_fn(move || {
            while next < self.buckets {
                let left = !self.words[(next / 64) as usize] >> (next % 64);
                next += u64::from(left.trailing_zeros()).min(64 - next % 64);
                if left != 0 && next < self.buckets {
                    next += 1;
                    return Some(next - 1);
                }
            }
            None
        })
    }
}

/// A growth that is not over.
pub(super) struct UnfinishedGrowth {
    /// Buckets of an array before it.
    pub(super) before: u64,
    /// Buckets of an array after it.
    after: u64,
    /// Those of both arrays before it.
    pub(super) split: SplitBits,
}

impl UnfinishedGrowth {
    /// From so many buckets of an array to so many: none is split.
    pub(super) fn new(before: u64, after: u64) -> Self {
        Self {
            before,
            after,
            split: SplitBits::new(2 * before),
        }
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.split.bytes()
    }

    /// The bucket that this one comes from.
    #[inline]
    pub(super) const fn origin(&self, bucket: u64) -> u64 {
        2 * (bucket / 2 % self.before) + bucket % 2
    }

    /// The last one of the buckets that one is split into.
    pub(super) const fn newest(&self, origin: u64) -> u64 {
        origin + 2 * (self.after - self.before)
    }
}
