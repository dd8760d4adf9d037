//! One thread's door to its peers.

use crate::counters::{Booking, Operation};
use crate::reader::Reader;
use crate::timer::{Sleep, Timers};
use crate::verb::{
    Completion, FromCompletion, Pieces, Verb, VerbFuture, check_one_node, gathered_len,
};
use crate::{
    Buffer, BufferPool, Counters, FabricError, InPlace, Message, Nanos, NodeId, NodeInfo,
    NodeState, OperationClass, RemoteAddr, Result, Rights,
};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::task::{Context, Poll, Waker};

/// What an endpoint may hold and how long it waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Verbs that may be posted and not yet completed. Posting past it waits, never fails.
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
            verb_timeout: 1_000_000_000,
        }
    }
}

/// The parts that the endpoints of all fabrics have.
pub struct EndpointCore {
    /// Buffers that verbs read into and write from.
    pub buffers: BufferPool,
    /// What was posted, and by which operations.
    pub counters: Counters,
    /// What this endpoint may hold.
    pub limits: Limits,
    pub(crate) timers: Timers,
    queue_waiters: RefCell<Vec<Waker>>,
    nesting: Cell<u32>,
    /// Calls of [`EndpointCore::is_turn_over`] since it was last so.
    calls: Cell<u32>,
}

/// How often work in place may go on before other tasks shall run.
const TURN: u32 = 64;

/// A call of [`Executor::block_on`](crate::Executor::block_on), for as long as it runs.
pub(crate) struct Blocking<'c>(&'c Cell<u32>);

impl Drop for Blocking<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
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
            timers: Timers::default(),
            queue_waiters: RefCell::default(),
            nesting: Cell::new(0),
            calls: Cell::new(0),
        }
    }

    /// Whether a task that works [in place](Endpoint::in_place), and so never waits, shall let others run first: every
    /// 64th time.
    #[inline]
    pub fn is_turn_over(&self) -> bool {
        let calls = self.calls.get() + 1;
        self.calls.set(calls % TURN);
        calls == TURN
    }

    /// How many calls of [`Executor::block_on`](crate::Executor::block_on) are within one another at this moment. What a
    /// future waits for that was begun within fewer of them, and is no task, cannot happen before it has ended.
    #[must_use]
    pub fn nesting(&self) -> u32 {
        self.nesting.get()
    }

    pub(crate) fn block(&self) -> Blocking<'_> {
        self.nesting.set(self.nesting.get() + 1);
        Blocking(&self.nesting)
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
    /// The send queue is full; the verb comes back, to be posted after the next completions.
    QueueFull(Verb),
    /// The verb can never be posted.
    Rejected(FabricError),
}

/// One thread's door to its peers: one connection per peer, never shared, never locked (paper 003,
/// section 3.4). Implemented once per fabric; used through [`EndpointExt`].
pub trait Endpoint: 'static {
    /// A posted verb. Dropping it abandons the verb: it may still take effect, and its buffer stays
    /// with the fabric until it has completed.
    type Posted: Unpin;

    /// Buffers, counters, limits and timers.
    fn core(&self) -> &EndpointCore;

    /// How many nodes the endpoint is connected to; their ids count from 0.
    fn node_count(&self) -> usize;

    /// What the endpoint knows of a peer. Of one that it was never connected to it knows nothing: its
    /// incarnation is 0, and it has no regions.
    ///
    /// # Errors
    /// [`FabricError::UnknownNode`].
    fn node(&self, node: NodeId) -> Result<NodeInfo>;

    /// How the endpoint stands with a peer, as far as it knows; this asks nobody, and costs no system call.
    ///
    /// # Errors
    /// [`FabricError::UnknownNode`].
    fn node_state(&self, node: NodeId) -> Result<NodeState>;

    /// Takes a peer that [came back empty](NodeState::Restarted) for what it is now: nothing known of its
    /// memory before holds any more. Verbs that were posted to it before never take effect on what it is
    /// now. Of a peer that is up this only returns what is known.
    ///
    /// # Errors
    /// [`FabricError::UnknownNode`]; of a peer that is [down](NodeState::Down), what its state says;
    /// [`FabricError::DuplicateNode`] if it is now one of the others.
    fn adopt(&self, node: NodeId) -> Result<NodeInfo>;

    /// Puts a verb into the send queue. It leaves with the next doorbell, at the latest.
    ///
    /// # Errors
    /// [`PostError::QueueFull`] gives the verb back; [`PostError::Rejected`] where its address or
    /// its rights are wrong or its peer is gone.
    fn post(&self, verb: Verb) -> std::result::Result<Self::Posted, PostError>;

    /// Posts a [`Verb::Read`]: [`Endpoint::post`] for the verb that is by far the most frequent.
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

    /// The region of an address as memory of this process, where it is mapped, its node is there and these rights are
    /// granted; nothing on fabrics whose memory is elsewhere. What is loaded from it was not posted, so that nothing
    /// counts it; whoever loads books that ([`Counters::add`]).
    #[inline]
    fn in_place(&self, _at: RemoteAddr, _needed: Rights) -> Option<InPlace<'_>> {
        None
    }

    /// Looks whether a posted verb has completed; if not, its task is woken when it has.
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

    /// Sends off all verbs posted since the last doorbell, as one batch with one signaled verb.
    fn ring_doorbell(&self);

    /// Takes the completions that have arrived and wakes their tasks; returns how many.
    fn poll_completions(&self) -> usize;

    /// The time.
    fn now(&self) -> Nanos;

    /// Called when nothing can run: returns when a completion may have arrived or the deadline has
    /// passed. `idle_turns` counts the fruitless calls in a row.
    fn wait(&self, deadline: Option<Nanos>, idle_turns: u32);
}

