//! The bytes of a linear table, and the options that decide them.

use crate::Sizing;
use crate::slot::{KeyRule, RecordShape, SlotKind, bad_option, inline_bytes, slots_for};
use crate::table_map::TableMap;
use crate::{FieldSize, Hasher, Result};
use farslot_fabric::RemoteAddr;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// No key is ever further from its home slot than this.
const LONGEST_PROBE: u64 = 1 << 16;

/// The load factor unless another is asked for.
pub(super) const LOAD_FACTOR: f64 = 0.75;

/// What a linear table shall be. Everything but the capacity and the sizes has a default.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearOptions {
    /// How much it shall hold: 3/4 full unless told otherwise. By default, its heap has room for
    /// an eighth of the records where values outgrow inline slots.
    pub sizing: Sizing,
    /// What its slots hold; by default what suits the sizes.
    pub slot: Option<SlotKind>,
    /// Bytes of key and value that a Hybrid slot has room for: a multiple of 8 up to 1024, by
    /// default
    /// 32. Only for Hybrid slots.
    pub inline_bytes: Option<u32>,
}

impl LinearOptions {
    /// Options for a table of that size.
    #[must_use]
    pub const fn new(sizing: Sizing) -> Self {
        Self {
            sizing,
            slot: None,
            inline_bytes: None,
        }
    }

    /// The layout that these options ask for.
    ///
    /// # Errors
    /// [`BadOption`](crate::IndexError::BadOption) names the option, its value and what is
    /// possible.
    pub fn layout(&self) -> Result<LinearLayout> {
        let sizing = &self.sizing;
        let slots = sizing.slots_for(sizing.capacity, LOAD_FACTOR)?;
        let shape = sizing.shape();
        let kind = self.slot.unwrap_or_else(|| shape.suitable_kind());
        shape.check(kind)?;
        check_kind(kind)?;
        sizing.hasher.check(sizing.key)?;
        // Heads of removed keys stand for them by their hash alone, which Knuth's is too weak for.
        if sizing.hasher == Hasher::Knuth && kind.has_heads() {
            return Err(bad_option("hash", "knuth", "only for Word and Pair slots"));
        }
        Ok(LinearLayout {
            kind,
            inline_bytes: inline_bytes(kind, self.inline_bytes)?,
            slots,
            key: sizing.key,
            value: sizing.value,
            keys: sizing.keys,
            hasher: sizing.hasher,
            mask_seed: sizing.seed,
            longest_probe: slots.min(LONGEST_PROBE),
            heap_bytes: shape.heap_bytes(kind, sizing.capacity, sizing.heap_bytes)?,
            expiring: false,
        })
    }
}

/// Refuses slots that only other schemes have.
fn check_kind(kind: SlotKind) -> Result<()> {
    if kind == SlotKind::Signatures {
        let limit = "only cuckoo tables have buckets of signatures";
        return Err(bad_option("slot", "Signatures", limit));
    }
    Ok(())
}

/// All that a client must know of a table: kept in the catalog.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinearLayout {
    /// What a slot holds.
    pub kind: SlotKind,
    /// Bytes of key and value that a Hybrid slot has room for; 0 of other kinds.
    #[serde(default)]
    pub inline_bytes: u32,
    /// How many there are.
    pub slots: u64,
    /// The size of the keys.
    pub key: FieldSize,
    /// The size of the values.
    pub value: FieldSize,
    /// How many records a key may have.
    pub keys: KeyRule,
    /// From a key to its home slot.
    pub hasher: Hasher,
    /// What the masks of Word and Pair slots derive from.
    pub mask_seed: u64,
    /// No key is further from its home than this many slots.
    pub longest_probe: u64,
    /// Bytes of heap.
    pub heap_bytes: u64,
    /// Whether each value begins with the moment at which its record expires: the layer above
    /// writes and reads that. The index has records that have ended make room for others in
    /// its heap.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expiring: bool,
}

impl LinearLayout {
    /// Refuses a layout that no options give: one that was not made by this crate, or was damaged.
    /// Whoever takes a layout from remote memory calls this first: the sizes that derive from one
    /// that passes do not overflow.
    ///
    /// # Errors
    /// [`BadOption`](crate::IndexError::BadOption) names the field, its value and what is possible.
    pub fn check(&self) -> Result<()> {
        self.shape().check(self.kind)?;
        inline_bytes(self.kind, Some(self.inline_bytes))?;
        check_kind(self.kind)?;
        self.hasher.check(self.key)?;
        slots_for(self.slots, 1.0)?;
        if !(1..=self.slots).contains(&self.longest_probe) {
            let limit = format!("1 to {} slots", self.slots);
            return Err(bad_option("longest probe", self.longest_probe, limit));
        }
        Ok(())
    }

