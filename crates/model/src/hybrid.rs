//! How large a record may be to stand in its slot: the bound between inline and out of band that
//! costs least, for records of many sizes.
//!
//! Paper 000 compares tables that hold all records inline with tables that hold all of them out of
//! band (section 5.7), and leaves what lies between to future work (section 7). Room for a record
//! in every slot makes every READ of slots longer, also where the slot is another's or refers
//! elsewhere; each record that fits saves the second READ of the lookups that find it. With READs
//! of one slot size priced as in Eq. 1, a lookup in a table with room for w bytes costs
//!
//! ```text
//! min over R of E[X(R)] t(R (head + w))  +  hit ratio x sum over sizes s > w of P(s) t(block(s))
//! ```
//! where t is latency or occupancy, and block(s) what a READ of a record of s bytes out of band
//! fetches: its block, up to what the longest record takes. READs of blocks that a tag's false
//! match causes (some in 10^4 lookups) are left out, and so is what differs in popularity: the
//! weights are of records and of lookups alike.

use crate::{
    ModelError, NicModel, Objective, ProbeDistribution, ReadCost, ReadSizeModel, TableLoad,
    Workload,
};

/// The highest load factor at which a candidate of [`HybridPrices::within_memory`] stands.
pub const MOST_LOAD: f64 = 0.95;

/// Records of one size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecordSize {
    /// Bytes of key and value together.
    pub bytes: usize,
    /// How many there are, in proportion to the other sizes' weights; finite, not negative.
    pub weight: f64,
}

/// What hybrid slots are made of, in the table that they are priced for.
#[derive(Debug, Clone, Copy)]
pub struct HybridShape {
    /// Bytes of a slot before its record; also the step in which the room for records grows.
    pub head_bytes: usize,
    /// The most room for a record that a slot may have, in bytes.
    pub max_inline_bytes: usize,
    /// The longest READ of slots, in bytes.
    pub max_read_bytes: usize,
    /// Bytes of the block that holds a record of so many bytes out of band: what it takes of the
    /// memory.
    pub block_bytes: fn(usize) -> usize,
    /// Bytes that a READ fetches of such a record, by what its slot says of its length; but no more
    /// than the longest record of the table has.
    pub read_bytes: fn(usize) -> usize,
    /// Bytes that the record itself takes in its block.
    pub record_bytes: fn(usize) -> usize,
}

/// What one size of slots costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InlineCandidate {
    /// Bytes of key and value that a slot has room for; 0 where all records are out of band.
    pub inline_bytes: usize,
    /// The load factor, 0 to 1.
    pub load: f64,
    /// The best READs of slots, and their cost.
    pub slots: ReadCost,
    /// The share of the records that are out of band, 0 to 1.
    pub out_share: f64,
    /// Slots and records out of band, in ns a lookup.
    pub cost_ns: f64,
    /// Bytes of slots and of blocks in use, per record.
    pub memory_bytes: f64,
}

impl InlineCandidate {
    /// One lookup per cost, in lookups per second: a NIC's capacity under
    /// [`Objective::Throughput`].
    #[must_use]
    pub fn lookups_per_second(&self) -> f64 {
        1e9 / self.cost_ns
    }
}

/// The candidates for one mix of records, priced.
#[derive(Debug, Clone, PartialEq)]
pub struct HybridPrices {
    candidates: Vec<InlineCandidate>,
}

impl HybridPrices {
    /// Prices every size of slots that can be the cheapest in a table of this size and load: no
    /// room at all, and room for just each size of record, up to the shape's limit. Between two of
    /// these a slot only grows.
    ///
    /// # Errors
    /// [`ModelError::NoRecords`] or [`ModelError::Weight`] for a mix without records;
    /// [`ModelError::NoSlotBytes`] for heads of 0 bytes; [`ModelError::ReadTooSmall`] if the
    /// longest READ does not hold the largest slot; [`ModelError::NoKeys`] and [`ModelError::Nic`]
    /// as the models that are built on.
    pub fn new(
        sizes: &[RecordSize],
        shape: &HybridShape,
        nic: NicModel,
        objective: Objective,
        table: TableLoad,
        workload: Workload,
    ) -> Result<Self, ModelError> {
        let pricing = Pricing::new(sizes, shape, nic, objective, workload)?;
        if table.occupied() == 0 {
            return Err(ModelError::NoKeys);
        }
        let distances = ProbeDistribution::lookup(table, workload)?;
        let rooms = pricing.rooms().into_iter();
        let candidates = rooms.map(|room| pricing.price(room, table, &distances));
        Ok(Self {
            candidates: candidates.collect::<Result<_, _>>()?,
        })
    }

