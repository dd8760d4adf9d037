//! Lookups/s behind one simulated NIC, in virtual time: paper 000's table 2 and what lies beyond it.
//!
//! As in its section 5.1, 28 threads of one machine look up random keys of a table on another, each over
//! a queue pair of its own and with many lookups under way, so that the NIC of the table's machine is
//! never idle. Lookups are counted by the endpoints, between two moments of the steady state.
//!
//! The ceiling of each figure is what the same clients get with bare READs of the same size at random
//! places, one READ a lookup.
//!
//! Or tables of several schemes, with the same records, [side by side](Options::schemes).

mod bare_reads;
mod side_by_side;

use crate::paper000::{self, CLIENT_THREADS, FIXED, LOADS, TABLE_2, VARIABLE};
use crate::simulated::{
    Answer, Ask, Clients, Experiment, Filling, Measured, OpenLinear, Records, TableMemory, Until,
    WARM_UP,
};
use crate::{BenchError, BenchReport, BenchRow, LookupScheme, Progress, Result};
use bare_reads::bare_reads;
use farslot::fabric::Nanos;
use farslot::fabric::sim::NicProfile;
use farslot::index::linear::{KeyRule, ReadPolicy, ReadSizes};
use farslot::model::{HitPolicy, Objective, ProbeDistribution, ReadSizeModel, TableLoad, Workload};
use farslot::read_cost;
use std::collections::BTreeMap;

/// What the benchmark may vary.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The NIC.
    pub profile: NicProfile,
    /// The schemes that are measured side by side; none for the linear tables of paper 000.
    pub schemes: Vec<LookupScheme>,
    /// Slots of the table.
    pub slots: u64,
    /// Lookups that each client thread has under way.
    pub width: usize,
    /// Nanoseconds of virtual time that are measured.
    pub window: Nanos,
    /// What all chance derives from.
    pub seed: u64,
}

impl Options {
    /// The defaults for a NIC.
    #[must_use]
    pub fn new(profile: NicProfile) -> Self {
        Self {
            profile,
            schemes: Vec::new(),
            slots: 1 << 23,
            width: 24,
            window: 4_000_000,
            seed: 0,
        }
    }

    /// The same of these schemes side by side, in tables small enough for all of them.
    #[must_use]
    pub fn of_schemes(self, schemes: Vec<LookupScheme>) -> Self {
        Self {
            schemes,
            slots: self.slots.min(1 << 20),
            ..self
        }
    }
}

/// Runs the benchmark.
///
/// # Errors
/// [`BenchError::BadOption`], or what the measurement says.
pub fn run(options: &Options, progress: Progress<'_>) -> Result<BenchReport> {
    check(options)?;
    let mut bench = Bench {
        options,
        progress,
        reads: BTreeMap::new(),
        rows: Vec::new(),
    };
    if options.schemes.is_empty() {
        bench.all_matches()?;
        bench.stop_at_match()?;
    } else {
        bench.side_by_side(&options.schemes)?;
    }
    let fabric = format!("simulated NIC {}, virtual time", options.profile.name);
    Ok(BenchReport {
        bench: "lookup",
        fabric,
        rows: bench.rows,
    })
}

fn check(options: &Options) -> Result<()> {
    if !(1 << 10..=1 << 31).contains(&options.slots) {
        return Err(BenchError::bad("slots", options.slots, "from 2^10 to 2^31"));
    }
    if options.width == 0 {
        return Err(BenchError::bad("width", 0, "at least 1"));
    }
    if options.window == 0 {
        return Err(BenchError::bad("window", 0, "at least 1 ns"));
    }
    Ok(())
}

struct Bench<'o> {
    options: &'o Options,
    progress: Progress<'o>,
    /// READs/s by their bytes, as far as they were measured.
    reads: BTreeMap<usize, f64>,
    rows: Vec<BenchRow>,
}

