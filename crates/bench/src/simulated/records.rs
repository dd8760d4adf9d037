//! The records of a table, known by their numbers.

use super::zipf::Zipf;
use crate::Keys;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

/// Bytes of a key: those of paper 000.
const KEY_BYTES: usize = 4;

/// Records with keys of 4 bytes: paper 000's. The same seed gives the same records.
#[derive(Clone, Debug)]
pub struct Records {
    keys: Keys,
    count: u32,
    /// The numbers of the keys that records have lie below this.
    key_numbers: u32,
    /// The most that a value has.
    value_bytes: usize,
    /// By record: bytes of its value, where they differ.
    lengths: Option<Arc<[u16]>>,
    /// Where keys may have several records.
    assignment: Option<KeyAssignment>,
}

/// Which keys records have.
#[derive(Clone, Debug)]
struct KeyAssignment {
    /// By record: the number of its key.
    of_record: Arc<[u32]>,
    /// By key: how many records it has.
    records: Arc<[u32]>,
}

impl Records {
    /// So many records, each with a key of its own.
    #[must_use]
    pub fn distinct(seed: u64, count: u32, value_bytes: usize) -> Self {
        Self {
            keys: Keys::new(seed),
            count,
            key_numbers: count,
            value_bytes,
            lengths: None,
            assignment: None,
        }
    }

    /// Records with keys of their own and values of these many bytes.
    #[must_use]
    pub fn varied(seed: u64, value_bytes: impl IntoIterator<Item = u16>) -> Self {
        let lengths: Arc<[u16]> = value_bytes.into_iter().collect();
        let most = lengths.iter().copied().max().unwrap_or(0);
        Self {
            lengths: Some(lengths.clone()),
            ..Self::distinct(seed, lengths.len() as u32, most.into())
        }
    }

    /// The same records, each with a value as long as the longest: for tables of one size.
    #[must_use]
    pub fn padded(&self) -> Self {
        Self {
            lengths: None,
            ..self.clone()
        }
    }

    /// Records whose keys are drawn: key number i as `keys` has it.
    #[must_use]
    pub fn drawn(seed: u64, count: u32, keys: &Zipf, value_bytes: usize) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let of_record: Arc<[u32]> = (0..count).map(|_| keys.draw(&mut random)).collect();
        let mut records = vec![0; keys.count() as usize];
        of_record.iter().for_each(|key| records[*key as usize] += 1);
        Self {
            keys: Keys::new(seed),
            count,
            key_numbers: keys.count(),
            value_bytes,
            lengths: None,
            assignment: Some(KeyAssignment {
                of_record,
                records: records.into(),
            }),
        }
    }

    /// So many of them, the first ones. Of those whose keys are drawn, all that there are.
    #[must_use]
    pub fn first(&self, count: u32) -> Self {
        if self.assignment.is_some() {
            return self.clone();
        }
        let count = count.min(self.count);
        Self {
            count,
            key_numbers: count,
            ..self.clone()
        }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Bytes of a record, key and value; the most where they differ.
    #[must_use]
    pub fn bytes(&self) -> usize {
        KEY_BYTES + self.value_bytes
    }

    /// Bytes of a value; the most where they differ.
    #[must_use]
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    #[inline]
    fn length(&self, record: u32) -> usize {
        match &self.lengths {
            Some(lengths) => lengths[record as usize].into(),
            None => self.value_bytes,
        }
    }

    /// The key of a record.
    #[inline]
    #[must_use]
    pub fn key(&self, record: u32) -> [u8; KEY_BYTES] {
        let number = match &self.assignment {
            Some(assignment) => assignment.of_record[record as usize],
            None => record,
        };
        self.keys.short(number)
    }

    /// A key that no record has.
    #[must_use]
    pub fn absent_key(&self, random: &mut impl Rng) -> [u8; KEY_BYTES] {
        self.keys
            .short(random.random_range(self.key_numbers..=u32::MAX))
    }

    /// How many records have the key of this one.
    #[inline]
    #[must_use]
    pub fn with_key_of(&self, record: u32) -> u32 {
        match &self.assignment {
            Some(assignment) => assignment.records[assignment.of_record[record as usize] as usize],
            None => 1,
        }
    }

    /// The value of a record: its number, over and over, but for the last of its bits, for which a
    /// slot of one word has no place.
    #[must_use]
    pub fn value(&self, record: u32) -> Vec<u8> {
        let bytes = value_piece(record).into_iter().cycle();
        bytes.take(self.length(record)).collect()
    }

    /// All keys and values.
    pub(super) fn owned(&self) -> Vec<([u8; KEY_BYTES], Vec<u8>)> {
        (0..self.count)
            .map(|record| (self.key(record), self.value(record)))
            .collect()
    }

    /// Whether that is the value of a record.
    #[inline]
    #[must_use]
    pub fn is_value(&self, record: u32, value: &[u8]) -> bool {
        let expected = value_piece(record);
        let mut pieces = value.chunks(expected.len());
        value.len() == self.length(record) && pieces.all(|piece| *piece == expected[..piece.len()])
    }
}

#[inline]
fn value_piece(record: u32) -> [u8; 4] {
    (record & (u32::MAX >> 1)).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn drawn_keys_have_as_many_records_as_is_said() {
        let records = Records::drawn(7, 10_000, &Zipf::new(3_000, 0.9), 28);
        let mut counted: HashMap<[u8; 4], u32> = HashMap::new();
        for record in 0..records.count() {
            *counted.entry(records.key(record)).or_default() += 1;
        }
        for record in 0..records.count() {
            assert_eq!(counted[&records.key(record)], records.with_key_of(record));
        }
        assert!(counted.values().any(|count| *count > 100));
        let mut random = ChaCha8Rng::seed_from_u64(1);
        for _ in 0..1_000 {
            assert!(!counted.contains_key(&records.absent_key(&mut random)));
        }
    }

    #[test]
    fn a_record_knows_its_value() {
        let records = Records::distinct(7, 100, 124);
        let value = records.value(99);
        assert_eq!((value.len(), records.bytes()), (124, 128));
        assert!(records.is_value(99, &value));
        assert!(!records.is_value(98, &value) && !records.is_value(99, &value[1..]));
    }

    #[test]
    fn records_of_several_sizes_have_them_until_they_are_padded() {
        let lengths = [4, 0, 12, 5];
        let varied = Records::varied(7, lengths);
        assert_eq!((varied.count(), varied.value_bytes()), (4, 12));
        let padded = varied.padded();
        for (record, length) in (0..).zip(lengths) {
            let value = varied.value(record);
            assert_eq!(value.len(), usize::from(length));
            assert!(varied.is_value(record, &value));
            assert_eq!(padded.is_value(record, &value), length == 12);
            let padded_value = padded.value(record);
            assert_eq!(padded_value.len(), 12);
            assert_eq!(varied.is_value(record, &padded_value), length == 12);
            assert_eq!(padded.key(record), varied.key(record));
        }
        let value = varied.value(3);
        assert!(!varied.is_value(3, &[value[0], value[1], value[2], value[3], 9]));
    }
}
