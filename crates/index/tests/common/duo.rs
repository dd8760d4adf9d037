//! What the tests of the CuckooDuo table share: its shapes, and tables on simulated and shared
//! memory.

use super::{HEAP, INLINE, INLINE_SHORT, Slot, TABLE};
use super::{from_shm, from_sim};
use farslot_fabric::shm::{Node, RegionSpec};
use farslot_fabric::sim::{NicProfile, SimEndpoint, World};
use farslot_fabric::{Executor, Limits, RemoteAddr, Rights};
use farslot_index::FieldSize;
use farslot_index::Sizing;
use farslot_index::duo::{DuoGrowth, DuoLayout, DuoOptions, DuoReader, DuoTable, GrowthMemory};
use farslot_testbed::AnyEndpoint;
use std::rc::Rc;

/// Keys and values of any length up to a most.
pub const VARIED: Slot = Slot {
    name: "varied",
    key: FieldSize::UpTo(40),
    value: FieldSize::UpTo(300),
    ..INLINE
};
/// The sizes that the tests go through.
pub const SLOTS: [Slot; 4] = [INLINE, INLINE_SHORT, VARIED, HEAP];

/// Records of words: where the memory is mapped, many keys are looked up by the fast path.
pub const WORDS: Slot = Slot {
    name: "words",
    key: FieldSize::Fixed(8),
    value: FieldSize::Fixed(8),
    ..INLINE
};

/// The sizes that tables which grow go through.
pub const GROWING: [Slot; 3] = [INLINE, VARIED, HEAP];

/// The dimensions of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dimensions {
    /// Of both arrays together.
    pub slots: u64,
    pub bucket_slots: u32,
    pub fingerprint_bits: u32,
    pub longest_path: u32,
    pub stash: u32,
    /// Whether the index is published.
    pub readers: bool,
}

impl Dimensions {
    /// As in the paper.
    pub const fn of_paper(slots: u64) -> Self {
        Self {
            slots,
            bucket_slots: 8,
            fingerprint_bits: 16,
            longest_path: 3,
            stash: 32,
            readers: false,
        }
    }

    /// The same, with readers beside the owner.
    pub const fn with_readers(self) -> Self {
        Self {
            readers: true,
            ..self
        }
    }

    pub fn options(self, slot: Slot, seed: u64) -> DuoOptions {
        DuoOptions {
            bucket_slots: self.bucket_slots,
            fingerprint_bits: self.fingerprint_bits,
            longest_path: self.longest_path,
            stash: self.stash,
            readers: self.readers,
            slot: slot.kind,
            ..DuoOptions::new(Sizing {
                load_factor: Some(1.0),
                ..Sizing::new(self.slots, slot.key, slot.value, seed)
            })
        }
    }

    pub fn layout(self, slot: Slot, seed: u64) -> DuoLayout {
        self.options(slot, seed).layout().unwrap()
    }
}

/// Bytes of a region that holds a table.
pub fn region_bytes(layout: &DuoLayout) -> u64 {
    TABLE.offset + u64::try_from(layout.table_bytes()).unwrap()
}

/// An embedded node with room for the table.
pub fn shm_node(layout: &DuoLayout) -> Node {
    let region = RegionSpec {
        len: region_bytes(layout),
        rights: Rights::ALL,
    };
    Node::embedded(&[region]).unwrap()
}

pub type ShmTable = DuoTable<AnyEndpoint>;

/// An endpoint for one thread.
pub fn shm_endpoint(node: &Node) -> Rc<AnyEndpoint> {
    from_shm(node, Limits::default())
}

/// A client thread of its own, and the table that lies on the node.
pub fn shm_client(node: &Node, layout: &DuoLayout) -> (Executor<AnyEndpoint>, ShmTable) {
    shm_client_with(node, layout, Limits::default())
}

/// As [`shm_client`], with limits: who takes over waits as long as a verb may take.
pub fn shm_client_with(
    node: &Node,
    layout: &DuoLayout,
    limits: Limits,
) -> (Executor<AnyEndpoint>, ShmTable) {
    let endpoint = from_shm(node, limits);
    let executor = Executor::new(Rc::clone(&endpoint));
    let table = DuoTable::open(endpoint, TABLE, layout.clone()).unwrap();
    (executor, table)
}

/// A reader on a thread of its own, of the table that lies on the node.
pub fn shm_reader(
    node: &Node,
    layout: &DuoLayout,
) -> (Executor<AnyEndpoint>, DuoReader<AnyEndpoint>) {
    let endpoint = shm_endpoint(node);
    let executor = Executor::new(Rc::clone(&endpoint));
    let reader = DuoReader::open(endpoint, TABLE, layout.clone()).unwrap();
    (executor, reader)
}

/// A table on a new node, and its only client.
pub fn shm_table(layout: &DuoLayout) -> (Executor<AnyEndpoint>, ShmTable) {
    shm_client(&shm_node(layout), layout)
}

/// A world with an empty table.
pub fn world(seed: u64, layout: &DuoLayout) -> World {
    let world = World::new(seed, NicProfile::connectx5_edr());
    world.add_node(&[(region_bytes(layout), Rights::ALL)]);
    world
}

pub type SimTable = DuoTable<AnyEndpoint>;

pub fn open(endpoint: Rc<SimEndpoint>, layout: &DuoLayout) -> SimTable {
    DuoTable::open(from_sim(endpoint), TABLE, layout.clone()).unwrap()
}

/// Memory behind a table, for it to grow in: the region's first word counts what is taken.
pub fn memory_behind(layout: &DuoLayout, bytes: u64) -> GrowthMemory {
    let at = |offset| RemoteAddr { offset, ..TABLE };
    GrowthMemory {
        mark: at(0),
        start: at(region_bytes(layout).next_multiple_of(4096)),
        bytes,
    }
}

/// Bytes of a region that holds a table and memory behind it.
pub fn growing_bytes(memory: &GrowthMemory) -> u64 {
    memory.start.offset + memory.bytes
}

/// An embedded node with room for a table and memory behind it.
pub fn growing_node(memory: &GrowthMemory) -> Node {
    let region = RegionSpec {
        len: growing_bytes(memory),
        rights: Rights::ALL,
    };
    Node::embedded(&[region]).unwrap()
}

/// A world with an empty table and memory behind it.
pub fn growing_world(seed: u64, memory: &GrowthMemory) -> World {
    let world = World::new(seed, NicProfile::connectx5_edr());
    world.add_node(&[(growing_bytes(memory), Rights::ALL)]);
    world
}

/// A table that grows by itself.
pub fn growing(layout: &DuoLayout, endpoint: Rc<SimEndpoint>, growth: DuoGrowth) -> SimTable {
    open(endpoint, layout).with_growth(growth).unwrap()
}
