//! What a find-or-put of a table read in chunks costs: paper 002, figure 1, and the choice of its
//! chunk size C that its section 5 leaves as future work.
//!
//! A find-or-put requests chunk i + 1 before it waits for chunk i. So two requests are under way
//! all the time, and one more is made than is needed: the overlap shortens the wait and costs a
//! READ's occupancy.

use crate::{ModelError, NicModel, Objective, ProbeDistribution};

/// Chunk sizes are multiples of this: buckets of 8 bytes on a cache line of 64 (paper 002, section
/// 3.1).
pub const CHUNK_UNIT: usize = 8;

/// How a find-or-put reads its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunking {
    /// C: buckets of a chunk.
    pub buckets: usize,
    /// M: most chunks of one find-or-put.
    pub most: usize,
    /// Whether chunk i + 1 is requested before chunk i is waited for.
    pub ahead: bool,
}

/// What a way of reading costs, for one distribution of distances.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChunkCost {
    /// The way of reading.
    pub chunking: Chunking,
    /// Mean chunks that are waited for: the round trips of paper 002, table 1.
    pub needed: f64,
    /// Mean chunks that are requested.
    pub requested: f64,
    /// Their cost under the objective, in ns per find-or-put. An insertion's compare-and-swap,
    /// which costs the same for all, is not included.
    pub cost_ns: f64,
}

/// Prices and chooses chunk sizes for buckets of 8 bytes on one NIC.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChunkModel {
    nic: NicModel,
    objective: Objective,
    reach: usize,
    max_chunk: usize,
}

impl ChunkModel {
    /// A model of find-or-puts that examine `reach` buckets before they say that the table is full,
    /// in chunks of up to `max_chunk` buckets.
    ///
    /// # Errors
    /// [`ModelError::Nic`] as [`NicModel::validate`]; [`ModelError::ReadTooSmall`] for chunks of
    /// less than [`CHUNK_UNIT`] buckets.
    pub fn new(
        nic: NicModel,
        objective: Objective,
        reach: usize,
        max_chunk: usize,
    ) -> Result<Self, ModelError> {
        nic.validate()?;
        if max_chunk < CHUNK_UNIT {
            return Err(ModelError::ReadTooSmall {
                max_read_bytes: max_chunk * 8,
                slot_bytes: CHUNK_UNIT * 8,
            });
        }
        Ok(Self {
            nic,
            objective,
            reach,
            max_chunk: max_chunk / CHUNK_UNIT * CHUNK_UNIT,
        })
    }

    /// The way of reading with chunks of so many buckets, as many as the reach needs.
    #[must_use]
    pub fn chunking(&self, buckets: usize, ahead: bool) -> Chunking {
        let buckets = buckets.max(1);
        Chunking {
            buckets,
            most: self.reach.div_ceil(buckets).max(1),
            ahead,
        }
    }

    /// What a way of reading costs where a find-or-put looks as far as `distances` say.
    #[must_use]
    pub fn cost(&self, distances: &ProbeDistribution, chunking: Chunking) -> ChunkCost {
        let size = chunking.buckets as u64;
        // P(more than j chunks are needed), for j = 1, 2, ...
        let more = (1..chunking.most as u64).map(|j| distances.survival(j * size));
        let more: Vec<f64> = more.take_while(|p| *p > 1e-12).collect();
        let needed = 1.0 + more.iter().sum::<f64>();
        let requested = if chunking.ahead && chunking.most > 1 {
            // The chunk behind the last one that is needed, unless that is the last of all.
            let last = distances.survival((chunking.most as u64 - 1) * size);
            needed + 1.0 - last
        } else {
            needed
        };
        let bytes = chunking.buckets * 8;
        let one = self.nic.latency_ns(bytes);
        let cost_ns = match self.objective {
            Objective::Throughput => requested * self.nic.occupancy_ns(bytes),
            Objective::Latency if chunking.ahead => self.overlapped(one, bytes, &more),
            Objective::Latency => needed * one,
        };
        ChunkCost {
            chunking,
            needed,
            requested,
            cost_ns,
        }
    }

    /// The mean wait where chunk j + 1 is requested when chunk j - 1 has come: chunks come in
    /// pairs, the second of which only its occupancy behind the first.
    fn overlapped(&self, one: f64, bytes: usize, more: &[f64]) -> f64 {
        let behind = self.nic.occupancy_ns(bytes).min(one);
        let waits = more.iter().enumerate().map(|(at, p)| {
            let second_of_pair = at % 2 == 0;
            p * if second_of_pair { behind } else { one - behind }
        });
        // Both requests of a pair share the link: the first one waits for what is ahead of it only.
        one + waits.sum::<f64>()
    }

