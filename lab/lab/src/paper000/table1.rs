//! Paper 000, table 1: READs per lookup of a key that is there, and the read sizes behind them.
//!
//! A lookup returns all records of its key, and so reads on to the first empty slot. The READs are
//! those that the endpoint has counted. At high load they depend on the table as much as on the
//! keys: a few thousand clusters hold most of them. So the figure is a mean over tables, as the
//! paper's is over ten, and its error is that between tables.

use super::published::by_load;
use super::published::{self, CAPS, FIXED, LOADS, Probing, RECORD_BYTES, UNCONSTRAINED, VARIABLE};
use crate::scale::Scale;
use crate::stats::Mean;
use crate::{Axis, Line, Plot, Progress, ReproReport, ReproRow, Result, threads};
use farslot::fabric::sim::NicProfile;
use farslot::fabric::{Endpoint, Executor, Limits, window};
use farslot::index::linear::{KeyRule, LinearTable, ReadPolicy, ReadSizes};
use farslot::index::{BATCH_WIDTH, GET_ALL, IndexExt, Value};
use farslot::model::{NicModel, Objective, ProbeDistribution, ReadSizeModel, TableLoad, Workload};
use farslot_bench::Answers;
use farslot_bench::simulated::{Filling, Records, TABLE_AT};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::rc::Rc;

pub(crate) const ID: &str = "000-table1";

/// Half a minute on two cores.
pub(crate) const SCALE: Scale = Scale {
    slots: 1 << 22,
    tables: 16,
    lookups: 20_000,
    seed: 0,
};

const COLUMNS: [&Probing; 3] = [&FIXED, &UNCONSTRAINED, &VARIABLE];

/// READs per lookup in one table: a row for each load, a column for each of [`COLUMNS`].
type Cells = [[f64; COLUMNS.len()]; LOADS.len()];

/// Measures the table, and asks the model for its read sizes.
pub(crate) fn run(options: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let tables = measure_tables(options, progress)?;
    let mut rows = requests(options.slots, &tables)?;
    rows.extend(read_sizes()?);
    rows.extend(caps());
    let lines = COLUMNS.iter().enumerate().flat_map(|(index, column)| {
        let mean = |row: usize| Mean::of(tables.iter().map(|cells| cells[row][index])).mean;
        let points = |value: &dyn Fn(usize) -> f64| by_load(value);
        [
            Line::ours(column.name, points(&mean)),
            Line::paper(column.name, points(&|row| column.requests[row])),
        ]
    });
    let plot = Plot {
        title: "READs per lookup".into(),
        x: Axis::linear("load factor"),
        y: Axis::logarithmic("READs per lookup"),
        lines: lines.collect(),
    };
    Ok(ReproReport {
        id: ID,
        setup: format!(
            "{} tables of {} slots of 8 bytes, {} lookups each behind every cell; hits that return all \
             matches; counted by the endpoints of the simulated fabric, and computed by the exact model for \
             tables of that size.",
            options.tables, options.slots, options.lookups
        ),
        rows,
        plots: vec![plot],
    })
}

/// Measures all tables.
fn measure_tables(options: &Scale, progress: Progress<'_>) -> Result<Vec<Cells>> {
    let tables = options.tables;
    threads::in_order(tables as usize, |number| {
        progress(&format!("table {} of {tables}", number + 1));
        measure_table(options, number as u32)
    })
}

/// Fills one table step by step and measures it at each load.
fn measure_table(options: &Scale, number: u32) -> Result<Cells> {
    let seed = options.seed_of(number);
    let layout = published::layout(options.slots, KeyRule::Multi, seed)?;
    let mut table = Filling::new(layout)?;
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut cells = Cells::default();
    for (row, (cells, load)) in cells.iter_mut().zip(LOADS).enumerate() {
        let records = published::distinct_records(seed, table.records_at(load));
        table.fill_with(&records)?;
        for (cell, column) in cells.iter_mut().zip(COLUMNS) {
            let sizes = ReadSizes::new(table.layout(), ReadPolicy::Fixed(column.read_sizes[row]))?;
            *cell = reads_per_lookup(&table, &records, sizes, options.lookups, &mut random)?;
        }
    }
    Ok(cells)
}

