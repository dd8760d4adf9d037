//! What [`Index`](crate::Index) asks of a table for comparison.

use super::client::BaselineTable;
use super::operations::{Mode, RecordEffect};
use super::placing::RoomPlanner;
use farslot::fabric::{Endpoint, NodeId};
use farslot::index::{
    ClientState, Cursor, Occupancy, Operation, Outcome, Result, SchemeClient, Value,
};
use std::rc::Rc;

impl<E: Endpoint, P: RoomPlanner> SchemeClient for BaselineTable<E, P> {
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

    async fn write(&self, operation: Operation<'_>) -> Result<Outcome> {
        Ok(match operation {
            Operation::Put(key, value) => {
                let written = self.write_value(key, value, Mode::Put).await?;
                Outcome::Changed(matches!(written, RecordEffect::Inserted))
            }
            Operation::FindOrPut(key, value) => {
                match self.write_value(key, value, Mode::FindOrPut).await? {
                    RecordEffect::Found(value) => Outcome::Value(Some(value)),
                    _ => Outcome::Value(None),
                }
            }
            Operation::Update(key, value) => {
                Outcome::Changed(self.update_record(key, value).await?)
            }
            Operation::Remove(key) => Outcome::Changed(self.remove_record(key).await?),
            _ => return Err(Self::not_atomic()),
        })
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
