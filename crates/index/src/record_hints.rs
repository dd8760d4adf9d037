//! What a client remembers of where records lie out of band.
//!
//! A slot names the block that its key's record lies in, so that a lookup costs two READs one after the other. Who
//! remembers slot and block of a key asks for both at once, and has the answer after one round trip: if the slot still
//! names that block, what was read from it is the record. Any scheme whose slots keep their keys may have it.
//!
//! It is a memory, not the truth: the slot is always read, or swapped from what is remembered.

use crate::heap::BlockRef;
use std::cell::RefCell;

/// Bits of the distance that a hint has room for.
const DISTANCE_BITS: u32 = u64::BITS - BlockRef::BITS;

/// Where the records of keys were, at most one of each of so many parts of all hashes.
#[derive(Debug)]
pub(crate) struct RecordHints {
    /// A power of two.
    entries: RefCell<Vec<Entry>>,
}

/// A key's hash; then its block, and the distance of its slot from its home above that. Zeros where nothing is known.
type Entry = [u64; 2];

/// Where a key's record was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RecordHint {
    /// Slots from the key's home to its slot.
    pub(crate) distance: u64,
    /// The block that the slot named.
    pub(crate) block: BlockRef,
}

impl RecordHints {
    /// Room for `most` keys or more, of 16 bytes each. Memory that was never noted in takes none.
    pub(crate) fn new(most: usize) -> Self {
        let entries = most.clamp(1, 1 << 40).next_power_of_two();
        Self {
            entries: RefCell::new(vec![[0; 2]; entries]),
        }
    }

    /// The bytes that this may take.
    pub(crate) fn most_bytes(&self) -> u64 {
        (self.entries.borrow().len() * size_of::<Entry>()) as u64
    }

    /// Where the record of the key with this hash was when it was noted last. A key is told by all 64 bits of its hash,
    /// as by the identity in the heads of claimed and dead slots.
    #[inline]
    pub(crate) fn of(&self, hash: u64) -> Option<RecordHint> {
        let entries = self.entries.borrow();
        let [known, place] = entries[part_of(hash, entries.len())];
        (known == hash && place != 0).then(|| RecordHint {
            distance: place >> BlockRef::BITS,
            block: BlockRef::unpack(place),
        })
    }

    /// Notes where a record is. Another key's that hashes to the same part is forgotten; a slot that is too far from
    /// its home is not noted.
    #[inline]
    pub(crate) fn note(&self, hash: u64, RecordHint { distance, block }: RecordHint) {
        if distance >> DISTANCE_BITS == 0 {
            let mut entries = self.entries.borrow_mut();
            let part = part_of(hash, entries.len());
            entries[part] = [hash, distance << BlockRef::BITS | block.pack()];
        }
    }

    /// Forgets where a key's record was.
    #[inline]
    pub(crate) fn forget(&self, hash: u64) {
        let mut entries = self.entries.borrow_mut();
        let part = part_of(hash, entries.len());
        if entries[part][0] == hash {
            entries[part] = [0; 2];
        }
    }
}

/// The part that a hash belongs to, of a power of two of them. Neighbours in a table share the high bits of their
/// hashes, and keys with one tag the low ones: all bits are mixed.
#[inline]
const fn part_of(hash: u64, parts: usize) -> usize {
    let mixed = (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 24) as usize & (parts - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Note(u64, u64, u64),
        Forget(u64),
        Look(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        // Few hashes, so that they meet.
        let hash = || (0..40u64).prop_map(|number| number << 40 | number);
        let distance = prop_oneof![
            0..3u64,
            (1u64 << DISTANCE_BITS) - 2..(1u64 << DISTANCE_BITS) + 2
        ];
        prop_oneof![
            (hash(), distance, 1..1u64 << BlockRef::BITS)
                .prop_map(|(hash, distance, block)| Step::Note(hash, distance, block)),
            hash().prop_map(Step::Forget),
            hash().prop_map(Step::Look),
        ]
    }

    proptest! {
        #[test]
        fn what_is_remembered_is_what_was_noted_last(
            steps in proptest::collection::vec(step(), 1..200),
            most in 1..70usize,
        ) {
            let hints = RecordHints::new(most);
            let mut noted = HashMap::new();
            for step in steps {
                match step {
                    Step::Note(hash, distance, block) => {
                        let hint = RecordHint { distance, block: BlockRef::unpack(block) };
                        hints.note(hash, hint);
                        if distance < 1 << DISTANCE_BITS {
                            noted.insert(hash, hint);
                            prop_assert_eq!(hints.of(hash), Some(hint));
                        }
                    }
                    Step::Forget(hash) => {
                        hints.forget(hash);
                        noted.remove(&hash);
                        prop_assert_eq!(hints.of(hash), None);
                    }
                    Step::Look(hash) => {
                        let known = hints.of(hash);
                        prop_assert!(known.is_none() || known == noted.get(&hash).copied());
                    }
                }
            }
        }
    }

    #[test]
    fn most_of_as_many_keys_as_there_is_room_for_are_remembered() {
        let hints = RecordHints::new(1000);
        let hash = |number: u64| xxhash_rust::xxh3::xxh3_64(&number.to_le_bytes());
        let block = |number| BlockRef {
            granule: 1 + number,
            generation: 3,
            class: 2,
        };
        for number in 0..1024 {
            hints.note(
                hash(number),
                RecordHint {
                    distance: 5,
                    block: block(number),
                },
            );
        }
        let known = (0..1024).filter(|&number| {
            hints
                .of(hash(number))
                .is_some_and(|hint| hint.block == block(number))
        });
        // Of n keys in n parts, 1 - 1/e are the last of their part.
        let known = known.count();
        assert!((550..750).contains(&known), "{known}");
    }
}