    /// The same for `records` records in `memory_bytes` bytes of memory each: as many slots of each
    /// size as that affords beside the blocks of the records that do not fit. Small slots have a
    /// low load then, and large ones fewer blocks. Sizes that would take a load above [`MOST_LOAD`]
    /// are no candidates.
    ///
    /// # Errors
    /// As [`HybridPrices::new`]; [`ModelError::TooLittleMemory`] if there is no candidate, and
    /// [`ModelError::TooManySlots`] where the memory affords more than the model knows.
    pub fn within_memory(
        sizes: &[RecordSize],
        shape: &HybridShape,
        nic: NicModel,
        objective: Objective,
        records: u64,
        memory_bytes: f64,
        workload: Workload,
    ) -> Result<Self, ModelError> {
        let pricing = Pricing::new(sizes, shape, nic, objective, workload)?;
        if records == 0 {
            return Err(ModelError::NoKeys);
        }
        let mut candidates = Vec::new();
        let mut least_bytes = f64::INFINITY;
        for room in pricing.rooms() {
            let slot_bytes = (shape.head_bytes + room) as f64;
            let blocks = pricing.block_bytes(room);
            least_bytes = least_bytes.min(blocks + slot_bytes / MOST_LOAD);
            let slots = (memory_bytes - blocks) / slot_bytes * records as f64;
            // A NaN is no candidate either.
            if slots * MOST_LOAD >= records as f64 {
                // A float to integer cast saturates.
                let table = TableLoad::new(slots as u64, records)?;
                let distances = ProbeDistribution::lookup(table, workload)?;
                candidates.push(pricing.price(room, table, &distances)?);
            }
        }
        if candidates.is_empty() {
            return Err(ModelError::TooLittleMemory {
                memory_bytes,
                least_bytes,
            });
        }
        Ok(Self { candidates })
    }

    /// All candidates, by their room, from the least on; never empty.
    #[must_use]
    pub fn candidates(&self) -> &[InlineCandidate] {
        &self.candidates
    }

    /// The cheapest lookups; of several that cost the same, the smallest slots.
    #[must_use]
    pub fn cheapest(&self) -> InlineCandidate {
        let candidates = self.candidates.iter().copied();
        candidates.fold(self.candidates[0], cheaper)
    }
}

fn cheaper(best: InlineCandidate, other: InlineCandidate) -> InlineCandidate {
    if other.cost_ns < best.cost_ns {
        other
    } else {
        best
    }
}

/// What all candidates have in common.
struct Pricing<'s> {
    sizes: &'s [RecordSize],
    /// The sum of the weights, above 0.
    total: f64,
    shape: &'s HybridShape,
    nic: NicModel,
    objective: Objective,
    hit_ratio: f64,
}

impl<'s> Pricing<'s> {
    fn new(
        sizes: &'s [RecordSize],
        shape: &'s HybridShape,
        nic: NicModel,
        objective: Objective,
        workload: Workload,
    ) -> Result<Self, ModelError> {
        let bad = |weight: &f64| !weight.is_finite() || *weight < 0.0;
        if let Some(weight) = sizes.iter().map(|size| size.weight).find(bad) {
            return Err(ModelError::Weight(weight));
        }
        let total: f64 = sizes.iter().map(|size| size.weight).sum();
        if total == 0.0 {
            return Err(ModelError::NoRecords);
        }
        if total.is_infinite() {
            return Err(ModelError::Weight(total));
        }
        if shape.head_bytes == 0 {
            return Err(ModelError::NoSlotBytes);
        }
        Ok(Self {
            sizes,
            total,
            shape,
            nic,
            objective,
            hit_ratio: workload.hit_ratio(),
        })
    }

    /// Room for nothing, and for just each of the sizes.
    fn rooms(&self) -> Vec<usize> {
        let step = self.shape.head_bytes;
        let sizes = self.sizes.iter();
        let mut rooms: Vec<usize> = sizes
            .filter_map(|size| size.bytes.checked_next_multiple_of(step))
            .filter(|room| *room <= self.shape.max_inline_bytes)
            .chain([0])
            .collect();
        rooms.sort_unstable();
        rooms.dedup();
        rooms
    }

