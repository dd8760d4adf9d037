//! What the tests share: the slots they go through, keys and values that can be told from torn
//! ones, and tables on nodes of any fabric.

#![allow(
    dead_code,
    reason = "every test binary has a copy, and uses its own part of it"
)]

pub mod bed;
pub mod beside;
pub mod chaos;
pub mod costs;
pub mod cuckoo;
pub mod duo;
pub mod faults;
pub mod model;
pub mod owners;
pub mod race;
pub mod run;
pub mod sealed;
pub mod seeds;
pub mod stopped;

use farslot_fabric::shm::{Node, ShmEndpoint};
use farslot_fabric::sim::SimEndpoint;
use farslot_fabric::{Executor, Limits, NodeId, RegionId, RemoteAddr, Rights};
use farslot_index::Sizing;
use farslot_index::linear::{
    LinearLayout, LinearOptions, LinearTable, ReadPolicy, ReadSizes, SlotKind,
};
use farslot_index::{Cursor, FieldSize, Index, Result};
use farslot_model::NicModel;
use farslot_testbed::{AnyEndpoint, Fabric, TestNode};
use proptest::prelude::*;
use std::rc::Rc;

/// A slot kind with sizes of keys and values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// What it is called on the command line.
    pub name: &'static str,
    pub kind: SlotKind,
    pub key: FieldSize,
    pub value: FieldSize,
    /// Of hybrid slots.
    pub inline_bytes: Option<u32>,
}

const fn fixed(name: &'static str, kind: SlotKind, key: u32, value: u32) -> Slot {
    Slot {
        name,
        kind,
        key: FieldSize::Fixed(key),
        value: FieldSize::Fixed(value),
        inline_bytes: None,
    }
}

/// Paper 002's set of 63-bit keys.
pub const WORD_SET: Slot = fixed("word-set", SlotKind::Word, 8, 0);
pub const WORD: Slot = fixed("word", SlotKind::Word, 4, 3);
pub const PAIR: Slot = fixed("pair", SlotKind::Pair, 8, 8);
pub const PAIR_SET: Slot = fixed("pair-set", SlotKind::Pair, 8, 0);
pub const PAIR_SHORT: Slot = fixed("pair-short", SlotKind::Pair, 5, 3);
pub const INLINE: Slot = fixed("inline", SlotKind::Inline, 12, 20);
pub const INLINE_SHORT: Slot = fixed("inline-short", SlotKind::Inline, 8, 1);
pub const HEAP: Slot = Slot {
    name: "heap",
    kind: SlotKind::Heap,
    key: FieldSize::UpTo(40),
    value: FieldSize::UpTo(300),
    inline_bytes: None,
};
/// Two records in three stand in their slots.
pub const HYBRID: Slot = Slot {
    name: "hybrid",
    kind: SlotKind::Hybrid,
    inline_bytes: Some(240),
    ..HEAP
};
/// Most records stand in their slots; keys of 1 byte.
pub const HYBRID_SHORT: Slot = Slot {
    name: "hybrid-short",
    key: FieldSize::UpTo(7),
    value: FieldSize::UpTo(21),
    inline_bytes: Some(16),
    ..HYBRID
};

/// All of them.
pub const SLOTS: [Slot; 10] = [
    WORD_SET,
    WORD,
    PAIR,
    PAIR_SET,
    PAIR_SHORT,
    INLINE,
    INLINE_SHORT,
    HEAP,
    HYBRID,
    HYBRID_SHORT,
];

/// A number that a value does not stand for.
pub const TORN: u64 = u64::MAX;

impl Slot {
    /// Whether records lie out of band, at first or later.
    pub fn has_heap(self) -> bool {
        matches!(
            self.kind,
            SlotKind::Inline | SlotKind::Heap | SlotKind::Hybrid | SlotKind::Signatures
        )
    }

    /// Key number `number`; below 256, all keys differ.
    pub fn key(self, number: u64) -> Vec<u8> {
        let len = match self.key {
            FieldSize::Fixed(len) => len as usize,
            FieldSize::UpTo(most) => 1 + number as usize * 7 % most as usize,
        };
        // The last byte is the number, the others depend on it; bit 63 stays 0.
        let mut key: Vec<u8> = (1..=len as u64)
            .map(|at| (number * 37 + at * 11) as u8 & 0x7f)
            .collect();
        key[len - 1] = number as u8;
        if self.kind == SlotKind::Word {
            assert!(number < 128, "bit 63 is none of a key's");
        }
        key
    }

    /// The value that stands for `number`, or for what of it fits.
    pub fn value(self, number: u64) -> Vec<u8> {
        let len = match self.value {
            FieldSize::Fixed(len) => len as usize,
            FieldSize::UpTo(most) => 8 + (number as usize).wrapping_mul(101) % (most as usize - 7),
        };
        let mut value = number.to_le_bytes()[..len.min(8)].to_vec();
        // What follows the number depends on it, in each of its words.
        value.extend((8..len).map(|at| (number.wrapping_mul(31) as u8).wrapping_add(at as u8)));
        value
    }

    /// The number that a value stands for; [`TORN`] if it is no value of one.
    pub fn number(self, value: &[u8]) -> u64 {
        let mut word = [0; 8];
        let len = value.len().min(8);
        word[..len].copy_from_slice(&value[..len]);
        let number = u64::from_le_bytes(word);
        if self.value(number) == value {
            number
        } else {
            TORN
        }
    }

