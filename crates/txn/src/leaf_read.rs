//! A leaf of a map that a transaction has read.

use crate::identity::TableId;
use farslot_remote::ordered::Leaf;

/// A leaf that a transaction has read.
pub(crate) struct LeafRead {
    pub(crate) table: TableId,
    pub(crate) leaf: Leaf,
    /// Whether it was read for a range, and not for a key.
    #[cfg(test)]
    pub(crate) is_scanned: bool,
}

impl LeafRead {
    pub(crate) const fn new(table: TableId, leaf: Leaf) -> Self {
        Self {
            table,
            leaf,
            #[cfg(test)]
            is_scanned: false,
        }
    }
}
