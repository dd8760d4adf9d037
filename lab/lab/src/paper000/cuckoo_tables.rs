//! Sealed cuckoo tables of paper 000's smallest records.

use super::published::RECORD_BYTES;
use crate::{LabError, Result};
use farslot::fabric::sim::NicProfile;
use farslot::index::IndexError;
use farslot::index::Sizing;
use farslot::index::cuckoo::{CuckooLayout, CuckooOptions, LookupOrder};
use farslot::index::linear::SlotKind;
use farslot::{FieldSize, StoreError};
use farslot_bench::BenchError;
use farslot_bench::simulated::CLIENT_THREADS;
use farslot_bench::simulated::{
    Answer, Ask, Experiment, Measured, Records, RunLimit, SimulatedTable, TableMemory, WARM_UP,
    built_cuckoo,
};

/// Slots of a bucket of the paper's set-associative cuckoo tables.
pub(crate) const BUCKET_SLOTS: u32 = 4;

/// How a table hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HashingShape {
    /// Hash functions.
    pub(crate) ways: u32,
    /// Slots of a bucket.
    pub(crate) bucket_slots: u32,
}

/// The paper's: 3-way, 4-way set-associative.
pub(crate) const PAPERS: HashingShape = HashingShape {
    ways: 3,
    bucket_slots: BUCKET_SLOTS,
};

impl HashingShape {
    /// A table of so many slots.
    pub(crate) fn layout(self, slots: u64, seed: u64) -> Result<CuckooLayout> {
        let four_bytes = FieldSize::Fixed(4);
        let options = CuckooOptions {
            ways: self.ways,
            bucket_slots: self.bucket_slots,
            slot: Some(SlotKind::Word),
            ..CuckooOptions::new(Sizing {
                load_factor: Some(1.0),
                ..Sizing::new(slots, four_bytes, four_bytes, seed)
            })
        };
        Ok(options.layout()?)
    }
}

/// Slots of a cuckoo table: how many READs a lookup takes, and of what, does not depend on it.
const MOST_SLOTS: u64 = 1 << 18;

/// A table at a load factor.
pub(crate) struct CuckooAt {
    layout: CuckooLayout,
    memory: TableMemory,
    records: Records,
    seed: u64,
}

impl CuckooAt {
    /// A table of at most so many slots; nothing where the records find no place.
    pub(crate) fn build(
        shape: HashingShape,
        slots: u64,
        load: f64,
        seed: u64,
    ) -> Result<Option<Self>> {
        let layout = shape.layout(slots.min(MOST_SLOTS), seed)?;
        let count = (layout.slots() as f64 * load).round() as u32;
        let records = Records::distinct(seed, count, RECORD_BYTES - 4);
        match built_cuckoo(&layout, &records) {
            Ok(memory) => Ok(Some(Self {
                layout,
                memory,
                records,
                seed,
            })),
            Err(BenchError::Store(StoreError::Index(IndexError::Full { .. }))) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Lookups by the paper's client threads, `width` at a time by each.
    pub(crate) fn experiment(
        &self,
        order: LookupOrder,
        ask: Ask,
        width: usize,
        lookups: u32,
    ) -> Experiment {
        Experiment {
            table: SimulatedTable::cuckoo(self.layout.clone(), order),
            records: self.records.clone(),
            ask,
            answer: Answer::Value,
            threads: CLIENT_THREADS,
            width,
            warm_up: WARM_UP,
            until: RunLimit::Lookups(lookups.into()),
            seed: self.seed,
        }
    }

    /// Runs an experiment in it.
    pub(crate) fn run(&self, experiment: &Experiment, profile: NicProfile) -> Result<Measured> {
        Ok(experiment.run(self.memory.world(self.seed, profile)?)?)
    }
}

/// The error of a table that must be possible to build and was not.
pub(crate) fn no_place(load: f64) -> LabError {
    let value = format!("too few for a cuckoo table of load {load:.2}");
    BenchError::bad_text("slots", value, "more").into()
}
