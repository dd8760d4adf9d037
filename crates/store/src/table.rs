//! A table as one thread uses it.

use crate::catalog::{Scheme, TableRecord};
use crate::coalesce::Coalesced;
use crate::deduplicate::last_of_each_key;
use crate::session::Session;
use crate::{
    CacheCounts, Cursor, KeyRule, Occupancy, Operation, Outcome, PartitionReport, Record, Result,
    StoreError, Survey, WriterChange,
};
use farslot_fabric::Nanos;
use farslot_fabric::counters::Snapshot;
use farslot_index::IndexError;
use std::fmt;

/// How long a table that is dropped tries to tell what it has to tell.
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
    closed: bool,
}

impl Table {
    pub(crate) fn new(record: TableRecord, session: Box<dyn Session>) -> Self {
        Self {
            record,
            session,
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
        Ok(self.session.get(key)?.map(|value| value.to_vec()))
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
        Ok(values.iter().map(|value| value.to_vec()).collect())
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
        Ok(self.session.run(Operation::Put(key, value))?.is_changed())
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
        let outcome = self.session.run(Operation::FindOrPut(key, value))?;
        Ok(outcome.into_value().map(|value| value.to_vec()))
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
        Ok(self
            .session
            .run(Operation::Update(key, value))?
            .is_changed())
    }

    /// Whether the key is present.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn exists(&self, key: &[u8]) -> Result<bool> {
        Ok(self.session.get(key)?.is_some())
    }

