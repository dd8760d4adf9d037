//! Paper 000, figure 6: lookups/s of cuckoo hashing, in parallel and sequential, with buckets of
//! four slots and of one.

use super::cuckoo_tables::{BUCKET_SLOTS, CuckooAt, HashingShape, PAPERS};
use super::linear_tables::WIDTH;
use super::published::LOADS;
use crate::scale::Scale;
use crate::{Axis, Line, Plot, Progress, ReproReport, ReproRow, Result, threads};
use farslot::fabric::sim::NicProfile;
use farslot::index::cuckoo::LookupOrder;
use farslot_bench::simulated::Ask;

pub(crate) const ID: &str = "000-fig6";

/// A few seconds. Lookups do not depend on the size of the table.
pub(crate) const SCALE: Scale = Scale {
    slots: 1 << 18,
    tables: 1,
    lookups: 100_000,
    seed: 0,
};

/// How a key's buckets are read.
struct BucketReadMethod {
    name: &'static str,
    order: LookupOrder,
    ask: Ask,
}

/// The paper's sequential lookups read all buckets (its algorithm 3), as ours do where they find
/// nothing.
const METHODS: [BucketReadMethod; 3] = [
    BucketReadMethod {
        name: "Parallel Cuckoo",
        order: LookupOrder::Parallel,
        ask: Ask::Hits,
    },
    BucketReadMethod {
        name: "Sequential Cuckoo",
        order: LookupOrder::Sequential,
        ask: Ask::Misses,
    },
    BucketReadMethod {
        name: "Sequential Cuckoo, stops at the match",
        order: LookupOrder::Sequential,
        ask: Ask::Hits,
    },
];

const ASSOCIATIVITIES: [(u32, &str); 2] = [(BUCKET_SLOTS, "4-way"), (1, "non-associative")];

/// Measures the figure.
pub(crate) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let cells = ASSOCIATIVITIES.len() * LOADS.len();
    let measured = threads::in_order(cells, |cell| {
        let (bucket_slots, name) = ASSOCIATIVITIES[cell / LOADS.len()];
        let load = LOADS[cell % LOADS.len()];
        progress(&format!("{name}, load {load:.2}"));
        rates(scale, load, bucket_slots)
    })?;
    let (mut rows, mut lines, mut means) = (Vec::new(), Vec::new(), Vec::new());
    let mut most = 0.0f64;
    for (tables, (bucket_slots, associativity)) in measured.chunks(LOADS.len()).zip(ASSOCIATIVITIES)
    {
        for (column, method) in METHODS.iter().enumerate() {
            let name = format!("{}, {associativity}", method.name);
            let points = LOADS.into_iter().zip(tables);
            let points = points.filter_map(|(load, rates)| Some((load, rates.as_ref()?[column])));
            let points: Vec<_> = points.collect();
            for (load, rate) in &points {
                rows.push(ReproRow::new(
                    format!("million lookups/s, {name}, load {load:.2}"),
                    None,
                    *rate,
                ));
                if bucket_slots == 1 {
                    most = most.max(*load);
                }
            }
            let sum: f64 = points.iter().map(|(_, rate)| rate).sum();
            means.push(sum / points.len().max(1) as f64);
            lines.push(Line::ours(name, points));
        }
    }
    let [parallel, sequential, _, parallel_of_one, ..] = means[..] else {
        unreachable!("three ways of two kinds of tables");
    };
    rows.extend([
        ReproRow::new(
            "4-way / non-associative, Parallel, mean of all loads",
            Some(0.97),
            parallel / parallel_of_one,
        ),
        ReproRow::new(
            "Parallel / Sequential, 4-way, mean of all loads",
            Some(1.0),
            parallel / sequential,
        ),
        ReproRow::new("highest load, non-associative", Some(0.9), most),
    ]);
    Ok(ReproReport {
        id: ID,
        setup: format!(
            "3-way tables of at most {} slots of 8 bytes, built whole and sealed; hits by 28 client threads \
             with {WIDTH} lookups under way each, {} lookups a cell. The paper's sequential lookups read all \
             buckets: measured with misses. A table that its records do not fit into has no row.",
            scale.slots, scale.lookups
        ),
        rows,
        plots: vec![Plot {
            title: "Lookups/s of cuckoo hashing by load factor".into(),
            x: Axis::linear("load factor"),
            y: Axis::linear("million lookups/s"),
            lines,
        }],
    })
}

/// Million lookups/s of each of [`METHODS`]; nothing where there can be no such table.
fn rates(scale: &Scale, load: f64, bucket_slots: u32) -> Result<Option<Vec<f64>>> {
    let seed = scale.seed_of(0);
    let shape = HashingShape {
        bucket_slots,
        ..PAPERS
    };
    let Some(table) = CuckooAt::build(shape, scale.slots, load, seed)? else {
        return Ok(None);
    };
    let rate = |method: &BucketReadMethod| {
        let experiment = table.experiment(method.order, method.ask.clone(), WIDTH, scale.lookups);
        let measured = table.run(&experiment, NicProfile::connectx5_edr())?;
        Ok(measured.lookups_per_second() / 1e6)
    };
    METHODS.iter().map(rate).collect::<Result<_>>().map(Some)
}
