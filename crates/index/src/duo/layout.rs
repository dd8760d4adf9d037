//! The bytes of a CuckooDuo table, and the options that decide them.

use super::growth;
use super::placement::{MOST_BUCKET_SLOTS, MOST_DEPTH, Placement, Shape, SlotNumber};
use crate::Sizing;
use crate::hash::{checksum, word_of};
use crate::heap::{BlockRef, HeapPlace};
use crate::slot::{RecordShape, SlotKind, bad_option, slots_for};
use crate::table_map::TableMap;
use crate::{BATCH_WIDTH, FieldSize, Hasher, Result};
use farslot_fabric::{Buffer, BufferPool, NodeId, RegionId, RemoteAddr};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Byte of the count of owners that there were, from the table's start.
pub(super) const TICKETS_AT: u64 = 3064;
/// Byte of the word that names the owner.
pub(super) const OWNER_AT: u64 = 3072;
/// Byte of the word that is not 0 once there was an owner: a vault without one is empty.
pub(super) const OWNED_AT: u64 = 3080;
/// Byte of the count of extents, from the table's start, where the index is not published.
pub(super) const EXTENTS_AT: u64 = 3200;
/// Byte of the first extent's entry; of the others one after the other.
pub(super) const EXTENT_ENTRIES_AT: u64 = 3264;

/// Bytes of a slot before its key.
const SLOT_HEADER: usize = 16;
/// The head of a live slot has this bit, and the others of the key's hash.
const LIVE: u64 = 1 << 63;
/// The most bytes of a key, and of a value.
const LONGEST_FIELD: usize = u16::MAX as usize;
const MOST_STASH: u32 = 1024;
const LONGEST_PATH: u32 = 6;
/// Slots for records that are being replaced: no more updates than that are under way at once.
const JOURNAL: u64 = BATCH_WIDTH as u64;

/// Offsets from here are from a table's start.
const AT_START: RemoteAddr = RemoteAddr {
    node: NodeId(0),
    region: RegionId(0),
    offset: 0,
};

/// The load factor unless another is asked for.
const LOAD_FACTOR: f64 = 0.95;

/// What a CuckooDuo table shall be.
#[derive(Clone, Debug, PartialEq)]
pub struct DuoOptions {
    /// How much it shall hold: 0.95 full unless told otherwise. Its keys are unique; keys and values have
    /// at most 65,535 bytes in the slots. By default its heap, if it has one, has room for `most_capacity` of the longest
    /// records, and some more.
    pub sizing: Sizing,
    /// Keys that it has room for when it has grown by itself; by default the capacity: it does not grow then, unless it
    /// is [told to](super::DuoTable::with_growth). It doubles each time, in memory behind it that belongs to it from the
    /// start, but is not touched before it is needed. An extendible table has room for as many sub-tables there, each of
    /// which has room for its share of these keys and five standard deviations more.
    pub most_capacity: Option<u64>,
    /// Where its records are: [`SlotKind::Inline`] in the slots, of which each has room for the longest; or
    /// [`SlotKind::Heap`] in a heap, for records of many lengths. A lookup takes a READ more then, and
    /// so does an update.
    pub slot: SlotKind,
    /// Slots of a bucket, 1 to 16: the paper's d.
    pub bucket_slots: u32,
    /// Bits of a fingerprint in the owner's memory, 8 to 32: the paper's f.
    pub fingerprint_bits: u32,
    /// The most records that an insertion moves, 0 to 6: the paper's L.
    pub longest_path: u32,
    /// Slots for keys that find no other, 0 to 1024: the paper's s.
    pub stash: u32,
    /// Whether the table is extendible: it grows by splitting one sub-table at a time, when that is full, and not as a
    /// whole. It is made as one sub-table, of `capacity` keys, and all others are as large. The stash is each sub-table's.
    pub extendible: bool,
    /// Whether [readers](super::DuoReader) beside the owner shall be served: the index is then published
    /// beside the vault, and a removal takes a round trip more.
    pub readers: bool,
}

