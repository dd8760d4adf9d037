//! An endpoint over RDMA verbs: one queue pair to each node, one completion queue for all.

mod calling;
mod calls;
mod common;
mod connect;
mod peer;
mod posting;
mod setup;

use self::common::{CompletionCount, PeerContext};
use self::connect::{DeviceChoice, NicResources, PairedNode};
use self::peer::{VerbsPeer, node_of, requests_of};
use super::abi::ibv_wc;
use super::memory::{FoundWords, Slabs};
use super::options::VerbsOptions;
use crate::net::dialer::{Dialer, RedialResult};
use crate::net::peers::{Dialed, NetworkPeer as _, Peers, all_reached, dial_all, some_reached};
use crate::net::socket::{nanos, now};
use crate::net::{Answer, Posted, Slots};
use crate::verb::{FromCompletion, check_one_node};
use crate::{
    Buffer, BufferPool, Completion, Endpoint, EndpointCore, FabricError, Nanos, NodeId, NodeInfo,
    NodeState, PostError, RemoteAddr, Result, Verb,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

/// An endpoint with one reliable queue pair to each of its nodes.
pub struct VerbsEndpoint {
    core: EndpointCore,
    // The queue pairs go first: then the NIC uses nothing of the rest any more.
    pub(super) peers: Peers<VerbsPeer>,
    slots: Rc<Slots>,
    found: FoundWords,
    nic: NicResources,
    options: VerbsOptions,
    /// Verbs posted and not completed.
    outstanding: Cell<usize>,
    /// The requests that they took.
    requests: Cell<usize>,
    /// Verbs posted since the last doorbell.
    posted: Cell<bool>,
    /// The channel will tell of the next completion.
    armed: Cell<bool>,
    /// When the clock and the set-up connections are looked at again.
    next_look: Cell<Nanos>,
    /// When nothing more happened.
    idle_since: Cell<Nanos>,
}

impl fmt::Debug for VerbsEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerbsEndpoint")
            .field("peers", &self.peers)
            .field("device", &self.nic.device.name)
            .field("outstanding", &self.outstanding.get())
            .finish_non_exhaustive()
    }
}

/// The longest sleep while verbs are in flight: a task may be woken from another thread, which
/// no file tells.
const LONGEST_SLEEP: Nanos = 10_000_000;
/// The longest sleep while none are.
const IDLE_SLEEP: Nanos = 1_000_000;
/// How often the clock and the set-up connections are looked at while completions are polled for.
const LOOK: Nanos = 1_000_000;
/// Completions that are taken from the NIC at once.
const AT_ONCE: usize = 32;

impl VerbsEndpoint {
    /// Connects to the nodes whose agents listen at these TCP addresses, `HOST:PORT` each, in
    /// parallel; nodes are numbered in this order. Blocks for at most the connect timeout.
    ///
    /// A connection that ends later is re-established in the background: at once, then after
    /// [waits](crate::net::ConnectOptions::reconnect). Meanwhile verbs to that node fail, and those
    /// to others are not delayed. If the node has not restarted, its verbs then work again; if it
    /// restarted empty, they fail until it is [adopted](Endpoint::adopt).
    ///
    /// # Errors
    /// [`FabricError::NoRdmaDevice`], [`FabricError::LockedMemory`], [`FabricError::NoQueuePair`];
    /// of the first address that has one: as [`connect`](crate::net::admission::connect), and
    /// [`FabricError::NotAdmitted`] where the agent has no queue pair or no way to this machine's;
    /// [`FabricError::DuplicateNode`]; [`FabricError::BadOption`] of no addresses or too many.
    pub fn connect<A: AsRef<str> + Sync>(addresses: &[A], options: &VerbsOptions) -> Result<Self> {
        let chosen = DeviceChoice::new(options);
        let dialed = dial(addresses, &chosen)?;
        all_reached(&dialed)?;
        Self::of_dialed(dialed, &chosen, options)
    }

    /// As [`VerbsEndpoint::connect`], but a node that does not run or is unreachable is only
    /// [down](NodeState::Down), and is connected to in the background. Until then its
    /// [`node`](Endpoint::node) has no regions.
    ///
    /// # Errors
    /// If every node is down, the error of the first. Errors that waiting does not mend: an
    /// unresolvable address, a refused client, another protocol or version, no device, and
    /// [`FabricError::DuplicateNode`].
    pub fn connect_available<A: AsRef<str> + Sync>(
        addresses: &[A],
        options: &VerbsOptions,
    ) -> Result<Self> {
        let chosen = DeviceChoice::new(options);
        let dialed = dial(addresses, &chosen)?;
        some_reached(&dialed)?;
        Self::of_dialed(dialed, &chosen, options)
    }

