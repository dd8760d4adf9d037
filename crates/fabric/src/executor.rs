//! Runs many coroutines on one thread: run every ready task, ring the doorbell once, poll
//! completions, repeat.

use crate::window::beside_others;
use crate::{Endpoint, Nanos};
use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// One thread's coroutines over one endpoint. Tasks are plain futures and need not be `Send`.
pub struct Executor<E> {
    endpoint: Rc<E>,
    tasks: RefCell<Vec<Slot>>,
    vacant: RefCell<Vec<usize>>,
    ready: Arc<ReadyQueue>,
    root: Arc<RootWaker>,
}

impl<E: fmt::Debug> fmt::Debug for Executor<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor")
            .field("endpoint", &self.endpoint)
            .field(
                "tasks",
                &(self.tasks.borrow().len() - self.vacant.borrow().len()),
            )
            .finish_non_exhaustive()
    }
}

/// A place for a task. The future is taken out while it runs, so that it may spawn others.
struct Slot {
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
    waker: Arc<TaskWaker>,
}

#[derive(Default)]
struct ReadyQueue(Mutex<Vec<usize>>);

impl ReadyQueue {
    fn push(&self, task: usize) {
        self.lock().push(task);
    }

    fn take(&self) -> Vec<usize> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct TaskWaker {
    task: usize,
    /// Set while the task stands in the queue, so that it stands there once.
    queued: AtomicBool,
    queue: Arc<ReadyQueue>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.queue.push(self.task);
        }
    }
}

struct RootWaker(AtomicBool);

impl Wake for RootWaker {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

impl<E: Endpoint> Executor<E> {
    /// An executor without tasks.
    #[must_use]
    pub fn new(endpoint: Rc<E>) -> Self {
        Self {
            endpoint,
            tasks: RefCell::default(),
            vacant: RefCell::default(),
            ready: Arc::default(),
            root: Arc::new(RootWaker(AtomicBool::new(false))),
        }
    }

    /// The endpoint that the tasks use.
    #[must_use]
    pub fn endpoint(&self) -> &Rc<E> {
        &self.endpoint
    }

    /// Adds a task; it first runs in the next turn. Dropping the handle lets the task run on;
    /// dropping the executor drops its tasks.
    pub fn spawn<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> Join<T> {
        let outcome = Rc::new(RefCell::new(Outcome::Running(None)));
        let report = Rc::clone(&outcome);
        self.add(Box::pin(async move {
            let output = future.await;
            let before = report.replace(Outcome::Ended(Some(output)));
            if let Outcome::Running(Some(waiting)) = before {
                waiting.wake();
            }
        }));
        Join { outcome }
    }

    fn add(&self, future: Pin<Box<dyn Future<Output = ()>>>) {
        let mut tasks = self.tasks.borrow_mut();
        let task = self.vacant.borrow_mut().pop().unwrap_or(tasks.len());
        let waker = Arc::new(TaskWaker {
            task,
            queued: AtomicBool::new(true),
            queue: Arc::clone(&self.ready),
        });
        let slot = Slot {
            future: Some(future),
            waker,
        };
        if task == tasks.len() {
            tasks.push(slot);
        } else {
            tasks[task] = slot;
        }
        self.ready.push(task);
    }

    /// Tasks that have not ended.
    fn task_count(&self) -> usize {
        self.tasks.borrow().len() - self.vacant.borrow().len()
    }

    /// Runs each ready task once, in the order in which they were woken; returns whether any ran.
    pub fn run_ready(&self) -> bool {
        let ready = self.ready.take();
        for task in &ready {
            self.run(*task);
        }
        !ready.is_empty()
    }

    fn run(&self, task: usize) {
        let (future, waker) = {
            let mut tasks = self.tasks.borrow_mut();
            // A late wake of a task that was abandoned finds no slot.
            let Some(slot) = tasks.get_mut(task) else {
                return;
            };
            slot.waker.queued.store(false, Ordering::Release);
            (slot.future.take(), Arc::clone(&slot.waker))
        };
        // A late wake of a task that has ended finds no future.
        let Some(mut future) = future else { return };
        let waker = Waker::from(waker);
        let mut cx = Context::from_waker(&waker);
        match beside_others(self.task_count() > 1, || future.as_mut().poll(&mut cx)) {
            Poll::Pending => self.tasks.borrow_mut()[task].future = Some(future),
            Poll::Ready(()) => self.vacant.borrow_mut().push(task),
        }
    }

