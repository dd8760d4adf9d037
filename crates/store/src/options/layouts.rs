//! From what is asked for to the layout of a scheme.

use super::{HashKind, Organisation, TableOptions};
use crate::error::bad_option;
use crate::owned::layout::OwnedTableShape;
use crate::set::layout::SetSizing;
use crate::shapes::{CuckooShape, DuoShape, RaceShape};
use crate::{OnRestart, Result};
use farslot_index::cuckoo::{CuckooLayout, CuckooOptions};
use farslot_index::duo::{DuoLayout, DuoOptions};
use farslot_index::linear::{LinearLayout, LinearOptions};
use farslot_index::race::{RaceLayout, RaceOptions};
use farslot_index::sealed::{SealedForm, SealedLayout, SealedOptions, SlotOrder};
use farslot_index::{FieldSize, Hasher, KeyRule, Record, Sizing, SlotKind};
use std::ops::RangeInclusive;

/// The most slots of a subtable of a table whose memory comes from a pool.
const SUBTABLE_SLOTS: u64 = 1024;

impl TableOptions {
    /// What becomes of the keys of a node that came back empty, in a table over several nodes: they
    /// are lost and fail, unless it is said here that a loss is fine, as it may be in a cache.
    ///
    /// ```
    /// # use farslot::{OnRestart, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let store = Store::open("sim://cx5-edr?seed=7&memory=8MiB&nodes=3")?;
    /// let pages = TableOptions::new(1_000).on_restart(OnRestart::Recreate);
    /// store.create("pages", &pages)?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn on_restart(mut self, on_restart: OnRestart) -> Self {
        self.on_restart = on_restart;
        self
    }

    pub(super) fn sealed_for(&self, records: &[Record<'_>]) -> Result<SealedLayout> {
        Ok(self.sealed_options()?.layout_for(records)?)
    }

    /// Refuses growth where tables do not grow.
    pub(super) fn no_growth(&self) -> Result<()> {
        match self.most_capacity {
            None => Ok(()),
            Some(most) => {
                let limit = "of RACE, CuckooDuo and chained tables";
                Err(bad_option("capacity to grow to", most, limit))
            }
        }
    }

    /// Refuses buckets that are too small or too large, and a load factor at which tables of such
    /// buckets are full.
    fn check_buckets(
        &self,
        bucket_slots: u32,
        range: RangeInclusive<u32>,
        limit: f64,
    ) -> Result<()> {
        if !range.contains(&bucket_slots) {
            let limit = format!("{} to {}", range.start(), range.end());
            return Err(bad_option("bucket slots", bucket_slots, limit));
        }
        match self.sizing.load_factor {
            Some(load_factor) if load_factor > limit => {
                let limit = format!("at most {limit} with buckets of {bucket_slots}");
                Err(bad_option("load factor", load_factor, limit))
            }
            _ => Ok(()),
        }
    }

    /// Refuses the room in slots where only linear tables have it.
    fn no_inline_bytes(&self) -> Result<()> {
        match self.inline_bytes {
            None => Ok(()),
            Some(bytes) => Err(bad_option("inline bytes", bytes, "for Hybrid slots only")),
        }
    }

    pub(super) fn sealed_options(&self) -> Result<SealedOptions> {
        self.no_growth()?;
        self.no_inline_bytes()?;
        let form = match self.slot {
            None => None,
            Some(SlotKind::Inline) => Some(SealedForm::Inline),
            Some(SlotKind::Heap) => Some(SealedForm::OutOfBand),
            Some(other) => {
                let limit = "Inline or Heap in a sealed table";
                return Err(bad_option("slot", format!("{other:?}"), limit));
            }
        };
        let (order, filter) = match self.organisation {
            Organisation::Sealed {
                is_perfect: true,
                has_filter,
            } => (SlotOrder::Perfect, has_filter),
            _ => (SlotOrder::ByHash, false),
        };
        Ok(SealedOptions {
            form,
            order,
            filter,
            ..SealedOptions::new(self.of_a_new_table())
        })
    }

    /// Bytes of the largest record out of band.
    pub(super) const fn largest_record(&self) -> u64 {
        (self.sizing.key.most() + self.sizing.value.most() + 8).next_multiple_of(8) as u64
    }

    pub(super) fn linear(&self) -> Result<LinearLayout> {
        self.no_growth()?;
        let options = LinearOptions {
            sizing: self.of_a_new_table(),
            slot: self.slot,
            inline_bytes: self.inline_bytes,
        };
        Ok(options.layout()?)
    }

    pub(super) fn cuckoo_layout(&self, shape: CuckooShape) -> Result<CuckooLayout> {
        self.no_growth()?;
        self.no_inline_bytes()?;
        let load_factor = self.sizing.load_factor.unwrap_or(shape.load_factor());
        if let Some(limit) = shape.limit().filter(|limit| load_factor > *limit) {
            let CuckooShape { ways, bucket_slots } = shape;
            let limit = format!("at most {limit} with {ways} ways and buckets of {bucket_slots}");
            return Err(bad_option("load factor", load_factor, limit));
        }
        let options = CuckooOptions {
            sizing: Sizing {
                load_factor: Some(load_factor),
                ..self.of_a_new_table()
            },
            ways: shape.ways,
            bucket_slots: shape.bucket_slots,
            slot: self.slot,
        };
        Ok(options.layout()?)
    }

    pub(super) fn duo_layout(&self, shape: DuoShape) -> Result<DuoLayout> {
        self.no_inline_bytes()?;
        self.check_buckets(shape.bucket_slots, 4..=16, shape.limit())?;
        let sizing = self.of_a_new_table();
        let options = DuoOptions {
            most_capacity: self.most_capacity,
            slot: self.slot.unwrap_or_else(|| self.duo_slot()),
            bucket_slots: shape.bucket_slots,
            fingerprint_bits: shape.fingerprint_bits,
            readers: shape.readers,
            ..DuoOptions::new(Sizing {
                load_factor: sizing.load_factor.or(Some(shape.load_factor())),
                ..sizing
            })
        };
        Ok(options.layout()?)
    }

    /// What suits the sizes: records in the slots where these are small, or of one length and not
    /// large. A lookup reads its whole slot, whose room is that of the longest record.
    const fn duo_slot(&self) -> SlotKind {
        let fixed = matches!(
            (self.sizing.key, self.sizing.value),
            (FieldSize::Fixed(_), FieldSize::Fixed(_))
        );
        let longest = self.sizing.key.most();
        let longest = longest.saturating_add(self.sizing.value.most());
        match longest {
            ..=64 => SlotKind::Inline,
            65..=256 if fixed => SlotKind::Inline,
            _ => SlotKind::Heap,
        }
    }

    pub(super) fn race_layout(&self, shape: RaceShape) -> Result<RaceLayout> {
        self.no_inline_bytes()?;
        self.check_buckets(shape.bucket_slots, 4..=32, shape.limit())?;
        if let Some(slot) = self.slot.filter(|slot| *slot != SlotKind::Heap) {
            return Err(bad_option(
                "slot",
                format!("{slot:?}"),
                "Heap in a RACE table",
            ));
        }
        let sizing = self.of_a_new_table();
        let group_slots = 3 * u64::from(shape.bucket_slots);
        let options = RaceOptions {
            most_capacity: self.most_capacity,
            bucket_slots: shape.bucket_slots,
            // None lies in two segments.
            subtable_slots: (self.is_pooled()).then(|| SUBTABLE_SLOTS / group_slots * group_slots),
            ..RaceOptions::new(Sizing {
                load_factor: sizing.load_factor.or(Some(shape.load_factor())),
                ..sizing
            })
        };
        Ok(options.layout()?)
    }

    /// What is wanted of a set.
    pub(super) fn set_sizing(&self) -> Result<SetSizing> {
        self.no_growth()?;
        self.no_inline_bytes()?;
        self.unique_keys()?;
        Ok(SetSizing {
            key: self.sizing.key,
            value: self.sizing.value,
            capacity: self.sizing.capacity,
            load_factor: self.sizing.load_factor,
            slot: self.slot,
            heap_bytes: self.sizing.heap_bytes,
            seed: self.seed.unwrap_or_else(rand::random),
        })
    }

    /// Refuses several records of a key.
    fn unique_keys(&self) -> Result<()> {
        match self.sizing.keys {
            KeyRule::Unique => Ok(()),
            KeyRule::Multi => {
                let limit = "in linear, cuckoo and sealed tables";
                Err(bad_option("several records of a key", "asked for", limit))
            }
        }
    }

    /// What is wanted of a table that the owner of the memory writes.
    pub(super) fn owned(&self) -> Result<OwnedTableShape> {
        self.no_inline_bytes()?;
        if let Some(slot) = self.slot {
            let limit = "for tables whose clients write";
            return Err(bad_option("slot", format!("{slot:?}"), limit));
        }
        if let Some(bytes) = self.sizing.heap_bytes {
            return Err(bad_option("heap bytes", bytes, "for tables with a heap"));
        }
        self.unique_keys()?;
        Ok(OwnedTableShape {
            key: self.sizing.key,
            value: self.sizing.value,
            capacity: self.sizing.capacity,
            most_capacity: self.most_capacity,
            seed: self.seed.unwrap_or_else(rand::random),
        })
    }

    /// The sizing with the seed and the hash function of a table that is made now.
    fn of_a_new_table(&self) -> Sizing {
        let seed = self.seed.unwrap_or_else(rand::random);
        Sizing {
            hasher: match self.hash {
                HashKind::Xxh3 => Hasher::Xxh3 { seed },
                HashKind::Knuth => Hasher::Knuth,
            },
            seed,
            ..self.sizing
        }
    }
}
