//! The read size that costs least: paper 000, Eq. 1, searched exactly.

use crate::{ModelError, NicModel, ProbeDistribution};

/// The largest read size considered, in slots.
pub const MAX_READ_SLOTS: usize = 1 << 20;

/// The limit on a READ's payload unless another is set: 1 MiB.
pub const DEFAULT_MAX_READ_BYTES: usize = 1 << 20;

/// What a lookup should use least of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Objective {
    /// Time on an idle network: reads x T(bytes), the objective of paper 000, Eq. 1.
    Latency,
    /// Time of a saturated NIC: reads x occupancy(bytes). Its inverse is the lookup rate.
    Throughput,
}

/// What a read size costs, for one distribution of distances.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReadCost {
    /// R: the slots fetched by each READ.
    pub read_size: usize,
    /// E\[X(R)\]: the mean number of READs per lookup.
    pub reads: f64,
    /// Their cost under the objective, in ns per lookup.
    pub cost_ns: f64,
}

impl ReadCost {
    /// One lookup per cost, in lookups per second: a NIC's capacity under
    /// [`Objective::Throughput`].
    pub fn lookups_per_second(&self) -> f64 {
        1e9 / self.cost_ns
    }
}

/// Prices and chooses read sizes for slots of one size on one NIC.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReadSizeModel {
    slot_bytes: usize,
    objective: Objective,
    nic: NicModel,
    max_read_slots: usize,
}

impl ReadSizeModel {
    /// A model for slots of `slot_bytes` bytes, with READs of up to [`DEFAULT_MAX_READ_BYTES`] (or
    /// one slot, if that is larger) and no bandwidth cap.
    ///
    /// # Errors
    /// [`ModelError::NoSlotBytes`] if `slot_bytes` is 0; [`ModelError::Nic`] as
    /// [`NicModel::validate`].
    pub fn new(slot_bytes: usize, objective: Objective, nic: NicModel) -> Result<Self, ModelError> {
        nic.validate()?;
        if slot_bytes == 0 {
            return Err(ModelError::NoSlotBytes);
        }
        Ok(Self {
            slot_bytes,
            objective,
            nic,
            max_read_slots: (DEFAULT_MAX_READ_BYTES / slot_bytes).max(1),
        })
    }

    /// The same with READs of at most `max_read_bytes` bytes (a NIC buffer's size, say), in place
    /// of the default limit or an earlier one. Never more than [`MAX_READ_SLOTS`] slots.
    ///
    /// # Errors
    /// [`ModelError::ReadTooSmall`] if that is less than one slot.
    pub fn with_max_read_bytes(mut self, max_read_bytes: usize) -> Result<Self, ModelError> {
        let slots = max_read_bytes / self.slot_bytes;
        if slots == 0 {
            return Err(ModelError::ReadTooSmall {
                max_read_bytes,
                slot_bytes: self.slot_bytes,
            });
        }
        self.max_read_slots = slots.min(MAX_READ_SLOTS);
        Ok(self)
    }

    /// The same under the bandwidth constraint of paper 000, Eq. 2, on top of the limit set so far;
    /// see [`NicModel::bandwidth_cap`].
    pub fn with_bandwidth_cap(mut self) -> Self {
        let cap = self.nic.bandwidth_cap(self.slot_bytes);
        self.max_read_slots = self.max_read_slots.min(cap);
        self
    }

    /// The largest read size that may be chosen, in slots; at least 1.
    pub fn max_read_slots(&self) -> usize {
        self.max_read_slots
    }

    /// The size of a slot, in bytes.
    pub fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// The cost of reading `read_size` slots at a time, also beyond the limit on the choice; 0 is
    /// taken as 1.
    pub fn cost(&self, distances: &ProbeDistribution, read_size: usize) -> ReadCost {
        let read_size = read_size.max(1);
        self.priced(read_size, distances.expected_reads(read_size))
    }

    /// So many READs of `read_size` slots.
    pub(crate) fn priced(&self, read_size: usize, reads: f64) -> ReadCost {
        ReadCost {
            read_size,
            reads,
            cost_ns: reads * self.cost_of_one(read_size),
        }
    }

    /// R* of paper 000, Eq. 1: the read size of the least cost, the smallest if several have it.
    ///
    /// Every read size is considered, up to the limit or to where a single READ costs more than the
    /// best found. The cost has several local minima, so nothing less would do; but most read
    /// sizes are ruled out by a bound, without summing their READs.
    pub fn choose(&self, distances: &ProbeDistribution) -> ReadCost {
        let mut best = self.best_power_of_two(distances);
        let probes = distances.mean() + 1.0;
        for read_size in 1..=self.max_read_slots {
            let one = self.cost_of_one(read_size);
            if one > best.cost_ns {
                break;
            }
            if one * least_reads(probes, read_size) <= best.cost_ns {
                best = cheaper(best, self.cost(distances, read_size));
            }
        }
        best
    }

