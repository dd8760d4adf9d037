//! The cuckoo table as an [`Index`].

use super::client::CuckooTable;
use super::insert::{Mode, Written};
use crate::{
    Cursor, FIND_OR_PUT, FindOrPut, GET, GET_ALL, Index, Occupancy, PUT, REMOVE, Result, SCAN,
    UPDATE, Value,
};
use farslot_fabric::{Endpoint, EndpointExt, Nanos};

impl<E: Endpoint> Index for CuckooTable<E> {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.endpoint.operation(GET, self.find(key)).await
    }

    async fn get_all(&self, key: &[u8], found: impl FnMut(&[u8])) -> Result<usize> {
        let finding = self.find_all(key, found);
        self.endpoint.operation(GET_ALL, finding).await
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
        let write = self.write(key, value, Mode::Update);
        let written = self.endpoint.operation(UPDATE, write).await?;
        Ok(matches!(written, Written::Replaced))
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
        let heap = self.layout.map().heap_place(self.table);
        self.counts.occupancy(&*self.endpoint, heap).await
    }

    async fn flush(&self) -> Result<()> {
        let reported = self.report().await;
        if let Some(heap) = &self.heap {
            heap.flush().await?;
        }
        reported
    }

    fn now(&self) -> Nanos {
        self.endpoint.now()
    }

    fn is_up(&self) -> bool {
        self.endpoint.is_up(self.table.node)
    }

    fn is_immutable(&self) -> bool {
        self.is_sealed()
    }

    fn client_bytes(&self) -> u64 {
        match self.predetermines {
            true => self.layout.predetermination_bytes(),
            false => 0,
        }
    }
}
