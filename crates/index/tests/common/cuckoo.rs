//! What the tests of the cuckoo table share: its shapes, and tables on nodes of any fabric.

use super::from_sim;
use super::{HEAP, INLINE, INLINE_SHORT, Slot, TABLE, WORD, WORD_SET};
use farslot_fabric::sim::{NicProfile, SimEndpoint, World};
use farslot_fabric::{Executor, Limits, Rights};
use farslot_index::Sizing;
use farslot_index::SlotKind;
use farslot_index::cuckoo::{CuckooLayout, CuckooOptions, CuckooTable, LookupOrder};
use farslot_testbed::{AnyEndpoint, Fabric, TestNode};
use std::rc::Rc;

/// The slots that a cuckoo table can have.
pub const SLOTS: [Slot; 6] = [WORD_SET, WORD, INLINE, INLINE_SHORT, HEAP, SIGNATURES];

/// A word of signatures a bucket, and its records together out of band.
pub const SIGNATURES: Slot = Slot {
    name: "signatures",
    kind: SlotKind::Signatures,
    ..HEAP
};

pub const ORDERS: [LookupOrder; 3] = [
    LookupOrder::Sequential,
    LookupOrder::Parallel,
    LookupOrder::Gathered,
];

/// Hash functions, and slots of a bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ways {
    pub ways: u32,
    pub bucket_slots: u32,
}

pub const fn ways(ways: u32, bucket_slots: u32) -> Ways {
    Ways { ways, bucket_slots }
}

/// Options for a table of `slots` slots, or some more to fill its last bucket. One of signatures
/// has buckets of 4, whatever is asked for.
pub fn options(slot: Slot, slots: u64, ways: Ways, seed: u64) -> CuckooOptions {
    CuckooOptions {
        slot: Some(slot.kind),
        ways: ways.ways,
        bucket_slots: match slot.kind {
            SlotKind::Signatures => 4,
            _ => ways.bucket_slots,
        },
        ..CuckooOptions::new(Sizing {
            load_factor: Some(1.0),
            ..Sizing::new(slots, slot.key, slot.value, seed)
        })
    }
}

/// Bytes of a region that holds a table.
pub fn region_bytes(layout: &CuckooLayout) -> u64 {
    TABLE.offset + u64::try_from(layout.table_bytes()).unwrap()
}

/// A node with room for the table.
pub fn new_node(fabric: Fabric, layout: &CuckooLayout) -> TestNode {
    fabric.start(&[(region_bytes(layout), Rights::ALL)])
}

/// A client of its own, and the table that lies on the node.
pub fn new_client(
    node: &TestNode,
    layout: &CuckooLayout,
    order: LookupOrder,
) -> (Executor<AnyEndpoint>, CuckooTable<AnyEndpoint>) {
    limited_client(node, layout, order, Fabric::limits())
}

/// A client that may not hold more, nor waits longer.
pub fn limited_client(
    node: &TestNode,
    layout: &CuckooLayout,
    order: LookupOrder,
    limits: Limits,
) -> (Executor<AnyEndpoint>, CuckooTable<AnyEndpoint>) {
    let endpoint = node.connect(limits);
    let executor = Executor::new(Rc::clone(&endpoint));
    let opening = CuckooTable::open(endpoint, TABLE, layout.clone(), order);
    let table = executor.block_on(opening).unwrap();
    (executor, table)
}

/// A table, its node and its only client.
pub fn new_table(
    fabric: Fabric,
    options: &CuckooOptions,
    order: LookupOrder,
) -> (TestNode, Executor<AnyEndpoint>, CuckooTable<AnyEndpoint>) {
    let layout = options.layout().unwrap();
    let node = new_node(fabric, &layout);
    let (executor, table) = new_client(&node, &layout, order);
    (node, executor, table)
}

/// A world with an empty table.
pub fn world(seed: u64, layout: &CuckooLayout) -> World {
    let world = World::new(seed, NicProfile::connectx5_edr());
    world.add_node(&[(region_bytes(layout), Rights::ALL)]);
    world
}

pub type SimTable = CuckooTable<AnyEndpoint>;

/// Opens the table, however often that takes.
pub async fn open(
    endpoint: Rc<SimEndpoint>,
    layout: &CuckooLayout,
    order: LookupOrder,
) -> SimTable {
    let endpoint = from_sim(endpoint);
    loop {
        match CuckooTable::open(Rc::clone(&endpoint), TABLE, layout.clone(), order).await {
            Ok(table) => return table,
            Err(error) => assert!(error.may_have_taken_effect(), "open: {error}"),
        }
    }
}
