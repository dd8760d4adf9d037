//! What a table that takes nothing more would need more of.

use crate::catalog::Scheme;
use crate::no_room::{MemoryLeft, RoomLimit};
use farslot_index::IndexError;

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
            let seen = RoomLimit::of(cause, scheme, memory);
            assert_eq!(seen, limit, "{cause} with {memory:?} of {}", scheme.name());
        }
    }
}
