//! The words and bytes of an entry, and where in the catalog a name's entry is. No other file takes
//! them apart.
//!
//! ```text
//! entry | state word | id word | versions | place |        and apart: the table's record, as JSON
//! state 0                                                           empty: no other word is
//!       | 2, 2 bits | retired, 1 | restored, 1 | clearing, 1 | moving, 1 | length, 26 |
//!       | checksum, 32 |                                            a table
//! id    the record's id for as long as the memory is the table's, inverted when it takes no writes
//!       any more because its node ends; else 0
//! versions  how often segments were taken from the table: who knows where one of them lay forgets
//!       it when it sees another count
//! place | part of the name's hash, 32 | how many records were published before, 32 |
//! ```
//! The word of the place says which records a look for a name reads, and in which order tables are
//! listed. Nothing else depends on it: a table is found whatever the word is.

use xxhash_rust::xxh3::xxh3_64;

/// Bytes of an entry's words.
pub(super) const WORDS_BYTES: usize = 32;
/// Byte of the id word in an entry.
pub(super) const ID_AT: u64 = 8;
/// Byte of the count of versions in an entry, behind the id word.
pub(super) const VERSIONS_AT: u64 = 16;
/// And the one that says which bucket its name belongs to: see [`EntryWords::place_of`].
pub(super) const PLACE_AT: u64 = 24;
const _: () = assert!(VERSIONS_AT == ID_AT + 8 && PLACE_AT == VERSIONS_AT + 8);
/// The most bytes of a record: with its words an entry has 1 KiB.
pub(super) const MOST_RECORD: usize = 1024 - WORDS_BYTES;
/// Entries among which a name's is, as long as one of them is free when it is made.
pub(super) const BUCKET: usize = 64;

const RETIRED: u64 = 1 << 61;
const RESTORED: u64 = 1 << 60;
const CLEARING: u64 = 1 << 59;
const MOVING: u64 = 1 << 58;

/// The id word of a table that takes no writes any more.
pub(crate) const fn closed(id: u64) -> u64 {
    !id
}

/// A state word, taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Empty,
    Table {
        len: usize,
        sum: u32,
        /// Whether the table is gone, and its memory still to be made zeros.
        retired: bool,
        /// Whether its records came from a snapshot: what its node had lost of it is back.
        restored: bool,
        /// Whether it is being cleared: nobody opens it before it is.
        clearing: bool,
        /// Whether another record may have come in the place of this one.
        moving: bool,
    },
    /// A word that no client writes.
    Damaged,
}

impl State {
    /// The bits that say what becomes of a table.
    pub(super) const FLAGS: u64 = RETIRED | RESTORED | CLEARING | MOVING;

    pub(super) const fn decode(word: u64) -> Self {
        if word == 0 {
            return Self::Empty;
        }
        let len = (word >> 32 & ((1 << 26) - 1)) as usize;
        match (word >> 62, len) {
            (2, 1..=MOST_RECORD) => Self::Table {
                len,
                sum: word as u32,
                retired: word & RETIRED != 0,
                restored: word & RESTORED != 0,
                clearing: word & CLEARING != 0,
                moving: word & MOVING != 0,
            },
            _ => Self::Damaged,
        }
    }

    /// The word of a table with this record.
    pub(super) fn table(record: &[u8]) -> u64 {
        2 << 62 | (record.len() as u64) << 32 | xxh3_64(record) & 0xffff_ffff
    }

    /// The word of the same table while it is being cleared.
    pub(super) const fn clearing(word: u64) -> u64 {
        word | CLEARING
    }

    /// The word of the same table when it is open again.
    pub(super) const fn opened(word: u64) -> u64 {
        word & !CLEARING
    }

    /// The word of the same table while another record may come in the place of this one.
    pub(super) const fn moving(word: u64) -> u64 {
        word | MOVING
    }

    /// The word of the same table when no other record has come in its place.
    pub(super) const fn stayed(word: u64) -> u64 {
        word & !MOVING
    }

    /// The word of the same table when it is retired.
    pub(super) const fn retired(word: u64) -> u64 {
        word | RETIRED
    }

    /// The word of the same table when its records have come from a snapshot.
    pub(super) const fn restored(word: u64) -> u64 {
        word | RESTORED
    }
}

/// The words of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct EntryWords {
    pub(super) state: u64,
    pub(super) id: u64,
    pub(super) versions: u64,
    pub(super) place: u64,
}

