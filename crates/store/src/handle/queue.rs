//! The queue between the futures of a handle and its workers.

use super::batch::{Answer, Batch, Desk, Progress, WorkerRequest, most_requests};
use crate::{Result, StoreError};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// How long a worker looks for requests before it sleeps: as long as it takes to wake one.
const LOOKS_FOR: Duration = Duration::from_micros(50);

/// Where a request is: its batch, and its number there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RequestPosition {
    batch: usize,
    number: usize,
}

/// The queue, which has room for so many requests.
pub(super) struct Queue {
    room: usize,
    state: Mutex<State>,
    /// Wakes workers.
    filled: Condvar,
    /// Whether there are requests: for the worker that looks for some. What counts is the state.
    has_requests: AtomicBool,
    /// Whether a worker looks for requests, which then need not wake one.
    is_watched: AtomicBool,
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("room", &self.room)
            .finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    /// All batches, and those that are used by nobody.
    batches: Vec<Batch>,
    vacant: Vec<usize>,
    /// Batches that no worker has, the oldest first; to the last one requests are added.
    line: VecDeque<usize>,
    /// The most requests of a batch.
    most: usize,
    /// Requests in them.
    requests: usize,
    /// Futures that found no room, by their tickets: the first come first.
    waiting: BTreeMap<u64, Waker>,
    /// Tickets that were given out.
    tickets: u64,
    /// Workers that sleep, and those of them that were woken.
    sleeping: usize,
    woken: usize,
    /// Workers that have not ended.
    workers: usize,
    is_closed: bool,
    /// Those who wait for the last worker to end.
    closing: Vec<Waker>,
}

impl State {
    /// Adds a request, of a future that may have a waker already.
    fn add(&mut self, request: WorkerRequest<'_>, waker: Option<Waker>) -> RequestPosition {
        let last = self.line.back().copied();
        let last = last.filter(|batch| self.batches[*batch].requests.takes(&request, self.most));
        let batch = last.unwrap_or_else(|| {
            let batch = self.vacant.pop().unwrap_or_else(|| {
                self.batches.push(Batch::default());
                self.batches.len() - 1
            });
            self.line.push_back(batch);
            batch
        });
        let place = &mut self.batches[batch];
        let number = place.requests.len();
        place.requests.add(request);
        place.wakers.push(waker);
        place.futures += 1;
        self.requests += 1;
        RequestPosition { batch, number }
    }

    /// A future of a batch goes away.
    fn leave(&mut self, batch: usize) {
        self.batches[batch].futures -= 1;
        self.recycle_if_over(batch);
    }

    fn recycle_if_over(&mut self, batch: usize) {
        if self.batches[batch].is_over() {
            self.batches[batch].clear();
            self.vacant.push(batch);
        }
    }
}

