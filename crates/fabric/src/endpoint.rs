//! The interface of every fabric: one thread's connections to its peers, and what all endpoints
//! share.

use crate::timer::Timers;
use crate::verb::{Completion, FromCompletion, Verb};
use crate::{
    Buffer, BufferPool, Counters, FabricError, InPlace, Message, Nanos, NodeId, NodeInfo,
    NodeState, Piece, RemoteAddr, Result, Rights,
};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::task::{Context, Poll, Waker};

/// What an endpoint may hold and how long it waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The most verbs in flight. Posting another one waits; it never fails.
    pub send_queue_depth: usize,
    /// Most bytes of one buffer, and so of one verb.
    pub largest_buffer: usize,
    /// Most bytes of all buffers together.
    pub buffer_budget: usize,
    /// After this long without an answer a verb fails with [`FabricError::TimedOut`].
    pub verb_timeout: Nanos,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            send_queue_depth: 1024,
            largest_buffer: 4 << 20,
            buffer_budget: 1 << 30,
            verb_timeout: 2_000_000_000,
        }
    }
}

/// The parts that the endpoints of all fabrics share.
pub struct EndpointCore {
    /// Buffers that verbs read into and write from.
    pub buffers: BufferPool,
    /// What was posted, and by which operations.
    pub counters: Counters,
    /// What this endpoint may hold.
    pub limits: Limits,
    /// Whether it works for the keeper of the memory, to whom that is open which is closed to
    /// clients. Fabrics take no notice of it.
    pub for_keeper: Cell<bool>,
    /// Memory of operations in place, which each takes from here and gives back.
    pub scratch: Cell<[Vec<u64>; 2]>,
    pub(crate) timers: Timers,
    queue_waiters: RefCell<Vec<Waker>>,
    nesting: Cell<u32>,
    /// How long the executor has waited with nothing to do, and how many futures want that counted.
    waited: Cell<Nanos>,
    waits_counted: Cell<u32>,
    /// Calls of [`EndpointCore::is_turn_over`] since it was last so.
    calls: Cell<u32>,
    /// Until when operations may work, if they may not wait.
    work_ends: Cell<Option<Nanos>>,
}

/// How often work in place may go on before other tasks shall run.
const TURN: u32 = 64;

impl fmt::Debug for EndpointCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointCore")
            .field("limits", &self.limits)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

/// One of those that are counted, such as the calls of
/// [`Executor::block_on`](crate::Executor::block_on), for as long as it runs.
pub(crate) struct CountGuard<'c>(&'c Cell<u32>);

impl Drop for CountGuard<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Limits the work of an endpoint's operations ([`EndpointCore::limit_work`]).
#[derive(Debug)]
pub struct WorkLimit<'c>(&'c Cell<Option<Nanos>>);

impl Drop for WorkLimit<'_> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

