//! Why a transaction failed.

use crate::identity::TableId;
use farslot_fabric::ByteCount;
use farslot_remote::{Lock, RemoteError};
use farslot_rpc::RpcError;

/// Why a transaction failed. Each error names the value and the limit.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TxnError {
    /// Another transaction is in the way. Nothing was changed; retry.
    #[error("conflict on key {key:02x?} of {table}: {cause}")]
    Conflict {
        /// The table.
        table: TableId,
        /// The key.
        key: Vec<u8>,
        /// What is in the way.
        cause: ConflictCause,
    },
    /// The transaction took longer than its lease, and another one broke its locks. Nothing was
    /// changed; retry.
    #[error("the locks of {lock} were broken after their lease")]
    LeaseOver {
        /// The transaction's lock.
        lock: Lock,
    },
    /// The call that decides was not answered: the transaction is committed as a whole or not at
    /// all.
    #[error("whether {lock} is committed cannot be told: {cause}")]
    InDoubt {
        /// The transaction's lock.
        lock: Lock,
        /// Why the call failed.
        cause: RpcError,
    },
    /// An earlier operation of the transaction failed, or was dropped before it ended: all it can
    /// do is to abort.
    #[error("an earlier operation of the transaction failed, or was dropped before it ended")]
    Failed,
    /// The node keeps the decisions of as many unfinished transactions as it may. Nothing was
    /// changed, and old ones were finished meanwhile; retry.
    #[error("node {node} keeps the decisions of as many unfinished transactions as it may")]
    TooManyUnfinished {
        /// The node's place in the database.
        node: u8,
    },
    /// What the transaction changes or locks is more than a node can do at once: nothing was
    /// changed. It is so where the node's memory is kept.
    #[error(
        "what the transaction does at node {node} takes {} of its journal, over the limit of {}",
        ByteCount(*bytes), ByteCount(*limit)
    )]
    TooLarge {
        /// The node's place in the database.
        node: u8,
        /// Bytes of the node's journal that it takes, as far as was counted.
        bytes: usize,
        /// Most bytes.
        limit: usize,
    },
    /// A node locks no more for now, as it has to keep notes of too many locks and unfinished
    /// decisions, of all transactions or of those of the client's grant. Nothing was changed;
    /// retry.
    #[error(
        "node {node} has {} to note of transactions, over the limit of {}: try again later",
        ByteCount(*bytes), ByteCount(*limit)
    )]
    Crowded {
        /// The node's place in the database.
        node: u8,
        /// Bytes of the notes.
        bytes: usize,
        /// Bytes beyond which nothing is locked.
        limit: usize,
    },
    /// There is no such table.
    #[error("{table} does not exist: the database has {tables} tables")]
    NoTable {
        /// The table.
        table: TableId,
        /// Tables that there are.
        tables: usize,
    },
    /// A table that has no order was to be scanned.
    #[error("{table} has no order: only ordered maps are scanned")]
    NotOrdered {
        /// The table.
        table: TableId,
    },
    /// A database of no node, or of too many.
    #[error("{nodes} nodes: a database has 1 to {limit}")]
    BadNodes {
        /// Nodes.
        nodes: usize,
        /// Most nodes.
        limit: usize,
    },
    /// The node takes part in transactions of clients that have it at another place of their lists
    /// of nodes, and some of these are not over. List the same nodes in the same order; or retry.
    #[error(
        "node {node} is at another place of the lists of others, whose transactions are under way"
    )]
    OtherPlace {
        /// The node's place in the database.
        node: u8,
    },
    /// The thread of a [`Handle`](crate::Handle) has ended: whether the transaction is committed
    /// cannot be told.
    #[error("the thread that runs transactions has ended")]
    Closed,
    /// A lookup, a lock or a call failed.
    #[error(transparent)]
    Remote(#[from] RemoteError),
}

/// What is in the way of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConflictCause {
    /// Another transaction holds the key.
    #[error("it is locked by {by}")]
    Locked {
        /// Its lock.
        by: Lock,
    },
    /// The key, or for an absent key its bucket, has changed since it was read.
    #[error("it has changed since it was read")]
    Changed,
}

impl TxnError {
    /// Whether the same transaction may succeed if it is run again. Such an error leaves nothing
    /// changed.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Conflict { .. }
                | Self::LeaseOver { .. }
                | Self::TooManyUnfinished { .. }
                | Self::Crowded { .. }
        )
    }
}

/// Of a call that decides a transaction.
pub(crate) fn undecided(lock: Lock, cause: RpcError) -> TxnError {
    match cause.may_have_taken_effect() {
        true => TxnError::InDoubt { lock, cause },
        false => cause.into(),
    }
}

impl From<RpcError> for TxnError {
    fn from(error: RpcError) -> Self {
        Self::Remote(error.into())
    }
}