    /// One turn: run what is ready, ring the doorbell once, poll completions and timers. Returns
    /// whether anything happened.
    pub fn turn(&self) -> bool {
        let ran = self.run_ready();
        self.endpoint.ring_doorbell();
        let completed = self.endpoint.poll_completions();
        let fired = self.fire_timers();
        ran || completed > 0 || fired > 0
    }

    fn fire_timers(&self) -> usize {
        let timers = &self.endpoint.core().timers;
        if timers.is_empty() {
            return 0;
        }
        timers.fire(self.endpoint.now())
    }

    /// Fires the timers that are due; returns how many.
    pub fn fire_due_timers(&self) -> usize {
        self.fire_timers()
    }

    /// The earliest deadline that a task sleeps for.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.endpoint.core().timers.next_deadline()
    }

    /// Drops all tasks, as if their thread had died. Verbs in flight stay in flight.
    pub fn abandon(&self) {
        let tasks = std::mem::take(&mut *self.tasks.borrow_mut());
        self.vacant.borrow_mut().clear();
        drop(tasks);
        self.ready.take();
    }

    /// Runs `future` to completion, and spawned tasks alongside it. May be called from within a
    /// future that it runs, such as a batch's callback.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let mut output = None;
        {
            let future = pin!(future);
            let storing = OutputCapture {
                future,
                output: &mut output,
            };
            self.run_to_end(pin!(storing));
        }
        output.expect("a future that has ended has an output")
    }

    /// Compiled once, whatever the future.
    fn run_to_end(&self, mut future: Pin<&mut dyn Future<Output = ()>>) {
        let _blocking = self.endpoint.core().block();
        let waker = Waker::from(Arc::clone(&self.root));
        let mut cx = Context::from_waker(&waker);
        let mut idle_turns = 0;
        self.root.0.store(true, Ordering::Release);
        loop {
            let root_ready = self.root.0.swap(false, Ordering::AcqRel);
            let mut poll =
                || beside_others(self.task_count() > 0, || future.as_mut().poll(&mut cx));
            if root_ready && poll().is_ready() {
                self.endpoint.ring_doorbell();
                // An outer call may have been woken meanwhile: it looks once more.
                self.root.0.store(true, Ordering::Release);
                return;
            }
            if self.turn() || root_ready || self.root.0.load(Ordering::Acquire) {
                idle_turns = 0;
            } else {
                let (endpoint, deadline) = (&self.endpoint, self.next_deadline());
                let wait = || endpoint.wait(deadline, idle_turns);
                endpoint.core().waiting(|| endpoint.now(), deadline, wait);
                idle_turns = idle_turns.saturating_add(1);
            }
        }
    }
}

/// Stores the output of a future that lies elsewhere: a future is moved byte by byte.
struct OutputCapture<'s, F: Future> {
    future: Pin<&'s mut F>,
    output: &'s mut Option<F::Output>,
}

impl<F: Future> Future for OutputCapture<'_, F> {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let output = std::task::ready!(self.future.as_mut().poll(cx));
        *self.output = Some(output);
        Poll::Ready(())
    }
}

impl<F: Future> Unpin for OutputCapture<'_, F> {}

enum Outcome<T> {
    Running(Option<Waker>),
    Ended(Option<T>),
}

/// A spawned task's result; a future.
pub struct Join<T> {
    outcome: Rc<RefCell<Outcome<T>>>,
}

impl<T> fmt::Debug for Join<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_ended = matches!(*self.outcome.borrow(), Outcome::Ended(_));
        f.debug_struct("Join")
            .field("has_ended", &has_ended)
            .finish_non_exhaustive()
    }
}

impl<T> Join<T> {
    /// Takes the result, if the task has ended.
    #[must_use]
    pub fn try_take(&self) -> Option<T> {
        match &mut *self.outcome.borrow_mut() {
            Outcome::Running(_) => None,
            Outcome::Ended(output) => output.take(),
        }
    }
}

impl<T> Future for Join<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match &mut *self.outcome.borrow_mut() {
            Outcome::Running(waiting) => {
                *waiting = Some(cx.waker().clone());
                Poll::Pending
            }
            Outcome::Ended(output) => {
                Poll::Ready(output.take().expect("a task's result is taken once"))
            }
        }
    }
}
