//! Tables that other clients may drop: what is posted to a table's memory is posted only while the
//! memory is the table's.
//!
//! The entry of a table in its node's catalog has a word that is the table's id, until the table is
//! dropped, cleared or renamed. A client that has the table open has a *lease* on it: it has seen
//! the word not longer than [`LEASE`](crate::catalog::LEASE) ago. Where the memory is mapped the
//! word is looked at before
//! every verb, which costs a load. Elsewhere it is read beside the verbs that the client posts,
//! when a quarter of the lease is over; a client that was idle for longer reads it first. Once the
//! word is another's, every verb to the node's tables fails with
//! [`Reclaimed`](FabricError::Reclaimed), and nothing is posted.
//!
//! **Promise.** Whoever drops a table makes the word 0 first. It then waits before it touches the
//! memory ([`GRACE`](crate::catalog::GRACE)): for a lease, and for the second that a verb may be
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

pub(crate) mod held;

use crate::TableRecord;
use crate::calls::client::asking::ask_to_provide;
use crate::catalog::pool::{AttachOutcome, FIRST_REGION};
use crate::catalog::{Catalog, GRACE, ReclaimScope, record, table_at};
use crate::no_room::MemoryLeft;
use crate::pooled::{self, Pooled};
use farslot_fabric::{
    AnyEndpoint, Buffer, Completion, Endpoint, EndpointCore, EndpointExt, FabricError, InPlace,
    Nanos, NodeId, NodeInfo, NodeState, Piece, PostError, RemoteAddr, Result, Rights, Verb,
};
use held::{Lease, VerbAdmission};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};

/// What a store's tables are opened over: an endpoint of any fabric that posts to a table's memory
/// only while it is the table's. As there is one for all fabrics, the schemes are compiled once: on
/// shared memory, where that costs a branch or two, lookups ask for the memory in place.
pub struct Leased {
    inner: AnyEndpoint,
    /// By the nodes' numbers; nothing of nodes on which no table is open.
    leases: RefCell<Vec<Option<Lease>>>,
    /// Of an endpoint with several tables of a node open: each with the bytes that are the table's.
    several: RefCell<Vec<(NodeId, Range<u64>, Lease)>>,
    /// Tables that are made of segments.
    pooled: RefCell<Vec<Rc<Pooled>>>,
    /// The same endpoint, for who goes on beside a verb.
    weak: Weak<Self>,
    /// By the nodes' numbers, on the words that name the only writers: for verbs that change
    /// memory.
    fences: RefCell<Vec<Option<Lease>>>,
    /// What there was of nodes' memory, and when.
    left: RefCell<HashMap<NodeId, (Nanos, Option<MemoryLeft>)>>,
}

impl Leased {
    /// An endpoint with no table open, whose verbs are all posted.
    #[must_use]
    pub fn new(inner: AnyEndpoint) -> Rc<Self> {
        Rc::new_cyclic(|weak| Self {
            inner,
            leases: RefCell::default(),
            several: RefCell::default(),
            pooled: RefCell::default(),
            weak: Weak::clone(weak),
            fences: RefCell::default(),
            left: RefCell::default(),
        })
    }

    /// The table that is made of segments and has this address.
    #[inline]
    fn pooled_at(&self, at: RemoteAddr) -> Option<Rc<Pooled>> {
        if at.region.0 < FIRST_REGION {
            return None;
        }
        let pooled = self.pooled.borrow();
        pooled.iter().find(|pooled| pooled.has(at)).cloned()
    }

    #[inline]
    fn admit_verb(&self, at: RemoteAddr, changes: bool) -> VerbAdmission {
        let leases = self.leases.borrow();
        let admission = match of_node(&leases, at.node) {
            // It is the catalog's.
            Some(lease) if at.offset < lease.from => return VerbAdmission::Post,
            Some(lease) => lease.admit(&self.inner, at, changes),
            None => self.admit_by_several(at, changes),
        };
        match admission {
            VerbAdmission::Post if changes => self.admit_by_fence(at),
            admission => admission,
        }
    }

    fn admit_by_several(&self, at: RemoteAddr, changes: bool) -> VerbAdmission {
        let several = self.several.borrow();
        let lease = of_extent(&several, at);
        lease.map_or(VerbAdmission::Post, |lease| {
            lease.admit(&self.inner, at, changes)
        })
    }

