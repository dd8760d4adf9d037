//! A database for ordinary asynchronous Rust.
//!
//! A [`Database`] belongs to one thread, as its endpoint does, and so do its futures. A [`Handle`]
//! is `Send`, `Sync` and cheap to clone; it hands transactions to a thread of its own, which runs
//! any number of them side by side. Its futures need no particular runtime. One that is dropped
//! lets its transaction go on, committed or not.

use crate::database::Database;
use crate::error::TxnError;
use crate::run::Reply;
use crate::transaction::Transaction;
use farslot_fabric::{Endpoint, Executor};
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;

/// A database that tasks of any threads use. The thread ends when the last clone is dropped and
/// what it was given is done.
pub struct Handle<E>(Arc<QueueCloser<E>>);

impl<E> Clone for Handle<E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<E> fmt::Debug for Handle<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}

/// Dropped with the last handle.
struct QueueCloser<E>(Arc<Queue<E>>);

impl<E> Drop for QueueCloser<E> {
    fn drop(&mut self) {
        self.0.state().is_closed = true;
        self.0.filled.notify_one();
    }
}

/// Something to be done with the database, on its thread.
type Job<E> = Box<dyn FnOnce(Rc<Database<E>>) -> Pin<Box<dyn Future<Output = ()>>> + Send>;

struct Queue<E> {
    state: Mutex<State<E>>,
    filled: Condvar,
}

struct State<E> {
    jobs: VecDeque<Job<E>>,
    is_closed: bool,
}

impl<E> Queue<E> {
    fn state(&self) -> MutexGuard<'_, State<E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What there is to do; waits for it if told to. Nothing once all handles are gone.
    fn take(&self, waits: bool) -> Option<VecDeque<Job<E>>> {
        let mut state = self.state();
        while waits && state.jobs.is_empty() && !state.is_closed {
            let filled = self.filled.wait(state);
            state = filled.unwrap_or_else(PoisonError::into_inner);
        }
        let is_over = state.is_closed && state.jobs.is_empty();
        (!is_over || !waits).then(|| std::mem::take(&mut state.jobs))
    }
}

impl<E: Endpoint> Handle<E> {
    /// Starts a thread, which makes its endpoint and its database by `open`.
    ///
    /// # Errors
    /// What `open` says; [`TxnError::Closed`] if there is no thread to be had.
    pub fn start(
        open: impl FnOnce() -> Result<Database<E>, TxnError> + Send + 'static,
    ) -> Result<Self, TxnError> {
        let queue = Arc::new(Queue {
            state: Mutex::new(State {
                jobs: VecDeque::new(),
                is_closed: false,
            }),
            filled: Condvar::new(),
        });
        let (tell, started) = std::sync::mpsc::sync_channel(1);
        let shared = Arc::new(QueueCloser(Arc::clone(&queue)));
        let work = move || match open() {
            Ok(database) => {
                let _ = tell.send(Ok(()));
                serve(&queue, database);
            }
            Err(error) => drop(tell.send(Err(error))),
        };
        let thread = thread::Builder::new()
            .name("farslot-txn".into())
            .spawn(work);
        drop(thread.map_err(|_| TxnError::Closed)?);
        started.recv().map_err(|_| TxnError::Closed)??;
        Ok(Self(shared))
    }

    /// As [`Database::run`].
    ///
    /// # Errors
    /// As [`Database::run`]; [`TxnError::Closed`] if the thread has ended: whether the transaction
    /// is committed cannot be told then.
    pub fn run<T: Send + 'static>(
        &self,
        body: impl AsyncFnMut(&mut Transaction<'_, E>) -> Result<T, TxnError> + Send + 'static,
    ) -> impl Future<Output = Result<T, TxnError>> + Send + 'static {
        self.ask(async move |database| database.run(body).await)
    }

    /// As [`Database::execute`].
    ///
    /// # Errors
    /// As [`Database::execute`]; see [`Handle::run`].
    pub fn execute(
        &self,
        node: u8,
        procedure: u16,
        input: Vec<u8>,
        room: usize,
    ) -> impl Future<Output = Result<Vec<u8>, TxnError>> + Send + 'static {
        self.ask(async move |database| {
            let reply = database.execute(node, procedure, &input, room).await;
            reply.map(|reply: Reply| reply.to_vec())
        })
    }

    fn ask<T: Send + 'static>(
        &self,
        work: impl AsyncFnOnce(Rc<Database<E>>) -> Result<T, TxnError> + Send + 'static,
    ) -> AnswerFuture<T> {
        let answer = Arc::new(Mutex::new(Answer::None(None)));
        let answer_sender = AnswerSender(Arc::clone(&answer));
        let job: Job<E> = Box::new(move |database| {
            Box::pin(async move {
                let end = work(database).await;
                answer_sender.tell(end);
            })
        });
        let mut state = self.0.0.state();
        if state.is_closed {
            drop(state);
            // Its future is told so.
            drop(job);
        } else {
            state.jobs.push_back(job);
            drop(state);
            self.0.0.filled.notify_one();
        }
        AnswerFuture(answer)
    }
}

/// Does all that there is, as much of it side by side as there is, until all handles are gone.
fn serve<E: Endpoint>(queue: &Arc<Queue<E>>, database: Database<E>) {
    let endpoint = database.shared_endpoint();
    let executor = Executor::new(Rc::clone(&endpoint));
    let _ends = QueueDrain(Arc::clone(queue));
    let database = Rc::new(database);
    let mut running = Vec::new();
    let mut idle_turns = 0;
    while let Some(jobs) = queue.take(running.is_empty()) {
        let is_new = !jobs.is_empty();
        let jobs = jobs.into_iter();
        running.extend(jobs.map(|job| executor.spawn(job(Rc::clone(&database)))));
        if executor.turn() || is_new {
            idle_turns = 0;
            running.retain(|task| task.try_take().is_none());
        } else {
            endpoint.wait(executor.next_deadline(), idle_turns);
            idle_turns += 1;
        }
    }
}

/// Whatever ends the thread, what it leaves undone fails.
struct QueueDrain<E>(Arc<Queue<E>>);

impl<E> Drop for QueueDrain<E> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.is_closed = true;
        let left = std::mem::take(&mut state.jobs);
        drop(state);
        drop(left);
    }
}

enum Answer<T> {
    None(Option<Waker>),
    Some(Result<T, TxnError>),
    Taken,
}

/// Who answers; without an answer, it is that there is none.
struct AnswerSender<T>(Arc<Mutex<Answer<T>>>);

impl<T> AnswerSender<T> {
    fn tell(self, end: Result<T, TxnError>) {
        self.put(end);
    }

    fn put(&self, end: Result<T, TxnError>) {
        let mut answer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Answer::None(waker) = &mut *answer {
            let waker = waker.take();
            *answer = Answer::Some(end);
            drop(answer);
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

impl<T> Drop for AnswerSender<T> {
    fn drop(&mut self) {
        self.put(Err(TxnError::Closed));
    }
}

/// The answer to come.
struct AnswerFuture<T>(Arc<Mutex<Answer<T>>>);

impl<T> Future for AnswerFuture<T> {
    type Output = Result<T, TxnError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut answer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *answer, Answer::Taken) {
            Answer::Some(end) => Poll::Ready(end),
            Answer::None(_) => {
                *answer = Answer::None(Some(cx.waker().clone()));
                Poll::Pending
            }
            Answer::Taken => panic!("a future that has ended is polled"),
        }
    }
}
