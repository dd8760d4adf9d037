//! The bytes of a sealed table, and the options that decide them. The module's page draws them.

use super::perfect::{self, PerfectShape};
use super::record;
use super::slots::OutFormat;
use super::slots::last_overflow;
use crate::Sizing;
use crate::slot::{KeyRule, RecordShape, SlotKind, bad_option};
use crate::table_map::TableMap;
use crate::{FieldSize, Hasher, Result};
use farslot_fabric::RemoteAddr;
use serde::{Deserialize, Serialize};

/// Byte of the word that is 1 once the table is built.
pub(super) const BUILT_AT: u64 = 0;
/// Byte of the word that its builder claims.
pub(super) const CLAIMED_AT: u64 = 8;
/// Byte of the words that say what was built: records, mask, bytes of heap used.
pub(super) const SUMMARY_AT: u64 = 16;

/// The most slots: a builder numbers them, and the records, with 32 bits.
const MOST_SLOTS: u64 = u32::MAX as u64 - 1;
/// The most bytes of an inline record: a READ of one slot is none too long.
const LARGEST_INLINE: usize = 16 << 10;
/// The most bytes of a record out of band.
const LARGEST_RECORD: usize = 1 << 20;
/// The fewest bytes of a slot that holds a record of variable size: its lengths, and a byte of key.
const LEAST_SIZED: u64 = 16;
/// Widths of an offset.
const OFFSET_BYTES: std::ops::RangeInclusive<u8> = 4..=7;

/// Where the records lie.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum SealedForm {
    /// In the slots: fixed sizes only, unless each key has one slot ([`SlotOrder::Perfect`]).
    Inline,
    /// In a heap behind them; a slot has a signature and an offset.
    OutOfBand,
}

/// Where keys stand, and in which order those that are in each other's way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub enum SlotOrder {
    /// That of the builder's records: plain linear probing (paper 000).
    Arrival,
    /// That of their hashes: misses end as early as hits do.
    #[default]
    ByHash,
    /// None is in another's way: each has one slot, which a perfect hash function names that every
    /// client keeps. Unique keys only.
    Perfect,
}

/// The load factor unless another is asked for, of tables that are probed.
const LOAD_FACTOR: f64 = 0.9;
/// Records of variable size of up to so many bytes are inline in a table with one slot a key, whose
/// slots all have room for the longest, unless more is known of them.
const LONGEST_UNKNOWN: usize = 64;

/// What a sealed table shall be.
#[derive(Clone, Debug, PartialEq)]
pub struct SealedOptions {
    /// How much it shall hold; the load factor is records per home slot, 0.9 unless told otherwise,
    /// or 0.99, and at most 0.995, with a perfect hash function.
    /// The heap is for records of variable size out of band: each takes the bytes of its key and
    /// its value and 8 more, rounded up to a multiple of 8; it is not looked at otherwise.
    pub sizing: Sizing,
    /// Where the records lie; by default inline, if they have fixed sizes of at most 32 bytes
    /// together.
    pub form: Option<SealedForm>,
    /// Bytes of an offset, 4 to 7; by default the fewest that reach all of the heap.
    pub offset_bytes: Option<u8>,
    /// In which order keys stand.
    pub order: SlotOrder,
    /// Whether clients also keep a filter, 9 bits a key, so that all but one in 256 lookups of
    /// absent keys read nothing: only with a perfect hash function.
    pub filter: bool,
}

/// What is known of records of variable size when a table is made for them.
#[derive(Clone, Copy)]
struct RecordTotals {
    /// Bytes of the longest, lengths included, and of all.
    longest: u64,
    all: u64,
    count: u64,
}

impl SealedOptions {
    /// Options for a table of that size, in the order of the hashes.
    #[must_use]
    pub fn new(sizing: Sizing) -> Self {
        Self {
            sizing,
            form: None,
            offset_bytes: None,
            order: SlotOrder::default(),
            filter: false,
        }
    }

    /// The same with one slot for each key, which a perfect hash function names that clients keep:
    /// [`SlotOrder::Perfect`].
    #[must_use]
    pub fn perfect(self) -> Self {
        Self {
            order: SlotOrder::Perfect,
            ..self
        }
    }

    /// The same for so many records, with so many bytes of heap.
    #[must_use]
    pub fn holding(&self, records: u64, heap_bytes: u64) -> Self {
        Self {
            sizing: Sizing {
                capacity: records,
                heap_bytes: Some(heap_bytes),
                ..self.sizing
            },
            ..self.clone()
        }
    }

