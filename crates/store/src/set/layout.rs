//! How sets are laid out, and what their keys and values are in words.

use crate::Result;
use crate::error::bad_option;
use crate::owned::layout::LONGEST_RECORD;
use farslot_fabric::ByteCount;
use farslot_index::{FieldSize, IndexError, SlotKind};
use farslot_set::{DataShape, Layout, MAX_ELEMENTS, MAX_WORD, SetError};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Buckets in use per bucket with as many keys as the capacity, unless asked otherwise.
const LOAD_FACTOR: f64 = 0.75;
/// The most: with more, walks that end after a thousand buckets end before the table is full.
const MOST_LOAD: f64 = 0.8;
/// Elements that clients may have taken the space of and not used, beyond an eighth of the
/// capacity.
const SPARE_ELEMENTS: u64 = 1024;
/// The most words of that.
const SPARE_WORDS: u64 = 1 << 16;

/// The layout of a set: of paper 002's table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetLayout {
    /// The size of its keys.
    pub key: FieldSize,
    /// The size of its values.
    pub value: FieldSize,
    /// Buckets, of 8 bytes.
    pub buckets: u64,
    /// Words for the elements that are not in their buckets; 0 where all are.
    pub element_words: u64,
    /// What keys are hashed by.
    pub seed: u64,
}

/// What a set is asked for.
#[derive(Clone, Copy)]
pub(crate) struct SetSizing {
    pub(crate) key: FieldSize,
    pub(crate) value: FieldSize,
    pub(crate) capacity: u64,
    pub(crate) load_factor: Option<f64>,
    pub(crate) slot: Option<SlotKind>,
    pub(crate) heap_bytes: Option<u64>,
    pub(crate) seed: u64,
}

impl SetLayout {
    pub(crate) fn of(sizing: SetSizing) -> Result<Self> {
        let load_factor = sizing.load_factor.unwrap_or(LOAD_FACTOR);
        if !(load_factor > 0.0 && load_factor <= MOST_LOAD) {
            let limit = format!("above 0 and at most {MOST_LOAD} in a set");
            return Err(bad_option("load factor", load_factor, limit));
        }
        if sizing.capacity == 0 {
            return Err(bad_option("capacity", 0, "at least 1"));
        }
        let mut layout = Self {
            key: sizing.key,
            value: sizing.value,
            buckets: (sizing.capacity as f64 / load_factor).ceil() as u64,
            element_words: 0,
            seed: sizing.seed,
        };
        let fits = layout.fits_buckets();
        let in_buckets = match sizing.slot {
            None => fits,
            Some(SlotKind::Word) if fits => true,
            Some(SlotKind::Heap) => false,
            Some(other) => {
                let limit =
                    "Word (keys of a fixed size of at most 8 bytes, no values) or Heap in a set";
                return Err(bad_option("slot", format!("{other:?}"), limit));
            }
        };
        match (in_buckets, sizing.heap_bytes) {
            (true, None) => {}
            (true, Some(bytes)) => {
                return Err(bad_option(
                    "heap bytes",
                    bytes,
                    "for elements beside the buckets",
                ));
            }
            (false, asked) => layout.element_words = layout.words_for(sizing.capacity, asked)?,
        }
        layout.check()?;
        Ok(layout)
    }

    /// Whether keys of that size, without values, have room in buckets.
    const fn fits_buckets(&self) -> bool {
        matches!(
            (self.key, self.value),
            (FieldSize::Fixed(1..=8), FieldSize::Fixed(0))
        )
    }

    /// Words for so many elements, or as many as are asked for.
    fn words_for(&self, capacity: u64, asked: Option<u64>) -> Result<u64> {
        self.check_sizes()?;
        let shape = self.shape();
        let longest = shape.words_of(self.key.most());
        let words = match asked {
            Some(bytes) => bytes.div_ceil(8).max(longest),
            None => {
                let spare = (SPARE_ELEMENTS * longest).min(SPARE_WORDS.max(longest));
                capacity
                    .saturating_add(capacity / 8)
                    .saturating_mul(longest)
                    .saturating_add(spare)
            }
        };
        let unit = shape.unit_words();
        let units = words.div_ceil(unit);
        if units > MAX_ELEMENTS {
            let most = MAX_ELEMENTS * unit * 8;
            let limit = format!("at most {most} a node with keys and values of these sizes");
            return Err(bad_option("heap bytes", words.saturating_mul(8), limit));
        }
        Ok(units * unit)
    }

