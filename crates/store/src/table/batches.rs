//! Many keys of a table at once, side by side.

use super::Table;
use crate::coalesce::Coalesced;
use crate::failed_operations::FailedOperations;
use crate::{BatchError, Operation, Outcome, Record, Result};
use farslot_index::{Answers, KeyRule};

/// Operations of a batch that are made ready together.
pub(super) const OPERATIONS_A_CHUNK: usize = 4096;

impl Table {
    /// Looks up many keys side by side; `done` gets each answer with the key's number, in the order
    /// in which they come. A key that fails keeps no other from its answer, as in all batches.
    ///
    /// # Errors
    /// [`BatchError`] of the keys that failed, each as of [`Table::get`].
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
    /// stock.get_many(&keys, |_, value| present += usize::from(value.is_some()))?;
    /// assert_eq!(present, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_many(
        &self,
        keys: &[&[u8]],
        mut done: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<(), BatchError> {
        let mut failed = FailedOperations::default();
        self.session.get_many(keys, &mut |answers| match answers {
            Answers::Small(small) => small.each(&mut done),
            Answers::One(number, Ok(value)) => done(number, value),
            Answers::One(number, Err(error)) => failed.note(number, *error),
        });
        failed.of(keys.len())
    }

    /// Puts many records side by side. Of several with the same key, which one stays is not said.
    ///
    /// # Errors
    /// [`BatchError`] of the records that failed, each as of [`Table::put`].
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// let mut added = 0;
    /// stock.put_many(&[(b"pears", b"7"), (b"plums", b"12")], |_, new| added += u32::from(new))?;
    /// assert_eq!(added, 2);
    /// assert_eq!(stock.get(b"plums")?.as_deref(), Some(&b"12"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn put_many(
        &self,
        records: &[Record<'_>],
        done: impl FnMut(usize, bool),
    ) -> Result<(), BatchError> {
        let operation = |(key, value)| Operation::Put(key, value);
        self.change_all(records, operation, |was_there| !was_there, done)
    }

