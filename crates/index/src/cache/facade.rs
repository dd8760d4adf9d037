//! The cache as an [`Index`].

use super::Cached;
use crate::{Cursor, FindOrPut, Index, Occupancy, Result, Value};
use farslot_fabric::Nanos;

impl<I: Index> Index for Cached<I> {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        match self.look(key) {
            Ok(answer) => Ok(answer),
            Err(fetch) => {
                let answer = self.index.get(key).await;
                self.keep(fetch, key, &answer);
                answer
            }
        }
    }

    async fn get_all(&self, key: &[u8], found: impl FnMut(&[u8])) -> Result<usize> {
        // What it tells is not kept, and may be newer than what is.
        let _telling = self.writing(key);
        self.index.get_all(key, found).await
    }

    async fn put(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let _writing = self.writing(key);
        self.index.put(key, value).await
    }

    async fn find_or_put(&self, key: &[u8], value: &[u8]) -> Result<FindOrPut> {
        let _writing = self.writing(key);
        self.index.find_or_put(key, value).await
    }

    async fn update(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let _writing = self.writing(key);
        self.index.update(key, value).await
    }

    async fn remove(&self, key: &[u8]) -> Result<bool> {
        let _writing = self.writing(key);
        self.index.remove(key).await
    }

    async fn scan(
        &self,
        cursor: Cursor,
        visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        self.index.scan(cursor, visit).await
    }

    async fn occupancy(&self) -> Result<Occupancy> {
        self.index.occupancy().await
    }

    async fn flush(&self) -> Result<()> {
        self.index.flush().await
    }

    fn now(&self) -> Nanos {
        self.index.now()
    }

    fn is_up(&self) -> bool {
        self.index.is_up()
    }

    fn is_immutable(&self) -> bool {
        self.index.is_immutable()
    }

    fn client_bytes(&self) -> u64 {
        self.index.client_bytes() + self.counts().bytes
    }

    /// Those that are not in the cache are one batch of the index.
    async fn get_many<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k [u8]>,
        mut done: impl FnMut(usize, Result<Option<Value>>),
    ) {
        if self.cache.is_none() {
            return self.index.get_many(keys, done).await;
        }
        let mut fetches = Vec::new();
        for (number, key) in keys.into_iter().enumerate() {
            match self.look(key) {
                Ok(answer) => done(number, Ok(answer)),
                Err(fetch) => fetches.push((number, key, fetch)),
            }
        }
        let keys: Vec<&[u8]> = fetches.iter().map(|(_, key, _)| *key).collect();
        let fetched = |missed: usize, answer| {
            let (number, key, fetch) = &mut fetches[missed];
            self.keep(fetch.take(), key, &answer);
            done(*number, answer);
        };
        self.index.get_many(keys, fetched).await;
    }

    async fn put_many<'k>(
        &self,
        records: impl IntoIterator<Item = (&'k [u8], &'k [u8])>,
        done: impl FnMut(usize, Result<bool>),
    ) {
        let records: Vec<_> = records.into_iter().collect();
        let done = self.writing_each(records.iter().map(|(key, _)| *key), done);
        self.index.put_many(records.iter().copied(), done).await;
    }

    async fn find_or_put_many<'k>(
        &self,
        records: impl IntoIterator<Item = (&'k [u8], &'k [u8])>,
        done: impl FnMut(usize, Result<FindOrPut>),
    ) {
        let records: Vec<_> = records.into_iter().collect();
        let done = self.writing_each(records.iter().map(|(key, _)| *key), done);
        let writes = self.index.find_or_put_many(records.iter().copied(), done);
        writes.await;
    }

    async fn update_many<'k>(
        &self,
        records: impl IntoIterator<Item = (&'k [u8], &'k [u8])>,
        done: impl FnMut(usize, Result<bool>),
    ) {
        let records: Vec<_> = records.into_iter().collect();
        let done = self.writing_each(records.iter().map(|(key, _)| *key), done);
        self.index.update_many(records.iter().copied(), done).await;
    }

    async fn get_all_many<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k [u8]>,
        done: impl FnMut(usize, Result<Vec<Vec<u8>>>),
    ) {
        // As in `get_all`.
        let keys: Vec<_> = keys.into_iter().collect();
        let done = self.writing_each(keys.iter().copied(), done);
        self.index.get_all_many(keys.iter().copied(), done).await;
    }

    async fn remove_many<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k [u8]>,
        done: impl FnMut(usize, Result<bool>),
    ) {
        let keys: Vec<_> = keys.into_iter().collect();
        let done = self.writing_each(keys.iter().copied(), done);
        self.index.remove_many(keys.iter().copied(), done).await;
    }
}