    fn check_sizes(&self) -> Result<()> {
        let bytes = self.key.most().saturating_add(self.value.most());
        if self.key.most() == 0 || bytes > LONGEST_RECORD {
            let limit = format!(
                "keys of 1 byte or more, and elements of at most {} in a set",
                ByteCount(LONGEST_RECORD)
            );
            return Err(bad_option("the longest element", bytes, limit));
        }
        Ok(())
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.check_sizes()?;
        if self.in_buckets() && !self.fits_buckets() {
            let limit = "above 0 for keys or values that buckets have no room for";
            return Err(bad_option("words of elements", 0, limit));
        }
        self.shape().check().map_err(damaged)?;
        self.memory().map_err(damaged)?;
        let units = self.element_words / self.shape().unit_words();
        if units > MAX_ELEMENTS {
            return Err(bad_option(
                "elements",
                units,
                format!("at most {MAX_ELEMENTS}"),
            ));
        }
        Ok(())
    }

    /// Whether elements are their buckets.
    pub(crate) const fn in_buckets(&self) -> bool {
        self.element_words == 0
    }

    /// Where everything is.
    pub(crate) fn memory(&self) -> Result<Layout, SetError> {
        Layout::new(1, self.buckets, self.element_words)
    }

    /// What elements beside the buckets are.
    pub(crate) const fn shape(&self) -> DataShape {
        let shape = match self.key {
            FieldSize::Fixed(bytes) => DataShape::fixed(bytes as usize),
            FieldSize::UpTo(bytes) => DataShape::varying(bytes as usize),
        };
        let value = self.value.most().div_ceil(8);
        shape.with_values(match self.value {
            FieldSize::Fixed(_) => value,
            FieldSize::UpTo(_) => 1 + value,
        })
    }

    /// Bytes of the set.
    #[must_use]
    pub fn table_bytes(&self) -> u128 {
        self.memory()
            .map_or(u128::MAX, |layout| layout.region_bytes().into())
    }

    /// Bytes for elements beside the buckets.
    #[must_use]
    pub const fn heap_bytes(&self) -> u64 {
        self.element_words * 8
    }

    /// Bytes of elements where so many units are taken.
    pub(crate) const fn taken_bytes(&self, units: u64) -> u64 {
        let bytes = units.saturating_mul(self.shape().unit_words() * 8);
        if bytes < self.heap_bytes() {
            bytes
        } else {
            self.heap_bytes()
        }
    }

    /// What clients may have written where they have taken so many units.
    pub(crate) fn written(&self, units: u64) -> Vec<Range<u64>> {
        let words = self.taken_bytes(units) / 8;
        let layout = self.memory().ok();
        layout
            .map(|layout| 0..layout.written_bytes(words))
            .into_iter()
            .collect()
    }

    /// The same for other numbers of keys, and bytes for elements.
    pub(crate) fn resized(&self, keys: impl Fn(u64) -> u64, bytes: impl Fn(u64) -> u64) -> Self {
        let unit = self.shape().unit_words();
        let words = match self.element_words {
            0 => 0,
            _ => bytes(self.heap_bytes()).div_ceil(8 * unit).max(1) * unit,
        };
        Self {
            buckets: keys(self.buckets).max(1),
            element_words: words,
            ..self.clone()
        }
    }

    /// The element that a key of the right length is, where it is its bucket.
    pub(crate) fn word_of(&self, key: &[u8]) -> Result<u64, IndexError> {
        let mut bytes = [0; 8];
        bytes[..key.len()].copy_from_slice(key);
        let record = u64::from_le_bytes(bytes);
        if record > MAX_WORD {
            return Err(IndexError::SixtyThreeBits { record });
        }
        Ok(record)
    }

    /// Fills the words of a value of the right length.
    pub(crate) fn fill_value(&self, value: &[u8], words: &mut [u64]) {
        let words = match (self.value, words) {
            (FieldSize::UpTo(_), [length, rest @ ..]) => {
                *length = value.len() as u64;
                rest
            }
            (_, words) => words,
        };
        bytemuck::cast_slice_mut(words)[..value.len()].copy_from_slice(value);
    }

    /// The value in its words.
    pub(crate) fn value_in<'w>(&self, words: &'w [u64]) -> Result<&'w [u8], IndexError> {
        let (len, words) = match (self.value, words) {
            (FieldSize::Fixed(len), words) => (u64::from(len), words),
            (FieldSize::UpTo(_), [len, words @ ..]) => (*len, words),
            (FieldSize::UpTo(_), []) => (0, words),
        };
        let bytes: &[u8] = bytemuck::cast_slice(words);
        let fits = usize::try_from(len).is_ok_and(|len| self.value.admits(len));
        let value = fits.then(|| bytes.get(..len as usize)).flatten();
        value.ok_or(IndexError::BadElement { word: len })
    }
}

fn damaged(error: SetError) -> crate::StoreError {
    bad_option("the layout", error, "one that a set can have")
}
