//! How tables are laid out that the owner of the memory writes.

use crate::error::bad_option;
use crate::{Result, StoreError};
use farslot_fabric::ByteCount;
use farslot_index::FieldSize;
use farslot_remote::RemoteStructure;
use farslot_remote::chained::{Shape, Table};
use farslot_remote::ordered::{Tree, TreeShape};
use farslot_remote::queue::{Queue, QueueShape};
use serde::{Deserialize, Serialize};

/// The longest record: a reply with one, or with a few, is a call's.
pub(crate) const LONGEST_RECORD: usize = 16 << 10;
/// Slots of a bucket. Buckets have one key or less on average, so that few keys are in chains.
const BUCKET_SLOTS: u8 = 2;
/// Walks of chains after which a bucket of a table that grows is split.
const SPLIT_AFTER: u32 = 4;
/// Bytes of a leaf, about: what a READ of one key moves.
const LEAF_BYTES: usize = 4 << 10;
/// Pairs of a leaf, where they are not too long.
const LEAF_PAIRS: (usize, usize) = (4, 64);
/// Pairs of a leaf, at the least.
const FEWEST_PAIRS: usize = 2;
/// Children of an inner node.
const CHILDREN: (usize, usize) = (4, 64);
/// Bytes of a node, about, unless its fewest entries have more.
const NODE_BYTES: usize = 32 << 10;
/// Most bytes of a bucket or a leaf, which a READ moves whole: the fewest of the longest records
/// have fewer.
const LONGEST_READ: usize = 96 << 10;
/// Most bytes of a reply, which calls have room for: a leaf with the node above it.
const LONGEST_REPLY: usize = 192 << 10;
/// Most keys, and most items of a queue.
const MOST_KEYS: u64 = 1 << 30;
/// The longest item of a queue.
const LONGEST_ITEM: usize = 64 << 10;
/// Bytes of the position of an item as text.
const POSITION_BYTES: u32 = 20;

/// The layout of a chained table ([`chained`](farslot_remote::chained)).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainedLayout {
    /// The sizes of keys.
    pub key: FieldSize,
    /// The sizes of values.
    pub value: FieldSize,
    /// Slots of a bucket.
    pub bucket_slots: u8,
    /// Buckets to begin with.
    pub buckets: u32,
    /// Buckets to grow to.
    pub most_buckets: u32,
    /// Slots for chains.
    pub overflow: u32,
    /// What keys are hashed by.
    pub seed: u64,
}

/// The layout of an ordered map ([`ordered`](farslot_remote::ordered)).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderedLayout {
    /// The sizes of keys.
    pub key: FieldSize,
    /// The sizes of values.
    pub value: FieldSize,
    /// Pairs of a leaf.
    pub leaf_pairs: u16,
    /// Children of an inner node.
    pub children: u16,
    /// Most nodes.
    pub nodes: u32,
}

/// The layout of a queue ([`queue`](farslot_remote::queue)).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueLayout {
    /// The sizes of items.
    pub value: FieldSize,
    /// Most items.
    pub items: u32,
}

/// What a table is asked for.
#[derive(Clone, Copy)]
pub(crate) struct OwnedTableShape {
    pub(crate) key: FieldSize,
    pub(crate) value: FieldSize,
    /// Keys that it has room for.
    pub(crate) capacity: u64,
    /// Keys that it may grow to.
    pub(crate) most_capacity: Option<u64>,
    pub(crate) seed: u64,
}

impl OwnedTableShape {
    /// Refuses what no layout has, before anything is computed of it.
    fn check(&self) -> Result<()> {
        check_sizes(self.key, self.value)?;
        let most = self.most();
        if most < self.capacity {
            let limit = format!("no less than the capacity, {}", self.capacity);
            return Err(bad_option("most capacity", most, limit));
        }
        if most > MOST_KEYS {
            return Err(bad_option("capacity", most, "at most 2^30 keys a node"));
        }
        Ok(())
    }

    fn most(&self) -> u64 {
        self.most_capacity.unwrap_or(self.capacity)
    }
}

fn check_sizes(key: FieldSize, value: FieldSize) -> Result<()> {
    let bytes = key.most().saturating_add(value.most());
    if key.most() == 0 || bytes > LONGEST_RECORD {
        let limit = "keys of 1 byte or more, and records of at most 16 KiB";
        return Err(bad_option("the longest record", bytes, limit));
    }
    Ok(())
}

/// Refuses what takes a READ or a reply too long.
fn check_bytes(option: &'static str, bytes: usize, most: usize) -> Result<()> {
    if bytes > most {
        let limit = format!("at most {}", ByteCount(most));
        return Err(bad_option(option, bytes, limit));
    }
    Ok(())
}

fn damaged(error: farslot_remote::RemoteError) -> StoreError {
    bad_option("the layout", error, "one that a table can have")
}

