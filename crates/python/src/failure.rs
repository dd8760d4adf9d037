//! Why an operation failed, as Python is told: the exceptions of `farslot.errors`, one for each
//! [`ErrorKind`].

use farslot::{ByteCount, ErrorKind, StoreError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Why an operation failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The library says so.
    Store(StoreError),
    /// The store or the table was closed by this program.
    Closed(&'static str),
    /// What was opened before a fork cannot be used after it.
    Forked,
    /// The name is another table's by now.
    Replaced(String),
    /// A table of one store in a transaction on another.
    OtherStore(String),
    /// A transaction that is not under way, or not in this thread.
    NoTransaction,
    /// A value that is not as long as the rows of the array that it was to be written to, or
    /// longer than the rows of a string array.
    Row {
        /// Bytes of the value.
        len: usize,
        /// Bytes of a row.
        width: usize,
    },
    /// A value that ends in a zero byte, for an array whose strings cannot.
    EndsInZero,
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Failure {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Store(error) => error.kind(),
            Self::Closed(_) | Self::Forked | Self::NoTransaction => ErrorKind::Closed,
            Self::OtherStore(_) => ErrorKind::BadInput,
            Self::Replaced(_) => ErrorKind::TableGone,
            Self::Row { .. } | Self::EndsInZero => ErrorKind::DoesNotFit,
        }
    }

    /// What its exception is called.
    fn name(&self) -> String {
        match self {
            Self::Store(StoreError::Conflict { .. }) => "Conflict".to_owned(),
            _ => format!("{:?}", self.kind()),
        }
    }

    fn may_have_taken_effect(&self) -> bool {
        matches!(self, Self::Store(error) if error.may_have_taken_effect())
    }

    fn message(&self) -> String {
        match self {
            Self::Store(error) => error.to_string(),
            Self::Closed(closed) => format!("the {closed} is closed"),
            Self::Forked => {
                "it was opened before a fork: open it again in the new process".to_owned()
            }
            Self::Replaced(name) => {
                format!("the name {name:?} is another table's by now: open that one")
            }
            Self::OtherStore(name) => {
                format!("the table {name:?} is of another store than the transaction")
            }
            Self::NoTransaction => "the transaction is not under way, or not in this thread: it \
                                    lasts as long as its with block, or the body of transact"
                .to_owned(),
            Self::Row { len, width } => {
                format!(
                    "the value has {}, a row of the array {width}",
                    ByteCount(*len)
                )
            }
            Self::EndsInZero => "the value ends in a zero byte, which the strings of an S array \
                                 cannot: use get_many_ragged"
                .to_owned(),
        }
    }

    /// The exception for it.
    pub(crate) fn raise(&self, py: Python<'_>) -> PyErr {
        self.of_batch(py, None)
    }

    /// The exception for it in a batch: with the number of the first record that failed, and 1 for
    /// each that did.
    pub(crate) fn of_batch(&self, py: Python<'_>, failed: Option<(usize, &[u8])>) -> PyErr {
        let made = || {
            let make = py.import("farslot.errors")?.getattr("_make")?;
            make.call1((
                self.name(),
                self.message(),
                self.may_have_taken_effect(),
                failed.map(|(first, _)| first),
                failed.map(|(_, mask)| PyBytes::new(py, mask)),
            ))
        };
        made().map_or_else(|error| error, PyErr::from_value)
    }
}

/// What [`Failure::raise`] makes of an error of the library.
pub(crate) fn raise(py: Python<'_>, error: StoreError) -> PyErr {
    Failure::Store(error).raise(py)
}
