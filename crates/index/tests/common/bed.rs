//! Tables of every scheme that keeps records in a heap.

use super::{Reads, Slot, chaos, cuckoo, duo, from_sim, race};
use farslot_fabric::sim::{SimEndpoint, World};
use farslot_index::cuckoo::{CuckooLayout, LookupOrder};
use farslot_index::duo::DuoLayout;
use farslot_index::linear::{LinearLayout, LinearTable};
use farslot_index::race::RaceLayout;
use farslot_index::{IndexExt, WriterChange};
use farslot_testbed::AnyEndpoint;
use std::rc::Rc;

/// Does the same with either.
macro_rules! with {
    ($table:expr, $name:ident => $body:expr) => {
        match $table {
            $crate::common::bed::Table::Linear($name) => $body,
            $crate::common::bed::Table::Race($name) => $body,
            $crate::common::bed::Table::Cuckoo($name) => {
                let $name = &**$name;
                $body
            }
            $crate::common::bed::Table::Duo($name) => $body,
        }
    };
}
#[allow(
    unused_imports,
    reason = "every test binary has a copy, and uses its own part of it"
)]
pub(crate) use with;

/// Tables with a heap: of the first two many clients allocate from it, of the others one.
#[derive(Clone)]
pub enum Bed {
    Linear(LinearLayout),
    Race(RaceLayout),
    Cuckoo(CuckooLayout),
    Duo(DuoLayout),
}

/// One of them, as a client has it open.
pub enum Table {
    Linear(LinearTable<AnyEndpoint>),
    Race(race::SimTable),
    Cuckoo(Box<cuckoo::SimTable>),
    Duo(duo::SimTable),
}

impl Bed {
    pub fn linear(slot: Slot, slots: u64, heap_bytes: u64, seed: u64) -> Self {
        let mut options = slot.options(slots, seed);
        options.sizing.heap_bytes = Some(heap_bytes);
        Self::Linear(options.layout().unwrap())
    }

    pub fn race(slot: Slot, dimensions: race::Dimensions, heap_bytes: u64, seed: u64) -> Self {
        Self::Race(dimensions.layout(slot, seed, Some(heap_bytes)))
    }

    pub fn cuckoo(slot: Slot, slots: u64, heap_bytes: u64, seed: u64) -> Self {
        let mut options = cuckoo::options(slot, slots, cuckoo::ways(2, 4), seed);
        options.sizing.heap_bytes = Some(heap_bytes);
        Self::Cuckoo(options.layout().unwrap())
    }

    pub fn duo(slot: Slot, slots: u64, heap_bytes: u64, seed: u64) -> Self {
        let mut options = duo::Dimensions::of_paper(slots).options(slot, seed);
        options.sizing.heap_bytes = Some(heap_bytes);
        Self::Duo(options.layout().unwrap())
    }

    pub fn has_one_writer(&self) -> bool {
        matches!(self, Self::Cuckoo(_) | Self::Duo(_))
    }

    pub fn world(&self, seed: u64) -> World {
        match self {
            Self::Linear(layout) => chaos::world(seed, layout),
            Self::Race(layout) => race::world(seed, layout),
            Self::Cuckoo(layout) => cuckoo::world(seed, layout),
            Self::Duo(layout) => duo::world(seed, layout),
        }
    }

    pub async fn open(&self, endpoint: Rc<SimEndpoint>, locations: usize) -> Table {
        match self {
            Self::Linear(layout) => {
                let table = chaos::open(from_sim(endpoint), layout, Reads::fixed(4)).await;
                Table::Linear(table.with_record_locations(locations))
            }
            Self::Race(layout) => Table::Race(race::open(endpoint, layout).await),
            Self::Cuckoo(layout) => {
                let order = LookupOrder::Parallel;
                Table::Cuckoo(Box::new(cuckoo::open(endpoint, layout, order).await))
            }
            Self::Duo(layout) => Table::Duo(duo::open(endpoint, layout)),
        }
    }

    /// The same, as the writer in place of one that was killed.
    pub async fn open_to_write(&self, endpoint: Rc<SimEndpoint>) -> Table {
        let table = self.open(endpoint, 0).await;
        with!(&table, table => table.change_writer(WriterChange::TakeOver).await.unwrap());
        table
    }
}