    fn price(
        &self,
        inline_bytes: usize,
        table: TableLoad,
        distances: &ProbeDistribution,
    ) -> Result<InlineCandidate, ModelError> {
        let slot_bytes = self.shape.head_bytes + inline_bytes;
        let slots = ReadSizeModel::new(slot_bytes, self.objective, self.nic)?
            .with_max_read_bytes(self.shape.max_read_bytes)?
            .choose(distances);
        let one = |bytes| match self.objective {
            Objective::Latency => self.nic.latency_ns(bytes),
            Objective::Throughput => self.nic.occupancy_ns(bytes),
        };
        let longest = self.longest_record();
        let read_bytes = |bytes| (self.shape.read_bytes)(bytes).min(longest);
        let found = self.mean_of_larger(inline_bytes, |bytes| one(read_bytes(bytes)));
        Ok(InlineCandidate {
            inline_bytes,
            load: table.load(),
            slots,
            out_share: self.mean_of_larger(inline_bytes, |_| 1.0),
            cost_ns: slots.cost_ns + self.hit_ratio * found,
            memory_bytes: slot_bytes as f64 / table.load() + self.block_bytes(inline_bytes),
        })
    }

    /// The most bytes that a record takes in its block.
    fn longest_record(&self) -> usize {
        let sizes = self.sizes.iter().map(|size| size.bytes);
        (self.shape.record_bytes)(sizes.max().unwrap_or(0))
    }

    /// Bytes of blocks per record.
    fn block_bytes(&self, inline_bytes: usize) -> f64 {
        self.mean_of_larger(inline_bytes, |bytes| (self.shape.block_bytes)(bytes) as f64)
    }

