//! Why a table takes nothing more, and what there is of memory: what whoever reads the error needs
//! to know to do something about it.

use crate::catalog::Scheme;
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

impl RoomLimit {
    /// What limits a table that refuses a record, by what there is of memory: here the table has
    /// what it has in segments alone. A table that grows finds no slot where its directory takes no
    /// more, and where there is no memory to split into.
    pub(crate) fn of(cause: &IndexError, scheme: &Scheme, memory: Option<MemoryLeft>) -> Self {
        let is_free = memory.map(|memory| memory.free > 0);
        let has = |bytes: u64| memory.is_some_and(|memory| memory.table >= bytes);
        match cause {
            _ if !scheme.is_pooled() => Self::Table,
            IndexError::Full { .. } if is_free == Some(true) => Self::Table,
            IndexError::HeapFull { heap_bytes, .. }
                if scheme.is_limited() && (is_free != Some(false) || has(*heap_bytes)) =>
            {
                Self::Heap
            }
            _ => Self::Node,
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TableOptions;

    #[test]
    fn the_limit_is_told_by_the_cause_and_by_what_there_is() {
        let full = IndexError::Full {
            probed: 32,
            slots: 4096,
        };
        let heap_full = IndexError::HeapFull {
            record_bytes: 64,
            heap_bytes: 1 << 20,
        };
        let memory = |table, free| {
            Some(MemoryLeft {
                table,
                total: 1 << 24,
                free,
            })
        };
        let sized = TableOptions::new(100).scheme().unwrap();
        let growing = TableOptions::default().scheme().unwrap();
        let limited = TableOptions::default().heap_bytes(1 << 20);
        let limited = limited.scheme().unwrap();
        for (cause, scheme, memory, limit) in [
            (&full, &sized, memory(0, 0), RoomLimit::Table),
            (&heap_full, &sized, memory(0, 4096), RoomLimit::Table),
            (&full, &growing, memory(4096, 4096), RoomLimit::Table),
            (&full, &growing, memory(4096, 0), RoomLimit::Node),
            (&full, &limited, memory(4096, 4096), RoomLimit::Table),
            (&heap_full, &growing, memory(4096, 4096), RoomLimit::Node),
            (&heap_full, &limited, memory(4096, 4096), RoomLimit::Heap),
            (&heap_full, &limited, memory(4096, 0), RoomLimit::Node),
            (&heap_full, &limited, memory(1 << 20, 0), RoomLimit::Heap),
            (&heap_full, &limited, None, RoomLimit::Heap),
        ] {
            let told = RoomLimit::of(cause, scheme, memory);
            assert_eq!(told, limit, "{cause} with {memory:?} of {}", scheme.name());
        }
    }
}