impl Queue {
    pub(super) fn new(room: usize, workers: usize) -> Self {
        let state = State {
            workers,
            most: most_requests(workers),
            ..State::default()
        };
        Self {
            room,
            state: Mutex::new(state),
            filled: Condvar::new(),
            has_requests: AtomicBool::new(false),
            is_watched: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that could panic runs while it is locked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request, if there is room.
    pub(super) fn try_push(&self, request: WorkerRequest<'_>) -> Result<RequestPosition> {
        let state = self.lock();
        if state.is_closed {
            return Err(StoreError::HandleClosed);
        }
        if state.requests >= self.room {
            return Err(StoreError::QueueFull);
        }
        Ok(self.add(state, request, None))
    }

    /// Adds a request; if there is no room, the waker is told when there may be. A ticket is the
    /// request's place among those that wait, and stays with it until it is added. The waker is
    /// told of the answer, too.
    pub(super) fn push<'r>(
        &self,
        request: impl FnOnce() -> WorkerRequest<'r>,
        ticket: &mut Option<u64>,
        context: &Context<'_>,
    ) -> Poll<Result<RequestPosition>> {
        let waker = context.waker().clone();
        let mut state = self.lock();
        if state.is_closed {
            return Poll::Ready(Err(StoreError::HandleClosed));
        }
        if state.requests >= self.room {
            let State {
                waiting, tickets, ..
            } = &mut *state;
            let ticket = *ticket.get_or_insert_with(|| {
                *tickets += 1;
                *tickets
            });
            waiting.insert(ticket, waker);
            return Poll::Pending;
        }
        if let Some(ticket) = ticket.take() {
            state.waiting.remove(&ticket);
        }
        Poll::Ready(Ok(self.add(state, request(), Some(waker))))
    }

    fn add(
        &self,
        mut state: MutexGuard<'_, State>,
        request: WorkerRequest<'_>,
        waker: Option<Waker>,
    ) -> RequestPosition {
        let place = state.add(request, waker);
        if state.requests == 1 {
            self.has_requests.store(true, SeqCst);
        }
        // A worker that stops looking for requests locks the state before it sleeps, and sees it.
        let wakes = state.sleeping > state.woken && !self.is_watched.load(SeqCst);
        state.woken += usize::from(wakes);
        drop(state);
        if wakes {
            self.filled.notify_one();
        }
        place
    }

    /// The answer to a request; else the waker is told when there is one.
    pub(super) fn poll(
        &self,
        place: RequestPosition,
        context: &Context<'_>,
    ) -> Poll<Result<Answer>> {
        let mut state = self.lock();
        let batch = &mut state.batches[place.batch];
        if let Some(answer) = batch.answer(place.number) {
            let mut wakers = Vec::new();
            batch.group_of(place.number, &mut wakers);
            state.leave(place.batch);
            drop(state);
            wakers.into_iter().for_each(Waker::wake);
            return Poll::Ready(answer);
        }
        let waker = &mut batch.wakers[place.number];
        match waker {
            Some(waker) => waker.clone_from(context.waker()),
            None => *waker = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    /// Nobody waits for a request any more: it is not done, unless a worker has it.
    pub(super) fn forget(&self, place: RequestPosition) {
        let mut state = self.lock();
        let batch = &mut state.batches[place.batch];
        let call = match batch.progress {
            Progress::Waiting => batch.requests.remove(place.number),
            Progress::Taken | Progress::Done => None,
        };
        let waker = batch.wakers.get_mut(place.number).and_then(Option::take);
        let answer = batch.answer(place.number);
        let mut wakers = Vec::new();
        batch.group_of(place.number, &mut wakers);
        state.leave(place.batch);
        drop(state);
        // What others have written is dropped, and called, when nothing is locked.
        drop((call, waker, answer));
        wakers.into_iter().for_each(Waker::wake);
    }

    /// A future with a ticket goes away. If it was told of room, another may have it.
    pub(super) fn leave_line(&self, ticket: u64) {
        let mut state = self.lock();
        let next = match state.waiting.remove(&ticket) {
            None if state.requests < self.room => state.waiting.pop_first(),
            _ => None,
        };
        drop(state);
        if let Some((_, waker)) = next {
            waker.wake();
        }
    }

    /// Looks for requests for a moment, unless another worker does.
    fn watch(&self) {
        if self.is_watched.swap(true, SeqCst) {
            return;
        }
        let since = Instant::now();
        while !self.has_requests.load(SeqCst) && since.elapsed() < LOOKS_FOR {
            std::thread::yield_now();
        }
        self.is_watched.store(false, SeqCst);
    }

    /// Wakes those of the batch that was done last whom nobody else has woken.
    fn wake_rest(&self, desk: &mut Desk) {
        let Some(last) = desk.last.take() else { return };
        // If it is another batch by now, its futures look once in vain at the most.
        self.lock().batches[last].all_groups(&mut desk.wakers);
        desk.wakers.drain(..).for_each(Waker::wake);
    }

    /// The oldest batch, whose requests are on the desk then; sleeps while there is none. Nothing
    /// once the queue is closed and empty.
    pub(super) fn take(&self, desk: &mut Desk) -> Option<usize> {
        if !self.has_requests.load(Relaxed) {
            self.watch();
        }
        let mut state = self.lock();
        loop {
            let Some(batch) = state.line.pop_front() else {
                if desk.last.is_some() {
                    // Those who were to wake them have not: a task may be awake and not look at
                    // its future.
                    drop(state);
                    self.wake_rest(desk);
                    state = self.lock();
                } else {
                    state = self.wait(state)?;
                }
                continue;
            };
            let taken = &mut state.batches[batch];
            taken.progress = Progress::Taken;
            std::mem::swap(&mut taken.requests, &mut desk.requests);
            let is_dropped = desk.requests.is_dropped();
            if is_dropped {
                taken.progress = Progress::Done;
                state.recycle_if_over(batch);
            }
            state.requests -= desk.requests.len();
            if state.requests == 0 {
                self.has_requests.store(false, SeqCst);
            }
            let room = self.room - state.requests;
            let first = std::iter::from_fn(|| state.waiting.pop_first());
            let wakers: Vec<_> = first.take(room).collect();
            // What is left is not this worker's for now.
            let wakes = !state.line.is_empty() && state.sleeping > state.woken;
            state.woken += usize::from(wakes);
            drop(state);
            if wakes {
                self.filled.notify_one();
            }
            wakers.into_iter().for_each(|(_, waker)| waker.wake());
            if !is_dropped {
                return Some(batch);
            }
            desk.clear();
            state = self.lock();
        }
    }

    /// Sleeps until there may be requests; nothing once there will be none.
    fn wait<'q>(&'q self, mut state: MutexGuard<'q, State>) -> Option<MutexGuard<'q, State>> {
        // Those that were told of room may not take it: before the worker sleeps, all are told.
        let waiting = std::mem::take(&mut state.waiting);
        if !waiting.is_empty() {
            drop(state);
            waiting.into_values().for_each(Waker::wake);
            return Some(self.lock());
        }
        if state.is_closed {
            return None;
        }
        state.sleeping += 1;
        while state.woken == 0 && state.line.is_empty() && !state.is_closed {
            let woken = self.filled.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
        state.sleeping -= 1;
        state.woken = state.woken.saturating_sub(1).min(state.sleeping);
        Some(state)
    }

    /// Tells the answer to one request of a batch that is under way.
    pub(super) fn tell(&self, batch: usize, number: usize, answer: Result<Answer>) {
        let mut state = self.lock();
        let batch_state = &mut state.batches[batch];
        batch_state.answers.keep(number, answer);
        let waker = batch_state.wakers[number].take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// A batch is under way whose answers are [told](Queue::tell) one by one.
    pub(super) fn begin_telling(&self, batch: usize) {
        let mut state = self.lock();
        let begun = &mut state.batches[batch];
        let requests = begun.wakers.len();
        begun.answers.begin(requests);
    }

    /// A batch is done: its answers are those on the desk, or were told before. The desk is empty
    /// then.
    pub(super) fn finish(&self, batch: usize, desk: &mut Desk) {
        self.wake_rest(desk);
        let mut state = self.lock();
        let done = &mut state.batches[batch];
        done.progress = Progress::Done;
        if done.answers.is_empty() {
            std::mem::swap(&mut done.answers, &mut desk.answers);
        }
        done.leaders(&mut desk.wakers);
        state.recycle_if_over(batch);
        drop(state);
        desk.wakers.drain(..).for_each(Waker::wake);
        desk.last = Some(batch);
        desk.clear();
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
        let (mut wakers, mut calls) = (Vec::new(), Vec::new());
        // One that has panicked has woken nobody behind its last batch.
        let batches = state.batches.iter_mut();
        batches.for_each(|batch| batch.all_groups(&mut wakers));
        if state.workers > 0 {
            drop(state);
            return wakers.into_iter().for_each(Waker::wake);
        }
        state.is_closed = true;
        while let Some(batch) = state.line.pop_front() {
            let left = &mut state.batches[batch];
            left.progress = Progress::Done;
            calls.extend(left.requests.take_call());
            let requests = left.requests.len();
            left.answers.begin(requests);
            for number in 0..requests {
                left.answers.keep(number, Err(StoreError::HandleClosed));
            }
            wakers.extend(left.wakers.drain(..).flatten());
            state.recycle_if_over(batch);
        }
        wakers.extend(std::mem::take(&mut state.waiting).into_values());
        wakers.append(&mut state.closing);
        drop(state);
        drop(calls);
        wakers.into_iter().for_each(Waker::wake);
    }
}
