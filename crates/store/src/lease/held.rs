//! A lease on a word of a node's catalog or of a table: what was seen of it, and when.

use crate::TableRecord;
use crate::catalog::{LEASE, closed, id_at};
use farslot_fabric::{
    AnyEndpoint, AnyPosted, Endpoint, FabricError, InPlace, Nanos, NodeId, Piece, PostError,
    RemoteAddr, Result, Rights,
};
use std::cell::{Cell, RefCell};
use std::task::{Context, Poll, Waker};

/// A lease on a word.
pub(crate) struct Lease {
    /// Where the word is.
    pub(super) word_at: RemoteAddr,
    /// What the word has to be.
    pub(super) id: u64,
    /// The first byte that it is for.
    pub(super) from: u64,
    /// Bytes that are read of it and of what stands behind it: of a table its versions.
    bytes: usize,
    version: Cell<u64>,
    /// What the word is when the table takes no writes any more.
    closed: u64,
    /// The failure of a verb when the word is another.
    lost: fn(RemoteAddr) -> FabricError,
    /// When the word was last seen.
    since: Cell<Nanos>,
    /// Whether it was seen to be another.
    pub(super) is_lost: Cell<bool>,
    /// Whether the table was seen to take no writes any more.
    is_closed: Cell<bool>,
    /// The READ of the word that is under way, and when it was posted.
    asked: RefCell<Option<(Nanos, AnyPosted)>>,
    /// How many READs in a row were answered later than a lease, while verbs waited for them.
    late: Cell<u32>,
}

/// What becomes of a verb.
pub(crate) enum VerbAdmission {
    Post,
    /// It is to be posted again when verbs have completed: the word is being read.
    Wait,
    Refuse(FabricError),
}

impl Lease {
    pub(super) fn new(
        word_at: RemoteAddr,
        [id, closed]: [u64; 2],
        since: Nanos,
        lost: fn(RemoteAddr) -> FabricError,
    ) -> Self {
        Self {
            word_at,
            id,
            from: 0,
            bytes: 8,
            version: Cell::new(0),
            closed,
            lost,
            since: Cell::new(since),
            is_lost: Cell::new(false),
            is_closed: Cell::new(false),
            asked: RefCell::default(),
            late: Cell::new(0),
        }
    }

    pub(crate) fn of_table(node: NodeId, record: &TableRecord, since: Nanos) -> Self {
        let lost = |at| FabricError::Reclaimed { at };
        let words = [record.id, closed(record.id)];
        let lease = Self::new(id_at(node, record), words, since, lost);
        lease.is_closed.set(record.is_closed);
        Self {
            bytes: 16,
            from: record.catalog_end,
            ..lease
        }
    }

    /// When the word was last seen by a READ.
    pub(crate) const fn seen_at(&self) -> Nanos {
        self.since.get()
    }

    /// The table's versions when the word was last seen by a READ.
    pub(crate) const fn version(&self) -> u64 {
        self.version.get()
    }

    /// Whether a view of the memory shows a word by which it may be read, or changed.
    #[inline]
    pub(crate) fn is_seen_in(
        &self,
        view: &InPlace<'_>,
        changes: bool,
        endpoint: &AnyEndpoint,
    ) -> bool {
        let word = self.word_in(view);
        if word == Some(self.id) {
            return !self.is_lost.get();
        }
        let verdict = self.judge(word, self.word_at, changes, endpoint);
        !self.is_lost.get() && matches!(verdict, VerbAdmission::Post)
    }

    #[inline]
    pub(crate) fn admit(
        &self,
        endpoint: &AnyEndpoint,
        at: RemoteAddr,
        changes: bool,
    ) -> VerbAdmission {
        if self.is_lost.get() {
            return VerbAdmission::Refuse((self.lost)(at));
        }
        if let Some(view) = endpoint.in_place(self.word_at, Rights::READ) {
            return self.judge(self.word_in(&view), at, changes, endpoint);
        }
        let now = endpoint.now();
        if now.saturating_sub(self.since.get()) < LEASE / 4 {
            return self.admit_open(at, changes, endpoint);
        }
        self.renew(endpoint, at, now, changes)
    }

    /// What becomes of a verb to a table that is there.
    #[inline]
    fn admit_open(&self, at: RemoteAddr, changes: bool, endpoint: &AnyEndpoint) -> VerbAdmission {
        if changes && self.is_closed.get() && !endpoint.core().for_keeper.get() {
            return VerbAdmission::Refuse(FabricError::Ending { node: at.node });
        }
        VerbAdmission::Post
    }

    /// The word, in memory that is mapped.
    #[inline]
    fn word_in(&self, view: &InPlace<'_>) -> Option<u64> {
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
    ) -> VerbAdmission {
        if word == Some(self.id) {
            return VerbAdmission::Post;
        }
        if word == Some(self.closed) {
            self.is_closed.set(true);
            return self.admit_open(at, changes, endpoint);
        }
        self.is_lost.set(true);
        VerbAdmission::Refuse((self.lost)(at))
    }

    /// Has the word read, if it is not being read, and says what becomes of a verb meanwhile.
    #[cold]
    fn renew(
        &self,
        endpoint: &AnyEndpoint,
        at: RemoteAddr,
        now: Nanos,
        changes: bool,
    ) -> VerbAdmission {
        let mut failed = match self.take_answer(endpoint, at, now, changes) {
            Ok(failed) => failed,
            Err(refusal) => return VerbAdmission::Refuse(refusal),
        };
        if now.saturating_sub(self.since.get()) >= LEASE / 4 && failed.is_none() {
            failed = self.ask(endpoint, now);
            if failed.is_none() {
                // Memory that is lent answers at once, and wakes nobody who waits for an answer.
                failed = match self.take_answer(endpoint, at, now, changes) {
                    Ok(failed) => failed,
                    Err(refusal) => return VerbAdmission::Refuse(refusal),
                };
            }
        }
        let age = now.saturating_sub(self.since.get());
        if age < LEASE {
            self.late.set(0);
            return self.admit_open(at, changes, endpoint);
        }
        match failed {
            Some(error) => VerbAdmission::Refuse(error),
            None => VerbAdmission::Wait,
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
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(read) = endpoint.poll_read(posted, &mut context) else {
            return Ok(None);
        };
        let when = *when;
        *asked = None;
        let words = match read {
            Ok(words) => words,
            Err(error) => return Ok(Some(error)),
        };
        let word = words.words()[0];
        self.since.set(when);
        self.version.set(words.words().get(1).copied().unwrap_or(0));
        if word == self.id {
            // A node that has ended may be back with the same memory.
            self.is_closed.set(false);
        }
        if let VerbAdmission::Refuse(refusal) = self.judge(Some(word), at, changes, endpoint) {
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
        let buffer = endpoint.core().buffers.take(self.bytes);
        match buffer.map(|buffer| endpoint.post_read(self.word_at, buffer)) {
            Ok(Ok(posted)) => *asked = Some((now, posted)),
            // It is asked for again with the next verb.
            Ok(Err(PostError::QueueFull(_))) => {}
            Ok(Err(PostError::Rejected(error))) | Err(error) => return Some(error),
        }
        None
    }
}
