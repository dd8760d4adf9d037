//! The bytes of a cuckoo table, and the options that decide them.

use super::signatures::HeapBuckets;
use crate::Sizing;
use crate::hash::scale;
use crate::slot::{KeyRule, RecordShape, SIGNATURES, SlotKind, bad_option, slots_for};
use crate::table_map::TableMap;
use crate::{FieldSize, Hasher, Result};
use farslot_fabric::RemoteAddr;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Byte of the word that names the writer, from the table's start.
pub(super) const WRITER_AT: u64 = 3072;
/// Byte of the note that says which process the writer is: 4 words, beside the writer's word.
pub(super) const NOTE_AT: u64 = 3080;
/// Byte of the count of writers that there were.
pub(super) const TICKETS_AT: u64 = 3064;
/// Byte of the first count of displacements.
pub(super) const MOVES_AT: u64 = 3136;
/// Counts of displacements. A READ of all has the price of a small one, and one displacement is in
/// the way of few readers.
pub(super) const STRIPES: usize = 64;
/// Byte of the word that is not 0 in a table that never changes again: next to the counts.
pub(super) const SEALED_AT: u64 = MOVES_AT + STRIPES as u64 * 8;

/// The most hash functions.
pub(super) const MOST_WAYS: usize = 4;
const MOST_BUCKET_SLOTS: u64 = 8;

/// Inline records that are out of band at once at most, because their values are being replaced:
/// with some for clients that were killed meanwhile.
const MOST_REPLACED: u64 = 1 << 10;

/// The load factor unless another is asked for.
const LOAD_FACTOR: f64 = 0.9;

/// What a cuckoo table shall be.
#[derive(Clone, Debug, PartialEq)]
pub struct CuckooOptions {
    /// How much it shall hold: 0.9 full unless told otherwise.
    pub sizing: Sizing,
    /// Hash functions, 2 to 4.
    pub ways: u32,
    /// Slots of a bucket, 1 to 8.
    pub bucket_slots: u32,
    /// What the slots hold; by default what suits the sizes.
    pub slot: Option<SlotKind>,
}

impl CuckooOptions {
    /// Options for a table of that size: 3 hash functions, 4 slots a bucket.
    #[must_use]
    pub const fn new(sizing: Sizing) -> Self {
        Self {
            sizing,
            ways: 3,
            bucket_slots: 4,
            slot: None,
        }
    }

    /// The layout that these options ask for.
    ///
    /// # Errors
    /// [`BadOption`](crate::IndexError::BadOption) names the option, its value and what is
    /// possible.
    pub fn layout(&self) -> Result<CuckooLayout> {
        let sizing = &self.sizing;
        let shape = sizing.shape();
        let kind = self.slot.unwrap_or_else(|| match shape.suitable_kind() {
            SlotKind::Pair => SlotKind::Inline,
            kind => kind,
        });
        shape.check(kind)?;
        sizing.hasher.check(sizing.key)?;
        let slots = sizing.slots_for(sizing.capacity, LOAD_FACTOR)?;
        let buckets = slots.div_ceil(u64::from(self.bucket_slots.max(1)));
        let out_of_band = match kind {
            SlotKind::Signatures => buckets,
            // Only while their values are replaced: the heap has room for an eighth of these.
            SlotKind::Inline => sizing.capacity.min(8 * MOST_REPLACED),
            _ => sizing.capacity,
        };
        let layout = CuckooLayout {
            kind,
            ways: self.ways,
            bucket_slots: self.bucket_slots,
            buckets,
            key: sizing.key,
            value: sizing.value,
            keys: sizing.keys,
            hasher: sizing.hasher,
            mask_seed: sizing.seed,
            heap_bytes: shape.heap_bytes(kind, out_of_band, sizing.heap_bytes)?,
        };
        layout.check()?;
        Ok(layout)
    }
}

/// All that a client must know of a cuckoo table: kept in the catalog.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CuckooLayout {
    /// What a slot holds.
    pub kind: SlotKind,
    /// Hash functions.
    pub ways: u32,
    /// Slots of a bucket.
    pub bucket_slots: u32,
    /// How many buckets there are.
    pub buckets: u64,
    /// The size of the keys.
    pub key: FieldSize,
    /// The size of the values.
    pub value: FieldSize,
    /// How many records a key may have.
    pub keys: KeyRule,
    /// From a key to the hash that its buckets derive from.
    pub hasher: Hasher,
    /// What the mask of Word slots derives from.
    pub mask_seed: u64,
    /// Bytes of heap.
    pub heap_bytes: u64,
}

impl CuckooLayout {
    /// Refuses a layout that no options give: one that was not made by this crate, or was damaged.
    /// Whoever takes a layout from remote memory calls this first: the sizes that derive from one
    /// that passes do not overflow.
    ///
    /// # Errors
    /// [`BadOption`](crate::IndexError::BadOption) names the field, its value and what is possible.
    pub fn check(&self) -> Result<()> {
        self.shape().check(self.kind)?;
        self.hasher.check(self.key)?;
        if matches!(self.kind, SlotKind::Pair | SlotKind::Hybrid) {
            let limit = "Word, Inline, Heap or Signatures: an insertion moves slots whole";
            return Err(bad_option("slot", format!("{:?}", self.kind), limit));
        }
        if !(2..=MOST_WAYS as u32).contains(&self.ways) {
            return Err(bad_option("ways", self.ways, "2 to 4"));
        }
        if !(1..=MOST_BUCKET_SLOTS as u32).contains(&self.bucket_slots) {
            return Err(bad_option("bucket slots", self.bucket_slots, "1 to 8"));
        }
        self.heap_buckets()?;
        // Once more for a layout whose number of buckets is not what a capacity asked for.
        let slots = self.buckets.checked_mul(u64::from(self.bucket_slots));
        slots_for(slots.unwrap_or(u64::MAX), 1.0)?;
        Ok(())
    }