    /// The layout for exactly these records: the smallest with this load factor in which they have
    /// room, whatever their hashes are. To be preferred to [`SealedOptions::layout`] where the
    /// records are at hand. Takes 4 bytes of local memory for each home slot.
    ///
    /// # Errors
    /// [`BadOption`](crate::IndexError::BadOption), or a key or value that does not fit.
    pub fn layout_for(&self, records: &[(&[u8], &[u8])]) -> Result<SealedLayout> {
        self.sizing.shape().check_all(records)?;
        let sizes = records
            .iter()
            .map(|(key, value)| record::bytes(key.len(), value.len()) as u64);
        let known = RecordTotals {
            longest: sizes.clone().max().unwrap_or(0),
            all: sizes.sum(),
            count: records.len() as u64,
        };
        let options = self.holding(known.count, known.all);
        if self.order == SlotOrder::Perfect {
            return options.perfect_layout(Some(known));
        }
        let mut layout = options.layout()?;
        let hashes = records.iter().map(|(key, _)| self.sizing.hasher.hash(key));
        let slots = last_overflow(hashes, layout.homes).max(layout.homes);
        layout.slots = check_slots(slots)?;
        Ok(layout)
    }

    /// The layout for records that are not known yet.
    ///
    /// Behind the last home there are 64 slots and the smaller of 32 / (1 - load factor) and 8
    /// times the square root of the records, but no more than there are records: at load 0.9, 0.04
    /// % of a table of a million slots. Different keys that hash well overflow that with a
    /// probability below 10^-12; then building says [`Full`](crate::IndexError::Full). So it may
    /// for keys of very many records.
    ///
    /// # Errors
    /// [`BadOption`](crate::IndexError::BadOption) names the option, its value and what is
    /// possible.
    pub fn layout(&self) -> Result<SealedLayout> {
        if self.order == SlotOrder::Perfect {
            return self.perfect_layout(None);
        }
        if self.filter {
            let limit = "only with a perfect hash function";
            return Err(bad_option("filter", self.filter, limit));
        }
        let sizing = &self.sizing;
        let (records, shape) = (sizing.capacity, sizing.shape());
        sizing.hasher.check(sizing.key)?;
        let form = self.form.unwrap_or_else(|| match shape.suitable_kind() {
            SlotKind::Heap => SealedForm::OutOfBand,
            _ => SealedForm::Inline,
        });
        let homes = sizing.slots_for(records.max(1), LOAD_FACTOR)?;
        let ample = 32.0 / (1.0 - sizing.load_factor.unwrap_or(LOAD_FACTOR)).max(f64::MIN_POSITIVE);
        let ample = 64.0 + ample.min(8.0 * (records as f64).sqrt());
        let slots = check_slots(homes + records.min(ample as u64))?;
        self.with_heap(SealedLayout {
            slots,
            ..self.without_heap(form, homes)
        })
    }

    /// The layout of a table with one slot for each key.
    fn perfect_layout(&self, known: Option<RecordTotals>) -> Result<SealedLayout> {
        let sizing = &self.sizing;
        sizing.unique_keys("sealed (with a perfect hash function)")?;
        if !matches!(sizing.hasher, Hasher::Xxh3 { .. }) {
            let limit = "only xxh3 with a perfect hash function";
            return Err(bad_option("hash", format!("{:?}", sizing.hasher), limit));
        }
        let load_factor = sizing.load_factor.unwrap_or(perfect::LOAD_FACTOR);
        if load_factor > perfect::MOST_LOAD {
            let limit = format!(
                "at most {} with a perfect hash function",
                perfect::MOST_LOAD
            );
            return Err(bad_option("load factor", load_factor, limit));
        }
        let records = sizing.capacity;
        let slots = check_slots(sizing.slots_for(records.max(1), perfect::LOAD_FACTOR)?)?;
        let mut shape = PerfectShape::new(records, self.filter);
        let longest = record::bytes(sizing.key.most(), sizing.value.most());
        let form = match (sizing.key, sizing.value, known) {
            (FieldSize::Fixed(key), FieldSize::Fixed(value), _) => {
                let bytes = u64::from(key) + u64::from(value);
                form_for(bytes <= LARGEST_INLINE as u64)
            }
            // Half of the slots' bytes at least are records.
            (.., Some(known)) => {
                let most = known.longest.saturating_mul(known.count);
                let is_short = known.longest <= LARGEST_INLINE as u64;
                form_for(is_short && most / 2 <= known.all)
            }
            (.., None) => form_for(longest <= LONGEST_UNKNOWN),
        };
        let form = self.form.unwrap_or(form);
        let is_sized = !matches!(
            (sizing.key, sizing.value),
            (FieldSize::Fixed(_), FieldSize::Fixed(_))
        );
        if form == SealedForm::Inline && is_sized {
            let longest = known.map_or(longest as u64, |known| known.longest);
            shape.slot_bytes = u32::try_from(longest.max(LEAST_SIZED)).unwrap_or(u32::MAX);
        }
        self.with_heap(SealedLayout {
            perfect: Some(shape),
            ..self.without_heap(form, slots)
        })
    }

