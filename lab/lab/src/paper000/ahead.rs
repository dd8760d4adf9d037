//! Beyond paper 000: unique keys, for which lookups may stop at the match, and tables in the order
//! of their hashes, in which a miss ends as early as a hit; by load factor, beside the paper's
//! best.

use super::cuckoo_tables::{CuckooAt, PAPERS, no_place};
use super::linear_tables::{WIDTH, at_each_load, for_throughput};
use super::probing::papers_size;
use super::published::by_load;
use super::published::{LOADS, VARIABLE};
use crate::scale::Scale;
use crate::stats::Mean;
use crate::{Axis, LabError, Line, Plot, Progress, ReproReport, ReproRow, Result, threads};
use farslot::FieldSize;
use farslot::fabric::sim::NicProfile;
use farslot::index::Sizing;
use farslot::index::cuckoo::LookupOrder;
use farslot::index::linear::KeyRule;
use farslot::index::sealed::{SealedForm, SealedOptions, SlotOrder};
use farslot::layout::Scheme;
use farslot_bench::simulated::CLIENT_THREADS;
use farslot_bench::simulated::{
    Answer, Ask, BuiltSealed, Experiment, Measured, Records, RunLimit, SimulatedTable, WARM_UP,
};

pub(crate) const ID: &str = "000-ahead";

/// Half a minute.
pub(crate) const SCALE: Scale = Scale {
    slots: 1 << 20,
    tables: 2,
    lookups: 100_000,
    seed: 0,
};

const SEALED: &str = "Sealed, ordered by hash";
const PERFECT: &str = "Sealed, perfect hash";
const LINEAR: &str = "Linear, unique keys";
const CUCKOO: &str = "Parallel Cuckoo";
const SEQUENTIAL: &str = "Sequential Cuckoo, stops at the match";

/// Lookups of one kind at each of [`LOADS`]: million lookups/s, and READs per lookup.
struct RateCurve {
    name: &'static str,
    at: Vec<[Mean; 2]>,
}

/// Lookups that hit, and lookups that miss.
struct HitMissCurves {
    hits: Vec<RateCurve>,
    misses: Vec<RateCurve>,
}

/// Measures it.
pub(crate) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let curves = HitMissCurves::measure(scale, progress)?;
    let mut rows = Vec::new();
    let sets = [("hits", &curves.hits), ("misses", &curves.misses)];
    for (set, curves) in &sets {
        for (row, load) in LOADS.into_iter().enumerate() {
            for curve in *curves {
                let [rate, reads] = curve.at[row];
                let cell = |label: &str| format!("{label}, {set}, {}, load {load:.2}", curve.name);
                rows.push(rate.row(cell("million lookups/s"), None));
                rows.push(reads.row(cell("READs per lookup"), None));
            }
            for (best, cuckoo) in [LINEAR, SEALED, PERFECT].into_iter().flat_map(|best| {
                let cuckoos = [CUCKOO, SEQUENTIAL].into_iter();
                cuckoos.map(move |cuckoo| (best, cuckoo))
            }) {
                let ratio = rate(curves, best, row) / rate(curves, cuckoo, row);
                let cell = format!("{best} / {cuckoo}, lookups/s, {set}, load {load:.2}");
                rows.push(ReproRow::new(cell, None, ratio));
            }
        }
    }
    let plots = sets.map(|(set, curves)| Plot {
        title: format!("Lookups/s by load factor: {set}"),
        x: Axis::linear("load factor"),
        y: Axis::linear("million lookups/s"),
        lines: curves
            .iter()
            .map(|curve| Line::ours(curve.name, by_load(|row| curve.at[row][0].mean)))
            .collect(),
    });
    Ok(ReproReport {
        id: ID,
        setup: format!(
            "{} linear tables of {} slots of 8 bytes, cuckoo tables of at most 2^18; XXH3; 28 client threads with \
             {WIDTH} lookups under way each, {} lookups a cell and table. Variable Linear has the paper's read sizes \
             and returns all matches; our linear tables have read sizes for the rate of a saturated NIC, and stop at \
             the match, or at the first empty slot; sealed ones stop also at the first key that comes after, or \
             read the one slot that a perfect hash function names, which clients keep in 0.3 bytes a key. Cuckoo \
             tables are sealed: parallel lookups read all three buckets at once; sequential ones one after the \
             other and stop at the match as ours do, so ours are to be compared with these for hits.",
            scale.tables, scale.slots, scale.lookups
        ),
        rows,
        plots: plots.into(),
    })
}

fn rate(curves: &[RateCurve], name: &str, row: usize) -> f64 {
    let found = curves.iter().find(|curve| curve.name == name);
    found.expect("a curve of that name was measured").at[row][0].mean
}

