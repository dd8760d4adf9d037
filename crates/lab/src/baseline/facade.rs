//! A table for comparison as an [`Index`].

use super::client::BaselineTable;
use super::operations::{Mode, Written};
use super::placing::Placing;
use farslot::fabric::{Endpoint, EndpointExt, Nanos};
use farslot::index::{
    Cursor, FIND_OR_PUT, FindOrPut, GET, GET_ALL, Index, Occupancy, PUT, REMOVE, Result, SCAN,
    UPDATE, Value,
};
use std::rc::Rc;

impl<E: Endpoint, P: Placing> Index for BaselineTable<E, P> {
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
        let counts = Rc::clone(&self.counts.borrow());
        counts.occupancy(&*self.endpoint).await
    }

    async fn flush(&self) -> Result<()> {
        self.report().await
    }

    fn now(&self) -> Nanos {
        self.endpoint.now()
    }

    fn is_up(&self) -> bool {
        self.endpoint.is_up(self.place.get().node)
    }
}
