//! A table as one thread uses it: here one key at a time.

mod administration;
mod batches;
mod entries;
mod lifetimes;
mod room;

pub use entries::Entries;

use crate::catalog::{Scheme, TableRecord};
use crate::expiry::ExpiryClock;
use crate::no_room::{MemoryLeft, NoRoom, RoomLimit};
use crate::session::{MOST_ATTEMPTS, Session, contended};
use crate::{Operation, Outcome, Result, StoreError};
use farslot_fabric::Nanos;
use farslot_index::IndexError;
use std::fmt;

/// How long a table that is dropped tries to tell what it has to tell, or as long as it took to
/// open it: over a slow link that is a few round trips.
const PATIENCE: Nanos = 100_000_000;

/// A table as one thread uses it: its own connections, buffers and counters. Every thread opens its
/// own; what one writes, all see.
///
/// A cuckoo or CuckooDuo table admits one writer at a time: the first `Table` that writes, until it
/// is closed or dropped. All `Table`s that one [`Store`](crate::Store) and its clones have opened
/// write a CuckooDuo table together, as one writer, until the last of them is closed or dropped.
/// The others read, and their writes fail with
/// [`WriterBusy`](farslot_index::IndexError::WriterBusy); all that they do fails so in a CuckooDuo
/// table [for its writer alone](Scheme::writer_alone), of which whoever does anything first is the
/// writer. The writer of a CuckooDuo table has an index of it in its own memory, for which it reads
/// all of it when it becomes the writer.
///
/// Of a table over several nodes, each operation is the business of its key's node: one that cannot
/// be reached fails its keys with [`Node`](crate::StoreError::Node), which names it, and no others.
/// What concerns the whole table (visiting it, counting, building) fails if any does.
///
/// Callbacks may use the table they are called by. Operations on one key are linearizable, unless
/// the store was opened with a [`Cache`](crate::Cache) of answers that may be old. A table that
/// fails to do something is as it was before, unless
/// [`may_have_taken_effect`](crate::StoreError::may_have_taken_effect) says that this is unknown.
pub struct Table {
    record: TableRecord,
    session: Box<dyn Session>,
    /// What records expire by.
    clock: ExpiryClock,
    /// How long it tries to close when it is dropped.
    patience: Nanos,
    closed: bool,
}

impl Table {
    pub(crate) fn new(
        record: TableRecord,
        session: Box<dyn Session>,
        clock: ExpiryClock,
        opened_in: Nanos,
    ) -> Self {
        Self {
            record,
            session,
            clock,
            patience: PATIENCE.max(opened_in),
            closed: false,
        }
    }

