//! What the catalog keeps of a table.

use super::sizes::{catalog_bytes, segment_bytes};
use crate::error::bad_option;
use crate::expiry::Expiry;
use crate::owned::layout::{ChainedLayout, OrderedLayout, QueueLayout};
use crate::set::layout::SetLayout;
use crate::slot_map::SlotMap;
use farslot_index::cuckoo::CuckooLayout;
use farslot_index::duo::DuoLayout;
use farslot_index::heap::Evicting;
use farslot_index::linear::LinearLayout;
use farslot_index::race::RaceLayout;
use farslot_index::sealed::SealedLayout;
use farslot_index::{FieldSize, Hasher, KeyRule, Occupancy, SchemeKind};
use farslot_remote::chained::Table as ChainedTable;
use farslot_remote::ordered::Tree;
use farslot_remote::queue::Queue;
use farslot_txn::Kept;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// How a table is organised: its scheme, with all that a client must know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Scheme {
    /// Open addressing with linear probing: any number of writers.
    Linear(LinearLayout),
    /// Buckets of which each key has a few: one writer at a time.
    Cuckoo(CuckooLayout),
    /// Linear probing, built whole and never written again.
    Sealed(SealedLayout),
    /// Extendible hashing: any number of writers, who also let it grow.
    Race(RaceLayout),
    /// Buckets of which each key has two, under an index that the writer keeps: one at a time.
    Duo(DuoLayout),
    /// Elements that are found or put, and stay: any number of writers.
    Set(SetLayout),
    /// Buckets with chains, which the owner of the memory writes: for any number of clients.
    Chained(ChainedLayout),
    /// A map in the order of its keys, which the owner of the memory writes, likewise.
    Ordered(OrderedLayout),
    /// A FIFO queue, which the owner of the memory writes, likewise: its items have no keys.
    Queue(QueueLayout),
}

impl Scheme {
    /// Refuses a scheme that no options give: of a record that was damaged, or was not written by
    /// this crate. The sizes of one that passes do not overflow.
    ///
    /// # Errors
    /// [`BadOption`](farslot_index::IndexError::BadOption) names the field and what is possible.
    pub fn check(&self) -> crate::Result<()> {
        match self {
            Self::Linear(layout) => layout.check(),
            Self::Cuckoo(layout) => layout.check(),
            Self::Sealed(layout) => layout.check(),
            Self::Race(layout) => layout.check(),
            Self::Duo(layout) => layout.check(),
            Self::Set(layout) => return layout.check(),
            Self::Chained(layout) => return layout.check(),
            Self::Ordered(layout) => return layout.check(),
            Self::Queue(layout) => return layout.check(),
        }
        .map_err(crate::StoreError::from)?;
        check_expiry(self)
    }

    /// Bytes of remote memory that the table takes, those that it may grow into included.
    #[must_use]
    pub fn table_bytes(&self) -> u128 {
        match self {
            Self::Linear(layout) => layout.table_bytes(),
            Self::Cuckoo(layout) => layout.table_bytes(),
            Self::Sealed(layout) => layout.table_bytes(),
            Self::Race(layout) => layout.table_bytes(),
            Self::Duo(layout) => layout.table_bytes(),
            Self::Set(layout) => layout.table_bytes(),
            Self::Chained(layout) => layout.table_bytes(),
            Self::Ordered(layout) => layout.table_bytes(),
            Self::Queue(layout) => layout.table_bytes(),
        }
    }

    /// Whether its memory comes from the pool of its node, as it grows.
    #[must_use]
    pub const fn is_pooled(&self) -> bool {
        matches!(self, Self::Race(layout) if layout.segment > 0)
    }

    /// Whether its records are limited to fewer bytes than its node has.
    pub(crate) const fn is_limited(&self) -> bool {
        matches!(self, Self::Race(layout) if layout.most_heap.is_some())
    }

    /// Bytes of its node's memory that no other table takes, beside what it has
    /// ([`TableOptions::reserve_bytes`](crate::TableOptions::reserve_bytes)).
    #[must_use]
    pub const fn reserve_bytes(&self) -> u64 {
        match self {
            Self::Race(layout) => layout.reserve,
            _ => 0,
        }
    }

    /// Bytes of its node's memory that a table takes which holds so much.
    #[must_use]
    pub fn bytes_with(&self, counts: &Occupancy) -> u64 {
        let bytes = u64::try_from(self.table_bytes()).unwrap_or(u64::MAX);
        match self.is_pooled() {
            true => bytes
                .saturating_add(counts.slots.saturating_mul(8))
                .saturating_add(counts.heap_bytes),
            false => bytes,
        }
    }

