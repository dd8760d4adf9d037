//! What [`Index`](crate::Index) asks of a table for comparison.

use super::client::BaselineTable;
use super::operations::{Mode, Written};
use super::placing::Placing;
use farslot::fabric::{Endpoint, NodeId};
use farslot::index::{ClientState, Cursor, Occupancy, Result, SchemeClient, Value};
use std::rc::Rc;

impl<E: Endpoint, P: Placing> SchemeClient for BaselineTable<E, P> {
    type Endpoint = E;

    const NAME: &'static str = "baseline";

    fn endpoint(&self) -> &E {
        &self.endpoint
    }

    fn node(&self) -> NodeId {
        self.place.get().node
    }

    async fn find(&self, key: &[u8]) -> Result<Option<Value>> {
        Self::find(self, key).await
    }

    async fn put_record(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let written = self.write(key, value, Mode::Put).await?;
        Ok(matches!(written, Written::Inserted))
    }

    async fn find_or_put_record(&self, key: &[u8], value: &[u8]) -> Result<Option<Value>> {
        Ok(match self.write(key, value, Mode::FindOrPut).await? {
            Written::Found(value) => Some(value),
            _ => None,
        })
    }

    async fn update_record(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.update_record(key, value).await
    }

    async fn remove_records(&self, key: &[u8]) -> Result<bool> {
        self.remove_record(key).await
    }

    async fn scan_piece(
        &self,
        cursor: Cursor,
        most: u64,
        visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        Self::scan_piece(self, cursor, most, visit).await
    }

    async fn read_occupancy(&self) -> Result<Occupancy> {
        let counts = Rc::clone(&self.counts.borrow());
        counts.occupancy(&*self.endpoint).await
    }

    async fn report_all(&self) -> Result<()> {
        self.report().await
    }

    fn known(&self) -> ClientState {
        ClientState {
            read_size: 1,
            ..ClientState::default()
        }
    }
}
