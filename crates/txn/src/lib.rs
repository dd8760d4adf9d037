//! Strictly serializable transactions over chained tables and ordered maps on any number of nodes
//! (paper 003, section 5.4).
//!
//! A [`Database`] knows nodes and their tables; [`Database::begin`] gives a [`Transaction`], and
//! [`Database::run`] retries one until it commits. [`serve`] is the owner's side.
//!
//! # The protocol
//!
//! 1. *Execution.* Reads are one-two-sided lookups, and take no lock. Writes, inserts and removes lock their key by a
//!    call to its owner ([`Locking::Execution`], as in Storm) or are kept until the commit ([`Locking::Commit`], as in
//!    FaRM). An absent key is locked as well. A lock is tried once: a key that another holds is a
//!    [`TxnError::Conflict`], so that nothing ever waits for a lock, and nothing deadlocks. A read meets a conflict where the
//!    key is locked: its transaction may be committed already, and not yet applied here.
//! 2. *Validation.* With all locks held, one READ of 8 bytes for each key that was read and not locked: the check of its
//!    slot, which is over lock, version and value. The witness of an absent key is its bucket's stamp; if another key of
//!    the bucket has changed, the lookup is repeated, and no key may have been removed from the bucket meanwhile.
//!
//!    An ordered map is read by whole leaves, and a leaf is validated by its check, which is over lock, version, range, and all
//!    pairs. So a [scan](Transaction::scan) is the range at one moment: what would come into it, a phantom, changes a leaf. Whoever
//!    writes a key locks its leaf.
//! 3. *Decision.* One call to the *home*, the owner of the first key that was locked, with the changes for all nodes.
//!    The owner checks that every lock there is still the transaction's, applies its own part, and keeps the others'.
//!    **A transaction is committed if and only if its home has executed this call.**
//! 4. *Finish.* One call to each other owner applies its part and unlocks.
//!
//! A transaction on one node needs one call to commit, and nothing is kept of it. With
//! [`Locking::Commit`] it takes no lock before that call either: the owner checks all that was
//! read, locks what is to be changed, changes it, and unlocks, all in one turn in which it answers
//! no other call. So it holds a lock for no longer than that turn, whatever becomes of its client.
//!
//! A transaction whose keys all lie at one node, and whose code its owner knows as one of
//! [`Procedures`], is **one call** in all ([`Database::execute`]): the owner runs it in such a turn.
//! [`Steps`] is what such code and a client's have in common.
//!
//! # Why it is strictly serializable
//!
//! Take the moment after a transaction's last lock and before its first validating READ. What it
//! read had the same value, unlocked, before and after that moment; what it writes is locked by it
//! from before that moment until it is applied. So all its reads and writes may be thought to
//! happen then. Whoever sees one of its changes sees all others or meets their locks. The locks at
//! the decision are those of the moment: the home executes it only if it never broke one, and other
//! nodes break none before the home has given the transaction up.
//!
//! # Clients that stop
//!
//! A lock word names its transaction: home, client, and number ([`farslot_remote::Lock`]). No two
//! transactions have the same, and every release is conditional on it, so that a late one frees no
//! lock of another's. Locks have a lease ([`OwnerOptions::lease`]), by the clock of the owner
//! alone. A transaction whose lease is over may go on until somebody else wants one of its keys:
//!
//! * At its home, the owner then releases all it holds there. It can never commit any more: a
//!   decision is refused without the locks, and a further lock at the home is refused to a
//!   transaction that holds none there.
//! * At another node, the client that is in the way asks the home. If the transaction is decided,
//!   the home answers with the part, and the client has it applied; if it is undecided after its
//!   lease, the home gives it up as above, and the client has it released. So every lock is gone,
//!   or its changes are applied, one lease after it was taken and some three calls after somebody
//!   met it, and a part is applied if and only if all are.
//!
//! Decisions are kept until all parts are applied; [`Database::recover`] finishes those that nobody
//! meets.
//!
//! # Nodes that stop
//!
//! A node's tables and decisions live as long as its process: nothing is replicated. While a home
//! cannot be reached, locks of its transactions at other nodes stay, as in every two-phase commit
//! without replicas. A home that comes back empty has lost its tables, and knows no decisions: the
//! locks that its transactions left elsewhere are released. If such a transaction was decided, it
//! had three nodes or more, its client stopped as well, and one part was applied already, that part
//! stays.

#![forbid(unsafe_code)]

#[cfg(test)]
mod broken;
mod commit;
mod database;
mod error;
mod handle;
#[cfg(test)]
mod histories;
mod identity;
mod kept;
mod leaf_read;
mod owner;
mod procedure;
mod run;
mod scan;
mod steps;
mod transaction;
mod turn;
mod wire;

pub use database::{Database, DatabaseOptions, Locking};
pub use error::{ConflictCause, TxnError};
pub use handle::Handle;
pub use identity::TableId;
pub use kept::Structure;
pub use owner::{serve, serve_with};
pub use procedure::{Local, Procedures};
pub use run::Reply;
pub use steps::Steps;
pub use transaction::Transaction;
pub use turn::OwnerOptions;
