//! Keys and values of types instead of bytes.

use crate::error::bad_option;
use crate::failed_operations::FailedOperations;
use crate::table::Entries;
use crate::{BatchError, FieldSize, Handle, Result, StoreError, Table, TableOptions};
use bytemuck::{CheckedBitPattern, NoUninit};
use std::fmt;
use std::marker::PhantomData;

/// A [`Table`] or a [`Handle`] whose keys are `K` and whose values are `V`.
///
/// Both are plain data, as the crate `bytemuck` has it: integers, floats, arrays of them, and
/// structs that derive its traits. They are stored as they are in memory, so that programs which
/// share a table agree on the types, and run on machines of one byte order. What a type does not
/// cover is done with the bytes, through [`Typed::untyped`].
///
/// ```
/// use bytemuck::{Pod, Zeroable};
/// use farslot::{Store, Typed, TableOptions};
///
/// #[derive(Clone, Copy, PartialEq, Debug, Pod, Zeroable)]
/// #[repr(C)]
/// struct Reading {
///     celsius: f32,
///     humidity: f32,
/// }
///
/// # fn main() -> Result<(), farslot::StoreError> {
/// let store = Store::embedded()?;
/// store.create("readings", &TableOptions::new(100).types::<u64, Reading>())?;
/// let readings: Typed<_, u64, Reading> = store.table("readings")?.typed()?;
/// let reading = Reading { celsius: 21.5, humidity: 0.4 };
/// assert!(readings.put(&7, &reading)?, "a new key");
/// assert_eq!(readings.get(&7)?, Some(reading));
/// assert_eq!(readings.get(&8)?, None);
/// # Ok(())
/// # }
/// ```
pub struct Typed<T, K, V> {
    bytes: T,
    types: PhantomData<(K, V)>,
}

impl<T: Clone, K, V> Clone for Typed<T, K, V> {
    fn clone(&self) -> Self {
        Self::of(self.bytes.clone())
    }
}

impl<T: fmt::Debug, K, V> fmt::Debug for Typed<T, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Typed").field(&self.bytes).finish()
    }
}

impl TableOptions {
    /// Keys and values of the sizes of these types.
    ///
    /// ```
    /// # use farslot::{FieldSize, TableOptions};
    /// let options = TableOptions::new(100).types::<u64, [f32; 2]>();
    /// let sizes = TableOptions::new(100).keys(FieldSize::Fixed(8)).values(FieldSize::Fixed(8));
    /// assert_eq!(options, sizes);
    /// ```
    #[must_use]
    pub const fn types<K, V>(self) -> Self {
        let (key, value) = (size_of::<K>() as u32, size_of::<V>() as u32);
        self.keys(FieldSize::Fixed(key))
            .values(FieldSize::Fixed(value))
    }
}

impl Table {
    /// The same with keys and values of types.
    ///
    /// # Errors
    /// [`BadOption`](crate::IndexError::BadOption) if the table cannot hold keys or values of their
    /// sizes.
    ///
    /// ```
    /// # use farslot::{Store, TableOptions, Typed};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("squares", &TableOptions::new(100).types::<u64, u64>())?;
    /// # let squares: Typed<_, u64, u64> = store.table("squares")?.typed()?;
    /// squares.put(&12, &144)?;
    /// assert_eq!(squares.get(&12)?, Some(144));
    /// # Ok(())
    /// # }
    /// ```
    pub fn typed<K, V>(self) -> Result<Typed<Self, K, V>> {
        check::<K, V>(self.scheme().record_sizes())?;
        Ok(Typed::of(self))
    }
}

impl Handle {
    /// The same with keys and values of types.
    ///
    /// # Errors
    /// As [`Table::typed`].
    ///
    /// ```
    /// # use farslot::{Handle, HandleOptions, Store, TableOptions, Typed};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("squares", &TableOptions::new(100).types::<u64, u64>())?;
    /// let squares = Handle::open(&store, "squares", HandleOptions::default())?;
    /// let squares: Typed<_, u64, u64> = squares.typed()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn typed<K, V>(self) -> Result<Typed<Self, K, V>> {
        check::<K, V>(self.record_sizes())?;
        Ok(Typed::of(self))
    }
}

