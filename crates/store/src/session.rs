//! One thread's way to one table: an endpoint, its executor, and the index over it.

use crate::catalog::{Catalog, Scheme, TableRecord, table_at};
use crate::{Found, Result};
use farslot_fabric::counters::Snapshot;
use farslot_fabric::{Endpoint, Executor};
use farslot_index::linear::{LinearTable, ReadSizes, Survey};
use farslot_index::{Cursor, FindOrPut, Index, Occupancy};
use std::rc::Rc;

/// Gets the answer to each key of a batch, with the key's number.
pub(crate) type AnswerEach<'f> = &'f mut dyn FnMut(usize, Result<Option<&[u8]>>);

/// What a table does, whatever its scheme and its fabric: one virtual call for an operation or a
/// whole batch, everything below it is compiled for the fabric.
pub(crate) trait Session {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;
    fn get_all(&self, key: &[u8]) -> Result<Vec<Vec<u8>>>;
    fn put(&self, key: &[u8], value: &[u8]) -> Result<bool>;
    fn find_or_put(&self, key: &[u8], value: &[u8]) -> Result<Found>;
    fn update(&self, key: &[u8], value: &[u8]) -> Result<bool>;
    fn remove(&self, key: &[u8]) -> Result<bool>;
    fn get_many(&self, keys: &[&[u8]], done: AnswerEach<'_>);
    fn put_many(&self, records: &[(&[u8], &[u8])], done: &mut dyn FnMut(usize, Result<bool>));
    fn find_or_put_many(
        &self,
        records: &[(&[u8], &[u8])],
        done: &mut dyn FnMut(usize, Result<Found>),
    );
    fn update_many(&self, records: &[(&[u8], &[u8])], done: &mut dyn FnMut(usize, Result<bool>));
    fn get_all_many(&self, keys: &[&[u8]], done: &mut dyn FnMut(usize, Result<Vec<Vec<u8>>>));
    fn remove_many(&self, keys: &[&[u8]], done: &mut dyn FnMut(usize, Result<bool>));
    fn scan(&self, cursor: Cursor, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<Option<Cursor>>;
    fn occupancy(&self) -> Result<Occupancy>;
    fn flush(&self) -> Result<()>;
    fn survey(&self) -> Result<Survey>;
    fn counters(&self) -> Snapshot;
    fn read_size(&self) -> u64;
    fn now(&self) -> u64;
}

struct LinearSession<E: Endpoint> {
    executor: Executor<E>,
    index: LinearTable<E>,
}

/// Opens the table of a record on an endpoint of its own.
pub(crate) fn open<E: Endpoint>(
    endpoint: Rc<E>,
    record: &TableRecord,
    sizes: ReadSizes,
) -> Result<Box<dyn Session>> {
    let executor = Executor::new(Rc::clone(&endpoint));
    let Scheme::Linear(layout) = record.scheme.clone();
    let index = executor.block_on(LinearTable::open(endpoint, table_at(record), layout, sizes))?;
    Ok(Box::new(LinearSession { executor, index }))
}

/// Runs something on the catalog with an endpoint that is made for it.
pub(crate) fn with_catalog<E: Endpoint, T>(
    endpoint: Rc<E>,
    work: impl AsyncFnOnce(Catalog<'_, E>) -> Result<T>,
) -> Result<T> {
    let executor = Executor::new(Rc::clone(&endpoint));
    executor.block_on(async { work(Catalog::new(&*endpoint)?).await })
}

fn found(outcome: FindOrPut) -> Found {
    match outcome {
        FindOrPut::Found(value) => Found::Already(value.to_vec()),
        FindOrPut::Inserted => Found::Inserted,
    }
}

impl<E: Endpoint> Session for LinearSession<E> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let value = self.executor.block_on(self.index.get(key))?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn get_all(&self, key: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut values = Vec::new();
        let all = self.index.get_all(key, |value| values.push(value.to_vec()));
        self.executor.block_on(all)?;
        Ok(values)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        Ok(self.executor.block_on(self.index.put(key, value))?)
    }

    fn find_or_put(&self, key: &[u8], value: &[u8]) -> Result<Found> {
        let outcome = self.executor.block_on(self.index.find_or_put(key, value))?;
        Ok(found(outcome))
    }

    fn update(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        Ok(self.executor.block_on(self.index.update(key, value))?)
    }

    fn remove(&self, key: &[u8]) -> Result<bool> {
        Ok(self.executor.block_on(self.index.remove(key))?)
    }

    fn get_many(&self, keys: &[&[u8]], done: AnswerEach<'_>) {
        let answer = |key, value: farslot_index::Result<Option<farslot_index::Value>>| match value {
            Ok(value) => done(key, Ok(value.as_deref())),
            Err(error) => done(key, Err(error.into())),
        };
        let all = self.index.get_many(keys.iter().copied(), answer);
        self.executor.block_on(all);
    }

    fn put_many(&self, records: &[(&[u8], &[u8])], done: &mut dyn FnMut(usize, Result<bool>)) {
        let answer =
            |record, new: farslot_index::Result<bool>| done(record, new.map_err(Into::into));
        let all = self.index.put_many(records.iter().copied(), answer);
        self.executor.block_on(all);
    }

    fn find_or_put_many(
        &self,
        records: &[(&[u8], &[u8])],
        done: &mut dyn FnMut(usize, Result<Found>),
    ) {
        let answer = |record, outcome: farslot_index::Result<FindOrPut>| {
            done(record, outcome.map(found).map_err(Into::into));
        };
        let all = self.index.find_or_put_many(records.iter().copied(), answer);
        self.executor.block_on(all);
    }

    fn update_many(&self, records: &[(&[u8], &[u8])], done: &mut dyn FnMut(usize, Result<bool>)) {
        let answer =
            |record, was: farslot_index::Result<bool>| done(record, was.map_err(Into::into));
        let all = self.index.update_many(records.iter().copied(), answer);
        self.executor.block_on(all);
    }

    fn get_all_many(&self, keys: &[&[u8]], done: &mut dyn FnMut(usize, Result<Vec<Vec<u8>>>)) {
        let answer = |key, values: farslot_index::Result<Vec<Vec<u8>>>| {
            done(key, values.map_err(Into::into));
        };
        let all = self.index.get_all_many(keys.iter().copied(), answer);
        self.executor.block_on(all);
    }

    fn remove_many(&self, keys: &[&[u8]], done: &mut dyn FnMut(usize, Result<bool>)) {
        let answer = |key, was: farslot_index::Result<bool>| done(key, was.map_err(Into::into));
        let all = self.index.remove_many(keys.iter().copied(), answer);
        self.executor.block_on(all);
    }

    fn scan(&self, cursor: Cursor, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<Option<Cursor>> {
        Ok(self.executor.block_on(self.index.scan(cursor, visit))?)
    }

    fn occupancy(&self) -> Result<Occupancy> {
        Ok(self.executor.block_on(self.index.occupancy())?)
    }

    fn flush(&self) -> Result<()> {
        Ok(self.executor.block_on(self.index.flush())?)
    }

    fn survey(&self) -> Result<Survey> {
        Ok(self.executor.block_on(self.index.survey())?)
    }

    fn counters(&self) -> Snapshot {
        self.executor.endpoint().core().counters.snapshot()
    }

    fn read_size(&self) -> u64 {
        self.index.read_size()
    }

    fn now(&self) -> u64 {
        self.executor.endpoint().now()
    }
}
