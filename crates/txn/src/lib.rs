//! Strictly serializable transactions over chained tables and ordered maps on any number of nodes
//! (paper 003, section 5.4).
//!
//! A [`Database`] knows nodes and their tables; [`Database::begin`] gives a [`Transaction`], and
//! [`Database::run`] retries one until it commits. [`serve`] is the owner's side.
//!
//! # The protocol
//!
//! 1. *Execution.* Reads are one-two-sided lookups, and take no lock. Writes, inserts and removes
//!    lock their key by a call to its owner ([`Locking::Execution`], as in Storm) or are kept until
//!    the commit ([`Locking::Commit`], as in FaRM). An absent key is locked as well. A lock is
//!    tried once: a key that another holds is a [`TxnError::Conflict`], so that nothing ever waits
//!    for a lock, and nothing deadlocks. A read meets a conflict where the key is locked: its
//!    transaction may be committed already, and not yet applied here.
//! 2. *Validation.* With all locks held, one READ of 8 bytes for each key that was read and not
//!    locked: the check of its slot, which is over lock, version and value. The witness of an
//!    absent key is its bucket's stamp; if another key of the bucket has changed, the lookup is
//!    repeated, and no key may have been removed from the bucket meanwhile.
//!
//!    An ordered map is read by whole leaves, and a leaf is validated by its check, which is over
//!    lock, version, range, and all pairs. So a [scan](Transaction::scan) is the range at one
//!    moment: what would come into it, a phantom, changes a leaf. Whoever writes a key locks its
//!    leaf.
//! 3. *Decision.* One call to the *home*, the owner of the first key that was locked, with the
//!    changes for all nodes. The owner checks that every lock there is still the transaction's,
//!    applies its own part, and keeps the others'. **A transaction is committed if and only if its
//!    home has executed this call.**
//! 4. *Finish.* One call to each other owner applies its part and unlocks.
//!
//! A transaction on one node needs one call to commit, and nothing is kept of it. With
//! [`Locking::Commit`] it takes no lock before that call either: the owner checks all that was
//! read, locks what is to be changed, changes it, and unlocks, all in one turn in which it answers
//! no other call. So it holds a lock for no longer than that turn, whatever becomes of its client.
//!
//! A transaction whose keys all lie at one node, and whose code its owner knows as one of
//! [`Procedures`], is **one call** in all ([`Database::execute`]): the owner runs it in such a
//! turn. [`Steps`] is what such code and a client's have in common.
//!
//! # Clients that stop
//!
//! A lock word names its transaction: home, and one of the home's numbers
//! ([`farslot_remote::Lock`]). The home has handed the number out, and no other transaction ever
//! has it; every release is conditional on it, so that a late one frees no lock of another's. Locks
//! have a lease ([`OwnerOptions::lease`]), by the clock of the owner alone. A transaction whose
//! lease is over may go on until somebody else wants one of its keys:
//!
//! * At its home, the owner then *gives it up*: it releases all that the transaction holds there,
//!   and notes its name.
//! * At another node, the client that is in the way asks the home. If the transaction is decided,
//!   the home answers with the part, and the client has it applied. If it is not, and its lease at
//!   the home is over or it holds nothing there, the home gives it up and says so, and the client
//!   has it released. So every lock is gone, or its changes are applied, one lease after it was
//!   taken and some three calls after somebody met it.
//!
//! A transaction that was given up can never commit. A decision is refused without the locks; a
//! further lock at the home is refused to a transaction that holds none there; and its first lock,
//! which may come long after the home was asked, is refused because its name is noted. A home notes
//! [`OwnerOptions::decisions`] names one by one. When there are more, it gives up the oldest of
//! them with all names that are older still: a note may come to stand for more transactions, and is
//! never taken back. Transactions that this hits, and those of names that the home has not handed
//! out in this life, end with [`TxnError::LeaseOver`] before they hold anything at the home, and
//! are run again under new names.
//!
//! Decisions are kept until all parts are applied; [`Database::recover`] finishes those that nobody
//! meets.
//!
//! # Clients of other lists and of other grants
//!
//! A home is named by its place in the list of nodes that all clients have in common. With each
//! lock its node is told which incarnation the home has, how many nodes the list has, and which
//! place the node itself has in it; and tells that to whoever meets the lock. So the home is found
//! by its incarnation, wherever a client lists it, and is asked for the part of that place. Who
//! does not list it has the lock stay as it is. Only if no node of a list of that length has the
//! incarnation any more, the node at the home's place is taken for one that has lost its memory,
//! and releases what it knows nothing of.
//!
//! A node has one place. It takes the first that a client names it by, and another only while it
//! holds and has decided nothing: names of before are then none of its own.
//!
//! Nobody but the grant that a transaction's client came under, and those who may do anything to
//! the node, locks in its name, decides it, forgets its decision, or is told what it changes. Who
//! finishes or aborts it at a node has the rights to all that it holds there.
//!
//! # Why it is strictly serializable
//!
//! Calls may be as late as they like, and be executed long after their callers have given them up.
//! No clock matters here: leases say when somebody may ask, and nothing else. What is relied upon
//! is that a node executes one call at a time, each call at most once ([`farslot_rpc`]), and none
//! that was sent to an earlier life of it. Let T be a transaction.
//!
//! 1. *The home decides once.* If it gives T up, T holds nothing there from then on: its locks are
//!    gone, and its name is noted. So no decision comes after that. If it executes the decision, it
//!    answers with T's parts for as long as one is not applied.
//! 2. *At the decision T holds all its locks, each since it was taken.* The client asks for the
//!    decision once all its calls for locks are answered, so that none is under way, now or later;
//!    a transaction with an operation that was dropped half way is aborted instead. At its home T
//!    is unlocked by the decision, by being given up, or by a call to abort; elsewhere by a call to
//!    abort, or by one to finish, which nobody sends before the decision. A call to abort is sent
//!    by T's client, which then never asks for the decision or was refused it; or by others whom
//!    the home has told that T is given up. In either case there is no decision, by 1.
//! 3. *Every part is applied once, if and only if T is decided.* The first call to finish at a node
//!    finds T's locks there, by 2, applies the part and unlocks. T locks nothing there again, by 2,
//!    so that all later calls to finish or to abort find no lock and do nothing. This holds for a
//!    client as well that asks the home when it has forgotten the decision, and is told "aborted":
//!    the home forgets it when all parts are applied.
//! 4. *All happens at one moment.* Take the moment after T's last lock and before its first
//!    validating READ. What T read had the same value, unlocked, before and after that moment. What
//!    T writes is locked by it from before that moment until it is applied, by 2 and 3. So all its
//!    reads and writes may be thought to happen then, which is between its begin and its end.
//!    Whoever sees one of its changes sees all others or meets their locks.
//!
//! # Nodes that stop
//!
//! A node's tables and decisions live as long as its memory, which may be longer than its process
//! ([`OwnerMemory::begin_turn`](farslot_fabric::OwnerMemory::begin_turn)): nothing is replicated.
//! While a home cannot be reached, locks of its transactions at other nodes stay, as in every
//! two-phase commit without replicas. A home that comes back empty has lost its tables, and knows
//! no decisions: the locks that its transactions left elsewhere are released. If such a transaction
//! was decided, had parts at two other nodes or more, and only some of these were applied, those
//! alone stay. A node that comes back empty between a transaction's lock there and its decision
//! elsewhere has lost that transaction's part with all else.

#![forbid(unsafe_code)]

mod books;
#[cfg(test)]
mod broken;
mod commit;
mod database;
mod ending;
mod error;
#[cfg(test)]
mod grant_tests;
mod handle;
#[cfg(test)]
mod histories;
mod identity;
mod kept;
mod leaf_read;
mod notes;
mod owner;
mod plain;
mod procedure;
mod resolving;
mod run;
mod scan;
mod steps;
mod transaction;
mod turn;
mod wire;

pub use books::OwnerOptions;
pub use database::{Database, DatabaseOptions, Locking};
pub use error::{ConflictCause, TxnError};
pub use handle::Handle;
pub use identity::TableId;
pub use kept::{Asked, Kept, Structure, Tables};
pub use owner::{serve, serve_with};
pub use plain::KeyChange;
pub use procedure::{Local, Procedures};
pub use run::{Attempts, Reply};
pub use steps::Steps;
pub use transaction::Transaction;