/// The receiving side of `write_imm`: held by the owner of a node.
pub trait Inbox {
    /// The oldest message that was not taken yet.
    fn take_message(&self) -> Option<Message>;
}

/// The verbs as futures. A future posts its verb when it is first polled.
pub trait EndpointExt: Endpoint + Sized {
    /// Reads `len` bytes; they may be torn at any 8-byte boundary.
    #[inline]
    fn read(&self, from: RemoteAddr, len: usize) -> VerbFuture<'_, Self, Buffer> {
        let into = self.core().buffers.take(len);
        VerbFuture::new(self, into.map(|into| Verb::Read { from, into }))
    }

    /// A [`Reader`] over this endpoint.
    #[inline]
    fn reader(&self) -> Reader<'_, Self> {
        Reader::new(self)
    }

    /// Reads several pieces of one node into one buffer, each at the next multiple of 8 bytes.
    #[inline]
    fn read_many(&self, pieces: Pieces) -> VerbFuture<'_, Self, Buffer> {
        let into =
            check_one_node(&pieces).and_then(|()| self.core().buffers.take(gathered_len(&pieces)));
        VerbFuture::new(self, into.map(|into| Verb::ReadMany { pieces, into }))
    }

    /// Writes the buffer.
    #[inline]
    fn write(&self, to: RemoteAddr, data: Buffer) -> VerbFuture<'_, Self, ()> {
        VerbFuture::new(self, Ok(Verb::Write { to, data }))
    }

    /// Replaces the word at `at` by `new` if it is `expected`; resolves to what it was.
    #[inline]
    fn compare_swap(&self, at: RemoteAddr, expected: u64, new: u64) -> VerbFuture<'_, Self, u64> {
        VerbFuture::new(self, Ok(Verb::CompareSwap { at, expected, new }))
    }

    /// Adds to the word at `at`, wrapping; resolves to what it was.
    #[inline]
    fn fetch_add(&self, at: RemoteAddr, add: u64) -> VerbFuture<'_, Self, u64> {
        VerbFuture::new(self, Ok(Verb::FetchAdd { at, add }))
    }

    /// Writes the buffer, then leaves a [`Message`] with the owner of the node.
    #[inline]
    fn write_imm(&self, to: RemoteAddr, data: Buffer, imm: u32) -> VerbFuture<'_, Self, ()> {
        VerbFuture::new(self, Ok(Verb::WriteImm { to, data, imm }))
    }

    /// Books the verbs of `future` to one operation of `class`.
    #[inline]
    fn operation<F: Future>(&self, class: OperationClass, future: F) -> Operation<'_, F> {
        self.operation_begun(class, Booking::default(), future)
    }

    /// Books the verbs of `future` to an operation of `class` that has posted others before.
    #[inline]
    fn operation_begun<F: Future>(
        &self,
        class: OperationClass,
        before: Booking,
        future: F,
    ) -> Operation<'_, F> {
        Operation::new(&self.core().counters, class, before, future)
    }

    /// Whether a peer can be reached and is what it was, as far as is known without asking it
    /// ([`Endpoint::node_state`]); one that the endpoint was never connected to is not.
    fn is_up(&self, node: NodeId) -> bool {
        self.node_state(node) == Ok(NodeState::Up)
    }

    /// Resolves `span` from now.
    fn sleep(&self, span: Nanos) -> Sleep<'_> {
        Sleep::until(&self.core().timers, self.now().saturating_add(span))
    }

    /// Runs `future` for at most `span`; past that it is dropped, which is safe for every verb.
    ///
    /// # Errors
    /// [`TimedOut`](crate::TimedOut) if it did not end in time.
    fn timeout<F: Future>(
        &self,
        span: Nanos,
        future: F,
    ) -> impl Future<Output = std::result::Result<F::Output, crate::TimedOut>> {
        crate::timer::timeout(self.sleep(span), span, future)
    }
}

impl<E: Endpoint> EndpointExt for E {}
