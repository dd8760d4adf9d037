//! Why a table takes nothing more, and what there is of memory: what whoever reads the error needs
//! to know to do something about it.

use farslot_index::{IndexError, SchemeKind};
use std::fmt;

/// What a node has of memory for tables, and what of it a table has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct MemoryLeft {
    /// Bytes that the table has.
    pub table: u64,
    /// Bytes that its node has for tables.
    pub total: u64,
    /// Bytes that no table has, to whole segments of the node's memory.
    pub free: u64,
}

/// What a table would need more of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RoomLimit {
    /// The size that it was made with.
    Table,
    /// The bytes that its records were limited to, of a table that grows.
    Heap,
    /// Its node's memory.
    Node,
}

/// Why a table has no room for a record, and what there is of memory. The table goes on serving.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct NoRoom {
    /// The table.
    pub table: String,
    /// The table's scheme.
    pub scheme: SchemeKind,
    /// What it lacks room for: [`Full`](IndexError::Full), [`HeapFull`](IndexError::HeapFull) or
    /// [`OutOfMemory`](IndexError::OutOfMemory).
    pub cause: IndexError,
    /// What it would need more of.
    pub limit: RoomLimit,
    /// The node that has no room for the key, where a store has several.
    pub node: Option<String>,
    /// What there is of memory: looked at when the record was refused, or a tenth of a second
    /// before. Nothing if it could not be read, as under a grant of single keys.
    pub memory: Option<MemoryLeft>,
}

impl NoRoom {
    /// Whether an operation failed because there is no room.
    pub(crate) const fn is_cause(error: &IndexError) -> bool {
        matches!(
            error,
            IndexError::Full { .. } | IndexError::HeapFull { .. } | IndexError::OutOfMemory { .. }
        )
    }
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, cause, .. } = self;
        write!(f, "table {table:?} has no room")?;
        if let Some(node) = &self.node {
            write!(f, " at {node}")?;
        }
        write!(f, ": {cause}")?;
        if let Some(MemoryLeft { table, total, free }) = self.memory {
            write!(
                f,
                "; it has {table} bytes of memory; of its node's {total}, {free} are free"
            )?;
        }
        Ok(())
    }
}