impl ChainedLayout {
    pub(crate) fn of(shape: OwnedTableShape) -> Result<Self> {
        shape.check()?;
        let most = shape.most();
        let buckets = shape.capacity.max(1).next_power_of_two() as u32;
        let layout = Self {
            key: shape.key,
            value: shape.value,
            bucket_slots: BUCKET_SLOTS,
            buckets,
            most_buckets: buckets.max(most as u32),
            // Of a table that is full, a twelfth of the keys are in chains on average.
            overflow: (most / 4 + 64) as u32,
            seed: shape.seed,
        };
        layout.check()?;
        Ok(layout)
    }

    pub(crate) fn check(&self) -> Result<()> {
        check_sizes(self.key, self.value)?;
        let shape = self.shape(0);
        let table = Table::new(shape).map_err(damaged)?;
        check_bytes(
            "bytes of a bucket",
            shape.bucket_bytes() as usize,
            LONGEST_READ,
        )?;
        check_bytes("bytes of a reply", table.reply_bytes(), LONGEST_REPLY)
    }

    /// The shape of a table at a place.
    pub(crate) fn shape(&self, at: u64) -> Shape {
        let grows = self.most_buckets > self.buckets;
        Shape {
            at,
            key_bytes: self.key.most() as u16,
            value_bytes: self.value.most() as u16,
            slots: self.bucket_slots,
            buckets: self.buckets,
            most_buckets: self.most_buckets,
            overflow: self.overflow,
            split_after: if grows { SPLIT_AFTER } else { 0 },
            seed: self.seed,
        }
    }

    /// Bytes of the table.
    #[must_use]
    pub fn table_bytes(&self) -> u128 {
        self.shape(0).bytes().into()
    }

    /// Bytes of a slot.
    #[must_use]
    pub fn slot_bytes(&self) -> usize {
        self.shape(0).slot_bytes() as usize
    }

    /// Slots to begin with, those for chains included.
    #[must_use]
    pub fn slots(&self) -> u64 {
        u64::from(self.buckets) * u64::from(self.bucket_slots) + u64::from(self.overflow)
    }

    /// Slots that it may grow to.
    #[must_use]
    pub fn most_slots(&self) -> u64 {
        u64::from(self.most_buckets) * u64::from(self.bucket_slots) + u64::from(self.overflow)
    }

    /// The same for so many times as many keys.
    pub(crate) fn scaled(&self, scale: impl Fn(u64) -> u64) -> Self {
        let count = |count: u32| scale(count.into()).clamp(1, 1 << 30) as u32;
        let buckets = count(self.buckets).next_power_of_two();
        Self {
            buckets,
            most_buckets: count(self.most_buckets).max(buckets),
            overflow: count(self.overflow),
            ..self.clone()
        }
    }
}

impl OrderedLayout {
    pub(crate) fn of(shape: OwnedTableShape) -> Result<Self> {
        shape.check()?;
        let (key, value) = (shape.key.most() + 8, shape.value.most() + 8);
        let pairs = (LEAF_BYTES / (key + value)).clamp(LEAF_PAIRS.0, LEAF_PAIRS.1);
        let pairs = pairs.min(NODE_BYTES / (key + value)).max(FEWEST_PAIRS);
        // Keys that come in order leave leaves half full.
        let leaves = shape.capacity / (pairs as u64 / 2) + 64;
        let children = (NODE_BYTES / (key + 8)).clamp(CHILDREN.0, CHILDREN.1);
        let layout = Self {
            key: shape.key,
            value: shape.value,
            leaf_pairs: pairs as u16,
            children: children as u16,
            nodes: (leaves + leaves / 8) as u32,
        };
        layout.check()?;
        Ok(layout)
    }

    pub(crate) fn check(&self) -> Result<()> {
        check_sizes(self.key, self.value)?;
        let shape = self.shape(0);
        let tree = Tree::new(shape).map_err(damaged)?;
        check_bytes("bytes of a leaf", shape.leaf_bytes(), LONGEST_READ)?;
        check_bytes("bytes of a reply", tree.reply_bytes(), LONGEST_REPLY)
    }

    /// The shape of a map at a place.
    pub(crate) fn shape(&self, at: u64) -> TreeShape {
        TreeShape {
            at,
            key_bytes: self.key.most() as u16,
            value_bytes: self.value.most() as u16,
            leaf_pairs: self.leaf_pairs,
            children: self.children,
            nodes: self.nodes,
        }
    }

    /// Bytes of the map.
    #[must_use]
    pub fn table_bytes(&self) -> u128 {
        self.shape(0).bytes().into()
    }

    /// Bytes of a pair in a leaf, about.
    #[must_use]
    pub fn slot_bytes(&self) -> usize {
        self.shape(0).leaf_bytes() / usize::from(self.leaf_pairs)
    }

    /// Pairs that all nodes have room for as leaves.
    #[must_use]
    pub fn slots(&self) -> u64 {
        u64::from(self.nodes) * u64::from(self.leaf_pairs)
    }

    /// The same for so many times as many keys.
    pub(crate) fn scaled(&self, scale: impl Fn(u64) -> u64) -> Self {
        Self {
            nodes: scale(self.nodes.into()).clamp(1, 1 << 30) as u32,
            ..self.clone()
        }
    }
}