    /// The same in a region of so many bytes: of a table that is made of segments its sizes are the
    /// region's.
    pub(crate) fn in_region(self, region_bytes: u64) -> Self {
        match self {
            Self::Race(layout) if layout.segment > 0 => {
                let bytes = region_bytes.saturating_sub(catalog_bytes(region_bytes));
                Self::Race(layout.in_pool(segment_bytes(region_bytes), bytes))
            }
            scheme => scheme,
        }
    }

    /// Which scheme it is.
    #[must_use]
    pub const fn kind(&self) -> SchemeKind {
        match self {
            Self::Linear(_) => SchemeKind::Linear,
            Self::Cuckoo(_) => SchemeKind::Cuckoo,
            Self::Sealed(_) => SchemeKind::Sealed,
            Self::Race(_) => SchemeKind::Race,
            Self::Duo(_) => SchemeKind::Duo,
            Self::Set(_) => SchemeKind::Set,
            Self::Chained(_) => SchemeKind::Chained,
            Self::Ordered(_) => SchemeKind::Ordered,
            Self::Queue(_) => SchemeKind::Queue,
        }
    }

    /// The scheme's name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.kind().name()
    }

    /// How many records a key may have.
    #[must_use]
    pub const fn keys(&self) -> KeyRule {
        match self {
            Self::Linear(layout) => layout.keys,
            Self::Cuckoo(layout) => layout.keys,
            Self::Sealed(layout) => layout.keys,
            Self::Race(_)
            | Self::Duo(_)
            | Self::Set(_)
            | Self::Chained(_)
            | Self::Ordered(_)
            | Self::Queue(_) => KeyRule::Unique,
        }
    }

    /// Whether records may have a time to live: then 8 bytes of each say when it expires.
    #[must_use]
    pub const fn is_expiring(&self) -> bool {
        match self {
            Self::Linear(layout) => layout.expiring,
            Self::Race(layout) => layout.expiring,
            Self::Cuckoo(_)
            | Self::Sealed(_)
            | Self::Duo(_)
            | Self::Set(_)
            | Self::Chained(_)
            | Self::Ordered(_)
            | Self::Queue(_) => false,
        }
    }

    /// Which records the table forgets when it is full, if any.
    #[must_use]
    pub const fn evicting(&self) -> Option<Evicting> {
        match self {
            Self::Race(layout) => layout.evicting,
            _ => None,
        }
    }

    /// The same without what keys are hashed by: all that a client needs to know of it who does not
    /// hash keys.
    pub(crate) fn without_seeds(&self) -> Self {
        let mut scheme = self.clone();
        let (hasher, seed) = match &mut scheme {
            Self::Linear(layout) => (&mut layout.hasher, Some(&mut layout.mask_seed)),
            Self::Cuckoo(layout) => (&mut layout.hasher, Some(&mut layout.mask_seed)),
            Self::Sealed(layout) => (&mut layout.hasher, Some(&mut layout.mask_seed)),
            Self::Race(layout) => (&mut layout.hasher, None),
            Self::Duo(layout) => (&mut layout.hasher, Some(&mut layout.checksum_seed)),
            Self::Set(layout) => {
                layout.seed = 0;
                return scheme;
            }
            Self::Chained(layout) => {
                layout.seed = 0;
                return scheme;
            }
            Self::Ordered(_) | Self::Queue(_) => return scheme,
        };
        if let Hasher::Xxh3 { seed } = hasher {
            *seed = 0;
        }
        seed.into_iter().for_each(|seed| *seed = 0);
        scheme
    }

    /// The sizes of keys and values; of a queue, of positions as text, which scans tell in place of
    /// keys, and of items.
    #[must_use]
    pub const fn record_sizes(&self) -> (FieldSize, FieldSize) {
        let (key, value) = self.stored_sizes();
        match self.is_expiring() {
            true => (key, Expiry::without(value)),
            false => (key, value),
        }
    }

    /// The sizes of keys and values as they are stored: with the moment at which a record expires.
    pub(crate) const fn stored_sizes(&self) -> (FieldSize, FieldSize) {
        match self {
            Self::Linear(layout) => (layout.key, layout.value),
            Self::Cuckoo(layout) => (layout.key, layout.value),
            Self::Sealed(layout) => (layout.key, layout.value),
            Self::Race(layout) => (layout.key, layout.value),
            Self::Duo(layout) => (layout.key, layout.value),
            Self::Set(layout) => (layout.key, layout.value),
            Self::Chained(layout) => (layout.key, layout.value),
            Self::Ordered(layout) => (layout.key, layout.value),
            Self::Queue(layout) => (QueueLayout::KEY, layout.value),
        }
    }

    /// Whether a table can be [built](crate::Table::build) whole.
    #[must_use]
    pub const fn buildable(&self) -> bool {
        self.kind().is_buildable()
    }

    /// The table at a place of its node's memory, of a scheme that the owner writes.
    pub(crate) fn owned_at(&self, at: u64) -> Option<Kept> {
        Some(match self {
            Self::Chained(layout) => Kept::Keyed(ChainedTable::new(layout.shape(at)).ok()?.into()),
            Self::Ordered(layout) => Kept::Keyed(Tree::new(layout.shape(at)).ok()?.into()),
            Self::Queue(layout) => Kept::Queue(Queue::new(layout.shape(at)).ok()?),
            _ => return None,
        })
    }

    /// Whether a table of it lies on one node, however many a store has.
    pub(crate) const fn is_on_one_node(&self) -> bool {
        matches!(self, Self::Queue(_))
    }

    /// Whether the table takes part in [transactions](crate::Store::transaction).
    #[must_use]
    pub const fn transactional(&self) -> bool {
        self.kind().is_transactional()
    }

    /// Whether the table admits one writer at a time.
    #[must_use]
    pub const fn one_writer(&self) -> bool {
        self.kind().admits_one_writer()
    }

    /// Whether only the writer can look keys up and visit them.
    #[must_use]
    pub const fn writer_alone(&self) -> bool {
        matches!(self, Self::Duo(layout) if !layout.published)
    }
}

