//! Where things are in the ranks' memory; nothing else knows an offset.
//!
//! ```text
//! each rank's region, in words:
//!   0        1        2            8                 8 + k                8 + k + d
//!   +--------+--------+------------+-----------------+--------------------+
//!   | taken  | count  |  not used  | k buckets       | d element words    |
//!   +--------+--------+------------+-----------------+--------------------+
//!   taken: units of element space that inserters have taken, in this rank's part
//!   count: elements of this rank's inserters, approximately
//!
//! a bucket:
//!   bit 63         62                      0
//!   +-------------+------------------------+
//!   |  occupied   | the element itself     |   WordSet: 63 bits (paper 002, section 3.1)
//!   +-------------+-----------+------------+
//!   |  occupied   | signature | index      |   DataSet: the index of the element, and bits of its
//!   +-------------+-----------+------------+   hash
//!
//! an element's index: rank | unit within the rank's part
//! ```
//! A table may use fewer buckets than its memory has room for ([`Layout::using`]): it grows where
//! it is. Memory starts as zeros, which is an empty table.

use crate::error::check_range;
use crate::{SetError, hash};

/// The bit that marks a bucket as occupied.
pub(crate) const OCCUPIED: u64 = 1 << 63;
/// Words before the first bucket.
pub(crate) const HEADER: u64 = 8;
/// The word with the units taken.
pub(crate) const TAKEN: usize = 0;
/// The word with the approximate count.
pub(crate) const COUNT: usize = 1;

/// Most ranks of a table.
pub const MAX_RANKS: u64 = 1 << 12;
/// Most buckets of a rank.
const MAX_BUCKETS: u64 = 1 << 40;
/// Most units of element space of all ranks together.
pub const MAX_ELEMENTS: u64 = 1 << 31;
/// Bits of an element's index.
const INDEX_BITS: u32 = 31;

/// The shape of a table: the same on every rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    ranks: u64,
    buckets_per_rank: u64,
    /// Buckets that a rank's region has room for.
    reserved_buckets: u64,
    element_words: u64,
}

impl Layout {
    /// A table of `ranks` ranks, each with `buckets_per_rank` buckets and `element_words` words for
    /// elements (0 for a [`WordSet`](crate::WordSet)).
    ///
    /// # Errors
    /// [`SetError::OutOfRange`].
    pub fn new(ranks: u64, buckets_per_rank: u64, element_words: u64) -> Result<Self, SetError> {
        check_range("the number of ranks", ranks, 1, MAX_RANKS)?;
        check_range("the buckets of a rank", buckets_per_rank, 1, MAX_BUCKETS)?;
        check_range("the element words of a rank", element_words, 0, 1 << 40)?;
        Ok(Self {
            ranks,
            buckets_per_rank,
            reserved_buckets: buckets_per_rank,
            element_words,
        })
    }

    /// The same memory, of which each rank uses only so many buckets.
    ///
    /// # Errors
    /// [`SetError::OutOfRange`] beyond those that there is room for.
    pub(crate) fn using(self, buckets_per_rank: u64) -> Result<Self, SetError> {
        let most = self.reserved_buckets;
        check_range("the buckets of a rank in use", buckets_per_rank, 1, most)?;
        Ok(Self {
            buckets_per_rank,
            ..self
        })
    }

    /// p: how many ranks own a part of the table.
    #[must_use]
    pub const fn ranks(self) -> u64 {
        self.ranks
    }

    /// k: the buckets of each rank.
    #[must_use]
    pub const fn buckets_per_rank(self) -> u64 {
        self.buckets_per_rank
    }

    /// All buckets.
    #[must_use]
    pub const fn buckets(self) -> u64 {
        self.buckets_per_rank * self.ranks
    }

    /// Bytes of a region that inserters may have written where they have taken so many words for
    /// elements: all others are still zeros.
    #[must_use]
    pub fn written_bytes(self, taken_words: u64) -> u64 {
        (self.elements_at() + taken_words.min(self.element_words)) * 8
    }

    /// Words for elements of each rank.
    #[must_use]
    pub const fn element_words(self) -> u64 {
        self.element_words
    }

