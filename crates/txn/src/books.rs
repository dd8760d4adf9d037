//! What a node's owner keeps of transactions.

#[cfg(test)]
use crate::broken::ProtocolBreach;
use crate::identity::Names;
use crate::kept::Tables;
use crate::wire::TransactionHome;
use farslot_fabric::{Nanos, OwnerMemory};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How a node takes part in transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OwnerOptions {
    /// Nanoseconds for which a transaction may keep its locks against others, from its first lock
    /// here on.
    pub lease: Nanos,
    /// Decisions kept at a time: of transactions that have committed here and are unfinished at
    /// other nodes. As many transactions that were given up are remembered one by one; beyond that,
    /// the older ones that have locked nothing here yet are given up with them, to be run again.
    pub decisions: usize,
    /// Bytes of these decisions. The clients of one grant have half of them at most.
    pub decision_bytes: usize,
}

impl Default for OwnerOptions {
    /// 100 ms; 65,536 decisions of 64 MiB in all.
    fn default() -> Self {
        Self {
            lease: 100_000_000,
            decisions: 1 << 16,
            decision_bytes: 64 << 20,
        }
    }
}

/// A node's part in transactions. What it knows of them lives as long as the node's memory does:
/// with its process, or beyond ([`notes`](crate::notes)).
pub(crate) struct Owner {
    pub(crate) tables: Arc<dyn Tables>,
    pub(crate) options: OwnerOptions,
    books: Mutex<Books>,
    #[cfg(test)]
    pub(crate) breach: Option<ProtocolBreach>,
}

#[derive(Default)]
pub(crate) struct Books {
    /// What each transaction has locked here.
    pub(crate) held: BTreeMap<u64, TransactionLocks>,
    /// Transactions that have this node as home, have committed, and may be unfinished elsewhere.
    pub(crate) decided: BTreeMap<u64, Decided>,
    /// The node's place in the list of nodes that its clients have in common, and the names of the
    /// transactions that have this node as home, once there is a client.
    pub(crate) names: Option<(u8, Names)>,
    /// How often the node has had another place.
    pub(crate) moves: u64,
    /// Whether these are the books, and not what is there before the first turn.
    pub(crate) is_known: bool,
    /// Bytes of `decided`.
    pub(crate) decisions: GrantShares,
    /// Bytes of what is to be noted: of these, and of what is locked.
    pub(crate) noted: GrantShares,
}

/// A table's number, and what names a lock in it.
type HeldName = (u64, Box<[u8]>);

pub(crate) struct TransactionLocks {
    pub(crate) until: Nanos,
    /// The transaction's home, as its client has told.
    pub(crate) home: TransactionHome,
    /// The grant of its client: no other speaks for it.
    pub(crate) grant: Option<Box<str>>,
    /// What its locks are named by, and the nodes of maps that were promised with them.
    pub(crate) keys: BTreeMap<HeldName, u64>,
}

pub(crate) struct Decided {
    pub(crate) since: Nanos,
    pub(crate) grant: Option<Box<str>>,
    pub(crate) parts: Vec<(u8, Box<[u8]>)>,
}

/// Bytes, and those of each grant.
#[derive(Default)]
pub(crate) struct GrantShares {
    all: usize,
    /// No grant's name is empty: that is the share of those that have none.
    of_grants: BTreeMap<Box<str>, usize>,
}

impl GrantShares {
    fn add(&mut self, grant: Option<&str>, bytes: usize) {
        let grant = grant.unwrap_or_default();
        self.all += bytes;
        match self.of_grants.get_mut(grant) {
            Some(share) => *share += bytes,
            None => drop(self.of_grants.insert(grant.into(), bytes)),
        }
    }

    fn take(&mut self, grant: Option<&str>, bytes: usize) {
        let grant = grant.unwrap_or_default();
        self.all -= bytes;
        if let Some(share) = self.of_grants.get_mut(grant) {
            *share -= bytes;
            if *share == 0 {
                self.of_grants.remove(grant);
            }
        }
    }

    /// What is over its limit with so many bytes more of a grant, and that limit: all, or what the
    /// grant has, which is half of it at most.
    pub(crate) fn excess(
        &self,
        grant: Option<&str>,
        bytes: usize,
        limit: usize,
    ) -> Option<(usize, usize)> {
        let own = self.of_grants.get(grant.unwrap_or_default());
        let own = (own.map_or(0, |share| *share) + bytes, limit / 2);
        let mut both = [own, (self.all + bytes, limit)].into_iter();
        both.find(|(bytes, limit)| bytes > limit)
    }
}

