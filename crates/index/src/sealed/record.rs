//! Records of variable size out of band.
//!
//! ```text
//! | key length, 4 | value length, 4 | key | value | zeros to a multiple of 8 |
//! ```

use std::ops::Range;

/// Bytes that offsets and spans count.
pub(super) const UNIT: usize = 8;
/// Bytes of the lengths.
const LENGTHS: usize = 8;
/// What is read of a record whose span does not fit in a byte.
pub(super) const FIRST_READ: usize = 256 * UNIT;

/// Bytes that a record takes.
pub(super) const fn bytes(key: usize, value: usize) -> usize {
    key.saturating_add(value).saturating_add(LENGTHS + UNIT - 1) / UNIT * UNIT
}

/// What a slot says of the length: units, or 0 if there are more than fit.
pub(super) fn span(bytes: usize) -> u8 {
    u8::try_from(bytes / UNIT).unwrap_or(0)
}

/// Writes a record at the start of `into`, as far as it reaches.
pub(super) fn encode(into: &mut [u8], key: &[u8], value: &[u8]) {
    let (lengths, rest) = into.split_at_mut(LENGTHS);
    lengths[..4].copy_from_slice(&(key.len() as u32).to_le_bytes());
    lengths[4..].copy_from_slice(&(value.len() as u32).to_le_bytes());
    let (of_key, rest) = rest.split_at_mut(key.len());
    of_key.copy_from_slice(key);
    let (of_value, padding) = rest.split_at_mut(value.len());
    of_value.copy_from_slice(value);
    padding.fill(0);
}

/// Where the parts of a record are within its bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Parts {
    pub(super) key: Range<usize>,
    pub(super) value: Range<usize>,
}

impl Parts {
    /// The parts of the record that these bytes begin with; nothing if they do not hold its
    /// lengths.
    pub(super) fn decode(record: &[u8]) -> Option<Self> {
        let length = |at: usize| {
            let bytes: [u8; 4] = record.get(at..at + 4)?.try_into().ok()?;
            Some(u32::from_le_bytes(bytes) as usize)
        };
        let (key, value) = (length(0)?, length(4)?);
        let middle = LENGTHS.checked_add(key)?;
        Some(Self {
            key: LENGTHS..middle,
            value: middle..middle.checked_add(value)?,
        })
    }

    /// Bytes that the record takes.
    pub(super) fn bytes(&self) -> usize {
        bytes(self.key.len(), self.value.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn records_come_back(
            key in proptest::collection::vec(any::<u8>(), 0..40),
            value in proptest::collection::vec(any::<u8>(), 0..3000),
        ) {
            let len = bytes(key.len(), value.len());
            let mut record = vec![0xff; len];
            encode(&mut record, &key, &value);
            let parts = Parts::decode(&record).unwrap();
            prop_assert_eq!(parts.bytes(), len);
            prop_assert!(len - parts.value.end < UNIT);
            prop_assert_eq!(&record[parts.key], &key);
            prop_assert_eq!(&record[parts.value], &value);
            match span(len) {
                0 => prop_assert!(len >= FIRST_READ),
                span => prop_assert_eq!(usize::from(span) * UNIT, len),
            }
        }
    }

    #[test]
    fn what_is_no_record_is_none() {
        assert_eq!(Parts::decode(&[0; 7]), None);
        let all = Parts::decode(&[0xff; 8]).unwrap();
        assert_eq!(all.key.len(), u32::MAX as usize);
    }
}
