//! Lookups of the client threads of one machine behind a simulated NIC, in virtual time.
//!
//! As in paper 000, section 5.1, 28 threads look up random keys of a table on another machine, each
//! over a queue pair of its own and with many lookups under way, so that the NIC of the table's
//! machine is never idle. The limit is what the same clients get with bare READs of the same size
//! at random places, one READ a lookup.

use super::bare_reads::bare_reads;
use super::figures::{Figures, LoadPoint};
use super::{LookupScheme, Options};
use crate::advise::{Advice, AdviceQuestion, advise};
use crate::simulated::{
    Answer, Ask, BuiltSealed, CLIENT_THREADS, ClientThreads, Experiment, Measured, Records,
    RunLimit, SimulatedTable, TableMemory, WARM_UP, Writes, WrittenTable,
};
use crate::{BenchError, BenchReport, BenchRow, Progress, Result};
use farslot::fabric::Nanos;
use farslot::fabric::sim::NicProfile;
use farslot::index::Sizing;
use farslot::index::cuckoo::{CuckooOptions, LookupOrder};
use farslot::index::duo::DuoOptions;
use farslot::index::linear::{LinearOptions, ReadPolicy, ReadSizes};
use farslot::index::race::RaceOptions;
use farslot::index::sealed::{SealedForm, SealedOptions, SlotOrder};
use farslot::index::{FieldSize, SlotKind};
use farslot::layout::Scheme;
use farslot::model::Objective;
use farslot::{OpenOptions, read_cost};
use std::collections::BTreeMap;

/// What is simulated, and for how long.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulated {
    /// The NIC.
    pub profile: NicProfile,
    /// Lookups that each client thread has under way.
    pub width: usize,
    /// Nanoseconds of virtual time that are measured.
    pub window: Nanos,
}

impl Simulated {
    /// The defaults for a NIC.
    #[must_use]
    pub fn new(profile: NicProfile) -> Self {
        Self {
            profile,
            width: 24,
            window: 4_000_000,
        }
    }

    fn check(&self) -> Result<()> {
        if self.width == 0 {
            return Err(BenchError::bad("width", 0, "at least 1"));
        }
        if self.window == 0 {
            return Err(BenchError::bad("window", 0, "at least 1 ns"));
        }
        Ok(())
    }
}

/// Bytes of a key, and of a value.
const FIELD_BYTES: u32 = 4;
const FIELD: FieldSize = FieldSize::Fixed(FIELD_BYTES);
/// Lookups, one after the other, whose latencies are told.
const SINGLE: u64 = 2_000;

/// Makes the tables and measures them.
///
/// # Errors
/// [`BenchError::BadOption`], or what the measurement says.
pub fn simulated(
    options: &Options,
    measure: &Simulated,
    progress: Progress<'_>,
) -> Result<BenchReport> {
    options.check()?;
    measure.check()?;
    let mut bench = SimulatorBench {
        options,
        measure,
        progress,
        reads: BTreeMap::new(),
        rows: Vec::new(),
    };
    let any_is_built = options.schemes.iter().any(|scheme| scheme.is_built());
    for load in &options.loads {
        let written = bench.predicted(*load, false)?;
        // The advisor takes cuckoo tables too for sealed where all may be.
        let built = any_is_built
            .then(|| bench.predicted(*load, true))
            .transpose()?;
        for scheme in options.schemes_at(*load) {
            let predicted = match (scheme.is_built(), &built) {
                (true, Some(built)) => built,
                _ => &written,
            };
            let point = LoadPoint {
                load: *load,
                scheme,
            };
            bench.at_load(point, predicted)?;
        }
    }
    Ok(BenchReport {
        bench: "lookup",
        fabric: format!(
            "simulated NIC {}, virtual time{}",
            measure.profile.name,
            options.left_out()
        ),
        rows: bench.rows,
    })
}

struct SimulatorBench<'o> {
    options: &'o Options,
    measure: &'o Simulated,
    progress: Progress<'o>,
    /// READs/s by their bytes, as far as they were measured.
    reads: BTreeMap<usize, f64>,
    rows: Vec<BenchRow>,
}

/// A table to be looked up.
struct MeasuredTable {
    point: LoadPoint,
    records: Records,
    /// Slots of a READ, and its bytes.
    read: (u64, usize),
    table_bytes: u64,
    /// Lookups/s by the model: hits and misses.
    predicted: [Option<f64>; 2],
}