impl EndpointCore {
    /// The common parts for an endpoint with these limits.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let buffers = BufferPool::new(limits.largest_buffer, limits.buffer_budget);
        Self::with_buffers(limits, buffers)
    }

    /// The common parts for an endpoint whose buffers are of a kind of their own.
    pub(crate) fn with_buffers(limits: Limits, buffers: BufferPool) -> Self {
        Self {
            buffers,
            counters: Counters::default(),
            limits,
            for_keeper: Cell::new(false),
            scratch: Cell::default(),
            timers: Timers::default(),
            queue_waiters: RefCell::default(),
            nesting: Cell::new(0),
            waited: Cell::new(0),
            waits_counted: Cell::new(0),
            calls: Cell::new(0),
            work_ends: Cell::new(None),
        }
    }

    /// Has operations work until this time of the endpoint's clock at most, and never wait, for as
    /// long as what it returns is kept: so the owner of the memory executes what a call asks for,
    /// on a thread that serves others too. Code that waits or repeats asks
    /// [`EndpointCore::may_wait`] and [`EndpointCore::may_work`] first.
    #[must_use]
    pub fn limit_work(&self, until: Nanos) -> WorkLimit<'_> {
        self.work_ends.set(Some(until));
        WorkLimit(&self.work_ends)
    }

    /// Whether operations may wait for other clients.
    #[inline]
    pub fn may_wait(&self) -> bool {
        self.work_ends.get().is_none()
    }

    /// Whether operations may go on working. The clock is read only where that is limited.
    #[inline]
    pub fn may_work(&self, now: impl FnOnce() -> Nanos) -> bool {
        self.work_ends.get().is_none_or(|until| now() < until)
    }

    /// Whether a task that works [in place](Endpoint::in_place), and so never waits, shall let
    /// others run first: every 64th time.
    #[inline]
    pub fn is_turn_over(&self) -> bool {
        let calls = self.calls.get() + 1;
        self.calls.set(calls % TURN);
        calls == TURN
    }

    /// The current nesting depth of [`Executor::block_on`](crate::Executor::block_on) calls. A
    /// future at this depth must not wait for one that was started at a smaller depth, unless that
    /// is a spawned task: the outer future cannot run before the inner call returns.
    #[must_use]
    pub fn nesting(&self) -> u32 {
        self.nesting.get()
    }

    pub(crate) fn block(&self) -> CountGuard<'_> {
        self.nesting.set(self.nesting.get() + 1);
        CountGuard(&self.nesting)
    }

    /// Has waiting counted for as long as what it returns is kept.
    pub(crate) fn count_waiting(&self) -> CountGuard<'_> {
        self.waits_counted.set(self.waits_counted.get() + 1);
        CountGuard(&self.waits_counted)
    }

    /// Time waited in all while it was counted.
    pub(crate) fn waited(&self) -> Nanos {
        self.waited.get()
    }

    /// Does what waits, at most until a deadline, and counts how long that was. What it took beyond
    /// the deadline, because the machine ran something else, is not counted.
    pub(crate) fn waiting(
        &self,
        now: impl Fn() -> Nanos,
        deadline: Option<Nanos>,
        wait: impl FnOnce(),
    ) {
        if self.waits_counted.get() == 0 {
            return wait();
        }
        let since = now();
        wait();
        let until = now().min(deadline.unwrap_or(Nanos::MAX));
        let waited = until.saturating_sub(since);
        self.waited.set(self.waited.get().saturating_add(waited));
    }

    #[cold]
    pub(crate) fn wait_for_queue(&self, waker: &Waker) {
        self.counters.send_queue_was_full();
        self.queue_waiters.borrow_mut().push(waker.clone());
    }

    /// Wakes the tasks that wait for a place in the send queue. A fabric calls this when
    /// completions have made room.
    #[inline]
    pub fn queue_has_room(&self) {
        if !self.queue_waiters.borrow().is_empty() {
            self.queue_waiters.take().into_iter().for_each(Waker::wake);
        }
    }
}

/// Why a verb was not posted.
#[derive(Debug)]
pub enum PostError {
    /// The send queue is full. The verb is returned and can be posted after the next completions.
    QueueFull(Verb),
    /// The verb can never be posted.
    Rejected(FabricError),
}