    fn of_dialed(
        dialed: Vec<Dialed<PairedNode>>,
        chosen: &DeviceChoice,
        options: &VerbsOptions,
    ) -> Result<Self> {
        let nic = chosen
            .opened()
            .expect("who has reached a node has a device");
        let limits = options.connect.limits;
        let buffers = BufferPool::registered(
            limits.largest_buffer,
            limits.buffer_budget,
            Box::new(Slabs(nic.domain.clone())),
        );
        Ok(Self {
            core: EndpointCore::with_buffers(limits, buffers),
            peers: Peers::new(dialed)?,
            slots: Rc::default(),
            found: FoundWords::new(&nic.domain, limits.send_queue_depth)?,
            nic,
            options: options.clone(),
            outstanding: Cell::new(0),
            requests: Cell::new(0),
            posted: Cell::new(false),
            armed: Cell::new(false),
            next_look: Cell::new(0),
            idle_since: Cell::new(0),
        })
    }

    /// The replacement of a connection that has ended.
    fn next(&self, peer: &mut VerbsPeer) -> RedialResult {
        self.note_done(peer.let_go(&self.common(), now()));
        peer.next(&self.common())
    }

    /// The name of the device that it uses.
    #[must_use]
    pub fn device(&self) -> &str {
        &self.nic.device.name
    }

    #[inline]
    fn common(&self) -> PeerContext<'_> {
        PeerContext {
            slots: &self.slots,
            found: &self.found,
            nic: &self.nic,
            inline_bytes: self.options.inline_bytes,
            verb_timeout: self.core.limits.verb_timeout,
        }
    }

    /// Whether the send queue has room for a verb of so many requests.
    #[inline]
    fn has_room(&self, requests: usize) -> bool {
        self.outstanding.get() < self.core.limits.send_queue_depth
            && self.requests.get() + requests <= self.nic.requests as usize
    }

    #[inline]
    fn note_posted(&self, slot: u32, requests: usize) -> Posted {
        self.outstanding.set(self.outstanding.get() + 1);
        self.requests.set(self.requests.get() + requests);
        self.posted.set(true);
        Posted::new(&self.slots, slot)
    }

    /// A gather without pieces asks nobody.
    #[cold]
    fn read_nothing(&self, into: Buffer) -> Posted {
        let slot = self.slots.take(Answer::Bytes(0), Some(into));
        self.slots.arrivals().complete(slot, &[]);
        Posted::new(&self.slots, slot)
    }

    fn note_done(&self, done: CompletionCount) -> usize {
        self.outstanding.set(self.outstanding.get() - done.verbs);
        self.requests.set(self.requests.get() - done.requests);
        if done.verbs > 0 {
            self.core.queue_has_room();
        }
        done.verbs
    }

    /// Takes the completions that have arrived.
    #[inline]
    fn take_completions(&self) -> CompletionCount {
        // SAFETY: zeros are a value of this plain structure of integers.
        let mut completions: [ibv_wc; AT_ONCE] = unsafe { std::mem::zeroed() };
        let mut done = CompletionCount::default();
        loop {
            let count = match self.nic.completions.poll(&mut completions) {
                Ok(count) => count,
                Err(error) => return self.break_all(&error),
            };
            for completion in &completions[..count] {
                if let Ok(peer) = self.peers.get(node_of(completion)) {
                    let mut peer = peer.borrow_mut();
                    done += peer.complete(completion, &self.common(), now);
                }
            }
            if count < AT_ONCE {
                break;
            }
        }
        for peer in &self.peers {
            done += peer.borrow_mut().take_replies(&self.common(), now);
        }
        done
    }

    /// The completion queue is of no use any more.
    #[cold]
    fn break_all(&self, error: &FabricError) -> CompletionCount {
        let mut done = CompletionCount::default();
        for peer in &self.peers {
            let mut peer = peer.borrow_mut();
            done += peer.break_with(error, error.clone(), &self.common());
        }
        done
    }

    /// Looks at the clock and at the set-up connections.
    #[cold]
    fn look(&self, at: Nanos) -> CompletionCount {
        self.next_look.set(at + LOOK);
        let mut done = CompletionCount::default();
        for peer in &self.peers {
            done += peer.borrow_mut().look(&self.common(), at);
        }
        done
    }

    /// Sleeps until something may have come or the deadline has passed; returns whether the channel
    /// of completions tells of any.
    fn sleep(&self, since: Nanos, deadline: Option<Nanos>) -> bool {
        let peers: SmallVec<[_; 4]> = self.peers.iter().map(RefCell::borrow).collect();
        let waiting = || peers.iter().filter(|peer| peer.is_waiting());
        let verb_timeout = self.core.limits.verb_timeout;
        let longest = match waiting().next() {
            Some(_) => LONGEST_SLEEP,
            None => IDLE_SLEEP,
        };
        let until = waiting()
            .map(|peer| peer.give_up_at(verb_timeout).saturating_add(1))
            .chain(deadline)
            .fold(since + longest, Nanos::min);
        let mut files: SmallVec<[_; 4]> = SmallVec::new();
        files.push(PollFd::new(&*self.nic.channel, PollFlags::IN));
        let setups = waiting().filter_map(|peer| peer.stream());
        files.extend(setups.map(|stream| PollFd::new(stream, PollFlags::IN)));
        let left = until.saturating_sub(since);
        let left = Timespec {
            tv_sec: (left / 1_000_000_000) as i64,
            tv_nsec: (left % 1_000_000_000) as i64,
        };
        // Interrupted or not, the next turn looks for itself.
        let _ = poll(&mut files, Some(&left));
        let is_ready = |file: &PollFd<'_>| !file.revents().is_empty();
        if files[1..].iter().any(is_ready) {
            // A set-up connection has news.
            self.next_look.set(0);
        }
        is_ready(&files[0])
    }
}

