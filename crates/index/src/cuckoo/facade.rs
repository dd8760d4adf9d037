//! The cuckoo table as an [`Index`].

use super::client::CuckooTable;
use crate::{Cursor, FindOrPut, Index, Occupancy, Result, Value};
use farslot_fabric::{Endpoint, Nanos};

impl<E: Endpoint> Index for CuckooTable<E> {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.get_counted(key).await
    }

    async fn get_all(&self, key: &[u8], found: impl FnMut(&[u8])) -> Result<usize> {
        self.get_all_counted(key, found).await
    }

    async fn put(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.put_counted(key, value).await
    }

    async fn find_or_put(&self, key: &[u8], value: &[u8]) -> Result<FindOrPut> {
        self.find_or_put_counted(key, value).await
    }

    async fn update(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.update_counted(key, value).await
    }

    async fn remove(&self, key: &[u8]) -> Result<bool> {
        self.remove_counted(key).await
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
        let reported = self.report().await;
        if let Some(heap) = &self.heap {
            heap.flush().await?;
        }
        reported
    }

    fn now(&self) -> Nanos {
        self.endpoint.now()
    }
}
