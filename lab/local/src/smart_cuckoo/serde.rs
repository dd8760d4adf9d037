//! The map for `serde`, as a map.

use super::map::SmartCuckooMap;
use ::serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use ::serde::ser::{Serialize, Serializer};
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;

/// Records that are made room for because the input says so; it may be lying.
const MOST_TRUSTED: usize = 1 << 12;

impl<K: Serialize, V: Serialize, S> Serialize for SmartCuckooMap<K, V, S> {
    fn serialize<T: Serializer>(&self, to: T) -> Result<T::Ok, T::Error> {
        to.collect_map(self)
    }
}

impl<'de, K, V, S> Deserialize<'de> for SmartCuckooMap<K, V, S>
where
    K: Eq + Hash + Deserialize<'de>,
    V: Deserialize<'de>,
    S: BuildHasher + Default,
{
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Records(PhantomData))
    }
}

struct Records<K, V, S>(PhantomData<(K, V, S)>);

impl<'de, K, V, S> Visitor<'de> for Records<K, V, S>
where
    K: Eq + Hash + Deserialize<'de>,
    V: Deserialize<'de>,
    S: BuildHasher + Default,
{
    type Value = SmartCuckooMap<K, V, S>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut records: A) -> Result<Self::Value, A::Error> {
        let expected = records.size_hint().unwrap_or(0).min(MOST_TRUSTED);
        let mut map = SmartCuckooMap::with_capacity_and_hasher(expected, S::default());
        while let Some((key, value)) = records.next_entry()? {
            map.insert(key, value);
        }
        Ok(map)
    }
}
