//! The options that decide the bytes of a table.

use super::layout::{DuoLayout, MOST_EXTENTS};
use crate::slot::{SlotKind, bad_option};
use crate::{Result, Sizing};

/// The load factor unless another is asked for.
const LOAD_FACTOR: f64 = 0.95;

/// Options of a new CuckooDuo table. [`DuoOptions::new`] has the paper's defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct DuoOptions {
    /// How much the table must be able to hold; 0.95 full unless told otherwise. Its keys are
    /// unique. Keys and values have at most 65,535 bytes if records are in the slots. By default
    /// the heap, if there is one, has room for `most_capacity` of the longest records, and some
    /// more.
    pub sizing: Sizing,
    /// The number of keys that the table can grow to hold by itself. The default is the capacity:
    /// no growth. The table doubles each time, into memory behind it that is reserved from the
    /// start and first touched when it is needed.
    pub most_capacity: Option<u64>,
    /// Where records lie. [`SlotKind::Inline`]: in the slots, each of which has room for the
    /// longest record. [`SlotKind::Heap`]: in a heap, for records of many lengths; lookups and
    /// updates then take one more READ.
    pub slot: SlotKind,
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
}

impl DuoOptions {
    /// The paper's options for a table of this size: 8 slots a bucket, fingerprints of 16 bits, at
    /// most 3 moves, and a stash of 32 slots.
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
            readers: false,
        }
    }

    /// The layout of a table with these options.
    ///
    /// # Errors
    /// [`BadOption`](crate::IndexError::BadOption) names the option, its value and what is
    /// possible.
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
            published: self.readers,
            reserve_bytes: 0,
            hasher: sizing.hasher,
            checksum_seed: sizing.seed,
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
        let growths = doublings.min(MOST_EXTENTS);
        Ok((at_first.max(buckets(most)?.div_ceil(1 << growths)), growths))
    }
}
