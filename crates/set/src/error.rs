//! What can go wrong in a set.

use farslot_fabric::{ByteCount, FabricError};
use farslot_model::ModelError;

/// A failed operation on a set. Each names the value and the limit.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SetError {
    /// The fabric failed.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// The model that chooses chunk sizes refused its parameters.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// An element of another length than the set's.
    #[error("an element of {}, in a set of elements of {expected}", ByteCount(*len))]
    WrongLength {
        /// Bytes of the element.
        len: usize,
        /// Bytes of every element of the set, or the most of one.
        expected: usize,
    },
    /// A word that uses the bit that marks a bucket as occupied.
    #[error("the element {word:#x} is over the limit of {limit:#x}")]
    WordTooLarge {
        /// The element.
        word: u64,
        /// The largest element.
        limit: u64,
    },
    /// A table of a size that cannot be.
    #[error("{parameter} is {value}: it must be from {least} to {most}")]
    OutOfRange {
        /// What is out of range.
        parameter: &'static str,
        /// Its value.
        value: u64,
        /// The least allowed.
        least: u64,
        /// The most allowed.
        most: u64,
    },
    /// Memory that is not as long as the table's layout says.
    #[error("rank {rank} has {found} words of memory: the table needs {needed}")]
    WrongMemory {
        /// The rank.
        rank: usize,
        /// Words that it has.
        found: u64,
        /// Words that the layout asks for.
        needed: u64,
    },
    /// An index or a state id that no find-or-put of this set has returned.
    #[error("the set has no element {index:#x}")]
    NoSuchElement {
        /// The index or id.
        index: u64,
    },
    /// Without room for what is in the table.
    #[error("a table of {buckets} buckets has no room for what it is to hold")]
    NoRoom {
        /// Buckets of the new table.
        buckets: u64,
    },
}

/// Checks that a value is within its range.
pub(crate) fn check_range(
    parameter: &'static str,
    value: u64,
    least: u64,
    most: u64,
) -> Result<(), SetError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(SetError::OutOfRange {
        parameter,
        value,
        least,
        most,
    })
}