impl Bench<'_> {
    /// Lookups that return all records, of keys that may have several: what paper 000 does.
    fn all_matches(&mut self) -> Result<()> {
        let mut table = Table::new(self.options, KeyRule::Multi)?;
        for (row, load) in LOADS.into_iter().enumerate() {
            table.fill_to(load)?;
            let fixed = ReadPolicy::Fixed(FIXED.read_sizes[row]);
            self.lookups(&table, format!("load {load:.2}, fixed 256 B"), fixed, None)?;
            let name = format!("load {load:.2}, variable (paper 000)");
            let variable = ReadPolicy::Fixed(VARIABLE.read_sizes[row]);
            let papers = TABLE_2.get(row).map(|cells| cells[row]);
            self.lookups(&table, name, variable, papers)?;
            let name = format!("load {load:.2}, throughput objective");
            self.lookups(&table, name, self.throughput(), None)?;
            self.misconfigured(&table, row)?;
        }
        Ok(())
    }

    /// A row of table 2: what comes of a read size that was meant for another load.
    fn misconfigured(&mut self, table: &Table, row: usize) -> Result<()> {
        let Some(papers) = TABLE_2.get(row) else {
            return Ok(());
        };
        for (column, papers) in papers.iter().enumerate() {
            let (actual, assumed) = (LOADS[row], LOADS[column]);
            let name = format!("paper 000, table 2: load {actual:.2}, {assumed:.2} assumed");
            let policy = ReadPolicy::Fixed(VARIABLE.read_sizes[column]);
            self.lookups(table, name, policy, Some(*papers))?;
        }
        Ok(())
    }

    /// Lookups of unique keys, which end at the match.
    fn stop_at_match(&mut self) -> Result<()> {
        let mut table = Table::new(self.options, KeyRule::Unique)?;
        for load in LOADS {
            table.fill_to(load)?;
            let name = format!("load {load:.2}, stop at match");
            self.lookups(&table, name, self.throughput(), None)?;
        }
        Ok(())
    }

    /// The model's choice of read size, for lookups that all hit.
    fn throughput(&self) -> ReadPolicy {
        ReadPolicy::Modelled {
            nic: read_cost(&self.options.profile),
            objective: Objective::Throughput,
            hit_ratio: 1.0,
            capped: false,
        }
    }

    /// One row: lookups/s in a table, under the rate of READs of the same size.
    fn lookups(
        &mut self,
        table: &Table,
        name: String,
        policy: ReadPolicy,
        paper: Option<f64>,
    ) -> Result<()> {
        (self.progress)(&name);
        let layout = table.filling.layout();
        let sizes = ReadSizes::new(layout, policy)?;
        let load = f64::from(table.records.count()) / layout.slots as f64;
        let read_size = sizes.at_load(load);
        let bytes = read_size as usize * layout.slot_bytes();
        let table_bytes = layout.table_bytes() as u64;
        let limit = self.bare_reads(table.filling.memory(), table_bytes, bytes)?;
        let measured = self.measure(table, sizes)?;
        let rate = measured.lookups_per_second();
        let row = BenchRow::new(name, rate, "lookups/s").limited_by(limit);
        self.rows.push(BenchRow {
            paper,
            model: Some(self.modelled(table, read_size as usize)?),
            read_size: Some(read_size),
            reads_per_lookup: Some(measured.reads_per_lookup()),
            ..row
        });
        Ok(())
    }

    /// READs/s of one size at random places of the table. The first measurement of a size is a row.
    fn bare_reads(&mut self, memory: &TableMemory, table_bytes: u64, bytes: usize) -> Result<f64> {
        if let Some(known) = self.reads.get(&bytes) {
            return Ok(*known);
        }
        let last = table_bytes - bytes as u64;
        let seed = self.options.seed;
        let world = memory.world(seed, self.options.profile.clone())?;
        let width = self.options.width;
        let mut clients = Clients::start(world, CLIENT_THREADS, seed, |endpoint, seed| {
            bare_reads(endpoint, bytes, last, width, seed)
        });
        clients.run_until(WARM_UP)?;
        let before = clients.reads_posted();
        clients.run_until(WARM_UP + self.options.window)?;
        let posted = clients.reads_posted() - before;
        let rate = posted as f64 * 1e9 / self.options.window as f64;
        self.reads.insert(bytes, rate);
        let row = BenchRow::new(format!("bare READs of {bytes} B"), rate, "READs/s");
        let expected = 1e9 / read_cost(&self.options.profile).occupancy_ns(bytes);
        self.rows.push(BenchRow {
            model: Some(expected),
            ..row
        });
        Ok(rate)
    }

    /// What the exact model gives for hits: the rate at which the table's NIC is busy all the time.
    fn modelled(&self, table: &Table, read_size: usize) -> Result<f64> {
        let layout = table.filling.layout();
        let nic = read_cost(&self.options.profile);
        let policy = match layout.keys {
            KeyRule::Multi => HitPolicy::AllMatches,
            KeyRule::Unique => HitPolicy::StopAtMatch,
        };
        let fill = TableLoad::new(layout.slots, table.records.count().into())?;
        let distances = ProbeDistribution::lookup(fill, Workload::hits(policy))?;
        let model = ReadSizeModel::new(layout.slot_bytes(), Objective::Throughput, nic)?;
        Ok(model.cost(&distances, read_size).lookups_per_second())
    }

    /// Lookups of random keys in a fresh copy of the table.
    fn measure(&self, table: &Table, sizes: ReadSizes) -> Result<Measured> {
        let layout = table.filling.layout().clone();
        let answer = match layout.keys {
            KeyRule::Unique => Answer::Value,
            KeyRule::Multi => Answer::AllRecords,
        };
        let seed = self.options.seed;
        let experiment = Experiment {
            table: OpenLinear {
                layout,
                sizes,
                hints: 0,
            },
            records: table.records.clone(),
            ask: Ask::Hits,
            answer,
            threads: CLIENT_THREADS,
            width: self.options.width,
            warm_up: WARM_UP,
            until: Until::Elapsed(self.options.window),
            seed,
        };
        let profile = self.options.profile.clone();
        experiment.run(table.filling.memory().world(seed, profile)?)
    }
}