impl Drop for VerbsEndpoint {
    /// Waits for the verbs on their way, each of which completes or fails within the verb timeout:
    /// a NIC forgets those of a queue pair that goes.
    fn drop(&mut self) {
        self.ring_doorbell();
        let until = now().saturating_add(self.core.limits.verb_timeout);
        let mut idle_turns = 0;
        while self.outstanding.get() > 0 && now() < until {
            if self.poll_completions() == 0 {
                self.wait(Some(until), idle_turns);
                idle_turns += 1;
            } else {
                idle_turns = 0;
            }
        }
    }
}

/// Connects to all nodes at the same time.
fn dial<A: AsRef<str> + Sync>(
    addresses: &[A],
    chosen: &Arc<DeviceChoice>,
) -> Result<Vec<Dialed<PairedNode>>> {
    dial_all(addresses, |address| {
        let (name, dialing) = (address.to_owned(), Arc::clone(chosen));
        Dialer::new(address, chosen.reconnect(), move |last_session| {
            dialing.dial(last_session, &name)
        })
    })
}

impl Endpoint for VerbsEndpoint {
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
        let requests = requests_of(&verb);
        let verb = match verb {
            Verb::ReadMany { pieces, into } if pieces.is_empty() => {
                return Ok(self.read_nothing(into));
            }
            verb => verb,
        };
        if requests > self.nic.requests as usize {
            return Err(PostError::Rejected(FabricError::TooManyPieces {
                pieces: requests,
                limit: self.nic.requests as usize,
            }));
        }
        if !self.has_room(requests) {
            return Err(PostError::QueueFull(verb));
        }
        let put = || {
            if let Verb::ReadMany { pieces, .. } = &verb {
                check_one_node(pieces)?;
            }
            let mut peer = self.peers.open(verb.node(), |peer| self.next(peer))?;
            peer.put(verb, &self.common())
        };
        let slot = put().map_err(PostError::Rejected)?;
        Ok(self.note_posted(slot, requests))
    }

    #[inline]
    fn post_read(&self, from: RemoteAddr, into: Buffer) -> std::result::Result<Posted, PostError> {
        if !self.has_room(1) {
            return Err(PostError::QueueFull(Verb::Read { from, into }));
        }
        let put = || {
            let mut peer = self.peers.open(from.node, |peer| self.next(peer))?;
            peer.put_read(from, into, &self.slots)
        };
        let slot = put().map_err(PostError::Rejected)?;
        Ok(self.note_posted(slot, 1))
    }

    #[inline]
    fn poll_posted(&self, posted: &mut Posted, cx: &mut Context<'_>) -> Poll<Result<Completion>> {
        posted.poll(cx)
    }

    #[inline]
    fn poll_read(&self, posted: &mut Posted, cx: &mut Context<'_>) -> Poll<Result<Buffer>> {
        self.poll_posted(posted, cx)
            .map(|outcome| outcome.map(Buffer::from_completion))
    }

    #[inline]
    fn ring_doorbell(&self) {
        if !self.posted.take() {
            return;
        }
        self.core.counters.doorbell_rung();
        let mut failed = CompletionCount::default();
        for peer in &self.peers {
            failed += peer.borrow_mut().send(&self.common(), now);
        }
        self.note_done(failed);
    }

    #[inline]
    fn poll_completions(&self) -> usize {
        if self.outstanding.get() == 0 {
            return 0;
        }
        let mut done = self.take_completions();
        if done.verbs == 0 {
            let at = now();
            if at >= self.next_look.get() {
                done = self.look(at);
            }
        }
        self.note_done(done)
    }

    fn now(&self) -> Nanos {
        now()
    }

    fn wait(&self, deadline: Option<Nanos>, idle_turns: u32) {
        let since = now();
        if idle_turns == 0 {
            self.idle_since.set(since);
        }
        if since.saturating_sub(self.idle_since.get()) < nanos(self.options.connect.spin) {
            std::hint::spin_loop();
            return;
        }
        if !self.armed.get() && self.outstanding.get() > 0 {
            // What came before is not told of: the next turn looks once more.
            self.armed.set(self.nic.completions.arm().is_ok());
            return;
        }
        let arm_calls = |peer: &RefCell<VerbsPeer>| peer.borrow_mut().arm_calls();
        if self.peers.iter().filter(|peer| arm_calls(peer)).count() > 0 {
            return;
        }
        if self.sleep(since, deadline) {
            self.nic.channel.clear();
            self.armed.set(false);
            for peer in &self.peers {
                peer.borrow_mut().calls.notified();
            }
        }
    }
}
