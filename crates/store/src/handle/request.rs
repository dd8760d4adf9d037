//! One request: what is asked for, and what becomes of it. Shared by the future that waits for it
//! and the worker that does it.

use crate::{Operation, Outcome, Result, StoreError, Table};
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

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

    pub(super) fn get(&self) -> Operation<'_> {
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

/// What a worker is asked for.
pub(super) enum Ask {
    Operation(OwnedOperation),
    /// Something else that is done with the table. It keeps its result itself.
    Call(Box<dyn FnOnce(&Table) + Send>),
}

/// The outcome of an operation, which can go to another thread.
pub(super) type Answer = Outcome<Vec<u8>>;

/// How far a request has come.
enum State {
    /// No worker has it yet.
    Waiting(Ask, Option<Waker>),
    /// A worker has it: it is done once, whether or not somebody waits for it.
    Taken(Option<Waker>),
    Done(Result<Answer>),
    /// Nobody waits for it, or the answer was handed over.
    Gone,
}

/// A request.
pub(super) struct Request(Mutex<State>);

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Request(..)")
    }
}

impl Request {
    pub(super) fn new(ask: Ask) -> Self {
        Self(Mutex::new(State::Waiting(ask, None)))
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        // No code that could panic runs while it is locked.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Hands it to a worker; nothing if nobody waits for it any more. Then it is never done.
    pub(super) fn take(&self) -> Option<Ask> {
        self.change(|state| match std::mem::replace(state, State::Gone) {
            State::Waiting(ask, waker) => {
                *state = State::Taken(waker);
                Some(ask)
            }
            other => {
                *state = other;
                None
            }
        })
    }

    /// Tells what has become of it, once; later tellings change nothing.
    pub(super) fn finish(&self, answer: Result<Answer>) {
        let waker = self.change(|state| match state {
            State::Waiting(_, waker) | State::Taken(waker) => {
                let waker = waker.take();
                *state = State::Done(answer);
                waker
            }
            State::Done(_) | State::Gone => None,
        });
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(super) fn poll(&self, context: &mut Context<'_>) -> Poll<Result<Answer>> {
        self.change(|state| match state {
            State::Waiting(_, waker) | State::Taken(waker) => {
                match waker {
                    Some(waker) => waker.clone_from(context.waker()),
                    None => *waker = Some(context.waker().clone()),
                }
                Poll::Pending
            }
            State::Done(_) => match std::mem::replace(state, State::Gone) {
                State::Done(answer) => Poll::Ready(answer),
                _ => Poll::Ready(Err(StoreError::HandleClosed)),
            },
            State::Gone => Poll::Ready(Err(StoreError::HandleClosed)),
        })
    }

    /// Nobody waits for it any more: it is not done, unless a worker has it.
    pub(super) fn forget(&self) {
        let before = self.change(|state| std::mem::replace(state, State::Gone));
        // Bytes and closures are dropped when nothing is locked.
        drop(before);
    }
}