impl DuoOptions {
    /// Options for a table of that size as in the paper: 8 slots a bucket, fingerprints of 16 bits, at most 3
    /// moves, 32 slots of stash.
    #[must_use]
    pub const fn new(sizing: Sizing) -> Self {
        Self {
            sizing,
            most_capacity: None,
            slot: SlotKind::Inline,
            bucket_slots: 8,
            fingerprint_bits: 16,
            longest_path: 3,
            stash: 32,
            extendible: false,
            readers: false,
        }
    }

    /// The layout that these options ask for.
    ///
    /// # Errors
    /// [`BadOption`](crate::IndexError::BadOption) names the option, its value and what is possible.
    pub fn layout(&self) -> Result<DuoLayout> {
        let sizing = &self.sizing;
        sizing.unique_keys("CuckooDuo")?;
        let (buckets, growths) = self.buckets_and_growths()?;
        let most_capacity = self.most_capacity.unwrap_or(sizing.capacity);
        let shape = sizing.shape();
        let heap_bytes = match self.slot {
            SlotKind::Heap => {
                shape.check(self.slot)?;
                shape.heap_bytes(self.slot, most_capacity, sizing.heap_bytes)?
            }
            _ => 0,
        };
        let mut layout = DuoLayout {
            buckets,
            bucket_slots: self.bucket_slots,
            fingerprint_bits: self.fingerprint_bits,
            longest_path: self.longest_path,
            stash: self.stash,
            key: sizing.key,
            value: sizing.value,
            kind: self.slot,
            heap_bytes,
            extendible: self.extendible,
            published: self.readers,
            reserve_bytes: 0,
            hasher: sizing.hasher,
            checksum_seed: sizing.seed,
        };
        layout.check()?;
        layout.reserve_bytes = growth::reserve_bytes(&layout, growths)
            .ok_or_else(|| bad_option("most capacity", most_capacity, "less than 2^64 bytes"))?;
        layout.check()?;
        Ok(layout)
    }

    /// Buckets of each array at first, and how often they double: so that there are as many in the end as are needed.
    fn buckets_and_growths(&self) -> Result<(u64, u32)> {
        let buckets = |capacity| {
            let slots = self.sizing.slots_for(capacity, LOAD_FACTOR)?;
            Ok::<_, crate::IndexError>(slots.div_ceil(2 * u64::from(self.bucket_slots.max(1))))
        };
        let at_first = buckets(self.sizing.capacity)?;
        let most = self.most_capacity.unwrap_or(self.sizing.capacity);
        if most < self.sizing.capacity {
            let limit = format!("at least the capacity, {}", self.sizing.capacity);
            return Err(bad_option("most capacity", most, limit));
        }
        if most == self.sizing.capacity {
            return Ok((at_first, 0));
        }
        let doublings = (most / self.sizing.capacity).max(2).ilog2();
        if self.extendible {
            let depth = doublings.min(MOST_DEPTH);
            // By their hashes, a sub-table may get more keys than its share.
            let share = most.div_ceil(1 << depth);
            let roomy = share + (5.0 * (share as f64).sqrt()) as u64;
            return Ok((at_first.max(buckets(roomy)?), depth));
        }
        let growths = doublings.min(growth::MOST_EXTENTS);
        Ok((at_first.max(buckets(most)?.div_ceil(1 << growths)), growths))
    }
}

/// All that a client must know of a CuckooDuo table: kept in the catalog.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DuoLayout {
    /// Buckets of each of both arrays, before the table has grown: the paper's m.
    pub buckets: u64,
    /// Slots of a bucket.
    pub bucket_slots: u32,
    /// Bits of a fingerprint.
    pub fingerprint_bits: u32,
    /// The most records that an insertion moves.
    pub longest_path: u32,
    /// Slots of the stash.
    pub stash: u32,
    /// The size of the keys.
    pub key: FieldSize,
    /// The size of the values.
    pub value: FieldSize,
    /// Where the records are: in the slots, or in a heap.
    pub kind: SlotKind,
    /// Bytes of the heap; 0 without one.
    pub heap_bytes: u64,
    /// Whether it grows a sub-table at a time. All sub-tables are of the dimensions given here.
    pub extendible: bool,
    /// Whether the index is published, for readers beside the owner.
    pub published: bool,
    /// Bytes behind the table that it grows into by itself, with its sub-tables if it is extendible; 0 of one that does not.
    pub reserve_bytes: u64,
    /// From a key to the hash that its buckets and fingerprints derive from.
    pub hasher: Hasher,
    /// What the checksums derive from.
    pub checksum_seed: u64,
}

