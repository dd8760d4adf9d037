//! What stands under calls where a client may do nothing by itself: its grant opens single keys.

use farslot_fabric::{Endpoint, EndpointExt, Nanos, NodeId};
use farslot_index::{
    Admin, AdminOutcome, Answers, BoxFuture, ClientState, Cursor, Got, Index, IndexError,
    Operation, Outcome, Outcomes, Result, Waits,
};
use std::future::ready;
use std::rc::Rc;

/// An index that refuses all that calls cannot do.
pub struct SingleKeys<E> {
    pub(super) endpoint: Rc<E>,
    pub(super) node: NodeId,
}

const fn refused<T>(operation: &'static str) -> Result<T> {
    Err(IndexError::SingleKeys { operation })
}

impl<E: Endpoint> Index for SingleKeys<E> {
    fn waits(&self) -> Waits {
        Waits::Never
    }

    fn get<'s>(&'s self, key: &'s [u8]) -> BoxFuture<'s, Got> {
        Box::pin(ready(refused(Operation::Get(key).name())))
    }

    fn run<'s>(&'s self, operation: Operation<'s>) -> BoxFuture<'s, Result<Outcome>> {
        Box::pin(ready(refused(operation.name())))
    }

    fn look_up<'s>(
        &'s self,
        keys: &'s [&'s [u8]],
        done: &'s mut dyn FnMut(Answers<'_>),
    ) -> BoxFuture<'s, ()> {
        Box::pin(async move {
            for (number, key) in keys.iter().enumerate() {
                done(Answers::One(number, refused(Operation::Get(key).name())));
            }
        })
    }

    fn run_many<'s>(
        &'s self,
        operations: &'s [Operation<'s>],
        done: &'s mut dyn FnMut(Outcomes<'_>),
    ) -> BoxFuture<'s, ()> {
        Box::pin(async move {
            for (number, operation) in operations.iter().enumerate() {
                done(Outcomes::One(number, refused(operation.name())));
            }
        })
    }

    fn scan<'s>(
        &'s self,
        _: Cursor,
        _: u64,
        _: &'s mut dyn FnMut(&[u8], &[u8]),
    ) -> BoxFuture<'s, Result<Option<Cursor>>> {
        Box::pin(ready(refused("a scan")))
    }

    fn admin<'s>(&'s self, request: Admin<'s>) -> BoxFuture<'s, Result<AdminOutcome>> {
        Box::pin(ready(match request {
            Admin::Occupancy => refused("to ask for its occupancy"),
            Admin::Survey => refused("a survey"),
            Admin::Moves => refused("to ask for its moves"),
            Admin::Build(_) => refused("to build it"),
            Admin::Queue(_) => refused("to push or pop"),
            // The owner counts, and is the writer while it writes for somebody.
            Admin::Flush | Admin::CleanAhead | Admin::ChangeWriter(_) => Ok(AdminOutcome::Done),
            Admin::Writer => Ok(AdminOutcome::Writer(None)),
        }))
    }

    fn state(&self) -> ClientState {
        ClientState::default()
    }

    fn now(&self) -> Nanos {
        self.endpoint.now()
    }

    fn is_up(&self) -> bool {
        self.endpoint.is_up(self.node)
    }
}
