//! An endpoint over shared memory: its verbs are the thread's own loads, stores and atomics.
//!
//! Writes and atomics happen when they are posted. So do messages, unless the receiver's mailbox is
//! full: then the endpoint keeps them and delivers them in order once there is room, even if their
//! futures were dropped. Calls to another process's node complete with the owner's reply (see
//! [`calls`](super::calls)). Posting a READ prefetches its cache lines, at once or with the
//! doorbell. Its bytes are copied one turn of the executor later, when the task takes the
//! completion and the lines have arrived. (Verbs that need not wait are not posted: see
//! [`VerbFuture`](crate::VerbFuture).)

use super::attach::Attachment;
use super::calls::{CallChannels, OutgoingCall};
use super::parked::ParkedMessages;
use super::promised::{PromisedReplies, PromisedReply};
use super::settled::Settled;
use crate::memory::{Node, mailbox};
use crate::verb::{check_access, check_aligned, check_gathered};
use crate::{
    Buffer, CallAnswer, Completion, Endpoint, EndpointCore, FabricError, InPlace, Limits, Message,
    Nanos, NodeId, NodeInfo, NodeState, Pieces, PostError, RegionId, RemoteAddr, Result, Rights,
    Verb,
};
use rustix::time::{ClockId, clock_gettime};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::Range;
use std::rc::Rc;
use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// An endpoint over one or more nodes in shared memory.
pub struct ShmEndpoint {
    core: EndpointCore,
    nodes: Box<[Node]>,
    /// The bytes of region 0 that there are for it.
    area: Range<u64>,
    /// Verbs posted so far; their numbers.
    posted: Cell<u64>,
    /// Verbs that a doorbell has sent off.
    sent: Cell<u64>,
    /// Verbs that have completed, always in order.
    completed: Cell<u64>,
    waiting: RefCell<Vec<Waker>>,
    /// What was posted to be read and is not prefetched yet: node, first byte, bytes.
    wanted: [Cell<(u16, u64, usize)>; BURST],
    wanted_count: Cell<usize>,
    parked: ParkedMessages,
    call_channels: CallChannels,
    promised: PromisedReplies,
    /// Messages that wait for room and calls that wait for replies. They keep their places in the
    /// send queue.
    lasting: Cell<usize>,
}

impl fmt::Debug for ShmEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShmEndpoint")
            .field("nodes", &self.nodes)
            .field("posted", &self.posted.get())
            .field("completed", &self.completed.get())
            .finish_non_exhaustive()
    }
}

/// Reads whose prefetches are issued together. A processor walks the page table for several
/// addresses at a time, but only for those that stand close together in its instructions:
/// prefetches issued one by one, each among the hundreds of instructions of a lookup, wait for each
/// other's walks. Too many together ask for more lines than can be under way, and hold up what
/// follows.
const BURST: usize = 4;

/// A verb posted to shared memory.
pub struct ShmPosted {
    number: u64,
    rest: CompletionAction,
}

impl fmt::Debug for ShmPosted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShmPosted")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

/// What is left to do when a posted verb completes.
enum CompletionAction {
    /// Copy from byte `from` of the node's memory.
    Copy {
        node: u16,
        from: u64,
        into: Option<Buffer>,
    },
    Gather(Box<(Pieces, Option<Buffer>)>),
    /// Wait until the parked message is delivered or given up.
    Deliver(Rc<Settled<()>>),
    /// Wait for the reply of another process, or of another thread.
    Ask(Rc<Settled<Buffer>>),
    /// Nothing but to take this.
    Done(Option<Completion>),
}

impl CompletionAction {
    const fn done(completion: Completion) -> Self {
        Self::Done(Some(completion))
    }
}

impl ShmEndpoint {
    /// An endpoint that is connected to `nodes`, numbered in this order.
    #[must_use]
    pub fn new(nodes: Vec<Node>, limits: Limits) -> Self {
        Self::confined(nodes, 0..u64::MAX, limits)
    }