/// Looks up random keys of the table over the simulated fabric; returns what the endpoint counted.
fn reads_per_lookup(
    filled: &Filling,
    records: &Records,
    sizes: ReadSizes,
    lookups: u32,
    random: &mut ChaCha8Rng,
) -> Result<f64> {
    let profile = NicProfile::connectx5_edr();
    let world = filled.memory().world(random.random(), profile)?;
    let endpoint = world.endpoint(Limits::default());
    let executor = Executor::new(Rc::clone(&endpoint));
    let opening = LinearTable::open(
        Rc::clone(&endpoint),
        TABLE_AT,
        filled.layout().clone(),
        sizes,
    );
    let table = executor.block_on(opening)?;
    let jobs = (0..lookups).map(|_| {
        let key = records.key(random.random_range(0..records.count()));
        let table = &table;
        async move { table.get_all(&key).await }
    });
    let mut answers = Answers::default();
    let done = |_, found: farslot::index::Result<Vec<Value>>| {
        answers.note(found.map(|found| found.len() == 1));
    };
    executor.block_on(window(BATCH_WIDTH, jobs, done));
    answers.check()?;
    let counted = endpoint.core().counters.snapshot().operation(GET_ALL);
    Ok(counted.verbs as f64 / counted.count as f64)
}

/// The measured part of the table.
fn requests(slots: u64, tables: &[Cells]) -> Result<Vec<ReproRow>> {
    let mut rows = Vec::new();
    for (row, load) in LOADS.into_iter().enumerate() {
        let fill = TableLoad::from_load(slots, load)?;
        let distances = ProbeDistribution::hit_all_matches(fill)?;
        for (index, column) in COLUMNS.into_iter().enumerate() {
            let mean = Mean::of(tables.iter().map(|cells| cells[row][index]));
            let cell = format!("requests per lookup, {}, load {load:.2}", column.name);
            let read_size = column.read_sizes[row] as usize;
            rows.push(ReproRow {
                model: Some(distances.expected_reads(read_size)),
                ..mean.row(cell, Some(column.requests[row]))
            });
        }
    }
    Ok(rows)
}

/// The model's own read sizes, and their cost beside that of the paper's, both computed exactly for
/// the paper's tables: latency is what counts, and lookups miss (its section 3).
fn read_sizes() -> Result<Vec<ReproRow>> {
    let mut rows = Vec::new();
    for (row, load) in LOADS.into_iter().enumerate() {
        let misses = Workload::misses();
        let distances = ProbeDistribution::lookup(published::table_load(load)?, misses)?;
        for column in [&UNCONSTRAINED, &VARIABLE] {
            let model = model(RECORD_BYTES, column.capped)?;
            let papers = model.cost(&distances, column.read_sizes[row] as usize);
            let ours = model.choose(&distances);
            let name = column.name;
            rows.push(ReproRow::new(
                format!("read size, slots, {name}, load {load:.2}"),
                Some(papers.read_size as f64),
                ours.read_size as f64,
            ));
            rows.push(ReproRow::new(
                format!("exact cost of the read size, ns, {name}, load {load:.2}"),
                Some(papers.cost_ns),
                ours.cost_ns,
            ));
        }
    }
    Ok(rows)
}

/// The bandwidth constraint alone: Eq. 2.
fn caps() -> Vec<ReproRow> {
    let nic = NicModel::connectx5_edr();
    let row = |(bytes, papers): (usize, u32)| {
        let cell = format!("read size cap, slots of {bytes} bytes");
        ReproRow::new(cell, Some(papers.into()), nic.bandwidth_cap(bytes) as f64)
    };
    CAPS.map(row).to_vec()
}

fn model(slot_bytes: usize, capped: bool) -> Result<ReadSizeModel> {
    let model = ReadSizeModel::new(slot_bytes, Objective::Latency, NicModel::connectx5_edr())?;
    Ok(if capped {
        model.with_bandwidth_cap()
    } else {
        model
    })
}

#[cfg(test)]
#[path = "table1_tests.rs"]
mod tests;
