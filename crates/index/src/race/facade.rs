//! The RACE table as an [`Index`].

use super::client::RaceTable;
use crate::{
    Cursor, FIND_OR_PUT, FindOrPut, GET, GET_ALL, Index, Occupancy, PUT, REMOVE, Result, SCAN,
    UPDATE, UPKEEP, Value,
};
use farslot_fabric::{Endpoint, EndpointExt, Nanos};

impl<E: Endpoint> Index for RaceTable<E> {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.endpoint.operation(GET, self.find(key)).await
    }

    async fn get_all(&self, key: &[u8], mut found: impl FnMut(&[u8])) -> Result<usize> {
        let value = self.endpoint.operation(GET_ALL, self.find(key)).await?;
        value.iter().for_each(|value| found(value));
        Ok(usize::from(value.is_some()))
    }

    async fn put(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let putting = self.beside_splits(self.put_record(key, value));
        self.endpoint.operation(PUT, putting).await
    }

    async fn find_or_put(&self, key: &[u8], value: &[u8]) -> Result<FindOrPut> {
        let putting = self.beside_splits(self.find_or_put_record(key, value));
        self.endpoint.operation(FIND_OR_PUT, putting).await
    }

    async fn update(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let updating = self.beside_splits(self.update_record(key, value));
        self.endpoint.operation(UPDATE, updating).await
    }

    async fn remove(&self, key: &[u8]) -> Result<bool> {
        let removing = self.beside_splits(self.remove_record(key));
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
        self.read_directory().await?;
        let heap = self.heap.place();
        let counted = self.counts.occupancy(&*self.endpoint, heap).await?;
        let slots = self.subtables() * self.layout.subtable_slots();
        Ok(Occupancy {
            used_slots: counted.used_slots.min(slots),
            slots,
            ..counted
        })
    }

    async fn flush(&self) -> Result<()> {
        let finishing = self.finish_splits();
        let finished = self.endpoint.operation(UPKEEP, finishing).await;
        let reported = self.report().await;
        self.heap.flush().await?;
        finished.and(reported)
    }

    fn client_bytes(&self) -> u64 {
        self.directory.borrow().bytes()
    }

    fn now(&self) -> Nanos {
        self.endpoint.now()
    }

    fn is_up(&self) -> bool {
        self.endpoint.is_up(self.table.node)
    }
}