    /// An endpoint that reaches of each node's first region no more than these bytes, whatever
    /// leads it astray there: verbs past them are [out of bounds](FabricError::OutOfBounds).
    #[must_use]
    pub fn confined(nodes: Vec<Node>, area: Range<u64>, limits: Limits) -> Self {
        Self {
            core: EndpointCore::new(limits),
            nodes: nodes.into(),
            area,
            posted: Cell::new(0),
            sent: Cell::new(0),
            completed: Cell::new(0),
            waiting: RefCell::default(),
            wanted: Default::default(),
            wanted_count: Cell::new(0),
            parked: ParkedMessages::default(),
            call_channels: CallChannels::default(),
            promised: PromisedReplies::default(),
            lasting: Cell::new(0),
        }
    }

    /// The node, and the byte of its memory at which a checked access starts.
    #[inline]
    fn locate(&self, at: RemoteAddr, len: u64, needed: Rights) -> Result<(&Node, u64)> {
        let Some(node) = self.nodes.get(usize::from(at.node.0)) else {
            return Err(self.unknown(at.node));
        };
        if node.is_barred() {
            return Err(node.why_barred(at.node));
        }
        let index = usize::from(at.region.0);
        let Some(region) = node.region(index) else {
            return Err(FabricError::UnknownRegion {
                node: at.node,
                region: at.region,
                regions: node.info().regions.len(),
            });
        };
        check_access(at, len, needed, region)?;
        // It lies in the region, so that the sum is no overflow.
        if index == 0 && (at.offset < self.area.start || at.offset + len > self.area.end) {
            return Err(FabricError::OutOfBounds {
                at,
                len,
                region_len: self.area.end.min(region.len),
            });
        }
        Ok((node, node.start_of(index) + at.offset))
    }

    #[cold]
    fn unknown(&self, node: NodeId) -> FabricError {
        FabricError::UnknownNode {
            node,
            connected: self.nodes.len(),
        }
    }

    /// Does what a verb does when it is posted; returns what is left.
    #[inline]
    fn start(&self, verb: Verb) -> Result<CompletionAction> {
        let needed = verb.needs();
        Ok(match verb {
            Verb::Read { from, into } => return self.start_read(from, into),
            Verb::ReadMany { pieces, into } => {
                for piece in &pieces {
                    let (_, byte) = self.locate(piece.from, piece.len as u64, needed)?;
                    self.prefetch_soon(piece.from.node.0, byte, piece.len);
                }
                check_gathered(&pieces, &into)?;
                CompletionAction::Gather(Box::new((pieces, Some(into))))
            }
            Verb::Write { to, data } => {
                let (node, byte) = self.locate(to, data.len() as u64, needed)?;
                node.words().copy_in(byte, data.len(), data.words());
                CompletionAction::done(Completion::Placed)
            }
            Verb::CompareSwap { at, expected, new } => {
                check_aligned(at)?;
                let (node, byte) = self.locate(at, 8, needed)?;
                let word = node.words().compare_swap(byte, expected, new);
                CompletionAction::done(Completion::Word(word))
            }
            Verb::FetchAdd { at, add } => {
                check_aligned(at)?;
                let (node, byte) = self.locate(at, 8, needed)?;
                CompletionAction::done(Completion::Word(node.words().fetch_add(byte, add)))
            }
            Verb::Call {
                node,
                region,
                request,
                reply,
            } => return self.call((node, region), request, reply),
            Verb::WriteImm { to, data, imm } => {
                if data.len() > mailbox::LONGEST {
                    return Err(FabricError::BufferTooLarge {
                        requested: data.len(),
                        limit: mailbox::LONGEST,
                    });
                }
                let (node, byte) = self.locate(to, data.len() as u64, needed)?;
                node.words().copy_in(byte, data.len(), data.words());
                let message = Message {
                    imm,
                    len: data.len() as u32,
                };
                let deadline = self.deadline();
                let parked = self
                    .parked
                    .deliver_or_park((to.node.0, node), message, deadline);
                self.note_lasting();
                parked.map_or(
                    CompletionAction::done(Completion::Placed),
                    CompletionAction::Deliver,
                )
            }
        })
    }

    /// When what is posted now has taken too long.
    fn deadline(&self) -> Nanos {
        self.now().saturating_add(self.core.limits.verb_timeout)
    }