    /// A first guess, so that the bounds of the search bite from its start.
    fn best_power_of_two(&self, distances: &ProbeDistribution) -> ReadCost {
        let powers = (0..usize::BITS).map(|shift| 1usize << shift);
        powers
            .skip(1)
            .take_while(|&size| size <= self.max_read_slots)
            .map(|size| self.cost(distances, size))
            .fold(self.cost(distances, 1), cheaper)
    }

    pub(crate) fn cost_of_one(&self, read_size: usize) -> f64 {
        let bytes = read_size.saturating_mul(self.slot_bytes);
        match self.objective {
            Objective::Latency => self.nic.latency_ns(bytes),
            Objective::Throughput => self.nic.occupancy_ns(bytes),
        }
    }
}

/// A bound from below on the READs of a lookup that examines `probes` slots on average:
/// floor(d / R) + 1 is at least (d + 1) / R, and at least 1.
pub(crate) fn least_reads(probes: f64, read_size: usize) -> f64 {
    // Rounding must not rule out a read size that meets its bound.
    let bound = probes / read_size as f64;
    bound.max(1.0) * (1.0 - 1e-12)
}

pub(crate) fn cheaper(best: ReadCost, other: ReadCost) -> ReadCost {
    let smaller_tie = other.cost_ns == best.cost_ns && other.read_size < best.read_size;
    if other.cost_ns < best.cost_ns || smaller_tie {
        other
    } else {
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TableLoad;
    use proptest::prelude::*;

    fn model(objective: Objective) -> ReadSizeModel {
        ReadSizeModel::new(8, objective, NicModel::connectx5_edr()).unwrap()
    }

    fn miss(slots: u64, load: f64) -> ProbeDistribution {
        ProbeDistribution::miss(TableLoad::from_load(slots, load).unwrap())
    }

    #[test]
    fn limits_bind() {
        let distances = miss(1 << 16, 0.9);
        let free = model(Objective::Latency);
        assert!(free.choose(&distances).read_size > 23);
        assert_eq!(
            free.with_bandwidth_cap().choose(&distances).read_size,
            23,
            "the cost falls up to the cap"
        );
        let small = free.with_max_read_bytes(64).unwrap();
        assert_eq!(small.max_read_slots(), 8);
        assert_eq!(small.choose(&distances).read_size, 8);
        let huge = free.with_max_read_bytes(usize::MAX).unwrap();
        assert_eq!(huge.max_read_slots(), MAX_READ_SLOTS);
    }

    #[test]
    fn bad_sizes_are_typed_errors() {
        let nic = NicModel::connectx5_edr();
        assert_eq!(
            ReadSizeModel::new(0, Objective::Latency, nic),
            Err(ModelError::NoSlotBytes)
        );
        assert_eq!(
            model(Objective::Latency).with_max_read_bytes(7),
            Err(ModelError::ReadTooSmall {
                max_read_bytes: 7,
                slot_bytes: 8
            })
        );
    }

    #[test]
    fn an_empty_table_needs_one_slot() {
        let best = model(Objective::Latency).choose(&miss(1 << 20, 0.0));
        assert_eq!((best.read_size, best.reads), (1, 1.0));
    }

    #[test]
    fn a_free_payload_reads_as_much_as_allowed() {
        let nic = NicModel {
            latency_ns_per_byte: 0.0,
            ..NicModel::connectx5_edr()
        };
        let model = ReadSizeModel::new(8, Objective::Latency, nic).unwrap();
        // The smallest read size that covers the whole table: no larger one is cheaper.
        assert_eq!(model.choose(&miss(100, 1.0)).read_size, 100);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// The pruned search finds what trying everything finds.
        #[test]
        fn no_read_size_is_cheaper(
            slots in 1u64..3000,
            load in 0.0f64..=1.0,
            slot_bytes in 1usize..200,
            throughput: bool,
        ) {
            let objective = if throughput { Objective::Throughput } else { Objective::Latency };
            let model = ReadSizeModel::new(slot_bytes, objective, NicModel::connectx5_edr()).unwrap();
            let distances = miss(slots, load);
            let best = model.choose(&distances);
            for read_size in 1..=slots as usize {
                let other = model.cost(&distances, read_size);
                prop_assert!(read_size > model.max_read_slots() || other.cost_ns >= best.cost_ns);
            }
        }
    }
}
