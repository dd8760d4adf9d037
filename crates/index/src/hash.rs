//! From a key to 64 bits, of which every index takes what it needs.

use crate::error::bad_option;
use crate::{FieldSize, Result};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A table's hash function. Its seed is drawn when the table is made and kept in the catalog: keys
/// that collide in one table do not in another, and who cannot read the catalog cannot prepare any.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Hasher {
    /// XXH3, 64 bits, seeded.
    Xxh3 {
        /// The table's seed.
        seed: u64,
    },
    /// Knuth's multiplicative hash of the key's first 8 bytes (paper 000, section 4.1): for the
    /// paper's tables. Keys that differ in later bytes only, or on purpose, collide.
    Knuth,
}

impl Hasher {
    /// Refuses a hash function that does not suit the keys.
    pub(crate) fn check(self, key: FieldSize) -> Result<()> {
        if self == Self::Knuth && key.most() > 8 {
            return Err(bad_option("hash", "knuth", "for keys of at most 8 bytes"));
        }
        Ok(())
    }
}

/// 2^64 divided by the golden ratio, made odd (Knuth, volume 3, section 6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher {
    /// The key's hash.
    #[inline]
    #[must_use]
    pub fn hash(self, key: &[u8]) -> u64 {
        match self {
            Self::Xxh3 { seed } => xxh3(key, seed),
            Self::Knuth => word_of(&key[..key.len().min(8)]).wrapping_mul(GOLDEN),
        }
    }
}

/// XXH3 of a key: of one of 8 bytes where it is called, without a look at how long it is.
#[inline(always)]
pub(crate) fn xxh3(key: &[u8], seed: u64) -> u64 {
    match <&[u8; 8]>::try_from(key) {
        Ok(word) => xxh3_64_with_seed(word, seed),
        Err(_) => xxh3_of_any(key, seed),
    }
}

#[inline(never)]
fn xxh3_of_any(key: &[u8], seed: u64) -> u64 {
    xxh3_64_with_seed(key, seed)
}

/// Scales a hash to `0..range`, using its high bits.
#[inline]
#[must_use]
pub const fn scale(hash: u64, range: u64) -> u64 {
    ((hash as u128 * range as u128) >> 64) as u64
}

/// At most 8 bytes as a little-endian word.
#[inline]
#[must_use]
pub fn word_of(bytes: &[u8]) -> u64 {
    if let Ok(word) = <[u8; 8]>::try_from(bytes) {
        return u64::from_le_bytes(word);
    }
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// A checksum of a record's bytes. Torn or stale bytes pass with probability 2^-32.
#[inline]
#[must_use]
pub fn checksum(bytes: &[u8], seed: u64) -> u32 {
    xxh3_64_with_seed(bytes, seed) as u32
}

/// A number that depends on the seed and the purpose only.
#[inline]
#[must_use]
pub fn derive(seed: u64, purpose: u64) -> u64 {
    xxh3_64_with_seed(&purpose.to_le_bytes(), seed)
}