    fn note_lasting(&self) {
        let calls = self.call_channels.open() + self.promised.len();
        self.lasting.set(self.parked.len() + calls);
    }

    /// Posts a call to another process; one to a node of this process is answered by this thread,
    /// as the owner's threads would: the memory is as near to it.
    fn call(
        &self,
        (node, region): (NodeId, RegionId),
        request: Buffer,
        mut reply: Buffer,
    ) -> Result<CompletionAction> {
        let start = RemoteAddr {
            node,
            region,
            offset: 0,
        };
        let (owner, _) = self.locate(start, 0, Rights::NONE)?;
        if let Some(attached) = owner.companion::<Attachment>() {
            let call = OutgoingCall {
                region,
                request,
                reply,
                timeout: self.core.limits.verb_timeout,
                deadline: self.deadline(),
            };
            let answer = self.call_channels.post(node, attached, call)?;
            self.note_lasting();
            return Ok(CompletionAction::Ask(answer));
        }
        let handler = owner.handler(node, region)?;
        if !handler.checks_callers() {
            self.locate(start, 0, Rights::CALL)?;
        }
        let allowed = |bytes: Range<u64>, needed| {
            let offset = bytes.start;
            let at = RemoteAddr { offset, ..start };
            let len = bytes.end.saturating_sub(offset);
            self.locate(at, len, needed).map(drop)
        };
        match owner.answer_call(&*handler, region, &request, &mut reply, &allowed) {
            CallAnswer::Now(bytes) => {
                reply.truncate(bytes);
                Ok(CompletionAction::done(Completion::Replied(reply)))
            }
            CallAnswer::Later(later) => {
                let answer = self.promised.wait_for(PromisedReply {
                    node,
                    region,
                    later,
                    reply,
                    timeout: self.core.limits.verb_timeout,
                    deadline: self.deadline(),
                });
                self.note_lasting();
                Ok(CompletionAction::Ask(answer))
            }
        }
    }

    /// Sees to what lasts; returns how many verbs are done.
    #[inline(never)]
    fn settle_lasting(&self) -> usize {
        let now = self.now();
        let delivered = self.parked.deliver(&self.nodes, now);
        let answered = self.call_channels.collect(&self.nodes, now) + self.promised.collect(now);
        self.note_lasting();
        delivered + answered
    }

    /// Prefetches a span of a node's memory in the next burst.
    #[inline(always)]
    fn prefetch_soon(&self, node: u16, byte: u64, len: usize) {
        let waiting = self.wanted_count.get();
        self.wanted[waiting].set((node, byte, len));
        self.wanted_count.set(waiting + 1);
        if waiting + 1 == BURST {
            self.prefetch();
        }
    }

    /// Issues the prefetches that were put off.
    fn prefetch(&self) {
        for wanted in &self.wanted[..self.wanted_count.take()] {
            let (node, byte, len) = wanted.get();
            self.nodes[usize::from(node)].words().prefetch(byte, len);
        }
    }

    #[inline(always)]
    fn start_read(&self, from: RemoteAddr, into: Buffer) -> Result<CompletionAction> {
        let (_, byte) = self.locate(from, into.len() as u64, Rights::READ)?;
        self.prefetch_soon(from.node.0, byte, into.len());
        Ok(CompletionAction::Copy {
            node: from.node.0,
            from: byte,
            into: Some(into),
        })
    }

    /// Copies what a read was posted for.
    #[inline(always)]
    fn finish_read(&self, node: u16, from: u64, into: &mut Option<Buffer>) -> Result<Buffer> {
        let at = &self.nodes[usize::from(node)];
        if at.is_barred() {
            return Err(at.why_barred(NodeId(node)));
        }
        let mut into = into.take().expect("a read completes once");
        let len = into.len();
        at.words().copy_out(from, len, into.words_mut());
        Ok(into)
    }

    /// The number of the next verb, if the send queue has room for it.
    #[inline]
    fn next_number(&self) -> Option<u64> {
        let number = self.posted.get() + 1;
        let under_way = number - self.completed.get() + self.lasting.get() as u64;
        (under_way <= self.core.limits.send_queue_depth as u64).then_some(number)
    }

