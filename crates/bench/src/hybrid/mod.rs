//! Hybrid slots beside inline and heap ones, for records of 8 bytes to 1 KiB in one table: what paper
//! 000 leaves to future work (its section 7).
//!
//! All tables of a mix hold the same records. Inline slots have room for the largest record, heap slots
//! none, hybrid ones as much as the model chooses: once at the same load as the others, and once with
//! the load that is best in the memory that heap slots take, or in [`MORE_MEMORY`] times as much: which
//! heap slots are then given as well. Rates are of 28 client threads that keep the NIC of the table's
//! machine busy, as in paper 000's section 5.1, with the read sizes of the throughput objective; latencies
//! are of one client with one lookup under way, with those of the latency objective. All lookups hit.

mod table;

use crate::{BenchError, BenchReport, BenchRow, Progress, Result};
use farslot::FieldSize;
use farslot::fabric::Nanos;
use farslot::fabric::sim::NicProfile;
use farslot::index::linear::{LinearOptions, ReadPolicy, ReadSizes, RecordMix, SlotKind};
use farslot::model::{HybridPrices, InlineCandidate, Objective, RecordSize};
use farslot::read_cost;
use table::{Filled, KEY_BYTES, Records};

/// The load factors.
const LOADS: [f64; 2] = [0.5, 0.65];
/// Bytes of the records, key and value together.
const SIZES: [usize; 8] = [8, 16, 32, 64, 128, 256, 512, 1024];
/// The larger of the memories that slots are chosen for, as a multiple of what heap slots take.
pub const MORE_MEMORY: f64 = 1.25;

/// What the benchmark may vary.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The NIC.
    pub profile: NicProfile,
    /// Records of each table.
    pub records: u32,
    /// Lookups that each client thread has under way where the rate is measured.
    pub width: usize,
    /// Nanoseconds of virtual time for which the rate is measured.
    pub window: Nanos,
    /// Lookups whose latency is measured.
    pub lookups: u32,
    /// What all chance derives from.
    pub seed: u64,
}

impl Options {
    /// The defaults for a NIC.
    #[must_use]
    pub fn new(profile: NicProfile) -> Self {
        Self {
            profile,
            records: 1 << 16,
            width: 24,
            window: 4_000_000,
            lookups: 20_000,
            seed: 0,
        }
    }
}

/// A mix of record sizes.
struct Mix {
    name: &'static str,
    sizes: [RecordSize; SIZES.len()],
}

fn mixes() -> [Mix; 2] {
    let mix = |name, weight: fn(i32) -> f64| {
        let mut step = 0;
        let sizes = SIZES.map(|bytes| {
            step += 1;
            RecordSize {
                bytes,
                weight: weight(step),
            }
        });
        Mix { name, sizes }
    };
    [
        mix("log-uniform", |_| 1.0),
        mix("mostly small", |step| 0.5f64.powi(step)),
    ]
}

/// Runs the benchmark. Names of rows begin with the mix, the load that is compared at, and the slots; a
/// table's rows are its rate (`lookups/s`), the mean and median latency (`ns`), and its memory
/// (`B/record`), each beside the model's figure where the model has one.
///
/// # Errors
/// [`BenchError::BadOption`], or what the measurement says.
pub fn run(options: &Options, progress: Progress<'_>) -> Result<BenchReport> {
    check(options)?;
    let mut rows = Vec::new();
    for mix in mixes() {
        let records = Records::new(options.records, &mix.sizes, options.seed);
        for load in LOADS {
            let bench = Bench {
                options,
                progress,
                mix: &mix,
                records: &records,
                load,
            };
            bench.run(&mut rows)?;
        }
    }
    Ok(BenchReport {
        bench: "hybrid",
        fabric: format!("simulated NIC {}, virtual time", options.profile.name),
        rows,
    })
}

fn check(options: &Options) -> Result<()> {
    let at_least_1 = [
        ("width", options.width as u64),
        ("window", options.window),
        ("lookups", options.lookups.into()),
    ];
    for (option, value) in at_least_1 {
        if value == 0 {
            return Err(BenchError::bad(option, 0, "at least 1"));
        }
    }
    // Inline slots for all of them take 2 KiB a record, here and in the simulated node.
    if !(1 << 8..=1 << 20).contains(&options.records) {
        let records = options.records.into();
        return Err(BenchError::bad("records", records, "from 2^8 to 2^20"));
    }
    Ok(())
}

/// One mix, and the load that its tables are compared at.
struct Bench<'b> {
    options: &'b Options,
    progress: Progress<'b>,
    mix: &'b Mix,
    records: &'b Records,
    load: f64,
}

/// A table to be measured.
#[derive(Clone, Copy)]
struct Plan {
    kind: SlotKind,
    /// Bytes of key and value that a slot has room for.
    room: usize,
    load: f64,
}

impl Plan {
    /// What the model chose, which may be that no record is better off in its slot.
    fn chosen(by: InlineCandidate) -> Self {
        let kind = match by.inline_bytes {
            0 => SlotKind::Heap,
            _ => SlotKind::Hybrid,
        };
        Self {
            kind,
            room: by.inline_bytes,
            load: by.load,
        }
    }
}

