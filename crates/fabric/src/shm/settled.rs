//! What becomes of a verb that lasts beyond the turn in which it was posted.

use crate::Result;
use std::cell::RefCell;
use std::task::{Context, Poll, Waker};

/// Shared with the posted verb, if that still exists.
pub(super) struct Settled<T> {
    outcome: RefCell<Option<Result<T>>>,
    waiting: RefCell<Option<Waker>>,
}

impl<T> Settled<T> {
    pub(super) const fn new() -> Self {
        Self {
            outcome: RefCell::new(None),
            waiting: RefCell::new(None),
        }
    }

    pub(super) fn settle(&self, outcome: Result<T>) {
        self.outcome.replace(Some(outcome));
        if let Some(waker) = self.waiting.take() {
            waker.wake();
        }
    }

    pub(super) fn poll(&self, cx: &Context<'_>) -> Poll<Result<T>> {
        if let Some(outcome) = self.outcome.take() {
            return Poll::Ready(outcome);
        }
        self.waiting.replace(Some(cx.waker().clone()));
        Poll::Pending
    }
}
