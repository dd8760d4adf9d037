//! The CuckooDuo table as an [`Index`].

use super::insert::{Mode, Written};
use super::state::{DuoTable, Stamps};
use crate::{
    BATCH_WIDTH, Cursor, FIND_OR_PUT, FindOrPut, GET, GET_ALL, Index, Occupancy, PUT, REMOVE,
    Result, SCAN, UPDATE, UPKEEP, Value,
};
use farslot_fabric::{Endpoint, EndpointExt, Nanos, window};

impl<E: Endpoint> Index for DuoTable<E> {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.endpoint.operation(GET, self.find(key)).await
    }

    async fn get_all(&self, key: &[u8], mut found: impl FnMut(&[u8])) -> Result<usize> {
        let value = self.endpoint.operation(GET_ALL, self.find(key)).await?;
        value.iter().for_each(|value| found(value));
        Ok(usize::from(value.is_some()))
    }

    async fn put(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let write = self.write(key, value, Mode::Put);
        let written = self.endpoint.operation(PUT, write).await?;
        Ok(matches!(written, Written::Inserted))
    }

    async fn find_or_put(&self, key: &[u8], value: &[u8]) -> Result<FindOrPut> {
        let write = self.write(key, value, Mode::FindOrPut);
        Ok(match self.endpoint.operation(FIND_OR_PUT, write).await? {
            Written::Found(value) => FindOrPut::Found(value),
            _ => FindOrPut::Inserted,
        })
    }

    async fn update(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let update = self.update_record(key, value);
        self.endpoint.operation(UPDATE, update).await
    }

    async fn remove(&self, key: &[u8]) -> Result<bool> {
        let removing = self.remove_record(key);
        self.endpoint.operation(REMOVE, removing).await
    }

    async fn scan(
        &self,
        cursor: Cursor,
        visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        let scanning = self.scan_piece(cursor, visit);
        self.endpoint.operation(SCAN, scanning).await
    }

    async fn occupancy(&self) -> Result<Occupancy> {
        let heap = self.layout.heap_place(self.table);
        if !self.is_owner() {
            // Whoever is the owner may have let it grow.
            let counting = self.endpoint.operation(UPKEEP, self.slots_counted());
            self.counts.set_slots(counting.await?);
        }
        self.counts.occupancy(&*self.endpoint, heap).await
    }

    async fn flush(&self) -> Result<()> {
        self.report().await?;
        match &self.heap {
            Some(heap) => heap.flush().await,
            None => Ok(()),
        }
    }

    fn client_bytes(&self) -> u64 {
        let stamps = self.stamps.as_ref().map_or(0, Stamps::bytes);
        (self.index.borrow().bytes() + stamps) as u64
    }

    async fn get_many<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k [u8]>,
        done: impl FnMut(usize, Result<Option<Value>>),
    ) {
        if self.layout.has_heap() {
            // What a slot names is a READ more, which lanes do not know.
            window(BATCH_WIDTH, keys.into_iter().map(|key| self.get(key)), done).await;
        } else {
            self.get_in_lanes(keys, done).await;
        }
    }

    fn now(&self) -> Nanos {
        self.endpoint.now()
    }

    fn is_up(&self) -> bool {
        self.endpoint.is_up(self.table.node)
    }
}