    /// Bytes of each rank's region.
    #[must_use]
    pub const fn region_bytes(self) -> u64 {
        (HEADER + self.reserved_buckets + self.element_words) * 8
    }

    /// The rank that owns a bucket, and the bucket's word in its region.
    #[inline]
    pub(crate) const fn locate(self, bucket: u64) -> (usize, u64) {
        if self.ranks == 1 {
            return (0, HEADER + bucket);
        }
        let rank = bucket / self.buckets_per_rank;
        (
            rank as usize,
            HEADER + bucket - rank * self.buckets_per_rank,
        )
    }

    /// The word of a rank's region at which its elements start.
    #[inline]
    pub(crate) const fn elements_at(self) -> u64 {
        HEADER + self.reserved_buckets
    }

    /// The word of a rank's region behind its last bucket in use.
    #[inline]
    pub(crate) const fn buckets_end(self) -> u64 {
        HEADER + self.buckets_per_rank
    }

    /// Bits of an index that say which unit of a rank's part it is.
    #[inline]
    pub(crate) const fn unit_bits(self) -> u32 {
        INDEX_BITS - (u64::BITS - (self.ranks - 1).leading_zeros())
    }

    /// The index of a unit of a rank's part.
    #[inline]
    pub(crate) const fn index_of(self, rank: u64, unit: u64) -> u64 {
        rank << self.unit_bits() | unit
    }

    /// The rank and the unit of an index.
    #[inline]
    pub(crate) const fn unit_of(self, index: u64) -> (usize, u64) {
        let bits = self.unit_bits();
        ((index >> bits) as usize, index & ((1 << bits) - 1))
    }
}

/// The bucket of an element that lies beside the table. The home bucket goes by the hash's high
/// bits, so the signature takes the low ones.
#[inline]
pub(crate) const fn bucket_of(hash: u64, index: u64) -> u64 {
    OCCUPIED | (hash & SIGNATURE) << INDEX_BITS | index
}

/// Whether a word is a bucket as inserters leave it.
#[inline]
pub(crate) const fn is_occupied(bucket: u64) -> bool {
    bucket & OCCUPIED != 0
}

/// The bits of a hash that a bucket has.
const SIGNATURE: u64 = (1 << (63 - INDEX_BITS)) - 1;

/// Whether a bucket may be of an element with this hash.
#[inline]
pub(crate) const fn may_be(bucket: u64, hash: u64) -> bool {
    (bucket ^ bucket_of(hash, 0)) >> INDEX_BITS == 0
}

/// The index in a bucket.
#[inline]
pub(crate) const fn index_in(bucket: u64) -> u64 {
    bucket & ((1 << INDEX_BITS) - 1)
}

/// The home bucket of a hash.
#[inline]
pub(crate) const fn home(layout: Layout, hash: u64) -> u64 {
    hash::home(hash, layout.buckets())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_and_buckets_are_found_again() {
        for ranks in [1, 2, 3, 48, MAX_RANKS] {
            let layout = Layout::new(ranks, 1000, 1).unwrap();
            for bucket in [0, 999, 1000 * ranks - 1] {
                let (rank, word) = layout.locate(bucket);
                assert_eq!(rank as u64 * 1000 + word - HEADER, bucket);
            }
            let most = (1 << layout.unit_bits()) - 1;
            let index = layout.index_of(ranks - 1, most);
            assert!(index < MAX_ELEMENTS);
            assert_eq!(layout.unit_of(index), (ranks as usize - 1, most));
            let bucket = bucket_of(u64::MAX / 3, index);
            assert_eq!(index_in(bucket), index);
            assert!(may_be(bucket, u64::MAX / 3));
            assert!(!may_be(bucket, (u64::MAX / 3) ^ 1));
        }
    }

    #[test]
    fn shapes_out_of_range_are_refused() {
        for (ranks, buckets) in [(0, 1), (MAX_RANKS + 1, 1), (1, 0), (1, MAX_BUCKETS + 1)] {
            let refused = Layout::new(ranks, buckets, 0);
            assert!(matches!(refused, Err(SetError::OutOfRange { .. })));
        }
    }
}