/// One thread's connections to its peers: one per peer, never shared and never locked (paper 003,
/// section 3.4). Each fabric implements it; code uses it through
/// [`EndpointExt`](crate::EndpointExt).
pub trait Endpoint: 'static {
    /// A posted verb. Dropping it abandons the verb: it may still take effect, and its buffer stays
    /// with the fabric until it has completed.
    type Posted: Unpin;

    /// Buffers, counters, limits and timers.
    fn core(&self) -> &EndpointCore;

    /// How many nodes the endpoint is connected to; their ids count from 0.
    fn node_count(&self) -> usize;

    /// What the endpoint knows of a peer. A peer that it was never connected to has incarnation 0
    /// and no regions.
    ///
    /// # Errors
    /// [`FabricError::UnknownNode`].
    fn node(&self, node: NodeId) -> Result<NodeInfo>;

    /// The state of a peer as far as the endpoint knows. Sends nothing and makes no system call.
    ///
    /// # Errors
    /// [`FabricError::UnknownNode`].
    fn node_state(&self, node: NodeId) -> Result<NodeState>;

    /// Accepts a peer that [restarted empty](NodeState::Restarted): whatever was known of its
    /// memory is void. Verbs that were posted before the restart never take effect on the new
    /// memory. If the peer is up, this only returns what is known.
    ///
    /// # Errors
    /// [`FabricError::UnknownNode`]; the error of its state if the peer is [down](NodeState::Down);
    /// [`FabricError::DuplicateNode`] if it is now the same node as another peer.
    fn adopt(&self, node: NodeId) -> Result<NodeInfo>;

    /// Puts a verb into the send queue. It leaves with the next doorbell, at the latest.
    ///
    /// # Errors
    /// [`PostError::QueueFull`] returns the verb; [`PostError::Rejected`] if its address or rights
    /// are wrong or its peer is down.
    fn post(&self, verb: Verb) -> std::result::Result<Self::Posted, PostError>;

    /// Posts a [`Verb::Read`]: [`Endpoint::post`] for the most frequent verb.
    ///
    /// # Errors
    /// As [`Endpoint::post`].
    #[inline]
    fn post_read(
        &self,
        from: RemoteAddr,
        into: Buffer,
    ) -> std::result::Result<Self::Posted, PostError> {
        self.post(Verb::Read { from, into })
    }

    /// The region of an address as memory of this process, where it is mapped, its node is there
    /// and these rights are granted; nothing on fabrics whose memory is elsewhere. What is loaded
    /// from it and swapped in it was not posted, so that nothing counts it; whoever does that
    /// counts it ([`Counters::add`]).
    #[inline]
    fn in_place(&self, _at: RemoteAddr, _needed: Rights) -> Option<InPlace<'_>> {
        None
    }

    /// Sees to it that there is memory at these addresses, where they are of a region that is made
    /// of [segments](crate::Segments); false if there is none to be had. If it `reclaims`, it also
    /// takes what others do not need, which may take seconds.
    ///
    /// # Errors
    /// What a verb fails with.
    #[inline]
    fn provide(&self, _piece: Piece, _reclaims: bool) -> impl Future<Output = Result<bool>> {
        std::future::ready(Ok(true))
    }

    /// From now on verbs that change the memory of the word's node are posted, or executed, only
    /// while the word is seen to hold that value, where the endpoint sees to that; 0 ends it. What
    /// changes the word itself is always posted. Returns false once the word is known to hold
    /// another value.
    #[inline]
    fn fence(&self, _word: RemoteAddr, _holds: u64) -> bool {
        true
    }

    /// How long after the word was changed a verb may take effect that was posted behind a
    /// [fence](Endpoint::fence); 0 where the endpoint does not see to fences.
    fn fence_lasts(&self) -> Nanos {
        0
    }

    /// What a call costs, in READs of a few cache lines: of whatever bounds the rate of both. Where
    /// NICs answer READs these are messages: a call takes one each way (paper 003, section 5.2).
    /// Over TCP it is the processors' time, with 16 or 64 of either under way 1.9 to 2.5.
    fn call_cost(&self) -> f64 {
        2.0
    }

    /// Returns a posted verb's completion, or wakes the task when it arrives.
    fn poll_posted(
        &self,
        posted: &mut Self::Posted,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Completion>>;

    /// [`Endpoint::poll_posted`] for what [`Endpoint::post_read`] has posted.
    #[inline]
    fn poll_read(&self, posted: &mut Self::Posted, cx: &mut Context<'_>) -> Poll<Result<Buffer>> {
        self.poll_posted(posted, cx)
            .map(|outcome| outcome.map(Buffer::from_completion))
    }

    /// Sends all verbs posted since the last doorbell, as one batch with one signaled verb.
    fn ring_doorbell(&self);

    /// Takes the completions that have arrived and wakes their tasks; returns how many.
    fn poll_completions(&self) -> usize;

    /// The current time on the endpoint's clock.
    fn now(&self) -> Nanos;

    /// Called when no task is ready. Returns once a completion may have arrived or the deadline has
    /// passed. `idle_turns` counts consecutive calls without result.
    fn wait(&self, deadline: Option<Nanos>, idle_turns: u32);
}

/// The receiving side of `write_imm`: held by the owner of a node.
pub trait Inbox {
    /// Takes the oldest waiting message.
    fn take_message(&self) -> Option<Message>;
}
