//! Tables of records of 8 bytes to 1 KiB, in slots of each kind: planned by the model, and
//! measured.

use super::linear_tables::WIDTH;
use crate::scale::Scale;
use crate::{LabError, Result};
use farslot::FieldSize;
use farslot::fabric::Nanos;
use farslot::fabric::sim::NicProfile;
use farslot::index::Sizing;
use farslot::index::linear::{LinearOptions, ReadPolicy, RecordMix, SlotKind};
use farslot::layout::Scheme;
use farslot::model::{HybridPrices, InlineCandidate, NicModel, Objective, RecordSize};
use farslot_bench::simulated::CLIENT_THREADS;
use farslot_bench::simulated::{
    Answer, Ask, Experiment, Filling, Records, RunLimit, SimulatedTable, WARM_UP,
};

/// A table of inline slots takes 1 KiB for each, here and in the simulated node.
const MOST_SLOTS: u64 = 1 << 20;
/// The load factors that are compared at.
const LOADS: [f64; 2] = [0.5, 0.65];
/// Bytes of the records, key and value together.
const SIZES: [usize; 8] = [8, 16, 32, 64, 128, 256, 512, LARGEST];
const LARGEST: usize = 1024;
const KEY_BYTES: usize = 4;
/// How many records there are of each of [`SIZES`], in proportion.
const MIXES: [(&str, [f64; 8]); 2] = [
    ("log-uniform", [1.0; 8]),
    (
        "mostly small",
        [128.0, 64.0, 32.0, 16.0, 8.0, 4.0, 2.0, 1.0],
    ),
];
/// The larger of the memories that slots are chosen for, as a multiple of what heap slots take.
pub(crate) const MORE_MEMORY: f64 = 1.25;

/// What is measured of a table.
pub(crate) const FIGURES: [&str; 4] = [
    "million lookups/s",
    "mean latency, us",
    "median latency, us",
    "bytes a record",
];
pub(crate) const RATE: usize = 0;
pub(crate) const LATENCY: usize = 1;
pub(crate) const MEMORY: usize = 3;

pub(crate) const INLINE: &str = "inline";
pub(crate) const HEAP: &str = "heap";
pub(crate) const HYBRID: &str = "hybrid";
pub(crate) const HYBRID_SAME: &str = "hybrid, memory of heap";
pub(crate) const HEAP_MORE: &str = "heap, more memory";
pub(crate) const HYBRID_MORE: &str = "hybrid, more memory";
pub(crate) const HYBRID_QUICK: &str = "hybrid, more memory, for latency";

/// Tables of the same records.
pub(crate) struct Set {
    pub(crate) mix: &'static str,
    /// Weights add up to 1.
    sizes: Vec<RecordSize>,
    records: u32,
    pub(crate) load: f64,
}

/// One of a set's tables.
pub(crate) struct Plan {
    pub(crate) name: &'static str,
    kind: SlotKind,
    /// What the model says, where the rate counts: also about room, load and memory.
    pub(crate) rate: InlineCandidate,
    /// What it says where the latency does.
    latency: InlineCandidate,
    heap_bytes: u64,
}

/// The slots of a table at the load that is compared at.
pub(crate) fn slots(scale: &Scale) -> u64 {
    scale.slots.min(MOST_SLOTS)
}

/// Each mix, at each load.
pub(crate) fn sets(scale: &Scale) -> Vec<Set> {
    let slots = slots(scale) as f64;
    let of_mix = |(mix, weights): (&'static str, [f64; 8])| {
        let total: f64 = weights.iter().sum();
        LOADS.map(|load| {
            let sizes = SIZES.into_iter().zip(weights);
            let sizes = sizes.map(|(bytes, weight)| RecordSize {
                bytes,
                weight: weight / total,
            });
            Set {
                mix,
                sizes: sizes.collect(),
                records: (slots * load).round() as u32,
                load,
            }
        })
    };
    MIXES.into_iter().flat_map(of_mix).collect()
}

impl Plan {
    /// What the model says about one of the [`FIGURES`].
    pub(crate) fn model(&self, figure: usize) -> Option<f64> {
        match figure {
            RATE => Some(self.rate.lookups_per_second() / 1e6),
            LATENCY => Some(self.latency.cost_ns / 1e3),
            MEMORY => Some(self.rate.memory_bytes),
            _ => None,
        }
    }
}

