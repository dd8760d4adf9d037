//! What can go wrong with a measurement.

use farslot::fabric::FabricError;
use farslot::index::IndexError;
use farslot::model::ModelError;
use farslot::{NicProfileError, StoreError};
use std::net::SocketAddr;

/// The result of a measurement.
pub type Result<T> = std::result::Result<T, BenchError>;

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// No table or figure has that id.
    #[error("nothing to reproduce is named {id:?}; there are {known}")]
    UnknownId {
        /// The id asked for.
        id: String,
        /// The ids that there are.
        known: String,
    },
    /// An option that no measurement can be made with.
    #[error("{option} is {value}: it must be {limit}")]
    BadOption {
        /// The option.
        option: &'static str,
        /// Its value.
        value: String,
        /// What is possible.
        limit: String,
    },
    /// A key was not new, or was not found with its value: the table is wrong, and so would every
    /// figure be.
    #[error("{wrong} of {operations} operations had a wrong answer")]
    WrongAnswers {
        /// Operations that went wrong.
        wrong: u64,
        /// All of them.
        operations: u64,
    },
    /// A simulation ended before its time was up.
    #[error("the simulation ended early: {end}")]
    EndedEarly {
        /// How.
        end: String,
    },
    /// A measurement that only memory of a process admits.
    #[error("the store at {address} is neither shared memory nor behind TCP")]
    NotReal {
        /// Its address.
        address: String,
    },
    /// A measurement that only shared memory admits.
    #[error("the store at {address} is not shared memory")]
    NotSharedMemory {
        /// Its address.
        address: String,
    },
    /// The table that real memory is measured in has records: it is somebody's.
    #[error("the table {table:?}, in which memory is measured, is not an empty one of words")]
    ScratchInUse {
        /// Its name.
        table: &'static str,
    },
    /// A process that the kernel says nothing of.
    #[error("process {process}: {reason}")]
    Process {
        /// Its number.
        process: u32,
        /// What the kernel said.
        reason: String,
    },
    /// A store to be held against, whose program is not there.
    #[error("{peer} is not installed: there is no {program} in the PATH")]
    NotInstalled {
        /// The store.
        peer: &'static str,
        /// Its program.
        program: &'static str,
    },
    /// A store to be held against, which holds records: they are somebody's.
    #[error("{peer} at {address} holds {records} records: an empty one is needed")]
    PeerInUse {
        /// The store.
        peer: &'static str,
        /// Where it is.
        address: SocketAddr,
        /// Records in it.
        records: u64,
    },
    /// A store to be held against failed.
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
    /// A NIC profile that cannot be had.
    #[error(transparent)]
    Profile(#[from] NicProfileError),
    /// What the store says.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What the model says.
    #[error(transparent)]
    Model(#[from] ModelError),
}

impl From<IndexError> for BenchError {
    fn from(error: IndexError) -> Self {
        Self::Store(error.into())
    }
}

impl From<FabricError> for BenchError {
    fn from(error: FabricError) -> Self {
        Self::Store(error.into())
    }
}

impl BenchError {
    pub(crate) fn bad(option: &'static str, value: u64, limit: impl Into<String>) -> Self {
        Self::bad_text(option, value.to_string(), limit)
    }

    pub(crate) fn bad_text(option: &'static str, value: String, limit: impl Into<String>) -> Self {
        let limit = limit.into();
        Self::BadOption {
            option,
            value,
            limit,
        }
    }

    /// Whether it is the caller who asked for something that there is not.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        matches!(self, Self::UnknownId { .. } | Self::BadOption { .. })
    }
}
