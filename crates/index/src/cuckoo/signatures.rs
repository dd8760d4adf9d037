//! The word of a Signatures bucket (paper 000, figure 5), and which records a reader may believe.
//!
//! ```text
//! word    | 4 signatures, 8 bits each | use | heap bucket's number |     use and number: 32 bits
//! ```
//! A use is what a generation is elsewhere: every record that is written into a heap bucket is
//! stamped with a use later than the word's, and the word that publishes it has that use.

use crate::Result;
use crate::heap::{BlockRef, GRANULE, block_bytes, class_for};
use crate::slot::{SIGNATURES, bad_option};

/// Bits of a heap bucket's number and use.
const OFFSET_BITS: u32 = 32;
/// The most bits of a number; the others tell the uses of a heap bucket apart.
const MOST_NUMBER_BITS: u32 = 24;
/// The heap keeps no more of a block's generation.
const MOST_USE_BITS: u32 = 11;

/// The word of a bucket: of each record a signature, and where the records are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SignatureWord(pub(super) u64);

impl SignatureWord {
    /// The signature at a position; 0 if it is free.
    pub(super) const fn signature(self, position: usize) -> u8 {
        (self.0 >> Self::shift(position)) as u8
    }

    const fn shift(position: usize) -> u32 {
        OFFSET_BITS + 8 * position as u32
    }

    /// The word with this signature at a position; 0 frees it.
    pub(super) const fn with(self, position: usize, signature: u8) -> Self {
        let kept = self.0 & !((u8::MAX as u64) << Self::shift(position));
        Self(kept | (signature as u64) << Self::shift(position))
    }

    /// Whether no record is in the bucket.
    pub(super) const fn is_vacant(self) -> bool {
        self.0 >> OFFSET_BITS == 0
    }

    pub(super) fn free_position(self) -> Option<usize> {
        (0..SIGNATURES).find(|position| self.signature(*position) == 0)
    }

    pub(super) fn positions_of(self, signature: u8) -> impl Iterator<Item = usize> {
        (0..SIGNATURES).filter(move |position| self.signature(*position) == signature)
    }

    /// Positions in use.
    pub(super) fn used(self) -> impl Iterator<Item = usize> {
        (0..SIGNATURES).filter(move |position| self.signature(*position) != 0)
    }
}

/// The heap buckets of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct HeapBuckets {
    /// Bytes between two records of a heap bucket.
    pub(super) region: usize,
    /// The size class of their blocks.
    pub(super) class: usize,
    number_bits: u32,
    use_bits: u32,
}

impl HeapBuckets {
    /// Those of so many bytes each, in a heap of so many.
    ///
    /// # Errors
    /// [`BadOption`](crate::IndexError::BadOption) for more than the words can name.
    pub(super) fn new(bytes: usize, heap_bytes: u64) -> Result<Self> {
        let Some(class) = class_for(bytes) else {
            let limit = "records that fit into a block of the heap";
            return Err(bad_option("key and value size", bytes, limit));
        };
        let most = heap_bytes / block_bytes(class) as u64;
        let number_bits = (u64::BITS - most.leading_zeros()).max(1);
        if number_bits > MOST_NUMBER_BITS {
            let most = (1u64 << MOST_NUMBER_BITS) - 1;
            let limit = format!(
                "at most {} with signatures, which name {most} heap buckets",
                (most + 1) * block_bytes(class) as u64 - 1
            );
            return Err(bad_option("heap bytes", heap_bytes, limit));
        }
        Ok(Self {
            region: bytes / SIGNATURES,
            class,
            number_bits,
            use_bits: (OFFSET_BITS - number_bits).min(MOST_USE_BITS),
        })
    }

    fn granules(self) -> u64 {
        block_bytes(self.class) as u64 / GRANULE
    }

    /// The heap bucket that a word names, and its use.
    pub(super) fn block(self, word: SignatureWord) -> BlockRef {
        let offset = word.0 & ((1 << OFFSET_BITS) - 1);
        let number = offset & ((1 << self.number_bits) - 1);
        BlockRef {
            // Number 0 is that of a word without a heap bucket.
            granule: 1 + number.saturating_sub(1) * self.granules(),
            generation: self.wrapped(offset >> self.number_bits),
            class: self.class,
        }
    }

