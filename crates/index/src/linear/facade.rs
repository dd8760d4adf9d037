//! The linear table as an [`Index`].

use super::client::LinearTable;
use crate::step;
use crate::{
    Cursor, FIND_OR_PUT, FindOrPut, GET, GET_ALL, Index, Occupancy, PUT, REMOVE, Result, SCAN,
    UPDATE, Value,
};
use farslot_fabric::{Endpoint, EndpointExt, Nanos};

impl<E: Endpoint> Index for LinearTable<E> {
    #[inline]
    async fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        step::get(self, GET, key).await
    }

    async fn get_all(&self, key: &[u8], found: impl FnMut(&[u8])) -> Result<usize> {
        let finding = self.find_all(key, found);
        self.endpoint.operation(GET_ALL, finding).await
    }

    async fn put(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let putting = self.put_record(key, value);
        self.endpoint.operation(PUT, putting).await
    }

    async fn find_or_put(&self, key: &[u8], value: &[u8]) -> Result<FindOrPut> {
        let putting = self.find_or_put_record(key, value);
        self.endpoint.operation(FIND_OR_PUT, putting).await
    }

    async fn update(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let updating = self.update_record(key, value);
        self.endpoint.operation(UPDATE, updating).await
    }

    async fn remove(&self, key: &[u8]) -> Result<bool> {
        let removing = self.remove_records(key);
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

    async fn get_many<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k [u8]>,
        done: impl FnMut(usize, Result<Option<Value>>),
    ) {
        step::get_many(self, keys, done).await;
    }

    fn now(&self) -> Nanos {
        self.endpoint.now()
    }

    fn is_up(&self) -> bool {
        self.endpoint.is_up(self.table.node)
    }

    fn client_bytes(&self) -> u64 {
        let of_clusters = self.hints.as_ref();
        let of_clusters = of_clusters.map_or(0, |hints| hints.borrow().most_bytes());
        let of_records = self.records.as_ref();
        of_clusters + of_records.map_or(0, |hints| hints.most_bytes())
    }
}
