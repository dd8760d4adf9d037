//! Why an exploration ended early.

use crate::model::StateOverflow;
use farslot_fabric::FabricError;
use farslot_set::SetError;
use farslot_set::job::JobError;
use std::path::PathBuf;

/// How much of a place can be explored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenLimit {
    /// So many tokens at a time.
    #[error("{0} tokens")]
    Tokens(u64),
    /// So many different numbers of tokens, where markings are explored symbolically.
    #[error("{0} different numbers of tokens")]
    Numbers(u64),
}

/// Why an exploration ended without a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExploreError {
    /// The set of states failed.
    #[error(transparent)]
    Set(#[from] SetError),
    /// The ranks of an exploration by several processes did not come to an end together.
    #[error(transparent)]
    Rank(#[from] RankError),
    /// A state does not fit into the model's bits.
    #[error(transparent)]
    NoRoom(#[from] StateOverflow),
    /// A place can get any number of tokens: some firings lead from a marking that is reached to
    /// one that has as many tokens everywhere and more there.
    #[error("the net is unbounded: place {place:?} can get any number of tokens")]
    Unbounded {
        /// The place's id.
        place: String,
    },
    /// A place gets more tokens than are counted: the net may be unbounded.
    #[error("place {place:?} gets more than {limit}, the limit: the net may be unbounded")]
    AboveLimit {
        /// The place's id.
        place: String,
        /// The limit that was met.
        limit: TokenLimit,
    },
    /// A symbolic exploration has not ended after as many steps as the memory that it may take
    /// stands for, and a place gets ever more tokens that nothing in the net's structure bounds.
    #[error(
        "place {place:?} has got {tokens} tokens after {steps} steps, the limit with {memory} bytes, \
         and gets ever more: the net may be unbounded"
    )]
    StillGrows {
        /// The place's id.
        place: String,
        /// The most tokens that it has got.
        tokens: u32,
        /// The limit that was met: steps of one of several tries.
        steps: u64,
        /// Bytes of memory that may be taken; more allow more steps.
        memory: u64,
    },
    /// More memory would be needed than was allowed, and a place has got more tokens than it seemed
    /// to get.
    #[error("{short}; place {place:?} has got {tokens} tokens, and may get any number")]
    Grown {
        /// The place's id.
        place: String,
        /// Tokens that it got last for which it had no room.
        tokens: u64,
        /// How much memory would be needed.
        short: Box<ExploreError>,
    },
    /// More memory would be needed than was allowed.
    #[error(
        "{needed} bytes are needed to go on after {states} states, above the limit of {limit} bytes"
    )]
    OutOfMemory {
        /// Bytes needed.
        needed: u64,
        /// The limit.
        limit: u64,
        /// States so far (of symbolic exploration: nodes).
        states: u64,
    },
    /// A thread of the exploration panicked, which only the model's own code should do.
    #[error("a thread of the exploration panicked")]
    Panicked,
    /// The system gave no thread.
    #[error("no thread: {0}")]
    Thread(std::io::Error),
    /// The journal could not be read or written.
    #[error("journal {path}: {error}")]
    Journal {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        error: std::io::Error,
    },
    /// The journal is of another model, or no journal.
    #[error("journal {path}: {reason}")]
    WrongJournal {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// Why ranks could not explore together.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RankError {
    /// The job ended, or did not come to be.
    #[error(transparent)]
    Job(#[from] JobError),
    /// A rank's memory could not be reached: its process has ended, or the network has lost it. Its
    /// part of the states is lost.
    #[error("rank {rank} is lost: {error}")]
    Fabric {
        /// The rank.
        rank: usize,
        /// What the fabric says.
        error: FabricError,
    },
    /// A rank has given up, for a reason that it tells itself.
    #[error("rank {rank} has given up")]
    GaveUp {
        /// The rank.
        rank: usize,
    },
    /// A rank sent what it cannot have meant.
    #[error("rank {rank} sent {reason}")]
    Malformed {
        /// The rank.
        rank: usize,
        /// What is wrong.
        reason: &'static str,
    },
    /// Not as many states of a level came from a rank as it has sent.
    #[error("rank {rank} has sent {sent} states of a level, of which {received} came")]
    Miscounted {
        /// The rank.
        rank: usize,
        /// States that it has sent.
        sent: u64,
        /// States that came.
        received: u64,
    },
    /// A rank's memory is not as long as the rings are.
    #[error("rank {rank} has {found} bytes of memory for rings that take {needed}")]
    WrongMemory {
        /// The rank.
        rank: usize,
        /// Bytes that it has.
        found: u64,
        /// Bytes that the rings take.
        needed: u64,
    },
    /// A number of ranks that cannot be.
    #[error("{ranks} ranks: there must be from 1 to {max}", max = farslot_set::MAX_RANKS)]
    TooManyRanks {
        /// How many were asked for.
        ranks: u64,
    },
    /// States too long for a bucket of the table that all ranks share.
    #[error("states of {bits} bits: the table that all ranks share takes up to {limit}")]
    NoBucket {
        /// Bits of a state.
        bits: usize,
        /// The limit.
        limit: usize,
    },
    /// A journal, which needs a set at each rank.
    #[error("a table that all ranks share goes with no journal")]
    NoJournal,
    /// States too long to be sent.
    #[error("states of {words} words, above the limit of {limit}")]
    LongState {
        /// Words of a state.
        words: usize,
        /// The limit.
        limit: usize,
    },
}

impl RankError {
    pub(crate) fn malformed(rank: usize, reason: &'static str) -> Self {
        Self::Malformed { rank, reason }
    }
}
