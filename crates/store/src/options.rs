//! What a table shall be.

use crate::Result;
use farslot_index::linear::{KeyRule, LinearLayout, LinearOptions, SlotKind};
use farslot_index::{FieldSize, Hasher};
use serde::{Deserialize, Serialize};

/// Which hash function a table uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum HashKind {
    /// XXH3 with a random seed of the table's own.
    #[default]
    Xxh3,
    /// Knuth's multiplicative hash: for the tables of paper 000. Keys of at most 8 bytes.
    Knuth,
}

/// What a table shall be: a capacity, and sizes where the defaults do not fit.
#[derive(Clone, Debug, PartialEq)]
pub struct TableOptions {
    pub(crate) capacity: u64,
    pub(crate) key: FieldSize,
    pub(crate) value: FieldSize,
    pub(crate) load_factor: f64,
    pub(crate) slot: Option<SlotKind>,
    pub(crate) inline_bytes: Option<u32>,
    pub(crate) keys: KeyRule,
    pub(crate) heap_bytes: Option<u64>,
    pub(crate) hash: HashKind,
}

impl TableOptions {
    /// A table for `capacity` keys of up to 256 bytes with values of up to 1 KiB, 3/4 full then.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        Self {
            capacity,
            key: FieldSize::UpTo(256),
            value: FieldSize::UpTo(1024),
            load_factor: 0.75,
            slot: None,
            inline_bytes: None,
            keys: KeyRule::Unique,
            heap_bytes: None,
            hash: HashKind::Xxh3,
        }
    }

    /// The size of the keys.
    #[must_use]
    pub fn keys(self, key: FieldSize) -> Self {
        Self { key, ..self }
    }

    /// The size of the values.
    #[must_use]
    pub fn values(self, value: FieldSize) -> Self {
        Self { value, ..self }
    }

    /// Slots in use per slot when `capacity` keys are in the table: above 0, at most 1.
    #[must_use]
    pub fn load_factor(self, load_factor: f64) -> Self {
        Self {
            load_factor,
            ..self
        }
    }

    /// What the slots hold, if not what suits the sizes.
    #[must_use]
    pub fn slots(self, slot: SlotKind) -> Self {
        Self {
            slot: Some(slot),
            ..self
        }
    }

    /// Bytes of key and value that a [`SlotKind::Hybrid`] slot has room for: a multiple of 8 up to
    /// 1024; 32 unless told otherwise.
    #[must_use]
    pub fn inline_bytes(self, bytes: u32) -> Self {
        Self {
            inline_bytes: Some(bytes),
            ..self
        }
    }

    /// Lets a key have several records.
    #[must_use]
    pub fn multi_key(self) -> Self {
        Self {
            keys: KeyRule::Multi,
            ..self
        }
    }

    /// Bytes for records out of band, if not enough for `capacity` records of the largest size.
    #[must_use]
    pub fn heap_bytes(self, bytes: u64) -> Self {
        Self {
            heap_bytes: Some(bytes),
            ..self
        }
    }

    /// The hash function.
    #[must_use]
    pub fn hash(self, hash: HashKind) -> Self {
        Self { hash, ..self }
    }

    /// The layout that these options give, with a fresh seed.
    ///
    /// # Errors
    /// [`BadOption`](farslot_index::IndexError::BadOption) names the option and what is possible.
    pub fn layout(&self) -> Result<LinearLayout> {
        let seed = rand::random();
        let options = LinearOptions {
            load_factor: self.load_factor,
            slot: self.slot,
            inline_bytes: self.inline_bytes,
            keys: self.keys,
            heap_bytes: self.heap_bytes,
            hasher: match self.hash {
                HashKind::Xxh3 => Hasher::Xxh3 { seed },
                HashKind::Knuth => Hasher::Knuth,
            },
            ..LinearOptions::new(self.capacity, self.key, self.value, seed)
        };
        Ok(options.layout()?)
    }
}
