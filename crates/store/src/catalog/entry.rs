//! The words and bytes of an entry. No other file takes them apart.
//!
//! ```text
//! entry | state word | id word | versions | the table's record, as JSON |
//! state 0                                                           empty: no other word is
//!       | 2, 2 bits | retired, 1 | restored, 1 | clearing, 1 | length, 27 | checksum, 32 |
//!                                                                  a table
//! id    the record's id for as long as the memory is the table's, inverted when it takes no writes
//!       any more because its node ends; else 0
//! versions  how often segments were taken from the table: who knows where one of them lay forgets
//!       it when it sees another count
//! ```

use xxhash_rust::xxh3::xxh3_64;

/// Bytes of an entry.
pub(super) const ENTRY_BYTES: usize = 1024;
/// Byte of the id word in an entry.
pub(super) const ID_AT: u64 = 8;
/// Byte of the count of versions in an entry, behind the id word.
pub(super) const VERSIONS_AT: u64 = 16;
/// Byte of the record in an entry.
pub(super) const RECORD_AT: usize = 24;
/// The most bytes of a record.
pub(super) const MOST_RECORD: usize = ENTRY_BYTES - RECORD_AT;

const RETIRED: u64 = 1 << 61;
const RESTORED: u64 = 1 << 60;
const CLEARING: u64 = 1 << 59;

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
    },
    /// A word that no client writes.
    Damaged,
}

impl State {
    /// The bits that say what becomes of a table.
    pub(super) const FLAGS: u64 = RETIRED | RESTORED | CLEARING;

    pub(super) const fn decode(word: u64) -> Self {
        if word == 0 {
            return Self::Empty;
        }
        let len = (word >> 32 & ((1 << 27) - 1)) as usize;
        match (word >> 62, len) {
            (2, 1..=MOST_RECORD) => Self::Table {
                len,
                sum: word as u32,
                retired: word & RETIRED != 0,
                restored: word & RESTORED != 0,
                clearing: word & CLEARING != 0,
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

    /// The word of the same table when it is retired.
    pub(super) const fn retired(word: u64) -> u64 {
        word | RETIRED
    }

    /// The word of the same table when its records have come from a snapshot.
    pub(super) const fn restored(word: u64) -> u64 {
        word | RESTORED
    }
}

/// A word of an entry's bytes.
fn word_at(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    word.map_or(0, |word| u64::from_le_bytes(*word))
}

/// The state word of an entry's bytes.
pub(super) fn word_of(bytes: &[u8]) -> u64 {
    word_at(bytes, 0)
}

/// The id word of an entry's bytes.
pub(super) fn id_of(bytes: &[u8]) -> u64 {
    word_at(bytes, ID_AT as usize)
}

/// The JSON of an entry that holds a table, and whether its checksum fits.
pub(super) fn record_in(bytes: &[u8]) -> Option<(&[u8], bool)> {
    let State::Table { len, sum, .. } = State::decode(word_of(bytes)) else {
        return None;
    };
    let json = bytes.get(RECORD_AT..RECORD_AT + len)?;
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
        };
        assert_eq!(State::decode(word), decoded(false, false, true));
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
}