    /// Finds or puts many records side by side; `done` gets the value that was there, or nothing if
    /// the key was absent.
    ///
    /// # Errors
    /// [`BatchError`] of the records that failed, each as of [`Table::find_or_put`].
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// stock.put(b"pears", b"7")?;
    /// stock.find_or_put_many(&[(b"pears", b"1"), (b"figs", b"1")], |number, was| {
    ///     assert_eq!(was, [Some(&b"7"[..]), None][number]);
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn find_or_put_many(
        &self,
        records: &[Record<'_>],
        mut done: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<(), BatchError> {
        let operation = |(key, value)| Operation::FindOrPut(key, value);
        self.run_all(records, operation, |first, outcomes| match outcomes {
            Answers::Small(small) => small.each(|number, was| done(first + number, was)),
            Answers::One(number, outcome) => {
                done(first + number, outcome.into_value().as_deref());
            }
        })
    }

    /// Replaces the values of many keys side by side.
    ///
    /// # Errors
    /// [`BatchError`] of the records that failed, each as of [`Table::update`].
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// stock.put(b"pears", b"7")?;
    /// stock.update_many(&[(b"pears", b"8"), (b"figs", b"8")], |number, there| {
    ///     assert_eq!(there, number == 0);
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn update_many(
        &self,
        records: &[Record<'_>],
        done: impl FnMut(usize, bool),
    ) -> Result<(), BatchError> {
        let operation = |(key, value)| Operation::Update(key, value);
        self.change_all(records, operation, |was_there| was_there, done)
    }

    /// Looks up all records of many keys side by side; `done` gets the values of each key.
    ///
    /// # Errors
    /// [`BatchError`] of the keys that failed, each as of [`Table::get_all`].
    ///
    /// ```
    /// # use farslot::{Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).multi_key())?;
    /// # let stock = store.table("stock")?;
    /// stock.put_many(&[(b"pears", b"7"), (b"pears", b"8")], |_, _| ())?;
    /// stock.get_all_many(&[b"pears", b"figs"], |number, values| {
    ///     assert_eq!(values.len(), [2, 0][number]);
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_all_many(
        &self,
        keys: &[&[u8]],
        mut done: impl FnMut(usize, Vec<Vec<u8>>),
    ) -> Result<(), BatchError> {
        self.run_all(keys, Operation::GetAll, |first, outcomes| match outcomes {
            Answers::Small(small) => small.each(|number, value| {
                let values = value.map(<[u8]>::to_vec);
                done(first + number, values.into_iter().collect());
            }),
            Answers::One(number, outcome) => {
                let values = outcome.into_values();
                let owned = values.iter().map(|value| value.to_vec()).collect();
                done(first + number, owned);
            }
        })
    }

    /// Removes many keys side by side.
    ///
    /// # Errors
    /// [`BatchError`] of the keys that failed, each as of [`Table::remove`].
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("stock", &TableOptions::new(100).values(FieldSize::UpTo(8)))?;
    /// # let stock = store.table("stock")?;
    /// stock.put(b"pears", b"7")?;
    /// stock.remove_many(&[b"pears", b"figs"], |number, there| {
    ///     assert_eq!(there, number == 0);
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn remove_many(
        &self,
        keys: &[&[u8]],
        done: impl FnMut(usize, bool),
    ) -> Result<(), BatchError> {
        self.change_all(keys, Operation::Remove, |was_there| was_there, done)
    }

    /// [`Table::run_all`] of writes of a class; `done` is told whether something has changed, as
    /// `changed` says by whether the key was there.
    fn change_all<'k, T: Copy>(
        &self,
        items: &[T],
        operation: impl Fn(T) -> Operation<'k>,
        changed: impl Fn(bool) -> bool,
        mut done: impl FnMut(usize, bool),
    ) -> Result<(), BatchError> {
        self.run_all(items, operation, |first, outcomes| match outcomes {
            Answers::Small(small) => small.each(|number, was| {
                done(first + number, changed(was.is_some()));
            }),
            Answers::One(number, outcome) => done(first + number, outcome.is_changed()),
        })
    }

    /// Runs an operation for each of these, as they are: where keys are the same, nothing is
    /// coalesced. `done` gets outcomes, with the number of the first of the operations that they
    /// are counted from.
    fn run_all<'k, T: Copy>(
        &self,
        items: &[T],
        operation: impl Fn(T) -> Operation<'k>,
        mut done: impl FnMut(usize, Answers<'_, Outcome>),
    ) -> Result<(), BatchError> {
        let mut failed = FailedOperations::default();
        // Of a long batch, operations that the processor's cache has still when they are done.
        for (chunk, items) in items.chunks(OPERATIONS_A_CHUNK).enumerate() {
            let first = chunk * OPERATIONS_A_CHUNK;
            let operations: Vec<_> = items.iter().map(|item| operation(*item)).collect();
            self.session
                .run_many(None, &operations, &mut |outcomes| match outcomes {
                    Answers::Small(small) => done(first, Answers::Small(small)),
                    Answers::One(number, Ok(outcome)) => done(first, Answers::One(number, outcome)),
                    Answers::One(number, Err(error)) => {
                        let error = self.explained(error, operations[number].key());
                        failed.note(first + number, error);
                    }
                });
        }
        failed.of(items.len())
    }

    /// Runs operations of several kinds side by side; `done` gets each outcome with the operation's
    /// number, in the order in which they come. Of a batch that would be one of gets and then one
    /// of writes this saves the round trips of one. Each operation is what it is alone; of several
    /// on one key, which takes effect first is not said. Where all writes of a key in the batch are
    /// puts and updates of values of one length, and keys are unique, one answers for all, and for
    /// gets of that key: the table is asked once.
    ///
    /// # Errors
    /// [`BatchError`] of the operations that failed, each as it does alone.
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
    ///     Outcome::Value(value) => assert_eq!((number, value.as_deref()), (0, Some(&b"7"[..]))),
    ///     outcome => assert_eq!(outcome, Outcome::Changed(number == 1)),
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_many(
        &self,
        operations: &[Operation<'_>],
        mut done: impl FnMut(usize, Outcome),
    ) -> Result<(), BatchError> {
        let mut failed = FailedOperations::default();
        self.run_each(operations, |number, outcome| {
            if let Some(outcome) = failed.noted(number, outcome) {
                done(number, outcome);
            }
        });
        failed.of(operations.len())
    }

    /// [`Table::run_many`], whose `done` gets failures too, as they come.
    pub(crate) fn run_each(
        &self,
        operations: &[Operation<'_>],
        mut done: impl FnMut(usize, Result<Outcome>),
    ) {
        let mut done = |number: usize, outcome: Result<Outcome>| {
            let explain = |error| self.explained(error, operations[number].key());
            done(number, outcome.map_err(explain));
        };
        let coalesced = match self.record.scheme.keys() {
            KeyRule::Unique => Coalesced::of(operations),
            KeyRule::Multi => None,
        };
        match coalesced {
            Some(coalesced) => coalesced.run(
                |operations, done| {
                    self.session.run_many(None, operations, &mut |outcomes| {
                        outcomes.each_of(operations, &mut *done);
                    });
                },
                &mut done,
            ),
            None => self.session.run_many(None, operations, &mut |outcomes| {
                outcomes.each_of(operations, &mut done);
            }),
        }
    }
}