    /// `number`, as far as it fits into a value.
    pub fn fitted(self, number: u64) -> u64 {
        self.number(&self.value(number))
    }

    /// Options for a table of exactly `slots` slots.
    pub fn options(self, slots: u64, seed: u64) -> LinearOptions {
        LinearOptions {
            slot: Some(self.kind),
            inline_bytes: self.inline_bytes,
            ..LinearOptions::new(Sizing {
                load_factor: Some(1.0),
                ..Sizing::new(slots, self.key, self.value, seed)
            })
        }
    }
}

/// Where the tests put their tables: not at a region's start.
pub const TABLE: RemoteAddr = RemoteAddr {
    node: NodeId(0),
    region: RegionId(0),
    offset: 192,
};

/// Bytes of a region that holds a table.
pub fn region_bytes(layout: &LinearLayout) -> u64 {
    TABLE.offset + u64::try_from(layout.table_bytes()).unwrap()
}

/// How much a READ fetches.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Reads {
    /// `None` is what the model says.
    pub fixed: Option<u32>,
    pub look_ahead: bool,
}

impl Reads {
    pub const fn fixed(slots: u32) -> Self {
        Self {
            fixed: Some(slots),
            look_ahead: false,
        }
    }

    pub fn sizes(self, layout: &LinearLayout) -> ReadSizes {
        let policy = match self.fixed {
            Some(slots) => ReadPolicy::Fixed(slots),
            None => ReadPolicy::throughput(NicModel::connectx5_edr()),
        };
        let sizes = ReadSizes::new(layout, policy).unwrap();
        if self.look_ahead {
            sizes.looking_ahead()
        } else {
            sizes
        }
    }
}

/// All ways to read.
pub fn all_reads() -> impl Strategy<Value = Reads> {
    let fixed = prop_oneof![Just(Some(1)), Just(Some(3)), Just(Some(64)), Just(None)];
    (fixed, any::<bool>()).prop_map(|(fixed, look_ahead)| Reads { fixed, look_ahead })
}

/// A node with room for the table.
pub fn new_node(fabric: Fabric, layout: &LinearLayout) -> TestNode {
    fabric.start(&[(region_bytes(layout), Rights::ALL)])
}

/// The simulator's endpoint as one of any fabric: each scheme is compiled once for all tests.
pub fn from_sim(endpoint: Rc<SimEndpoint>) -> Rc<AnyEndpoint> {
    Rc::new(AnyEndpoint::Sim(endpoint))
}

/// The endpoint of one thread to shared memory, likewise.
pub fn from_shm(node: &Node, limits: Limits) -> Rc<AnyEndpoint> {
    let endpoint = ShmEndpoint::new(vec![node.clone()], limits);
    Rc::new(AnyEndpoint::Shm(endpoint))
}

/// A client of a fabric with its table.
pub type Client = (Executor<AnyEndpoint>, LinearTable<AnyEndpoint>);

/// A client of its own, and the table that lies on the node.
pub fn new_client(node: &TestNode, layout: &LinearLayout, reads: Reads) -> Client {
    let endpoint = node.connect(Fabric::limits());
    let executor = Executor::new(Rc::clone(&endpoint));
    let sizes = reads.sizes(layout);
    let opening = LinearTable::open(endpoint, TABLE, layout.clone(), sizes);
    let table = executor.block_on(opening).unwrap();
    (executor, table)
}

/// A table, its node and its only client.
pub fn new_table(fabric: Fabric, options: &LinearOptions, reads: Reads) -> Alone {
    let layout = options.layout().unwrap();
    let node = new_node(fabric, &layout);
    let (executor, table) = new_client(&node, &layout, reads);
    (node, executor, table)
}

/// A node that is there for as long as this, and its only client.
pub type Alone = (TestNode, Executor<AnyEndpoint>, LinearTable<AnyEndpoint>);

/// All records, in the order of the table.
pub async fn scan_all(table: &impl Index) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    scan_in_pieces(table, &[u64::MAX]).await
}

/// The most slots that a scheme of the tests visits in a piece of which fewer were asked for.
const LEAST_PIECE: u64 = 32;

/// All records, in the order of the table, by pieces of at most so many slots: one limit after the
/// other, over and over again.
pub async fn scan_in_pieces(
    table: &(impl Index + ?Sized),
    limits: &[u64],
) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut met = Vec::new();
    let mut cursor = Some(Cursor(0));
    let mut limits = limits.iter().cycle();
    while let Some(from) = cursor {
        let (before, most) = (met.len(), *limits.next().unwrap());
        let mut visit = |key: &[u8], value: &[u8]| met.push((key.to_vec(), value.to_vec()));
        cursor = table.scan(from, most, &mut visit).await?;
        let of_piece = (met.len() - before) as u64;
        assert!(of_piece <= most.max(LEAST_PIECE), "{of_piece} of {most}");
    }
    Ok(met)
}

/// Limits of the pieces of a scan: of a slot, of a few, and none.
pub fn piece_limits() -> impl Strategy<Value = Vec<u64>> {
    let limit = prop_oneof![3 => 0..60_u64, 1 => Just(u64::MAX)];
    proptest::collection::vec(limit, 1..6)
}
