//! The words and bytes of an entry. No other file takes them apart.

use xxhash_rust::xxh3::xxh3_64;

/// Bytes of an entry.
pub(super) const ENTRY_BYTES: usize = 1024;
/// The most bytes of a record: what an entry has room for behind its state word.
pub(super) const MOST_RECORD: usize = ENTRY_BYTES - 8;

/// A state word, taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Empty,
    Claimed,
    Table {
        len: usize,
        sum: u32,
    },
    Abandoned,
    /// A word that no client writes.
    Damaged,
}

pub(super) const ABANDONED: u64 = 3 << 62;

impl State {
    pub(super) const fn decode(word: u64) -> Self {
        match (word >> 62, word) {
            (_, 0) => Self::Empty,
            (_, ABANDONED) => Self::Abandoned,
            (1, _) => Self::Claimed,
            (2, _) => {
                let len = (word >> 32 & ((1 << 30) - 1)) as usize;
                let sum = word as u32;
                match len {
                    1..=MOST_RECORD => Self::Table { len, sum },
                    _ => Self::Damaged,
                }
            }
            _ => Self::Damaged,
        }
    }

    pub(super) const fn claimed(creation: u64) -> u64 {
        1 << 62 | creation >> 2
    }

    pub(super) fn table(record: &[u8]) -> u64 {
        2 << 62 | (record.len() as u64) << 32 | xxh3_64(record) & 0xffff_ffff
    }
}

/// The state word of an entry's bytes.
pub(super) fn word_of(bytes: &[u8]) -> u64 {
    bytes
        .first_chunk()
        .map_or(0, |word| u64::from_le_bytes(*word))
}

/// The JSON of an entry that holds a table, and whether its checksum fits.
pub(super) fn record_in(bytes: &[u8]) -> Option<(&[u8], bool)> {
    let State::Table { len, sum } = State::decode(word_of(bytes)) else {
        return None;
    };
    let json = bytes.get(8..8 + len)?;
    Some((json, xxh3_64(json) as u32 == sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_word_of_zeros_is_empty() {
        assert_eq!(State::decode(0), State::Empty);
        let damaged = [
            1,
            1 << 61,
            2 << 62,
            ABANDONED | 1,
            State::table(&[b'x'; MOST_RECORD + 1]),
        ];
        for word in damaged {
            assert_eq!(State::decode(word), State::Damaged, "{word:#x}");
        }
        assert_eq!(State::decode(State::claimed(0)), State::Claimed);
        assert_eq!(State::decode(ABANDONED), State::Abandoned);
        let State::Table { len, .. } = State::decode(State::table(b"{}")) else {
            panic!("a table")
        };
        assert_eq!(len, 2);
    }
}