    /// The layout of a table with so many homes, and no other slots and no heap yet.
    fn without_heap(&self, form: SealedForm, homes: u64) -> SealedLayout {
        let sizing = &self.sizing;
        SealedLayout {
            form,
            offset_bytes: 0,
            order: self.order,
            homes,
            slots: homes,
            key: sizing.key,
            value: sizing.value,
            keys: sizing.keys,
            hasher: sizing.hasher,
            mask_seed: sizing.seed,
            heap_bytes: 0,
            perfect: None,
        }
    }

    /// The layout with its heap, checked.
    fn with_heap(&self, mut layout: SealedLayout) -> Result<SealedLayout> {
        let (sizing, records) = (&self.sizing, self.sizing.capacity);
        if layout.form == SealedForm::OutOfBand {
            layout.heap_bytes = match layout.record_bytes() {
                Some(bytes) => records.saturating_mul(bytes as u64),
                None => match sizing.heap_bytes {
                    Some(asked) => asked.div_ceil(8).saturating_mul(8),
                    None => {
                        let longest = record::bytes(sizing.key.most(), sizing.value.most());
                        records.saturating_mul(longest as u64)
                    }
                },
            };
            layout.offset_bytes = match self.offset_bytes {
                Some(asked) => asked,
                None => narrowest(layout.heap_units()),
            };
        }
        layout.check()?;
        Ok(layout)
    }
}

fn form_for(is_inline: bool) -> SealedForm {
    match is_inline {
        true => SealedForm::Inline,
        false => SealedForm::OutOfBand,
    }
}

fn check_slots(slots: u64) -> Result<u64> {
    if slots <= MOST_SLOTS {
        return Ok(slots);
    }
    Err(bad_option("slots", slots, format!("at most {MOST_SLOTS}")))
}

/// The bytes of the highest offset.
fn narrowest(units: u64) -> u8 {
    let bits = u64::BITS - units.leading_zeros();
    (bits.div_ceil(8) as u8).max(*OFFSET_BYTES.start())
}

/// All that a client must know of a sealed table: kept in the catalog.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SealedLayout {
    /// Where the records lie.
    pub form: SealedForm,
    /// Bytes of an offset; 0 if there is none.
    pub offset_bytes: u8,
    /// In which order keys stand.
    pub order: SlotOrder,
    /// Slots that are a home.
    pub homes: u64,
    /// All slots: the homes, and those behind the last.
    pub slots: u64,
    /// The size of the keys.
    pub key: FieldSize,
    /// The size of the values.
    pub value: FieldSize,
    /// How many records a key may have.
    pub keys: KeyRule,
    /// From a key to its home slot.
    pub hasher: Hasher,
    /// Where the builder begins to look for the mask.
    pub mask_seed: u64,
    /// Bytes of heap.
    pub heap_bytes: u64,
    /// The perfect hash function of a table with one slot for each key ([`SlotOrder::Perfect`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub perfect: Option<PerfectShape>,
}

impl SealedLayout {
    /// Refuses a layout that no options give: one that was not made by this crate, or was damaged.
    /// Whoever takes a layout from remote memory calls this first: the sizes that derive from one
    /// that passes do not overflow.
    ///
    /// # Errors
    /// [`BadOption`](crate::IndexError::BadOption) names the field, its value and what is possible.
    pub fn check(&self) -> Result<()> {
        let (key, value) = (self.key.most(), self.value.most());
        if key == 0 {
            return Err(bad_option("key size", 0, "at least 1 byte"));
        }
        self.check_perfect()?;
        let (record, largest) = match (self.form, self.record_bytes()) {
            (SealedForm::Inline, None) if self.perfect.is_some() => {
                (self.slot_bytes(), LARGEST_INLINE)
            }
            (SealedForm::Inline, None) => {
                return Err(bad_option(
                    "form",
                    "Inline",
                    "only for keys and values of fixed sizes",
                ));
            }
            (SealedForm::Inline, Some(bytes)) => (bytes, LARGEST_INLINE),
            (SealedForm::OutOfBand, Some(bytes)) => (bytes, LARGEST_RECORD),
            (SealedForm::OutOfBand, None) => (record::bytes(key, value), LARGEST_RECORD),
        };
        if record > largest {
            let limit = format!("at most {largest} bytes in all, lengths included");
            return Err(bad_option("key and value size", record, limit));
        }
        self.hasher.check(self.key)?;
        check_slots(self.slots)?;
        if !(1..=self.slots).contains(&self.homes) {
            let limit = format!("1 to {} slots", self.slots);
            return Err(bad_option("homes", self.homes, limit));
        }
        self.check_offsets()
    }

