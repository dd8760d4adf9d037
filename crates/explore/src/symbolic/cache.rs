//! Results of operations on diagrams, of which a newer one may displace an older one.

/// An operation: what is done, and to which nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Operation {
    /// [`UNION`], or a transition's number with one of the other kinds.
    pub(super) kind: u32,
    pub(super) one: u32,
    pub(super) two: u32,
}

/// Entries to begin with; a power of 2.
const FEW: usize = 1 << 14;

#[derive(Debug, Clone, Copy)]
struct Entry {
    operation: Operation,
    result: u32,
}

/// No operation is on nodes 0 and 0.
const EMPTY: Entry = Entry {
    operation: Operation {
        kind: 0,
        one: 0,
        two: 0,
    },
    result: 0,
};

/// A table of results, one an entry: the newest.
#[derive(Debug)]
pub(super) struct Cache {
    entries: Vec<Entry>,
}

impl Cache {
    pub(super) fn new() -> Self {
        Self {
            entries: vec![EMPTY; FEW],
        }
    }

    #[inline]
    fn place(&self, operation: Operation) -> usize {
        let Operation { kind, one, two } = operation;
        let mut hash = (u64::from(one) | u64::from(two) << 32) ^ u64::from(kind) << 20;
        hash = (hash ^ hash >> 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        hash = (hash ^ hash >> 29 ^ u64::from(kind)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (hash >> 32) as usize & (self.entries.len() - 1)
    }

    #[inline]
    pub(super) fn get(&self, operation: Operation) -> Option<u32> {
        let entry = &self.entries[self.place(operation)];
        (entry.operation == operation).then_some(entry.result)
    }

    #[inline]
    pub(super) fn put(&mut self, operation: Operation, result: u32) {
        let place = self.place(operation);
        self.entries[place] = Entry { operation, result };
    }

    /// Keeps the cache about as large as there are nodes, in at most so many bytes.
    pub(super) fn fit(&mut self, nodes: u64, most_bytes: u64) {
        let wanted = self.entries.len() * 2;
        let bytes = (wanted * size_of::<Entry>()) as u64;
        if (self.entries.len() as u64) >= nodes || bytes > most_bytes {
            return;
        }
        let old = std::mem::replace(&mut self.entries, vec![EMPTY; wanted]);
        for Entry { operation, result } in old {
            if operation != EMPTY.operation {
                self.put(operation, result);
            }
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.entries.len() * size_of::<Entry>()) as u64
    }
}
