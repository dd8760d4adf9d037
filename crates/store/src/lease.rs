//! Tables that other clients may drop: what is posted to a table's memory is posted only while the
//! memory is the table's.
//!
//! The entry of a table in its node's catalog has a word that is the table's id, until the table is
//! dropped, emptied or renamed. A client that has the table open has a *lease* on it: it has seen
//! the word not longer than [`LEASE`] ago. Where the memory is mapped the word is looked at before
//! every verb, which costs a load. Elsewhere it is read beside the verbs that the client posts,
//! when a quarter of the lease is over; a client that was idle for longer reads it first. Once the
//! word is another's, every verb to the node's tables fails with
//! [`Reclaimed`](FabricError::Reclaimed), and nothing is posted.
//!
//! Whoever ends a node inverts the words of its tables first, and waits likewise before it takes the
//! last snapshots: clients that see such a word go on reading, and what they write is refused with
//! [`Ending`](FabricError::Ending). So all that was acknowledged is in these snapshots.
//!
//! Whoever drops a table makes the word 0 first. It then waits for the length of a lease, and for
//! as long as a verb may be under way, before it touches the memory: so no verb of another client's
//! meets another table's bytes. (A verb that a node executes more than a second after it was posted
//! could; so could a client's processor that stands still between looking and loading for as long.)

use crate::TableRecord;
use crate::catalog::{CATALOG_BYTES, LEASE, closed, id_at};
use farslot_fabric::{
    AnyEndpoint, Buffer, Completion, Endpoint, EndpointCore, FabricError, InPlace, Nanos, NodeId,
    NodeInfo, NodeState, Piece, PostError, RemoteAddr, Result, Rights, Verb,
};
use std::cell::{Cell, RefCell};
use std::task::{Context, Poll, Waker};

/// What a store's tables are opened over: an endpoint of any fabric that posts to a table's memory
/// only while it is the table's. As there is one for all fabrics, the schemes are compiled once: on
/// shared memory, where that costs a branch or two, lookups ask for the memory in place.
pub(crate) struct Leased {
    inner: AnyEndpoint,
    /// By the nodes' numbers; nothing of nodes on which no table is open.
    leases: RefCell<Vec<Option<Lease>>>,
}

type Posted = <AnyEndpoint as Endpoint>::Posted;

struct Lease {
    /// Where the word is.
    word_at: RemoteAddr,
    id: u64,
    /// When the word was last seen.
    since: Cell<Nanos>,
    /// Whether it was seen to be another.
    is_lost: Cell<bool>,
    /// Whether it was seen to take no writes any more.
    is_closed: Cell<bool>,
    /// The READ of the word that is under way, and when it was posted.
    asked: RefCell<Option<(Nanos, Posted)>>,
}

/// What becomes of a verb.
enum Turn {
    Post,
    /// It is to be posted again when verbs have completed: the word is being read.
    Wait,
    Refuse(FabricError),
}

impl Leased {
    pub(crate) fn new(inner: AnyEndpoint) -> Self {
        Self {
            inner,
            leases: RefCell::default(),
        }
    }

    #[inline]
    fn turn_of(&self, at: RemoteAddr, writes: bool) -> Turn {
        if at.offset < CATALOG_BYTES {
            return Turn::Post;
        }
        let leases = self.leases.borrow();
        let lease = leases.get(usize::from(at.node.0)).and_then(Option::as_ref);
        match lease {
            Some(lease) => lease.turn(&self.inner, at, writes),
            None => Turn::Post,
        }
    }
}

impl Lease {
    #[inline]
    fn turn(&self, endpoint: &AnyEndpoint, at: RemoteAddr, writes: bool) -> Turn {
        if self.is_lost.get() {
            return Turn::Refuse(FabricError::Reclaimed { at });
        }
        if let Some(view) = endpoint.in_place(self.word_at, Rights::READ) {
            return self.judge(self.word_in(view), at, writes, endpoint);
        }
        let now = endpoint.now();
        if now.saturating_sub(self.since.get()) < LEASE / 4 {
            return self.admit(at, writes, endpoint);
        }
        self.renew(endpoint, at, now, writes)
    }

    /// What becomes of a verb to a table that is there.
    #[inline]
    fn admit(&self, at: RemoteAddr, writes: bool, endpoint: &AnyEndpoint) -> Turn {
        if writes && self.is_closed.get() && !endpoint.core().for_keeper.get() {
            return Turn::Refuse(FabricError::Ending { node: at.node });
        }
        Turn::Post
    }

    /// The word, in memory that is mapped.
    #[inline]
    fn word_in(&self, view: InPlace<'_>) -> Option<u64> {
        let piece = Piece {
            from: self.word_at,
            len: 8,
        };
        view.offset_of(piece).map(|offset| view.words(offset)(0))
    }

    #[inline]
    fn judge(
        &self,
        word: Option<u64>,
        at: RemoteAddr,
        writes: bool,
        endpoint: &AnyEndpoint,
    ) -> Turn {
        if word == Some(self.id) {
            return Turn::Post;
        }
        if word == Some(closed(self.id)) {
            self.is_closed.set(true);
            return self.admit(at, writes, endpoint);
        }
        self.is_lost.set(true);
        Turn::Refuse(FabricError::Reclaimed { at })
    }

