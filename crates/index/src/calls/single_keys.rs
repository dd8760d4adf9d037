//! What stands under calls where a client may do nothing by itself: its grant opens single keys.

use crate::{
    Answers, CacheCounts, ClientState, Cursor, Index, IndexError, Occupancy, Operation, Outcome,
    Record, Result, Survey, Value, Waits, WriterChange,
};
use farslot_fabric::{Endpoint, EndpointExt, Nanos, NodeId};
use std::rc::Rc;

/// An index that refuses all that calls cannot do.
pub struct SingleKeys<E> {
    pub(super) endpoint: Rc<E>,
    pub(super) node: NodeId,
}

fn refused<T>(operation: &'static str) -> Result<T> {
    Err(IndexError::SingleKeys { operation })
}

impl<E: Endpoint> Index for SingleKeys<E> {
    fn waits(&self) -> Waits {
        Waits::Never
    }

    async fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        refused(Operation::Get(key).name())
    }

    async fn run(&self, operation: Operation<'_>) -> Result<Outcome> {
        refused(operation.name())
    }

    async fn look_up(&self, keys: &[&[u8]], mut done: impl FnMut(Answers<'_>)) {
        for (number, key) in keys.iter().enumerate() {
            done(Answers::One(number, self.get(key).await));
        }
    }

    async fn scan(&self, _: Cursor, _: u64, _: impl FnMut(&[u8], &[u8])) -> Result<Option<Cursor>> {
        refused("a scan")
    }

    async fn occupancy(&self) -> Result<Occupancy> {
        refused("to ask for its occupancy")
    }

    /// The owner counts.
    async fn flush(&self) -> Result<()> {
        Ok(())
    }

    async fn survey(&self) -> Result<Survey> {
        refused("a survey")
    }

    /// The owner is that, while it writes for somebody.
    async fn writer(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    async fn change_writer(&self, _: WriterChange) -> Result<()> {
        Ok(())
    }

    async fn moves(&self) -> Result<u64> {
        refused("to ask for its moves")
    }

    async fn build(&self, _: &[Record<'_>]) -> Result<()> {
        refused("to build it")
    }

    fn state(&self) -> ClientState {
        ClientState {
            sealed: false,
            read_size: 0,
            client_bytes: 0,
            cache: CacheCounts::default(),
        }
    }

    fn now(&self) -> Nanos {
        self.endpoint.now()
    }

    fn is_up(&self) -> bool {
        self.endpoint.is_up(self.node)
    }
}
