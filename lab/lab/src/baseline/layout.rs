//! The sizes of a table, whatever the design.

use super::slots::SlotFormat;
use farslot::fabric::RemoteAddr;
use farslot::index::{FieldSize, Hasher, IndexError, Result};

/// The most bytes of a key, and of a value.
const LONGEST_FIELD: usize = u16::MAX as usize;
/// The most slots of a bucket.
const MOST_BUCKET_SLOTS: u32 = 64;
/// The most slots.
const MOST_SLOTS: u64 = 1 << 40;
/// Where the first bucket begins, behind the counts.
const BUCKETS_AT: u64 = 4096;
/// The most keys in a stash.
const MOST_STASH: u32 = 1 << 20;

/// What a table for comparison shall be.
#[derive(Clone, Debug, PartialEq)]
pub struct BaselineOptions {
    /// Slots of all buckets together, at least; rounded up to what the design can have.
    pub slots: u64,
    /// Slots of a bucket, 1 to 64: the papers' d.
    pub bucket_slots: u32,
    /// The size of its keys: at most 65,535 bytes.
    pub key: FieldSize,
    /// The size of its values: at most 65,535 bytes. Every slot has room for the longest.
    pub value: FieldSize,
    /// Keys that find no slot and are kept by the client, 0 to 2^20: the papers' s.
    pub stash: u32,
    /// The hash function.
    pub hasher: Hasher,
    /// What the checksums and all chance derive from.
    pub seed: u64,
}

impl BaselineOptions {
    /// So many slots in buckets of 8, with the stash that paper 001 gives MapEmbed: 32.
    #[must_use]
    pub fn new(slots: u64, key: FieldSize, value: FieldSize, seed: u64) -> Self {
        Self {
            slots,
            bucket_slots: 8,
            key,
            value,
            stash: 32,
            hasher: Hasher::Xxh3 { seed },
            seed,
        }
    }

    /// The layout with a number of buckets that is a multiple of `multiple`, and at least as much.
    ///
    /// # Errors
    /// [`BadOption`](farslot::index::IndexError::BadOption) names the option, its value and what is
    /// possible.
    pub(super) fn layout(&self, multiple: u64) -> Result<BaselineLayout> {
        if self.hasher == Hasher::Knuth && self.key.most() > 8 {
            return Err(bad_option("hash", "knuth", "for keys of at most 8 bytes"));
        }
        if self.key.most() == 0 {
            return Err(bad_option("key size", 0, "at least 1 byte"));
        }
        for (option, size) in [("key size", self.key), ("value size", self.value)] {
            if size.most() > LONGEST_FIELD {
                let limit = format!("at most {LONGEST_FIELD} bytes");
                return Err(bad_option(option, size.most(), limit));
            }
        }
        if !(1..=MOST_BUCKET_SLOTS).contains(&self.bucket_slots) {
            let limit = format!("1 to {MOST_BUCKET_SLOTS}");
            return Err(bad_option("bucket slots", self.bucket_slots, limit));
        }
        if self.stash > MOST_STASH {
            let limit = format!("at most {MOST_STASH}");
            return Err(bad_option("stash", self.stash, limit));
        }
        if !(1..=MOST_SLOTS).contains(&self.slots) {
            let limit = format!("1 to {MOST_SLOTS}");
            return Err(bad_option("slots", self.slots, limit));
        }
        let buckets = self.slots.div_ceil(u64::from(self.bucket_slots));
        Ok(BaselineLayout {
            buckets: buckets.max(1).next_multiple_of(multiple),
            bucket_slots: self.bucket_slots,
            stash: self.stash,
            hasher: self.hasher,
            format: SlotFormat {
                key: self.key,
                value: self.value,
                checksum_seed: self.seed,
            },
        })
    }
}

/// The sizes of a table, and where its parts lie. A fresh table is all zeros.
#[derive(Clone, Copy, Debug)]
pub struct BaselineLayout {
    pub(super) buckets: u64,
    pub(super) bucket_slots: u32,
    pub(super) stash: u32,
    pub(super) hasher: Hasher,
    pub(super) format: SlotFormat,
}

impl BaselineLayout {
    /// Buckets.
    #[must_use]
    pub const fn buckets(&self) -> u64 {
        self.buckets
    }

    /// Slots of all buckets: those that count for the load factor.
    #[must_use]
    pub const fn slots(&self) -> u64 {
        self.buckets * self.bucket_slots as u64
    }

    /// Slots of a bucket.
    #[must_use]
    pub const fn bucket_slots(&self) -> u32 {
        self.bucket_slots
    }

    /// Bytes of one slot, a multiple of 8.
    #[must_use]
    pub const fn slot_bytes(&self) -> usize {
        self.format.slot_bytes()
    }

    /// Bytes of remote memory that the whole table takes.
    #[must_use]
    pub fn table_bytes(&self) -> u128 {
        let buckets = u128::from(self.buckets) * self.bucket_bytes() as u128;
        u128::from(BUCKETS_AT) + buckets.next_multiple_of(64)
    }

    /// Bytes of a bucket.
    pub(super) const fn bucket_bytes(&self) -> usize {
        self.bucket_slots as usize * self.slot_bytes()
    }

    pub(super) fn slot_at(&self, table: RemoteAddr, slot: u64) -> RemoteAddr {
        table.plus(BUCKETS_AT + slot * self.slot_bytes() as u64)
    }

    pub(super) fn bucket_at(&self, table: RemoteAddr, bucket: u64) -> RemoteAddr {
        self.slot_at(table, bucket * u64::from(self.bucket_slots))
    }
}

/// The error for an option that no table can have.
fn bad_option(option: &'static str, value: impl ToString, limit: impl Into<String>) -> IndexError {
    IndexError::BadOption {
        option,
        value: value.to_string(),
        limit: limit.into(),
    }
}