/// A table of paper 000's smallest records that is filled step by step.
struct Table {
    filling: Filling,
    records: Records,
    seed: u64,
}

impl Table {
    fn new(options: &Options, rule: KeyRule) -> Result<Self> {
        let layout = paper000::layout(options.slots, rule, options.seed)?;
        Ok(Self {
            filling: Filling::new(layout)?,
            records: paper000::distinct_records(options.seed, 0),
            seed: options.seed,
        })
    }

    fn fill_to(&mut self, load: f64) -> Result<()> {
        self.records = paper000::distinct_records(self.seed, self.filling.records_at(load));
        self.filling.fill_with(&self.records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Options {
        Options {
            slots: 1 << 16,
            window: 400_000,
            ..Options::new(NicProfile::connectx5_edr())
        }
    }

    #[test]
    fn the_simulated_nic_is_what_limits_lookups() {
        let report = run(&small(), &|_| {}).unwrap();
        let lookups = report.rows.iter().filter(|row| row.unit == "lookups/s");
        assert_eq!(lookups.count(), 7 * 3 + 9 + 7);
        let papers = report.rows.iter().filter(|row| row.paper.is_some());
        assert_eq!(papers.count(), 9 + 3);
        for row in &report.rows {
            // One small table: the fuller, the more it differs from the mean of all.
            let is_full = ["0.80", "0.85", "0.90", "0.95"]
                .iter()
                .any(|load| row.name.contains(load));
            let tolerance = if is_full { 0.5 } else { 0.05 };
            let ratio = row.value / row.model.unwrap();
            assert!((ratio - 1.0).abs() < tolerance, "{ratio} {row:?}");
            // A lookup is at least one READ of that size, as good as the limit was measured.
            assert!(row.ratio.is_none_or(|ratio| ratio < 1.04), "{row:?}");
        }
    }

    #[test]
    fn schemes_side_by_side_take_what_the_model_says() {
        use LookupScheme::{Cuckoo, Duo, Linear, Race};
        let options = Options {
            window: 200_000,
            ..small()
        };
        let options = Options {
            slots: 1 << 15,
            ..options.of_schemes(vec![Linear, Cuckoo, Race, Duo])
        };
        let report = run(&options, &|_| {}).unwrap();
        let lookups = report.rows.iter().filter(|row| row.unit == "lookups/s");
        let lookups: Vec<_> = lookups.collect();
        assert_eq!(lookups.len(), 3 * 4 * 2);
        for row in &lookups {
            // One small linear table that is nearly full differs from the mean of all.
            let tolerance = if row.name.contains("linear") {
                0.3
            } else {
                0.05
            };
            let ratio = row.value / row.model.unwrap();
            assert!((ratio - 1.0).abs() < tolerance, "{ratio} {row:?}");
        }
        let of = |name: &str| *lookups.iter().find(|row| row.name == name).unwrap();
        let hit = of("load 0.90, duo, hits");
        assert!(
            (1.0..1.01).contains(&hit.round_trips_per_lookup.unwrap()),
            "{hit:?}"
        );
        let value = |name: &str| {
            let row = report.rows.iter().find(|row| row.name == name);
            row.unwrap_or_else(|| panic!("{name}")).value
        };
        let p50 = |scheme| value(&format!("load 0.90, {scheme}, hits, one at a time, p50"));
        assert!(p50("duo") < p50("cuckoo") && p50("cuckoo") < p50("race"));
        assert!(value("load 0.90, duo, client's memory") > 2.5);
        assert_eq!(value("load 0.90, linear, client's memory"), 0.0);
    }

    #[test]
    fn a_seed_gives_the_same_figures() {
        let options = Options {
            slots: 1 << 10,
            window: 20_000,
            ..small()
        };
        let report = |options| run(&options, &|_| {}).unwrap();
        assert_eq!(report(options.clone()), report(options));
    }

    #[test]
    fn options_without_a_measurement_are_named() {
        let few_slots = Options {
            slots: 1,
            ..small()
        };
        let narrow = Options {
            width: 0,
            ..small()
        };
        let no_time = Options {
            window: 0,
            ..small()
        };
        for options in [few_slots, narrow, no_time] {
            assert!(run(&options, &|_| {}).unwrap_err().is_usage());
        }
    }
}