    fn gather(&self, pieces: &Pieces, into: &mut Buffer) -> Result<()> {
        let mut at = 0;
        for piece in pieces {
            let (node, byte) = self.locate(piece.from, piece.len as u64, Rights::READ)?;
            let words = &mut into.words_mut()[at..];
            node.words().copy_out(byte, piece.len, words);
            at += piece.len.div_ceil(8);
        }
        Ok(())
    }

    #[inline]
    fn wake_later(&self, waker: &Waker) {
        let mut waiting = self.waiting.borrow_mut();
        // Verbs that one task posts in one turn need one wake.
        if !waiting.last().is_some_and(|last| last.will_wake(waker)) {
            waiting.push(waker.clone());
        }
    }
}

/// The longest sleep while an answer of another thread is waited for: the deadline may pass
/// meanwhile.
const LONGEST_PARK: Duration = Duration::from_millis(20);

/// What a call costs, in READs: 2.4 to 3.5 where its client executes it; 4.6 of another process
/// with 16 of either under way, and 52 with one, for then each call wakes its owner.
const CALL_COST: f64 = 4.0;

impl Endpoint for ShmEndpoint {
    type Posted = ShmPosted;

    #[inline]
    fn core(&self) -> &EndpointCore {
        &self.core
    }

    fn node_count(&self) -> usize {
        self.nodes.len()
    }

    fn node(&self, node: NodeId) -> Result<NodeInfo> {
        match self.nodes.get(usize::from(node.0)) {
            Some(node) => Ok(node.info().clone()),
            None => Err(self.unknown(node)),
        }
    }

    fn node_state(&self, node: NodeId) -> Result<NodeState> {
        let known = self.nodes.get(usize::from(node.0));
        let known = known.ok_or_else(|| self.unknown(node))?;
        Ok(if known.is_gone() {
            NodeState::Down(FabricError::NodeStopped { node, sent: true })
        } else {
            NodeState::Up
        })
    }

    /// The memory of a node goes with its owner's process, and a process that is served under its
    /// name later is another node; of memory that is kept the next owner is the same node, and the
    /// endpoint then finds it up again.
    fn adopt(&self, node: NodeId) -> Result<NodeInfo> {
        match self.node_state(node)? {
            NodeState::Down(error) => Err(error),
            _ => self.node(node),
        }
    }

    fn call_cost(&self) -> f64 {
        CALL_COST
    }

    #[inline]
    fn post(&self, verb: Verb) -> std::result::Result<ShmPosted, PostError> {
        let Some(number) = self.next_number() else {
            return Err(PostError::QueueFull(verb));
        };
        let rest = self.start(verb).map_err(PostError::Rejected)?;
        self.posted.set(number);
        Ok(ShmPosted { number, rest })
    }

    #[inline(always)]
    fn post_read(
        &self,
        from: RemoteAddr,
        into: Buffer,
    ) -> std::result::Result<ShmPosted, PostError> {
        let Some(number) = self.next_number() else {
            return Err(PostError::QueueFull(Verb::Read { from, into }));
        };
        let rest = self.start_read(from, into).map_err(PostError::Rejected)?;
        self.posted.set(number);
        Ok(ShmPosted { number, rest })
    }

