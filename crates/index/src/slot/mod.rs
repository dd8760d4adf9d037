//! What a slot holds, whatever the scheme: words, heads, and which of them suits which records.

mod head;
mod words;

pub(crate) use crate::error::bad_option;
pub(crate) use head::{MOST_SIZED, SlotHead};
pub(crate) use words::WordFormat;

use crate::heap;
use crate::{FieldSize, Result};
use farslot_model::HitPolicy;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// Records longer than this are stored out of band unless told otherwise (paper 000, section 5.7).
const LONGEST_INLINE: usize = 32;

/// Slots of a bucket whose word holds signatures.
pub(crate) const SIGNATURES: usize = 4;

/// What a slot holds. The pages of the schemes draw each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SlotKind {
    /// Key and value in one word of 63 bits.
    Word,
    /// A word of key and a word of value.
    Pair,
    /// Key and value of fixed sizes, in the slot.
    Inline,
    /// A reference to a record out of band.
    Heap,
    /// Key and value of any sizes: in the slot where they fit, else out of band.
    Hybrid,
    /// Four to a word: a signature of one byte each, and where their records lie together out of
    /// band. Only of cuckoo tables.
    Signatures,
}

impl SlotKind {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Word,
        Self::Pair,
        Self::Inline,
        Self::Heap,
        Self::Hybrid,
        Self::Signatures,
    ];

    /// Its name in options, output and catalogs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Word => "word",
            Self::Pair => "pair",
            Self::Inline => "inline",
            Self::Heap => "heap",
            Self::Hybrid => "hybrid",
            Self::Signatures => "signatures",
        }
    }

    /// Whether the slots begin with a [`SlotHead`], and records may lie out of band.
    #[inline]
    pub(crate) const fn has_heads(self) -> bool {
        matches!(self, Self::Inline | Self::Heap | Self::Hybrid)
    }
}

/// How many records a key may have.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub enum KeyRule {
    /// One: a lookup may stop at the match.
    #[default]
    Unique,
    /// Any number: a lookup reads on to the first empty slot (paper 000).
    Multi,
}

impl KeyRule {
    /// Where a lookup may stop, for the model.
    pub(crate) const fn hit_policy(self) -> HitPolicy {
        match self {
            Self::Unique => HitPolicy::StopAtMatch,
            Self::Multi => HitPolicy::AllMatches,
        }
    }
}

/// The sizes of a table's records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RecordShape {
    pub(crate) key: FieldSize,
    pub(crate) value: FieldSize,
}

impl RecordShape {
    pub(crate) const fn new(key: FieldSize, value: FieldSize) -> Self {
        Self { key, value }
    }

    /// Refuses a key that the table does not hold.
    #[inline]
    pub(crate) fn check_key(&self, key: &[u8]) -> Result<()> {
        self.key.check_key(key)
    }

    /// Refuses a value that the table does not hold.
    pub(crate) fn check_value(&self, value: &[u8]) -> Result<()> {
        self.value.check_value(value)
    }

    /// Refuses records that the table does not hold.
    pub(crate) fn check_all(&self, records: &[(&[u8], &[u8])]) -> Result<()> {
        records.iter().try_for_each(|(key, value)| {
            self.check_key(key)?;
            self.check_value(value)
        })
    }

    /// What suits the sizes.
    pub(crate) fn suitable_kind(&self) -> SlotKind {
        match (self.key, self.value) {
            (FieldSize::Fixed(key), FieldSize::Fixed(value)) if key <= 8 && value <= 8 => {
                SlotKind::Pair
            }
            (FieldSize::Fixed(key), FieldSize::Fixed(value))
                if (key as usize).saturating_add(value as usize) <= LONGEST_INLINE =>
            {
                SlotKind::Inline
            }
            _ => SlotKind::Heap,
        }
    }

    /// Refuses sizes that no slot of this kind, or no block of a heap, can hold.
    pub(crate) fn check(&self, kind: SlotKind) -> Result<()> {
        let (key, value) = (self.key.most(), self.value.most());
        let record = self.block_bytes(kind);
        if key == 0 {
            return Err(bad_option("key size", 0, "at least 1 byte"));
        }
        let fixed =
            matches!(self.key, FieldSize::Fixed(_)) && matches!(self.value, FieldSize::Fixed(_));
        if !matches!(
            kind,
            SlotKind::Heap | SlotKind::Hybrid | SlotKind::Signatures
        ) && !fixed
        {
            return Err(bad_option(
                "slot",
                format!("{kind:?}"),
                "only for keys and values of fixed sizes",
            ));
        }
        let fits = match kind {
            SlotKind::Word => key + value <= 8,
            SlotKind::Pair => key <= 8 && value <= 8,
            SlotKind::Inline | SlotKind::Heap | SlotKind::Hybrid | SlotKind::Signatures => true,
        };
        if !fits {
            let limit = "Word slots hold 8 bytes in all, Pair slots 8 of each";
            return Err(bad_option(
                "slot",
                format!("{kind:?} with {key} + {value} bytes"),
                limit,
            ));
        }
        if record > heap::LARGEST_RECORD {
            let limit = match kind {
                SlotKind::Signatures => heap::LARGEST_RECORD / SIGNATURES - 16,
                _ => heap::LARGEST_RECORD - 16,
            };
            let limit = format!("at most {limit} bytes in all");
            return Err(bad_option("key and value size", key + value, limit));
        }
        Ok(())
    }