impl DuoLayout {
    /// Refuses a layout that no options give: one that was not made by this crate, or was damaged.
    pub(super) fn check(&self) -> Result<()> {
        self.hasher.check(self.key)?;
        if self.hasher == Hasher::Knuth {
            // Two keys could have the same 63 bits, by which a slot's head tells whose it is.
            return Err(bad_option("hash", "knuth", "only for Word and Pair slots"));
        }
        if self.key.most() == 0 {
            return Err(bad_option("key size", 0, "at least 1 byte"));
        }
        self.check_records()?;
        let whole = [
            ("bucket slots", self.bucket_slots, 1, MOST_BUCKET_SLOTS),
            ("fingerprint bits", self.fingerprint_bits, 8, 32),
            ("longest path", self.longest_path, 0, LONGEST_PATH),
            ("stash", self.stash, 0, MOST_STASH),
        ];
        for (option, value, least, most) in whole {
            if !(least..=most).contains(&value) {
                return Err(bad_option(option, value, format!("{least} to {most}")));
            }
        }
        // Once more for a layout whose number of buckets is not what a capacity asked for.
        let slots = self.buckets.checked_mul(2 * u64::from(self.bucket_slots));
        slots_for(slots.unwrap_or(u64::MAX), 1.0)?;
        Ok(())
    }

    /// Refuses records that no slot can hold, or no heap.
    fn check_records(&self) -> Result<()> {
        match self.kind {
            SlotKind::Inline => {
                for (option, size) in [("key size", self.key), ("value size", self.value)] {
                    if size.most() > LONGEST_FIELD {
                        let limit = format!("at most {LONGEST_FIELD} bytes");
                        return Err(bad_option(option, size.most(), limit));
                    }
                }
                Ok(())
            }
            SlotKind::Heap => {
                self.shape().check(self.kind)?;
                let asked = Some(self.heap_bytes);
                self.shape().heap_bytes(self.kind, 1, asked).map(drop)
            }
            other => {
                let limit = "Inline or Heap";
                Err(bad_option("slot", format!("{other:?}"), limit))
            }
        }
    }

    /// Slots of both arrays, before the table has grown.
    #[must_use]
    pub const fn slots(&self) -> u64 {
        2 * self.buckets * self.bucket_slots as u64
    }

    /// Bytes of one slot, a multiple of 8.
    #[must_use]
    pub const fn slot_bytes(&self) -> usize {
        match self.kind {
            SlotKind::Heap => SLOT_HEADER,
            _ => SLOT_HEADER + (self.key.most() + self.value.most()).next_multiple_of(8),
        }
    }

    /// Bytes of remote memory that the table takes, those included that it grows into by itself. A fresh table is all
    /// zeros.
    #[must_use]
    pub fn table_bytes(&self) -> u128 {
        self.bytes_at_first() + u128::from(self.reserve_bytes)
    }

    fn bytes_at_first(&self) -> u128 {
        self.map().bytes() + self.published_bytes()
    }

    /// Where the memory starts that the table grows into by itself.
    pub(super) fn reserve_at(&self, table: RemoteAddr) -> RemoteAddr {
        table.plus(self.bytes_at_first() as u64)
    }

    /// Slots of both arrays when the table has grown by itself as far as it can.
    #[must_use]
    pub fn most_slots(&self) -> u64 {
        let fits = |growths: &u32| {
            growth::reserve_bytes(self, *growths).is_some_and(|bytes| bytes <= self.reserve_bytes)
        };
        let growths = (0..=growth::MOST_EXTENTS).take_while(fits).last();
        self.slots() << growths.unwrap_or(0)
    }

    /// Bytes from the table's start at which the slots lie that it was made with, those of the stash and of the journal
    /// included.
    #[must_use]
    pub fn arrays(&self) -> Range<u64> {
        let map = self.map();
        let start = self.arrays_at(AT_START).offset;
        start..start + map.slots * map.slot_bytes as u64
    }

