//! A client of a queue.

use super::table::{index_error, policy_of};
use crate::lease::Leased;
use crate::owned::layout::QueueLayout;
use crate::{Access, TableRecord};
use farslot_fabric::{Endpoint, EndpointExt, NodeId, RemoteAddr};
use farslot_index::{
    AdminOutcome, ClientState, Cursor, GET, IndexError, Occupancy, Operation, Outcome, PUT,
    QueueRequest, REMOVE, Result, SchemeClient, SchemeKind, Value, Waits,
};
use farslot_remote::queue::{Fifo, MOST_ITEMS, Queue};
use farslot_remote::{ObjectId, RemoteError};
use farslot_rpc::{Client, ClientOptions};
use std::rc::Rc;

/// A queue of a node.
pub(crate) struct OwnedQueue {
    endpoint: Rc<Leased>,
    fifo: Fifo<Leased>,
    at: RemoteAddr,
    layout: QueueLayout,
}

impl OwnedQueue {
    pub(crate) fn open(
        endpoint: &Rc<Leased>,
        access: Access,
        at: RemoteAddr,
        record: &TableRecord,
        layout: &QueueLayout,
    ) -> crate::Result<Self> {
        let queue = Queue::new(layout.shape(at.offset));
        let queue =
            queue.map_err(|error| crate::error::bad_option("the layout", error, "another"))?;
        let options = ClientOptions {
            patience: endpoint.core().limits.verb_timeout,
            ..ClientOptions::default()
        };
        let client = Client::new(Rc::clone(endpoint), (at.node, at.region), options);
        let object = ObjectId(record.id);
        Ok(Self {
            fifo: Fifo::new(queue, object, Rc::new(client), policy_of(access)),
            endpoint: Rc::clone(endpoint),
            at,
            layout: layout.clone(),
        })
    }

    fn failed(&self, error: RemoteError) -> IndexError {
        match error {
            RemoteError::TooMany { number, limit, .. } => too_much(number, limit, "items"),
            // The longest item fits.
            RemoteError::TooLong { bytes, limit, .. } => too_much(bytes, limit, "bytes"),
            error => index_error(error, self.at, self.layout.items.into()),
        }
    }

    async fn push(&self, values: &[&[u8]]) -> Result<AdminOutcome> {
        for value in values {
            self.layout.value.check_value(value)?;
        }
        let pushed = self.fifo.push_all(values).await;
        pushed
            .map(AdminOutcome::Position)
            .map_err(|error| self.failed(error))
    }

    async fn pop(&self, most: u32) -> Result<AdminOutcome> {
        let popped = match most {
            1 => self.fifo.pop().await.map(|item| item.into_iter().collect()),
            most => self.fifo.pop_many(most).await,
        };
        let items = popped.map_err(|error| self.failed(error))?;
        let values = items.into_iter().map(|item| item.value);
        Ok(AdminOutcome::Items(values.collect()))
    }

    async fn front(&self) -> Result<AdminOutcome> {
        let front = self.fifo.front().await;
        let front = front.map_err(|error| self.failed(error))?;
        let value = front.map(|item| item.value);
        Ok(AdminOutcome::Items(value.into_iter().collect()))
    }
}

/// The error of a push of more than a call takes.
fn too_much(value: usize, limit: usize, unit: &str) -> IndexError {
    IndexError::BadOption {
        option: "the items of one push",
        value: format!("{value} {unit}"),
        limit: format!("at most {limit}"),
    }
}

fn no_keys<T>(operation: &'static str) -> Result<T> {
    Err(IndexError::NoKeys { operation })
}

impl SchemeClient for OwnedQueue {
    type Endpoint = Leased;

    const NAME: &'static str = SchemeKind::Queue.name();

    /// Each request of a client takes one of a number of slots that its node keeps for it.
    const WAITS: Waits = Waits::All;

    fn endpoint(&self) -> &Leased {
        &self.endpoint
    }

    fn node(&self) -> NodeId {
        self.at.node
    }

    async fn find(&self, _: &[u8]) -> Result<Option<Value>> {
        no_keys("a lookup")
    }

    async fn write(&self, operation: Operation<'_>) -> Result<Outcome> {
        no_keys(match operation {
            Operation::Get(_) | Operation::GetAll(_) => "a lookup",
            Operation::Put(..) => "a put",
            Operation::FindOrPut(..) => "find or put",
            Operation::Update(..) => "an update",
            Operation::Replace(..) => "a replacement",
            Operation::Remove(_) | Operation::RemoveIf(..) => "a removal",
        })
    }

    /// Visits items from the front to where the back was at first, by their positions as text.
    async fn scan_piece(
        &self,
        cursor: Cursor,
        most: u64,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        let from = (cursor.0 != 0).then_some(cursor.0);
        let most = most.clamp(1, MOST_ITEMS as u64) as u32;
        let visiting = self.fifo.visit(from, most, |item| {
            visit(item.position.to_string().as_bytes(), &item.value);
        });
        let next = visiting.await.map_err(|error| self.failed(error))?;
        Ok(next.map(Cursor))
    }

    async fn read_occupancy(&self) -> Result<Occupancy> {
        let length = self.fifo.len().await;
        let entries = length.map_err(|error| self.failed(error))?;
        Ok(Occupancy {
            entries,
            used_slots: entries,
            slots: self.layout.items.into(),
            ..Occupancy::default()
        })
    }

    /// The owner has counted.
    async fn report_all(&self) -> Result<()> {
        Ok(())
    }

    /// Counted as puts, removals and gets.
    async fn queue(&self, request: QueueRequest<'_>) -> Result<AdminOutcome> {
        let endpoint = &self.endpoint;
        match request {
            QueueRequest::Push(values) => endpoint.operation(PUT, self.push(values)).await,
            QueueRequest::Pop(most) => endpoint.operation(REMOVE, self.pop(most)).await,
            QueueRequest::Front => endpoint.operation(GET, self.front()).await,
        }
    }

    fn known(&self) -> ClientState {
        ClientState {
            read_size: 1,
            ..ClientState::default()
        }
    }
}
