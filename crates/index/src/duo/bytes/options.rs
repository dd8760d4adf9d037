//! The options that decide the bytes of a table.

use super::layout::{DuoLayout, MOST_EXTENTS};
use crate::slot::{RecordShape, SlotKind, bad_option, slots_for};
use crate::{FieldSize, Hasher, Result};

/// Options of a new CuckooDuo table. [`DuoOptions::new`] has the paper's defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct DuoOptions {
    /// The number of keys that the table must be able to hold.
    pub capacity: u64,
    /// The number of keys that the table can grow to hold by itself. The default is `capacity`: no
    /// growth. The table doubles each time, into memory behind it that is reserved from the start
    /// and first touched when it is needed.
    pub most_capacity: Option<u64>,
    /// The size of the keys; at most 65,535 bytes if records are in the slots.
    pub key: FieldSize,
    /// The size of the values; at most 65,535 bytes if records are in the slots.
    pub value: FieldSize,
    /// Where records lie. [`SlotKind::Inline`]: in the slots, each of which has room for the
    /// longest record. [`SlotKind::Heap`]: in a heap, for records of many lengths; lookups and
    /// updates then take one more READ.
    pub slot: SlotKind,
    /// Bytes of the heap, if there is one. By default it has room for `most_capacity` records of
    /// the longest kind, and some more.
    pub heap_bytes: Option<u64>,
    /// Keys per slot when `capacity` keys are in the table; above 0.
    pub load_factor: f64,
    /// Slots of a bucket, 1 to 16: the paper's d.
    pub bucket_slots: u32,
    /// Bits of a fingerprint, 8 to 32: the paper's f. More bits cost local memory and make needless
    /// READs rarer.
    pub fingerprint_bits: u32,
    /// How many records an insertion may move, 0 to 6: the paper's L.
    pub longest_path: u32,
    /// Slots for keys that fit into no bucket, 0 to 1024: the paper's s.
    pub stash: u32,
    /// Whether to publish the index beside the table, for [readers](crate::duo::DuoReader) other
    /// than the owner. A removal then takes one more round trip.
    pub readers: bool,
    /// The hash function of the keys.
    pub hasher: Hasher,
    /// Seed of the record checksums.
    pub checksum_seed: u64,
}

impl DuoOptions {
    /// The paper's options for a table of `capacity` keys: 8 slots a bucket, fingerprints of 16
    /// bits, at most 3 moves, a stash of 32 slots, and a load factor of 0.95. The seed should be
    /// random.
    #[must_use]
    pub fn new(capacity: u64, key: FieldSize, value: FieldSize, seed: u64) -> Self {
        Self {
            capacity,
            most_capacity: None,
            key,
            value,
            slot: SlotKind::Inline,
            heap_bytes: None,
            load_factor: 0.95,
            bucket_slots: 8,
            fingerprint_bits: 16,
            longest_path: 3,
            stash: 32,
            readers: false,
            hasher: Hasher::Xxh3 { seed },
            checksum_seed: seed,
        }
    }

    /// The layout of a table with these options.
    ///
    /// # Errors
    /// [`BadOption`](crate::IndexError::BadOption) names the option, its value and what is
    /// possible.
    pub fn layout(&self) -> Result<DuoLayout> {
        let (buckets, growths) = self.buckets_and_growths()?;
        let most_capacity = self.most_capacity.unwrap_or(self.capacity);
        let shape = RecordShape::new(self.key, self.value);
        let heap_bytes = match self.slot {
            SlotKind::Heap => {
                shape.check(self.slot)?;
                shape.heap_bytes(self.slot, most_capacity, self.heap_bytes)?
            }
            _ => 0,
        };
        let mut layout = DuoLayout {
            buckets,
            bucket_slots: self.bucket_slots,
            fingerprint_bits: self.fingerprint_bits,
            longest_path: self.longest_path,
            stash: self.stash,
            key: self.key,
            value: self.value,
            kind: self.slot,
            heap_bytes,
            published: self.readers,
            reserve_bytes: 0,
            hasher: self.hasher,
            checksum_seed: self.checksum_seed,
        };
        layout.check()?;
        layout.reserve_bytes = layout
            .reserve_for(growths)
            .ok_or_else(|| bad_option("most capacity", most_capacity, "less than 2^64 bytes"))?;
        layout.check()?;
        Ok(layout)
    }

    /// Buckets of each array at first, and how often they double: so that there are as many in the
    /// end as are needed.
    fn buckets_and_growths(&self) -> Result<(u64, u32)> {
        let buckets = |capacity| {
            let slots = slots_for(capacity, self.load_factor)?;
            Ok::<_, crate::IndexError>(slots.div_ceil(2 * u64::from(self.bucket_slots.max(1))))
        };
        let at_first = buckets(self.capacity)?;
        let most = self.most_capacity.unwrap_or(self.capacity);
        if most < self.capacity {
            let limit = format!("at least the capacity, {}", self.capacity);
            return Err(bad_option("most capacity", most, limit));
        }
        if most == self.capacity {
            return Ok((at_first, 0));
        }
        let doublings = (most / self.capacity).max(2).ilog2();
        let growths = doublings.min(MOST_EXTENTS);
        Ok((at_first.max(buckets(most)?.div_ceil(1 << growths)), growths))
    }
}