    /// Bytes from the table's start at which its heap lies: none, if it has none.
    #[must_use]
    pub fn heap(&self) -> Range<u64> {
        let start = self.heap_place(AT_START).start.offset;
        start..start + self.heap_bytes
    }

    /// Bytes of a READ of the published index for a key that a reader does not know: of the page of the stash, with the
    /// count of growths, and of the page of a bucket. A reader fetches one of the former and two of the latter.
    #[must_use]
    pub fn page_bytes_read(&self) -> (usize, usize) {
        let stash = 8 * (1 + self.stash as usize);
        (stash, 8 * self.bucket_page().words() as usize)
    }

    /// Bytes of local memory that the index takes, before the table has grown: the owner's, and a reader's once it
    /// has read all of it.
    #[must_use]
    pub fn index_bytes(&self) -> u64 {
        let fingerprints = u128::from(self.slots()) * u128::from(self.fingerprint_bits);
        let pages = 2 * self.buckets + u64::from(self.stash);
        let stamps = if self.published { 4 * pages } else { 0 };
        ((fingerprints + u128::from(self.slots() / 2)) / 8) as u64 + stamps
    }

    /// The dimensions of the owner's index, before the table has grown.
    pub(super) const fn index_shape(&self) -> Shape {
        Shape {
            buckets: self.buckets,
            bucket_slots: self.bucket_slots,
            fingerprint_bits: self.fingerprint_bits,
            longest_path: self.longest_path,
            stash: self.stash,
            backups: true,
        }
    }

    /// The owner's index of an empty table.
    pub(super) fn empty_index(&self) -> Placement {
        match self.extendible {
            true => Placement::extendible(self.index_shape()),
            false => Placement::new(self.index_shape()),
        }
    }

    /// The slots of the journal.
    pub(super) fn journal(&self) -> impl Iterator<Item = SlotNumber> + use<> {
        let first = SlotNumber::JOURNAL.0;
        (first..first + JOURNAL).map(SlotNumber)
    }

    /// Bytes that a bucket counts for where buckets are read a piece at a time: with the records that its slots
    /// name, of which a piece is to have a MiB at most.
    pub(super) fn bytes_in_piece(&self) -> usize {
        let records = match self.kind {
            SlotKind::Heap => self.shape().block_bytes(self.kind) * self.bucket_slots as usize,
            _ => 0,
        };
        self.bucket_bytes().max(records / 16)
    }

    /// Bytes of a bucket.
    pub(super) const fn bucket_bytes(&self) -> usize {
        self.slot_bytes() * self.bucket_slots as usize
    }

    pub(super) fn map(&self) -> TableMap {
        TableMap {
            slots: self.slots() + self.stash as u64 + JOURNAL,
            slot_bytes: self.slot_bytes(),
            heap_bytes: self.heap_bytes,
        }
    }

    /// Whether the records are in a heap.
    pub(super) const fn has_heap(&self) -> bool {
        matches!(self.kind, SlotKind::Heap)
    }

    /// Where its heap lies: of no bytes, if it has none.
    pub(super) fn heap_place(&self, table: RemoteAddr) -> HeapPlace {
        self.map().heap_place(table)
    }

    /// Where the arrays start that the table was made with.
    pub(super) fn arrays_at(&self, table: RemoteAddr) -> RemoteAddr {
        self.map().slot_at(table, 0)
    }

    /// Where a slot of the journal is, counted from its first: behind the stash that the table was made with.
    #[inline]
    pub(super) fn journal_at(&self, table: RemoteAddr, index: u64) -> RemoteAddr {
        let stash = u64::from(self.stash);
        self.map().slot_at(table, self.slots() + stash + index)
    }

    /// What buckets and fingerprints derive from: the 63 bits of the key's hash that the head of its slot
    /// has, so that the head says where the slot's key can be.
    #[inline]
    pub(super) fn hash_of(&self, key: &[u8]) -> u64 {
        hash_in(live_head(self.hasher.hash(key)))
    }

    /// The sizes of the records.
    pub(super) const fn shape(&self) -> RecordShape {
        RecordShape::new(self.key, self.value)
    }