    /// All slots.
    #[must_use]
    pub const fn slots(&self) -> u64 {
        self.buckets * self.bucket_slots as u64
    }

    /// 8-byte words of one slot, or of a bucket whose slots share one.
    #[inline]
    #[must_use]
    pub const fn slot_words(&self) -> usize {
        match self.kind {
            SlotKind::Inline => 1 + (self.key.most() + self.value.most()).div_ceil(8),
            _ => 1,
        }
    }

    /// Bytes of one bucket, a multiple of 8.
    #[inline]
    #[must_use]
    pub const fn bucket_bytes(&self) -> usize {
        match self.kind {
            SlotKind::Signatures => 8,
            _ => self.slot_words() * 8 * self.bucket_slots as usize,
        }
    }

    /// Bytes from the table's start that its clients may have written, where the mark of its heap
    /// is `heap_mark`: what must be zeros again before another table can lie there.
    #[must_use]
    pub fn written(&self, heap_mark: u64) -> Vec<Range<u64>> {
        self.map().written(heap_mark).into()
    }

    /// Bytes of remote memory that the whole table takes. A fresh table is all zeros.
    #[must_use]
    pub fn table_bytes(&self) -> u128 {
        self.map().bytes()
    }

    /// Where its parts lie.
    #[inline]
    pub(super) fn map(&self) -> TableMap {
        TableMap {
            slots: self.buckets,
            slot_bytes: self.bucket_bytes(),
            heap_bytes: self.heap_bytes,
            segment: 0,
        }
    }

    #[inline]
    pub(super) fn bucket_at(&self, table: RemoteAddr, bucket: u64) -> RemoteAddr {
        self.map().slot_at(table, bucket)
    }

    /// The heap buckets of a table of signatures.
    ///
    /// # Errors
    /// [`BadOption`](crate::IndexError::BadOption) for more than the words can name.
    pub(super) fn heap_buckets(&self) -> Result<Option<HeapBuckets>> {
        if self.kind != SlotKind::Signatures {
            return Ok(None);
        }
        if self.bucket_slots as usize != SIGNATURES {
            let limit = "4 in a table of signatures";
            return Err(bad_option("bucket slots", self.bucket_slots, limit));
        }
        let bytes = self.shape().block_bytes(SlotKind::Signatures);
        HeapBuckets::new(bytes, self.heap_bytes).map(Some)
    }

    /// The sizes of the records.
    pub(super) fn shape(&self) -> RecordShape {
        RecordShape::new(self.key, self.value)
    }

    /// The buckets of a hash, without repetition, in the order in which they are tried.
    #[inline]
    pub(super) fn buckets_of(&self, hash: u64) -> CandidateBuckets {
        let mut candidates = CandidateBuckets::default();
        for way in 0..u64::from(self.ways) {
            candidates.add(scale(way_hash(hash, way), self.buckets));
        }
        candidates
    }
}

/// The byte that stands for a key, taken from a hash that is independent of its buckets; never 0.
pub(super) const fn signature_of(hash: u64) -> u8 {
    1 + scale(way_hash(hash, MOST_WAYS as u64), u8::MAX as u64) as u8
}

/// The number of a bucket's count of displacements.
#[inline]
pub(super) const fn stripe_of(bucket: u64) -> usize {
    (bucket % STRIPES as u64) as usize
}

/// The hash of one way: the finalizer of SplitMix64 over the key's hash and the way's number.
#[inline]
const fn way_hash(hash: u64, way: u64) -> u64 {
    let mut mixed = hash.wrapping_add((way + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// The different buckets of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct CandidateBuckets {
    buckets: [u64; MOST_WAYS],
    count: usize,
}

impl CandidateBuckets {
    #[inline]
    pub(super) fn add(&mut self, bucket: u64) {
        if !self.as_slice().contains(&bucket) {
            self.buckets[self.count] = bucket;
            self.count += 1;
        }
    }

    #[inline]
    pub(super) fn as_slice(&self) -> &[u64] {
        &self.buckets[..self.count]
    }

    /// Those of them of which it is so.
    pub(super) fn only(&self, is_so: impl Fn(u64) -> bool) -> Self {
        let mut only = Self::default();
        for bucket in self.as_slice().iter().filter(|bucket| is_so(**bucket)) {
            only.add(*bucket);
        }
        only
    }
}

/// A slot: its bucket, and its number in there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct CuckooSlot {
    pub(super) bucket: u64,
    pub(super) slot: usize,
}

/// In which order the buckets of a key are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LookupOrder {
    /// One after the other, until the key is found: fewer messages.
    Sequential,
    /// All side by side: one round trip.
    #[default]
    Parallel,
    /// All in one request that gathers, where the fabric can.
    Gathered,
}