impl HitMissCurves {
    fn measure(scale: &Scale, progress: Progress<'_>) -> Result<Self> {
        let multi = at_each_load(scale, KeyRule::Multi, &LOADS, progress, |table| {
            Ok([table.saturated(papers_size(&VARIABLE, table))?])
        })?;
        let unique = at_each_load(scale, KeyRule::Unique, &LOADS, progress, |table| {
            let misses = Experiment {
                ask: Ask::Misses,
                ..table.saturating(for_throughput(0.0))?
            };
            Ok([
                table.saturated(for_throughput(1.0))?,
                table.run(&misses, NicProfile::connectx5_edr())?,
            ])
        })?;
        let tables = scale.tables as usize;
        let sealed = |order| {
            let cells = threads::in_order(tables * LOADS.len(), |cell| {
                let load = LOADS[cell % LOADS.len()];
                progress(&format!("sealed table, load {load:.2}"));
                sealed(scale, order, (cell / LOADS.len()) as u32, load)
            })?;
            Ok::<Vec<_>, LabError>(cells.chunks(LOADS.len()).map(<[_]>::to_vec).collect())
        };
        let [sealed, perfect] = [sealed(SlotOrder::ByHash)?, sealed(SlotOrder::Perfect)?];
        let cuckoo = threads::in_order(LOADS.len(), |row| {
            progress(&format!("cuckoo table, load {:.2}", LOADS[row]));
            cuckoo(scale, LOADS[row])
        })?;
        let cuckoo = [cuckoo];
        Ok(Self {
            hits: vec![
                curve(LINEAR, &unique, 0),
                curve(SEALED, &sealed, 0),
                curve(PERFECT, &perfect, 0),
                curve(VARIABLE.name, &multi, 0),
                curve(CUCKOO, &cuckoo, 0),
                curve(SEQUENTIAL, &cuckoo, 1),
            ],
            misses: vec![
                curve(LINEAR, &unique, 1),
                curve(SEALED, &sealed, 1),
                curve(PERFECT, &perfect, 1),
                curve(CUCKOO, &cuckoo, 2),
                curve(SEQUENTIAL, &cuckoo, 3),
            ],
        })
    }
}

/// A column of what tables gave at each load.
fn curve<const N: usize>(
    name: &'static str,
    tables: &[Vec<[Measured; N]>],
    column: usize,
) -> RateCurve {
    let mean = |row: usize, of: fn(&Measured) -> f64| {
        Mean::of(tables.iter().map(|loads| of(&loads[row][column])))
    };
    let at = |row| {
        [
            mean(row, |measured| measured.lookups_per_second() / 1e6),
            mean(row, Measured::reads_per_lookup),
        ]
    };
    RateCurve {
        name,
        at: (0..LOADS.len()).map(at).collect(),
    }
}

/// Hits and misses in a sealed table of this order.
fn sealed(scale: &Scale, order: SlotOrder, table: u32, load: f64) -> Result<[Measured; 2]> {
    let seed = scale.seed_of(table);
    let count = (scale.slots as f64 * load).round() as u32;
    let records = Records::distinct(seed, count, 4);
    let four_bytes = FieldSize::Fixed(4);
    let options = SealedOptions {
        form: Some(SealedForm::Inline),
        order,
        ..SealedOptions::new(Sizing {
            load_factor: Some(load),
            ..Sizing::new(0, four_bytes, four_bytes, seed)
        })
    };
    let built = BuiltSealed::new(&options, &records)?;
    let lookups = |ask, hit_ratio| {
        let experiment = Experiment {
            table: SimulatedTable::by_policy(
                Scheme::Sealed(built.layout.clone()),
                for_throughput(hit_ratio),
            ),
            records: records.clone(),
            ask,
            answer: Answer::Value,
            threads: CLIENT_THREADS,
            width: WIDTH,
            warm_up: WARM_UP,
            until: RunLimit::Lookups(scale.lookups.into()),
            seed,
        };
        Ok::<_, LabError>(experiment.run(built.memory.world(seed, NicProfile::connectx5_edr())?)?)
    };
    Ok([lookups(Ask::Hits, 1.0)?, lookups(Ask::Misses, 0.0)?])
}

/// Parallel hits, sequential hits, and the same of misses.
fn cuckoo(scale: &Scale, load: f64) -> Result<[Measured; 4]> {
    let table = CuckooAt::build(PAPERS, scale.slots, load, scale.seed_of(0))?;
    let table = table.ok_or_else(|| no_place(load))?;
    let lookups = |order, ask| {
        let experiment = table.experiment(order, ask, WIDTH, scale.lookups);
        table.run(&experiment, NicProfile::connectx5_edr())
    };
    Ok([
        lookups(LookupOrder::Parallel, Ask::Hits)?,
        lookups(LookupOrder::Sequential, Ask::Hits)?,
        lookups(LookupOrder::Parallel, Ask::Misses)?,
        lookups(LookupOrder::Sequential, Ask::Misses)?,
    ])
}
