//! What the elements of a set are, and how they lie in element space.
//!
//! ```text
//! an element, in words:
//!   +----------+---------------------+------------------------+
//!   | value    | length, if it varies | bytes, padded by zeros |
//!   +----------+---------------------+------------------------+
//!              |<- key: compared and hashed ----------------->|
//! ```

use crate::SetError;
use crate::error::check_range;

/// The longest element or value.
const MOST_BYTES: usize = 1 << 16;

/// What the elements of a [`DataSet`](crate::DataSet) are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataShape {
    /// Bytes of each element; of the longest one if they vary.
    pub element_bytes: usize,
    /// Whether elements may be shorter.
    pub varies: bool,
    /// Words of the value that each element has; 0 for a set.
    pub value_words: usize,
}

impl DataShape {
    /// A set of elements of so many bytes.
    #[must_use]
    pub const fn fixed(element_bytes: usize) -> Self {
        Self {
            element_bytes,
            varies: false,
            value_words: 0,
        }
    }

    /// A set of elements of up to so many bytes.
    #[must_use]
    pub const fn varying(most_bytes: usize) -> Self {
        Self {
            element_bytes: most_bytes,
            varies: true,
            value_words: 0,
        }
    }

    /// The same with a value of so many words for each element: a map.
    #[must_use]
    pub const fn with_values(self, value_words: usize) -> Self {
        Self {
            value_words,
            ..self
        }
    }

    /// Words that an element of so many bytes takes, its length and its value included.
    #[must_use]
    pub const fn words_of(self, bytes: usize) -> u64 {
        (self.value_words + self.varies as usize + bytes.div_ceil(8)) as u64
    }

    /// Refuses elements and values of sizes that no set holds.
    ///
    /// # Errors
    /// [`SetError::OutOfRange`].
    pub fn check(self) -> Result<(), SetError> {
        let most = MOST_BYTES as u64;
        check_range(
            "the bytes of an element",
            self.element_bytes as u64,
            1,
            most,
        )?;
        check_range("the words of a value", self.value_words as u64, 0, most / 8)
    }

    /// Words that an index counts in: whole elements where all are of one size.
    #[must_use]
    #[inline]
    pub const fn unit_words(self) -> u64 {
        if self.varies {
            1
        } else {
            self.words_of(self.element_bytes)
        }
    }

    /// The word of element space at which a unit's key starts.
    #[inline]
    pub(crate) const fn key_of_unit(self, unit: u64) -> u64 {
        unit * self.unit_words() + self.value_words as u64
    }

    /// Units of an element with so many key words.
    #[inline]
    pub(crate) const fn units_of(self, key_words: usize) -> u64 {
        if self.varies {
            (self.value_words + key_words) as u64
        } else {
            1
        }
    }

    /// Key words of an element, from its first one; never more than those of the longest.
    pub(crate) fn key_words(self, first: u64) -> usize {
        let most = self.element_bytes;
        if self.varies {
            1 + first.min(most as u64).div_ceil(8) as usize
        } else {
            most.div_ceil(8)
        }
    }

    /// Whether key words may be an element's: of a length that it can have.
    pub(crate) fn is_key(self, key: &[u64]) -> bool {
        !self.varies
            || key
                .first()
                .is_some_and(|len| *len <= self.element_bytes as u64)
    }

    /// The bytes of an element, from its key words.
    pub(crate) fn bytes_in(self, key: &[u64]) -> &[u8] {
        let words = &key[usize::from(self.varies)..];
        let bytes = match key.first() {
            Some(len) if self.varies => (*len).min(self.element_bytes as u64) as usize,
            _ => self.element_bytes,
        };
        &bytemuck::cast_slice(words)[..bytes]
    }

    /// Makes the words that an element is compared and hashed by.
    pub(crate) fn key_of(self, element: &[u8], key: &mut Vec<u64>) -> Result<(), SetError> {
        let expected = self.element_bytes;
        let fits = if self.varies {
            element.len() <= expected
        } else {
            element.len() == expected
        };
        if !fits {
            return Err(SetError::WrongLength {
                len: element.len(),
                expected,
            });
        }
        key.clear();
        if self.varies {
            key.push(element.len() as u64);
        }
        let start = key.len();
        key.resize(start + element.len().div_ceil(8), 0);
        bytemuck::cast_slice_mut(&mut key[start..])[..element.len()].copy_from_slice(element);
        Ok(())
    }
}
