//! A thread's door to nodes that agents serve.

mod keeper;
pub(crate) mod line;
mod link;
pub(crate) mod slots;

use self::line::{Connected, Line, Next};
use self::link::Link;
use self::slots::Slots;
use super::TcpOptions;
use super::admission::{Admitted, connect_after};
use super::socket::{nanos, now};
use super::spin::Spin;
use crate::standing::{Known, check_all_unique, check_unique};
use crate::verb::{FromCompletion, check_one_node};
use crate::{
    Buffer, Completion, Endpoint, EndpointCore, FabricError, Nanos, NodeId, NodeInfo, NodeState,
    PostError, RemoteAddr, Result, Verb,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell, RefMut};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread::ScopedJoinHandle;

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
    /// Whether looking for answers pays.
    spin: RefCell<Spin>,
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
    /// A connection that ends later is made anew in the background, by itself: at once, and then after
    /// [waits](TcpOptions::reconnect). Verbs to that node fail meanwhile, and those to others do not wait. Where
    /// the node is the same as before they simply work again then; where it came back empty they fail until
    /// it is [adopted](Endpoint::adopt).
    ///
    /// # Errors
    /// Of the first address that has one: as [`connect`](super::admission::connect);
    /// [`FabricError::DuplicateNode`]; [`FabricError::BadOption`] of too many addresses.
    pub fn connect<A: AsRef<str> + Sync>(addresses: &[A], options: &TcpOptions) -> Result<Self> {
        let dialed = dial_all(addresses, options)?;
        let links = dialed
            .into_iter()
            .map(|(line, first)| Ok((line, Ok(first?))))
            .collect::<Result<Vec<_>>>()?;
        Self::of_lines(links, options)
    }

    /// As [`TcpEndpoint::connect`], but a node that does not run or cannot be reached is only
    /// [down](NodeState::Down), and connected to when it can be. Its [`node`](Endpoint::node) says nothing
    /// until then.
    ///
    /// # Errors
    /// Where every node is down, what the first is down with; what no node is the better for waiting: an
    /// address that cannot be resolved, a client that is not admitted, another protocol or version, and
    /// [`FabricError::DuplicateNode`].
    pub fn connect_available<A: AsRef<str> + Sync>(
        addresses: &[A],
        options: &TcpOptions,
    ) -> Result<Self> {
        let dialed = dial_all(addresses, options)?;
        let mut errors = dialed.iter().filter_map(|(_, first)| first.as_ref().err());
        if let Some(error) = errors.clone().find(|error| !error.is_outage()) {
            return Err(error.clone());
        }
        let none = dialed.iter().all(|(_, first)| first.is_err());
        if let (true, Some(first)) = (none, errors.next()) {
            return Err(first.clone());
        }
        Self::of_lines(dialed, options)
    }

    fn of_lines(dialed: Vec<Dialed>, options: &TcpOptions) -> Result<Self> {
        let links = (0..).zip(dialed).map(|(node, (line, first))| {
            let link = Link::new(line, NodeId(node), first);
            RefCell::new(link)
        });
        let endpoint = Self {
            core: EndpointCore::new(options.limits),
            links: links.collect(),
            slots: Rc::default(),
            options: options.clone(),
            outstanding: Cell::new(0),
            posted: Cell::new(false),
            sending: Cell::new(false),
            idle_since: Cell::new(0),
            spin: RefCell::new(Spin::new(nanos(options.spin))),
        };
        check_all_unique(&endpoint.links)?;
        Ok(endpoint)
    }

    /// How the endpoint stands with a node whose connection is not open. One that is the same as before, or
    /// was never connected to, is up again.
    #[cold]
    fn standing(&self, node: NodeId) -> Result<NodeState> {
        let mut link = self.link(node)?.borrow_mut();
        let incarnation = match link.next(&self.slots) {
            Next::None(attempt) => return Ok(NodeState::Down(link.down(attempt))),
            Next::Made(incarnation) => incarnation,
        };
        let known = link.info.incarnation;
        if known == incarnation {
            link.open_next();
        } else if let Err(duplicate) = check_unique(&self.links, node, link.address(), incarnation)
        {
            return Ok(NodeState::Down(duplicate));
        } else if known == 0 {
            link.open_next();
        } else {
            return Ok(NodeState::Restarted { incarnation });
        }
        Ok(if link.is_open() {
            NodeState::Up
        } else {
            NodeState::Down(link.down(None))
        })
    }

    /// The link to a node, which is open.
    #[inline(always)]
    fn open_link(&self, node: NodeId) -> Result<RefMut<'_, Link>> {
        let link = self.link(node)?.borrow_mut();
        if link.is_open() {
            return Ok(link);
        }
        drop(link);
        self.reopened_link(node)
    }

    #[cold]
    fn reopened_link(&self, node: NodeId) -> Result<RefMut<'_, Link>> {
        match self.standing(node)? {
            NodeState::Up => Ok(self.link(node)?.borrow_mut()),
            NodeState::Down(error) => Err(error),
            NodeState::Restarted { .. } => Err(FabricError::NodeRestarted {
                node,
                expected: self.link(node)?.borrow().info.incarnation,
            }),
        }
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

    #[inline(always)]
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
        let mut link = self.open_link(verb.node())?;
        let (answer, buffer) = link.put(verb)?;
        let slot = self.slots.take(answer, buffer);
        link.posted(slot);
        Ok(self.note_posted(slot))
    }

    #[inline(always)]
    fn try_post_read(&self, from: RemoteAddr, into: Buffer) -> Result<TcpPosted> {
        let mut link = self.open_link(from.node)?;
        let answer = link.put_read(from, &into)?;
        let slot = self.slots.take(answer, Some(into));
        link.posted(slot);
        Ok(self.note_posted(slot))
    }
}

