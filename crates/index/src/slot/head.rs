//! The head word of Inline, Heap and Hybrid slots: what is in the slot, and whose it is.
//!
//! ```text
//! empty     0
//! claimed   | 1, 3 bits | identity, 61 bits               | Inline, Hybrid: its claimant writes it
//! inline    | 2, 3 bits | tag, 29 bits | checksum, 32 bits | Inline: key and value are in the slot
//! out       | 3, 3 bits | tag, 10 bits | block, 51 bits    | the record is in the heap
//! dead      | 4, 3 bits | identity, 61 bits               | the key was removed
//! sized     | 5, 3 bits | tag, 9 bits | key length - 1, 10 bits | value length, 10 bits |
//!           | checksum, 32 bits |                         Hybrid: key and value are in the slot
//! retired   | 6, 3 bits | 0                               | Inline, Hybrid: its key left for good
//! ```
//! An identity is 61 bits of the key's hash and stands for the key; a tag is a part of it that is
//! only good for skipping other keys: the key itself is compared before a record is believed. The
//! tag of a sized head is the shortest, for it gives its bits to the lengths; a false match costs
//! no READ there, for the key is at hand. A record of up to [`MOST_SIZED`] bytes has both lengths
//! in them.

use crate::hash::checksum;
use crate::heap::BlockRef;

const KIND_SHIFT: u32 = 61;
const IDENTITY: u64 = (1 << KIND_SHIFT) - 1;
const INLINE_TAG: u64 = (1 << 29) - 1;
const OUT_TAG: u64 = (1 << 10) - 1;
const SIZED_TAG: u64 = (1 << 9) - 1;
/// Bits of either length in a sized head.
const LENGTH_BITS: u32 = 10;
const LENGTH: u64 = (1 << LENGTH_BITS) - 1;
const KEY_LENGTH_SHIFT: u32 = 32 + LENGTH_BITS;
const SIZED_TAG_SHIFT: u32 = KEY_LENGTH_SHIFT + LENGTH_BITS;

/// The most bytes of a key and a value whose lengths a sized head can say. A key has at least 1
/// byte, so that the value then has fewer than that.
pub(crate) const MOST_SIZED: usize = 1 << LENGTH_BITS;

/// A head word, taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SlotHead {
    Empty,
    Claimed {
        identity: u64,
    },
    Inline {
        tag: u64,
        sum: u32,
    },
    Out {
        tag: u64,
        block: BlockRef,
    },
    Dead {
        identity: u64,
    },
    Sized {
        tag: u64,
        key_len: usize,
        value_len: usize,
        sum: u32,
    },
    /// The slot is no key's any more.
    Retired,
    /// No head that this version writes.
    Unknown,
}

impl SlotHead {
    #[inline]
    pub(crate) fn decode(word: u64) -> Self {
        if word == 0 {
            return Self::Empty;
        }
        match word >> KIND_SHIFT {
            1 => Self::Claimed {
                identity: word & IDENTITY,
            },
            2 => Self::Inline {
                tag: word >> 32 & INLINE_TAG,
                sum: word as u32,
            },
            3 => Self::Out {
                tag: word >> BlockRef::BITS & OUT_TAG,
                block: BlockRef::unpack(word),
            },
            4 => Self::Dead {
                identity: word & IDENTITY,
            },
            5 => Self::Sized {
                tag: word >> SIZED_TAG_SHIFT & SIZED_TAG,
                key_len: (word >> KEY_LENGTH_SHIFT & LENGTH) as usize + 1,
                value_len: (word >> 32 & LENGTH) as usize,
                sum: word as u32,
            },
            6 => Self::Retired,
            _ => Self::Unknown,
        }
    }

    pub(crate) const fn retired() -> u64 {
        6 << KIND_SHIFT
    }

    pub(crate) const fn claimed(hash: u64) -> u64 {
        1 << KIND_SHIFT | identity(hash)
    }

    /// The head of a slot that holds `record`, key and value, in a table with this seed.
    pub(crate) fn inline(hash: u64, record: &[u8], seed: u64) -> u64 {
        2 << KIND_SHIFT | inline_tag(hash) << 32 | u64::from(checksum(record, seed))
    }

    /// The head of a Hybrid slot that holds `record`, of which the first `key_len` bytes are the
    /// key. The key has a byte at least, and all of it at most [`MOST_SIZED`].
    pub(crate) fn sized(hash: u64, record: &[u8], key_len: usize, seed: u64) -> u64 {
        debug_assert!(key_len > 0 && key_len <= record.len() && record.len() <= MOST_SIZED);
        let lengths = (key_len as u64 - 1) << LENGTH_BITS | (record.len() - key_len) as u64;
        let sum = u64::from(checksum(record, seed));
        5 << KIND_SHIFT | sized_tag(hash) << SIZED_TAG_SHIFT | lengths << 32 | sum
    }

