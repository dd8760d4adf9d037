//! Strict serializability of transactions, judged from list-append histories.
//!
//! Every key holds a list. A transaction appends unique values to lists and reads whole lists, so
//! that a read shows not only which version it met but also every version before it. From the reads
//! alone follow the order of each key's versions and three kinds of dependency between
//! transactions:
//!
//! * `ww`: one transaction appended the version right after the other's;
//! * `wr`: one transaction read a version that the other had appended;
//! * `rw`: one transaction read a list before the other appended to it.
//!
//! With the order in real time (`rt`: one transaction ended before the other began) they form a
//! graph. The history is strictly serializable if the graph has no cycle and no read contradicts
//! the histories of single keys. [`check_serial`] returns the first of these anomalies that it
//! finds, with the transactions and the reason for each edge:
//!
//! | anomaly | what happened |
//! |---|---|
//! | [`Anomaly::AbortedRead`] | a committed transaction read an aborted append (G1a) |
//! | [`Anomaly::IntermediateRead`] | it read a list in the middle of another's appends (G1b) |
//! | [`Anomaly::InternalRead`] | it did not see its own appends, or changed reads without one |
//! | [`Anomaly::IncompatibleOrder`] | two reads of a key disagree on its order |
//! | [`Anomaly::DuplicateAppend`] | a value occurs twice |
//! | [`Anomaly::UnknownValue`] | a read has a value that nobody appended |
//! | [`Anomaly::Cycle`] | dependencies form a circle (its kinds: [`CycleKind`]) |
//!
//! **Phantoms.** A scan is recorded as a read of every key of its range, also of those that it did
//! not return: an absent key is the empty list, and whoever creates it later depends on the scan by
//! `rw`.
//!
//! **Unknown outcomes.** A transaction whose commit was not answered counts as committed if anybody
//! read one of its appends, and is ignored otherwise. It has no end in real time.
//!
//! Sources: Adya, "Weak Consistency" (1999), for the anomalies; Kingsbury and Alvaro, "Elle:
//! Inferring Isolation Anomalies from Experimental Observations" (VLDB 2020), for the inference
//! from lists.

mod edges;
mod graph;
mod report;
mod transaction;
mod versions;

pub use report::{Anomaly, CycleEdge, CycleKind, Dependency};
pub use transaction::{Commit, ListOp, Transaction};

use std::fmt::Debug;

/// What an accepted history held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SerialSummary {
    /// Transactions that committed, those of unknown outcome that were read from included.
    pub committed: usize,
    /// Transactions that were ignored: aborted, or unknown and read by nobody.
    pub ignored: usize,
    /// Dependencies between transactions, without those of real time.
    pub dependencies: usize,
}

/// Checks that a history is strictly serializable. Takes time and memory in proportion to the
/// appends, reads and list lengths, and to the number of transactions in progress at once.
///
/// ```
/// use farslot_check::serial::{Anomaly, Commit, CycleKind, ListOp, Transaction, check_serial};
///
/// // Two transactions read both lists empty, and each appends to one: write skew.
/// let skew = |read: [u8; 2], append, value| Transaction {
///     start: 0,
///     ops: vec![
///         ListOp::Read(read[0], vec![]),
///         ListOp::Read(read[1], vec![]),
///         ListOp::Append(append, value),
///     ],
///     commit: Commit::Committed { end: 10 },
/// };
/// let history = [skew([b'x', b'y'], b'x', 1), skew([b'x', b'y'], b'y', 2)];
/// let anomaly = check_serial(&history).unwrap_err();
/// assert!(matches!(*anomaly, Anomaly::Cycle { kind: CycleKind::WriteSkew, .. }));
/// ```
///
/// # Errors
/// The first anomaly found. Transactions are named by their place in `history`.
pub fn check_serial<K: Ord + Clone + Debug>(
    history: &[Transaction<K>],
) -> Result<SerialSummary, Box<Anomaly<K>>> {
    let versions = versions::Versions::of(history)?;
    let mut edges = edges::Edges::of(history, &versions);
    let dependencies = edges.count();
    // A cycle without the clock says more about what went wrong.
    let mut cycle = graph::shortest_cycle(&edges.out);
    if cycle.is_none() {
        edges.add_real_time(history, &versions.committed);
        cycle = graph::shortest_cycle(&edges.out);
    }
    if let Some(cycle) = cycle {
        return Err(Box::new(edges.anomaly(history, &cycle)));
    }
    let committed = versions.committed.iter().filter(|is| **is).count();
    Ok(SerialSummary {
        committed,
        ignored: history.len() - committed,
        dependencies,
    })
}