impl EntryWords {
    pub(super) const fn of([state, id, versions, place]: [u64; WORDS_BYTES / 8]) -> Self {
        Self {
            state,
            id,
            versions,
            place,
        }
    }

    /// Those of several entries, one after the other.
    pub(super) fn all(words: &[u64]) -> impl Iterator<Item = Self> {
        words.as_chunks().0.iter().copied().map(Self::of)
    }

    pub(super) fn bytes(self) -> impl Iterator<Item = u8> {
        let words = [self.state, self.id, self.versions, self.place];
        words.into_iter().flat_map(u64::to_le_bytes)
    }

    /// The place of a record that was published behind so many others.
    pub(super) fn place_of(name: &str, published: u32) -> u64 {
        hash_of(name) >> 32 << 32 | u64::from(published)
    }

    /// How many records had been published before.
    pub(super) const fn published(self) -> u32 {
        self.place as u32
    }

    /// Whether it may be the entry of a table of that name that can be opened.
    pub(super) fn may_be(self, name: &str) -> bool {
        let is_open = matches!(
            State::decode(self.state),
            State::Table {
                retired: false,
                clearing: false,
                moving: false,
                ..
            }
        );
        is_open && self.place >> 32 == hash_of(name) >> 32
    }
}

fn hash_of(name: &str) -> u64 {
    xxh3_64(name.as_bytes())
}

/// The first entry of the bucket that a name belongs to, of so many entries: a power of two, and
/// more than a bucket has.
pub(super) fn home_of(name: &str, entries: usize) -> usize {
    hash_of(name) as usize % entries / BUCKET * BUCKET
}

/// The JSON of an entry that holds a table, and whether its checksum fits.
pub(super) fn record_in(state: u64, record: &[u8]) -> Option<(&[u8], bool)> {
    let State::Table { len, sum, .. } = State::decode(state) else {
        return None;
    };
    let json = record.get(..len)?;
    Some((json, xxh3_64(json) as u32 == sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_word_of_zeros_is_empty() {
        assert_eq!(State::decode(0), State::Empty);
        let too_long = State::table(&[b'x'; MOST_RECORD + 1]);
        for word in [
            1,
            1 << 58,
            1 << 59,
            1 << 60,
            1 << 61,
            1 << 62,
            2 << 62,
            3 << 62,
            too_long,
        ] {
            assert_eq!(State::decode(word), State::Damaged, "{word:#x}");
        }
        let word = State::clearing(State::table(b"{}"));
        let decoded = |retired, restored, clearing| State::Table {
            len: 2,
            sum: word as u32,
            retired,
            restored,
            clearing,
            moving: false,
        };
        assert_eq!(State::decode(word), decoded(false, false, true));
        let moving = State::moving(word);
        assert_ne!(State::decode(moving), State::decode(word));
        assert_eq!(State::stayed(moving), word);
        assert_eq!(
            State::decode(State::opened(word)),
            decoded(false, false, false)
        );
        assert_eq!(
            State::decode(State::retired(word)),
            decoded(true, false, true)
        );
        let restored = State::restored(word);
        assert_eq!(State::decode(restored), decoded(false, true, true));
        assert_eq!(
            State::decode(State::opened(restored)),
            decoded(false, true, false)
        );
    }

    #[test]
    fn names_have_buckets_that_lie_among_the_entries() {
        let names: Vec<_> = (0..1000).map(|at| format!("t{at}")).collect();
        for entries in [256, 1024, 4096] {
            let mut seen = vec![0; entries / BUCKET];
            for name in &names {
                let home = home_of(name, entries);
                assert!(home.is_multiple_of(BUCKET) && home + BUCKET <= entries);
                seen[home / BUCKET] += 1;
            }
            assert!(seen.iter().all(|count| *count > 0), "{entries}: {seen:?}");
        }
        let words = |state, name| EntryWords {
            state,
            place: EntryWords::place_of(name, 7),
            ..EntryWords::default()
        };
        let open = State::table(b"{}");
        assert!(words(open, "a").may_be("a") && !words(open, "b").may_be("a"));
        assert_eq!(words(open, "a").published(), 7);
        for state in [
            0,
            1,
            State::retired(open),
            State::clearing(open),
            State::moving(open),
        ] {
            assert!(!words(state, "a").may_be("a"), "{state:#x}");
        }
    }
}
