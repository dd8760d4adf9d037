//! Recorded histories and the checks that judge them: linearizability of operations on single keys
//! (this page), and strict serializability of transactions ([`serial`]).
//!
//! Clients of a concurrent table record each operation's invocation and completion in a
//! [`History`]; [`check`] then says whether one order of the operations exists that explains every
//! result, never places an operation before one that had completed before it was invoked, and
//! agrees with the table's sequential specification, a [`SequentialModel`]. Operations that never
//! returned, or returned an error that leaves their effect in doubt, may take effect at any time
//! after their invocation, or never.
//!
//! ```
//! use farslot_check::{History, RegisterMap, TableOp, TableRet, check};
//!
//! let mut history = History::new();
//! let put = history.invoke(0, 7u64, TableOp::Put("a"), 10);
//! let get = history.invoke(1, 7, TableOp::Get, 15);
//! history.complete(put, TableRet::Put { inserted: Some(true) }, 20);
//! history.complete(get, TableRet::Got(None), 30); // fine: the two overlap
//! assert!(check(&history, &RegisterMap::new()).is_ok());
//!
//! let late = history.invoke(1, 7, TableOp::Get, 40);
//! history.complete(late, TableRet::Got(None), 50); // but this one came after the put
//! let error = check(&history, &RegisterMap::new()).unwrap_err();
//! println!("{error}"); // a timeline of the operations that contradict each other
//! ```
//!
//! # How it searches
//!
//! Keys are judged one by one, which is enough for operations on single keys (P-compositionality:
//! Horn & Kroening, "Faster linearizability checking via P-compositionality", 2015). Each key is
//! searched depth first after Wing & Gong ("Testing and verifying concurrent objects", 1993) with
//! Lowe's cache of the (linearized set, state) pairs already met ("Testing for linearizability",
//! 2017). A result that tells of no change to the state ([`SequentialModel::only_reads`]) is taken
//! as soon as it fits. Operations of unknown fate are kept cheap: as few as possible are tried
//! first, each only where it changes the state and after its equals invoked before, and a pair is
//! skipped if the same completed operations already led to the same state with only some of the
//! unknown ones used. The search is deterministic, and bounded by a number of steps rather than by
//! time.
//!
//! # Why not an existing crate
//!
//! Looked at in November 2026; none has all of: operations of unknown fate, partition by key,
//! a memoised search, a deterministic bound and a counterexample for the terminal.
//!
//! - `stateright` 0.31 (`LinearizabilityTester`): takes in-flight operations (one a client), but
//!   searches all interleavings without a cache, cloning the remaining history at every level; no
//!   partition by key, no bound, no counterexample; and the model checker comes along.
//! - `todc-utils` 0.1.1 (`WGLChecker`, last released in 2023): has the cache, but every call must
//!   have a response, no partition, no bound, and its answer is a `bool`; finding a response scans
//!   the history.
//! - `porcupine-rs` 0.3: the nearest (cache, partitions, an HTML view), but every operation needs a
//!   return time, a history of several keys starts one OS thread per key for each check, the bound
//!   is wall-clock time (no two runs of a simulator seed need agree), and it has `criterion`,
//!   `regex` and `rand` among its ordinary dependencies.
//! - `lincheck` 0.2: runs its own scenarios under `loom`; it does not judge histories recorded
//!   elsewhere.

#![forbid(unsafe_code)]

mod calls;
mod check;
mod history;
mod model;
mod report;
pub mod serial;
mod table;
mod wgl;

pub use check::{CheckError, Checker, Summary, Undecided, check};
pub use history::{Entry, History, HistoryClient, OpId, Outcome, Recorder};
pub use model::SequentialModel;
pub use report::{OperationFate, Row, Violation};
pub use table::{RegisterMap, TableOp, TableRet};