/// Whether a table of such keys and values can hold those of these types.
fn check<K, V>((key, value): (FieldSize, FieldSize)) -> Result<()> {
    for (option, bytes, size) in [
        ("bytes of the key's type", size_of::<K>(), key),
        ("bytes of the value's type", size_of::<V>(), value),
    ] {
        let (fits, limit) = match size {
            FieldSize::Fixed(exactly) => (bytes == exactly as usize, format!("{exactly}")),
            FieldSize::UpTo(most) => (bytes <= most as usize, format!("at most {most}")),
        };
        if !fits {
            return Err(bad_option(option, bytes, limit));
        }
    }
    Ok(())
}

/// What bytes of the table are, as a type.
fn read<P: CheckedBitPattern>(field: &'static str, bytes: &[u8]) -> Result<P> {
    bytemuck::checked::try_pod_read_unaligned(bytes).map_err(|error| StoreError::OtherType {
        field,
        bytes: bytes.len(),
        name: std::any::type_name::<P>(),
        reason: error.to_string(),
    })
}

fn read_value<V: CheckedBitPattern>(bytes: Option<Vec<u8>>) -> Result<Option<V>> {
    bytes.map(|bytes| read("value", &bytes)).transpose()
}

impl<T, K, V> Typed<T, K, V> {
    const fn of(bytes: T) -> Self {
        let types = PhantomData;
        Self { bytes, types }
    }

    /// The table or handle of bytes below.
    ///
    /// ```
    /// # use farslot::{Store, TableOptions, Typed};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("squares", &TableOptions::new(100).types::<u64, u64>())?;
    /// # let squares: Typed<_, u64, u64> = store.table("squares")?.typed()?;
    /// squares.put(&12, &144)?;
    /// // What the types have no function for.
    /// assert_eq!(squares.untyped().name(), "squares");
    /// # Ok(())
    /// # }
    /// ```
    pub const fn untyped(&self) -> &T {
        &self.bytes
    }
}

