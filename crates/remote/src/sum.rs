//! Checksums of words that READs may tear.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A number that is never 0 for what words hold at a place.
pub(crate) fn sum(place: u64, words: &[u64]) -> u64 {
    xxh3_64_with_seed(bytemuck::cast_slice(words), place) | 1
}

/// Words that hold so many bytes.
pub(crate) const fn words_of(bytes: usize) -> usize {
    bytes.div_ceil(8)
}

/// Puts bytes into words, the rest of which becomes 0.
pub(crate) fn put_bytes(words: &mut [u64], bytes: &[u8]) {
    words.fill(0);
    let to: &mut [u8] = bytemuck::cast_slice_mut(words);
    to[..bytes.len()].copy_from_slice(bytes);
}

/// The first bytes of words, if they have as many.
pub(crate) fn bytes_of(words: &[u64], bytes: usize) -> Option<&[u8]> {
    bytemuck::cast_slice::<u64, u8>(words).get(..bytes)
}