impl Bench<'_> {
    fn run(&self, rows: &mut Vec<BenchRow>) -> Result<()> {
        let prices = self.prices(Objective::Throughput, self.load)?;
        let heap = prices.candidates()[0];
        let within = |objective, memory: f64| -> Result<HybridPrices> {
            let (mix, options) = (self.record_mix(objective), self.options_for_all());
            Ok(options.hybrid_prices_within(&mix, heap.memory_bytes * memory)?)
        };
        let more = within(Objective::Throughput, MORE_MEMORY)?;
        let inline = Plan {
            kind: SlotKind::Inline,
            room: SIZES[SIZES.len() - 1],
            load: self.load,
        };
        let plans = [
            ("inline", inline),
            ("heap", Plan::chosen(heap)),
            ("hybrid", Plan::chosen(prices.cheapest())),
            (
                "hybrid, memory of heap",
                Plan::chosen(within(Objective::Throughput, 1.0)?.cheapest()),
            ),
            ("heap, more memory", Plan::chosen(more.candidates()[0])),
            ("hybrid, more memory", Plan::chosen(more.cheapest())),
            (
                "hybrid, more memory, for latency",
                Plan::chosen(within(Objective::Latency, MORE_MEMORY)?.cheapest()),
            ),
        ];
        for (slots, plan) in plans {
            let name = format!(
                "{}, load {:.2}, {slots} ({} B, load {:.2})",
                self.mix.name, self.load, plan.room, plan.load
            );
            self.measure(&name, plan, rows)?;
        }
        Ok(())
    }

    fn options_for(&self, records: &Records, load_factor: f64) -> LinearOptions {
        let key = FieldSize::Fixed(KEY_BYTES as u32);
        let (count, value) = (records.count().into(), records.value_size());
        LinearOptions {
            load_factor,
            heap_bytes: Some(records.heap_bytes()),
            ..LinearOptions::new(count, key, value, self.options.seed)
        }
    }

    /// Options for records of all sizes, whichever there are.
    fn options_for_all(&self) -> LinearOptions {
        LinearOptions {
            value: FieldSize::UpTo(SIZES[SIZES.len() - 1] as u32),
            ..self.options_for(self.records, self.load)
        }
    }

    fn record_mix(&self, objective: Objective) -> RecordMix<'_> {
        RecordMix {
            sizes: &self.mix.sizes,
            nic: read_cost(&self.options.profile),
            objective,
            hit_ratio: 1.0,
        }
    }

    fn prices(&self, objective: Objective, load_factor: f64) -> Result<HybridPrices> {
        let options = LinearOptions {
            load_factor,
            ..self.options_for_all()
        };
        Ok(options.hybrid_prices(&self.record_mix(objective))?)
    }

    /// What the model says about a table. It takes inline slots for hybrid ones that hold every record.
    fn price(&self, plan: Plan, objective: Objective) -> Result<InlineCandidate> {
        let prices = self.prices(objective, plan.load)?;
        let mut candidates = prices.candidates().iter();
        let of_room = candidates.find(|candidate| candidate.inline_bytes == plan.room);
        Ok(*of_room.expect("room for one of the sizes is a candidate"))
    }

    fn read_sizes(&self, table: &Filled, objective: Objective) -> Result<ReadSizes> {
        let policy = ReadPolicy::Modelled {
            nic: read_cost(&self.options.profile),
            objective,
            hit_ratio: 1.0,
            capped: false,
        };
        Ok(ReadSizes::new(table.layout(), policy)?)
    }

    fn measure(&self, name: &str, plan: Plan, rows: &mut Vec<BenchRow>) -> Result<()> {
        (self.progress)(name);
        let options = self.options;
        let records = match plan.kind {
            SlotKind::Inline => self.records.padded_to(plan.room - KEY_BYTES),
            _ => self.records.clone(),
        };
        let layout = LinearOptions {
            slot: Some(plan.kind),
            inline_bytes: (plan.kind == SlotKind::Hybrid).then_some(plan.room as u32),
            ..self.options_for(&records, plan.load)
        };
        let table = Filled::new(layout.layout()?, records)?;

        let rate = self.price(plan, Objective::Throughput)?;
        let sizes = self.read_sizes(&table, Objective::Throughput)?;
        let (width, span, seed) = (options.width, options.window, options.seed);
        let rates = table.rates(&options.profile, &sizes, width, span, seed)?;
        rows.push(BenchRow {
            model: Some(rate.lookups_per_second()),
            read_size: Some(sizes.at_load(plan.load)),
            reads_per_lookup: Some(rates.reads / rates.operations),
            ..BenchRow::new(name, rates.operations, "lookups/s")
        });

        let latency = self.price(plan, Objective::Latency)?;
        let sizes = self.read_sizes(&table, Objective::Latency)?;
        let nanos = table.latencies(&options.profile, &sizes, options.lookups, seed)?;
        let mean = nanos.iter().sum::<Nanos>() as f64 / nanos.len() as f64;
        let median = nanos[nanos.len() / 2] as f64;
        let of_latency = |what, value, model| BenchRow {
            model,
            read_size: Some(sizes.at_load(plan.load)),
            ..BenchRow::new(format!("{name}, {what} latency"), value, "ns")
        };
        rows.push(of_latency("mean", mean, Some(latency.cost_ns)));
        rows.push(of_latency("median", median, None));

        rows.push(BenchRow {
            model: Some(rate.memory_bytes),
            ..BenchRow::new(format!("{name}, memory"), table.memory()?, "B/record")
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
