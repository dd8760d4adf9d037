//! What a key has.

use crate::Lock;

/// What a key has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VersionedValue {
    /// The value.
    pub value: Vec<u8>,
    /// Grows with each change of any of the table's values: no two values of a key have the same.
    pub version: u64,
    /// The transaction that holds the key.
    pub lock: Option<Lock>,
    /// Where the slot lay, in its region.
    pub at: u64,
}