    /// Bytes of what lies out of band in one piece: a record, or those of a bucket of signatures,
    /// each in a region of its own that is a multiple of 8 bytes.
    pub(crate) const fn block_bytes(&self, kind: SlotKind) -> usize {
        let record = heap::record_bytes(self.key.most(), self.value.most());
        match kind {
            SlotKind::Signatures => record.next_multiple_of(8) * SIGNATURES,
            _ => record,
        }
    }

    /// Bytes of heap for `capacity` records, or buckets of signatures, unless `asked` says how
    /// many.
    pub(crate) fn heap_bytes(
        &self,
        kind: SlotKind,
        capacity: u64,
        asked: Option<u64>,
    ) -> Result<u64> {
        let records = match kind {
            SlotKind::Word | SlotKind::Pair => return Ok(0),
            SlotKind::Inline => capacity.div_ceil(8),
            // What share of the records fits into hybrid slots, only their owner knows.
            SlotKind::Heap | SlotKind::Hybrid | SlotKind::Signatures => capacity,
        };
        if matches!(kind, SlotKind::Heap | SlotKind::Signatures)
            && let Some(asked) = asked
        {
            let record = heap::record_bytes(self.key.least().max(1), self.value.least());
            if !heap::holds(asked, record) {
                let limit = format!("it must hold a record of {record} bytes");
                return Err(bad_option("heap bytes", asked, limit));
            }
        }
        let largest = self.block_bytes(kind);
        let class = heap::class_for(largest).expect("checked to be at most the largest record");
        // More than the records need: pages that clients have open lie idle, and some are free for
        // those that move records. Blocks are not as long as their class says, which is more again.
        let ample = u128::from(records) * heap::block_bytes(class) as u128 * 9 / 8 + (1 << 20);
        let asked = asked
            .map_or(ample, u128::from)
            .max(u128::from(heap::GRANULE) * 2);
        match u64::try_from(asked) {
            Ok(bytes) if bytes <= heap::LARGEST_HEAP => Ok(bytes.next_multiple_of(64)),
            _ => Err(bad_option(
                "heap bytes",
                asked,
                format!("at most {}", heap::LARGEST_HEAP),
            )),
        }
    }
}

/// The bytes of a record as they go into its slot.
pub(crate) fn in_slot((key, value): (&[u8], &[u8])) -> SmallVec<[u8; 64]> {
    let mut record = SmallVec::from_slice(key);
    record.extend_from_slice(value);
    record
}

/// Bytes of key and value that a slot has room for behind its head: of Hybrid slots what is
/// `asked`, or else what suits small records; 0 of the other kinds, whose slots the sizes decide.
pub(crate) fn inline_bytes(kind: SlotKind, asked: Option<u32>) -> Result<u32> {
    match (kind, asked) {
        (SlotKind::Hybrid, asked) => {
            let bytes = asked.unwrap_or(LONGEST_INLINE as u32);
            if !bytes.is_multiple_of(8) || !(8..=MOST_SIZED as u32).contains(&bytes) {
                let limit = format!("a multiple of 8 from 8 to {MOST_SIZED}");
                return Err(bad_option("inline bytes", bytes, limit));
            }
            Ok(bytes)
        }
        (_, None | Some(0)) => Ok(0),
        (_, Some(bytes)) => Err(bad_option("inline bytes", bytes, "only for Hybrid slots")),
    }
}

/// The most slots of a table (the model's limit).
const MOST_SLOTS: u64 = 1 << 40;

/// Slots of a table in which `capacity` keys give that load factor.
pub(crate) fn slots_for(capacity: u64, load_factor: f64) -> Result<u64> {
    if capacity == 0 {
        return Err(bad_option("capacity", 0, "at least 1"));
    }
    if !(load_factor > 0.0 && load_factor <= 1.0) {
        return Err(bad_option(
            "load factor",
            load_factor,
            "above 0 and at most 1",
        ));
    }
    let slots = (capacity as f64 / load_factor).ceil();
    if slots > MOST_SLOTS as f64 {
        let limit = format!("at most {MOST_SLOTS} slots, not {slots}");
        return Err(bad_option("capacity", capacity, limit));
    }
    Ok((slots as u64).max(capacity))
}