/// As the functions of [`Table`] of the same names; in addition
/// [`OtherType`](StoreError::OtherType) of a value that is none of `V`.
impl<K, V> Typed<Table, K, V>
where
    K: NoUninit + CheckedBitPattern,
    V: NoUninit + CheckedBitPattern,
{
    /// The key's value, if the key is present.
    ///
    /// # Errors
    /// As [`Table::get`]; [`StoreError::OtherType`].
    ///
    /// ```
    /// # use farslot::{Store, TableOptions, Typed};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("squares", &TableOptions::new(100).types::<u64, u64>())?;
    /// # let squares: Typed<_, u64, u64> = store.table("squares")?.typed()?;
    /// assert_eq!(squares.get(&12)?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn get(&self, key: &K) -> Result<Option<V>> {
        read_value(self.bytes.get(bytemuck::bytes_of(key))?)
    }

    /// Sets the key's value; true if the key was absent.
    ///
    /// # Errors
    /// As [`Table::put`].
    ///
    /// ```
    /// # use farslot::{Store, TableOptions, Typed};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("squares", &TableOptions::new(100).types::<u64, u64>())?;
    /// # let squares: Typed<_, u64, u64> = store.table("squares")?.typed()?;
    /// assert!(squares.put(&12, &144)?, "a new key");
    /// # Ok(())
    /// # }
    /// ```
    pub fn put(&self, key: &K, value: &V) -> Result<bool> {
        let (key, value) = (bytemuck::bytes_of(key), bytemuck::bytes_of(value));
        self.bytes.put(key, value)
    }

    /// Puts the value if the key is absent; else returns the value that is there.
    ///
    /// # Errors
    /// As [`Table::find_or_put`]; [`StoreError::OtherType`].
    ///
    /// ```
    /// # use farslot::{Store, TableOptions, Typed};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("squares", &TableOptions::new(100).types::<u64, u64>())?;
    /// # let squares: Typed<_, u64, u64> = store.table("squares")?.typed()?;
    /// assert_eq!(squares.find_or_put(&12, &144)?, None);
    /// assert_eq!(squares.find_or_put(&12, &0)?, Some(144));
    /// # Ok(())
    /// # }
    /// ```
    pub fn find_or_put(&self, key: &K, value: &V) -> Result<Option<V>> {
        let (key, value) = (bytemuck::bytes_of(key), bytemuck::bytes_of(value));
        read_value(self.bytes.find_or_put(key, value)?)
    }

    /// Replaces the value of a key that is present; false if it is absent.
    ///
    /// # Errors
    /// As [`Table::update`].
    ///
    /// ```
    /// # use farslot::{Store, TableOptions, Typed};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("squares", &TableOptions::new(100).types::<u64, u64>())?;
    /// # let squares: Typed<_, u64, u64> = store.table("squares")?.typed()?;
    /// assert!(!squares.update(&12, &144)?, "there is none");
    /// # Ok(())
    /// # }
    /// ```
    pub fn update(&self, key: &K, value: &V) -> Result<bool> {
        let (key, value) = (bytemuck::bytes_of(key), bytemuck::bytes_of(value));
        self.bytes.update(key, value)
    }

    /// Replaces the key's value if its bytes are those of `expected`, in one step; with nothing
    /// expected, puts the value if the key is absent.
    ///
    /// # Errors
    /// As [`Table::compare_and_set`].
    ///
    /// ```
    /// # use farslot::{Store, TableOptions, Typed};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("squares", &TableOptions::new(100).types::<u64, u64>())?;
    /// # let squares: Typed<_, u64, u64> = store.table("squares")?.typed()?;
    /// assert!(squares.compare_and_set(&12, None, &143)?);
    /// assert!(squares.compare_and_set(&12, Some(&143), &144)?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn compare_and_set(&self, key: &K, expected: Option<&V>, value: &V) -> Result<bool> {
        let expected = expected.map(bytemuck::bytes_of);
        let (key, value) = (bytemuck::bytes_of(key), bytemuck::bytes_of(value));
        self.bytes.compare_and_set(key, expected, value)
    }

    /// Removes the key; false if it was absent.
    ///
    /// # Errors
    /// As [`Table::remove`].
    ///
    /// ```
    /// # use farslot::{Store, TableOptions, Typed};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("squares", &TableOptions::new(100).types::<u64, u64>())?;
    /// # let squares: Typed<_, u64, u64> = store.table("squares")?.typed()?;
    /// squares.put(&12, &144)?;
    /// assert!(squares.remove(&12)?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn remove(&self, key: &K) -> Result<bool> {
        self.bytes.remove(bytemuck::bytes_of(key))
    }

    /// Looks up many keys side by side; `done` gets each answer with the key's number.
    ///
    /// # Errors
    /// [`BatchError`] of the keys that failed, each as of [`Typed::get`].
    ///
    /// ```
    /// # use farslot::{Store, TableOptions, Typed};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("squares", &TableOptions::new(100).types::<u64, u64>())?;
    /// # let squares: Typed<_, u64, u64> = store.table("squares")?.typed()?;
    /// squares.put_many(&[(1, 1), (2, 4)], |_at, added| assert!(added))?;
    /// squares.get_many(&[2, 3], |at, value| {
    ///     assert_eq!(value, [Some(4), None][at]);
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_many(
        &self,
        keys: &[K],
        mut done: impl FnMut(usize, Option<V>),
    ) -> Result<(), BatchError> {
        let keys: Vec<_> = keys.iter().map(bytemuck::bytes_of).collect();
        let mut failed = FailedOperations::default();
        let got = self.bytes.get_many(&keys, |number, found| {
            let value = found.map(|bytes| read("value", bytes)).transpose();
            if let Some(value) = failed.noted(number, value) {
                done(number, value);
            }
        });
        failed.of_all(got, keys.len())
    }

    /// Puts many records side by side; `done` gets with each record's number whether its key was
    /// absent.
    ///
    /// # Errors
    /// [`BatchError`] of the records that failed, each as of [`Typed::put`].
    ///
    /// ```
    /// # use farslot::{Store, TableOptions, Typed};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("squares", &TableOptions::new(100).types::<u64, u64>())?;
    /// # let squares: Typed<_, u64, u64> = store.table("squares")?.typed()?;
    /// let records: Vec<(u64, u64)> = (0..50).map(|n| (n, n * n)).collect();
    /// squares.put_many(&records, |_at, added| assert!(added))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn put_many(
        &self,
        records: &[(K, V)],
        done: impl FnMut(usize, bool),
    ) -> Result<(), BatchError> {
        let records: Vec<_> = records
            .iter()
            .map(|(key, value)| (bytemuck::bytes_of(key), bytemuck::bytes_of(value)))
            .collect();
        self.bytes.put_many(&records, done)
    }

    /// All records, as [`Table::iter`]; of one that is none of these types, the error, and then the
    /// others.
    ///
    /// ```
    /// # use farslot::{Store, TableOptions, Typed};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("squares", &TableOptions::new(100).types::<u64, u64>())?;
    /// # let squares: Typed<_, u64, u64> = store.table("squares")?.typed()?;
    /// squares.put_many(&[(1, 1), (2, 4)], |_at, added| assert!(added))?;
    /// let mut sum = 0;
    /// for entry in squares.iter() {
    ///     let (_number, square) = entry?;
    ///     sum += square;
    /// }
    /// assert_eq!(sum, 5);
    /// # Ok(())
    /// # }
    /// ```
    pub fn iter(&self) -> TypedEntries<'_, K, V> {
        TypedEntries {
            entries: self.bytes.iter(),
            types: PhantomData,
        }
    }
}

