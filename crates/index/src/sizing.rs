//! What the options of all schemes have in common.

use crate::slot::{RecordShape, bad_option, slots_for};
use crate::{FieldSize, Hasher, KeyRule, Result};

/// How much a table shall hold, and of what: the part of a scheme's options that all schemes have.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sizing {
    /// Keys that the table must be able to hold: at first, if it may grow.
    pub capacity: u64,
    /// The size of its keys.
    pub key: FieldSize,
    /// The size of its values.
    pub value: FieldSize,
    /// Slots in use per slot when `capacity` keys are in the table, above 0 and at most 1; by
    /// default what suits the scheme.
    pub load_factor: Option<f64>,
    /// How many records a key may have.
    pub keys: KeyRule,
    /// Bytes for records out of band; by default enough for `capacity` records of the largest size.
    pub heap_bytes: Option<u64>,
    /// The hash function; by default XXH3 with the table's seed.
    pub hasher: Hasher,
    /// What masks and checksums derive from: random, of each table its own.
    pub seed: u64,
}

impl Sizing {
    /// For `capacity` unique keys with these sizes. The seed should be random.
    #[must_use]
    pub const fn new(capacity: u64, key: FieldSize, value: FieldSize, seed: u64) -> Self {
        Self {
            capacity,
            key,
            value,
            load_factor: None,
            keys: KeyRule::Unique,
            heap_bytes: None,
            hasher: Hasher::Xxh3 { seed },
            seed,
        }
    }

    pub(crate) const fn shape(&self) -> RecordShape {
        RecordShape::new(self.key, self.value)
    }

    /// Refuses several records of a key where there cannot be any.
    pub(crate) fn unique_keys(&self, scheme: &str) -> Result<()> {
        match self.keys {
            KeyRule::Unique => Ok(()),
            KeyRule::Multi => Err(bad_option(
                "keys",
                "multi-key",
                format!("unique in a {scheme} table"),
            )),
        }
    }

    /// Slots for so many keys, at the load factor that was asked for or else at this one.
    pub(crate) fn slots_for(&self, keys: u64, default_load: f64) -> Result<u64> {
        slots_for(keys, self.load_factor.unwrap_or(default_load))
    }
}
