//! What can go wrong with a reproduction or a comparison.

use farslot::fabric::FabricError;
use farslot::index::IndexError;
use farslot::model::ModelError;
use farslot::{BatchError, NicProfileError, StoreError};
use farslot_bench::BenchError;
use farslot_set::SetError;
use farslot_txn::TxnError;
use std::net::SocketAddr;
use std::ops::RangeInclusive;

/// The result of a reproduction.
pub type Result<T> = std::result::Result<T, LabError>;

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// No table or figure has that id.
    #[error("nothing to reproduce is named {id:?}; there are {known}")]
    UnknownId {
        /// The id asked for.
        id: String,
        /// The ids that there are.
        known: String,
    },
    /// A store to be compared with, whose program is not there.
    #[error("{peer} is not installed: there is no {program} in the PATH")]
    NotInstalled {
        /// The store.
        peer: &'static str,
        /// Its program.
        program: &'static str,
    },
    /// An explorer that has failed.
    #[error("{system} on {model}: {reason}")]
    Explorer {
        /// The explorer.
        system: &'static str,
        /// What it was to explore.
        model: String,
        /// What went wrong.
        reason: String,
    },
    /// An explorer that has found another number of states than the first one.
    #[error("{system} has found {found} states of {model}, where there are {expected}")]
    OtherStates {
        /// The explorer.
        system: &'static str,
        /// What it has explored.
        model: String,
        /// What it has found.
        found: u64,
        /// What the first one has found.
        expected: u64,
    },
    /// A store to be compared with, which holds records: they are somebody's.
    #[error("{peer} at {address} holds {records} records: an empty one is needed")]
    PeerInUse {
        /// The store.
        peer: &'static str,
        /// Where it is.
        address: SocketAddr,
        /// Records in it.
        records: u64,
    },
    /// A store to be compared with failed.
    #[error("{peer} at {address}: {reason}")]
    Peer {
        /// The store.
        peer: &'static str,
        /// Where it is.
        address: SocketAddr,
        /// What it or its connection said.
        reason: String,
    },
    /// The corpus of a workload that is made of one is not there.
    #[error("no corpus: {program}: {reason}; `apt-get install {package}` brings it")]
    NoCorpus {
        /// The program that prints it.
        program: &'static str,
        /// The Debian package that it is in.
        package: &'static str,
        /// What has become of the program.
        reason: String,
    },
    /// A workload that has too few keys for the smallest table.
    #[error("{found} {of}: at least {least} are needed for a table of 1024 slots")]
    TooFewKeys {
        /// What they are.
        of: &'static str,
        /// How many there are.
        found: usize,
        /// How many are needed.
        least: usize,
    },
    /// What a transaction says.
    #[error(transparent)]
    Transaction(#[from] TxnError),
    /// A total that is not what was loaded with what transactions have added since.
    #[error("{system} has {found} in all, where {expected} were loaded and added since")]
    WrongTotal {
        /// The system.
        system: &'static str,
        /// The total that there is.
        found: i64,
        /// The total that there should be.
        expected: i64,
    },
    /// What a set says.
    #[error(transparent)]
    Set(#[from] SetError),
    /// What the measurement says.
    #[error(transparent)]
    Bench(#[from] BenchError),
}

impl From<StoreError> for LabError {
    fn from(error: StoreError) -> Self {
        Self::Bench(error.into())
    }
}

impl From<BatchError> for LabError {
    fn from(error: BatchError) -> Self {
        Self::Bench(error.into())
    }
}

impl From<IndexError> for LabError {
    fn from(error: IndexError) -> Self {
        Self::Bench(error.into())
    }
}

impl From<FabricError> for LabError {
    fn from(error: FabricError) -> Self {
        Self::Bench(error.into())
    }
}

impl From<ModelError> for LabError {
    fn from(error: ModelError) -> Self {
        Self::Bench(error.into())
    }
}

impl From<NicProfileError> for LabError {
    fn from(error: NicProfileError) -> Self {
        Self::Bench(error.into())
    }
}

impl LabError {
    pub(crate) fn bad(option: &'static str, value: u64, limit: impl Into<String>) -> Self {
        BenchError::bad(option, value, limit).into()
    }

    /// An error for the first of these options that is out of its range.
    pub(crate) fn check_ranges(
        options: impl IntoIterator<Item = (&'static str, u64, RangeInclusive<u64>)>,
    ) -> Result<()> {
        for (option, value, range) in options {
            if !range.contains(&value) {
                let limit = format!("from {} to {}", range.start(), range.end());
                return Err(Self::bad(option, value, limit));
            }
        }
        Ok(())
    }

    /// An answer that was wrong: every figure would be.
    pub(crate) fn wrong(wrong: u64, operations: u64) -> Self {
        BenchError::WrongAnswers { wrong, operations }.into()
    }

    /// Whether it is the caller who asked for something that there is not.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        match self {
            Self::UnknownId { .. } => true,
            Self::Bench(error) => error.is_usage(),
            _ => false,
        }
    }
}
