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
//! **Promise.** Whoever drops a table makes the word 0 first. It then waits before it touches the
//! memory ([`GRACE`](crate::catalog::GRACE)): for [`LEASE`], and for the second that a verb may be
//! under way. So no verb of another client's meets another table's bytes. For let a verb be posted
//! at `t`. The client had seen the word by a READ that it posted at `p`, with `t - p < LEASE`. That
//! READ found the table's id, so the word became 0 after `p`, and the wait ends later than
//! `p + LEASE` and a second. The verb takes effect by `t` and a second, which is earlier.
//!
//! The READ may be executed, and its answer may come, as late as they like: a lease counts from
//! when the READ was posted. An answer that comes later than a lease therefore allows nothing.
//! Where all do, verbs fail with [`SlowLink`](FabricError::SlowLink) once the verb timeout is over.
//!
//! **Nodes that end.** Whoever ends a node inverts the words of its tables first, and waits
//! likewise before it takes the last snapshots: clients that see such a word go on reading, and
//! what they write is refused with [`Ending`](FabricError::Ending). So all that was acknowledged is
//! in these snapshots.
//!
//! **Writers.** A CuckooDuo table has one writer at a time, named by a word of the table. The
//! writer has a lease on that word as well, for what it writes ([`Endpoint::fence`]): a verb that
//! changes memory is posted only while the word was seen to name this client. Whoever takes over
//! changes the word and then waits as a dropper does, so no verb of the writer before meets what
//! the new one does, by the same proof. This holds for a writer that was stopped and goes on as
//! well. Over TCP the node's agent looks at the word too, before it executes the verb.
//!
//! Both need two bounds that no verb can check. A verb that a node executes more than
//! a second after it was posted could meet another table's bytes. So could a client's
//! processor that stands still for as long between looking and posting, or loading.

use crate::TableRecord;
use crate::catalog::{CATALOG_BYTES, GRACE, LEASE, closed, id_at};
use farslot_fabric::{
    AnyEndpoint, Buffer, Completion, Endpoint, EndpointCore, FabricError, InPlace, Nanos, NodeId,
    NodeInfo, NodeState, Piece, PostError, RemoteAddr, Result, Rights, Verb,
};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::task::{Context, Poll, Waker};

/// What a store's tables are opened over: an endpoint of any fabric that posts to a table's memory
/// only while it is the table's. As there is one for all fabrics, the schemes are compiled once: on
/// shared memory, where that costs a branch or two, lookups ask for the memory in place.
pub(crate) struct Leased {
    inner: AnyEndpoint,
    /// By the nodes' numbers; nothing of nodes on which no table is open.
    leases: RefCell<Vec<Option<Lease>>>,
    /// Of an endpoint with several tables of a node open: each with the bytes that are the table's.
    several: RefCell<Vec<(NodeId, Range<u64>, Lease)>>,
    /// By the nodes' numbers, on the words that name the only writers: for verbs that change
    /// memory.
    fences: RefCell<Vec<Option<Lease>>>,
}

type Posted = <AnyEndpoint as Endpoint>::Posted;

struct Lease {
    /// Where the word is.
    word_at: RemoteAddr,
    /// What the word has to be.
    id: u64,
    /// What the word is when the table takes no writes any more.
    closed: u64,
    /// The failure of a verb when the word is another.
    lost: fn(RemoteAddr) -> FabricError,
    /// When the word was last seen.
    since: Cell<Nanos>,
    /// Whether it was seen to be another.
    is_lost: Cell<bool>,
    /// Whether the table was seen to take no writes any more.
    is_closed: Cell<bool>,
    /// The READ of the word that is under way, and when it was posted.
    asked: RefCell<Option<(Nanos, Posted)>>,
    /// How many READs in a row were answered later than a lease, while verbs waited for them.
    late: Cell<u32>,
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
            several: RefCell::default(),
            fences: RefCell::default(),
        }
    }

    #[inline]
    fn turn_of(&self, at: RemoteAddr, changes: bool) -> Turn {
        if at.offset < CATALOG_BYTES {
            return Turn::Post;
        }
        let leases = self.leases.borrow();
        let turn = match of_node(&leases, at.node) {
            Some(lease) => lease.turn(&self.inner, at, changes),
            None => self.turn_of_several(at, changes),
        };
        match turn {
            Turn::Post if changes => self.turn_behind_fence(at),
            turn => turn,
        }
    }

    fn turn_of_several(&self, at: RemoteAddr, changes: bool) -> Turn {
        let several = self.several.borrow();
        let lease = of_extent(&several, at);
        lease.map_or(Turn::Post, |lease| lease.turn(&self.inner, at, changes))
    }

    #[inline]
    fn turn_behind_fence(&self, at: RemoteAddr) -> Turn {
        let fences = self.fences.borrow();
        match of_node(&fences, at.node) {
            Some(fence) if fence.word_at != at => fence.turn(&self.inner, at, true),
            _ => Turn::Post,
        }
    }
}

