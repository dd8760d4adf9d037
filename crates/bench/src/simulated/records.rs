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
    value_bytes: usize,
    /// Where keys may have several records.
    drawn: Option<Drawn>,
}

/// Which keys records have.
#[derive(Clone, Debug)]
struct Drawn {
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
            drawn: None,
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
            drawn: Some(Drawn {
                of_record,
                records: records.into(),
            }),
        }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Bytes of a record, key and value.
    #[must_use]
    pub fn bytes(&self) -> usize {
        KEY_BYTES + self.value_bytes
    }

    /// Bytes of a value.
    #[must_use]
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// The key of a record.
    #[inline]
    #[must_use]
    pub fn key(&self, record: u32) -> [u8; KEY_BYTES] {
        let number = match &self.drawn {
            Some(drawn) => drawn.of_record[record as usize],
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
        match &self.drawn {
            Some(drawn) => drawn.records[drawn.of_record[record as usize] as usize],
            None => 1,
        }
    }

    /// The value of a record: its number, over and over, but for the last of its bits, for which a slot
    /// of one word has no place.
    #[must_use]
    pub fn value(&self, record: u32) -> Vec<u8> {
        (0..self.value_bytes)
            .map(|at| value_byte(record, at))
            .collect()
    }

    /// Whether that is the value of a record.
    #[inline]
    #[must_use]
    pub fn is_value(&self, record: u32, value: &[u8]) -> bool {
        let mut bytes = value.iter().enumerate();
        value.len() == self.value_bytes && bytes.all(|(at, byte)| *byte == value_byte(record, at))
    }
}

#[inline]
fn value_byte(record: u32, at: usize) -> u8 {
    (record & (u32::MAX >> 1)).to_le_bytes()[at % 4]
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
}