    /// Bytes of one slot, a multiple of 8.
    #[inline]
    #[must_use]
    pub const fn slot_bytes(&self) -> usize {
        match self.kind {
            SlotKind::Word | SlotKind::Heap | SlotKind::Signatures => 8,
            SlotKind::Pair => 16,
            SlotKind::Inline => 8 + (self.key.most() + self.value.most()).next_multiple_of(8),
            SlotKind::Hybrid => 8 + self.inline_bytes as usize,
        }
    }

    /// Whether the first record of a slot goes out of band, if key and value have so many bytes
    /// together. Every later one does, in tables that have a heap.
    #[inline]
    pub(super) const fn goes_out(&self, record_bytes: usize) -> bool {
        match self.kind {
            SlotKind::Word | SlotKind::Pair | SlotKind::Inline => false,
            SlotKind::Heap | SlotKind::Signatures => true,
            SlotKind::Hybrid => record_bytes > self.inline_bytes as usize,
        }
    }

    /// Bytes from the table's start that its clients may have written, where the mark of its heap
    /// is `heap_mark`: what must be zeros again before another table can lie there.
    #[must_use]
    pub fn written(&self, heap_mark: u64) -> Vec<Range<u64>> {
        self.map().written(heap_mark).into()
    }

    /// Bytes of remote memory that the whole table takes. A fresh table is all zeros.
    #[must_use]
    pub fn table_bytes(&self) -> u128 {
        self.map().bytes()
    }

    /// Where its parts lie.
    #[inline]
    pub(super) fn map(&self) -> TableMap {
        TableMap {
            slots: self.slots,
            slot_bytes: self.slot_bytes(),
            heap_bytes: self.heap_bytes,
            segment: 0,
        }
    }

    #[inline]
    pub(super) fn slot_at(&self, table: RemoteAddr, slot: u64) -> RemoteAddr {
        self.map().slot_at(table, slot)
    }

    /// [`LinearLayout::slot_bytes`] of the table's kind, for a compiler that knows the kind.
    #[inline(always)]
    pub(super) const fn slot_bytes_of(&self, kind: SlotKind) -> usize {
        match kind {
            SlotKind::Pair => 16,
            _ => self.slot_bytes(),
        }
    }

    /// [`LinearLayout::slot_at`] likewise.
    #[inline(always)]
    pub(super) fn slot_at_of(&self, kind: SlotKind, table: RemoteAddr, slot: u64) -> RemoteAddr {
        let map = TableMap {
            slots: self.slots,
            slot_bytes: self.slot_bytes_of(kind),
            heap_bytes: self.heap_bytes,
            segment: 0,
        };
        map.slot_at(table, slot)
    }

