//! Which records of a hybrid table stand in its slots: the model's choice, for records whose sizes
//! are known in proportion.

use super::layout::{LOAD_FACTOR, LinearOptions};
use crate::heap;
use crate::read_policy::{LONGEST_READ, refused};
use crate::slot::{MOST_SIZED, SlotKind, bad_option, slots_for};
use crate::{Result, Sizing};
use farslot_model::{
    HybridPrices, HybridShape, InlineCandidate, ModelError, NicModel, Objective, RecordSize,
    TableLoad, Workload,
};

/// What a table is to hold, and what its lookups are to spare.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecordMix<'s> {
    /// How many records there are of each size: key and value together, in bytes.
    pub sizes: &'s [RecordSize],
    /// What a READ costs.
    pub nic: NicModel,
    /// Whether latency or throughput counts.
    pub objective: Objective,
    /// The share of lookups that find their key, 0 to 1.
    pub hit_ratio: f64,
}

impl LinearOptions {
    /// These options with the slots that are the cheapest for a mix of records by the model: Hybrid
    /// slots with room for so many bytes, or Heap slots where no record is better off in its slot.
    /// The heap is made for the mix, unless these options say how large it is.
    ///
    /// # Errors
    /// As [`LinearOptions::hybrid_prices`].
    pub fn hybrid_for(self, mix: &RecordMix<'_>) -> Result<Self> {
        let best = self.hybrid_prices(mix)?.cheapest();
        Ok(self.with_slots(best, mix.sizes))
    }

    /// The same with the load factor that is the cheapest as well, in at most so many bytes of
    /// memory per record: slots, and blocks of the records out of band.
    ///
    /// # Errors
    /// As [`LinearOptions::hybrid_prices_within`].
    pub fn hybrid_within(self, mix: &RecordMix<'_>, memory_bytes: f64) -> Result<Self> {
        let best = self.hybrid_prices_within(mix, memory_bytes)?.cheapest();
        let sizing = Sizing {
            load_factor: Some(best.load),
            ..self.sizing
        };
        let options = Self { sizing, ..self };
        Ok(options.with_slots(best, mix.sizes))
    }

    /// What lookups cost, and what memory a record takes, for every size of slots that can be the
    /// cheapest: of a table with this capacity, load factor and rule for keys.
    ///
    /// # Errors
    /// [`BadOption`](crate::IndexError::BadOption) for a capacity or load factor that no table can
    /// have, records that this one cannot hold, or numbers that the model refuses.
    pub fn hybrid_prices(&self, mix: &RecordMix<'_>) -> Result<HybridPrices> {
        self.check_mix(mix)?;
        let slots = self.sizing.slots_for(self.sizing.capacity, LOAD_FACTOR)?;
        TableLoad::new(slots, self.sizing.capacity)
            .and_then(|table| {
                let workload = self.workload(mix)?;
                let (nic, objective) = (mix.nic, mix.objective);
                HybridPrices::new(mix.sizes, &SHAPE, nic, objective, table, workload)
            })
            .map_err(|error| refused("record mix", error))
    }

    /// The same for so many bytes of memory per record, which decide the load factor of each size
    /// of slots; that of these options does not matter.
    ///
    /// # Errors
    /// As [`LinearOptions::hybrid_prices`], and if no slots take so little.
    pub fn hybrid_prices_within(
        &self,
        mix: &RecordMix<'_>,
        memory_bytes: f64,
    ) -> Result<HybridPrices> {
        self.check_mix(mix)?;
        slots_for(self.sizing.capacity, 1.0)?;
        self.workload(mix)
            .and_then(|workload| {
                let (nic, objective, records) = (mix.nic, mix.objective, self.sizing.capacity);
                HybridPrices::within_memory(
                    mix.sizes,
                    &SHAPE,
                    nic,
                    objective,
                    records,
                    memory_bytes,
                    workload,
                )
            })
            .map_err(|error| refused("record mix", error))
    }

    /// Refuses records that are larger than this table's.
    fn check_mix(&self, mix: &RecordMix<'_>) -> Result<()> {
        let most = self
            .sizing
            .key
            .most()
            .saturating_add(self.sizing.value.most());
        let most = most.min(heap::LARGEST_RECORD - heap::record_bytes(0, 0));
        match mix.sizes.iter().find(|size| size.bytes > most) {
            None => Ok(()),
            Some(size) => {
                let limit = format!("at most {most} bytes of key and value");
                Err(bad_option("record size", size.bytes, limit))
            }
        }
    }

    fn workload(&self, mix: &RecordMix<'_>) -> std::result::Result<Workload, ModelError> {
        Workload::new(mix.hit_ratio, self.sizing.keys.hit_policy())
    }

    fn with_slots(self, chosen: InlineCandidate, sizes: &[RecordSize]) -> Self {
        let room = chosen.inline_bytes;
        let heap_bytes = self
            .sizing
            .heap_bytes
            .unwrap_or_else(|| ample_heap(self.sizing.capacity, room, sizes));
        let (slot, inline_bytes) = match room {
            0 => (SlotKind::Heap, None),
            bytes => (SlotKind::Hybrid, Some(bytes as u32)),
        };
        Self {
            slot: Some(slot),
            inline_bytes,
            sizing: Sizing {
                heap_bytes: Some(heap_bytes),
                ..self.sizing
            },
        }
    }
}

/// What these tables' slots and blocks are.
const SHAPE: HybridShape = HybridShape {
    head_bytes: 8,
    max_inline_bytes: MOST_SIZED,
    max_read_bytes: LONGEST_READ,
    block_bytes: |bytes| heap::record_bytes(0, bytes).next_multiple_of(heap::GRANULE as usize),
    read_bytes,
    record_bytes: |bytes| heap::record_bytes(0, bytes).next_multiple_of(8),
};

