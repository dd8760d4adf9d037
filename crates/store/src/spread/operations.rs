//! The table as a session knows it: each operation on the partition of its key.

use super::Spread;
use super::opening::Opener;
use crate::client::{Client, SchemeClient};
use crate::{Cursor, Found, Occupancy, PartitionReport, Result, StoreError, Survey};
use farslot_fabric::Endpoint;
use farslot_index::cache::CacheCounts;
use farslot_index::{Value, Write, Written};

type Pair<'r> = (&'r [u8], &'r [u8]);

/// The answer of a partition that is empty to a lookup: nothing.
fn nothing<T: Default>(_: StoreError) -> Result<T> {
    Ok(T::default())
}

impl<E: Endpoint, O: Opener<E>> Client for Spread<E, O> {
    const WRITES_WAIT: bool = <O::Client as SchemeClient>::WRITES_WAIT;
    const LOOKUPS_WAIT: bool = <O::Client as SchemeClient>::LOOKUPS_WAIT;

    async fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        let partition = self.partition_of(key);
        self.on(partition, nothing, async |client| {
            Client::get(client, key).await
        })
        .await
    }

    async fn get_all(&self, key: &[u8]) -> Result<Vec<Vec<u8>>> {
        let partition = self.partition_of(key);
        self.on(partition, nothing, async |client| {
            Client::get_all(client, key).await
        })
        .await
    }

    async fn put(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let partition = self.partition_of(key);
        self.on(partition, Err, async |client| {
            Client::put(client, key, value).await
        })
        .await
    }

    async fn find_or_put(&self, key: &[u8], value: &[u8]) -> Result<Found> {
        let partition = self.partition_of(key);
        self.on(partition, Err, async |client| {
            Client::find_or_put(client, key, value).await
        })
        .await
    }

    async fn update(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let partition = self.partition_of(key);
        self.on(partition, Err, async |client| {
            Client::update(client, key, value).await
        })
        .await
    }

    async fn remove(&self, key: &[u8]) -> Result<bool> {
        let partition = self.partition_of(key);
        self.on(partition, Err, async |client| {
            Client::remove(client, key).await
        })
        .await
    }

    async fn get_many(&self, keys: &[&[u8]], done: impl FnMut(usize, Result<Option<Value>>)) {
        self.batch(keys, nothing, done, async |client, share, done| {
            Client::get_many(client, share, done).await;
        })
        .await;
    }

    async fn get_all_many(&self, keys: &[&[u8]], done: impl FnMut(usize, Result<Vec<Vec<u8>>>)) {
        self.batch(keys, nothing, done, async |client, share, done| {
            Client::get_all_many(client, share, done).await;
        })
        .await;
    }

    async fn put_many(&self, records: &[Pair<'_>], done: impl FnMut(usize, Result<bool>)) {
        self.batch(records, Err, done, async |client, share, done| {
            Client::put_many(client, share, done).await;
        })
        .await;
    }

    async fn find_or_put_many(&self, records: &[Pair<'_>], done: impl FnMut(usize, Result<Found>)) {
        self.batch(records, Err, done, async |client, share, done| {
            Client::find_or_put_many(client, share, done).await;
        })
        .await;
    }

    async fn update_many(&self, records: &[Pair<'_>], done: impl FnMut(usize, Result<bool>)) {
        self.batch(records, Err, done, async |client, share, done| {
            Client::update_many(client, share, done).await;
        })
        .await;
    }

    async fn remove_many(&self, keys: &[&[u8]], done: impl FnMut(usize, Result<bool>)) {
        self.batch(keys, Err, done, async |client, share, done| {
            Client::remove_many(client, share, done).await;
        })
        .await;
    }

    async fn write_many(&self, writes: &[Write<'_>], done: impl FnMut(usize, Result<Written>)) {
        self.batch(writes, Err, done, async |client, share, done| {
            Client::write_many(client, share, done).await;
        })
        .await;
    }

    async fn scan(
        &self,
        cursor: Cursor,
        visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        self.scan_on(cursor, visit).await
    }

    async fn occupancy(&self) -> Result<Occupancy> {
        self.occupancy_of_all().await
    }

    async fn survey(&self) -> Result<Survey> {
        self.survey_all().await
    }

    async fn flush(&self) -> Result<()> {
        self.flush_all().await
    }

    async fn writer(&self) -> Result<Option<u64>> {
        self.any_writer().await
    }

    async fn start_writing(&self) -> Result<()> {
        self.start_writing_all().await
    }

    async fn take_over(&self) -> Result<()> {
        self.take_over_all().await
    }

    async fn resign(&self) -> Result<()> {
        self.resign_all().await
    }

    async fn build(&self, records: &[Pair<'_>]) -> Result<()> {
        self.build_all(records).await
    }

    async fn partitions(&self) -> Vec<PartitionReport> {
        self.report_all().await
    }

    fn cache_counts(&self) -> CacheCounts {
        let mut sum = CacheCounts::default();
        self.open_parts()
            .for_each(|held| sum += Client::cache_counts(&*held.client));
        sum
    }

    fn client_bytes(&self) -> u64 {
        let bytes = self.open_parts();
        bytes.map(|held| Client::client_bytes(&*held.client)).sum()
    }

    /// Whether all partitions that were reached are.
    fn is_sealed(&self) -> bool {
        let mut open = self.open_parts().peekable();
        open.peek().is_some() && open.all(|held| Client::is_sealed(&*held.client))
    }

    fn read_size(&self) -> u64 {
        let sizes = self
            .open_parts()
            .map(|held| Client::read_size(&*held.client));
        sizes.max().unwrap_or(0)
    }
}
