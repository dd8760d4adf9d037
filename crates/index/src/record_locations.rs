//! What a client remembers of where records lie out of band.
//!
//! A slot names the block that its key's record lies in, so that a lookup costs two READs one after
//! the other. Who remembers slot and block of a key asks for both at once, and has the answer after
//! one round trip: if the slot still names that block, what was read from it is the record. Any
//! scheme whose slots keep their keys may have it.
//!
//! It is a memory, not the truth: the slot is always read, or swapped from what is remembered.
//!
//! *Whose location it is.* A lookup compares the key with the record that it reads; an update reads
//! nothing, so that another key's location would let it replace another key's record. Keys of one
//! hash are rare, but who knows the table's seed can make them. So a location is told by another
//! hash of the key, whose seed no one but this client has: 64 bits on which keys agree by chance
//! only, beside the table's hash, which gives their slot.

use crate::Hasher;
use crate::heap::BlockRef;
use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};

/// Bits of the distance that a location has room for.
const DISTANCE_BITS: u32 = u64::BITS - BlockRef::BITS;

/// Where the records of keys were, at most one of each of so many parts of all hashes.
#[derive(Debug)]
pub(crate) struct RecordLocations {
    /// Tells whose a location is.
    owner: Hasher,
    /// A power of two.
    entries: RefCell<Vec<Entry>>,
}

/// The owner's hash; then its block, and the distance of its slot from its home above that. Zeros
/// where nothing is known.
type Entry = [u64; 2];

/// A key as its location is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocatedKey<'k> {
    /// Its hash in the table, which decides where its location is.
    pub(crate) hash: u64,
    pub(crate) bytes: &'k [u8],
}

/// Where a key's record was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RecordLocation {
    /// Slots from the key's home to its slot.
    pub(crate) distance: u64,
    /// The block that the slot named.
    pub(crate) block: BlockRef,
}

impl RecordLocations {
    /// Room for `most` keys or more, of 16 bytes each. Memory that was never noted in takes none.
    pub(crate) fn new(most: usize) -> Self {
        let entries = most.clamp(1, 1 << 40).next_power_of_two();
        let seed = RandomState::new().hash_one(());
        Self {
            owner: Hasher::Xxh3 { seed },
            entries: RefCell::new(vec![[0; 2]; entries]),
        }
    }

    /// The bytes that this may take.
    pub(crate) fn most_bytes(&self) -> u64 {
        (self.entries.borrow().len() * size_of::<Entry>()) as u64
    }

    /// Where the key's record was when it was noted last.
    #[inline]
    pub(crate) fn of(&self, key: LocatedKey<'_>) -> Option<RecordLocation> {
        let entries = self.entries.borrow();
        let [owner, place] = entries[part_of(key.hash, entries.len())];
        (place != 0 && owner == self.owner.hash(key.bytes)).then(|| RecordLocation {
            distance: place >> BlockRef::BITS,
            block: BlockRef::unpack(place),
        })
    }

    /// Notes where a record is. Another key's that hashes to the same part is forgotten; a slot
    /// that is too far from its home is not noted.
    #[inline]
    pub(crate) fn note(
        &self,
        key: LocatedKey<'_>,
        RecordLocation { distance, block }: RecordLocation,
    ) {
        if distance >> DISTANCE_BITS == 0 {
            let mut entries = self.entries.borrow_mut();
            let part = part_of(key.hash, entries.len());
            let owner = self.owner.hash(key.bytes);
            entries[part] = [owner, distance << BlockRef::BITS | block.pack()];
        }
    }

    /// Forgets where a key's record was.
    #[inline]
    pub(crate) fn forget(&self, key: LocatedKey<'_>) {
        let mut entries = self.entries.borrow_mut();
        let part = part_of(key.hash, entries.len());
        if entries[part][0] == self.owner.hash(key.bytes) {
            entries[part] = [0; 2];
        }
    }
}

/// The part that a hash belongs to, of a power of two of them. Neighbours in a table share the high
/// bits of their hashes, and keys with one tag the low ones: all bits are mixed.
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
        // Few keys, so that they meet.
        let key = || 0..80u64;
        let distance = prop_oneof![
            0..3u64,
            (1u64 << DISTANCE_BITS) - 2..(1u64 << DISTANCE_BITS) + 2
        ];
        prop_oneof![
            (key(), distance, 1..1u64 << BlockRef::BITS)
                .prop_map(|(key, distance, block)| Step::Note(key, distance, block)),
            key().prop_map(Step::Forget),
            key().prop_map(Step::Look),
        ]
    }

    /// Asks with a key by its number: every two numbers have one hash.
    fn with_key<R>(number: u64, ask: impl FnOnce(LocatedKey<'_>) -> R) -> R {
        let pair = number / 2;
        let hash = pair << 40 | pair;
        let bytes = &number.to_le_bytes();
        ask(LocatedKey { hash, bytes })
    }

    proptest! {
        #[test]
        fn what_is_remembered_is_what_was_noted_last(
            steps in proptest::collection::vec(step(), 1..200),
            most in 1..70usize,
        ) {
            let locations = RecordLocations::new(most);
            let mut noted = HashMap::new();
            for step in steps {
                match step {
                    Step::Note(key, distance, block) => {
                        let location = RecordLocation { distance, block: BlockRef::unpack(block) };
                        with_key(key, |key| locations.note(key, location));
                        if distance < 1 << DISTANCE_BITS {
                            noted.insert(key, location);
                            prop_assert_eq!(with_key(key, |key| locations.of(key)), Some(location));
                            // The other one of its hash is not taken for it.
                            prop_assert_eq!(with_key(key ^ 1, |key| locations.of(key)), None);
                        }
                    }
                    Step::Forget(key) => {
                        with_key(key, |key| locations.forget(key));
                        noted.remove(&key);
                        prop_assert_eq!(with_key(key, |key| locations.of(key)), None);
                    }
                    Step::Look(key) => {
                        let known = with_key(key, |key| locations.of(key));
                        prop_assert!(known.is_none() || known == noted.get(&key).copied());
                    }
                }
            }
        }
    }

    #[test]
    fn most_of_as_many_keys_as_there_is_room_for_are_remembered() {
        let locations = RecordLocations::new(1000);
        let with_key = |number: u64, ask: &dyn Fn(LocatedKey<'_>) -> bool| {
            let bytes = &number.to_le_bytes();
            let hash = xxhash_rust::xxh3::xxh3_64(bytes);
            ask(LocatedKey { hash, bytes })
        };
        let location = |number| RecordLocation {
            distance: 5,
            block: BlockRef {
                granule: 1 + number,
                generation: 3,
                class: 2,
            },
        };
        let note = |number| {
            with_key(number, &|key| {
                locations.note(key, location(number));
                locations.of(key).is_some()
            })
        };
        assert!((0..1024).all(note));
        let is_known =
            |number: &u64| with_key(*number, &|key| locations.of(key) == Some(location(*number)));
        let known = (0..1024).filter(is_known).count();
        // Of n keys in n parts, 1 - 1/e are the last of their part.
        assert!((550..750).contains(&known), "{known}");
    }
}
