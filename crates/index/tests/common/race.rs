//! What the tests of the RACE table share: its shapes, and tables on simulated and shared memory.

use super::{HEAP, Slot, TABLE};
use super::{from_shm, from_sim};
use farslot_fabric::shm::{Node, RegionSpec};
use farslot_fabric::sim::{NicProfile, SimEndpoint, World};
use farslot_fabric::{Executor, Limits, Rights};
use farslot_index::FieldSize;
use farslot_index::Sizing;
use farslot_index::race::{RaceLayout, RaceOptions, RaceTable};
use farslot_testbed::{AnyEndpoint, Fabric, TestNode};
use std::rc::Rc;

/// Keys and values of any length up to a most.
pub const VARIED: Slot = Slot {
    name: "varied",
    ..HEAP
};
/// Keys and values of 8 bytes.
pub const SHORT: Slot = Slot {
    name: "short",
    key: FieldSize::Fixed(8),
    value: FieldSize::Fixed(8),
    ..HEAP
};

/// The dimensions of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dimensions {
    pub bucket_slots: u32,
    /// Groups of three buckets of a subtable.
    pub groups: u64,
    /// Subtables at first.
    pub roots: u64,
    /// Subtables at last.
    pub most_subtables: u64,
}

impl Dimensions {
    /// One subtable of about so many slots, with buckets as in the papers.
    pub const fn fixed(slots: u64, bucket_slots: u32) -> Self {
        Self {
            bucket_slots,
            groups: slots / (3 * bucket_slots as u64),
            roots: 1,
            most_subtables: 1,
        }
    }

    pub fn layout(self, slot: Slot, seed: u64, heap_bytes: Option<u64>) -> RaceLayout {
        let slots = self.groups * u64::from(self.bucket_slots) * 3 * self.most_subtables;
        let options = RaceOptions::new(Sizing {
            load_factor: Some(1.0),
            heap_bytes,
            ..Sizing::new(slots, slot.key, slot.value, seed)
        });
        RaceLayout {
            bucket_slots: self.bucket_slots,
            groups: self.groups,
            roots: self.roots,
            most_subtables: self.most_subtables,
            ..options.layout().unwrap()
        }
    }
}

/// Bytes of a region that holds a table.
pub fn region_bytes(layout: &RaceLayout) -> u64 {
    TABLE.offset + u64::try_from(layout.table_bytes()).unwrap()
}

/// A node with room for the table.
pub fn new_node(fabric: Fabric, layout: &RaceLayout) -> TestNode {
    fabric.start(&[(region_bytes(layout), Rights::ALL)])
}

/// A client of its own, and the table that lies on the node.
pub fn new_client(
    node: &TestNode,
    layout: &RaceLayout,
) -> (Executor<AnyEndpoint>, RaceTable<AnyEndpoint>) {
    let endpoint = node.connect(Fabric::limits());
    let executor = Executor::new(Rc::clone(&endpoint));
    let opening = RaceTable::open(endpoint, TABLE, layout.clone());
    let table = executor.block_on(opening).unwrap();
    (executor, table)
}

/// An embedded node with room for the table.
pub fn shm_node(layout: &RaceLayout) -> Node {
    let region = RegionSpec {
        len: region_bytes(layout),
        rights: Rights::ALL,
    };
    Node::embedded(&[region]).unwrap()
}

pub type ShmTable = RaceTable<AnyEndpoint>;

/// A client thread of its own, and the table that lies on the node.
pub fn shm_client(node: &Node, layout: &RaceLayout) -> (Executor<AnyEndpoint>, ShmTable) {
    let endpoint = from_shm(node, Limits::default());
    let executor = Executor::new(Rc::clone(&endpoint));
    let opening = RaceTable::open(endpoint, TABLE, layout.clone());
    let table = executor.block_on(opening).unwrap();
    (executor, table)
}

/// A table on a new node, and its only client.
pub fn shm_table(layout: &RaceLayout) -> (Executor<AnyEndpoint>, ShmTable) {
    shm_client(&shm_node(layout), layout)
}

/// A world with an empty table.
pub fn world(seed: u64, layout: &RaceLayout) -> World {
    let world = World::new(seed, NicProfile::connectx5_edr());
    world.add_node(&[(region_bytes(layout), Rights::ALL)]);
    world
}

pub type SimTable = RaceTable<AnyEndpoint>;

/// Opens the table, however often that takes.
pub async fn open(endpoint: Rc<SimEndpoint>, layout: &RaceLayout) -> SimTable {
    let endpoint = from_sim(endpoint);
    loop {
        match RaceTable::open(Rc::clone(&endpoint), TABLE, layout.clone()).await {
            Ok(table) => return table,
            Err(error) => assert!(error.may_have_taken_effect(), "open: {error}"),
        }
    }
}
