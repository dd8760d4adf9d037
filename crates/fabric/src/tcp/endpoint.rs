//! An endpoint over TCP: one connection to each node.

use super::peer::TcpPeer;
use crate::net::admission::{Admitted, connect_after};
use crate::net::dialer::{Dialer, RedialResult};
use crate::net::peers::{Dialed, NetworkPeer as _, Peers, all_reached, dial_all, some_reached};
use crate::net::socket::{nanos, now};
use crate::net::spin::SpinPolicy;
use crate::net::{ConnectOptions, Posted, Slots};
use crate::verb::{FromCompletion, check_one_node};
use crate::{
    Buffer, Completion, Endpoint, EndpointCore, Nanos, NodeId, NodeInfo, NodeState, PostError,
    RemoteAddr, Result, Verb,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::task::{Context, Poll};

/// An endpoint with one connection to each of its nodes.
pub struct TcpEndpoint {
    core: EndpointCore,
    peers: Peers<TcpPeer>,
    slots: Rc<Slots>,
    options: ConnectOptions,
    /// Verbs posted and not completed.
    outstanding: Cell<usize>,
    /// Verbs posted since the last doorbell.
    posted: Cell<bool>,
    /// Connections that still have to send what a doorbell was rung for.
    sending: Cell<bool>,
    /// When nothing more happened.
    idle_since: Cell<Nanos>,
    /// Whether looking for answers pays.
    spin: RefCell<SpinPolicy>,
}

impl fmt::Debug for TcpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpEndpoint")
            .field("peers", &self.peers)
            .field("outstanding", &self.outstanding.get())
            .finish_non_exhaustive()
    }
}

/// The longest sleep while verbs are in flight: a task may be woken from another thread, which
/// no socket tells.
const LONGEST_SLEEP: Nanos = 10_000_000;
/// The longest sleep while none are.
const IDLE_SLEEP: Nanos = 1_000_000;

impl TcpEndpoint {
    /// Connects to the agents at these addresses, `HOST:PORT` each, in parallel; nodes are numbered
    /// in this order. Blocks for at most the connect timeout.
    ///
    /// A connection that ends later is re-established in the background: at once, then after
    /// [waits](ConnectOptions::reconnect). Meanwhile verbs to that node fail, and those to others
    /// are not delayed. If the node has not restarted, its verbs then work again; if it restarted
    /// empty, they fail until it is [adopted](Endpoint::adopt).
    ///
    /// # Errors
    /// Of the first address that has one: as [`connect`](crate::net::admission::connect);
    /// [`DuplicateNode`](crate::FabricError::DuplicateNode);
    /// [`BadOption`](crate::FabricError::BadOption) of no addresses or too many.
    pub fn connect<A: AsRef<str> + Sync>(
        addresses: &[A],
        options: &ConnectOptions,
    ) -> Result<Self> {
        let dialed = dial(addresses, options)?;
        all_reached(&dialed)?;
        Self::of_dialed(dialed, options)
    }

    /// As [`TcpEndpoint::connect`], but a node that does not run or is unreachable is only
    /// [down](NodeState::Down), and is connected to in the background. Until then its
    /// [`node`](Endpoint::node) has no regions.
    ///
    /// # Errors
    /// If every node is down, the error of the first. Errors that waiting does not mend: an
    /// unresolvable address, a refused client, another protocol or version, and
    /// [`DuplicateNode`](crate::FabricError::DuplicateNode).
    pub fn connect_available<A: AsRef<str> + Sync>(
        addresses: &[A],
        options: &ConnectOptions,
    ) -> Result<Self> {
        let dialed = dial(addresses, options)?;
        some_reached(&dialed)?;
        Self::of_dialed(dialed, options)
    }

    fn of_dialed(dialed: Vec<Dialed<Admitted>>, options: &ConnectOptions) -> Result<Self> {
        Ok(Self {
            core: EndpointCore::new(options.limits),
            peers: Peers::new(dialed)?,
            slots: Rc::default(),
            options: options.clone(),
            outstanding: Cell::new(0),
            posted: Cell::new(false),
            sending: Cell::new(false),
            idle_since: Cell::new(0),
            spin: RefCell::new(SpinPolicy::new(nanos(options.spin))),
        })
    }

    /// The replacement of a connection that has ended.
    fn next(&self, peer: &mut TcpPeer) -> RedialResult {
        peer.next(&self.slots)
    }

    #[inline]
    fn has_room(&self) -> bool {
        self.outstanding.get() < self.core.limits.send_queue_depth
    }

    #[inline(always)]
    fn note_posted(&self, slot: u32) -> Posted {
        self.outstanding.set(self.outstanding.get() + 1);
        self.posted.set(true);
        Posted::new(&self.slots, slot)
    }

