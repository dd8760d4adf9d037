//! Records that have no place in the buckets (Kirsch, Mitzenmacher and Wieder, "More robust
//! hashing: cuckoo hashing with a stash", 2009).

/// A record in the stash, with its key's hash: a search compares that first, and to bring the
/// record back needs no code of the user's.
#[derive(Clone, Debug)]
pub(super) struct Stashed<K, V> {
    pub(super) hash: u64,
    pub(super) record: (K, V),
}

/// The place of the record that `is_it` accepts.
#[inline]
pub(super) fn find<K, V>(
    stash: &[Stashed<K, V>],
    hash: u64,
    mut is_it: impl FnMut(&K) -> bool,
) -> Option<usize> {
    let mut stash = stash.iter();
    stash.position(|stashed| stashed.hash == hash && is_it(&stashed.record.0))
}

#[cfg(test)]
mod tests {
    use super::super::SmartCuckooMap;
    use std::hash::{BuildHasherDefault, Hasher};

    /// Spreads keys, but for those below 7, which have one hash.
    #[derive(Default)]
    struct SevenEqual(u64);

    impl Hasher for SevenEqual {
        fn write(&mut self, _: &[u8]) {
            unreachable!("keys are numbers")
        }

        fn write_u64(&mut self, key: u64) {
            self.0 = match key {
                0..7 => 42,
                _ => crate::hash::mix(key, 1),
            };
        }

        fn finish(&self) -> u64 {
            self.0
        }
    }

    #[test]
    fn equal_hashes_are_kept_apart_and_do_not_make_the_map_grow() {
        let hasher = BuildHasherDefault::<SevenEqual>::default;
        let with_equal = |keys: std::ops::Range<u64>| {
            let mut map = SmartCuckooMap::with_hasher(hasher());
            for key in keys.clone() {
                assert_eq!(map.insert(key, !key), None);
            }
            for key in keys {
                assert_eq!(map.get(&key), Some(&!key));
            }
            map
        };
        let (mut all, without) = (with_equal(0..100_000), with_equal(7..100_000));
        assert_eq!(all.slots(), without.slots());
        assert!(all.stashed() >= 5, "{} in the stash", all.stashed());
        // Equal hashes that come last, to a map that is nearly full.
        let mut late = without;
        for key in 0..7 {
            late.insert(key, !key);
        }
        assert!(late.slots() <= all.slots());
        for key in 0..7 {
            assert_eq!(all.remove(&key), Some(!key));
            assert_eq!(late.remove(&key), Some(!key));
        }
        assert!(all.stashed() <= 4 && late.stashed() <= 4);
    }
}