    /// The word with these signatures and that heap bucket.
    pub(super) fn naming(self, word: SignatureWord, block: BlockRef) -> SignatureWord {
        let number = 1 + (block.granule - 1) / self.granules();
        let signatures = word.0 >> OFFSET_BITS << OFFSET_BITS;
        SignatureWord(signatures | self.wrapped(block.generation) << self.number_bits | number)
    }

    const fn wrapped(self, generation: u64) -> u64 {
        generation & ((1 << self.use_bits) - 1)
    }

    const fn half(self) -> u64 {
        1 << (self.use_bits - 1)
    }

    /// The use that the next write to a heap bucket has; none where the records that stay must be
    /// copied to another first. Uses come round: what was stamped half a round ago would look later
    /// than the word.
    pub(super) fn next_use(self, block: BlockRef) -> Option<BlockRef> {
        let generation = self.wrapped(block.generation + 1);
        (generation & (self.half() - 1) != 0).then_some(BlockRef {
            generation,
            ..block
        })
    }

    /// Whether a record with this stamp was there when the word was that of `block`, or earlier.
    pub(super) const fn is_of(self, stamp: u64, block: BlockRef) -> bool {
        stamp == self.wrapped(stamp)
            && self.wrapped(block.generation.wrapping_sub(stamp)) < self.half()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FieldSize;
    use crate::Sizing;
    use crate::cuckoo::CuckooOptions;
    use crate::cuckoo::layout::signature_of;
    use crate::slot::SlotKind;
    use proptest::prelude::*;

    fn options(capacity: u64, heap_bytes: Option<u64>) -> CuckooOptions {
        CuckooOptions {
            slot: Some(SlotKind::Signatures),
            ..CuckooOptions::new(Sizing {
                heap_bytes,
                ..Sizing::new(capacity, FieldSize::UpTo(16), FieldSize::UpTo(50), 1)
            })
        }
    }

    fn buckets(capacity: u64, heap_bytes: Option<u64>) -> HeapBuckets {
        let layout = options(capacity, heap_bytes).layout().unwrap();
        layout.heap_buckets().unwrap().unwrap()
    }

    #[test]
    fn a_heap_that_words_cannot_name_is_refused() {
        let block = block_bytes(buckets(100, None).class) as u64;
        assert!(options(100, Some((block << 24) - 64)).layout().is_ok());
        let refused = options(100, Some(block << 24)).layout().unwrap_err();
        assert!(refused.to_string().contains("16777215 heap buckets"));
        assert!(options(1 << 28, None).layout().is_err());
    }

    proptest! {
        #[test]
        fn words_keep_signatures_and_heap_bucket(
            bits: u64, position in 0..SIGNATURES, signature: u8, capacity in 1u64..1 << 24,
            number in 0u64..1 << 20, generation in 0u64..1 << 11,
        ) {
            let of = buckets(capacity, None);
            let number = number % (1 << (of.number_bits - 1));
            let granule = 1 + number * of.granules();
            let block = BlockRef { granule, generation: of.wrapped(generation), class: of.class };
            let word = of.naming(SignatureWord(bits), block);
            prop_assert_eq!(of.block(word), block);
            let with = word.with(position, signature);
            prop_assert_eq!(with.signature(position), signature);
            prop_assert_eq!(of.block(with), block);
            for other in (0..SIGNATURES).filter(|other| *other != position) {
                prop_assert_eq!(with.signature(other), word.signature(other));
                prop_assert_eq!(with.signature(other), SignatureWord(bits).signature(other));
            }
            prop_assert_eq!(with.used().count() == 0, with.is_vacant());
        }

        /// Records of a heap bucket are of its word; those written later, up to half a round, are
        /// not.
        #[test]
        fn stamps_tell_earlier_from_later(
            capacity in 1u64..1 << 25, first in 0u64..1 << 11, writes in 0u64..1 << 10,
        ) {
            let of = buckets(capacity, None);
            let start = BlockRef { granule: 1, generation: of.wrapped(first), class: of.class };
            let mut block = start;
            for _ in 0..writes % of.half() {
                let Some(next) = of.next_use(block) else {
                    break;
                };
                prop_assert!(of.is_of(block.generation, next) && of.is_of(next.generation, next));
                prop_assert!(of.is_of(start.generation, next) && !of.is_of(next.generation, start));
                prop_assert!(!of.is_of(next.generation, block));
                block = next;
            }
            prop_assert!(!of.is_of(1 << of.use_bits, block));
        }

        #[test]
        fn no_signature_is_that_of_a_free_position(hash: u64) {
            prop_assert!(signature_of(hash) > 0);
        }
    }
}