/// As the functions of [`Handle`] of the same names; in addition
/// [`OtherType`](StoreError::OtherType) of a value that is none of `V`.
impl<K, V> Typed<Handle, K, V>
where
    K: NoUninit + CheckedBitPattern,
    V: NoUninit + CheckedBitPattern,
{
    /// The key's value, if the key is present.
    ///
    /// # Errors
    /// As [`Handle::get`]; [`StoreError::OtherType`].
    ///
    /// ```no_run
    /// # async fn of(
    /// #     squares: farslot::Typed<farslot::Handle, u64, u64>,
    /// # ) -> Result<(), farslot::StoreError> {
    /// if let Some(square) = squares.get(&12).await? {
    ///     println!("{square}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get(&self, key: &K) -> Result<Option<V>> {
        read_value(self.bytes.get(bytemuck::bytes_of(key)).await?)
    }

    /// Sets the key's value; true if the key was absent.
    ///
    /// # Errors
    /// As [`Handle::put`].
    ///
    /// ```no_run
    /// # async fn of(
    /// #     squares: farslot::Typed<farslot::Handle, u64, u64>,
    /// # ) -> Result<(), farslot::StoreError> {
    /// let is_new = squares.put(&12, &144).await?;
    /// println!("{is_new}");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn put(&self, key: &K, value: &V) -> Result<bool> {
        let (key, value) = (bytemuck::bytes_of(key), bytemuck::bytes_of(value));
        self.bytes.put(key, value).await
    }

    /// Puts the value if the key is absent; else returns the value that is there.
    ///
    /// # Errors
    /// As [`Handle::find_or_put`]; [`StoreError::OtherType`].
    ///
    /// ```no_run
    /// # async fn of(
    /// #     squares: farslot::Typed<farslot::Handle, u64, u64>,
    /// # ) -> Result<(), farslot::StoreError> {
    /// let there = squares.find_or_put(&12, &144).await?;
    /// println!("{}", there.unwrap_or(144));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn find_or_put(&self, key: &K, value: &V) -> Result<Option<V>> {
        let (key, value) = (bytemuck::bytes_of(key), bytemuck::bytes_of(value));
        read_value(self.bytes.find_or_put(key, value).await?)
    }

    /// Replaces the key's value if its bytes are those of `expected`, as
    /// [`Handle::compare_and_set`].
    ///
    /// # Errors
    /// As [`Handle::compare_and_set`].
    ///
    /// ```no_run
    /// # async fn of(
    /// #     squares: farslot::Typed<farslot::Handle, u64, u64>,
    /// # ) -> Result<(), farslot::StoreError> {
    /// assert!(squares.compare_and_set(&12, Some(&143), &144).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn compare_and_set(&self, key: &K, expected: Option<&V>, value: &V) -> Result<bool> {
        let expected = expected.map(bytemuck::bytes_of);
        let (key, value) = (bytemuck::bytes_of(key), bytemuck::bytes_of(value));
        self.bytes.compare_and_set(key, expected, value).await
    }

    /// Removes the key; false if it was absent.
    ///
    /// # Errors
    /// As [`Handle::remove`].
    ///
    /// ```no_run
    /// # async fn of(
    /// #     squares: farslot::Typed<farslot::Handle, u64, u64>,
    /// # ) -> Result<(), farslot::StoreError> {
    /// let was_there = squares.remove(&12).await?;
    /// println!("{was_there}");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn remove(&self, key: &K) -> Result<bool> {
        self.bytes.remove(bytemuck::bytes_of(key)).await
    }
}