    /// The table's name.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// assert_eq!(stock.name(), "stock");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn name(&self) -> &str {
        &self.record.name
    }

    /// The table as the catalog knows it; of one over several nodes, one of its partitions.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// assert_eq!(stock.record().name, "stock");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn record(&self) -> &TableRecord {
        &self.record
    }

    /// How the table is organised; of one over several nodes, how one of its partitions is.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// assert_eq!(stock.scheme().name(), "linear");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn scheme(&self) -> &Scheme {
        &self.record.scheme
    }

    /// The key's value, if the key is present; of a multi-key table, that of the first record
    /// found.
    ///
    /// # Errors
    /// A key that does not fit, or what the fabric says.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// stock.put(b"pears", b"7")?;
    /// assert_eq!(stock.get(b"pears")?.as_deref(), Some(&b"7"[..]));
    /// assert_eq!(stock.get(b"figs")?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.session.get(key)?.map(Vec::from))
    }

    /// Has the processor fetch what a get of the key looks at first; false where it cannot.
    pub(crate) fn prefetch(&self, key: &[u8]) -> bool {
        self.session.prefetch(key)
    }

    /// The values of all records of the key.
    ///
    /// # Errors
    /// As [`Table::get`].
    ///
    /// ```
    /// # use farslot::{Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).multi_key())?;
    /// # let stock = store.table("stock")?;
    /// stock.put(b"pears", b"7")?;
    /// stock.put(b"pears", b"8")?;
    /// assert_eq!(stock.get_all(b"pears")?.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_all(&self, key: &[u8]) -> Result<Vec<Vec<u8>>> {
        let values = self.session.run(Operation::GetAll(key))?.into_values();
        Ok(values.into_iter().map(Vec::from).collect())
    }

    /// Makes the key have this value; true if the key is new. A multi-key table gets a record more.
    ///
    /// # Errors
    /// A key or value that does not fit, [`Full`](farslot_index::IndexError::Full),
    /// [`HeapFull`](farslot_index::IndexError::HeapFull), or what the fabric says.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// assert!(stock.put(b"pears", b"7")?, "a new key");
    /// assert!(!stock.put(b"pears", b"8")?, "another value");
    /// # Ok(())
    /// # }
    /// ```
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        Ok(self.ask(Operation::Put(key, value))?.is_changed())
    }

    /// Puts the value if the key is absent; else answers with the value that is there, and changes
    /// nothing.
    ///
    /// # Errors
    /// As [`Table::put`].
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// assert_eq!(stock.find_or_put(b"pears", b"7")?, None);
    /// assert_eq!(stock.find_or_put(b"pears", b"8")?.as_deref(), Some(&b"7"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn find_or_put(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>> {
        let outcome = self.ask(Operation::FindOrPut(key, value))?;
        Ok(outcome.into_value().map(Vec::from))
    }

    /// Replaces the value of a key that is present; false if it is absent.
    ///
    /// # Errors
    /// As [`Table::put`]; [`MultiKey`](farslot_index::IndexError::MultiKey) on a multi-key table.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// assert!(!stock.update(b"pears", b"7")?, "there is nothing to replace");
    /// stock.put(b"pears", b"7")?;
    /// assert!(stock.update(b"pears", b"8")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn update(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        Ok(self.ask(Operation::Update(key, value))?.is_changed())
    }

    /// Whether the key is present.
    ///
    /// # Errors
    /// As [`Table::get`].
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// stock.put(b"pears", b"7")?;
    /// assert!(stock.contains_key(b"pears")?);
    /// assert!(!stock.contains_key(b"figs")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn contains_key(&self, key: &[u8]) -> Result<bool> {
        Ok(self.session.get(key)?.is_some())
    }

    /// The key's value, or `default` if the key is absent. Nothing is put.
    ///
    /// # Errors
    /// As [`Table::get`].
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// assert_eq!(stock.get_or(b"pears", b"0")?, b"0");
    /// stock.put(b"pears", b"7")?;
    /// assert_eq!(stock.get_or(b"pears", b"0")?, b"7");
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_or(&self, key: &[u8], default: &[u8]) -> Result<Vec<u8>> {
        let found = self.session.get(key)?;
        Ok(found.map_or_else(|| default.to_vec(), Vec::from))
    }

    /// Replaces the key's value if it is `expected`, in one step, whoever else writes; false if it
    /// is another, or the key is absent. With nothing expected, puts the value if the key is
    /// absent; false if it is present. In linear, RACE,
    /// chained and ordered tables.
    ///
    /// # Errors
    /// As [`Table::update`]; [`NotAtomic`](farslot_index::IndexError::NotAtomic) for a table of
    /// another scheme.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// assert!(stock.compare_and_set(b"pears", None, b"7")?, "the key was absent");
    /// assert!(stock.compare_and_set(b"pears", Some(b"7"), b"8")?);
    /// assert!(!stock.compare_and_set(b"pears", Some(b"7"), b"9")?, "it is 8 now");
    /// # Ok(())
    /// # }
    /// ```
    pub fn compare_and_set(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        value: &[u8],
    ) -> Result<bool> {
        let Some(expected) = expected else {
            return Ok(self.find_or_put(key, value)?.is_none());
        };
        self.check_one_step()?;
        let operation = Operation::Replace(key, expected, value);
        Ok(self.ask(operation)?.is_changed())
    }

    /// Adds to the number that the key's value is, in one step, whoever else writes, and returns
    /// the sum: a whole number of 64 bits in decimal digits, as `b"-5"`. An absent key counts as 0,
    /// and is put. In linear, RACE, chained and ordered tables.
    ///
    /// ```
    /// # use farslot::{Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let store = Store::embedded()?;
    /// store.create("visits", &TableOptions::default())?;
    /// let visits = store.table("visits")?;
    /// assert_eq!(visits.increment(b"home", 1)?, 1);
    /// assert_eq!(visits.increment(b"home", 41)?, 42);
    /// assert_eq!(visits.get(b"home")?.as_deref(), Some(&b"42"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`StoreError::NoNumber`]; [`StoreError::LongNumber`], mostly of a table whose values have
    /// another size than the sum as text; [`Contended`](farslot_index::IndexError::Contended) if
    /// others were faster 100,000 times; as [`Table::compare_and_set`].
    pub fn increment(&self, key: &[u8], by: i64) -> Result<i64> {
        self.check_one_step()?;
        let mut current = self.session.get(key)?.map(Vec::from);
        for _ in 0..MOST_ATTEMPTS {
            let text = current.as_deref().unwrap_or(b"0");
            let number = std::str::from_utf8(text).ok();
            let number = number.and_then(|text| text.parse::<i64>().ok());
            let sum = number.and_then(|number| number.checked_add(by));
            let Some(sum) = sum else {
                let value = String::from_utf8_lossy(text).into_owned();
                return Err(StoreError::NoNumber { value, by });
            };
            let new = sum.to_string();
            let (_, allowed) = self.scheme().record_sizes();
            if !allowed.admits(new.len()) {
                let number = sum;
                return Err(StoreError::LongNumber { number, allowed });
            }
            match &current {
                None => match self.find_or_put(key, new.as_bytes())? {
                    None => return Ok(sum),
                    other => current = other,
                },
                Some(value) => {
                    let operation = Operation::Replace(key, value, new.as_bytes());
                    if self.ask(operation)?.is_changed() {
                        return Ok(sum);
                    }
                    current = self.session.get(key)?.map(Vec::from);
                }
            }
        }
        Err(contended())
    }

    /// Removes the key with all its records; false if it was absent.
    ///
    /// # Errors
    /// As [`Table::get`].
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// stock.put(b"pears", b"7")?;
    /// assert!(stock.remove(b"pears")?);
    /// assert!(!stock.remove(b"pears")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn remove(&self, key: &[u8]) -> Result<bool> {
        Ok(self.session.run(Operation::Remove(key))?.is_changed())
    }

    /// Removes the key if its value is `expected`, in one step, whoever else writes; false if it is
    /// another, or the key is absent. In linear, RACE, chained and ordered tables.
    ///
    /// # Errors
    /// As [`Table::compare_and_set`].
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// stock.put(b"pears", b"7")?;
    /// assert!(!stock.compare_and_remove(b"pears", b"6")?, "it is 7");
    /// assert!(stock.compare_and_remove(b"pears", b"7")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn compare_and_remove(&self, key: &[u8], expected: &[u8]) -> Result<bool> {
        self.check_one_step()?;
        let operation = Operation::RemoveIf(key, expected);
        Ok(self.session.run(operation)?.is_changed())
    }

    /// Runs an operation that may need room.
    fn ask(&self, operation: Operation<'_>) -> Result<Outcome> {
        let outcome = self.session.run(operation);
        outcome.map_err(|error| self.explained(error, operation.key()))
    }

    /// What an operation on a key has failed with: for want of room, with what there is of memory.
    #[cold]
    fn explained(&self, error: StoreError, key: &[u8]) -> StoreError {
        match error {
            StoreError::Index(cause) if NoRoom::is_cause(&cause) => {
                StoreError::NoRoom(Box::new(self.no_room(cause, key)))
            }
            error => error,
        }
    }

    fn no_room(&self, cause: IndexError, key: &[u8]) -> NoRoom {
        let (node, left) = self.session.client().memory_left(key);
        let limit = RoomLimit::of(&cause, self.scheme(), left);
        let own = self.record.own_bytes();
        let memory = left.map(|left| MemoryLeft {
            table: left.table.saturating_add(own),
            ..left
        });
        NoRoom {
            table: self.name().into(),
            scheme: self.scheme().kind(),
            cause,
            limit,
            node,
            memory,
        }
    }

    /// Refuses what the table's scheme cannot do in one step.
    fn check_one_step(&self) -> Result<()> {
        if self.scheme().kind().replaces_in_one_step() {
            return Ok(());
        }
        let scheme = self.scheme().name();
        Err(IndexError::NotAtomic { scheme }.into())
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("record", &self.record)
            .finish_non_exhaustive()
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if !self.closed {
            // Nobody is there to be told that it could not be done.
            let _ = self.noted(self.session.client().close(Some(self.patience)));
        }
    }
}
