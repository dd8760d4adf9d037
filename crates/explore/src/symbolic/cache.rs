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
const FEW: usize = 1 << 16;
/// A cache is enlarged when it was written so many times as often as it has entries.
const WRITES: u64 = 2;

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
    writes: u64,
    most_bytes: u64,
}

impl Cache {
    /// A cache that grows up to so many bytes.
    pub(super) fn new(most_bytes: u64) -> Self {
        Self {
            entries: vec![EMPTY; FEW],
            writes: 0,
            most_bytes,
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
        self.writes += 1;
        if self.writes > WRITES * self.entries.len() as u64 {
            self.grow();
        }
        let place = self.place(operation);
        self.entries[place] = Entry { operation, result };
    }

    fn grow(&mut self) {
        let wanted = self.entries.len() * 2;
        if (wanted * size_of::<Entry>()) as u64 > self.most_bytes {
            return;
        }
        let old = std::mem::replace(&mut self.entries, vec![EMPTY; wanted]);
        for entry in old {
            if entry.operation != EMPTY.operation {
                let place = self.place(entry.operation);
                self.entries[place] = entry;
            }
        }
    }

    /// Forgets the operations on nodes, and to nodes, that are no longer there.
    pub(super) fn retain(&mut self, is_there: impl Fn(u32) -> bool) {
        for entry in &mut self.entries {
            let Operation { one, two, .. } = entry.operation;
            if ![one, two, entry.result].into_iter().all(&is_there) {
                *entry = EMPTY;
            }
        }
    }

    /// Results that were put: how much was done.
    pub(super) fn writes(&self) -> u64 {
        self.writes
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.entries.len() * size_of::<Entry>()) as u64
    }
}
