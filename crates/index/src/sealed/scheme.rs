//! What [`Index`](crate::Index) asks of a sealed table: what reads is answered, what writes is
//! refused.

use super::table::SealedTable;
use crate::answers::Got;
use crate::index::AtOnce;
use crate::step;
use crate::{
    Answers, ClientState, Cursor, IndexError, Occupancy, Operation, Outcome, Record, Result,
    SchemeClient, SchemeKind, Value, WriterChange,
};
use farslot_fabric::{Endpoint, NodeId};

fn sealed<T>(operation: &'static str) -> Result<T> {
    Err(IndexError::Sealed { operation })
}

impl<E: Endpoint> SchemeClient for SealedTable<E> {
    type Endpoint = E;

    const NAME: &'static str = SchemeKind::Sealed.name();

    #[inline]
    fn endpoint(&self) -> &E {
        &self.client().endpoint
    }

    fn node(&self) -> NodeId {
        self.client().table.node
    }

    #[inline]
    async fn find(&self, key: &[u8]) -> Result<Option<Value>> {
        match self.exact() {
            Some(exact) => step::run(exact, key).await,
            None => step::run(self.client(), key).await,
        }
    }

    #[inline]
    fn prefetch_slots(&self, key: &[u8]) -> bool {
        match self.exact() {
            Some(exact) => step::prefetch(exact, key),
            None => step::prefetch(self.client(), key),
        }
    }

    #[inline]
    fn find_at_once<'s>(&'s self, key: &'s [u8]) -> AtOnce<'s, Got> {
        match self.exact() {
            Some(exact) => step::find_at_once(exact, key),
            None => step::find_at_once(self.client(), key),
        }
    }

    async fn find_many(&self, keys: &[&[u8]], done: &mut dyn FnMut(Answers<'_>)) {
        match self.exact() {
            Some(exact) => step::find_many(exact, keys, done).await,
            None => step::find_many(self.client(), keys, done).await,
        }
    }

    async fn find_all(&self, key: &[u8]) -> Result<Vec<Value>> {
        let mut values = Vec::new();
        match self.exact() {
            Some(exact) => values.extend(step::run(exact, key).await?),
            None => {
                let give = |value: &[u8]| values.push(value.into());
                self.client().find_all(key, give).await?;
            }
        }
        Ok(values)
    }

    async fn write(&self, operation: Operation<'_>) -> Result<Outcome> {
        sealed(operation.name())
    }

    async fn scan_piece(
        &self,
        cursor: Cursor,
        most: u64,
        visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        self.client().scan_piece(cursor, most, visit).await
    }

    async fn read_occupancy(&self) -> Result<Occupancy> {
        self.client().read_occupancy().await
    }

    async fn report_all(&self) -> Result<()> {
        Ok(())
    }

    async fn become_or_resign(&self, change: WriterChange) -> Result<()> {
        match change {
            WriterChange::Start => sealed("writing"),
            WriterChange::TakeOver | WriterChange::ForceTakeOver | WriterChange::Resign => Ok(()),
        }
    }

    async fn build_whole(&self, records: &[Record<'_>]) -> Result<()> {
        self.build(records).await
    }

    fn known(&self) -> ClientState {
        ClientState {
            sealed: true,
            read_size: self.read_size(),
            client_bytes: self.client().client_bytes(),
            ..ClientState::default()
        }
    }
}
