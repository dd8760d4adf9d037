//! The sealed table as an [`Index`]: what reads is answered, what writes is refused.

use super::client::SealedTable;
use crate::{Cursor, FindOrPut, Index, IndexError, Occupancy, Result, Value};
use farslot_fabric::{Endpoint, Nanos};

fn sealed<T>(operation: &'static str) -> Result<T> {
    Err(IndexError::Sealed { operation })
}

impl<E: Endpoint> Index for SealedTable<E> {
    #[inline]
    async fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.get_counted(key).await
    }

    async fn get_all(&self, key: &[u8], found: impl FnMut(&[u8])) -> Result<usize> {
        self.get_all_counted(key, found).await
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
        self.scan_counted(cursor, visit).await
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
}
