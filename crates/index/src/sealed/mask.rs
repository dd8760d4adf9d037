//! The mask that turns no key to 0.

use crate::hash::{derive, word_of};
use crate::slot::bad_option;
use crate::{IndexError, Result};

/// A word that the first bytes of none of these keys are, of keys of `key_bytes` bytes.
///
/// Of all patterns of so many bits that there are more of them than keys, one at least is the low
/// end of no key; the rest of the mask does not matter then. O(keys) time, and 2 bits of memory for
/// each.
///
/// # Errors
/// [`IndexError::BadOption`] if the keys are fewer than 8 bytes long and all that there can be.
pub(super) fn unused_word<'k>(
    keys: impl ExactSizeIterator<Item = &'k [u8]>,
    key_bytes: usize,
    seed: u64,
) -> Result<u64> {
    let masked = key_bytes.min(8);
    let needed = usize::BITS - keys.len().leading_zeros();
    let bits = needed.min(masked as u32 * 8);
    let patterns = 1u64 << bits;
    let mut used = vec![0u64; (patterns as usize).div_ceil(64)];
    for key in keys {
        let pattern = word_of(&key[..masked]) & (patterns - 1);
        used[(pattern / 64) as usize] |= 1 << (pattern % 64);
    }
    let start = derive(seed, 0);
    let is_free = |pattern: &u64| used[(pattern / 64) as usize] >> (pattern % 64) & 1 == 0;
    (0..patterns)
        .map(|step| start.wrapping_add(step) & (patterns - 1))
        .find(is_free)
        .map(|pattern| (start & !(patterns - 1) | pattern) & (u64::MAX >> (64 - 8 * masked)))
        .ok_or_else(|| all_used(key_bytes))
}

fn all_used(key_bytes: usize) -> IndexError {
    bad_option(
        "form",
        "Inline",
        format!(
            "out of band if all keys of {key_bytes} bytes are there: an empty slot is like none"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_no_keys_beginning(
            keys in proptest::collection::hash_set(0u64..300, 0..260),
            key_bytes in 1usize..12,
            seed: u64,
        ) {
            let keys: Vec<Vec<u8>> = keys
                .iter()
                .map(|key| [key.to_le_bytes(), [0; 8]].concat()[..key_bytes].to_vec())
                .collect();
            let masked = key_bytes.min(8);
            let words: std::collections::HashSet<u64> =
                keys.iter().map(|key| word_of(&key[..masked])).collect();
            match unused_word(keys.iter().map(|key| &key[..]), key_bytes, seed) {
                Ok(mask) => prop_assert!(!words.contains(&mask)),
                Err(_) => prop_assert!(key_bytes == 1 && words.len() == 256),
            }
        }
    }

    #[test]
    fn the_last_pattern_is_found() {
        let keys: Vec<[u8; 1]> = (0..=255)
            .filter(|key| *key != 77)
            .map(|key| [key])
            .collect();
        for seed in 0..20 {
            assert_eq!(
                unused_word(keys.iter().map(|key| &key[..]), 1, seed),
                Ok(77)
            );
        }
        let all: Vec<[u8; 1]> = (0..=255).map(|key| [key]).collect();
        let refused = unused_word(all.iter().map(|key| &key[..]), 1, 1);
        assert!(matches!(
            refused,
            Err(IndexError::BadOption { option: "form", .. })
        ));
    }
}
