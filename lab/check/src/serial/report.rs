//! Anomalies, and how they are printed.

use super::transaction::{ListOp, Transaction};
use std::fmt;

/// Why one transaction must come before another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dependency<K> {
    /// Its append to this key is right before the other's.
    WriteWrite(K),
    /// The other read its append to this key.
    WriteRead(K),
    /// It read this key before the other's append.
    ReadWrite(K),
    /// It scanned a range with this key before the other's append.
    ScanWrite(K),
    /// It had ended when the other began.
    RealTime,
}

impl<K> Dependency<K> {
    const fn is_anti(&self) -> bool {
        matches!(self, Self::ReadWrite(_) | Self::ScanWrite(_))
    }
}

/// One step of a cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CycleEdge<K> {
    /// The transaction that must come first, by its place in the history.
    pub from: usize,
    /// The one that must follow it.
    pub to: usize,
    /// Why.
    pub why: Dependency<K>,
}

/// What kind of anomaly a cycle is, by its dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CycleKind {
    /// Appends of the transactions are interleaved: `ww` only (G0).
    DirtyWrite,
    /// Each read from the next: `ww` and `wr` only (G1c).
    CircularInformation,
    /// Two transactions read the same version of a key and both appended to it.
    LostUpdate,
    /// One `rw`: a transaction read some keys before and others after another's commit (G-single).
    ReadSkew,
    /// Several `rw`: transactions read what the others changed (G2-item).
    WriteSkew,
    /// An `rw` of a scan: a key was created or changed behind it (G2).
    Phantom,
    /// The data alone has an order, but not one that real time allows.
    RealTime,
}

impl CycleKind {
    pub(super) fn of<K: PartialEq>(history: &[Transaction<K>], edges: &[CycleEdge<K>]) -> Self {
        let has = |is_of: fn(&Dependency<K>) -> bool| edges.iter().any(|edge| is_of(&edge.why));
        if has(|why| matches!(why, Dependency::RealTime)) {
            return Self::RealTime;
        }
        if has(|why| matches!(why, Dependency::ScanWrite(_))) {
            return Self::Phantom;
        }
        let lost = edges.iter().any(|edge| match &edge.why {
            Dependency::ReadWrite(key) => {
                edges.len() == 2
                    && appends(history, edge.from, key)
                    && appends(history, edge.to, key)
            }
            _ => false,
        });
        match edges.iter().filter(|edge| edge.why.is_anti()).count() {
            _ if lost => Self::LostUpdate,
            0 if has(|why| matches!(why, Dependency::WriteRead(_))) => Self::CircularInformation,
            0 => Self::DirtyWrite,
            1 => Self::ReadSkew,
            _ => Self::WriteSkew,
        }
    }
}

fn appends<K: PartialEq>(history: &[Transaction<K>], transaction: usize, key: &K) -> bool {
    let mut ops = history[transaction].ops.iter();
    ops.any(|op| matches!(op, ListOp::Append(of, _) if of == key))
}

/// Why a history is not strictly serializable. Transactions are named by their place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants say what their fields are")]
pub enum Anomaly<K> {
    /// A committed transaction read an append of one that aborted (G1a).
    AbortedRead {
        key: K,
        value: u64,
        reader: usize,
        writer: usize,
    },
    /// A transaction read a list in the middle of another's appends to it (G1b).
    IntermediateRead {
        key: K,
        value: u64,
        reader: usize,
        writer: usize,
    },
    /// A transaction's reads of a key do not follow from its first one and its own appends.
    InternalRead {
        key: K,
        reader: usize,
        list: Vec<u64>,
    },
    /// Neither of two reads of a key is the beginning of the other.
    IncompatibleOrder {
        key: K,
        readers: [usize; 2],
        lists: [Vec<u64>; 2],
    },
    /// A value occurs twice in a list, or was appended twice.
    DuplicateAppend { key: K, value: u64 },
    /// A read shows a value that no transaction appended.
    UnknownValue { key: K, value: u64, reader: usize },
    /// Dependencies form a circle.
    Cycle {
        kind: CycleKind,
        edges: Vec<CycleEdge<K>>,
    },
}

impl<K: fmt::Debug> fmt::Display for Anomaly<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AbortedRead {
                key,
                value,
                reader,
                writer,
            } => write!(
                f,
                "aborted read (G1a): transaction {reader} read {value} of key {key:?}, which transaction {writer} \
                 appended before it aborted"
            ),
            Self::IntermediateRead {
                key,
                value,
                reader,
                writer,
            } => write!(
                f,
                "intermediate read (G1b): transaction {reader} read key {key:?} up to {value}, after which transaction \
                 {writer} appended more"
            ),
            Self::InternalRead { key, reader, list } => write!(
                f,
                "transaction {reader} read {list:?} of key {key:?}, which does not follow from its earlier reads and its \
                 own appends"
            ),
            Self::IncompatibleOrder {
                key,
                readers: [first, second],
                lists,
            } => write!(
                f,
                "transactions {first} and {second} read key {key:?} in different orders: {:?} and {:?}",
                lists[0], lists[1]
            ),
            Self::DuplicateAppend { key, value } => {
                write!(f, "value {value} of key {key:?} occurs twice")
            }
            Self::UnknownValue { key, value, reader } => write!(
                f,
                "transaction {reader} read {value} of key {key:?}, which no transaction appended"
            ),
            Self::Cycle { kind, edges } => {
                write!(f, "{kind:?}: no order of these transactions exists")?;
                for CycleEdge { from, to, why } in edges {
                    write!(f, "\n  {from} before {to}: ")?;
                    match why {
                        Dependency::WriteWrite(key) => {
                            write!(f, "its append to {key:?} is the one before")
                        }
                        Dependency::WriteRead(key) => write!(f, "{to} read its append to {key:?}"),
                        Dependency::ReadWrite(key) => {
                            write!(f, "it read {key:?} without the append of {to}")
                        }
                        Dependency::ScanWrite(key) => {
                            write!(f, "it scanned {key:?} without the append of {to}")
                        }
                        Dependency::RealTime => write!(f, "it had ended when {to} began"),
                    }?;
                }
                Ok(())
            }
        }
    }
}

impl<K: fmt::Debug> std::error::Error for Anomaly<K> {}