    #[inline]
    fn admit_by_fence(&self, at: RemoteAddr) -> VerbAdmission {
        let fences = self.fences.borrow();
        match of_node(&fences, at.node) {
            Some(fence) if fence.word_at != at => fence.admit(&self.inner, at, true),
            _ => VerbAdmission::Post,
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

impl Leased {
    /// From now on this endpoint has that table open on a node, and no other: it was seen there at
    /// `since`.
    pub(crate) fn lease(&self, node: NodeId, record: &TableRecord, since: Nanos) {
        self.end_lease(node);
        if let Some(pooled) = Pooled::of(node, record, Some(since)) {
            return self.have(pooled);
        }
        let lease = Lease::of_table(node, record, since);
        set(&mut self.leases.borrow_mut(), node, Some(lease));
    }

    /// From now on this endpoint reaches that table, if it is made of segments, besides others of
    /// its node; by a lease, if it was seen at `since`.
    pub(crate) fn reach(&self, node: NodeId, record: &TableRecord, since: Option<Nanos>) {
        if let Some(pooled) = Pooled::of(node, record, since) {
            self.have(pooled);
        }
    }

    fn have(&self, pooled: Pooled) {
        let mut all = self.pooled.borrow_mut();
        let (region, list) = (pooled.segments.region, pooled.segments.list);
        all.retain(|other| {
            !(other.segments.region == region && other.segments.list.node == list.node)
        });
        all.push(Rc::new(pooled));
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
        let mut pooled = self.pooled.borrow_mut();
        pooled.retain(|pooled| pooled.segments.list.node != node);
        drop(pooled);
        self.end_fence(node);
    }

    fn end_fence(&self, node: NodeId) {
        let mut fences = self.fences.borrow_mut();
        if let Some(fence) = of_node(&fences, node) {
            self.inner.fence(fence.word_at, 0);
            set(&mut fences, node, None);
        }
    }

    /// What there is of a node's memory, and what of it the table has in segments that this
    /// endpoint reaches there; nothing if that cannot be read. It may be [`LEFT_FOR`] old.
    pub(crate) async fn memory_left(&self, node: NodeId) -> Option<MemoryLeft> {
        let known = self.left.borrow().get(&node).copied();
        if let Some((since, left)) = known
            && self.now().saturating_sub(since) < LEFT_FOR
        {
            return left;
        }
        let catalog = Catalog::new(&self.inner, node).ok()?;
        let of_node = |pooled: &&Rc<Pooled>| pooled.segments.list.node == node;
        let tag = self
            .pooled
            .borrow()
            .iter()
            .find(of_node)
            .map(|of| of.claim.tag);
        let left = catalog.memory_left(tag).await.ok();
        // From when it is known: over a slow link the look itself takes longer than that.
        self.left.borrow_mut().insert(node, (self.now(), left));
        left
    }

    /// Has the only table that this endpoint reaches have a segment of that number.
    pub(crate) async fn provide_segment(&self, number: u64) -> Result<bool> {
        let pooled = self.pooled.borrow().first().cloned();
        match pooled.filter(|pooled| number < pooled.segments.count()) {
            Some(pooled) => {
                let at = pooled.segments.word_at(number);
                let listed = self.inner.read(at, 8).await?;
                Ok(listed.words()[0] != 0 || self.attach(&pooled, number, false).await?)
            }
            None => Ok(false),
        }
    }

    /// Has it have a segment of that number; false if there is none, and, if it `reclaims`, no
    /// other table has one that it does not need.
    async fn attach(&self, pooled: &Pooled, number: u64, reclaims: bool) -> Result<bool> {
        let node = pooled.segments.list.node;
        let since = self.now();
        match self.attach_free(pooled, number).await {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            // Whose grant opens tables alone takes no memory: the owner does.
            Err(FabricError::AccessDenied { .. }) => {
                let to = (node, pooled.segments.list.region);
                return ask_to_provide(&self.inner, to, (pooled.id, number)).await;
            }
            Err(error) => return Err(error),
        }
        let may_reclaim = reclaims && self.core().may_wait();
        if !may_reclaim || since < pooled.is_full_until.get() {
            return Ok(false);
        }
        // Boxed, for it is rare.
        if Box::pin(self.reclaim(node, ReclaimScope::Wanted)).await
            && self.attach_free(pooled, number).await?
        {
            return Ok(true);
        }
        let now = self.now();
        let took = now.saturating_sub(since).max(LEAST_LOOK);
        let until = now.saturating_add(FULL_FOR * took);
        pooled.is_full_until.set(until);
        Ok(false)
    }

    /// Has it have a free segment; false if there is none.
    async fn attach_free(&self, pooled: &Pooled, number: u64) -> Result<bool> {
        let Ok(catalog) = Catalog::new(&self.inner, pooled.segments.list.node) else {
            return Ok(false);
        };
        let (pool, of) = (catalog.pool(), (pooled.claim, number));
        for _ in 0..ATTEMPTS {
            if pooled.is_leased() {
                // So that the table was seen lately.
                self.read(pooled.start(), 8).await?;
            }
            let seen = pooled.seen_at(&self.inner);
            match pool
                .attach(&pooled.segments, of, seen, &pooled.cursor)
                .await?
            {
                AttachOutcome::Done => return Ok(true),
                AttachOutcome::NoneFree => return Ok(false),
                AttachOutcome::Late => {}
            }
        }
        Ok(false)
    }

    /// Takes back segments of a node that its tables do not need; false if none is free then.
    pub(crate) async fn reclaim(&self, node: NodeId, scope: ReclaimScope) -> bool {
        let (Ok(catalog), Some(endpoint)) = (Catalog::new(&self.inner, node), self.weak.upgrade())
        else {
            return false;
        };
        let opened = RefCell::new(Vec::new());
        let heap_of = |record: &TableRecord| {
            let layout = record::pooled(&record.scheme)?;
            let table = table_at(node, record);
            let known = endpoint.pooled_at(table);
            if known.is_none_or(|known| known.id != record.id) {
                endpoint.reach(node, record, Some(endpoint.now()));
                opened.borrow_mut().extend(endpoint.pooled_at(table));
            }
            Some(layout.heap(Rc::clone(&endpoint), table))
        };
        let reclaimed = catalog.reclaim_segments(scope, heap_of).await;
        let opened = opened.take();
        let is_other = |of: &Rc<Pooled>| opened.iter().any(|other| Rc::ptr_eq(of, other));
        self.pooled.borrow_mut().retain(|of| !is_other(of));
        reclaimed.is_ok_and(|is_any| is_any)
    }
}

/// How long a client tells of a node's memory what it has seen: a batch may have thousands of
/// records for which there is no room.
const LEFT_FOR: Nanos = 100_000_000;

/// How often a table is looked at anew, to give it a segment, where links are slow.
const ATTEMPTS: u32 = 4;

/// A client that has looked in vain for memory that others do not need does not look again for so
/// many times as long as that took, or as this.
const FULL_FOR: Nanos = 8;
const LEAST_LOOK: Nanos = 200_000;

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
    type Posted = pooled::PostedVerbs;

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
    fn post(&self, verb: Verb) -> std::result::Result<pooled::PostedVerbs, PostError> {
        let start = start_of(&verb);
        let pooled = start.and_then(|(at, _)| self.pooled_at(at));
        let admission = match (start, &pooled) {
            (None, _) => VerbAdmission::Post,
            (Some((at, changes)), Some(pooled)) => pooled.admit(&self.inner, at, changes),
            (Some((at, changes)), None) => self.admit_verb(at, changes),
        };
        match (admission, pooled) {
            (VerbAdmission::Post, Some(pooled)) => pooled.post(&self.inner, verb),
            (VerbAdmission::Post, None) => self.inner.post(verb).map(pooled::PostedVerbs::One),
            (VerbAdmission::Wait, _) => Err(PostError::QueueFull(verb)),
            (VerbAdmission::Refuse(error), _) => Err(PostError::Rejected(error)),
        }
    }

    #[inline]
    fn post_read(
        &self,
        from: RemoteAddr,
        into: Buffer,
    ) -> std::result::Result<pooled::PostedVerbs, PostError> {
        let pooled = self.pooled_at(from);
        let admission = match &pooled {
            Some(pooled) => pooled.admit(&self.inner, from, false),
            None => self.admit_verb(from, false),
        };
        match admission {
            VerbAdmission::Post => match pooled {
                Some(pooled) => pooled.post_read(&self.inner, from, into),
                None => self
                    .inner
                    .post_read(from, into)
                    .map(pooled::PostedVerbs::One),
            },
            VerbAdmission::Wait => Err(PostError::QueueFull(Verb::Read { from, into })),
            VerbAdmission::Refuse(error) => Err(PostError::Rejected(error)),
        }
    }

    /// Not of a table that is gone, nor to change one that takes no writes: what is posted then
    /// says so.
    #[inline]
    fn in_place(&self, at: RemoteAddr, needed: Rights) -> Option<InPlace<'_>> {
        let changes = needed.allow(Rights::WRITE) || needed.allow(Rights::ATOMIC);
        if at.region.0 >= FIRST_REGION {
            let all = self.pooled.borrow();
            let pooled = all.iter().find(|pooled| pooled.has(at))?;
            return pooled.in_place(&self.inner, needed, changes);
        }
        let view = self.inner.in_place(at, needed)?;
        let (leases, fences) = (self.leases.borrow(), self.fences.borrow());
        let is_seen = |lease: &Lease| lease.is_seen_in(&view, changes, &self.inner);
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
                Some(view) => fence.is_seen_in(&view, true, &self.inner),
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
    fn poll_posted(
        &self,
        posted: &mut pooled::PostedVerbs,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Completion>> {
        pooled::poll_posted(&self.inner, posted, cx)
    }

    #[inline]
    fn poll_read(
        &self,
        posted: &mut pooled::PostedVerbs,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Buffer>> {
        pooled::poll_read(&self.inner, posted, cx)
    }

    async fn provide(&self, piece: Piece, reclaims: bool) -> Result<bool> {
        let Some(pooled) = self.pooled_at(piece.from) else {
            return Ok(true);
        };
        let Some(numbers) = pooled.segments.numbers(piece) else {
            return Ok(false);
        };
        if let VerbAdmission::Refuse(error) = pooled.admit(&self.inner, piece.from, true) {
            return Err(error);
        }
        let bytes = (numbers.end - numbers.start) as usize * 8;
        let listed = self
            .inner
            .read(pooled.segments.word_at(numbers.start), bytes);
        let listed = listed.await?;
        for (number, word) in numbers.zip(listed.words()) {
            if *word == 0 && !self.attach(&pooled, number, reclaims).await? {
                return Ok(false);
            }
        }
        Ok(true)
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