    /// The mean over all records of `of` their bytes, where records of up to `bound` bytes are in
    /// slots and count 0.
    fn mean_of_larger(&self, bound: usize, of: impl Fn(usize) -> f64) -> f64 {
        let larger = self.sizes.iter().filter(|size| size.bytes > bound);
        let shares = larger.map(|size| {
            let share = size.weight / self.total;
            share * of(size.bytes)
        });
        shares.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HitPolicy;
    use proptest::prelude::*;

    const NIC: NicModel = NicModel::connectx5_edr();

    /// Blocks of a header of 16 bytes and the record, in steps of 16 bytes, of which READs fetch
    /// steps of 32.
    const SHAPE: HybridShape = HybridShape {
        head_bytes: 8,
        max_inline_bytes: 1024,
        max_read_bytes: 16 << 10,
        block_bytes: |bytes| (16 + bytes).next_multiple_of(16),
        read_bytes: |bytes| (16 + bytes).next_multiple_of(32),
        record_bytes: |bytes| (16 + bytes).next_multiple_of(8),
    };

    fn prices(sizes: &[RecordSize], objective: Objective, load: f64) -> HybridPrices {
        let workload = Workload::new(0.9, HitPolicy::StopAtMatch).unwrap();
        let table = TableLoad::from_load(1 << 14, load).unwrap();
        HybridPrices::new(sizes, &SHAPE, NIC, objective, table, workload).unwrap()
    }

    /// One size of slots, priced from the models that this one is built on.
    fn price_of(sizes: &[RecordSize], objective: Objective, load: f64, inline: usize) -> f64 {
        let workload = Workload::new(0.9, HitPolicy::StopAtMatch).unwrap();
        let table = TableLoad::from_load(1 << 14, load).unwrap();
        let distances = ProbeDistribution::lookup(table, workload).unwrap();
        let model = ReadSizeModel::new(8 + inline, objective, NIC).unwrap();
        let model = model.with_max_read_bytes(16 << 10).unwrap();
        let total: f64 = sizes.iter().map(|size| size.weight).sum();
        let out = sizes.iter().filter(|size| size.bytes > inline);
        let longest = sizes.iter().map(|size| size.bytes).max().unwrap();
        let longest = (SHAPE.record_bytes)(longest);
        let out = out.map(|size| {
            let bytes = (SHAPE.read_bytes)(size.bytes).min(longest);
            let one = match objective {
                Objective::Latency => NIC.latency_ns(bytes),
                Objective::Throughput => NIC.occupancy_ns(bytes),
            };
            0.9 * size.weight / total * one
        });
        model.choose(&distances).cost_ns + out.sum::<f64>()
    }

    fn mix() -> impl Strategy<Value = Vec<RecordSize>> {
        let size =
            (1..1500usize, 0.01..10.0f64).prop_map(|(bytes, weight)| RecordSize { bytes, weight });
        proptest::collection::vec(size, 1..6)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

        #[test]
        fn no_other_size_is_cheaper(
            sizes in mix(),
            load in 0.1..0.9f64,
            latency: bool,
        ) {
            let objective = if latency { Objective::Latency } else { Objective::Throughput };
            let best = prices(&sizes, objective, load).cheapest();
            let price = price_of(&sizes, objective, load, best.inline_bytes);
            prop_assert!((best.cost_ns / price - 1.0).abs() < 1e-12);
            // 0 is the table whose records are all out of band; the largest record's size is the
            // one that holds them all.
            for inline in (0..=1024).step_by(8) {
                let other = price_of(&sizes, objective, load, inline);
                prop_assert!(best.cost_ns <= other * (1.0 + 1e-12), "{best:?} {inline} {other}");
            }
        }

        #[test]
        fn more_memory_never_makes_lookups_dearer(sizes in mix(), memory in 10.0..4000.0f64) {
            let workload = Workload::new(0.9, HitPolicy::StopAtMatch).unwrap();
            let within = |memory| {
                let objective = Objective::Throughput;
                HybridPrices::within_memory(&sizes, &SHAPE, NIC, objective, 1 << 14, memory, workload)
            };
            match within(memory) {
                Ok(prices) => {
                    let best = prices.cheapest();
                    prop_assert!(within(memory * 1.1).unwrap().cheapest().cost_ns <= best.cost_ns * (1.0 + 1e-9));
                    for candidate in prices.candidates() {
                        // All of it is used, but for a part of a slot.
                        let unused = memory - candidate.memory_bytes;
                        prop_assert!(unused > -1e-6 && unused < 2048.0 / 16384.0, "{candidate:?}");
                        prop_assert!(candidate.load <= MOST_LOAD + 1e-9);
                        let price = price_of(&sizes, Objective::Throughput, candidate.load, candidate.inline_bytes);
                        prop_assert!((candidate.cost_ns / price - 1.0).abs() < 0.02, "{candidate:?} {price}");
                    }
                }
                Err(ModelError::TooLittleMemory { least_bytes, .. }) => {
                    prop_assert!(least_bytes > memory);
                    prop_assert!(within(least_bytes + 0.01).is_ok());
                }
                Err(other) => prop_assert!(false, "{other}"),
            }
        }
    }

    #[test]
    fn small_records_stand_in_slots_and_large_ones_do_not() {
        let sizes = [(16, 0.9), (1000, 0.1)].map(|(bytes, weight)| RecordSize { bytes, weight });
        let prices = prices(&sizes, Objective::Throughput, 0.5);
        let rooms: Vec<_> = prices
            .candidates()
            .iter()
            .map(|one| one.inline_bytes)
            .collect();
        assert_eq!(rooms, [0, 16, 1000]);
        let best = prices.cheapest();
        assert_eq!(best.inline_bytes, 16);
        assert!((best.out_share - 0.1).abs() < 1e-12);
        // 24 bytes of slot for each record at load 0.5, and a block of 1024 bytes for one in ten.
        assert!((best.memory_bytes - (48.0 + 102.4)).abs() < 1e-9);
        assert!(best.lookups_per_second() > prices.candidates()[0].lookups_per_second());
    }

    #[test]
    fn a_mix_without_records_is_refused() {
        let table = TableLoad::from_load(1 << 10, 0.5).unwrap();
        let refused = |weights: &[f64]| {
            let sizes: Vec<_> = weights
                .iter()
                .map(|&weight| RecordSize { bytes: 8, weight })
                .collect();
            let workload = Workload::misses();
            HybridPrices::new(&sizes, &SHAPE, NIC, Objective::Latency, table, workload).err()
        };
        assert_eq!(refused(&[]), Some(ModelError::NoRecords));
        assert_eq!(refused(&[0.0, 0.0]), Some(ModelError::NoRecords));
        assert_eq!(refused(&[1.0, -1.0]), Some(ModelError::Weight(-1.0)));
        assert!(matches!(refused(&[f64::NAN]), Some(ModelError::Weight(_))));
        assert!(refused(&[f64::MAX, f64::MAX]).is_some());
        assert_eq!(refused(&[1.0]), None);
    }

    #[test]
    fn an_empty_table_has_no_price() {
        let table = TableLoad::new(16, 0).unwrap();
        let size = RecordSize {
            bytes: 8,
            weight: 1.0,
        };
        let workload = Workload::misses();
        let priced = HybridPrices::new(&[size], &SHAPE, NIC, Objective::Latency, table, workload);
        assert_eq!(priced, Err(ModelError::NoKeys));
    }
}
