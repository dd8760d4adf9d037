//! READs of a table's slots, told from READs of its heap.

use farslot::fabric::Verb;
use farslot::layout::Scheme;
use std::cell::Cell;
use std::ops::{AddAssign, Range, Sub};
use std::rc::Rc;

/// Where a table's parts lie, in bytes from its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TableAreas {
    /// Its slots.
    slots: Range<u64>,
    /// Its records out of band.
    heap: Range<u64>,
}

impl TableAreas {
    /// Those of a scheme whose clients look up by READs; empty ones of others.
    pub(super) fn of(scheme: &Scheme) -> Self {
        match scheme {
            Scheme::Linear(layout) => {
                let slots = u128::from(layout.slots) * layout.slot_bytes() as u128;
                Self::ending_with_heap(layout.table_bytes(), slots, layout.heap_bytes)
            }
            Scheme::Cuckoo(layout) => {
                let slots = u128::from(layout.buckets) * layout.bucket_bytes() as u128;
                Self::ending_with_heap(layout.table_bytes(), slots, layout.heap_bytes)
            }
            Scheme::Sealed(layout) => {
                let slots = u128::from(layout.slots) * layout.slot_bytes() as u128;
                // The perfect hash function, if there is one, lies behind the heap.
                let with_heap = layout.table_bytes() - u128::from(layout.client_bytes());
                Self::ending_with_heap(with_heap, slots, layout.heap_bytes)
            }
            Scheme::Race(layout) => {
                let slots = u128::from(layout.most_slots()) * 8;
                Self::ending_with_heap(layout.table_bytes(), slots, layout.heap_bytes)
            }
            Scheme::Duo(layout) => Self {
                slots: layout.arrays(),
                heap: layout.heap(),
            },
            Scheme::Set(_) | Scheme::Chained(_) | Scheme::Ordered(_) | Scheme::Queue(_) => Self {
                slots: 0..0,
                heap: 0..0,
            },
        }
    }

    /// Slots, and behind them a heap up to the end of the table.
    fn ending_with_heap(table_bytes: u128, slot_bytes: u128, heap_bytes: u64) -> Self {
        let end = table_bytes as u64;
        let heap = end - heap_bytes;
        Self {
            slots: heap - (slot_bytes as u64).next_multiple_of(64)..heap,
            heap: heap..end,
        }
    }
}

/// READs that were posted, by what they read. What lies outside of both areas, such as a table's
/// counts, is nothing that a lookup is after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PostedReads {
    /// READs of slots.
    pub to_table: u64,
    /// READs of records out of band.
    pub to_heap: u64,
    /// Payload bytes of both.
    pub bytes: u64,
}

impl PostedReads {
    /// What [`SimEndpoint::observe`](farslot::fabric::sim::SimEndpoint::observe) counts READs by. A
    /// gather is one READ, to where its first piece is.
    pub(super) fn counter(areas: TableAreas, posted: Rc<Cell<Self>>) -> impl Fn(&Verb) {
        move |verb| {
            let first = match verb {
                Verb::Read { from, .. } => Some(*from),
                Verb::ReadMany { pieces, .. } => pieces.first().map(|piece| piece.from),
                _ => None,
            };
            let Some(first) = first else { return };
            let (to_table, to_heap) = (
                areas.slots.contains(&first.offset),
                areas.heap.contains(&first.offset),
            );
            let mut sum = posted.get();
            sum += Self {
                to_table: to_table.into(),
                to_heap: to_heap.into(),
                bytes: if to_table || to_heap { verb.bytes() } else { 0 },
            };
            posted.set(sum);
        }
    }
}

impl AddAssign for PostedReads {
    fn add_assign(&mut self, more: Self) {
        self.to_table += more.to_table;
        self.to_heap += more.to_heap;
        self.bytes += more.bytes;
    }
}

impl Sub for PostedReads {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            to_table: self.to_table - earlier.to_table,
            to_heap: self.to_heap - earlier.to_heap,
            bytes: self.bytes - earlier.bytes,
        }
    }
}