/// Bytes that are counted for a lock besides those of its key and its grant: no fewer than its note
/// has.
const A_LOCK: usize = 64;
/// The same of a decision, and of each of its parts.
const A_PART: usize = 32;
/// Bytes of what is to be noted of all transactions beyond which none locks anything more before
/// some have ended.
pub(crate) const MOST_NOTED: usize = 2 << 20;

impl TransactionLocks {
    /// Bytes of all that it holds.
    pub(crate) fn bytes(&self) -> usize {
        let keys = self.keys.keys();
        keys.map(|(_, key)| self.bytes_of(key)).sum()
    }

    fn bytes_of(&self, key: &[u8]) -> usize {
        A_LOCK + self.grant.as_deref().map_or(0, str::len) + key.len()
    }
}

impl Decided {
    pub(crate) fn bytes(&self) -> usize {
        let parts = self.parts.iter();
        let parts: usize = parts.map(|(_, part)| A_PART + part.len()).sum();
        A_PART + self.grant.as_deref().map_or(0, str::len) + parts
    }
}

/// All that comes into the books, and goes.
impl Books {
    /// A transaction holds something, perhaps with further promises. Returns whether it is new.
    pub(crate) fn hold(
        &mut self,
        lock: u64,
        (object, key): (u64, &[u8]),
        promised: u64,
        begin: impl FnOnce() -> TransactionLocks,
    ) -> bool {
        let held = self.held.entry(lock).or_insert_with(begin);
        let bytes = held.bytes_of(key);
        match held.keys.entry((object, key.into())) {
            Entry::Occupied(mut known) => {
                *known.get_mut() += promised;
                false
            }
            Entry::Vacant(new) => {
                new.insert(promised);
                self.noted.add(held.grant.as_deref(), bytes);
                true
            }
        }
    }

    /// Takes one of the things that a transaction holds, with what was promised.
    pub(crate) fn take_held(&mut self, lock: u64) -> Option<(HeldName, u64)> {
        let held = self.held.get_mut(&lock)?;
        let taken = held.keys.pop_first()?;
        let bytes = held.bytes_of(&taken.0.1);
        self.noted.take(held.grant.as_deref(), bytes);
        Some(taken)
    }

    /// A transaction holds nothing any more. Returns whether it was known.
    pub(crate) fn release(&mut self, lock: u64) -> bool {
        while self.take_held(lock).is_some() {}
        self.held.remove(&lock).is_some()
    }

    /// A transaction is committed, and unfinished elsewhere.
    pub(crate) fn decide(&mut self, lock: u64, decided: Decided) {
        self.take_decided(lock);
        let (grant, bytes) = (decided.grant.as_deref(), decided.bytes());
        self.decisions.add(grant, bytes);
        self.noted.add(grant, bytes);
        self.decided.insert(lock, decided);
    }

    /// Takes what is kept of a transaction that is committed.
    pub(crate) fn take_decided(&mut self, lock: u64) -> Option<Decided> {
        let decided = self.decided.remove(&lock)?;
        let (grant, bytes) = (decided.grant.as_deref(), decided.bytes());
        self.decisions.take(grant, bytes);
        self.noted.take(grant, bytes);
        Some(decided)
    }

    /// The bytes to be noted that keep a grant's transactions from locking more, and their limit.
    pub(crate) fn crowd(&self, grant: Option<&str>) -> Option<(usize, usize)> {
        self.noted.excess(grant, 0, MOST_NOTED)
    }
}

impl Owner {
    pub(crate) fn new(tables: Arc<dyn Tables>, options: OwnerOptions) -> Self {
        Self {
            tables,
            options,
            books: Mutex::default(),
            #[cfg(test)]
            breach: None,
        }
    }

    /// The books, for a turn in this memory.
    pub(crate) fn books(&self, memory: &mut dyn OwnerMemory, now: Nanos) -> MutexGuard<'_, Books> {
        let mut books = self.lock();
        if !books.is_known {
            *books = Books::noted(memory, now, &self.options);
        }
        books.make_room(memory);
        books
    }

    /// Forgets the books after a turn that could not be done: the next one begins with what is
    /// noted.
    pub(crate) fn forget_books(&self) {
        self.lock().is_known = false;
    }

    fn lock(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(crate) fn is_blind(&self) -> bool {
        self.breach == Some(ProtocolBreach::BlindRelease)
    }
}
