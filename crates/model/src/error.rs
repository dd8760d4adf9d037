//! The one error type of the crate.

use thiserror::Error;

/// Why a model could not be built from the numbers it was given.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A table needs at least one slot.
    #[error("a table needs at least one slot")]
    NoSlots,
    /// More slots than [`MAX_SLOTS`](crate::MAX_SLOTS), where the numerics are no longer checked.
    #[error("{slots} slots are more than the model's limit of 2^40")]
    TooManySlots {
        /// The number of slots asked for.
        slots: u64,
    },
    /// More keys than slots.
    #[error("{occupied} keys do not fit in {slots} slots")]
    TooManyKeys {
        /// The number of slots of the table.
        slots: u64,
        /// The number of keys asked for.
        occupied: u64,
    },
    /// A hit needs a key to find.
    #[error("an empty table has no key to find")]
    NoKeys,
    /// A load factor outside 0..=1, or not a number.
    #[error("load factor {0} is not between 0 and 1")]
    LoadFactor(f64),
    /// A hit ratio outside 0..=1, or not a number.
    #[error("hit ratio {0} is not between 0 and 1")]
    HitRatio(f64),
    /// A mix of records in which nothing weighs anything.
    #[error("a mix needs records")]
    NoRecords,
    /// A weight that is negative or not finite, or weights whose sum is not.
    #[error("a weight, or the sum of all, is {0}: it must be finite and not negative")]
    Weight(f64),
    /// Records that do not fit into the memory, whatever the slots.
    #[error("{memory_bytes} bytes per record are too little: these records take {least_bytes}")]
    TooLittleMemory {
        /// The memory, in bytes per record.
        memory_bytes: f64,
        /// The least that is enough, in bytes per record.
        least_bytes: f64,
    },
    /// A slot needs at least one byte.
    #[error("a slot needs at least one byte")]
    NoSlotBytes,
    /// The limit on a READ's payload is below the size of one slot.
    #[error("a READ of at most {max_read_bytes} bytes does not hold a slot of {slot_bytes} bytes")]
    ReadTooSmall {
        /// The limit, in bytes.
        max_read_bytes: usize,
        /// The size of a slot, in bytes.
        slot_bytes: usize,
    },
    /// Fewer fingerprints than 2, or more than 2^32.
    #[error("{values} different fingerprints: from 2 to 2^32")]
    Fingerprints {
        /// The number of fingerprints asked for.
        values: u64,
    },
    /// More backup slots than a bucket has slots.
    #[error("{slots} slots for backup fingerprints are more than a bucket's {bucket_slots} slots")]
    BackupSlots {
        /// The number of slots asked for.
        slots: u32,
        /// Slots of a bucket.
        bucket_slots: u32,
    },
    /// Buckets of fewer slots than 1, or more than
    /// [`MOST_BUCKET_SLOTS`](crate::duo::MOST_BUCKET_SLOTS).
    #[error("buckets of {slots} slots: from 1 to {limit}")]
    BucketSlots {
        /// The number of slots asked for.
        slots: u32,
        /// The most.
        limit: u32,
    },
    /// A NIC parameter that is negative, not finite, or zero where a rate is needed.
    #[error("NIC parameter `{name}` = {value} is out of range")]
    Nic {
        /// The field's name.
        name: &'static str,
        /// Its value.
        value: f64,
    },
}
