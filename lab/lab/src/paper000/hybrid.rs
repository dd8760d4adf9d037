//! Records of 8 bytes to 1 KiB in one table: hybrid slots beside inline and heap ones, which is
//! what paper 000 leaves to future work (its section 7).
//!
//! Inline slots have room for the largest record, heap slots none, hybrid ones as much as the model
//! chooses: at the same load as the others; and with the load that is best in the memory that heap
//! slots take, or in [`MORE_MEMORY`] times as much, which heap slots are then given as well. No
//! inline slots fit there.

use super::hybrid_tables::{
    FIGURES, HEAP, HEAP_MORE, HYBRID, HYBRID_MORE, HYBRID_QUICK, HYBRID_SAME, INLINE, LATENCY,
    MEMORY, MORE_MEMORY, RATE, sets, slots,
};
use super::linear_tables::WIDTH;
use crate::scale::Scale;
use crate::stats::Mean;
use crate::{Axis, Line, Plot, Progress, ReproReport, ReproRow, Result, threads};

pub(crate) const ID: &str = "000-hybrid";

/// Half a minute.
pub(crate) const SCALE: Scale = Scale {
    slots: 1 << 17,
    tables: 1,
    lookups: 100_000,
    seed: 0,
};

/// What is set beside what in the end: a figure of hybrid slots divided by that of others.
const RATIOS: [(&str, usize, &str, &str); 5] = [
    (
        "hybrid / heap, lookups/s, same memory",
        RATE,
        HYBRID_SAME,
        HEAP,
    ),
    (
        "hybrid / heap, lookups/s, 1.25 x memory",
        RATE,
        HYBRID_MORE,
        HEAP_MORE,
    ),
    (
        "hybrid / heap, mean latency, same load",
        LATENCY,
        HYBRID,
        HEAP,
    ),
    (
        "hybrid for latency / heap, mean latency, 1.25 x memory",
        LATENCY,
        HYBRID_QUICK,
        HEAP_MORE,
    ),
    ("hybrid / heap, memory, same load", MEMORY, HYBRID, HEAP),
];

/// Measures it.
pub(crate) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let mut tables = Vec::new();
    let sets = sets(scale);
    for set in &sets {
        let plans = set.plans()?;
        tables.extend(plans.into_iter().map(|plan| (set, plan)));
    }
    let of_each = scale.tables as usize;
    let measured = threads::in_order(tables.len() * of_each, |number| {
        let (set, plan) = &tables[number / of_each];
        progress(&format!("{}, load {:.2}, {}", set.mix, set.load, plan.name));
        set.measure(plan, scale, (number % of_each) as u32)
    })?;
    let means: Vec<[Mean; 4]> = measured.chunks(of_each).map(means).collect();

    let (mut rows, mut plots) = (Vec::new(), Vec::new());
    let of_set = tables.len() / sets.len();
    for (tables, means) in tables.chunks(of_set).zip(means.chunks(of_set)) {
        let set = tables[0].0;
        let at = format!("{}, load {:.2}", set.mix, set.load);
        for ((_, plan), figures) in tables.iter().zip(means) {
            let (room, load) = (plan.rate.inline_bytes, plan.rate.load);
            for (figure, label) in FIGURES.into_iter().enumerate() {
                let cell = format!("{label}, {at}, {} ({room} B, load {load:.2})", plan.name);
                rows.push(ReproRow {
                    model: plan.model(figure),
                    ..figures[figure].row(cell, None)
                });
            }
        }
        let of = |name: &str, figure: usize| {
            let mut named = tables.iter().zip(means);
            let found = named.find(|((_, plan), _)| plan.name == name);
            found.expect("a table of each name").1[figure].mean
        };
        let better = of(INLINE, RATE).max(of(HEAP, RATE));
        let mut ratio = |label: &str, ratio| {
            rows.push(ReproRow::new(format!("{label}, {at}"), None, ratio));
        };
        ratio(
            "hybrid / better of inline and heap, lookups/s, same load",
            of(HYBRID, RATE) / better,
        );
        for (label, figure, hybrid, other) in RATIOS {
            ratio(label, of(hybrid, figure) / of(other, figure));
        }
        plots.push(plot(&at, |name| (of(name, MEMORY), of(name, RATE))));
    }
    Ok(ReproReport {
        id: ID,
        setup: setup(scale),
        rows,
        plots,
    })
}

fn means(tables: &[[f64; 4]]) -> [Mean; 4] {
    std::array::from_fn(|figure| Mean::of(tables.iter().map(|table| table[figure])))
}

fn plot(at: &str, point: impl Fn(&str) -> (f64, f64)) -> Plot {
    let line = |name: &str, slots: &[&str]| {
        let mut points: Vec<_> = slots.iter().map(|slots| point(slots)).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Line::ours(name, points)
    };
    Plot {
        title: format!("Lookups/s by memory: {at}"),
        x: Axis::logarithmic("bytes a record"),
        y: Axis::linear("million lookups/s"),
        lines: vec![
            line(INLINE, &[INLINE]),
            line(HEAP, &[HEAP, HEAP_MORE]),
            line(HYBRID, &[HYBRID_SAME, HYBRID, HYBRID_MORE]),
        ],
    }
}

fn setup(scale: &Scale) -> String {
    format!(
        "Tables of the same records: as many as fill {} slots up to the load that is compared at; unique keys of 4 \
         bytes, records of 8 to 1024 bytes in powers of two, as many of each (log-uniform) or of each half as many \
         as of the one before (mostly small). In brackets a slot's room for a record, and its table's load; \
         hybrid with 0 B is the model's choice of heap slots. Rates \
         are of hits by 28 client threads with {WIDTH} lookups under way each, with read sizes for the rate of a \
         saturated NIC, latencies of single lookups with read sizes for latency; {} lookups a cell and table. More \
         memory is {MORE_MEMORY} times that of heap slots at the load compared at; inline slots fit into neither.",
        slots(scale),
        scale.lookups
    )
}
