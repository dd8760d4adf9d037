//! Many keys of a table at once, side by side.

use super::Table;
use crate::coalesce::Coalesced;
use crate::{Operation, Outcome, Record, Result, StoreError};
use farslot_index::KeyRule;
use farslot_index::{Answers, Outcomes};

/// Operations of a batch that are made ready together.
pub(super) const OPERATIONS_A_TURN: usize = 4096;

impl Table {
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
        self.session.get_many(keys, &mut |answers| match answers {
            Answers::Small(small) => small.each(|number, value| done(number, Ok(value))),
            Answers::One(number, told) => done(number, told.map_err(|error| *error)),
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
        let operation = |(key, value)| Operation::Put(key, value);
        self.change_all(records, operation, |was_there| !was_there, &mut done);
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
        self.run_all(records, operation, |first, _, outcomes| match outcomes {
            Outcomes::Small(small) => small.each(|number, was| done(first + number, Ok(was))),
            Outcomes::One(number, Ok(outcome)) => {
                done(first + number, Ok(outcome.into_value().as_deref()));
            }
            Outcomes::One(number, Err(error)) => done(first + number, Err(error)),
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
        let operation = |(key, value)| Operation::Update(key, value);
        self.change_all(records, operation, |was_there| was_there, &mut done);
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
        self.run_all(keys, Operation::GetAll, |first, operations, outcomes| {
            outcomes.each_of(operations, |number, outcome| {
                let values = outcome.map(Outcome::into_values);
                let owned =
                    values.map(|values| values.iter().map(|value| value.to_vec()).collect());
                done(first + number, owned);
            });
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
        self.change_all(keys, Operation::Remove, |was_there| was_there, &mut done);
    }

    /// [`Table::run_all`] of writes of a class; `done` is told whether something has changed, as
    /// `changed` says by whether the key was there.
    fn change_all<'k, T: Copy>(
        &self,
        items: &[T],
        operation: impl Fn(T) -> Operation<'k>,
        changed: impl Fn(bool) -> bool,
        done: &mut impl FnMut(usize, Result<bool>),
    ) {
        self.run_all(items, operation, |first, _, outcomes| match outcomes {
            Outcomes::Small(small) => small.each(|number, was| {
                done(first + number, Ok(changed(was.is_some())));
            }),
            Outcomes::One(number, outcome) => {
                done(first + number, outcome.map(|outcome| outcome.is_changed()));
            }
        });
    }

    /// Runs an operation for each of these, as they are: where keys are the same, nothing is
    /// coalesced. `done` gets outcomes, with the operations that they are of, and the number of the
    /// first of these.
    fn run_all<'k, T: Copy>(
        &self,
        items: &[T],
        operation: impl Fn(T) -> Operation<'k>,
        mut done: impl FnMut(usize, &[Operation<'k>], Outcomes<'_, StoreError>),
    ) {
        // Of a long batch, operations that the processor's cache has still when they are done.
        for (turn, items) in items.chunks(OPERATIONS_A_TURN).enumerate() {
            let operations: Vec<_> = items.iter().map(|item| operation(*item)).collect();
            self.session.run_many(None, &operations, &mut |outcomes| {
                done(turn * OPERATIONS_A_TURN, &operations, outcomes);
            });
        }
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
    ///     Ok(Outcome::Value(value)) => {
    ///         assert_eq!((number, value.as_deref()), (0, Some(&b"7"[..])));
    ///     }
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
