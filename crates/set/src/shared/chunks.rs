//! How many buckets one request fetches: fixed, or chosen from the load factor while running.

use crate::SetError;
use crate::error::check_range;
use farslot_model::{
    CHUNK_UNIT, ChunkModel, Chunking, HitPolicy, NicModel, Objective, ProbeDistribution, TableLoad,
    Workload,
};
use std::cell::Cell;
use std::sync::{Arc, OnceLock};

/// Load factors for which the chunk is chosen beforehand.
const STEPS: usize = 64;
/// Buckets of which the load factor is estimated; older ones count less and less.
const MEMORY: u32 = 1 << 15;
/// A table of this many buckets stands for all sizes: the distances hardly depend on it.
const TYPICAL: u64 = 1 << 24;

/// C and M of paper 002, and how they come about. A clone shares the choices that were made.
#[derive(Debug, Clone)]
pub struct ChunkSizes {
    /// By load factor, in steps, once a table was as full.
    by_load: Arc<[OnceLock<Chunking>]>,
    /// How they are chosen, unless they are fixed.
    pricing: Option<ChunkPricing>,
    /// Those of a table that is half full, or that are fixed.
    usual: Chunking,
    /// Buckets that a find-or-put examines before it says that the table is full.
    reach: u64,
    /// Buckets seen, and how many of them were in use.
    seen: Cell<(u32, u32)>,
}

/// How the model prices chunks.
#[derive(Debug, Clone)]
struct ChunkPricing {
    model: ChunkModel,
    workload: Workload,
}

impl ChunkPricing {
    fn at(&self, load: f64) -> Result<Chunking, SetError> {
        let table = TableLoad::from_load(TYPICAL, load)?;
        let distances = ProbeDistribution::lookup(table, self.workload)?;
        Ok(self.model.choose(&distances).chunking)
    }
}

impl ChunkSizes {
    /// Buckets that a find-or-put examines where the chunks are [chosen](ChunkSizes::chosen).
    pub const REACH: u64 = 1024;

    /// Chunks of always `buckets` buckets, a multiple of 8, at most `most` of them for a
    /// find-or-put. All who use a table examine the same number of buckets: otherwise one finds no
    /// element where another has inserted it.
    ///
    /// # Errors
    /// [`SetError::OutOfRange`].
    pub fn fixed(buckets: usize, most: usize) -> Result<Self, SetError> {
        let unit = CHUNK_UNIT as u64;
        check_range(
            "the chunk size in eighths",
            buckets as u64 / unit,
            1,
            1 << 12,
        )?;
        check_range("the chunk size modulo 8", buckets as u64 % unit, 0, 0)?;
        check_range("the number of chunks", most as u64, 1, 1 << 16)?;
        let chunking = Chunking {
            buckets,
            most,
            ahead: true,
        };
        Ok(Self::of(1, None, chunking, buckets as u64 * most as u64))
    }

    /// Chunks as the model prices them for this NIC, for the load factor that the chunks read show:
    /// paper 002's future work. `hits` is the share of find-or-puts that find their element, from 0
    /// to 1.
    ///
    /// # Errors
    /// [`SetError::Model`].
    pub fn chosen(nic: NicModel, objective: Objective, hits: f64) -> Result<Self, SetError> {
        let pricing = ChunkPricing {
            model: ChunkModel::new(nic, objective, Self::REACH as usize, 16 * CHUNK_UNIT)?,
            workload: Workload::new(hits, HitPolicy::StopAtMatch)?,
        };
        // The others when they are needed: each takes milliseconds to find.
        let usual = pricing.at(0.5)?;
        Ok(Self::of(STEPS, Some(pricing), usual, Self::REACH))
    }

    fn of(steps: usize, pricing: Option<ChunkPricing>, usual: Chunking, reach: u64) -> Self {
        Self {
            by_load: vec![OnceLock::new(); steps].into(),
            pricing,
            usual,
            reach,
            seen: Cell::new((0, 0)),
        }
    }

    /// The estimated load factor; one half before anything was read.
    #[must_use]
    pub fn load(&self) -> f64 {
        let (seen, used) = self.seen.get();
        if seen == 0 {
            return 0.5;
        }
        f64::from(used) / f64::from(seen)
    }

    /// Buckets that a find-or-put examines before it says that the table is full.
    #[must_use]
    pub const fn reach(&self) -> u64 {
        self.reach
    }

    /// How to read now.
    #[must_use]
    pub fn now(&self) -> Chunking {
        let steps = self.by_load.len();
        let step = ((self.load() * steps as f64) as usize).min(steps - 1);
        *self.by_load[step].get_or_init(|| {
            let load = (step as f64 + 0.5) / steps as f64;
            let chosen = self.pricing.as_ref().map(|pricing| pricing.at(load));
            chosen.and_then(Result::ok).unwrap_or(self.usual)
        })
    }

    /// Forgets how full the table was: it is another now.
    pub fn forget(&self) {
        self.seen.set((0, 0));
    }

    /// Learns from a chunk at the home of an element: where keys are random, so are its buckets.
    pub(super) fn learn(&self, seen: u32, used: u32) {
        if self.by_load.len() == 1 {
            return;
        }
        let (mut all, mut all_used) = self.seen.get();
        if all > MEMORY {
            (all, all_used) = (all / 2, all_used / 2);
        }
        self.seen.set((all + seen, all_used + used));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chunk_follows_the_load() {
        let sizes = ChunkSizes::chosen(NicModel::connectx5_edr(), Objective::Latency, 0.0).unwrap();
        let mut before = 0;
        for used in [2, 16, 24, 30] {
            for _ in 0..10_000 {
                sizes.learn(32, used);
            }
            assert!((sizes.load() - f64::from(used) / 32.0).abs() < 0.01);
            assert!(sizes.now().buckets >= before);
            before = sizes.now().buckets;
        }
        assert!(before > 16, "{before}");
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        for (buckets, most) in [(0, 1), (12, 1), (8, 0), (1 << 20, 1)] {
            assert!(matches!(
                ChunkSizes::fixed(buckets, most),
                Err(SetError::OutOfRange { .. })
            ));
        }
        let sizes = ChunkSizes::fixed(32, 4).unwrap();
        sizes.learn(32, 31);
        assert_eq!(sizes.now().buckets, 32);
        assert!(ChunkSizes::chosen(NicModel::connectx5_edr(), Objective::Latency, 1.5).is_err());
    }
}