/// Refuses records that expire where there is no room for the moment, or keys have several.
fn check_expiry(scheme: &Scheme) -> crate::Result<()> {
    let (_, value) = scheme.stored_sizes();
    if scheme.is_expiring() && (value.most() < Expiry::BYTES || scheme.keys() == KeyRule::Multi) {
        let limit = "of unique keys, with 8 bytes of each value for the moment";
        return Err(bad_option(
            "records that expire",
            format!("{value:?}"),
            limit,
        ));
    }
    if scheme.evicting() == Some(Evicting::Expiring) && !scheme.is_expiring() {
        let limit = "of tables whose records may have a time to live";
        return Err(bad_option("evicting", "records that expire", limit));
    }
    Ok(())
}

/// A table as the catalog of one node knows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableRecord {
    /// Its name.
    pub name: String,
    /// Its first byte in the region.
    pub offset: u64,
    /// What the pool of its node knows it by, of one that is made of segments: its first byte is
    /// that of their list.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) tag: u64,
    /// How it is organised; of a partition of a table, how that one is. The seeds in it are 0 for a
    /// client whose grant opens single keys: those are not told.
    pub scheme: Scheme,
    /// Which partition this is, of a table that is sharded over several nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<Partition>,
    /// Drawn when the record was written: a table that was cleared or renamed has another. Never 0.
    #[serde(default)]
    pub id: u64,
    /// The id of the table in whose place this one has come, if it was made by clearing or renaming
    /// one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) replaces: Option<u64>,
    /// The number of its entry.
    #[serde(skip)]
    pub(crate) entry: usize,
    /// How many records had been published before: of one that was cleared or renamed, before the
    /// first.
    #[serde(skip)]
    pub(crate) published: u32,
    /// Where the catalog of its region ends, before which no table has any memory.
    #[serde(skip)]
    pub(crate) catalog_end: u64,
    /// Whether its records came from a snapshot, as a bit of the entry says.
    #[serde(skip)]
    pub(crate) restored: bool,
    /// Whether its id word said that it takes no writes any more.
    #[serde(skip)]
    pub(crate) is_closed: bool,
    /// Whether it is being cleared: nobody opens it before it is.
    #[serde(skip)]
    pub(crate) is_clearing: bool,
    /// Bytes of the segments that it has, where these were counted.
    #[serde(skip)]
    pub(crate) of_pool: u64,
    /// Whether the node's owner has told of it, without what its keys are hashed by: it can be used
    /// by calls alone.
    #[serde(skip)]
    pub(crate) is_told: bool,
}

/// What the name of a node's part of a table begins with while it is restored.
pub(crate) const RESTORING_PART: &str = "restoring-part-";

impl TableRecord {
    /// That of a whole table, which has no id yet.
    pub(crate) fn new(name: &str, offset: u64, scheme: Scheme) -> Self {
        Self {
            name: name.into(),
            offset,
            tag: 0,
            scheme,
            partition: None,
            id: 0,
            replaces: None,
            entry: 0,
            published: 0,
            catalog_end: 0,
            restored: false,
            is_closed: false,
            is_clearing: false,
            of_pool: 0,
            is_told: false,
        }
    }

    /// What tells the table from another that had or will have its name.
    #[must_use]
    pub fn identity(&self) -> u64 {
        let partition = self.partition.as_ref();
        partition.map_or(self.id, |partition| partition.creation)
    }

