//! Transactions as a history records them.

/// What a transaction did to one list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListOp<K> {
    /// Appended a value to the key's list. No two appends to a key have the same value.
    Append(K, u64),
    /// Read the key's whole list; an absent key is the empty list.
    Read(K, Vec<u64>),
    /// Read the key's list as part of a scan. Record one for every key of the scanned range that
    /// the history knows, with the empty list for those that the scan did not return.
    Scanned(K, Vec<u64>),
}

impl<K> ListOp<K> {
    /// The key.
    pub const fn key(&self) -> &K {
        match self {
            Self::Append(key, _) | Self::Read(key, _) | Self::Scanned(key, _) => key,
        }
    }
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// It was told that it had committed, at this time.
    Committed {
        /// When it was told so.
        end: u64,
    },
    /// It was told that it had no effect.
    Aborted,
    /// It was told nothing, or something that leaves its effect open.
    Unknown,
}

/// One transaction of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction<K> {
    /// When it began, on the clock of all transactions.
    pub start: u64,
    /// Its operations in the order in which it ran them. Reads of a transaction that did not commit
    /// are ignored.
    pub ops: Vec<ListOp<K>>,
    /// How it ended.
    pub commit: Commit,
}