    #[inline]
    fn in_place(&self, at: RemoteAddr, needed: Rights) -> Option<InPlace<'_>> {
        let node = self.nodes.get(usize::from(at.node.0))?;
        let index = usize::from(at.region.0);
        let region = node.region(index)?;
        if node.is_barred() || !region.rights.allow(needed) {
            return None;
        }
        let area = match index {
            0 => self.area.start..self.area.end.min(region.len),
            _ => 0..region.len,
        };
        let start = RemoteAddr {
            offset: area.start,
            ..at
        };
        let len = area.end.saturating_sub(area.start);
        Some(InPlace::new(node.words_of(index), start, len, needed))
    }

    #[inline]
    fn poll_read(&self, posted: &mut ShmPosted, cx: &mut Context<'_>) -> Poll<Result<Buffer>> {
        if posted.number > self.completed.get() {
            self.wake_later(cx.waker());
            return Poll::Pending;
        }
        match &mut posted.rest {
            CompletionAction::Copy { node, from, into } => {
                Poll::Ready(self.finish_read(*node, *from, into))
            }
            _ => unreachable!("posted as a read"),
        }
    }

    #[inline]
    fn poll_posted(
        &self,
        posted: &mut ShmPosted,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Completion>> {
        if posted.number > self.completed.get() {
            self.wake_later(cx.waker());
            return Poll::Pending;
        }
        Poll::Ready(match &mut posted.rest {
            CompletionAction::Copy { node, from, into } => {
                self.finish_read(*node, *from, into).map(Completion::Filled)
            }
            CompletionAction::Gather(gather) => {
                let (pieces, into) = &mut **gather;
                let mut into = into.take().expect("a gather completes once");
                self.gather(pieces, &mut into)
                    .map(|()| Completion::Filled(into))
            }
            CompletionAction::Deliver(delivery) => {
                return delivery.poll(cx).map_ok(|()| Completion::Placed);
            }
            CompletionAction::Ask(asked) => return asked.poll(cx).map_ok(Completion::Replied),
            CompletionAction::Done(done) => Ok(done.take().expect("a verb completes once")),
        })
    }

    #[inline]
    fn ring_doorbell(&self) {
        if self.sent.get() != self.posted.get() {
            self.sent.set(self.posted.get());
            self.prefetch();
            self.core.counters.doorbell_rung();
            if self.call_channels.open() > 0 {
                self.call_channels.ring();
            }
        }
    }

    #[inline]
    fn poll_completions(&self) -> usize {
        let completed = self.sent.get() - self.completed.get();
        self.completed.set(self.sent.get());
        let settled = match self.lasting.get() {
            0 => 0,
            _ => self.settle_lasting(),
        };
        let mut waiting = self.waiting.borrow_mut();
        if completed > 0 || settled > 0 || !waiting.is_empty() {
            waiting.drain(..).for_each(Waker::wake);
            drop(waiting);
            self.core.queue_has_room();
        }
        completed as usize + settled
    }

    fn now(&self) -> Nanos {
        #[cfg(feature = "schedule")]
        if let Some(now) = crate::schedule::now() {
            return now;
        }
        // Half of the instructions of `Instant`.
        let clock = || {
            let now = clock_gettime(ClockId::Monotonic);
            now.tv_sec as Nanos * 1_000_000_000 + now.tv_nsec as Nanos
        };
        static START: OnceLock<Nanos> = OnceLock::new();
        // Before the clock is read: another thread may be the first.
        let start = *START.get_or_init(clock);
        clock().saturating_sub(start)
    }

    fn wait(&self, deadline: Option<Nanos>, idle_turns: u32) {
        #[cfg(feature = "schedule")]
        if crate::schedule::wait(deadline) {
            return;
        }
        const SPINS: u32 = 64;
        const YIELDS: u32 = 256;
        const NAP: Duration = Duration::from_micros(50);
        let left = deadline.map_or(Duration::MAX, |deadline| {
            Duration::from_nanos(deadline.saturating_sub(self.now()))
        });
        let has_parked = self.parked.len() > 0;
        let calls = self.call_channels.open();
        let has_promised = self.promised.len() > 0;
        // Then nothing comes but the deadline, or what another thread does. That is looked for more
        // seldom the longer it does not come: many threads that sleep shall not take the
        // processors.
        let has_lasting = has_parked || has_promised || calls > 0;
        let is_asleep = deadline.is_some() && left > NAP && !has_lasting;
        if is_asleep {
            std::thread::sleep(left.min(NAP * (1 << idle_turns.min(6))));
        } else if idle_turns < SPINS {
            std::hint::spin_loop();
        } else if idle_turns < YIELDS {
            std::thread::yield_now();
        } else {
            // Nobody tells when a mailbox has room, nor the sleeper at a socket of answers within
            // the process.
            let nap = left.min(NAP);
            let has_others = has_parked || has_promised && calls > 0;
            let left = if has_others { nap } else { left };
            if self.call_channels.sleep(left) {
                return;
            }
            if has_promised {
                std::thread::park_timeout(left.min(LONGEST_PARK));
            } else {
                std::thread::sleep(nap);
            }
        }
    }
}