    /// The sizes of the records.
    pub(super) fn shape(&self) -> RecordShape {
        RecordShape::new(self.key, self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IndexError;

    #[test]
    fn options_that_no_table_can_have_are_named() {
        let fixed = |key, value| {
            LinearOptions::new(Sizing::new(
                100,
                FieldSize::Fixed(key),
                FieldSize::Fixed(value),
                1,
            ))
        };
        let hybrid = |bytes| LinearOptions {
            slot: Some(SlotKind::Hybrid),
            inline_bytes: Some(bytes),
            ..fixed(8, 8)
        };
        let options: [(&str, LinearOptions); 13] = [
            (
                "capacity",
                LinearOptions {
                    sizing: Sizing {
                        capacity: 0,
                        ..fixed(8, 8).sizing
                    },
                    ..fixed(8, 8)
                },
            ),
            (
                "capacity",
                LinearOptions {
                    sizing: Sizing {
                        capacity: u64::MAX,
                        ..fixed(8, 8).sizing
                    },
                    ..fixed(8, 8)
                },
            ),
            (
                "load factor",
                LinearOptions {
                    sizing: Sizing {
                        load_factor: Some(f64::NAN),
                        ..fixed(8, 8).sizing
                    },
                    ..fixed(8, 8)
                },
            ),
            (
                "load factor",
                LinearOptions {
                    sizing: Sizing {
                        load_factor: Some(1.5),
                        ..fixed(8, 8).sizing
                    },
                    ..fixed(8, 8)
                },
            ),
            ("key size", fixed(0, 8)),
            (
                "slot",
                LinearOptions {
                    slot: Some(SlotKind::Word),
                    ..fixed(8, 1)
                },
            ),
            (
                "hash",
                LinearOptions {
                    sizing: Sizing {
                        hasher: Hasher::Knuth,
                        ..fixed(9, 8).sizing
                    },
                    ..fixed(9, 8)
                },
            ),
            ("key and value size", fixed(8, u32::MAX)),
            ("inline bytes", hybrid(0)),
            ("inline bytes", hybrid(12)),
            ("inline bytes", hybrid(1032)),
            ("inline bytes", hybrid(u32::MAX)),
            (
                "inline bytes",
                LinearOptions {
                    slot: Some(SlotKind::Heap),
                    ..hybrid(32)
                },
            ),
        ];
        for (named, options) in options {
            match options.layout() {
                Err(IndexError::BadOption { option, .. }) => assert_eq!(option, named),
                other => panic!("{named}: {other:?}"),
            }
        }
    }

    #[test]
    fn knuths_hash_is_for_slots_that_keep_their_keys() {
        let knuth = |kind| LinearOptions {
            slot: Some(kind),
            ..LinearOptions::new(Sizing {
                hasher: Hasher::Knuth,
                ..Sizing::new(9, FieldSize::Fixed(4), FieldSize::Fixed(3), 1)
            })
        };
        for kind in [SlotKind::Word, SlotKind::Pair] {
            assert!(knuth(kind).layout().is_ok());
        }
        for kind in [SlotKind::Inline, SlotKind::Heap, SlotKind::Hybrid] {
            assert!(matches!(
                knuth(kind).layout(),
                Err(IndexError::BadOption { option: "hash", .. })
            ));
        }
    }

    #[test]
    fn a_layout_that_no_options_give_is_refused() {
        let good = LinearOptions::new(Sizing::new(9, FieldSize::Fixed(8), FieldSize::Fixed(8), 1))
            .layout()
            .unwrap();
        assert!(good.check().is_ok());
        let bad = [
            LinearLayout {
                key: FieldSize::Fixed(9),
                ..good.clone()
            },
            LinearLayout {
                slots: 0,
                ..good.clone()
            },
            LinearLayout {
                longest_probe: 0,
                ..good.clone()
            },
            LinearLayout {
                longest_probe: good.slots + 1,
                ..good.clone()
            },
            LinearLayout {
                kind: SlotKind::Hybrid,
                ..good.clone()
            },
            LinearLayout {
                inline_bytes: 8,
                ..good
            },
        ];
        for layout in bad {
            assert!(layout.check().is_err(), "{layout:?}");
        }
    }

    #[test]
    fn hybrid_slots_have_the_room_that_was_asked_for() {
        let hybrid = |inline_bytes| {
            let options = LinearOptions {
                slot: Some(SlotKind::Hybrid),
                inline_bytes,
                ..LinearOptions::new(Sizing::new(
                    9,
                    FieldSize::UpTo(99),
                    FieldSize::UpTo(9999),
                    1,
                ))
            };
            options.layout().unwrap()
        };
        for (asked, bytes) in [(None, 32), (Some(8), 8), (Some(1024), 1024)] {
            let layout = hybrid(asked);
            assert!(layout.check().is_ok());
            assert_eq!(layout.slot_bytes(), 8 + bytes);
            assert!(!layout.goes_out(bytes) && layout.goes_out(bytes + 1));
        }
    }

    #[test]
    fn sizes_choose_the_slot() {
        let kind = |key, value| {
            LinearOptions::new(Sizing::new(9, key, value, 1))
                .layout()
                .unwrap()
                .kind
        };
        let (fixed, up_to) = (FieldSize::Fixed, FieldSize::UpTo);
        assert_eq!(kind(fixed(8), fixed(8)), SlotKind::Pair);
        assert_eq!(kind(fixed(8), fixed(24)), SlotKind::Inline);
        assert_eq!(kind(fixed(8), fixed(100)), SlotKind::Heap);
        assert_eq!(kind(up_to(8), fixed(8)), SlotKind::Heap);
    }
}
