//! Tables of several schemes with the same records, as full as each other, looked up by the same clients.

use super::Bench;
use crate::advise::{Advice, Question, advise};
use crate::paper000::{self, CLIENT_THREADS};
use crate::simulated::{
    Answer, Ask, Experiment, Measured, OpenCuckoo, OpenDuo, OpenLinear, OpenRace, OpenTable,
    OpenWriter, Records, TableMemory, Until, WARM_UP, Writes, Written,
};
use crate::{BenchRow, LookupScheme, Result};
use farslot::index::Sizing;
use farslot::index::cuckoo::{CuckooOptions, LookupOrder};
use farslot::index::duo::DuoOptions;
use farslot::index::linear::ReadSizes;
use farslot::index::race::RaceOptions;
use farslot::index::{FieldSize, KeyRule, SlotKind};

/// Load factors at which all of them are.
const LOADS: [f64; 3] = [0.5, 0.75, 0.9];
/// Bytes of a key, and of a value.
const FIELD_BYTES: u32 = 4;
const FIELD: FieldSize = FieldSize::Fixed(FIELD_BYTES);
/// Lookups, one after the other, whose latencies are told.
const SINGLE: u64 = 2_000;

impl Bench<'_> {
    /// Lookups in tables of these schemes, at one load factor after the other.
    pub(super) fn side_by_side(&mut self, schemes: &[LookupScheme]) -> Result<()> {
        for load in LOADS {
            let predicted = [self.predicted(load, 1.0)?, self.predicted(load, 0.0)?];
            for scheme in schemes {
                self.scheme_at(*scheme, load, &predicted)?;
            }
        }
        Ok(())
    }

    /// What the model says of all schemes.
    fn predicted(&self, load: f64, hit_ratio: f64) -> Result<Advice> {
        let entries = (self.options.slots as f64 * load) as u64;
        let profile = self.options.profile.clone();
        advise(&Question {
            load: Some(load),
            hit_ratio,
            ..Question::new(entries, FIELD_BYTES, FIELD_BYTES, profile)
        })
    }

    fn scheme_at(
        &mut self,
        scheme: LookupScheme,
        load: f64,
        predicted: &[Advice; 2],
    ) -> Result<()> {
        let (slots, seed) = (self.options.slots, self.options.seed);
        match scheme {
            LookupScheme::Linear => {
                let layout = paper000::layout(slots, KeyRule::Unique, seed)?;
                let sizes = ReadSizes::new(&layout, self.throughput())?;
                let read_slots = sizes.at_load(load);
                let of = Looked {
                    scheme,
                    load,
                    slots: layout.slots,
                    read: (read_slots, read_slots as usize * layout.slot_bytes()),
                    predicted: predicted_of(predicted, "linear, word"),
                };
                self.looked_up(
                    OpenLinear {
                        layout,
                        sizes,
                        hints: 0,
                    },
                    of,
                )
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
                let of = Looked {
                    scheme,
                    load,
                    slots: layout.slots(),
                    read: (layout.bucket_slots.into(), layout.bucket_bytes()),
                    predicted: predicted_of(predicted, "cuckoo 3 x 4, parallel, word"),
                };
                let order = LookupOrder::Parallel;
                self.looked_up(OpenCuckoo { layout, order }, of)
            }
            LookupScheme::Race => {
                let options = RaceOptions::new(Sizing {
                    load_factor: Some(1.0),
                    ..Sizing::new(slots, FIELD, FIELD, seed)
                });
                let layout = options.layout()?;
                let pair = 2 * layout.bucket_slots;
                let of = Looked {
                    scheme,
                    load,
                    slots: layout.slots(),
                    read: (pair.into(), pair as usize * 8),
                    predicted: predicted_of(predicted, "race"),
                };
                self.looked_up(OpenRace { layout }, of)
            }
            LookupScheme::Duo => {
                let options = DuoOptions {
                    readers: true,
                    ..DuoOptions::new(Sizing {
                        load_factor: Some(1.0),
                        ..Sizing::new(slots, FIELD, FIELD, seed)
                    })
                };
                let layout = options.layout()?;
                let of = Looked {
                    scheme,
                    load,
                    slots: layout.slots(),
                    read: (1, layout.slot_bytes()),
                    predicted: predicted_of(predicted, "duo, inline"),
                };
                self.looked_up(OpenDuo { layout }, of)
            }
        }
    }

    /// The rows of a table.
    fn looked_up<T: OpenWriter>(&mut self, table: T, of: Looked) -> Result<()> {
        let name = |what: &str| format!("load {:.2}, {}, {what}", of.load, of.scheme.name());
        let count = (of.slots as f64 * of.load) as u32;
        (self.progress)(&name(&format!("putting {count} records")));
        let records = Records::distinct(self.options.seed, count, FIELD_BYTES as usize);
        let filled = Written::new(table)?;
        filled.write(&records, &Writes::Puts(0..count))?;
        let Written { table, memory } = filled;
        let bytes = table.table_bytes() as u64;
        let limit = self.bare_reads(&memory, bytes, of.read.1)?;
        let mut client_bytes = 0;
        for (what, ask, predicted) in [
            ("hits", Ask::Hits, of.predicted[0]),
            ("misses", Ask::Misses, of.predicted[1]),
        ] {
            (self.progress)(&name(what));
            let lookups = |threads, width, until| {
                let asked = (ask.clone(), threads, width, until);
                self.lookups_of(&table, &memory, &records, asked)
            };
            let window = Until::Elapsed(self.options.window);
            let busy = lookups(CLIENT_THREADS, self.options.width, window)?;
            let idle = lookups(1, 1, Until::Lookups(SINGLE))?;
            client_bytes = busy.client_bytes;
            let row = BenchRow::new(name(what), busy.lookups_per_second(), "lookups/s");
            self.rows.push(BenchRow {
                model: predicted,
                read_size: Some(of.read.0),
                reads_per_lookup: Some(busy.reads_per_lookup()),
                round_trips_per_lookup: Some(busy.round_trips_per_lookup()),
                bytes_per_lookup: Some(busy.bytes_per_lookup()),
                ..row.limited_by(limit)
            });
            for (quantile, percent) in [("p50", 50.0), ("p99", 99.0)] {
                let name = name(&format!("{what}, one at a time, {quantile}"));
                self.rows
                    .push(BenchRow::new(name, idle.latency_ns(percent), "ns"));
            }
        }
        for (what, bytes) in [("remote memory", bytes), ("client's memory", client_bytes)] {
            let per_key = bytes as f64 / f64::from(count);
            self.rows.push(BenchRow::new(name(what), per_key, "B/key"));
        }
        Ok(())
    }

    fn lookups_of<T: OpenTable>(
        &self,
        table: &T,
        memory: &TableMemory,
        records: &Records,
        (ask, threads, width, until): (Ask, usize, usize, Until),
    ) -> Result<Measured> {
        let seed = self.options.seed;
        let experiment = Experiment {
            table: table.clone(),
            records: records.clone(),
            ask,
            answer: Answer::Value,
            threads,
            width,
            warm_up: WARM_UP,
            until,
            seed,
        };
        experiment.run(memory.world(seed, self.options.profile.clone())?)
    }
}

/// A table to be looked up.
struct Looked {
    scheme: LookupScheme,
    load: f64,
    slots: u64,
    /// Slots of a READ, and its bytes.
    read: (u64, usize),
    /// Lookups/s by the model: hits and misses.
    predicted: [Option<f64>; 2],
}

fn predicted_of(predicted: &[Advice; 2], scheme: &str) -> [Option<f64>; 2] {
    predicted.each_ref().map(|advice| {
        let ranked = advice.ranked.iter().find(|one| one.scheme == scheme);
        ranked.map(|one| one.lookups_per_second)
    })
}