    fn try_post(&self, verb: Verb) -> Result<Posted> {
        if let Verb::ReadMany { pieces, .. } = &verb {
            check_one_node(pieces)?;
        }
        let mut peer = self.peers.open(verb.node(), |peer| self.next(peer))?;
        let (answer, buffer) = peer.put(verb)?;
        let slot = self.slots.take(answer, buffer);
        peer.posted(slot, answer, now);
        Ok(self.note_posted(slot))
    }

    #[inline(always)]
    fn try_post_read(&self, from: RemoteAddr, into: Buffer) -> Result<Posted> {
        let mut peer = self.peers.open(from.node, |peer| self.next(peer))?;
        let answer = peer.put_read(from, &into)?;
        let slot = self.slots.take(answer, Some(into));
        peer.posted(slot, answer, now);
        Ok(self.note_posted(slot))
    }
}

/// Connects to all agents at the same time.
fn dial<A: AsRef<str> + Sync>(
    addresses: &[A],
    options: &ConnectOptions,
) -> Result<Vec<Dialed<Admitted>>> {
    dial_all(addresses, |address| {
        let (name, dialing) = (address.to_owned(), options.clone());
        Dialer::new(address, options.reconnect, move |last_session| {
            connect_after(last_session, &name, &dialing)
        })
    })
}

impl Endpoint for TcpEndpoint {
    type Posted = Posted;

    #[inline]
    fn core(&self) -> &EndpointCore {
        &self.core
    }

    fn node_count(&self) -> usize {
        self.peers.len()
    }

    fn node(&self, node: NodeId) -> Result<NodeInfo> {
        Ok(self.peers.get(node)?.borrow().info().clone())
    }

    fn node_state(&self, node: NodeId) -> Result<NodeState> {
        self.peers.state(node, |peer| self.next(peer))
    }

    fn adopt(&self, node: NodeId) -> Result<NodeInfo> {
        self.peers.adopt(node, |peer| self.next(peer))
    }

    fn post(&self, verb: Verb) -> std::result::Result<Posted, PostError> {
        if !self.has_room() {
            return Err(PostError::QueueFull(verb));
        }
        self.try_post(verb).map_err(PostError::Rejected)
    }

    #[inline(always)]
    fn post_read(&self, from: RemoteAddr, into: Buffer) -> std::result::Result<Posted, PostError> {
        if !self.has_room() {
            return Err(PostError::QueueFull(Verb::Read { from, into }));
        }
        self.try_post_read(from, into).map_err(PostError::Rejected)
    }

    /// The node's agent sees to it, for what lies behind the word in its region.
    fn fence(&self, word: RemoteAddr, holds: u64) -> bool {
        if let Ok(peer) = self.peers.get(word.node) {
            peer.borrow_mut().fence(word, holds);
            // With the next doorbell, whether or not verbs are posted.
            self.sending.set(true);
        }
        true
    }

    #[inline(always)]
    fn poll_posted(&self, posted: &mut Posted, cx: &mut Context<'_>) -> Poll<Result<Completion>> {
        posted.poll(cx)
    }

    #[inline(always)]
    fn poll_read(&self, posted: &mut Posted, cx: &mut Context<'_>) -> Poll<Result<Buffer>> {
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
        for peer in &self.peers {
            let mut peer = peer.borrow_mut();
            peer.send(now);
            sending |= peer.is_sending();
        }
        self.sending.set(sending);
    }

    #[inline]
    fn poll_completions(&self) -> usize {
        if self.outstanding.get() == 0 {
            return 0;
        }
        let mut done = 0;
        for peer in &self.peers {
            let mut peer = peer.borrow_mut();
            if peer.is_waiting() {
                done += peer.poll(&self.slots, self.core.limits.verb_timeout, now);
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
        let peers: SmallVec<[_; 4]> = self.peers.iter().map(RefCell::borrow).collect();
        let waiting = || peers.iter().filter(|peer| peer.is_waiting());
        if waiting().any(|peer| peer.has_opened()) {
            return;
        }
        let verb_timeout = self.core.limits.verb_timeout;
        let longest = match waiting().next() {
            Some(_) => LONGEST_SLEEP,
            None => IDLE_SLEEP,
        };
        let until = waiting()
            .map(|peer| peer.give_up_at(verb_timeout).saturating_add(1))
            .chain(deadline)
            .fold(since + longest, Nanos::min);
        let mut files: SmallVec<[_; 4]> = waiting()
            .filter_map(|peer| {
                let news = if peer.is_sending() {
                    PollFlags::IN | PollFlags::OUT
                } else {
                    PollFlags::IN
                };
                Some(PollFd::new(peer.stream()?, news))
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