impl SimulatorBench<'_> {
    /// What the model says of all schemes, for hits and for misses: of tables that are written, or
    /// also of those that are built whole.
    fn predicted(&self, load: f64, sealed: bool) -> Result<[Advice; 2]> {
        let records = self.options.records_at(load);
        let profile = || self.measure.profile.clone();
        let ask = |hit_ratio| {
            advise(&AdviceQuestion {
                load: Some(load),
                hit_ratio,
                sealed,
                // Or it leaves out a duo table for its writer alone; no price depends on it.
                clients: 1,
                ..AdviceQuestion::new(records, FIELD_BYTES, FIELD_BYTES, profile())
            })
        };
        Ok([ask(1.0)?, ask(0.0)?])
    }

    fn at_load(&mut self, point: LoadPoint, predicted: &[Advice; 2]) -> Result<()> {
        let (slots, seed) = (self.options.slots, self.options.seed);
        // The records that fill a table of so many slots, and what is known of it.
        let looked = |slots: u64, read, table_bytes: u128, name: &str| {
            let count = (slots as f64 * point.load) as u32;
            MeasuredTable {
                point,
                records: Records::distinct(seed, count, FIELD_BYTES as usize),
                read,
                table_bytes: table_bytes as u64,
                predicted: predicted_of(predicted, name),
            }
        };
        match point.scheme {
            LookupScheme::Linear => {
                let options = LinearOptions {
                    slot: Some(SlotKind::Word),
                    ..LinearOptions::new(Sizing {
                        load_factor: Some(1.0),
                        ..Sizing::new(slots, FIELD, FIELD, seed)
                    })
                };
                let layout = options.layout()?;
                let sizes = ReadSizes::new(&layout, self.throughput())?;
                let read_slots = sizes.at_load(point.load);
                let read = (read_slots, read_slots as usize * layout.slot_bytes());
                let of = looked(layout.slots, read, layout.table_bytes(), "linear, word");
                let scheme = Scheme::Linear(layout);
                self.written(SimulatedTable::by_policy(scheme, self.throughput()), of)
            }
            LookupScheme::Sealed | LookupScheme::Perfect => {
                let (order, name) = match point.scheme {
                    LookupScheme::Perfect => (SlotOrder::Perfect, "sealed, inline, perfect hash"),
                    _ => (SlotOrder::ByHash, "sealed, inline"),
                };
                let options = SealedOptions {
                    form: Some(SealedForm::Inline),
                    order,
                    ..SealedOptions::new(Sizing {
                        load_factor: Some(point.load),
                        ..Sizing::new(0, FIELD, FIELD, seed)
                    })
                };
                let mut of = looked(slots, (0, 0), 0, name);
                (self.progress)(&point.name("building"));
                let built = BuiltSealed::new(&options, &of.records)?;
                let read_size = built.read_size(self.throughput())?;
                let layout = built.layout;
                of.read = (read_size.into(), read_size as usize * layout.slot_bytes());
                of.table_bytes = layout.table_bytes() as u64;
                let policy = ReadPolicy::Fixed(read_size);
                let table = SimulatedTable::by_policy(Scheme::Sealed(layout), policy);
                self.looked_up(&table, &built.memory, &of)
            }
            LookupScheme::Cuckoo => {
                let options = CuckooOptions {
                    slot: Some(SlotKind::Word),
                    ..CuckooOptions::new(Sizing {
                        load_factor: Some(1.0),
                        ..Sizing::new(slots, FIELD, FIELD, seed)
                    })
                };
                let layout = options.layout()?;
                let read = (layout.bucket_slots.into(), layout.bucket_bytes());
                let name = "cuckoo 3 x 4, parallel, word";
                let of = looked(layout.slots(), read, layout.table_bytes(), name);
                self.written(SimulatedTable::cuckoo(layout, LookupOrder::Parallel), of)
            }
            LookupScheme::Race => {
                let options = RaceOptions::new(Sizing {
                    load_factor: Some(1.0),
                    ..Sizing::new(slots, FIELD, FIELD, seed)
                });
                let layout = options.layout()?;
                let pair = 2 * layout.bucket_slots;
                let read = (pair.into(), pair as usize * 8);
                let of = looked(layout.slots(), read, layout.table_bytes(), "race");
                let scheme = Scheme::Race(layout);
                self.written(SimulatedTable::new(scheme, &OpenOptions::default()), of)
            }
            LookupScheme::Duo | LookupScheme::DuoAlone => {
                let readers = point.scheme == LookupScheme::Duo;
                let options = DuoOptions {
                    readers,
                    ..DuoOptions::new(Sizing {
                        load_factor: Some(1.0),
                        ..Sizing::new(slots, FIELD, FIELD, seed)
                    })
                };
                let layout = options.layout()?;
                let read = (1, layout.slot_bytes());
                let name = match readers {
                    true => "duo, inline",
                    false => "duo, inline, writer alone",
                };
                let of = looked(layout.slots(), read, layout.table_bytes(), name);
                // Of a table without readers all client threads are the writer's.
                let scheme = Scheme::Duo(layout);
                self.written(SimulatedTable::new(scheme, &OpenOptions::default()), of)
            }
        }
    }

    /// The model's choice of read size, for lookups that all hit.
    fn throughput(&self) -> ReadPolicy {
        ReadPolicy::Modelled {
            nic: read_cost(&self.measure.profile),
            objective: Objective::Throughput,
            hit_ratio: 1.0,
            capped: false,
        }
    }

    /// Writes a table and looks it up.
    fn written(&mut self, table: SimulatedTable, of: MeasuredTable) -> Result<()> {
        let count = of.records.count();
        (self.progress)(&of.point.name(&format!("writing {count} records")));
        let filled = WrittenTable::new(table)?;
        filled.write(&of.records, &Writes::Puts(0..count))?;
        self.looked_up(&filled.table, &filled.memory, &of)
    }

    /// The rows of a table.
    fn looked_up(
        &mut self,
        table: &SimulatedTable,
        memory: &TableMemory,
        of: &MeasuredTable,
    ) -> Result<()> {
        let limit = self.bare_reads(memory, of.table_bytes, of.read.1)?;
        let mut kinds = vec![("hits", Ask::Hits, of.predicted[0])];
        if self.options.misses {
            kinds.push(("misses", Ask::Misses, of.predicted[1]));
        }
        let mut client_bytes = 0;
        for (kind, ask, model) in kinds {
            (self.progress)(&of.point.name(kind));
            let lookups = |threads, width, until| {
                let asked = (ask.clone(), threads, width, until);
                self.lookups_of(table.clone(), memory, &of.records, asked)
            };
            let window = RunLimit::Elapsed(self.measure.window);
            let busy = lookups(CLIENT_THREADS, self.measure.width, window)?;
            let idle = lookups(1, 1, RunLimit::Lookups(SINGLE))?;
            client_bytes = busy.client_bytes;
            let figures = Figures {
                per_second: busy.lookups_per_second(),
                limit,
                model,
                latency: [50.0, 99.0].map(|percent| idle.latency_ns(percent)),
                read_slots: of.read.0,
                reads: busy.reads_per_lookup(),
                round_trips: busy.round_trips_per_lookup(),
                bytes: busy.bytes_per_lookup(),
            };
            self.rows.extend(figures.rows(of.point, kind));
        }
        let (remote, client) = (of.table_bytes as f64, client_bytes as f64);
        let keys = of.records.count().into();
        self.rows.extend(of.point.memory(remote, client, keys));
        Ok(())
    }

    fn lookups_of(
        &self,
        table: SimulatedTable,
        memory: &TableMemory,
        records: &Records,
        (ask, threads, width, until): (Ask, usize, usize, RunLimit),
    ) -> Result<Measured> {
        let seed = self.options.seed;
        let experiment = Experiment {
            table,
            records: records.clone(),
            ask,
            answer: Answer::Value,
            threads,
            width,
            warm_up: WARM_UP,
            until,
            seed,
        };
        experiment.run(memory.world(seed, self.measure.profile.clone())?)
    }

    /// READs/s of one size at random places of the table. The first measurement of a size is a row.
    fn bare_reads(&mut self, memory: &TableMemory, table_bytes: u64, bytes: usize) -> Result<f64> {
        if let Some(known) = self.reads.get(&bytes) {
            return Ok(*known);
        }
        let last = table_bytes - bytes as u64;
        let seed = self.options.seed;
        let world = memory.world(seed, self.measure.profile.clone())?;
        let width = self.measure.width;
        let mut clients = ClientThreads::start(world, CLIENT_THREADS, seed, |endpoint, seed| {
            bare_reads(endpoint, bytes, last, width, seed)
        });
        clients.run_until(WARM_UP)?;
        let before = clients.reads_posted();
        clients.run_until(WARM_UP + self.measure.window)?;
        let posted = clients.reads_posted() - before;
        let rate = posted as f64 * 1e9 / self.measure.window as f64;
        self.reads.insert(bytes, rate);
        let row = BenchRow::new(format!("bare READs of {bytes} B"), rate, "READs/s");
        let expected = 1e9 / read_cost(&self.measure.profile).occupancy_ns(bytes);
        self.rows.push(BenchRow {
            model: Some(expected),
            ..row
        });
        Ok(rate)
    }
}

fn predicted_of(predicted: &[Advice; 2], scheme: &str) -> [Option<f64>; 2] {
    predicted.each_ref().map(|advice| {
        let ranked = advice.ranked.iter().find(|one| one.scheme == scheme);
        ranked.map(|one| one.lookups_per_second)
    })
}