/// A line, and its first connection or why there is none.
type Dialed = (Arc<Line<Admitted>>, Result<Connected<Admitted>>);

/// Connects to all addresses at the same time.
fn dial_all<A: AsRef<str> + Sync>(addresses: &[A], options: &TcpOptions) -> Result<Vec<Dialed>> {
    if addresses.len() > usize::from(u16::MAX) {
        return Err(FabricError::BadOption {
            option: "the number of nodes",
            value: addresses.len() as u64,
            limit: "at most 65535",
        });
    }
    std::thread::scope(|scope| {
        let dial = |address: &str| {
            let (name, of_line) = (address.to_owned(), options.clone());
            let line = Line::new(address, options.reconnect, move |last_session| {
                connect_after(last_session, &name, &of_line)
            });
            let first = line.connect();
            (line, first)
        };
        // Most endpoints have one node, and need no thread for it.
        let [one] = addresses else {
            let attempts: Vec<_> = addresses
                .iter()
                .map(|address| scope.spawn(move || dial(address.as_ref())))
                .collect();
            let ends = attempts.into_iter().map(ScopedJoinHandle::join);
            return ends
                .map(|end| Ok(end.unwrap_or_else(|panic| std::panic::resume_unwind(panic))))
                .collect();
        };
        Ok(vec![dial(one.as_ref())])
    })
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

    fn node_state(&self, node: NodeId) -> Result<NodeState> {
        if self.link(node)?.borrow().is_open() {
            return Ok(NodeState::Up);
        }
        self.standing(node)
    }

    fn adopt(&self, node: NodeId) -> Result<NodeInfo> {
        match self.node_state(node)? {
            NodeState::Up => {}
            NodeState::Down(error) => return Err(error),
            NodeState::Restarted { .. } => {
                let mut link = self.link(node)?.borrow_mut();
                link.open_next();
                if !link.is_open() {
                    return Err(link.down(None));
                }
            }
        }
        self.node(node)
    }

    fn post(&self, verb: Verb) -> std::result::Result<TcpPosted, PostError> {
        if !self.has_room() {
            return Err(PostError::QueueFull(verb));
        }
        self.try_post(verb).map_err(PostError::Rejected)
    }

    #[inline(always)]
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

    #[inline(always)]
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

    #[inline(always)]
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
            self.spin.borrow_mut().has_come(now());
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
        let spins = if self.outstanding.get() > 0 {
            self.spin.borrow_mut().goes_on(since)
        } else {
            since.saturating_sub(self.idle_since.get()) < nanos(self.options.spin)
        };
        if spins {
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
            .filter_map(|link| {
                let news = if link.is_sending() {
                    PollFlags::IN | PollFlags::OUT
                } else {
                    PollFlags::IN
                };
                Some(PollFd::new(link.stream()?, news))
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