#[inline]
fn of_node(leases: &[Option<Lease>], node: NodeId) -> Option<&Lease> {
    leases.get(usize::from(node.0)).and_then(Option::as_ref)
}

fn of_extent(several: &[(NodeId, Range<u64>, Lease)], at: RemoteAddr) -> Option<&Lease> {
    let mut several = several.iter();
    let found = several.find(|(node, bytes, _)| *node == at.node && bytes.contains(&at.offset));
    found.map(|(.., lease)| lease)
}

/// Puts a lease in its place, or takes it away.
fn set(leases: &mut Vec<Option<Lease>>, node: NodeId, lease: Option<Lease>) {
    let index = usize::from(node.0);
    if leases.len() <= index {
        leases.resize_with(index + 1, || None);
    }
    leases[index] = lease;
}

impl Lease {
    fn new(
        word_at: RemoteAddr,
        [id, closed]: [u64; 2],
        since: Nanos,
        lost: fn(RemoteAddr) -> FabricError,
    ) -> Self {
        Self {
            word_at,
            id,
            closed,
            lost,
            since: Cell::new(since),
            is_lost: Cell::new(false),
            is_closed: Cell::new(false),
            asked: RefCell::default(),
            late: Cell::new(0),
        }
    }

    fn of_table(node: NodeId, record: &TableRecord, since: Nanos) -> Self {
        let lost = |at| FabricError::Reclaimed { at };
        let words = [record.id, closed(record.id)];
        let lease = Self::new(id_at(node, record), words, since, lost);
        lease.is_closed.set(record.is_closed);
        lease
    }

    /// Whether a view of the memory shows a word by which it may be read, or changed.
    #[inline]
    fn is_seen_in(&self, view: InPlace<'_>, changes: bool, endpoint: &AnyEndpoint) -> bool {
        let word = self.word_in(view);
        let turn = self.judge(word, self.word_at, changes, endpoint);
        !self.is_lost.get() && matches!(turn, Turn::Post)
    }

    #[inline]
    fn turn(&self, endpoint: &AnyEndpoint, at: RemoteAddr, changes: bool) -> Turn {
        if self.is_lost.get() {
            return Turn::Refuse((self.lost)(at));
        }
        if let Some(view) = endpoint.in_place(self.word_at, Rights::READ) {
            return self.judge(self.word_in(view), at, changes, endpoint);
        }
        let now = endpoint.now();
        if now.saturating_sub(self.since.get()) < LEASE / 4 {
            return self.admit(at, changes, endpoint);
        }
        self.renew(endpoint, at, now, changes)
    }

    /// What becomes of a verb to a table that is there.
    #[inline]
    fn admit(&self, at: RemoteAddr, changes: bool, endpoint: &AnyEndpoint) -> Turn {
        if changes && self.is_closed.get() && !endpoint.core().for_keeper.get() {
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
        changes: bool,
        endpoint: &AnyEndpoint,
    ) -> Turn {
        if word == Some(self.id) {
            return Turn::Post;
        }
        if word == Some(self.closed) {
            self.is_closed.set(true);
            return self.admit(at, changes, endpoint);
        }
        self.is_lost.set(true);
        Turn::Refuse((self.lost)(at))
    }

    /// Has the word read, if it is not being read, and says what becomes of a verb meanwhile.
    #[cold]
    fn renew(&self, endpoint: &AnyEndpoint, at: RemoteAddr, now: Nanos, changes: bool) -> Turn {
        let mut failed = match self.take_answer(endpoint, at, now, changes) {
            Ok(failed) => failed,
            Err(refusal) => return Turn::Refuse(refusal),
        };
        if now.saturating_sub(self.since.get()) >= LEASE / 4 && failed.is_none() {
            failed = self.ask(endpoint, now);
            if failed.is_none() {
                // Memory that is lent answers at once, and wakes nobody who waits for an answer.
                failed = match self.take_answer(endpoint, at, now, changes) {
                    Ok(failed) => failed,
                    Err(refusal) => return Turn::Refuse(refusal),
                };
            }
        }
        let age = now.saturating_sub(self.since.get());
        if age < LEASE {
            self.late.set(0);
            return self.admit(at, changes, endpoint);
        }
        match failed {
            Some(error) => Turn::Refuse(error),
            None => Turn::Wait,
        }
    }

    /// Takes the answer of the READ that is under way, if it has come: what the READ failed with,
    /// or that it took too long too often. An error says that the table is gone, or takes no
    /// writes.
    fn take_answer(
        &self,
        endpoint: &AnyEndpoint,
        at: RemoteAddr,
        now: Nanos,
        changes: bool,
    ) -> Result<Option<FabricError>> {
        let mut asked = self.asked.borrow_mut();
        let Some((when, posted)) = asked.as_mut() else {
            return Ok(None);
        };
        // The tasks that wait are woken when verbs have completed, this one among them.
        let mut nobody = Context::from_waker(Waker::noop());
        let Poll::Ready(read) = endpoint.poll_read(posted, &mut nobody) else {
            return Ok(None);
        };
        let when = *when;
        *asked = None;
        let word = match read {
            Ok(word) => word.words()[0],
            Err(error) => return Ok(Some(error)),
        };
        self.since.set(when);
        if word == self.id {
            // A node that has ended may be back with the same memory.
            self.is_closed.set(false);
        }
        if let Turn::Refuse(refusal) = self.judge(Some(word), at, changes, endpoint) {
            return Err(refusal);
        }
        let round_trip = now.saturating_sub(when);
        if round_trip < LEASE {
            return Ok(None);
        }
        // One may have come in time, and have waited here for the next verb.
        let late = self.late.get() + 1;
        self.late.set(late);
        let waited = LEASE * u64::from(late);
        if late < 2 || waited < endpoint.core().limits.verb_timeout {
            return Ok(None);
        }
        self.late.set(0);
        Ok(Some(FabricError::SlowLink {
            node: at.node,
            round_trip,
            limit: LEASE,
        }))
    }

    /// Has the word read, if it is not being read; what that failed with.
    fn ask(&self, endpoint: &AnyEndpoint, now: Nanos) -> Option<FabricError> {
        let mut asked = self.asked.borrow_mut();
        if asked.is_some() {
            return None;
        }
        let buffer = endpoint.core().buffers.take(8);
        match buffer.map(|buffer| endpoint.post_read(self.word_at, buffer)) {
            Ok(Ok(posted)) => *asked = Some((now, posted)),
            // It is asked for again with the next verb.
            Ok(Err(PostError::QueueFull(_))) => {}
            Ok(Err(PostError::Rejected(error))) | Err(error) => return Some(error),
        }
        None
    }
}

impl Leased {
    /// From now on this endpoint has that table open on a node, and no other: it was seen there at
    /// `since`.
    pub(crate) fn lease(&self, node: NodeId, record: &TableRecord, since: Nanos) {
        let lease = Lease::of_table(node, record, since);
        set(&mut self.leases.borrow_mut(), node, Some(lease));
        self.end_fence(node);
    }

