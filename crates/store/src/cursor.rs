//! How far an iteration has come.

use farslot_index::Cursor as Place;

/// How far an iteration has come. The default starts one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cursor {
    /// The partition that it has come to; 0 in a table on one node.
    pub(crate) partition: u16,
    /// Where in it, in the terms of its scheme.
    pub(crate) place: Place,
}

impl Cursor {
    /// The place in that partition.
    pub(crate) const fn of(partition: u16, place: Place) -> Self {
        Self { partition, place }
    }
}