impl Set {
    /// Its tables.
    pub(crate) fn plans(&self) -> Result<Vec<Plan>> {
        let same_load = self.prices(Objective::Throughput, self.load)?;
        let heap = same_load.candidates()[0];
        let within = |objective, memory: f64| {
            let memory_bytes = heap.memory_bytes * memory;
            self.options(self.load, 0)
                .hybrid_prices_within(&self.mix_for(objective), memory_bytes)
        };
        let more = within(Objective::Throughput, MORE_MEMORY)?;
        let quick = within(Objective::Latency, MORE_MEMORY)?;
        let inline = InlineCandidate {
            inline_bytes: LARGEST,
            ..heap
        };
        let chosen = [
            (INLINE, inline),
            (HEAP, heap),
            (HYBRID, same_load.cheapest()),
            (HYBRID_SAME, within(Objective::Throughput, 1.0)?.cheapest()),
            (HEAP_MORE, more.candidates()[0]),
            (HYBRID_MORE, more.cheapest()),
            (HYBRID_QUICK, quick.cheapest()),
        ];
        // Enough for all records, whatever the slots hold, and for what lies idle.
        let heap_bytes = heap.memory_bytes * f64::from(self.records) * 1.125;
        let heap_bytes = heap_bytes as u64 + (1 << 20);
        let plan = |(name, chosen): (&'static str, InlineCandidate)| {
            Ok(Plan {
                name,
                kind: match chosen.inline_bytes {
                    0 => SlotKind::Heap,
                    LARGEST if name == INLINE => SlotKind::Inline,
                    _ => SlotKind::Hybrid,
                },
                rate: self.price(Objective::Throughput, chosen)?,
                latency: self.price(Objective::Latency, chosen)?,
                heap_bytes,
            })
        };
        chosen.into_iter().map(plan).collect()
    }

    /// The same slots at the same load for an objective. The model takes inline slots for hybrid
    /// ones that hold every record.
    fn price(&self, objective: Objective, slots: InlineCandidate) -> Result<InlineCandidate> {
        let prices = self.prices(objective, slots.load)?;
        let mut candidates = prices.candidates().iter();
        let same = candidates.find(|candidate| candidate.inline_bytes == slots.inline_bytes);
        Ok(*same.expect("room for one of the sizes is a candidate"))
    }

    fn prices(&self, objective: Objective, load: f64) -> Result<HybridPrices> {
        let options = self.options(load, 0);
        Ok(options.hybrid_prices(&self.mix_for(objective))?)
    }

    fn mix_for(&self, objective: Objective) -> RecordMix<'_> {
        RecordMix {
            sizes: &self.sizes,
            nic: NicModel::connectx5_edr(),
            objective,
            hit_ratio: 1.0,
        }
    }

    fn options(&self, load_factor: f64, seed: u64) -> LinearOptions {
        let key = FieldSize::Fixed(KEY_BYTES as u32);
        let value = FieldSize::UpTo((LARGEST - KEY_BYTES) as u32);
        LinearOptions::new(Sizing {
            load_factor: Some(load_factor),
            ..Sizing::new(self.records.into(), key, value, seed)
        })
    }

    fn records(&self, seed: u64) -> Records {
        let value_bytes = (0..self.records).map(|record| {
            // Multiples of the golden ratio spread evenly: of any stretch of records each size has
            // its share, and chance adds nothing to what is measured.
            let mut left = (f64::from(record) * 0.618_033_988_749_894_9).fract();
            let reached = self.sizes.iter().find(|size| {
                left -= size.weight;
                left < 0.0
            });
            (reached.map_or(LARGEST, |size| size.bytes) - KEY_BYTES) as u16
        });
        Records::varied(seed, value_bytes)
    }

    /// The [`FIGURES`] of a table.
    pub(crate) fn measure(&self, plan: &Plan, scale: &Scale, table: u32) -> Result<[f64; 4]> {
        let seed = scale.seed_of(table);
        let mut records = self.records(seed);
        let mut options = LinearOptions {
            slot: Some(plan.kind),
            sizing: Sizing {
                heap_bytes: Some(plan.heap_bytes),
                ..self.options(plan.rate.load, seed).sizing
            },
            ..self.options(plan.rate.load, seed)
        };
        match plan.kind {
            SlotKind::Hybrid => options.inline_bytes = Some(plan.rate.inline_bytes as u32),
            SlotKind::Inline => {
                records = records.padded();
                options.sizing.value = FieldSize::Fixed(records.value_bytes() as u32);
            }
            _ => {}
        }
        let mut filling = Filling::new(options.layout()?)?;
        filling.fill_with(&records)?;
        let look_up = |objective, threads, width, warm_up| {
            let layout = filling.layout().clone();
            let policy = ReadPolicy::Modelled {
                nic: NicModel::connectx5_edr(),
                objective,
                hit_ratio: 1.0,
                capped: false,
            };
            let experiment = Experiment {
                table: SimulatedTable::by_policy(Scheme::Linear(layout), policy),
                records: records.clone(),
                ask: Ask::Hits,
                answer: Answer::Value,
                threads,
                width,
                warm_up,
                until: RunLimit::Lookups(scale.lookups.into()),
                seed,
            };
            Ok::<_, LabError>(
                experiment.run(filling.memory().world(seed, NicProfile::connectx5_edr())?)?,
            )
        };
        // Half of what is measured: of lookups that all begin at once, those of one READ end first.
        let half = (f64::from(scale.lookups) * plan.rate.cost_ns / 2.0) as Nanos;
        let warm_up = WARM_UP.max(half);
        let rate = look_up(Objective::Throughput, CLIENT_THREADS, WIDTH, warm_up)?;
        let latency = look_up(Objective::Latency, 1, 1, WARM_UP)?;
        let memory = filling.bytes_taken()? as f64 / f64::from(self.records);
        Ok([
            rate.lookups_per_second() / 1e6,
            latency.mean_latency_ns() / 1e3,
            latency.latency_ns(50.0) / 1e3,
            memory,
        ])
    }
}