    /// From now on this endpoint has that table open besides others of its node, likewise. It must
    /// have none open that it has [alone](Self::lease).
    pub(crate) fn lease_besides(&self, node: NodeId, record: &TableRecord, since: Nanos) {
        let (bytes, lease) = (record.extent(), Lease::of_table(node, record, since));
        let mut several = self.several.borrow_mut();
        // What lay there before is gone.
        several.retain(|(of, other, _)| {
            *of != node || other.end <= bytes.start || bytes.end <= other.start
        });
        several.push((node, bytes, lease));
    }

    /// From now on this endpoint has no table open on a node, and may look for one there.
    pub(crate) fn end_lease(&self, node: NodeId) {
        set(&mut self.leases.borrow_mut(), node, None);
        self.end_fence(node);
    }

    fn end_fence(&self, node: NodeId) {
        let mut fences = self.fences.borrow_mut();
        if let Some(fence) = of_node(&fences, node) {
            self.inner.fence(fence.word_at, 0);
            set(&mut fences, node, None);
        }
    }
}

/// The first address of a verb, and whether it changes memory.
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
        match start_of(&verb).map_or(Turn::Post, |(at, changes)| self.turn_of(at, changes)) {
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

    /// Not of a table that is gone, nor to change one that takes no writes: what is posted then
    /// says so.
    #[inline]
    fn in_place(&self, at: RemoteAddr, needed: Rights) -> Option<InPlace<'_>> {
        let view = self.inner.in_place(at, needed)?;
        let (leases, fences) = (self.leases.borrow(), self.fences.borrow());
        let changes = needed.allow(Rights::WRITE) || needed.allow(Rights::ATOMIC);
        let is_seen = |lease: &Lease| lease.is_seen_in(view, changes, &self.inner);
        let is_there = match of_node(&leases, at.node) {
            Some(lease) => is_seen(lease),
            None => of_extent(&self.several.borrow(), at).is_none_or(is_seen),
        };
        let may_change = !changes || of_node(&fences, at.node).is_none_or(is_seen);
        (is_there && may_change).then_some(view)
    }

    #[inline]
    fn fence(&self, word: RemoteAddr, holds: u64) -> bool {
        let mut fences = self.fences.borrow_mut();
        if let Some(fence) = of_node(&fences, word.node)
            && fence.word_at == word
            && fence.id == holds
        {
            return match self.inner.in_place(word, Rights::READ) {
                Some(view) => fence.is_seen_in(view, true, &self.inner),
                None => !fence.is_lost.get(),
            };
        }
        // When it was seen is not known: it is read before the first verb that changes memory.
        let fence = Lease::new(word, [holds; 2], 0, |at| FabricError::Deposed {
            at,
            sent: false,
        });
        set(&mut fences, word.node, (holds != 0).then_some(fence));
        self.inner.fence(word, holds)
    }

    fn fence_lasts(&self) -> Nanos {
        GRACE
    }

    fn call_cost(&self) -> f64 {
        self.inner.call_cost()
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
        #[cfg(test)]
        crate::turns::pass_on();
        self.inner.wait(deadline, idle_turns);
    }
}