    /// The key's value, or `default` if the key is absent. Nothing is put.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn get_or(&self, key: &[u8], default: &[u8]) -> Result<Vec<u8>> {
        let found = self.session.get(key)?;
        Ok(found.map_or_else(|| default.to_vec(), |value| value.to_vec()))
    }

    /// Replaces the key's value if it is `expected`, in one step, whoever else writes; false if it
    /// is another, or the key is absent. With nothing expected, puts the value if the key is
    /// absent; false if it is present. In linear and RACE tables.
    ///
    /// # Errors
    /// As [`Table::update`]; [`NotAtomic`](farslot_index::IndexError::NotAtomic) for a table of
    /// another scheme.
    pub fn compare_and_set(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        value: &[u8],
    ) -> Result<bool> {
        let Some(expected) = expected else {
            return Ok(self.find_or_put(key, value)?.is_none());
        };
        let operation = Operation::Replace(key, expected, value);
        Ok(self.session.run(operation)?.is_changed())
    }

    /// Adds to the number that the key's value is, in one step, whoever else writes, and returns
    /// the sum: a whole number of 64 bits in decimal digits, as `b"-5"`. An absent key counts as 0,
    /// and is put. In linear and RACE tables.
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
    /// [`StoreError::NoNumber`]; [`Contended`](farslot_index::IndexError::Contended) if others were
    /// faster 100,000 times; as [`Table::compare_and_set`].
    pub fn increment(&self, key: &[u8], by: i64) -> Result<i64> {
        const MOST_ATTEMPTS: u32 = 100_000;
        let mut there = self.session.get(key)?.map(|value| value.to_vec());
        for _ in 0..MOST_ATTEMPTS {
            let text = there.as_deref().unwrap_or(b"0");
            let number = std::str::from_utf8(text).ok();
            let number = number.and_then(|text| text.parse::<i64>().ok());
            let sum = number.and_then(|number| number.checked_add(by));
            let Some(sum) = sum else {
                let value = String::from_utf8_lossy(text).into_owned();
                return Err(StoreError::NoNumber { value, by });
            };
            let new = sum.to_string();
            match &there {
                None => match self.find_or_put(key, new.as_bytes())? {
                    None => return Ok(sum),
                    other => there = other,
                },
                Some(value) => {
                    let operation = Operation::Replace(key, value, new.as_bytes());
                    if self.session.run(operation)?.is_changed() {
                        return Ok(sum);
                    }
                    there = self.session.get(key)?.map(|value| value.to_vec());
                }
            }
        }
        Err(StoreError::Index(IndexError::Contended {
            slot: 0,
            attempts: MOST_ATTEMPTS,
        }))
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

    /// Looks up many keys side by side; `done` gets each answer with the key's number, in the order
    /// in which they come.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// stock.put(b"pears", b"7")?;
    /// let keys: [&[u8]; 2] = [b"pears", b"figs"];
    /// let mut present = 0;
    /// stock.get_many(&keys, |number, answer| match answer {
    ///     Ok(value) => present += usize::from(value.is_some()),
    ///     Err(error) => eprintln!("key {number}: {error}"),
    /// });
    /// assert_eq!(present, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_many(&self, keys: &[&[u8]], mut done: impl FnMut(usize, Result<Option<&[u8]>>)) {
        self.session
            .get_many(keys, &mut |number, answer| match answer {
                Ok(value) => done(number, Ok(value.as_deref())),
                Err(error) => done(number, Err(error)),
            });
    }

    /// Puts many records side by side. Of several with the same key, which one stays is not said.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// stock.put_many(&[(b"pears", b"7"), (b"plums", b"12")], |number, new| {
    ///     assert!(new.is_ok(), "record {number}");
    /// });
    /// assert_eq!(stock.get(b"plums")?.as_deref(), Some(&b"12"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn put_many(&self, records: &[Record<'_>], mut done: impl FnMut(usize, Result<bool>)) {
        self.run_all(
            records,
            |(key, value)| Operation::Put(key, value),
            |number, outcome| {
                done(number, outcome.map(|outcome| outcome.is_changed()));
            },
        );
    }

    /// Finds or puts many records side by side; `done` gets the value that was there, or nothing if
    /// the key was absent.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// stock.put(b"pears", b"7")?;
    /// stock.find_or_put_many(&[(b"pears", b"1"), (b"figs", b"1")], |number, was| {
    ///     assert_eq!(was.unwrap(), [Some(&b"7"[..]), None][number]);
    /// });
    /// # Ok(())
    /// # }
    /// ```
    pub fn find_or_put_many(
        &self,
        records: &[Record<'_>],
        mut done: impl FnMut(usize, Result<Option<&[u8]>>),
    ) {
        let operation = |(key, value)| Operation::FindOrPut(key, value);
        self.run_all(records, operation, |number, outcome| match outcome {
            Ok(outcome) => done(number, Ok(outcome.into_value().as_deref())),
            Err(error) => done(number, Err(error)),
        });
    }

    /// Replaces the values of many keys side by side.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// stock.put(b"pears", b"7")?;
    /// stock.update_many(&[(b"pears", b"8"), (b"figs", b"8")], |number, there| {
    ///     assert_eq!(there.unwrap(), number == 0);
    /// });
    /// # Ok(())
    /// # }
    /// ```
    pub fn update_many(&self, records: &[Record<'_>], mut done: impl FnMut(usize, Result<bool>)) {
        self.run_all(
            records,
            |(key, value)| Operation::Update(key, value),
            |number, outcome| {
                done(number, outcome.map(|outcome| outcome.is_changed()));
            },
        );
    }

    /// Looks up all records of many keys side by side; `done` gets the values of each key.
    ///
    /// ```
    /// # use farslot::{Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).multi_key())?;
    /// # let stock = store.table("stock")?;
    /// stock.put_many(&[(b"pears", b"7"), (b"pears", b"8")], |_, new| assert!(new.is_ok()));
    /// stock.get_all_many(&[b"pears", b"figs"], |number, values| {
    ///     assert_eq!(values.unwrap().len(), [2, 0][number]);
    /// });
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_all_many(&self, keys: &[&[u8]], mut done: impl FnMut(usize, Result<Vec<Vec<u8>>>)) {
        self.run_all(keys, Operation::GetAll, |number, outcome| {
            let values = outcome.map(Outcome::into_values);
            let owned = values.map(|values| values.iter().map(|value| value.to_vec()).collect());
            done(number, owned);
        });
    }

    /// Removes many keys side by side.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// stock.put(b"pears", b"7")?;
    /// stock.remove_many(&[b"pears", b"figs"], |number, there| {
    ///     assert_eq!(there.unwrap(), number == 0);
    /// });
    /// # Ok(())
    /// # }
    /// ```
    pub fn remove_many(&self, keys: &[&[u8]], mut done: impl FnMut(usize, Result<bool>)) {
        self.run_all(keys, Operation::Remove, |number, outcome| {
            done(number, outcome.map(|outcome| outcome.is_changed()));
        });
    }

    /// Runs an operation for each of these, as they are: where keys are the same, nothing is
    /// coalesced.
    fn run_all<'k, T: Copy>(
        &self,
        items: &[T],
        operation: impl Fn(T) -> Operation<'k>,
        mut done: impl FnMut(usize, Result<Outcome>),
    ) {
        let operations: Vec<_> = items.iter().map(|item| operation(*item)).collect();
        self.session.run_many(&operations, &mut done);
    }

    /// Runs operations of several kinds side by side; `done` gets each outcome with the operation's
    /// number, in the order in which they come. Of a batch that would be one of gets and then one
    /// of writes this saves the round trips of one. Each operation is what it is alone; of several
    /// on one key, which takes effect first is not said. Where all writes of a key in the batch are
    /// puts and updates of values of one length, and keys are unique, one answers for all, and for
    /// gets of that key: the table is asked once.
    ///
    /// ```
    /// # use farslot::{FieldSize, Operation, Outcome, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// # stock.put(b"pears", b"7")?;
    /// let operations = [
    ///     Operation::Get(b"pears"),
    ///     Operation::Put(b"plums", b"12"),
    ///     Operation::Remove(b"figs"),
    /// ];
    /// stock.run_many(&operations, |number, outcome| match outcome {
    ///     Ok(Outcome::Value(value)) => assert_eq!((number, value.as_deref()), (0, Some(&b"7"[..]))),
    ///     Ok(outcome) => assert_eq!(outcome, Outcome::Changed(number == 1)),
    ///     Err(error) => panic!("{error}"),
    /// });
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_many(
        &self,
        operations: &[Operation<'_>],
        mut done: impl FnMut(usize, Result<Outcome>),
    ) {
        let coalesced = match self.record.scheme.keys() {
            KeyRule::Unique => Coalesced::of(operations),
            KeyRule::Multi => None,
        };
        match coalesced {
            Some(coalesced) => coalesced.run(
                |operations, done| self.session.run_many(operations, done),
                &mut done,
            ),
            None => self.session.run_many(operations, &mut done),
        }
    }

    /// Visits every record. One that is there all along is visited once, whatever others write; but
    /// in a cuckoo or CuckooDuo table those that its writer moves meanwhile may be visited twice,
    /// or not at all.
    ///
    /// # Errors
    /// What the fabric says.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// stock.put(b"pears", b"7")?;
    /// let mut records = 0;
    /// stock.for_each(|_key, _value| records += 1)?;
    /// assert_eq!(records, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn for_each(&self, mut visit: impl FnMut(&[u8], &[u8])) -> Result<()> {
        let mut cursor = Some(Cursor::default());
        while let Some(from) = cursor {
            cursor = self.session.scan(from, &mut visit)?;
        }
        Ok(())
    }

    /// Visits a piece of the table; returns where the next piece starts, or nothing at the end.
    ///
    /// # Errors
    /// What the fabric says.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// stock.put(b"pears", b"7")?;
    /// // A piece at a time: a page of a listing, say.
    /// let (mut records, mut next) = (0, Some(farslot::Cursor::default()));
    /// while let Some(cursor) = next {
    ///     next = stock.scan(cursor, |_key, _value| records += 1)?;
    /// }
    /// assert_eq!(records, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn scan(
        &self,
        cursor: Cursor,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        self.session.scan(cursor, &mut visit)
    }

    /// Where the next partition of a table over several nodes starts, behind the one that a cursor
    /// is in: for who visits what can be reached, past a node that does not answer. Nothing behind
    /// the last, and in a table on one node.
    #[must_use]
    pub fn next_partition(&self, cursor: Cursor) -> Option<Cursor> {
        let next = cursor.partition + 1;
        (next < self.session.partition_count()).then(|| Cursor::of(next, Default::default()))
    }

    /// What the table holds, as its clients have counted it together: cheap, and behind by what
    /// they have not reported yet.
    ///
    /// # Errors
    /// What the fabric says.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// stock.put(b"pears", b"7")?;
    /// stock.flush()?;
    /// assert_eq!(stock.occupancy()?.entries, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn occupancy(&self) -> Result<Occupancy> {
        self.session.occupancy()
    }

    /// Reports what this table has put and removed to the count that all see. Done at intervals,
    /// and when the table is dropped.
    ///
    /// # Errors
    /// What the fabric says.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// stock.put(b"pears", b"7")?;
    /// stock.flush()?;
    /// assert_eq!(store.table("stock")?.occupancy()?.entries, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn flush(&self) -> Result<()> {
        self.session.flush()
    }

    /// Looks at every slot: exact counts, occupancy along the table, and how the keys lie.
    ///
    /// # Errors
    /// What the fabric says.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// stock.put(b"pears", b"7")?;
    /// println!("{:?}", stock.survey()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn survey(&self) -> Result<Survey> {
        self.session.survey()
    }

    /// What each node has of a table over several, and which cannot tell; of any other, nothing.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// assert!(stock.partitions().is_empty(), "of one node");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn partitions(&self) -> Vec<PartitionReport> {
        self.session.partitions()
    }

    /// The number of the client that is the table's writer now, of a table that admits one; over
    /// several nodes, that of the first partition that has one.
    ///
    /// # Errors
    /// What the fabric says.
    ///
    /// ```
    /// # use farslot::{CuckooShape, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).cuckoo(CuckooShape::default()))?;
    /// # let stock = store.table("stock")?;
    /// assert_eq!(stock.writer()?, None);
    /// stock.start_writing()?;
    /// assert!(stock.writer()?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn writer(&self) -> Result<Option<u64>> {
        self.session.writer()
    }

    /// Becomes the writer now and not at the first write, of a table that admits one.
    ///
    /// # Errors
    /// [`WriterBusy`](farslot_index::IndexError::WriterBusy), or what the fabric says.
    ///
    /// ```
    /// # use farslot::{CuckooShape, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).cuckoo(CuckooShape::default()))?;
    /// # let stock = store.table("stock")?;
    /// stock.start_writing()?;
    /// let other = store.table("stock")?;
    /// assert!(other.put(b"pears", b"7").is_err(), "there is a writer");
    /// # Ok(())
    /// # }
    /// ```
    pub fn start_writing(&self) -> Result<()> {
        self.session.change_writer(WriterChange::Start)
    }

    /// Becomes the writer in place of one that was killed, of a table that admits one. This waits
    /// as long as something that it had begun may still happen. From a writer that is alive this
    /// takes what it is about to write.
    ///
    /// # Errors
    /// [`WriterBusy`](farslot_index::IndexError::WriterBusy) if a third client was faster, or what
    /// the fabric says.
    ///
    /// ```
    /// # use farslot::{CuckooShape, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).cuckoo(CuckooShape::default()))?;
    /// # let stock = store.table("stock")?;
    /// stock.start_writing()?;
    /// let other = store.table("stock")?;
    /// other.take_over()?;
    /// other.put(b"pears", b"7")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn take_over(&self) -> Result<()> {
        self.session.change_writer(WriterChange::TakeOver)
    }

    /// Whether the table can never change again, as far as this client knows.
    ///
    /// ```
    /// # use farslot::{Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).sealed())?;
    /// # let stock = store.table("stock")?;
    /// stock.build(&[(b"pears", b"7")])?;
    /// assert!(stock.is_sealed());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.session.state().sealed
    }

    /// Fills an empty table with these records, and seals it: it can never change again. Places are
    /// found in local memory, so that this is much faster than putting, and the table can be
    /// fuller. Of several records of a key, the last stays where keys are unique. Returns how many
    /// stay.
    ///
    /// # Errors
    /// [`StoreError::NotBuildable`](crate::StoreError::NotBuildable) on a table that is neither
    /// cuckoo nor sealed; [`NotEmpty`](farslot_index::IndexError::NotEmpty),
    /// [`Full`](farslot_index::IndexError::Full), a record that does not fit,
    /// [`WriterBusy`](farslot_index::IndexError::WriterBusy) if another client builds or has begun
    /// to, or what the fabric says. Unless the fabric fails, the table is as empty then as it was.
    ///
    /// ```
    /// # use farslot::{Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).sealed())?;
    /// # let stock = store.table("stock")?;
    /// assert_eq!(stock.build(&[(b"pears", b"7"), (b"plums", b"12")])?, 2);
    /// assert_eq!(stock.get(b"plums")?.as_deref(), Some(&b"12"[..]));
    /// assert!(stock.put(b"figs", b"1").is_err(), "it is sealed");
    /// # Ok(())
    /// # }
    /// ```
    pub fn build(&self, records: &[(&[u8], &[u8])]) -> Result<u64> {
        let records = last_of_each_key(self.record.scheme.keys(), records);
        self.build_deduplicated(&records)?;
        Ok(records.len() as u64)
    }

    /// As [`Table::build`], with no key twice where keys are unique.
    pub(crate) fn build_deduplicated(&self, records: &[Record<'_>]) -> Result<()> {
        self.session.build(records)
    }

    /// Is the table's writer no longer, until the next write. A CuckooDuo table that other `Table`s
    /// of this store write as well keeps its writer until the last of them resigns.
    ///
    /// # Errors
    /// What the fabric says; another client may then have to [take over](Table::take_over).
    ///
    /// ```
    /// # use farslot::{CuckooShape, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).cuckoo(CuckooShape::default()))?;
    /// # let stock = store.table("stock")?;
    /// stock.put(b"pears", b"7")?;
    /// stock.resign()?;
    /// // Another may write now.
    /// store.table("stock")?.put(b"plums", b"12")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn resign(&self) -> Result<()> {
        self.session.change_writer(WriterChange::Resign)
    }

    /// Reports the counts, and lets another client be the writer. Dropping does the same, if it can
    /// be done at once, and does not say whether it was.
    ///
    /// # Errors
    /// What the fabric says; another client may then have to [take over](Table::take_over).
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// stock.put(b"pears", b"7")?;
    /// stock.close()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn close(mut self) -> Result<()> {
        self.closed = true;
        self.session.close(None)
    }

    /// What this table's endpoint has counted.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// let before = stock.counters();
    /// stock.get(b"pears")?;
    /// let of_the_get = stock.counters().since(&before);
    /// assert_eq!(of_the_get.doorbells, 0, "memory of this process needs none");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn counters(&self) -> Snapshot {
        self.session.counters()
    }

    /// Slots that one READ of a lookup fetches: in a linear table, of the next lookup.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// assert!(stock.read_size() >= 1);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn read_size(&self) -> u64 {
        self.session.state().read_size
    }

    /// What this table's cache has done, and what it holds; zeros without one
    /// ([`OpenOptions::cache`](crate::OpenOptions::cache)). What it answers is no operation of
    /// [`Table::counters`]. Of a partition whose node came back empty, since it was made anew.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// assert_eq!(stock.cache_counts().hits, 0, "it has no cache");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn cache_counts(&self) -> CacheCounts {
        self.session.state().cache
    }

    /// Bytes of this process's memory that this table takes, or may take, beside its endpoint's
    /// buffers: for hints, a graph or an index, and answers.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// println!("{} bytes of hints and cached answers", stock.client_bytes());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn client_bytes(&self) -> u64 {
        self.session.state().client_bytes
    }

    /// The endpoint's clock, in nanoseconds: virtual in a simulated store.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// let before = stock.now();
    /// stock.get(b"pears")?;
    /// println!("{} ns", stock.now() - before);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.session.now()
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
            let _ = self.session.close(Some(PATIENCE));
        }
    }
}
