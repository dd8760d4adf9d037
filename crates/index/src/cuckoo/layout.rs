//! The bytes of a cuckoo table, and the options that decide them.

use crate::hash::scale;
use crate::heap::HeapPlace;
use crate::slot::{KeyRule, RecordShape, SlotKind, WordFormat, bad_option, slots_for};
use crate::{FieldSize, Hasher, Result};
use farslot_fabric::RemoteAddr;
use serde::{Deserialize, Serialize};

/// Byte of the count of slots in use, from the table's start.
pub(super) const USED_AT: u64 = 0;
const HEAP_HEADER_AT: u64 = 64;
/// Byte of the word that names the writer.
pub(super) const WRITER_AT: u64 = 3072;
/// Byte of the count of writers that there were.
pub(super) const TICKETS_AT: u64 = 3064;
/// Byte of the count of displacements.
pub(super) const MOVES_AT: u64 = 3080;
/// Byte of the word that is not 0 in a table that never changes again.
pub(super) const SEALED_AT: u64 = 3088;
const SLOTS_AT: u64 = 4096;

/// The most hash functions.
pub(super) const MOST_WAYS: usize = 4;
const MOST_BUCKET_SLOTS: u64 = 8;

/// What a cuckoo table shall be.
#[derive(Clone, Debug, PartialEq)]
pub struct CuckooOptions {
    /// Keys that the table must be able to hold.
    pub capacity: u64,
    /// The size of its keys.
    pub key: FieldSize,
    /// The size of its values.
    pub value: FieldSize,
    /// Slots in use per slot when `capacity` keys are in the table.
    pub load_factor: f64,
    /// Hash functions, 2 to 4.
    pub ways: u32,
    /// Slots of a bucket, 1 to 8.
    pub bucket_slots: u32,
    /// What the slots hold; by default what suits the sizes.
    pub slot: Option<SlotKind>,
    /// How many records a key may have.
    pub keys: KeyRule,
    /// Bytes for records out of band; by default enough for the capacity.
    pub heap_bytes: Option<u64>,
    /// The hash function that the others derive from.
    pub hasher: Hasher,
    /// What the mask of Word slots derives from: random, of each table its own.
    pub mask_seed: u64,
}

impl CuckooOptions {
    /// Options for `capacity` keys: 3 hash functions, 4 slots a bucket, 0.9 full then. The seed
    /// should be random.
    #[must_use]
    pub fn new(capacity: u64, key: FieldSize, value: FieldSize, seed: u64) -> Self {
        Self {
            capacity,
            key,
            value,
            load_factor: 0.9,
            ways: 3,
            bucket_slots: 4,
            slot: None,
            keys: KeyRule::Unique,
            heap_bytes: None,
            hasher: Hasher::Xxh3 { seed },
            mask_seed: seed,
        }
    }

    /// The layout that these options ask for.
    ///
    /// # Errors
    /// [`BadOption`](crate::IndexError::BadOption) names the option, its value and what is possible.
    pub fn layout(&self) -> Result<CuckooLayout> {
        let shape = RecordShape {
            key: self.key,
            value: self.value,
        };
        let kind = self.slot.unwrap_or_else(|| match shape.suitable_kind() {
            SlotKind::Pair => SlotKind::Inline,
            kind => kind,
        });
        shape.check(kind)?;
        if kind == SlotKind::Pair {
            return Err(bad_option(
                "slot",
                "Pair",
                "Word, Inline or Heap: an insertion moves slots whole",
            ));
        }
        if !(2..=MOST_WAYS as u32).contains(&self.ways) {
            return Err(bad_option("ways", self.ways, "2 to 4"));
        }
        if !(1..=MOST_BUCKET_SLOTS as u32).contains(&self.bucket_slots) {
            return Err(bad_option("bucket slots", self.bucket_slots, "1 to 8"));
        }
        self.hasher.check(self.key)?;
        Ok(CuckooLayout {
            kind,
            ways: self.ways,
            bucket_slots: self.bucket_slots,
            buckets: slots_for(self.capacity, self.load_factor)?
                .div_ceil(u64::from(self.bucket_slots)),
            key: self.key,
            value: self.value,
            keys: self.keys,
            hasher: self.hasher,
            mask_seed: self.mask_seed,
            heap_bytes: shape.heap_bytes(kind, self.capacity, self.heap_bytes)?,
        })
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
    /// All slots.
    #[must_use]
    pub const fn slots(&self) -> u64 {
        self.buckets * self.bucket_slots as u64
    }

    /// 8-byte words of one slot.
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
        self.slot_words() * 8 * self.bucket_slots as usize
    }

    /// Bytes of remote memory that the whole table takes. A fresh table is all zeros.
    #[must_use]
    pub fn table_bytes(&self) -> u128 {
        u128::from(SLOTS_AT) + self.slot_area() + u128::from(self.heap_bytes)
    }

    fn slot_area(&self) -> u128 {
        (u128::from(self.buckets) * self.bucket_bytes() as u128).next_multiple_of(64)
    }

    pub(super) fn bucket_at(&self, table: RemoteAddr, bucket: u64) -> RemoteAddr {
        table.plus(SLOTS_AT + bucket * self.bucket_bytes() as u64)
    }

    pub(super) fn heap_place(&self, table: RemoteAddr) -> HeapPlace {
        HeapPlace {
            header: table.plus(HEAP_HEADER_AT),
            start: table.plus(SLOTS_AT + self.slot_area() as u64),
            bytes: self.heap_bytes,
        }
    }

    pub(super) fn words(&self) -> WordFormat {
        self.shape().words(self.kind, self.mask_seed)
    }

    /// The sizes of the records.
    pub(super) fn shape(&self) -> RecordShape {
        RecordShape {
            key: self.key,
            value: self.value,
        }
    }

    /// The buckets of a hash, without repetition, in the order in which they are tried.
    #[inline]
    pub(super) fn buckets_of(&self, hash: u64) -> Candidates {
        let mut candidates = Candidates::default();
        for way in 0..u64::from(self.ways) {
            candidates.add(scale(way_hash(hash, way), self.buckets));
        }
        candidates
    }
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
pub(super) struct Candidates {
    buckets: [u64; MOST_WAYS],
    count: usize,
}

impl Candidates {
    #[inline]
    fn add(&mut self, bucket: u64) {
        if !self.as_slice().contains(&bucket) {
            self.buckets[self.count] = bucket;
            self.count += 1;
        }
    }

    #[inline]
    pub(super) fn as_slice(&self) -> &[u64] {
        &self.buckets[..self.count]
    }
}
