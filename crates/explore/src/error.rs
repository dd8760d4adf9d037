//! Why an exploration ended early.

use crate::model::NoRoom;
use farslot_set::SetError;
use std::path::PathBuf;

/// Why an exploration ended without a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExploreError {
    /// The set of states failed.
    #[error(transparent)]
    Set(#[from] SetError),
    /// A state does not fit into the model's bits.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    /// A place may get more tokens than can be counted: the net is unbounded, or nearly.
    #[error("place {place:?} gets {tokens} tokens: above the limit of {max} of a place", max = u32::MAX)]
    Unbounded {
        /// The place's id.
        place: String,
        /// The tokens.
        tokens: u64,
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