/// Bytes of heap for the records that do not fit, for an eighth of the others, which are replaced
/// some day, and for what lies idle with clients: as of tables whose sizes are not known better.
fn ample_heap(capacity: u64, inline_bytes: usize, sizes: &[RecordSize]) -> u64 {
    let total: f64 = sizes.iter().map(|size| size.weight).sum();
    let of_size = |size: &RecordSize| {
        let share = if size.bytes > inline_bytes {
            1.0
        } else {
            0.125
        };
        share * size.weight / total * read_bytes(size.bytes) as f64
    };
    let blocks: f64 = sizes.iter().map(of_size).sum();
    // A float to integer cast saturates; the layout refuses a heap that is too large.
    (blocks * capacity as f64 * 1.125) as u64 + (1 << 20)
}

/// Bytes that a READ fetches of a record out of band: as many as its slot's class says.
fn read_bytes(record: usize) -> usize {
    let bytes = heap::record_bytes(0, record);
    heap::class_for(bytes).map_or(bytes, heap::block_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FieldSize, IndexError};

    const NIC: NicModel = NicModel::connectx5_edr();

    fn options() -> LinearOptions {
        LinearOptions::new(Sizing {
            load_factor: Some(0.5),
            ..Sizing::new(1 << 14, FieldSize::UpTo(512), FieldSize::UpTo(4096), 1)
        })
    }

    fn mix(sizes: &[RecordSize], objective: Objective) -> RecordMix<'_> {
        RecordMix {
            sizes,
            nic: NIC,
            objective,
            hit_ratio: 1.0,
        }
    }

    const fn size(bytes: usize, weight: f64) -> RecordSize {
        RecordSize { bytes, weight }
    }

    #[test]
    fn the_mix_decides_the_slots() {
        let chosen = |sizes: &[RecordSize]| {
            let options = options().hybrid_for(&mix(sizes, Objective::Throughput));
            options.unwrap().layout().unwrap()
        };
        let small = chosen(&[size(20, 9.0), size(900, 1.0)]);
        assert_eq!((small.kind, small.inline_bytes), (SlotKind::Hybrid, 24));
        let large = chosen(&[size(2000, 1.0), size(4000, 1.0)]);
        assert_eq!((large.kind, large.inline_bytes), (SlotKind::Heap, 0));
        // One in ten of 2^14 records out of band, in blocks of 1024 bytes.
        let out = (1 << 14) / 10 * 1024;
        assert!((out..out * 2 + (1 << 20)).contains(&small.heap_bytes));
        assert!(large.heap_bytes > 3000 << 14);
    }

    #[test]
    fn latency_puts_more_into_slots_and_a_limit_of_memory_less() {
        let sizes = [8, 16, 32, 64, 128, 256, 512, 1024].map(|bytes| size(bytes, 1.0));
        let room = |options: LinearOptions| options.layout().unwrap().inline_bytes;
        let throughput = mix(&sizes, Objective::Throughput);
        let latency = mix(&sizes, Objective::Latency);
        let fast = room(options().hybrid_for(&latency).unwrap());
        let tight = options().hybrid_within(&latency, 400.0).unwrap();
        assert!(room(options().hybrid_for(&throughput).unwrap()) < fast);
        assert!(0 < room(tight.clone()) && room(tight.clone()) < fast);
        // What is not taken by the blocks of the larger records, slots take.
        let layout = tight.layout().unwrap();
        let larger = sizes
            .iter()
            .filter(|size| size.bytes > layout.inline_bytes as usize);
        let blocks: usize = larger.map(|size| (SHAPE.block_bytes)(size.bytes)).sum();
        let slots = (layout.slots * layout.slot_bytes() as u64) as f64 / layout_records();
        assert!((slots + blocks as f64 / 8.0 - 400.0).abs() < 0.1);
        assert!(matches!(
            options().hybrid_within(&latency, 100.0),
            Err(IndexError::BadOption {
                option: "record mix",
                ..
            })
        ));
    }

    fn layout_records() -> f64 {
        options().sizing.capacity as f64
    }

    #[test]
    fn a_read_fetches_the_class_and_a_block_has_the_record() {
        // The header of 16 bytes; and the next class, or the next granule.
        let expected = [
            (8, 32, 32),
            (16, 32, 32),
            (17, 48, 48),
            (112, 128, 128),
            (113, 160, 144),
            (1024, 1280, 1040),
        ];
        for (record, read, block) in expected {
            assert_eq!(read_bytes(record), read, "{record}");
            assert_eq!((SHAPE.block_bytes)(record), block, "{record}");
        }
    }

    #[test]
    fn a_mix_that_the_table_cannot_hold_is_refused() {
        let refused = |options: LinearOptions, sizes: &[RecordSize], hit_ratio| {
            let mix = RecordMix {
                hit_ratio,
                ..mix(sizes, Objective::Latency)
            };
            match options.hybrid_for(&mix) {
                Err(IndexError::BadOption { option, .. }) => option,
                other => panic!("{other:?}"),
            }
        };
        let one = [size(8, 1.0)];
        assert_eq!(refused(options(), &[size(5000, 1.0)], 1.0), "record size");
        assert_eq!(
            refused(options(), &[size(usize::MAX, 1.0)], 1.0),
            "record size"
        );
        assert_eq!(refused(options(), &[], 1.0), "record mix");
        assert_eq!(refused(options(), &[size(8, f64::NAN)], 1.0), "record mix");
        assert_eq!(refused(options(), &one, 1.1), "record mix");
        let full = LinearOptions {
            sizing: Sizing {
                load_factor: Some(2.0),
                ..options().sizing
            },
            ..options()
        };
        assert_eq!(refused(full, &one, 1.0), "load factor");
    }
}
