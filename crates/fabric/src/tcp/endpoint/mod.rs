//! A thread's door to nodes that agents serve.

mod link;
pub(crate) mod slots;

use self::link::Link;
use self::slots::Slots;
use super::TcpOptions;
use super::socket::{nanos, now};
use crate::verb::{FromCompletion, check_one_node};
use crate::{
    Buffer, Completion, Endpoint, EndpointCore, FabricError, Nanos, NodeId, NodeInfo, PostError,
    RemoteAddr, Result, Verb,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll};

/// One thread's door to one or more nodes: a connection to each.
pub struct TcpEndpoint {
    core: EndpointCore,
    links: Box<[RefCell<Link>]>,
    slots: Rc<Slots>,
    options: TcpOptions,
    /// Verbs posted and not completed.
    outstanding: Cell<usize>,
    /// Verbs posted since the last doorbell.
    posted: Cell<bool>,
    /// Connections that still have to send what a doorbell was rung for.
    sending: Cell<bool>,
    /// When nothing more happened.
    idle_since: Cell<Nanos>,
}

/// A verb posted to a node behind TCP.
pub struct TcpPosted {
    slots: Rc<Slots>,
    /// Nothing once its answer was fetched.
    slot: Option<u32>,
}

impl Drop for TcpPosted {
    #[inline]
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            self.slots.abandon(slot);
        }
    }
}

/// The longest sleep while verbs are on their way: a task may be woken from another thread, which no
/// socket tells.
const LONGEST_SLEEP: Nanos = 10_000_000;
/// And while none is.
const IDLE_SLEEP: Nanos = 1_000_000;

impl TcpEndpoint {
    /// An endpoint that is connected to the agents at these addresses, `HOST:PORT` each, all at the same
    /// time; nodes are numbered in this order. This blocks, for the connect timeout at most.
    ///
    /// # Errors
    /// Of the first address that has one: as [`connect`](super::admission::connect).
    pub fn connect<A: AsRef<str> + Sync>(addresses: &[A], options: &TcpOptions) -> Result<Self> {
        if addresses.len() > usize::from(u16::MAX) {
            return Err(FabricError::BadOption {
                option: "the number of nodes",
                value: addresses.len() as u64,
                limit: "at most 65535",
            });
        }
        let links = std::thread::scope(|scope| {
            let attempts: Vec<_> = (0..)
                .zip(addresses)
                .map(|(node, address)| {
                    scope.spawn(move || Link::connect(address.as_ref(), NodeId(node), options))
                })
                .collect();
            attempts
                .into_iter()
                .map(|attempt| {
                    let end = attempt.join();
                    end.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                        .map(RefCell::new)
                })
                .collect::<Result<Box<[_]>>>()
        })?;
        Ok(Self {
            core: EndpointCore::new(options.limits),
            links,
            slots: Rc::default(),
            options: options.clone(),
            outstanding: Cell::new(0),
            posted: Cell::new(false),
            sending: Cell::new(false),
            idle_since: Cell::new(0),
        })
    }

    /// Whether the connection to a node can carry verbs, as far as is known. What ends it is noticed when
    /// verbs are posted to it or wait.
    ///
    /// # Errors
    /// [`FabricError::UnknownNode`].
    pub fn is_connected(&self, node: NodeId) -> Result<bool> {
        Ok(self.link(node)?.borrow().is_open())
    }

    /// Connects to a node anew, at the same address; verbs on their way to it fail. This blocks, for the
    /// connect timeout at most. Returns what the node is now: with another
    /// [incarnation](NodeInfo::incarnation) than before nothing known of its memory holds any more.
    ///
    /// # Errors
    /// [`FabricError::UnknownNode`], and as [`TcpEndpoint::connect`]; then the connection is as broken as
    /// it was, or broken now.
    pub fn reconnect(&self, node: NodeId) -> Result<NodeInfo> {
        let mut link = self.link(node)?.borrow_mut();
        let failed = link.break_with(&FabricError::NodeStopped { node }, &self.slots);
        self.outstanding.set(self.outstanding.get() - failed);
        let fresh = Link::connect(&link.address, node, &self.options)?;
        *link = fresh;
        Ok(link.info.clone())
    }

    #[inline]
    fn link(&self, node: NodeId) -> Result<&RefCell<Link>> {
        self.links
            .get(usize::from(node.0))
            .ok_or_else(|| self.unknown(node))
    }

    #[cold]
    fn unknown(&self, node: NodeId) -> FabricError {
        FabricError::UnknownNode {
            node,
            connected: self.links.len(),
        }
    }

    #[inline]
    fn has_room(&self) -> bool {
        self.outstanding.get() < self.core.limits.send_queue_depth
    }

    #[inline]
    fn note_posted(&self, slot: u32) -> TcpPosted {
        self.outstanding.set(self.outstanding.get() + 1);
        self.posted.set(true);
        TcpPosted {
            slots: Rc::clone(&self.slots),
            slot: Some(slot),
        }
    }

