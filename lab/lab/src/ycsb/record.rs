//! Records that say themselves what they are: keys by their numbers, values that can be checked.

use farslot_bench::Keys;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes of a key.
pub const KEY_BYTES: usize = 24;
/// Bytes of a checksum, a record's number and a version.
pub const LEAST_VALUE_BYTES: usize = 24;

/// A key: `user` and 20 digits.
pub type Key = [u8; KEY_BYTES];

/// The records of one run. A value is bound to its run, its record and its version, so that any
/// other bytes are recognised:
///
/// ```text
/// 0          8               16        24
/// +----------+---------------+---------+----------------------------+
/// | checksum | record number | version | filling, from both of them |
/// +----------+---------------+---------+----------------------------+
///   of all that follows, seeded by the run
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Records {
    keys: Keys,
    seed: u64,
    value_bytes: usize,
}

impl Records {
    /// The records of a seed, with values of at least [`LEAST_VALUE_BYTES`].
    pub fn new(seed: u64, value_bytes: usize) -> Self {
        assert!(value_bytes >= LEAST_VALUE_BYTES, "checked with the options");
        Self {
            keys: Keys::new(seed),
            seed,
            value_bytes,
        }
    }

    /// The key of a record: as YCSB makes it, from a hash of the record's number. The hash is a
    /// bijection here, so that no two records share a key, and has all of its digits, so that keys
    /// are of one length.
    pub fn key(&self, record: u64) -> Key {
        let mut key = *b"user00000000000000000000";
        let mut hash = u64::from_le_bytes(self.keys.long(record));
        for digit in key[4..].iter_mut().rev() {
            *digit = b'0' + (hash % 10) as u8;
            hash /= 10;
        }
        key
    }

    /// Appends the value of a record's version.
    pub fn append_value(&self, record: u64, version: u64, values: &mut Vec<u8>) {
        let first = values.len();
        values.resize(first + self.value_bytes, 0);
        let value = &mut values[first..];
        value[8..16].copy_from_slice(&record.to_le_bytes());
        value[16..24].copy_from_slice(&version.to_le_bytes());
        let mut word = (record ^ version.rotate_left(32) ^ self.seed) | 1;
        for bytes in value[LEAST_VALUE_BYTES..].chunks_mut(8) {
            // Xorshift: nothing is to be guessed here, only to be different everywhere.
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            bytes.copy_from_slice(&word.to_le_bytes()[..bytes.len()]);
        }
        let checksum = self.checksum(value);
        value[..8].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Whether these bytes were written as a value of this record in this run, whole and unchanged.
    pub fn is_value_of(&self, record: u64, value: &[u8]) -> bool {
        value.len() == self.value_bytes
            && value[8..16] == record.to_le_bytes()
            && value[..8] == self.checksum(value).to_le_bytes()
    }

    fn checksum(&self, value: &[u8]) -> u64 {
        xxh3_64_with_seed(&value[8..], self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn value(records: &Records, record: u64, version: u64) -> Vec<u8> {
        let mut value = Vec::new();
        records.append_value(record, version, &mut value);
        value
    }

    #[test]
    fn keys_are_as_in_ycsb_and_distinct() {
        let records = Records::new(3, 64);
        let keys: HashSet<_> = (0..10_000).map(|record| records.key(record)).collect();
        assert_eq!(keys.len(), 10_000);
        for key in keys {
            assert!(key.starts_with(b"user") && key[4..].iter().all(u8::is_ascii_digit));
        }
    }

    #[test]
    fn only_a_value_of_the_record_is_taken_for_one() {
        for bytes in [LEAST_VALUE_BYTES, 64, 1001] {
            let records = Records::new(3, bytes);
            let (first, second) = (value(&records, 1, 7), value(&records, 2, 7));
            assert!(records.is_value_of(1, &first) && records.is_value_of(2, &second));
            // Swapped, of another run, cut off, empty, or of two versions.
            assert!(!records.is_value_of(1, &second) && !records.is_value_of(2, &first));
            assert!(!Records::new(4, bytes).is_value_of(1, &first));
            assert!(!records.is_value_of(1, &first[..bytes - 1]));
            assert!(!records.is_value_of(1, b""));
            let mut torn = value(&records, 1, 8);
            torn[bytes - 8..].copy_from_slice(&first[bytes - 8..]);
            assert!(!records.is_value_of(1, &torn));
        }
    }
}
