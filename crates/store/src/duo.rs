//! A CuckooDuo table behind a store: one client writes it as its owner, the others read it beside that one.

use crate::client::SchemeClient;
use crate::{Result, StoreError, Survey};
use farslot_fabric::{Endpoint, Nanos, RemoteAddr};
use farslot_index::duo::{DuoLayout, DuoReader, DuoTable};
use farslot_index::{Cursor, FindOrPut, Index, Occupancy, Result as Answer, Value};
use std::rc::Rc;

/// A CuckooDuo table as one thread's coroutines see it. A client becomes the owner with its first write; until then it
/// looks keys up as a reader, if the table is made for readers. Else only the owner can look keys up, so that a
/// client becomes it with its first operation.
pub(crate) struct DuoClient<E> {
    owner: DuoTable<E>,
    /// Of a table made for readers. Both have room for an index; what a client does not use is not touched.
    reader: Option<DuoReader<E>>,
}

impl<E: Endpoint> DuoClient<E> {
    pub(crate) fn open(endpoint: Rc<E>, at: RemoteAddr, layout: &DuoLayout) -> Result<Self> {
        let reader = match layout.published {
            true => Some(DuoReader::open(Rc::clone(&endpoint), at, layout.clone())?),
            false => None,
        };
        let owner = DuoTable::open(endpoint, at, layout.clone())?;
        Ok(Self { owner, reader })
    }

    /// The reader, unless this client is the owner: the owner's own index is the newer.
    fn as_reader(&self) -> Option<&DuoReader<E>> {
        self.reader.as_ref().filter(|_| !self.owner.is_owner())
    }
}

impl<E: Endpoint> Index for DuoClient<E> {
    async fn get(&self, key: &[u8]) -> Answer<Option<Value>> {
        match self.as_reader() {
            Some(reader) => reader.get(key).await,
            None => self.owner.get(key).await,
        }
    }

    async fn get_all(&self, key: &[u8], mut found: impl FnMut(&[u8])) -> Answer<usize> {
        let value = self.get(key).await?;
        value.iter().for_each(|value| found(value));
        Ok(usize::from(value.is_some()))
    }

    async fn put(&self, key: &[u8], value: &[u8]) -> Answer<bool> {
        self.owner.put(key, value).await
    }

    async fn find_or_put(&self, key: &[u8], value: &[u8]) -> Answer<FindOrPut> {
        self.owner.find_or_put(key, value).await
    }

    async fn update(&self, key: &[u8], value: &[u8]) -> Answer<bool> {
        self.owner.update(key, value).await
    }

    async fn remove(&self, key: &[u8]) -> Answer<bool> {
        self.owner.remove(key).await
    }

    async fn scan(
        &self,
        cursor: Cursor,
        visit: impl FnMut(&[u8], &[u8]),
    ) -> Answer<Option<Cursor>> {
        match self.as_reader() {
            Some(reader) => reader.scan(cursor, visit).await,
            None => self.owner.scan(cursor, visit).await,
        }
    }

    async fn occupancy(&self) -> Answer<Occupancy> {
        self.owner.occupancy().await
    }

    async fn flush(&self) -> Answer<()> {
        self.owner.flush().await
    }

    fn now(&self) -> Nanos {
        self.owner.now()
    }

    fn is_up(&self) -> bool {
        self.owner.is_up()
    }

    fn client_bytes(&self) -> u64 {
        // Of the two a client uses one at a time.
        let copy = self.reader.as_ref().map_or(0, DuoReader::copy_bytes);
        self.owner.client_bytes().max(copy as u64)
    }
}

impl<E: Endpoint> SchemeClient for DuoClient<E> {
    const WRITES_WAIT: bool = true;
    /// The owner's for those that change the same buckets, or make the index.
    const LOOKUPS_WAIT: bool = true;

    fn read_size(&self) -> u64 {
        1
    }

    async fn survey(&self) -> Result<Survey> {
        Ok(Survey::Duo(self.owner.survey().await?))
    }

    async fn writer(&self) -> Result<Option<u64>> {
        Ok(self.owner.owner().await?)
    }

    async fn start_writing(&self) -> Result<()> {
        Ok(self.owner.start().await?)
    }

    async fn take_over(&self) -> Result<()> {
        Ok(self.owner.take_over().await?)
    }

    async fn build(&self, _: &[(&[u8], &[u8])]) -> Result<()> {
        Err(StoreError::NotBuildable { scheme: "duo" })
    }

    async fn resign(&self) -> Result<()> {
        Ok(self.owner.resign().await?)
    }
}