    /// Bytes of its node's memory that the table takes: of one whose memory comes from the pool of
    /// its node what it had when the tables were listed.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.own_bytes().saturating_add(self.of_pool)
    }

    /// Bytes that the table has beside segments of its node's pool.
    pub(crate) fn own_bytes(&self) -> u64 {
        u64::try_from(self.scheme.table_bytes()).unwrap_or(u64::MAX)
    }

    /// Whether it is a part that is being restored: none of the table yet, so that the table is not
    /// being dropped if this is.
    pub(crate) fn is_part_being_restored(&self) -> bool {
        self.name.starts_with(RESTORING_PART)
    }

    /// All that belongs to the table in its region, the slot map behind a partition included: from
    /// its first byte to its last, in whole words.
    #[must_use]
    pub fn extent(&self) -> Range<u64> {
        let table = self.scheme_bytes();
        let end_of_map = self.partition.as_ref().map_or(0, |partition| {
            partition.map.offset.saturating_add(partition.map.bytes)
        });
        self.offset..table.end.max(whole_words(end_of_map))
    }

    /// What of that is the scheme's: all but the slot map.
    pub(crate) fn scheme_bytes(&self) -> Range<u64> {
        let bytes = u64::try_from(self.scheme.table_bytes()).unwrap_or(u64::MAX);
        self.offset..whole_words(self.offset.saturating_add(bytes))
    }
}

/// The end of bytes that end here, in whole words.
fn whole_words(end: u64) -> u64 {
    end.checked_next_multiple_of(8).unwrap_or(u64::MAX)
}

/// What makes a table in one node's memory a partition of one that is sharded over several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partition {
    /// Drawn when the table was made: partitions of one table have the same.
    pub creation: u64,
    /// The partition's number.
    pub number: u16,
    /// The node's incarnation when the partition was made.
    pub incarnation: u64,
    /// Whether the table was made of records that were there before it: then an empty partition is
    /// none of it.
    pub prebuilt: bool,
    /// Whether the node had come back empty when the partition was made, and it was not restored
    /// since: what the node had of the table is gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub remade: bool,
    /// What becomes of the keys of a node that came back empty: for all partitions the same.
    #[serde(default, skip_serializing_if = "OnRestart::is_refuse")]
    pub on_restart: OnRestart,
    /// Where the map of the whole table lies, on every node the same.
    pub(crate) map: MapPlace,
}

/// Where the [`PartitionMap`] lies, as JSON, in the region of the partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MapPlace {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) sum: u64,
}

/// How a table is sharded: the same for all its partitions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionMap {
    /// Which partition a key belongs to.
    pub slots: SlotMap,
    /// The nodes, by the numbers of the partitions.
    pub nodes: Vec<PartitionNode>,
    /// What becomes of the keys of a node that came back empty.
    #[serde(default, skip_serializing_if = "OnRestart::is_refuse")]
    pub on_restart: OnRestart,
}

/// What becomes of the keys of a node that came back empty, in a table over several nodes. It is
/// the table's, so that all of its clients go by the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnRestart {
    /// They are lost, and fail with [`NodeRestarted`](farslot_fabric::FabricError::NodeRestarted)
    /// for every client, until the partition is restored from a snapshot (`farslot serve
    /// --restore`, [`Store::restore`](crate::Store::restore)), or somebody accepts the loss
    /// ([`Store::accept_loss`](crate::Store::accept_loss)).
    #[default]
    Refuse,
    /// The loss is accepted beforehand, as it may be of a cache: the first client that meets the
    /// node gives it an empty partition. Its keys are absent, and can be put again. Never of a
    /// table that was made whole of its records, where absence would be a wrong answer.
    Recreate,
}

impl OnRestart {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Refuse, Self::Recreate];

    /// Its name in commands and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Recreate => "recreate",
        }
    }

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde wants it")]
    const fn is_refuse(&self) -> bool {
        matches!(self, Self::Refuse)
    }
}

/// A node as the creator of a table knew it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionNode {
    /// Its address, as the creator named it.
    pub address: String,
    /// Its incarnation then.
    pub incarnation: u64,
    /// How often its catalog had been repaired.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) repairs: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde wants it")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// How much of a store's memory its tables have taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    /// Bytes for tables in all.
    pub total: u64,
    /// Bytes that tables have taken.
    pub taken: u64,
    /// Bytes of the largest piece that is free.
    pub largest_free: u64,
}

impl MemoryUse {
    /// Bytes that are left for tables.
    #[must_use]
    pub const fn free(&self) -> u64 {
        self.total.saturating_sub(self.taken)
    }
}

/// The layout of a table that is made of segments.
pub(crate) fn pooled(scheme: &Scheme) -> Option<&RaceLayout> {
    match scheme {
        Scheme::Race(layout) if layout.segment > 0 => Some(layout),
        _ => None,
    }
}