    /// The way of reading of the least cost, the smallest chunk if several have it. Under
    /// [`Objective::Latency`] the next chunk is always requested ahead, under
    /// [`Objective::Throughput`] never: there the overlap only costs.
    #[must_use]
    pub fn choose(&self, distances: &ProbeDistribution) -> ChunkCost {
        let ahead = self.objective == Objective::Latency;
        let first = self.cost(distances, self.chunking(CHUNK_UNIT, ahead));
        let sizes = (2 * CHUNK_UNIT..=self.max_chunk).step_by(CHUNK_UNIT);
        let costs = sizes.map(|size| self.cost(distances, self.chunking(size, ahead)));
        costs.fold(first, |best, other| {
            if other.cost_ns < best.cost_ns {
                other
            } else {
                best
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TableLoad;

    fn misses(load: f64) -> ProbeDistribution {
        ProbeDistribution::miss(TableLoad::from_load(1 << 20, load).unwrap())
    }

    fn model(objective: Objective) -> ChunkModel {
        ChunkModel::new(NicModel::connectx5_edr(), objective, 1024, 128).unwrap()
    }

    /// The paper's table 1 and section 4.3 measure in steps of 0.02 of load: what is inserted on
    /// the way to a load.
    #[test]
    fn the_papers_round_trips_are_those_of_the_model() {
        let model = model(Objective::Latency);
        let needed = |load: f64, size| {
            let steps = (0..20).map(|step| {
                let load = load - 0.0005 - f64::from(step) * 0.001;
                model.cost(&misses(load), model.chunking(size, true)).needed
            });
            steps.sum::<f64>() / 20.0
        };
        let table = [
            (0.5, [1.0, 1.0, 1.0, 1.0, 1.0]),
            (0.6, [1.1, 1.0, 1.0, 1.0, 1.0]),
            (0.7, [1.3, 1.1, 1.0, 1.0, 1.0]),
            (0.8, [2.1, 1.4, 1.1, 1.0, 1.0]),
            (0.9, [5.7, 3.2, 2.0, 1.4, 1.1]),
        ];
        for (load, published) in table {
            for (size, published) in [8, 16, 32, 64, 128].into_iter().zip(published) {
                let ours: f64 = needed(load, size);
                let off = (ours / published - 1.0).abs();
                assert!(
                    off < 0.04,
                    "load {load}, C = {size}: {ours}, not {published}"
                );
            }
        }
        for (size, published) in [(32, 1.04), (64, 1.006)] {
            let ours: f64 = needed(0.75, size);
            assert!((ours / published - 1.0).abs() < 0.01, "C = {size}: {ours}");
        }
    }

    #[test]
    fn chunks_grow_with_the_load_and_no_size_is_cheaper() {
        for objective in [Objective::Latency, Objective::Throughput] {
            let model = model(objective);
            let mut before = 0;
            for load in [0.3, 0.6, 0.8, 0.9, 0.95] {
                let best = model.choose(&misses(load));
                assert!(best.chunking.buckets >= before, "load {load}");
                before = best.chunking.buckets;
                for size in (8..=128).step_by(8) {
                    for ahead in [false, true] {
                        let other = model.cost(&misses(load), model.chunking(size, ahead));
                        assert!(
                            best.cost_ns <= other.cost_ns,
                            "load {load}, {:?}",
                            other.chunking
                        );
                    }
                }
            }
            assert!(before > 8);
        }
    }

    #[test]
    fn an_overlapped_chunk_saves_time_and_costs_a_request() {
        let (latency, throughput) = (model(Objective::Latency), model(Objective::Throughput));
        let distances = misses(0.9);
        let costs = |model: &ChunkModel| {
            [false, true].map(|ahead| model.cost(&distances, model.chunking(16, ahead)))
        };
        let [alone, ahead] = costs(&latency);
        assert!(ahead.cost_ns < alone.cost_ns);
        assert_eq!(ahead.needed, alone.needed);
        assert!((ahead.requested - ahead.needed - 1.0).abs() < 1e-3);
        let [alone, ahead] = costs(&throughput);
        assert!(ahead.cost_ns > alone.cost_ns);
        assert_eq!(
            ChunkModel::new(NicModel::connectx5_edr(), Objective::Latency, 100, 7),
            Err(ModelError::ReadTooSmall {
                max_read_bytes: 56,
                slot_bytes: 64
            })
        );
    }
}
