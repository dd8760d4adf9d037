//! Many client threads in one thread of the operating system.
//!
//! Each client is an executor. The driver executes events up to the next moment at which a client
//! has something to do, gives that client one turn (completions, timers, ready tasks, doorbell),
//! and continues. A turn occupies the client's CPU for as long as its doorbells take; the client
//! gets no other turn meanwhile.

use super::clock::{Picos, from_nanos};
use super::endpoint::SimEndpoint;
use super::op::ClientId;
use super::parts::HostId;
use super::world::World;
use crate::{Endpoint, Executor, Join, Limits, Nanos};
use smallvec::SmallVec;
use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// The least CPU time of a turn in which some task ran, so that a task that only ever yields lets
/// time pass.
const LEAST_TURN: Picos = 10_000;

/// How a run ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RunEnd {
    /// All tasks ended, but for those of background clients and of clients that were stopped.
    Done,
    /// The time was up.
    TimeLimit,
    /// Nothing can happen any more, but tasks of these clients still wait.
    Deadlock(Vec<ClientId>),
}

/// A world and the client threads that run in it.
pub struct Simulation {
    world: World,
    clients: Vec<Client>,
    /// Which of `clients` has an endpoint, by its [`ClientId`].
    by_id: Vec<Option<usize>>,
    /// When clients are to have a turn. Entries that no client waits for any more are void.
    turns: BinaryHeap<Reverse<(Picos, usize)>>,
    bell: Arc<Bell>,
    /// Tasks of all clients but background ones that have not ended.
    tasks: TaskCount,
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation")
            .field("world", &self.world)
            .field("clients", &self.clients.len())
            .finish_non_exhaustive()
    }
}

struct Client {
    executor: Executor<SimEndpoint>,
    tasks: TaskCount,
    background: bool,
    /// The earliest turn that it waits for.
    next_turn: Option<Picos>,
    rope: Arc<Rope>,
}

impl Simulation {
    /// A simulation without clients.
    #[must_use]
    pub fn new(world: World) -> Self {
        Self {
            world,
            clients: Vec::new(),
            by_id: Vec::new(),
            turns: BinaryHeap::new(),
            bell: Arc::default(),
            tasks: TaskCount::default(),
        }
    }

    /// The world.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Adds a client thread on a machine.
    pub fn add_client(&mut self, host: HostId, limits: Limits) -> ClientId {
        self.add(host, limits, false)
    }

    /// Adds a client thread whose tasks do not keep a run going, such as a server's.
    pub fn add_background_client(&mut self, host: HostId, limits: Limits) -> ClientId {
        self.add(host, limits, true)
    }

    fn add(&mut self, host: HostId, limits: Limits, background: bool) -> ClientId {
        let endpoint = self.world.endpoint_on(host, limits);
        let id = endpoint.client();
        let index = self.clients.len();
        self.by_id.resize(id.0 as usize + 1, None);
        self.by_id[id.0 as usize] = Some(index);
        self.clients.push(Client {
            executor: Executor::new(endpoint),
            tasks: TaskCount::default(),
            background,
            next_turn: None,
            rope: Arc::new(Rope::new(index, Arc::clone(&self.bell))),
        });
        id
    }

    /// The endpoint of a client.
    ///
    /// # Panics
    /// If there is no such client here; so does [`Simulation::spawn`].
    #[must_use]
    pub fn endpoint(&self, client: ClientId) -> &Rc<SimEndpoint> {
        self.clients[self.index(client)].executor.endpoint()
    }

