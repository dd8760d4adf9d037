//! The sealed table as an [`Index`]: what reads is answered, what writes is refused.

use super::client::SealedTable;
use crate::{Cursor, FindOrPut, GET, GET_ALL, Index, IndexError, Occupancy, Result, SCAN, Value};
use farslot_fabric::{Endpoint, EndpointExt, Nanos};

fn sealed<T>(operation: &'static str) -> Result<T> {
    Err(IndexError::Sealed { operation })
}

impl<E: Endpoint> Index for SealedTable<E> {
    #[inline]
    async fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.endpoint.operation(GET, self.find(key)).await
    }

    async fn get_all(&self, key: &[u8], found: impl FnMut(&[u8])) -> Result<usize> {
        let finding = self.find_all(key, found);
        self.endpoint.operation(GET_ALL, finding).await
    }

    async fn put(&self, _: &[u8], _: &[u8]) -> Result<bool> {
        sealed("put")
    }

    async fn find_or_put(&self, _: &[u8], _: &[u8]) -> Result<FindOrPut> {
        sealed("find_or_put")
    }

    async fn update(&self, _: &[u8], _: &[u8]) -> Result<bool> {
        sealed("update")
    }

    async fn remove(&self, _: &[u8]) -> Result<bool> {
        sealed("remove")
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
        self.read_occupancy().await
    }

    async fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn now(&self) -> Nanos {
        self.endpoint().now()
    }

    fn is_up(&self) -> bool {
        self.endpoint.is_up(self.table.node)
    }

    fn is_immutable(&self) -> bool {
        true
    }
}
