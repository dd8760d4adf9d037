//! The traits of `std`'s map, and the one for comparisons.

use super::map::SmartCuckooMap;
use crate::{Full, InsertionCounters, LocalTable};
use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::ops::Index;

impl<K, V, S: Default> Default for SmartCuckooMap<K, V, S> {
    fn default() -> Self {
        Self::with_hasher(S::default())
    }
}

impl<K: fmt::Debug, V: fmt::Debug, S> fmt::Debug for SmartCuckooMap<K, V, S> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_map().entries(self).finish()
    }
}

impl<K: Eq + Hash, V: PartialEq, S: BuildHasher> PartialEq for SmartCuckooMap<K, V, S> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && self.iter().all(|(key, value)| {
                let others = other.get(key);
                others.is_some_and(|others| value == others)
            })
    }
}

impl<K: Eq + Hash, V: Eq, S: BuildHasher> Eq for SmartCuckooMap<K, V, S> {}

impl<K, V, S, Q> Index<&Q> for SmartCuckooMap<K, V, S>
where
    K: Eq + Hash + Borrow<Q>,
    Q: Eq + Hash + ?Sized,
    S: BuildHasher,
{
    type Output = V;

    /// The value of a key.
    ///
    /// # Panics
    /// If the key is not there, as with `std`'s map.
    fn index(&self, key: &Q) -> &V {
        self.get(key).expect("no record has this key")
    }
}

impl<K: Eq + Hash, V, S: BuildHasher> Extend<(K, V)> for SmartCuckooMap<K, V, S> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, records: I) {
        let records = records.into_iter();
        // Where records replace others, less room is needed: half of it, as `std` does.
        let expected = match self.is_empty() {
            true => records.size_hint().0,
            false => records.size_hint().0.div_ceil(2),
        };
        // A hint that no map has room for is as good as none.
        let _ = self.try_reserve(expected);
        for (key, value) in records {
            self.insert(key, value);
        }
    }
}

impl<'a, K, V, S> Extend<(&'a K, &'a V)> for SmartCuckooMap<K, V, S>
where
    K: Eq + Hash + Copy,
    V: Copy,
    S: BuildHasher,
{
    fn extend<I: IntoIterator<Item = (&'a K, &'a V)>>(&mut self, records: I) {
        self.extend(records.into_iter().map(|(&key, &value)| (key, value)));
    }
}

impl<K: Eq + Hash, V, S: BuildHasher + Default> FromIterator<(K, V)> for SmartCuckooMap<K, V, S> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(records: I) -> Self {
        let mut map = Self::default();
        map.extend(records);
        map
    }
}

impl<K: Eq + Hash, V, const N: usize> From<[(K, V); N]> for SmartCuckooMap<K, V, RandomState> {
    fn from(records: [(K, V); N]) -> Self {
        Self::from_iter(records)
    }
}

/// Of fixed size: by [`SmartCuckooMap::insert_within`].
impl<K: Eq + Hash, V: Clone, S: BuildHasher> LocalTable<K, V> for SmartCuckooMap<K, V, S> {
    fn name(&self) -> &'static str {
        "SmartCuckoo"
    }

    fn slots(&self) -> usize {
        SmartCuckooMap::slots(self)
    }

    fn len(&self) -> usize {
        SmartCuckooMap::len(self)
    }

    fn stashed(&self) -> usize {
        SmartCuckooMap::stashed(self)
    }

    fn get(&self, key: &K) -> Option<V> {
        SmartCuckooMap::get(self, key).cloned()
    }

    fn insert(&mut self, key: K, value: V) -> Result<Option<V>, Full<K, V>> {
        self.insert_within(key, value)
    }

    fn remove(&mut self, key: &K) -> Option<V> {
        SmartCuckooMap::remove(self, key)
    }

    fn counters(&self) -> InsertionCounters {
        SmartCuckooMap::counters(self)
    }

    fn overhead_per_slot(&self) -> f64 {
        Self::overhead_per_slot() as f64
    }
}
