//! The schemes' own sizes, as far as they are asked for.

/// Where a key of a cuckoo table may be.
///
/// Whether all keys of a table have a place is a matter of chance, and of size. With the default of
/// three buckets of four slots, and with nearly every other shape, a table for hundreds of keys or
/// more holds its capacity. Of tables with two ways for 30 keys, one in 20 to one in 1000 says that
/// it is full before that, the more so the smaller their buckets are; and with two ways and buckets
/// of one slot, still one in 300 of the tables for 2000.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CuckooShape {
    /// Buckets of each key, 2 to 4: what a lookup reads.
    pub ways: u32,
    /// Slots of a bucket, 1 to 8.
    pub bucket_slots: u32,
}

impl Default for CuckooShape {
    fn default() -> Self {
        Self {
            ways: 3,
            bucket_slots: 4,
        }
    }
}

impl CuckooShape {
    /// The load factor beyond which a large table has no place for some keys, where that is far
    /// below 1 (the thresholds of random hypergraphs).
    pub(crate) const fn limit(self) -> Option<f64> {
        match (self.ways, self.bucket_slots) {
            (2, 1) => Some(0.5),
            (2, 2) => Some(0.897),
            (3, 1) => Some(0.917),
            _ => None,
        }
    }

    /// The load factor unless another is asked for: with something to spare below the limit.
    pub(crate) const fn load_factor(self) -> f64 {
        match (self.ways, self.bucket_slots) {
            (2, 1) => 0.4,
            (2, 2) | (3, 1) => 0.8,
            _ => 0.9,
        }
    }
}

/// How large the buckets of a RACE table are.
///
/// A lookup reads two pairs of them, side by side. The longer they are, the fuller the table is
/// before a key finds no room: with 8 slots, between 0.89 and 0.91 (tables of 2^22 slots).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RaceShape {
    /// Slots of a bucket, 4 to 32.
    pub bucket_slots: u32,
}

impl Default for RaceShape {
    fn default() -> Self {
        Self { bucket_slots: 8 }
    }
}

impl RaceShape {
    /// The load factor up to which a table that does not grow has room for its capacity.
    #[must_use]
    pub const fn limit(self) -> f64 {
        match self.bucket_slots {
            ..8 => 0.75,
            8..16 => 0.87,
            _ => 0.9,
        }
    }

    /// The load factor unless another is asked for.
    pub(crate) const fn load_factor(self) -> f64 {
        match self.bucket_slots {
            ..8 => 0.65,
            _ => 0.8,
        }
    }
}

/// How a CuckooDuo table is organised, and who may look keys up in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DuoShape {
    /// Slots of a bucket, 4 to 16: with 8 and more the table is full at 0.98 and above, with 4
    /// below 0.9.
    pub bucket_slots: u32,
    /// Bits of a slot's fingerprint in the memory of the writer and of each reader, 8 to 32: of two
    /// in 2^bits times the slots of a bucket, a lookup of an absent key, or an insertion, reads a
    /// slot in vain.
    pub fingerprint_bits: u32,
    /// Whether others look keys up beside the writer: a removal takes a round trip more then. In
    /// one that is for its writer alone, the client that does anything first becomes the writer.
    pub readers: bool,
}

impl Default for DuoShape {
    fn default() -> Self {
        Self {
            bucket_slots: 8,
            fingerprint_bits: 16,
            readers: true,
        }
    }
}

impl DuoShape {
    /// The load factor up to which a table has room for its capacity.
    #[must_use]
    pub const fn limit(self) -> f64 {
        match self.bucket_slots {
            ..8 => 0.88,
            _ => 0.97,
        }
    }

    /// The load factor unless another is asked for.
    pub(crate) const fn load_factor(self) -> f64 {
        match self.bucket_slots {
            ..8 => 0.85,
            _ => 0.95,
        }
    }
}
