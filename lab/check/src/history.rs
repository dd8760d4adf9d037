//! Histories, and how they are recorded.

use std::cell::RefCell;
use std::rc::Rc;

/// Who runs an operation; its operations are taken to follow each other unless they overlap.
pub type HistoryClient = u32;

/// Names an operation in the history that recorded it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpId(usize);

impl OpId {
    pub(crate) fn new(index: usize) -> Self {
        OpId(index)
    }

    /// The operation's place in [`History::entries`].
    pub fn index(self) -> usize {
        self.0
    }
}

/// What became of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<R> {
    /// It has not returned: it may take effect at any time after its invocation, or never.
    Pending,
    /// It returned this at that time.
    Returned {
        /// The result.
        ret: R,
        /// When it returned.
        end: u64,
    },
    /// It failed, at that time, in a way that leaves its effect open: as [`Outcome::Pending`],
    /// also after that time.
    InDoubt {
        /// When it failed.
        end: u64,
    },
    /// It failed, at that time, and certainly had and will have no effect: the check ignores it.
    NoEffect {
        /// When it failed.
        end: u64,
    },
}

/// One operation of a [`History`].
#[derive(Clone, Debug)]
pub struct Entry<K, O, R> {
    /// Who ran it.
    pub client: HistoryClient,
    /// The key it was run on.
    pub key: K,
    /// The operation.
    pub op: O,
    /// When it was invoked.
    pub start: u64,
    /// What became of it.
    pub outcome: Outcome<R>,
    /// Places of the two events in the order of recording: these alone order one client's
    /// operations where the clock does not.
    pub(crate) start_seq: u64,
    pub(crate) end_seq: u64,
}

/// A record of concurrent operations on a table.
///
/// Times come from one clock, a virtual one or a monotonic one shared by all clients. An operation
/// precedes another if it completed at a time strictly before the other's invocation; between two
/// operations of the same client, equal times are told apart by the order of recording, as a client
/// of a simulator may go on without virtual time passing.
///
/// Histories recorded by several OS threads are put together by [`History::merge`]; tasks of one
/// thread share one through a [`Recorder`].
#[derive(Clone, Debug)]
pub struct History<K, O, R> {
    entries: Vec<Entry<K, O, R>>,
    next_seq: u64,
}

impl<K, O, R> Default for History<K, O, R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, O, R> History<K, O, R> {
    /// An empty history.
    pub fn new() -> Self {
        History {
            entries: Vec::new(),
            next_seq: 0,
        }
    }

    /// Records that `client` invoked `op` on `key` at time `now`.
    pub fn invoke(&mut self, client: HistoryClient, key: K, op: O, now: u64) -> OpId {
        let start_seq = self.tick();
        let entry = Entry {
            client,
            key,
            op,
            start: now,
            outcome: Outcome::Pending,
            start_seq,
            end_seq: u64::MAX,
        };
        self.entries.push(entry);
        OpId(self.entries.len() - 1)
    }

    /// Records that an operation returned `ret` at time `now`.
    ///
    /// # Panics
    ///
    /// If the operation has an outcome already, is not of this history or was invoked after `now`.
    pub fn complete(&mut self, id: OpId, ret: R, now: u64) {
        self.finish(id, now, Outcome::Returned { ret, end: now });
    }

    /// Records that an operation failed at time `now` and may or may not have had its effect, which
    /// may also come later (a request still under way, say).
    ///
    /// # Panics
    ///
    /// As [`History::complete`].
    pub fn in_doubt(&mut self, id: OpId, now: u64) {
        self.finish(id, now, Outcome::InDoubt { end: now });
    }

    /// Records that an operation failed at time `now` without any effect (the table was full, say).
    ///
    /// # Panics
    ///
    /// As [`History::complete`].
    pub fn no_effect(&mut self, id: OpId, now: u64) {
        self.finish(id, now, Outcome::NoEffect { end: now });
    }

    /// Puts together histories recorded separately against the same clock, in the given order
    /// (which only matters for the [`OpId`]s). All operations of a client belong in one of them.
    pub fn merge(histories: impl IntoIterator<Item = Self>) -> Self {
        let mut merged = Self::new();
        for history in histories {
            let base = merged.next_seq;
            merged.next_seq += history.next_seq;
            merged
                .entries
                .extend(history.entries.into_iter().map(|entry| Entry {
                    start_seq: entry.start_seq + base,
                    end_seq: entry.end_seq.saturating_add(base),
                    ..entry
                }));
        }
        merged
    }

    /// The operations, in the order of their recorded invocations.
    pub fn entries(&self) -> &[Entry<K, O, R>] {
        &self.entries
    }

    /// The number of operations.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn finish(&mut self, id: OpId, now: u64, outcome: Outcome<R>) {
        let end_seq = self.tick();
        let entry = &mut self.entries[id.0];
        assert!(
            matches!(entry.outcome, Outcome::Pending),
            "operation {} has an outcome already",
            id.0
        );
        assert!(
            entry.start <= now,
            "operation {} was invoked at {} and ended at {now}",
            id.0,
            entry.start
        );
        entry.outcome = outcome;
        entry.end_seq = end_seq;
    }

    fn tick(&mut self) -> u64 {
        let seq = self.next_seq;
        self.next_seq += 1;
        seq
    }
}

/// A [`History`] shared by the tasks of one thread: a clone records into the same history.
#[derive(Debug)]
pub struct Recorder<K, O, R> {
    history: Rc<RefCell<History<K, O, R>>>,
}

impl<K, O, R> Clone for Recorder<K, O, R> {
    fn clone(&self) -> Self {
        Recorder {
            history: Rc::clone(&self.history),
        }
    }
}

impl<K, O, R> Default for Recorder<K, O, R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, O, R> Recorder<K, O, R> {
    /// A recorder of a new, empty history.
    pub fn new() -> Self {
        Recorder {
            history: Rc::default(),
        }
    }

    /// See [`History::invoke`].
    pub fn invoke(&self, client: HistoryClient, key: K, op: O, now: u64) -> OpId {
        self.history.borrow_mut().invoke(client, key, op, now)
    }

    /// See [`History::complete`].
    pub fn complete(&self, id: OpId, ret: R, now: u64) {
        self.history.borrow_mut().complete(id, ret, now);
    }

    /// See [`History::in_doubt`].
    pub fn in_doubt(&self, id: OpId, now: u64) {
        self.history.borrow_mut().in_doubt(id, now);
    }

    /// See [`History::no_effect`].
    pub fn no_effect(&self, id: OpId, now: u64) {
        self.history.borrow_mut().no_effect(id, now);
    }

    /// Calls `look` with the history recorded so far.
    pub fn with<T>(&self, look: impl FnOnce(&History<K, O, R>) -> T) -> T {
        look(&self.history.borrow())
    }

    /// Takes the history recorded so far, and goes on with an empty one: operations under way
    /// stay pending in the one taken and must not be completed afterwards.
    pub fn take(&self) -> History<K, O, R> {
        self.history.take()
    }
}