/// The records of a table with types: what [`Typed::iter`] returns.
#[derive(Debug)]
pub struct TypedEntries<'t, K, V> {
    entries: Entries<'t>,
    types: PhantomData<(K, V)>,
}

impl<K: CheckedBitPattern, V: CheckedBitPattern> Iterator for TypedEntries<'_, K, V> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.entries.next()?;
        Some(entry.and_then(|(key, value)| Ok((read("key", &key)?, read("value", &value)?))))
    }
}

impl<'t, K, V> IntoIterator for &'t Typed<Table, K, V>
where
    K: NoUninit + CheckedBitPattern,
    V: NoUninit + CheckedBitPattern,
{
    type Item = Result<(K, V)>;
    type IntoIter = TypedEntries<'t, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, Store};

    fn store() -> Store {
        Store::embedded_with(64 << 20, crate::OpenOptions::default()).unwrap()
    }

    #[test]
    fn types_must_fit_the_table() {
        let store = store();
        let options = TableOptions::new(100).types::<u32, [u8; 12]>();
        store.create("t", &options).unwrap();
        let refused = |typed: Result<()>| {
            let error = typed.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadInput);
            error.to_string()
        };
        let table = || store.table("t").unwrap();
        assert!(table().typed::<u32, [u8; 12]>().is_ok());
        let long_key = refused(table().typed::<u64, [u8; 12]>().map(drop));
        assert!(
            long_key.contains("key") && long_key.contains('8'),
            "{long_key}"
        );
        let short_value = refused(table().typed::<u32, u64>().map(drop));
        assert!(short_value.contains("value"), "{short_value}");
    }

    #[test]
    fn bytes_that_are_none_of_the_type_are_told() {
        let store = store();
        store.create("t", &TableOptions::new(100)).unwrap();
        let flags: Typed<_, u8, bool> = store.table("t").unwrap().typed().unwrap();
        assert!(flags.put(&1, &true).unwrap());
        assert_eq!(flags.find_or_put(&1, &false).unwrap(), Some(true));
        assert!(!flags.compare_and_set(&1, Some(&false), &true).unwrap());
        // Another program writes what is no bool, and a value of another length.
        flags.untyped().put(&[2], &[7]).unwrap();
        flags.untyped().put(&[3], b"long").unwrap();
        for key in [2, 3] {
            let error = flags.get(&key).unwrap_err();
            assert!(
                matches!(error, StoreError::OtherType { field: "value", .. }),
                "{error}"
            );
            assert_eq!(error.kind(), ErrorKind::DoesNotFit);
        }
        let (mut right, mut wrong) = (Vec::new(), 0);
        for entry in &flags {
            match entry {
                Ok(entry) => right.push(entry),
                Err(_) => wrong += 1,
            }
        }
        assert_eq!((right, wrong), (vec![(1, true)], 2));
        let mut found = Vec::new();
        let got = flags.get_many(&[1, 2, 9], |number, value| found.push((number, value)));
        found.sort_unstable();
        assert_eq!(found, [(0, Some(true)), (2, None)]);
        let failed = got.unwrap_err();
        let [(1, StoreError::OtherType { field: "value", .. })] = failed.failures() else {
            panic!("{failed:?}");
        };
        assert!(flags.remove(&1).unwrap() && !flags.update(&1, &true).unwrap());
    }

    #[test]
    fn all_entries_are_visited_once() {
        let store = store();
        store
            .create("t", &TableOptions::new(20_000).types::<u64, u64>())
            .unwrap();
        let squares: Typed<_, u64, u64> = store.table("t").unwrap().typed().unwrap();
        let records: Vec<_> = (0..20_000)
            .map(|number| (number, number * number))
            .collect();
        squares.put_many(&records, |_, new| assert!(new)).unwrap();
        let mut entries: Vec<_> = squares.iter().collect::<Result<_>>().unwrap();
        entries.sort_unstable();
        assert_eq!(entries, records);
    }
}