    fn try_post(&self, verb: Verb) -> Result<TcpPosted> {
        if let Verb::ReadMany { pieces, .. } = &verb {
            check_one_node(pieces)?;
        }
        let mut link = self.link(verb.node())?.borrow_mut();
        let (answer, buffer) = link.put(verb)?;
        let slot = self.slots.take(answer, buffer);
        link.posted(slot);
        Ok(self.note_posted(slot))
    }

    #[inline]
    fn try_post_read(&self, from: RemoteAddr, into: Buffer) -> Result<TcpPosted> {
        let mut link = self.link(from.node)?.borrow_mut();
        let answer = link.put_read(from, &into)?;
        let slot = self.slots.take(answer, Some(into));
        link.posted(slot);
        Ok(self.note_posted(slot))
    }
}

impl Endpoint for TcpEndpoint {
    type Posted = TcpPosted;

    #[inline]
    fn core(&self) -> &EndpointCore {
        &self.core
    }

    fn node_count(&self) -> usize {
        self.links.len()
    }

    fn node(&self, node: NodeId) -> Result<NodeInfo> {
        Ok(self.link(node)?.borrow().info.clone())
    }

    fn post(&self, verb: Verb) -> std::result::Result<TcpPosted, PostError> {
        if !self.has_room() {
            return Err(PostError::QueueFull(verb));
        }
        self.try_post(verb).map_err(PostError::Rejected)
    }

    #[inline]
    fn post_read(
        &self,
        from: RemoteAddr,
        into: Buffer,
    ) -> std::result::Result<TcpPosted, PostError> {
        if !self.has_room() {
            return Err(PostError::QueueFull(Verb::Read { from, into }));
        }
        self.try_post_read(from, into).map_err(PostError::Rejected)
    }

    #[inline]
    fn poll_posted(
        &self,
        posted: &mut TcpPosted,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Completion>> {
        let slot = posted.slot.expect("a verb completes once");
        let polled = self.slots.poll(slot, cx);
        if polled.is_ready() {
            posted.slot = None;
        }
        polled
    }

    #[inline]
    fn poll_read(&self, posted: &mut TcpPosted, cx: &mut Context<'_>) -> Poll<Result<Buffer>> {
        self.poll_posted(posted, cx)
            .map(|outcome| outcome.map(Buffer::from_completion))
    }

    #[inline]
    fn ring_doorbell(&self) {
        let posted = self.posted.take();
        if !posted && !self.sending.get() {
            return;
        }
        if posted {
            self.core.counters.doorbell_rung();
        }
        let mut sending = false;
        for link in &self.links {
            let mut link = link.borrow_mut();
            link.send(now);
            sending |= link.is_sending();
        }
        self.sending.set(sending);
    }

    #[inline]
    fn poll_completions(&self) -> usize {
        if self.outstanding.get() == 0 {
            return 0;
        }
        let mut done = 0;
        for link in &self.links {
            let mut link = link.borrow_mut();
            if link.is_waiting() {
                done += link.poll(&self.slots, self.core.limits.verb_timeout, now);
            }
        }
        if done > 0 {
            self.outstanding.set(self.outstanding.get() - done);
            self.core.queue_has_room();
        }
        done
    }

    fn now(&self) -> Nanos {
        now()
    }

    fn wait(&self, deadline: Option<Nanos>, idle_turns: u32) {
        let since = now();
        if idle_turns == 0 {
            self.idle_since.set(since);
        }
        if since.saturating_sub(self.idle_since.get()) < nanos(self.options.spin) {
            std::hint::spin_loop();
            return;
        }
        let links: SmallVec<[_; 4]> = self.links.iter().map(RefCell::borrow).collect();
        let waiting = || links.iter().filter(|link| link.is_waiting());
        let verb_timeout = self.core.limits.verb_timeout;
        let longest = match waiting().next() {
            Some(_) => LONGEST_SLEEP,
            None => IDLE_SLEEP,
        };
        let until = waiting()
            .map(|link| link.give_up_at(verb_timeout).saturating_add(1))
            .chain(deadline)
            .fold(since + longest, Nanos::min);
        let mut files: SmallVec<[_; 4]> = waiting()
            .map(|link| {
                let news = if link.is_sending() {
                    PollFlags::IN | PollFlags::OUT
                } else {
                    PollFlags::IN
                };
                PollFd::new(link.stream(), news)
            })
            .collect();
        let left = until.saturating_sub(since);
        let left = Timespec {
            tv_sec: (left / 1_000_000_000) as i64,
            tv_nsec: (left % 1_000_000_000) as i64,
        };
        // Interrupted or not, the next turn looks for itself.
        let _ = poll(&mut files, Some(&left));
    }
}