    /// A record as the bytes of a slot behind its head. Key and value are of the table's sizes.
    ///
    /// # Errors
    /// Where the endpoint has no buffer of that size.
    pub(super) fn body_of(&self, pool: &BufferPool, key: &[u8], value: &[u8]) -> Result<Buffer> {
        let len = SLOT_HEADER - 8 + (key.len() + value.len());
        let mut body = pool.take(len.next_multiple_of(8))?;
        body.words_mut().fill(0);
        body[4..6].copy_from_slice(&(key.len() as u16).to_le_bytes());
        body[6..8].copy_from_slice(&(value.len() as u16).to_le_bytes());
        body[8..8 + key.len()].copy_from_slice(key);
        body[8 + key.len()..len].copy_from_slice(value);
        let sum = checksum(&body[4..len], self.checksum_seed);
        body[..4].copy_from_slice(&sum.to_le_bytes());
        Ok(body)
    }

    /// The record of a slot that was read; nothing if it is dead or not whole.
    #[inline]
    pub(super) fn record_in<'s>(&self, slot: &'s [u8]) -> Option<SlotRecord<'s>> {
        if head_in(slot) == 0 {
            return None;
        }
        self.record_behind(slot)
    }

    /// The record behind the head of a slot that was read, dead or live; nothing if it is not whole.
    #[inline]
    pub(super) fn record_behind<'s>(&self, slot: &'s [u8]) -> Option<SlotRecord<'s>> {
        let (key, value) = match self.kind {
            // The record was found whole where it is; what names it has other lengths.
            SlotKind::Heap => {
                let lengths = word_of(&slot[8..16]);
                (lengths as u32 as usize, (lengths >> 32) as usize)
            }
            _ => {
                let length = |at: usize| usize::from(u16::from_le_bytes([slot[at], slot[at + 1]]));
                (length(12), length(14))
            }
        };
        let end = SLOT_HEADER + key + value;
        let whole = key > 0
            && end <= slot.len()
            && (self.kind == SlotKind::Heap
                || checksum(&slot[12..end], self.checksum_seed).to_le_bytes() == slot[8..12]);
        whole.then(|| SlotRecord {
            key: &slot[SLOT_HEADER..SLOT_HEADER + key],
            value: &slot[SLOT_HEADER + key..end],
            value_at: SLOT_HEADER + key,
        })
    }
}

/// Slots that name a block of the heap.
impl DuoLayout {
    /// The word that names a block. What it has besides the block's number makes it a whole one.
    pub(super) fn reference_to(&self, block: BlockRef) -> u64 {
        let packed = block.pack();
        let check = u64::from(checksum(&packed.to_le_bytes(), self.checksum_seed));
        packed | check << BlockRef::BITS
    }

    /// The block that a word names, if it is whole.
    pub(super) fn block_of(&self, reference: u64) -> Option<BlockRef> {
        let block = BlockRef::unpack(reference);
        let whole = block.granule != 0 && self.reference_to(block) == reference;
        whole.then_some(block)
    }

    /// Whether what is behind the head of a slot that was read is whole, whether the slot is dead or live.
    pub(super) fn is_whole_behind(&self, slot: &[u8]) -> bool {
        match self.kind {
            SlotKind::Heap => self.block_of(word_of(&slot[8..16])).is_some(),
            _ => self.record_behind(slot).is_some(),
        }
    }

    /// What is added to the word behind a dead slot's head so that it is not whole: one to the checksum.
    pub(super) const fn spoiling(&self) -> u64 {
        match self.kind {
            SlotKind::Heap => 1 << BlockRef::BITS,
            _ => 1,
        }
    }
}

/// A record in a slot that was read.
pub(super) struct SlotRecord<'s> {
    pub(super) key: &'s [u8],
    pub(super) value: &'s [u8],
    /// Bytes from the slot's start to the value.
    pub(super) value_at: usize,
}

/// The head of a live slot of the key with this hash.
#[inline]
pub(super) const fn live_head(hash: u64) -> u64 {
    hash | LIVE
}

/// The hash in the head of a live slot.
#[inline]
pub(super) const fn hash_in(head: u64) -> u64 {
    head & !LIVE
}

/// The head of a slot that was read: 0 if it is dead.
#[inline]
pub(super) fn head_in(slot: &[u8]) -> u64 {
    word_of(&slot[..8])
}
