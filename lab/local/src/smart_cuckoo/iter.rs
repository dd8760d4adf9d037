//! Iterators, in the order of the buckets, the stash last.

use super::buckets::Bucket;
use super::map::SmartCuckooMap;
use super::stash::Stashed;
use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::{slice, vec};

/// References to all records.
pub struct Iter<'a, K, V> {
    buckets: slice::Iter<'a, Bucket<K, V>>,
    stash: slice::Iter<'a, Stashed<K, V>>,
    left: usize,
}

/// References to all records, of which the values may be changed.
pub struct IterMut<'a, K, V> {
    buckets: slice::IterMut<'a, Bucket<K, V>>,
    stash: slice::IterMut<'a, Stashed<K, V>>,
    left: usize,
}

/// All records of a map that is no more.
pub struct IntoIter<K, V> {
    buckets: vec::IntoIter<Bucket<K, V>>,
    stash: vec::IntoIter<Stashed<K, V>>,
    left: usize,
}

/// All records of a map that is empty from now on.
pub struct Drain<'a, K, V> {
    records: IntoIter<K, V>,
    map: PhantomData<&'a mut (K, V)>,
}

/// References to all keys.
pub struct Keys<'a, K, V>(Iter<'a, K, V>);

/// References to all values.
pub struct Values<'a, K, V>(Iter<'a, K, V>);

/// References to all values, to be changed.
pub struct ValuesMut<'a, K, V>(IterMut<'a, K, V>);

/// The keys of a map that is no more.
pub struct IntoKeys<K, V>(IntoIter<K, V>);

/// The values of a map that is no more.
pub struct IntoValues<K, V>(IntoIter<K, V>);

impl<K, V, S> SmartCuckooMap<K, V, S> {
    /// All records, in any order.
    pub fn iter(&self) -> Iter<'_, K, V> {
        Iter {
            buckets: self.buckets.iter(),
            stash: self.stash.iter(),
            left: self.len(),
        }
    }

    /// All records, in any order; the values may be changed.
    pub fn iter_mut(&mut self) -> IterMut<'_, K, V> {
        let left = self.len();
        IterMut {
            buckets: self.buckets.iter_mut(),
            stash: self.stash.iter_mut(),
            left,
        }
    }

    /// All keys, in any order.
    pub fn keys(&self) -> Keys<'_, K, V> {
        Keys(self.iter())
    }

    /// All values, in any order.
    pub fn values(&self) -> Values<'_, K, V> {
        Values(self.iter())
    }

    /// All values, in any order, to be changed.
    pub fn values_mut(&mut self) -> ValuesMut<'_, K, V> {
        ValuesMut(self.iter_mut())
    }

    /// All keys, in any order; the values are dropped.
    pub fn into_keys(self) -> IntoKeys<K, V> {
        IntoKeys(self.into_iter())
    }

    /// All values, in any order; the keys are dropped.
    pub fn into_values(self) -> IntoValues<K, V> {
        IntoValues(self.into_iter())
    }
}

impl<K, V, S> IntoIterator for SmartCuckooMap<K, V, S> {
    type Item = (K, V);
    type IntoIter = IntoIter<K, V>;

    fn into_iter(self) -> IntoIter<K, V> {
        let left = self.len();
        IntoIter::of(self.buckets.into_buckets(), self.stash, left)
    }
}

impl<'a, K, V, S> IntoIterator for &'a SmartCuckooMap<K, V, S> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Iter<'a, K, V> {
        self.iter()
    }
}

impl<'a, K, V, S> IntoIterator for &'a mut SmartCuckooMap<K, V, S> {
    type Item = (&'a K, &'a mut V);
    type IntoIter = IterMut<'a, K, V>;

    fn into_iter(self) -> IterMut<'a, K, V> {
        self.iter_mut()
    }
}

impl<K, V> IntoIter<K, V> {
    pub(super) fn of(buckets: Box<[Bucket<K, V>]>, stash: Vec<Stashed<K, V>>, left: usize) -> Self {
        Self {
            buckets: buckets.into_vec().into_iter(),
            stash: stash.into_iter(),
            left,
        }
    }
}

impl<K, V> Drain<'_, K, V> {
    pub(super) fn new(records: IntoIter<K, V>) -> Self {
        let map = PhantomData;
        Self { records, map }
    }
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        let record = match self
            .buckets
            .find_map(Option::as_ref)
            .map(|tagged| &tagged.record)
        {
            Some(record) => record,
            None => &self.stash.next()?.record,
        };
        self.left -= 1;
        Some((&record.0, &record.1))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<'a, K, V> Iterator for IterMut<'a, K, V> {
    type Item = (&'a K, &'a mut V);

    fn next(&mut self) -> Option<Self::Item> {
        let record = match self
            .buckets
            .find_map(Option::as_mut)
            .map(|tagged| &mut tagged.record)
        {
            Some(record) => record,
            None => &mut self.stash.next()?.record,
        };
        self.left -= 1;
        Some((&record.0, &mut record.1))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<K, V> Iterator for IntoIter<K, V> {
    type Item = (K, V);

    fn next(&mut self) -> Option<Self::Item> {
        let record = match self
            .buckets
            .find_map(|bucket| bucket)
            .map(|tagged| tagged.record)
        {
            Some(record) => record,
            None => self.stash.next()?.record,
        };
        self.left -= 1;
        Some(record)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

/// An iterator that maps another one's records.
macro_rules! projection {
    ($([$($generics:tt)*] $name:ty => $item:ty, $inner:tt, $of:expr;)*) => {$(
        impl<$($generics)*> Iterator for $name {
            type Item = $item;

            fn next(&mut self) -> Option<$item> {
                self.$inner.next().map($of)
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                self.$inner.size_hint()
            }
        }
    )*};
}

projection! {
    ['a, K, V] Keys<'a, K, V> => &'a K, 0, |(key, _)| key;
    ['a, K, V] Values<'a, K, V> => &'a V, 0, |(_, value)| value;
    ['a, K, V] ValuesMut<'a, K, V> => &'a mut V, 0, |(_, value)| value;
    [K, V] IntoKeys<K, V> => K, 0, |(key, _)| key;
    [K, V] IntoValues<K, V> => V, 0, |(_, value)| value;
    [K, V] Drain<'_, K, V> => (K, V), records, |record| record;
}

/// All iterators know their length and stay at their end.
macro_rules! exact {
    ($($name:ty),*) => {$(
        impl<K, V> ExactSizeIterator for $name {}
        impl<K, V> FusedIterator for $name {}
        impl<K, V> fmt::Debug for $name {
            fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                let name = stringify!($name);
                let name = name.split_once('<').map_or(name, |(name, _)| name);
                to.debug_struct(name).field("left", &self.len()).finish()
            }
        }
    )*};
}

exact!(
    Iter<'_, K, V>,
    IterMut<'_, K, V>,
    IntoIter<K, V>,
    Drain<'_, K, V>,
    Keys<'_, K, V>,
    Values<'_, K, V>,
    ValuesMut<'_, K, V>,
    IntoKeys<K, V>,
    IntoValues<K, V>
);

impl<K, V> Clone for Iter<'_, K, V> {
    fn clone(&self) -> Self {
        Self {
            buckets: self.buckets.clone(),
            stash: self.stash.clone(),
            left: self.left,
        }
    }
}

impl<K, V> Clone for Keys<'_, K, V> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K, V> Clone for Values<'_, K, V> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}