    /// Has the word read, if it is not being read, and says what becomes of a verb meanwhile.
    #[cold]
    fn renew(&self, endpoint: &AnyEndpoint, at: RemoteAddr, now: Nanos, writes: bool) -> Turn {
        let mut asked = self.asked.borrow_mut();
        let mut failed = None;
        if let Some((when, posted)) = asked.as_mut() {
            // The tasks that wait are woken when verbs have completed, this one among them.
            let mut nobody = Context::from_waker(Waker::noop());
            if let Poll::Ready(read) = endpoint.poll_read(posted, &mut nobody) {
                let when = *when;
                *asked = None;
                match read {
                    Ok(word) => {
                        self.since.set(when);
                        let turn = self.judge(Some(word.words()[0]), at, writes, endpoint);
                        if let Turn::Refuse(_) = turn {
                            return turn;
                        }
                    }
                    Err(error) => failed = Some(error),
                }
            }
        }
        let age = now.saturating_sub(self.since.get());
        if asked.is_none() && age >= LEASE / 4 && failed.is_none() {
            let buffer = endpoint.core().buffers.take(8);
            match buffer.map(|buffer| endpoint.post_read(self.word_at, buffer)) {
                Ok(Ok(posted)) => *asked = Some((now, posted)),
                // It is asked for again with the next verb.
                Ok(Err(PostError::QueueFull(_))) => {}
                Ok(Err(PostError::Rejected(error))) | Err(error) => failed = Some(error),
            }
        }
        match (age < LEASE, failed) {
            (true, _) => self.admit(at, writes, endpoint),
            (false, None) => Turn::Wait,
            (false, Some(error)) => Turn::Refuse(error),
        }
    }
}

impl Leased {
    /// From now on this endpoint has that table open on a node, and no other: it was seen there at
    /// `since`.
    pub(crate) fn lease(&self, node: NodeId, record: &TableRecord, since: Nanos) {
        let mut leases = self.leases.borrow_mut();
        let index = usize::from(node.0);
        if leases.len() <= index {
            leases.resize_with(index + 1, || None);
        }
        leases[index] = Some(Lease {
            word_at: id_at(node, record),
            id: record.id,
            since: Cell::new(since),
            is_lost: Cell::new(false),
            is_closed: Cell::new(record.is_closed),
            asked: RefCell::default(),
        });
    }

    /// From now on this endpoint has no table open on a node, and may look for one there.
    pub(crate) fn end_lease(&self, node: NodeId) {
        if let Some(lease) = self.leases.borrow_mut().get_mut(usize::from(node.0)) {
            *lease = None;
        }
    }
}

/// The first address of a verb, and whether it changes what is there.
fn start_of(verb: &Verb) -> Option<(RemoteAddr, bool)> {
    match verb {
        Verb::Read { from, .. } => Some((*from, false)),
        // All pieces are of one node, and of its tables.
        Verb::ReadMany { pieces, .. } => pieces.first().map(|piece| (piece.from, false)),
        Verb::Write { to, .. } | Verb::WriteImm { to, .. } => Some((*to, true)),
        Verb::CompareSwap { at, .. } | Verb::FetchAdd { at, .. } => Some((*at, true)),
        Verb::Call { .. } => None,
    }
}

impl Endpoint for Leased {
    type Posted = Posted;

    #[inline]
    fn core(&self) -> &EndpointCore {
        self.inner.core()
    }

    fn node_count(&self) -> usize {
        self.inner.node_count()
    }

    fn node(&self, node: NodeId) -> Result<NodeInfo> {
        self.inner.node(node)
    }

    fn node_state(&self, node: NodeId) -> Result<NodeState> {
        self.inner.node_state(node)
    }

    fn adopt(&self, node: NodeId) -> Result<NodeInfo> {
        self.inner.adopt(node)
    }

    #[inline]
    fn post(&self, verb: Verb) -> std::result::Result<Posted, PostError> {
        let turn = start_of(&verb).map_or(Turn::Post, |(at, writes)| self.turn_of(at, writes));
        match turn {
            Turn::Post => self.inner.post(verb),
            Turn::Wait => Err(PostError::QueueFull(verb)),
            Turn::Refuse(error) => Err(PostError::Rejected(error)),
        }
    }

    #[inline]
    fn post_read(&self, from: RemoteAddr, into: Buffer) -> std::result::Result<Posted, PostError> {
        match self.turn_of(from, false) {
            Turn::Post => self.inner.post_read(from, into),
            Turn::Wait => Err(PostError::QueueFull(Verb::Read { from, into })),
            Turn::Refuse(error) => Err(PostError::Rejected(error)),
        }
    }

    /// Not of a table that is gone, nor to change one that takes no writes: what is posted then says
    /// so.
    #[inline]
    fn in_place(&self, at: RemoteAddr, needed: Rights) -> Option<InPlace<'_>> {
        let view = self.inner.in_place(at, needed)?;
        let leases = self.leases.borrow();
        let lease = leases.get(usize::from(at.node.0)).and_then(Option::as_ref);
        let is_there = lease.is_none_or(|lease| {
            !lease.is_lost.get() && {
                let turn =
                    lease.judge(lease.word_in(view), at, needed != Rights::READ, &self.inner);
                matches!(turn, Turn::Post)
            }
        });
        is_there.then_some(view)
    }

    #[inline]
    fn poll_posted(&self, posted: &mut Posted, cx: &mut Context<'_>) -> Poll<Result<Completion>> {
        self.inner.poll_posted(posted, cx)
    }

    #[inline]
    fn poll_read(&self, posted: &mut Posted, cx: &mut Context<'_>) -> Poll<Result<Buffer>> {
        self.inner.poll_read(posted, cx)
    }

    #[inline]
    fn ring_doorbell(&self) {
        self.inner.ring_doorbell();
    }

    #[inline]
    fn poll_completions(&self) -> usize {
        self.inner.poll_completions()
    }

    #[inline]
    fn now(&self) -> Nanos {
        self.inner.now()
    }

    fn wait(&self, deadline: Option<Nanos>, idle_turns: u32) {
        self.inner.wait(deadline, idle_turns);
    }
}