    fn check_perfect(&self) -> Result<()> {
        let is_perfect = self.order == SlotOrder::Perfect;
        let Some(shape) = &self.perfect else {
            let refused = bad_option("order", "Perfect", "only with a perfect hash function");
            return if is_perfect { Err(refused) } else { Ok(()) };
        };
        if !is_perfect || self.homes != self.slots || self.keys != KeyRule::Unique {
            let limit = "only where each key has one slot";
            return Err(bad_option("perfect hash function", "there is one", limit));
        }
        let bytes = shape.slot_bytes;
        let is_sized = self.form == SealedForm::Inline && self.record_bytes().is_none();
        let is_right = match is_sized {
            true => u64::from(bytes) >= LEAST_SIZED && bytes.is_multiple_of(8),
            false => bytes == 0,
        };
        if !is_right {
            let limit = "a multiple of 8 for inline records of variable size, else 0";
            return Err(bad_option("slot bytes", bytes, limit));
        }
        shape.check(self.slots)
    }

    fn check_offsets(&self) -> Result<()> {
        if self.form == SealedForm::Inline {
            if self.offset_bytes == 0 && self.heap_bytes == 0 {
                return Ok(());
            }
            return Err(bad_option(
                "offset bytes",
                self.offset_bytes,
                "0, and no heap, for inline records",
            ));
        }
        if !OFFSET_BYTES.contains(&self.offset_bytes) {
            return Err(bad_option("offset bytes", self.offset_bytes, "4 to 7"));
        }
        let most = u64::MAX >> (64 - 8 * u32::from(self.offset_bytes));
        if self.heap_units() > most {
            let limit = format!("{} reach {most} records or units only", self.offset_bytes);
            return Err(bad_option("heap bytes", self.heap_bytes, limit));
        }
        Ok(())
    }

    /// Bytes of one slot, any number.
    #[inline]
    #[must_use]
    pub const fn slot_bytes(&self) -> usize {
        match self.form {
            SealedForm::Inline => match (self.record_bytes(), &self.perfect) {
                (None, Some(shape)) => shape.slot_bytes as usize,
                _ => self.key.most().saturating_add(self.value.most()),
            },
            SealedForm::OutOfBand => self.out_format().bytes(),
        }
    }

    /// Bytes of remote memory that the whole table takes. A fresh table is all zeros.
    #[must_use]
    pub fn table_bytes(&self) -> u128 {
        let Some(shape) = &self.perfect else {
            return self.map().bytes();
        };
        self.map().bytes().next_multiple_of(8) + u128::from(shape.bytes())
    }

    /// Bytes of memory that a client of a table with a perfect hash function keeps of it; 0
    /// without.
    #[must_use]
    pub fn client_bytes(&self) -> u64 {
        self.perfect.map_or(0, |shape| shape.bytes())
    }

    /// The address of the perfect hash function.
    pub(super) fn function_at(&self, table: RemoteAddr) -> RemoteAddr {
        table.plus(self.map().bytes().next_multiple_of(8) as u64)
    }

    #[inline]
    fn map(&self) -> TableMap {
        TableMap {
            slots: self.slots,
            slot_bytes: self.slot_bytes(),
            heap_bytes: self.heap_bytes,
            segment: 0,
        }
    }

    /// Bytes of each record out of band, where all have the same size.
    #[inline]
    pub(super) const fn record_bytes(&self) -> Option<usize> {
        match (self.key, self.value) {
            (FieldSize::Fixed(key), FieldSize::Fixed(value)) => {
                Some((key as usize).saturating_add(value as usize))
            }
            _ => None,
        }
    }

    /// Bytes that an offset counts.
    #[inline]
    pub(super) const fn unit_bytes(&self) -> u64 {
        match self.record_bytes() {
            // A key of no bytes is refused elsewhere.
            Some(0) => 1,
            Some(bytes) => bytes as u64,
            None => record::UNIT as u64,
        }
    }

    const fn heap_units(&self) -> u64 {
        self.heap_bytes / self.unit_bytes()
    }

    #[inline]
    pub(super) const fn out_format(&self) -> OutFormat {
        OutFormat {
            ordered: matches!(self.order, SlotOrder::ByHash),
            sized: self.record_bytes().is_none(),
            offset_bytes: self.offset_bytes as usize,
        }
    }

    #[inline]
    pub(super) fn slot_at(&self, table: RemoteAddr, slot: u64) -> RemoteAddr {
        self.map().slot_at(table, slot)
    }

    /// The address of a unit of the heap; the first is number 0.
    #[inline]
    pub(super) fn unit_at(&self, table: RemoteAddr, unit: u64) -> RemoteAddr {
        let heap = self.map().heap_at(table);
        heap.plus(unit.wrapping_mul(self.unit_bytes()))
    }

    pub(super) fn shape(&self) -> RecordShape {
        RecordShape::new(self.key, self.value)
    }
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