    pub(crate) const fn out(hash: u64, block: BlockRef) -> u64 {
        3 << KIND_SHIFT | out_tag(hash) << BlockRef::BITS | block.pack()
    }

    pub(crate) const fn dead(hash: u64) -> u64 {
        4 << KIND_SHIFT | identity(hash)
    }

    /// Whether a word is the head of a slot that holds, or names, a record which can be the key's:
    /// what [`SlotHead::decode`] and [`SlotHead::may_be`] say, for those that look through many.
    #[inline(always)]
    pub(crate) const fn has_record_of(word: u64, hash: u64) -> bool {
        word >> 32 == 2 << (KIND_SHIFT - 32) | inline_tag(hash)
            || word >> BlockRef::BITS == 3 << (KIND_SHIFT - BlockRef::BITS) | out_tag(hash)
            || word >> SIZED_TAG_SHIFT == 5 << (KIND_SHIFT - SIZED_TAG_SHIFT) | sized_tag(hash)
    }

    /// Whether the slot can be the key's.
    #[inline]
    pub(crate) const fn may_be(self, hash: u64) -> bool {
        match self {
            Self::Empty | Self::Retired | Self::Unknown => false,
            Self::Claimed { identity: of } | Self::Dead { identity: of } => of == identity(hash),
            Self::Inline { tag, .. } => tag == inline_tag(hash),
            Self::Out { tag, .. } => tag == out_tag(hash),
            Self::Sized { tag, .. } => tag == sized_tag(hash),
        }
    }

    /// Whether the slot names a record out of band that can be the key's.
    #[inline]
    pub(crate) const fn is_out_of(self, hash: u64) -> bool {
        matches!(self, Self::Out { .. }) && self.may_be(hash)
    }

    /// Whether the slot holds a record in itself.
    #[inline]
    pub(crate) const fn is_in_slot(self) -> bool {
        matches!(self, Self::Inline { .. } | Self::Sized { .. })
    }

    /// Whether the slot holds a record, in itself or out of band.
    #[inline]
    pub(crate) const fn is_live(self) -> bool {
        matches!(
            self,
            Self::Inline { .. } | Self::Out { .. } | Self::Sized { .. }
        )
    }
}

const fn identity(hash: u64) -> u64 {
    hash & IDENTITY
}

// The home slot is taken from the hash's high bits: the tags come from the low ones.
const fn inline_tag(hash: u64) -> u64 {
    hash & INLINE_TAG
}

const fn out_tag(hash: u64) -> u64 {
    hash & OUT_TAG
}

const fn sized_tag(hash: u64) -> u64 {
    hash & SIZED_TAG
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn heads_say_what_they_were_made_of(hash: u64, bits in 0u64..1 << 51, other: u64) {
            let block = BlockRef::unpack(bits);
            let record = hash.to_le_bytes();
            let words = [
                SlotHead::claimed(hash),
                SlotHead::dead(hash),
                SlotHead::inline(hash, &record, 1),
                SlotHead::out(hash, block),
                SlotHead::sized(hash, &record, 3, 1),
            ];
            for word in words {
                let head = SlotHead::decode(word);
                prop_assert!(head.may_be(hash) && head != SlotHead::Unknown);
                prop_assert!(!head.may_be(other) || hash & SIZED_TAG == other & SIZED_TAG);
                for of in [hash, other, hash ^ 1 << 40, hash ^ 1 << 20] {
                    let has_record = head.is_live() && head.may_be(of);
                    prop_assert_eq!(SlotHead::has_record_of(word, of), has_record);
                }
                prop_assert!(!SlotHead::has_record_of(0, hash));
            }
            let SlotHead::Out { block: seen, .. } = SlotHead::decode(SlotHead::out(hash, block)) else {
                panic!("a reference to a block stays one");
            };
            prop_assert_eq!(seen, block);
        }

        #[test]
        fn sized_heads_know_every_length_up_to_the_most(
            hash: u64,
            len in prop_oneof![1..=MOST_SIZED, Just(1), Just(MOST_SIZED)],
            split in any::<proptest::sample::Index>(),
            flip in any::<proptest::sample::Index>(),
        ) {
            let mut record: Vec<u8> = (0..len).map(|at| hash.rotate_left(at as u32) as u8).collect();
            let wanted = 1 + split.index(len);
            let word = SlotHead::sized(hash, &record, wanted, 7);
            let SlotHead::Sized { tag, key_len, value_len, sum } = SlotHead::decode(word) else {
                panic!("a sized head stays one");
            };
            prop_assert_eq!((tag, key_len, key_len + value_len), (hash & SIZED_TAG, wanted, len));
            prop_assert_eq!(sum, checksum(&record, 7));
            let bit = flip.index(len * 8);
            record[bit / 8] ^= 1 << (bit % 8);
            prop_assert_ne!(SlotHead::sized(hash, &record, wanted, 7), word);
        }
    }
}