    /// Adds a task to a client.
    pub fn spawn<F>(
        &mut self,
        client: ClientId,
        task: impl FnOnce(Rc<SimEndpoint>) -> F,
    ) -> Join<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let target = &self.clients[self.index(client)];
        target.rope.pull();
        let endpoint = Rc::clone(target.executor.endpoint());
        let all = (!target.background).then_some(&self.tasks);
        target.executor.spawn(DrivenTask {
            future: Box::pin(task(endpoint)),
            waker: None,
            rope: Arc::clone(&target.rope),
            _counted: (target.tasks.one_more(), all.map(TaskCount::one_more)),
        })
    }

    /// Adds a client thread on host 0, with the default limits, and its first task.
    pub fn spawn_client<F>(&mut self, task: impl FnOnce(Rc<SimEndpoint>) -> F) -> Join<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let client = self.add_client(HostId(0), Limits::default());
        self.spawn(client, task)
    }

    /// Runs until all tasks have ended.
    pub fn run(&mut self) -> RunEnd {
        self.run_to(None)
    }

    /// Runs until all tasks have ended or the virtual clock has reached a time. A run can be
    /// continued by another.
    pub fn run_until(&mut self, time: Nanos) -> RunEnd {
        self.run_to(Some(from_nanos(time)))
    }

    fn run_to(&mut self, limit: Option<Picos>) -> RunEnd {
        loop {
            self.plan_turns();
            if self.tasks.get() == 0 {
                return RunEnd::Done;
            }
            let now = self.world.now_picos();
            match self.next_turn() {
                Some((at, client)) if at <= now => self.turn(client),
                _ if limit.is_some_and(|limit| now >= limit) => return RunEnd::TimeLimit,
                next => {
                    let until = next.map(|(at, _)| at).into_iter().chain(limit).min();
                    if self.world.advance(until) {
                        return RunEnd::Deadlock(self.waiting());
                    }
                }
            }
        }
    }

    /// Plans a turn for each client that was notified or woken.
    fn plan_turns(&mut self) {
        let mut woken = self.bell.take();
        let mut state = self.world.lock();
        for id in std::mem::take(&mut state.notified) {
            state.clients[id as usize].notified = false;
            woken.extend(self.by_id.get(id as usize).copied().flatten());
        }
        let now = state.now;
        let free = woken.iter().map(|client| {
            let id = self.clients[*client].executor.endpoint().client();
            state.clients[id.0 as usize].cpu_free.max(now)
        });
        let free: SmallVec<[Picos; 8]> = free.collect();
        drop(state);
        for (client, at) in woken.into_iter().zip(free) {
            self.plan_turn(client, at);
        }
    }

    fn plan_turn(&mut self, client: usize, at: Picos) {
        let planned = &mut self.clients[client].next_turn;
        if planned.is_none_or(|planned| at < planned) {
            *planned = Some(at);
            self.turns.push(Reverse((at, client)));
        }
    }

    fn next_turn(&mut self) -> Option<(Picos, usize)> {
        loop {
            let Reverse((at, client)) = *self.turns.peek()?;
            if self.clients[client].next_turn == Some(at) {
                return Some((at, client));
            }
            self.turns.pop();
        }
    }

    fn turn(&mut self, index: usize) {
        self.turns.pop();
        let client = &mut self.clients[index];
        client.next_turn = None;
        let endpoint = Rc::clone(client.executor.endpoint());
        if endpoint.is_stopped() {
            return client.executor.abandon();
        }
        client.rope.hold();
        endpoint.poll_completions();
        client.executor.fire_due_timers();
        client.rope.release();
        let ran = client.executor.run_ready();
        endpoint.ring_doorbell();
        let free = endpoint.end_turn(if ran { LEAST_TURN } else { 0 });
        if let Some(deadline) = client.executor.next_deadline() {
            self.plan_turn(index, from_nanos(deadline).max(free));
        }
    }

    fn waiting(&self) -> Vec<ClientId> {
        let waiting = self.clients.iter();
        let waiting = waiting.filter(|client| !client.background && client.tasks.get() > 0);
        waiting
            .map(|client| client.executor.endpoint().client())
            .collect()
    }

    fn index(&self, client: ClientId) -> usize {
        let index = self.by_id.get(client.0 as usize).copied().flatten();
        index.unwrap_or_else(|| panic!("client {} is not in this simulation", client.0))
    }
}

/// How many tasks there are that were neither ended nor dropped.
#[derive(Default)]
struct TaskCount(Rc<Cell<usize>>);

struct TaskGuard(Rc<Cell<usize>>);

impl TaskCount {
    fn one_more(&self) -> TaskGuard {
        self.0.set(self.0.get() + 1);
        TaskGuard(Rc::clone(&self.0))
    }

    fn get(&self) -> usize {
        self.0.get()
    }
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Where woken tasks tell the driver which client they belong to: they may be woken from another
/// client's turn, or by an event.
#[derive(Default)]
struct Bell(Mutex<Vec<usize>>);

impl Bell {
    fn take(&self) -> SmallVec<[usize; 8]> {
        let mut woken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        woken.drain(..).collect()
    }
}

/// A client's rope of the bell.
struct Rope {
    client: usize,
    /// Set while the driver knows that the client is to have a turn.
    pulled: AtomicBool,
    bell: Arc<Bell>,
}

impl Rope {
    const fn new(client: usize, bell: Arc<Bell>) -> Self {
        Self {
            client,
            pulled: AtomicBool::new(false),
            bell,
        }
    }

    fn pull(&self) {
        if !self.pulled.swap(true, Ordering::AcqRel) {
            let mut woken = self.bell.0.lock().unwrap_or_else(PoisonError::into_inner);
            woken.push(self.client);
        }
    }

    /// Keeps the bell quiet: the client is having its turn.
    fn hold(&self) {
        self.pulled.store(true, Ordering::Release);
    }

    fn release(&self) {
        self.pulled.store(false, Ordering::Release);
    }
}

/// A task whose wakers ring the bell.
struct DrivenTask<F> {
    future: Pin<Box<F>>,
    waker: Option<(Waker, Waker)>,
    rope: Arc<Rope>,
    _counted: (TaskGuard, Option<TaskGuard>),
}

impl<F: Future> Future for DrivenTask<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let known = this.waker.take();
        let current = known.filter(|(task, _)| task.will_wake(cx.waker()));
        let (_, ringing) = this.waker.insert(current.unwrap_or_else(|| {
            let task = cx.waker().clone();
            let ringing = RingingWaker {
                task: task.clone(),
                rope: Arc::clone(&this.rope),
            };
            (task, Waker::from(Arc::new(ringing)))
        }));
        this.future.as_mut().poll(&mut Context::from_waker(ringing))
    }
}

struct RingingWaker {
    task: Waker,
    rope: Arc<Rope>,
}

impl Wake for RingingWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.task.wake_by_ref();
        self.rope.pull();
    }
}
