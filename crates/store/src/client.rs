//! The clients of tables: what a session asks of a table, whatever its scheme and however many nodes it is on.

use crate::{Cursor, Found, Occupancy, PartitionReport, Result, StoreError, Survey};
use farslot_fabric::Endpoint;
use farslot_index::cache::{CacheCounts, Cached};
use farslot_index::cuckoo::CuckooTable;
use farslot_index::linear::LinearTable;
use farslot_index::race::RaceTable;
use farslot_index::sealed::SealedTable;
use farslot_index::{FindOrPut, Index, IndexError, Result as Answer, Value, Write, Written};

/// A key and its value.
type Pair<'r> = (&'r [u8], &'r [u8]);

/// What a scheme's client does beside what every index does. A table that any number of clients may
/// write needs no writer: the defaults are for it.
pub(crate) trait SchemeClient: Index {
    /// Whether one write of a batch may wait until others have ended.
    const WRITES_WAIT: bool = false;

    /// Whether one lookup of a batch may wait until others have ended, or a write for one of them.
    const LOOKUPS_WAIT: bool = false;

    /// Slots that one READ of a lookup fetches.
    fn read_size(&self) -> u64;

    /// Looks at every slot.
    async fn survey(&self) -> Result<Survey>;

    /// The writer that the table has, where it admits one.
    async fn writer(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Becomes the writer, where the table admits one.
    async fn start_writing(&self) -> Result<()> {
        Ok(())
    }

    /// Becomes the writer in place of one that is dead.
    async fn take_over(&self) -> Result<()> {
        Ok(())
    }

    /// Whether the table can never change again.
    fn is_sealed(&self) -> bool {
        false
    }

    /// Fills the empty table with all its records and seals it, where the scheme can.
    async fn build(&self, records: &[Pair<'_>]) -> Result<()>;

    /// Is the writer no longer.
    async fn resign(&self) -> Result<()> {
        Ok(())
    }

    /// What its cache of answers has done.
    fn cache_counts(&self) -> CacheCounts {
        CacheCounts::default()
    }
}

impl<E: Endpoint> SchemeClient for LinearTable<E> {
    fn read_size(&self) -> u64 {
        Self::read_size(self)
    }

    async fn survey(&self) -> Result<Survey> {
        Ok(Survey::Linear(Self::survey(self).await?))
    }

    async fn build(&self, _: &[Pair<'_>]) -> Result<()> {
        Err(StoreError::NotBuildable { scheme: "linear" })
    }
}

impl<E: Endpoint> SchemeClient for CuckooTable<E> {
    const WRITES_WAIT: bool = true;

    fn read_size(&self) -> u64 {
        u64::from(self.layout().bucket_slots)
    }

    async fn survey(&self) -> Result<Survey> {
        Ok(Survey::Cuckoo(Self::survey(self).await?))
    }

    async fn writer(&self) -> Result<Option<u64>> {
        Ok(Self::writer(self).await?)
    }

    async fn start_writing(&self) -> Result<()> {
        Ok(Self::start_writing(self).await?)
    }

    async fn take_over(&self) -> Result<()> {
        Ok(Self::take_over(self).await?)
    }

    fn is_sealed(&self) -> bool {
        Self::is_sealed(self)
    }

    async fn build(&self, records: &[Pair<'_>]) -> Result<()> {
        Ok(Self::build(self, records).await?)
    }

    async fn resign(&self) -> Result<()> {
        Ok(Self::resign(self).await?)
    }
}

impl<E: Endpoint> SchemeClient for RaceTable<E> {
    /// For the one that splits the same subtable.
    const WRITES_WAIT: bool = true;

    fn read_size(&self) -> u64 {
        2 * u64::from(self.layout().bucket_slots)
    }

    async fn survey(&self) -> Result<Survey> {
        Ok(Survey::Race(Self::survey(self).await?))
    }

    async fn build(&self, _: &[Pair<'_>]) -> Result<()> {
        Err(StoreError::NotBuildable { scheme: "race" })
    }
}

impl<E: Endpoint> SchemeClient for SealedTable<E> {
    fn read_size(&self) -> u64 {
        Self::read_size(self)
    }

    async fn survey(&self) -> Result<Survey> {
        Ok(Survey::Sealed(Index::occupancy(self).await?))
    }

    async fn start_writing(&self) -> Result<()> {
        let operation = "writing";
        Err(IndexError::Sealed { operation }.into())
    }

    fn is_sealed(&self) -> bool {
        true
    }

    async fn build(&self, records: &[Pair<'_>]) -> Result<()> {
        Ok(Self::build(self, records).await?)
    }
}

/// A client with a cache is what it is without. What is asked of it here goes to the table; one that is built is no
/// longer what was known of it.
impl<C: SchemeClient> SchemeClient for Cached<C> {
    const WRITES_WAIT: bool = <C as SchemeClient>::WRITES_WAIT;
    const LOOKUPS_WAIT: bool = <C as SchemeClient>::LOOKUPS_WAIT;

    fn read_size(&self) -> u64 {
        SchemeClient::read_size(self.index())
    }

    async fn survey(&self) -> Result<Survey> {
        SchemeClient::survey(self.index()).await
    }

    async fn writer(&self) -> Result<Option<u64>> {
        SchemeClient::writer(self.index()).await
    }

    async fn start_writing(&self) -> Result<()> {
        SchemeClient::start_writing(self.index()).await
    }

    async fn take_over(&self) -> Result<()> {
        SchemeClient::take_over(self.index()).await
    }

    fn is_sealed(&self) -> bool {
        SchemeClient::is_sealed(self.index())
    }

    async fn build(&self, records: &[Pair<'_>]) -> Result<()> {
        let built = SchemeClient::build(self.index(), records).await;
        self.clear();
        built
    }

    async fn resign(&self) -> Result<()> {
        SchemeClient::resign(self.index()).await
    }

    fn cache_counts(&self) -> CacheCounts {
        self.counts()
    }
}

/// A table as one thread's coroutines see it, on one node or on several. Its operations are those of
/// [`Table`](crate::Table), where each is described.
pub(crate) trait Client {
    /// Whether one write of a batch may wait until others have ended.
    const WRITES_WAIT: bool;

    /// Whether one lookup of a batch may wait until others have ended, or a write for one of them.
    const LOOKUPS_WAIT: bool;

    async fn get(&self, key: &[u8]) -> Result<Option<Value>>;
    async fn get_all(&self, key: &[u8]) -> Result<Vec<Vec<u8>>>;
    async fn put(&self, key: &[u8], value: &[u8]) -> Result<bool>;
    async fn find_or_put(&self, key: &[u8], value: &[u8]) -> Result<Found>;
    async fn update(&self, key: &[u8], value: &[u8]) -> Result<bool>;
    async fn remove(&self, key: &[u8]) -> Result<bool>;

    async fn get_many(&self, keys: &[&[u8]], done: impl FnMut(usize, Result<Option<Value>>));
    async fn get_all_many(&self, keys: &[&[u8]], done: impl FnMut(usize, Result<Vec<Vec<u8>>>));
    async fn put_many(&self, records: &[Pair<'_>], done: impl FnMut(usize, Result<bool>));
    async fn find_or_put_many(&self, records: &[Pair<'_>], done: impl FnMut(usize, Result<Found>));
    async fn update_many(&self, records: &[Pair<'_>], done: impl FnMut(usize, Result<bool>));
    async fn remove_many(&self, keys: &[&[u8]], done: impl FnMut(usize, Result<bool>));
    async fn write_many(&self, writes: &[Write<'_>], done: impl FnMut(usize, Result<Written>));

    async fn scan(&self, cursor: Cursor, visit: impl FnMut(&[u8], &[u8]))
    -> Result<Option<Cursor>>;
    async fn occupancy(&self) -> Result<Occupancy>;
    async fn survey(&self) -> Result<Survey>;
    async fn flush(&self) -> Result<()>;

    async fn writer(&self) -> Result<Option<u64>>;
    async fn start_writing(&self) -> Result<()>;
    async fn take_over(&self) -> Result<()>;
    async fn resign(&self) -> Result<()>;
    async fn build(&self, records: &[Pair<'_>]) -> Result<()>;

    /// What is on each node, of a table that is spread over several.
    async fn partitions(&self) -> Vec<PartitionReport>;

    fn is_sealed(&self) -> bool;
    fn read_size(&self) -> u64;
    fn cache_counts(&self) -> CacheCounts;
    fn client_bytes(&self) -> u64;
}

pub(crate) fn found(outcome: FindOrPut) -> Found {
    match outcome {
        FindOrPut::Found(value) => Found::Already(value.to_vec()),
        FindOrPut::Inserted => Found::Inserted,
    }
}

/// Passes on the answers of an index.
fn answering<T>(mut done: impl FnMut(usize, Result<T>)) -> impl FnMut(usize, Answer<T>) {
    move |number, answer| done(number, answer.map_err(StoreError::from))
}

/// A table on one node.
impl<C: SchemeClient> Client for C {
    const WRITES_WAIT: bool = <C as SchemeClient>::WRITES_WAIT;
    const LOOKUPS_WAIT: bool = <C as SchemeClient>::LOOKUPS_WAIT;

    #[inline]
    async fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        Ok(Index::get(self, key).await?)
    }

    async fn get_all(&self, key: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut values = Vec::new();
        Index::get_all(self, key, |value| values.push(value.to_vec())).await?;
        Ok(values)
    }

    async fn put(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        Ok(Index::put(self, key, value).await?)
    }

    async fn find_or_put(&self, key: &[u8], value: &[u8]) -> Result<Found> {
        Ok(found(Index::find_or_put(self, key, value).await?))
    }

    async fn update(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        Ok(Index::update(self, key, value).await?)
    }

    async fn remove(&self, key: &[u8]) -> Result<bool> {
        Ok(Index::remove(self, key).await?)
    }

    async fn get_many(&self, keys: &[&[u8]], done: impl FnMut(usize, Result<Option<Value>>)) {
        Index::get_many(self, keys.iter().copied(), answering(done)).await;
    }

    async fn get_all_many(&self, keys: &[&[u8]], done: impl FnMut(usize, Result<Vec<Vec<u8>>>)) {
        Index::get_all_many(self, keys.iter().copied(), answering(done)).await;
    }

    async fn put_many(&self, records: &[Pair<'_>], done: impl FnMut(usize, Result<bool>)) {
        Index::put_many(self, records.iter().copied(), answering(done)).await;
    }

    async fn find_or_put_many(
        &self,
        records: &[Pair<'_>],
        mut done: impl FnMut(usize, Result<Found>),
    ) {
        let done = answering(|number, outcome: Result<FindOrPut>| done(number, outcome.map(found)));
        Index::find_or_put_many(self, records.iter().copied(), done).await;
    }

    async fn update_many(&self, records: &[Pair<'_>], done: impl FnMut(usize, Result<bool>)) {
        Index::update_many(self, records.iter().copied(), answering(done)).await;
    }

    async fn remove_many(&self, keys: &[&[u8]], done: impl FnMut(usize, Result<bool>)) {
        Index::remove_many(self, keys.iter().copied(), answering(done)).await;
    }

    async fn write_many(&self, writes: &[Write<'_>], done: impl FnMut(usize, Result<Written>)) {
        Index::write_many(self, writes.iter().copied(), answering(done)).await;
    }

    async fn scan(
        &self,
        cursor: Cursor,
        visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        let next = Index::scan(self, cursor.place, visit).await?;
        Ok(next.map(|place| Cursor::of(cursor.partition, place)))
    }

    async fn occupancy(&self) -> Result<Occupancy> {
        Ok(Index::occupancy(self).await?)
    }

    async fn survey(&self) -> Result<Survey> {
        SchemeClient::survey(self).await
    }

    async fn flush(&self) -> Result<()> {
        Ok(Index::flush(self).await?)
    }

    async fn writer(&self) -> Result<Option<u64>> {
        SchemeClient::writer(self).await
    }

    async fn start_writing(&self) -> Result<()> {
        SchemeClient::start_writing(self).await
    }

    async fn take_over(&self) -> Result<()> {
        SchemeClient::take_over(self).await
    }

    async fn resign(&self) -> Result<()> {
        SchemeClient::resign(self).await
    }

    async fn build(&self, records: &[Pair<'_>]) -> Result<()> {
        SchemeClient::build(self, records).await
    }

    async fn partitions(&self) -> Vec<PartitionReport> {
        Vec::new()
    }

    fn is_sealed(&self) -> bool {
        SchemeClient::is_sealed(self)
    }

    fn read_size(&self) -> u64 {
        SchemeClient::read_size(self)
    }

    fn cache_counts(&self) -> CacheCounts {
        SchemeClient::cache_counts(self)
    }

    fn client_bytes(&self) -> u64 {
        Index::client_bytes(self)
    }
}
