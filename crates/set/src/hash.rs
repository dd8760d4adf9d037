//! Hashes of elements. A table is filled by processes that must agree on them: they depend on no
//! seed, unless the processes agree on one as well.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The hash of one word: the finaliser of MurmurHash3, a bijection that spreads every bit.
#[inline]
pub(crate) const fn of_word(word: u64) -> u64 {
    let mut hash = word ^ 0x9e37_79b9_7f4a_7c15;
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// The hash of an element of several words.
#[inline]
pub(crate) fn of_words(words: &[u64]) -> u64 {
    seeded(words, 0)
}

/// The same by a seed.
#[inline]
pub(crate) fn seeded(words: &[u64], seed: u64) -> u64 {
    match words {
        [word] => of_word(*word ^ seed),
        words => xxh3_64_with_seed(bytemuck::cast_slice(words), seed),
    }
}

/// The bucket at which the search for a hash begins: the hash's share of the table.
///
/// It keeps the order of hashes, so that a larger table is filled from a smaller one in one sweep
/// through both; and it serves any number of buckets.
#[inline]
pub(crate) const fn home(hash: u64, buckets: u64) -> u64 {
    ((hash as u128 * buckets as u128) >> 64) as u64
}