impl QueueLayout {
    /// What scans call an item by: its position, as text.
    pub const KEY: FieldSize = FieldSize::UpTo(POSITION_BYTES);

    pub(crate) fn of(value: FieldSize, capacity: u64) -> Result<Self> {
        if capacity > MOST_KEYS {
            return Err(bad_option("capacity", capacity, "at most 2^30 items"));
        }
        let items = capacity.max(1) as u32;
        let layout = Self { value, items };
        layout.check()?;
        Ok(layout)
    }

    pub(crate) fn check(&self) -> Result<()> {
        let bytes = self.value.most();
        if bytes > LONGEST_ITEM {
            let limit = format!("at most {}", ByteCount(LONGEST_ITEM));
            return Err(bad_option("the longest item of a queue", bytes, limit));
        }
        Queue::new(self.shape(0)).map_err(damaged)?;
        Ok(())
    }

    /// The shape of a queue at a place.
    pub(crate) fn shape(&self, at: u64) -> QueueShape {
        QueueShape {
            at,
            slots: self.items,
            value_bytes: self.value.most() as u32,
        }
    }

    /// Bytes of the queue.
    #[must_use]
    pub fn table_bytes(&self) -> u128 {
        self.shape(0).bytes().into()
    }

    /// Bytes of an item's slot.
    #[must_use]
    pub fn slot_bytes(&self) -> usize {
        self.shape(0).slot_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TableOptions;
    use crate::catalog::record::Scheme;
    use farslot_index::FieldSize::{Fixed, UpTo};

    fn said(refused: Result<()>) -> String {
        refused.expect_err("it is refused").to_string()
    }

    #[test]
    fn records_of_any_sizes_have_short_reads_and_replies() {
        let sizes = [
            (1, 0),
            (8, 8),
            (256, 1024),
            (16_384, 0),
            (1, 16_383),
            (8_192, 8_192),
        ];
        for (key, value) in sizes {
            let options = TableOptions::new(1_000).keys(UpTo(key)).values(UpTo(value));
            let Scheme::Ordered(layout) = options.clone().ordered().scheme().unwrap() else {
                unreachable!("it was asked for");
            };
            let shape = layout.shape(0);
            assert!(shape.leaf_bytes() <= 66 << 10, "{layout:?}");
            assert!(Tree::new(shape).unwrap().reply_bytes() <= LONGEST_REPLY);
            options.chained().scheme().unwrap();
        }
    }

    #[test]
    fn records_of_the_catalog_with_long_reads_are_refused() {
        let (key, value) = (UpTo(256), UpTo(16_000));
        let shape = OwnedTableShape {
            key,
            value,
            capacity: 100,
            most_capacity: None,
            seed: 7,
        };
        let chained = ChainedLayout::of(shape).unwrap();
        let forged = ChainedLayout {
            bucket_slots: 255,
            ..chained
        };
        let refused = said(Scheme::Chained(forged).check());
        assert!(refused.contains("bytes of a bucket"), "{refused}");
        let ordered = OrderedLayout::of(shape).unwrap();
        let forged = OrderedLayout {
            leaf_pairs: 1024,
            ..ordered.clone()
        };
        let refused = said(Scheme::Ordered(forged).check());
        assert!(refused.contains("bytes of a leaf"), "{refused}");
        let forged = OrderedLayout {
            children: 1024,
            ..ordered
        };
        let refused = said(Scheme::Ordered(forged).check());
        assert!(refused.contains("bytes of a reply"), "{refused}");
    }

    #[test]
    fn capacities_that_cannot_be_are_refused() {
        let small = |capacity| TableOptions::new(capacity).keys(Fixed(8)).values(Fixed(8));
        let most = 10_000_000_000_000_000_000;
        for (options, limit) in [
            (small(most).chained().grow_to(5), "most capacity"),
            (small(most).chained(), "2^30"),
            (small(5).chained().grow_to(most), "2^30"),
            (small(most).ordered(), "2^30"),
            (
                small(100).chained().grow_to(99),
                "no less than the capacity, 100",
            ),
            (small(100).ordered().grow_to(200), "capacity to grow to"),
        ] {
            let refused = said(options.scheme().map(drop));
            assert!(refused.contains(limit), "{refused}");
        }
        assert!(small(100).chained().grow_to(100).scheme().is_ok());
        let long = small(5).values(UpTo(64 << 10)).queue();
        assert!(long.clone().scheme().is_ok());
        for (options, limit) in [
            (long.values(UpTo((64 << 10) + 1)), "the longest item"),
            (small(most).queue(), "2^30"),
            (small(100).queue().grow_to(200), "capacity to grow to"),
        ] {
            let refused = said(options.scheme().map(drop));
            assert!(refused.contains(limit), "{refused}");
        }
        let forged = QueueLayout {
            value: UpTo(8),
            items: 0,
        };
        let refused = said(Scheme::Queue(forged).check());
        assert!(refused.contains("slots of a queue"), "{refused}");
    }
}
