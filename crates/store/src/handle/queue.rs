//! The queue between the futures of a handle and its workers.

use super::request::Request;
use crate::{Result, StoreError};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The queue, which has room for so many requests.
#[derive(Debug)]
pub(super) struct Queue {
    room: usize,
    state: Mutex<State>,
    /// Wakes workers.
    filled: Condvar,
}

#[derive(Debug, Default)]
struct State {
    requests: VecDeque<Arc<Request>>,
    /// Futures that found no room, by their tickets: the first come first.
    waiting: BTreeMap<u64, Waker>,
    /// Tickets that were given out.
    tickets: u64,
    /// Workers that sleep.
    sleeping: usize,
    /// Workers that have not ended.
    workers: usize,
    is_closed: bool,
    /// Those who wait for the last worker to end.
    closing: Vec<Waker>,
}

impl Queue {
    pub(super) fn new(room: usize, workers: usize) -> Self {
        let state = State {
            workers,
            ..State::default()
        };
        Self {
            room,
            state: Mutex::new(state),
            filled: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that could panic runs while it is locked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request, if there is room.
    pub(super) fn try_push(&self, request: &Arc<Request>) -> Result<()> {
        let state = self.lock();
        if state.is_closed {
            return Err(StoreError::HandleClosed);
        }
        if state.requests.len() >= self.room {
            return Err(StoreError::QueueFull);
        }
        self.add(state, request);
        Ok(())
    }

    /// Adds a request; if there is no room, the waker is told when there may be. A ticket is the
    /// request's place among those that wait, and stays with it until it is added.
    pub(super) fn push(
        &self,
        request: &Arc<Request>,
        ticket: &mut Option<u64>,
        context: &Context<'_>,
    ) -> Poll<Result<()>> {
        let mut state = self.lock();
        if state.is_closed {
            return Poll::Ready(Err(StoreError::HandleClosed));
        }
        if state.requests.len() >= self.room {
            let State {
                waiting, tickets, ..
            } = &mut *state;
            let ticket = *ticket.get_or_insert_with(|| {
                *tickets += 1;
                *tickets
            });
            waiting.insert(ticket, context.waker().clone());
            return Poll::Pending;
        }
        if let Some(ticket) = ticket.take() {
            state.waiting.remove(&ticket);
        }
        self.add(state, request);
        Poll::Ready(Ok(()))
    }

    fn add(&self, mut state: MutexGuard<'_, State>, request: &Arc<Request>) {
        state.requests.push_back(Arc::clone(request));
        let is_slept = state.sleeping > 0;
        drop(state);
        if is_slept {
            self.filled.notify_one();
        }
    }

    /// A future with a ticket goes away. If it was told of room, another may have it.
    pub(super) fn leave_line(&self, ticket: u64) {
        let mut state = self.lock();
        let next = match state.waiting.remove(&ticket) {
            None if state.requests.len() < self.room => state.waiting.pop_first(),
            _ => None,
        };
        drop(state);
        if let Some((_, waker)) = next {
            waker.wake();
        }
    }

    /// All requests that there are, up to so many; sleeps while there are none. Nothing once the
    /// queue is closed and empty.
    pub(super) fn take(&self, most: usize) -> Option<Vec<Arc<Request>>> {
        let mut state = self.lock();
        while state.requests.is_empty() {
            // Those that were told of room may not take it: before the worker sleeps, all are told.
            let waiting = std::mem::take(&mut state.waiting);
            if !waiting.is_empty() {
                drop(state);
                waiting.into_values().for_each(Waker::wake);
                state = self.lock();
                continue;
            }
            if state.is_closed {
                return None;
            }
            state.sleeping += 1;
            let woken = self.filled.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
            state.sleeping -= 1;
        }
        let taken = most.min(state.requests.len());
        let requests: Vec<_> = state.requests.drain(..taken).collect();
        let room = self.room - state.requests.len();
        let first = std::iter::from_fn(|| state.waiting.pop_first());
        let wakers: Vec<_> = first.take(room).collect();
        drop(state);
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
        Some(requests)
    }

    /// Takes no more requests. Those that are there are done.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        let wakers = std::mem::take(&mut state.waiting);
        drop(state);
        self.filled.notify_all();
        wakers.into_values().for_each(Waker::wake);
    }

    /// Whether all workers have ended; else the waker is told.
    pub(super) fn poll_end(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.workers == 0 {
            return Poll::Ready(());
        }
        state.closing.push(context.waker().clone());
        Poll::Pending
    }

    /// A worker has ended. With the last one, whatever was not done fails.
    pub(super) fn leave(&self) {
        let mut state = self.lock();
        state.workers -= 1;
        if state.workers > 0 {
            return;
        }
        state.is_closed = true;
        let left = std::mem::take(&mut state.requests);
        let wakers = std::mem::take(&mut state.waiting);
        let closing = std::mem::take(&mut state.closing);
        drop(state);
        for request in left {
            request.finish(Err(StoreError::HandleClosed));
        }
        let wakers = wakers.into_values();
        wakers.chain(closing).for_each(Waker::wake);
    }
}
