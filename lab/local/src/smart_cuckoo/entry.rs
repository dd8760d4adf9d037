//! The place of a key, after one lookup.

use super::map::{Location, SmartCuckooMap};
use std::fmt;
use std::hash::{BuildHasher, Hash};

/// What [`SmartCuckooMap::entry`] has found.
pub enum Entry<'a, K, V, S> {
    /// The key is there.
    Occupied(OccupiedEntry<'a, K, V, S>),
    /// The key is not there.
    Vacant(VacantEntry<'a, K, V, S>),
}

/// A record of the map.
pub struct OccupiedEntry<'a, K, V, S> {
    map: &'a mut SmartCuckooMap<K, V, S>,
    hash: u64,
    /// Where its record is; the map is borrowed, so that it stays there.
    location: Location,
}

/// A key that the map does not have.
pub struct VacantEntry<'a, K, V, S> {
    map: &'a mut SmartCuckooMap<K, V, S>,
    hash: u64,
    key: K,
}

impl<'a, K: Eq + Hash, V, S: BuildHasher> Entry<'a, K, V, S> {
    /// The key.
    pub fn key(&self) -> &K {
        match self {
            Self::Occupied(entry) => entry.key(),
            Self::Vacant(entry) => entry.key(),
        }
    }

    /// The value, which is `default` if the key was not there.
    pub fn or_insert(self, default: V) -> &'a mut V {
        self.or_insert_with(|| default)
    }

    /// The value, which `default` makes if the key was not there.
    pub fn or_insert_with(self, default: impl FnOnce() -> V) -> &'a mut V {
        self.or_insert_with_key(|_| default())
    }

    /// The value, which `default` makes from the key if that was not there.
    pub fn or_insert_with_key(self, default: impl FnOnce(&K) -> V) -> &'a mut V {
        match self {
            Self::Occupied(entry) => entry.into_mut(),
            Self::Vacant(entry) => {
                let value = default(entry.key());
                entry.insert(value)
            }
        }
    }

    /// The value, which is `V`'s default if the key was not there.
    pub fn or_default(self) -> &'a mut V
    where
        V: Default,
    {
        self.or_insert_with(V::default)
    }

    /// Changes the value if the key is there.
    #[must_use]
    pub fn and_modify(mut self, change: impl FnOnce(&mut V)) -> Self {
        if let Self::Occupied(entry) = &mut self {
            change(entry.get_mut());
        }
        self
    }

    /// Sets the value, and returns the entry, which is occupied now.
    pub fn insert_entry(self, value: V) -> OccupiedEntry<'a, K, V, S> {
        match self {
            Self::Occupied(mut entry) => {
                entry.insert(value);
                entry
            }
            Self::Vacant(entry) => entry.insert_entry(value),
        }
    }
}

impl<'a, K: Eq + Hash, V, S: BuildHasher> OccupiedEntry<'a, K, V, S> {
    pub(super) fn new(map: &'a mut SmartCuckooMap<K, V, S>, hash: u64, location: Location) -> Self {
        Self {
            map,
            hash,
            location,
        }
    }

    /// The key as the map holds it.
    pub fn key(&self) -> &K {
        &self.record().0
    }

    /// The value.
    pub fn get(&self) -> &V {
        &self.record().1
    }

    /// The value, to be changed.
    pub fn get_mut(&mut self) -> &mut V {
        match self.map.at_mut(self.location) {
            Some((_, value)) => value,
            None => unreachable!("{MOVED}"),
        }
    }

    /// The value, for as long as the map was borrowed.
    pub fn into_mut(self) -> &'a mut V {
        match self.map.at_mut(self.location) {
            Some((_, value)) => value,
            None => unreachable!("{MOVED}"),
        }
    }

    /// Replaces the value and returns the old one.
    pub fn insert(&mut self, value: V) -> V {
        std::mem::replace(self.get_mut(), value)
    }

    /// Removes the record and returns its value.
    pub fn remove(self) -> V {
        self.remove_entry().1
    }

    /// Removes the record and returns it.
    pub fn remove_entry(self) -> (K, V) {
        match self.map.remove_at(self.location, self.hash) {
            Some(record) => record,
            None => unreachable!("{MOVED}"),
        }
    }

    fn record(&self) -> &(K, V) {
        match self.map.at(self.location) {
            Some(record) => record,
            None => unreachable!("{MOVED}"),
        }
    }
}

/// What cannot be while an entry borrows the map.
const MOVED: &str = "the record of an entry has moved";

impl<'a, K: Eq + Hash, V, S: BuildHasher> VacantEntry<'a, K, V, S> {
    pub(super) fn new(map: &'a mut SmartCuckooMap<K, V, S>, hash: u64, key: K) -> Self {
        Self { map, hash, key }
    }

    /// The key.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// The key, back.
    pub fn into_key(self) -> K {
        self.key
    }

    /// Inserts the record.
    pub fn insert(self, value: V) -> &'a mut V {
        self.insert_entry(value).into_mut()
    }

    /// Inserts the record, and returns the entry, which is occupied now.
    pub fn insert_entry(self, value: V) -> OccupiedEntry<'a, K, V, S> {
        let Self { map, hash, key } = self;
        let location = map.insert_new(hash, (key, value));
        OccupiedEntry::new(map, hash, location)
    }
}

impl<K: Eq + Hash + fmt::Debug, V: fmt::Debug, S: BuildHasher> fmt::Debug for Entry<'_, K, V, S> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Occupied(entry) => entry.fmt(to),
            Self::Vacant(entry) => entry.fmt(to),
        }
    }
}

impl<K: Eq + Hash + fmt::Debug, V: fmt::Debug, S: BuildHasher> fmt::Debug
    for OccupiedEntry<'_, K, V, S>
{
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("OccupiedEntry")
            .field("key", self.key())
            .field("value", self.get())
            .finish()
    }
}

impl<K: fmt::Debug, V, S> fmt::Debug for VacantEntry<'_, K, V, S> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_tuple("VacantEntry").field(&self.key).finish()
    }
}
