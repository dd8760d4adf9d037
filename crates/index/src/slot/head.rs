//! The head word of Inline and Heap slots: what is in the slot, and whose it is.
//!
//! ```text
//! empty     0
//! claimed   | 1, 3 bits | identity, 61 bits               |   Inline: its claimant is writing it
//! inline    | 2, 3 bits | tag, 29 bits | checksum, 32 bits |   Inline: key and value are in the slot
//! out       | 3, 3 bits | tag, 10 bits | block, 51 bits    |   the record is in the heap
//! dead      | 4, 3 bits | identity, 61 bits               |   the key was removed
//! ```
//! An identity is 61 bits of the key's hash and stands for the key; a tag is a part of it that is
//! only good for skipping other keys: the key itself is compared before a record is believed.

use crate::hash::checksum;
use crate::heap::BlockRef;

const KIND_SHIFT: u32 = 61;
const IDENTITY: u64 = (1 << KIND_SHIFT) - 1;
const INLINE_TAG: u64 = (1 << 29) - 1;
const OUT_TAG: u64 = (1 << 10) - 1;

/// A head word, taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Head {
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
    /// No head that this version writes.
    Unknown,
}

impl Head {
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
            _ => Self::Unknown,
        }
    }

    pub(crate) const fn claimed(hash: u64) -> u64 {
        1 << KIND_SHIFT | identity(hash)
    }

    /// The head of a slot that holds `record`, key and value, in a table with this seed.
    pub(crate) fn inline(hash: u64, record: &[u8], seed: u64) -> u64 {
        2 << KIND_SHIFT | inline_tag(hash) << 32 | u64::from(checksum(record, seed))
    }

    pub(crate) const fn out(hash: u64, block: BlockRef) -> u64 {
        3 << KIND_SHIFT | out_tag(hash) << BlockRef::BITS | block.pack()
    }

    pub(crate) const fn dead(hash: u64) -> u64 {
        4 << KIND_SHIFT | identity(hash)
    }

    /// Whether the slot can be the key's.
    #[inline]
    pub(crate) const fn may_be(self, hash: u64) -> bool {
        match self {
            Self::Empty | Self::Unknown => false,
            Self::Claimed { identity: of } | Self::Dead { identity: of } => of == identity(hash),
            Self::Inline { tag, .. } => tag == inline_tag(hash),
            Self::Out { tag, .. } => tag == out_tag(hash),
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn heads_say_what_they_were_made_of(hash: u64, bits in 0u64..1 << 51, other: u64) {
            let block = BlockRef::unpack(bits);
            let record = hash.to_le_bytes();
            for word in [Head::claimed(hash), Head::dead(hash), Head::inline(hash, &record, 1), Head::out(hash, block)] {
                let head = Head::decode(word);
                prop_assert!(head.may_be(hash) && head != Head::Unknown);
                prop_assert!(!head.may_be(other) || hash & 1023 == other & 1023);
            }
            let Head::Out { block: seen, .. } = Head::decode(Head::out(hash, block)) else {
                panic!("a reference to a block stays one");
            };
            prop_assert_eq!(seen, block);
        }
    }
}
