//! What a node's owner keeps of transactions.

#[cfg(test)]
use crate::broken::ProtocolBreach;
use crate::identity::Names;
use crate::kept::Tables;
use crate::wire::TransactionHome;
use farslot_fabric::{Nanos, OwnerMemory};
use std::collections::BTreeMap;
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
    /// There is so much to note of transactions that no further one may lock anything.
    pub(crate) is_crowded: bool,
}

pub(crate) struct TransactionLocks {
    pub(crate) until: Nanos,
    /// The transaction's home, as its client has told.
    pub(crate) home: TransactionHome,
    /// The grant of its client: no other speaks for it.
    pub(crate) grant: Option<Box<str>>,
    /// What its locks are named by, and the nodes of maps that were promised with them.
    pub(crate) keys: BTreeMap<(u64, Box<[u8]>), u64>,
}

pub(crate) struct Decided {
    pub(crate) since: Nanos,
    pub(crate) grant: Option<Box<str>>,
    pub(crate) parts: Vec<(u8, Box<[u8]>)>,
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
