//! What can go wrong with a measurement.

use farslot::fabric::FabricError;
use farslot::index::IndexError;
use farslot::model::ModelError;
use farslot::{BatchError, NicProfileError, StoreError};
use farslot_set::SetError;
use farslot_set::job::JobError;

/// The result of a measurement.
pub type Result<T> = std::result::Result<T, BenchError>;

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
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
    /// Another of those that measure together has failed, and says itself why.
    #[error("another thread of the measurement has failed")]
    RankFailed,
    /// What the processes of a measurement say of each other.
    #[error(transparent)]
    Job(#[from] JobError),
    /// What a set says.
    #[error(transparent)]
    Set(#[from] SetError),
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

impl From<BatchError> for BenchError {
    fn from(error: BatchError) -> Self {
        Self::Store(error.into())
    }
}

impl From<FabricError> for BenchError {
    fn from(error: FabricError) -> Self {
        Self::Store(error.into())
    }
}

impl BenchError {
    /// A [`BadOption`](Self::BadOption).
    pub fn bad(option: &'static str, value: u64, limit: impl Into<String>) -> Self {
        Self::bad_text(option, value.to_string(), limit)
    }

    /// A [`BadOption`](Self::BadOption) whose value is no number.
    pub fn bad_text(option: &'static str, value: String, limit: impl Into<String>) -> Self {
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
        matches!(self, Self::BadOption { .. })
    }
}
