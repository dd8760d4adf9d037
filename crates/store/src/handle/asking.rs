//! Futures of requests: they are sent when they are polled first, and wait for their answers.

use super::batch::{Answer, Call, WorkerRequest};
use super::queue::{Queue, RequestPosition};
use super::shared::HandleInner;
use crate::{Operation, Record, Result, StoreError};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// What a future asks for, until it has sent it.
pub(super) trait RequestSource: Unpin {
    /// What is sent; called once at the most.
    fn give(&mut self) -> WorkerRequest<'_>;
}

impl RequestSource for Operation<'_> {
    fn give(&mut self) -> WorkerRequest<'_> {
        WorkerRequest::Operation(*self)
    }
}

impl RequestSource for (Record<'_>, Duration) {
    fn give(&mut self) -> WorkerRequest<'_> {
        WorkerRequest::PutFor(self.0, self.1)
    }
}

impl RequestSource for Option<Call> {
    fn give(&mut self) -> WorkerRequest<'_> {
        WorkerRequest::Call(self.take().unwrap_or_else(|| Box::new(|_| Ok(()))))
    }
}

/// An operation that owns its bytes.
pub(super) struct OwnedOperation {
    /// Which it is, with nothing in the place of its bytes.
    shape: Operation<'static>,
    bytes: Box<[u8]>,
    /// Where the key and the values end.
    ends: [usize; 3],
}

impl OwnedOperation {
    pub(super) fn of(operation: Operation<'_>) -> Self {
        let mut bytes = Vec::new();
        let (mut ends, mut parts) = ([0; 3], 0);
        let shape = operation.map(|part| {
            bytes.extend_from_slice(part);
            ends[parts] = bytes.len();
            parts += 1;
            &[]
        });
        let bytes = bytes.into();
        Self { shape, bytes, ends }
    }

    fn get(&self) -> Operation<'_> {
        let mut from = 0;
        let mut ends = self.ends.iter();
        self.shape.map(|_| {
            let end = ends.next().copied().unwrap_or(from);
            let part = &self.bytes[from..end];
            from = end;
            part
        })
    }
}

impl RequestSource for OwnedOperation {
    fn give(&mut self) -> WorkerRequest<'_> {
        WorkerRequest::Operation(self.get())
    }
}

/// How far a future has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum QuestionPhase {
    /// Once it has found no room, with its place among those that wait for some.
    New(Option<u64>),
    Sent(RequestPosition),
    Done,
}

impl QuestionPhase {
    fn poll(
        &mut self,
        queue: &Queue,
        source: &mut impl RequestSource,
        context: &Context<'_>,
    ) -> Poll<Result<Answer>> {
        match self {
            Self::New(ticket) => {
                let sent = queue.push(|| source.give(), ticket, context);
                match sent {
                    Poll::Pending => {}
                    Poll::Ready(Ok(place)) => *self = Self::Sent(place),
                    Poll::Ready(Err(error)) => {
                        *self = Self::Done;
                        return Poll::Ready(Err(error));
                    }
                }
                Poll::Pending
            }
            Self::Sent(place) => {
                let answer = queue.poll(*place, context);
                if answer.is_ready() {
                    *self = Self::Done;
                }
                answer
            }
            Self::Done => Poll::Ready(Err(StoreError::HandleClosed)),
        }
    }

    /// The future goes away.
    fn leave(self, queue: &Queue) {
        match self {
            Self::New(None) | Self::Done => {}
            Self::New(Some(ticket)) => queue.leave_line(ticket),
            Self::Sent(place) => queue.forget(place),
        }
    }
}

/// A request under way, of whoever has the handle meanwhile.
pub(super) struct RequestFuture<'h, G> {
    queue: &'h Queue,
    source: G,
    phase: QuestionPhase,
}

impl<'h, G> RequestFuture<'h, G> {
    pub(super) fn new(queue: &'h Queue, source: G) -> Self {
        Self {
            queue,
            source,
            phase: QuestionPhase::New(None),
        }
    }
}

impl<G: RequestSource> Future for RequestFuture<'_, G> {
    type Output = Result<Answer>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Answer>> {
        let Self {
            queue,
            source,
            phase,
        } = &mut *self;
        phase.poll(queue, source, context)
    }
}

impl<G> Drop for RequestFuture<'_, G> {
    fn drop(&mut self) {
        self.phase.leave(self.queue);
    }
}

/// An operation of a [`Handle`](crate::Handle) under way.
#[must_use = "it is not sent unless it is polled"]
pub struct Running {
    /// Workers stay for those that wait.
    shared: Arc<HandleInner>,
    operation: OwnedOperation,
    phase: QuestionPhase,
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("phase", &self.phase)
            .finish_non_exhaustive()
    }
}

impl Running {
    pub(super) fn new(shared: Arc<HandleInner>, operation: OwnedOperation) -> Self {
        Self {
            shared,
            operation,
            phase: QuestionPhase::New(None),
        }
    }

    pub(super) fn sent(shared: Arc<HandleInner>, place: RequestPosition) -> Self {
        Self {
            shared,
            // Nothing is to be given any more.
            operation: OwnedOperation::of(Operation::Get(&[])),
            phase: QuestionPhase::Sent(place),
        }
    }
}

impl Future for Running {
    type Output = Result<Answer>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Answer>> {
        let Self {
            shared,
            operation,
            phase,
        } = &mut *self;
        phase.poll(&shared.queue, operation, context)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.phase.leave(&self.shared.queue);
    }
}
