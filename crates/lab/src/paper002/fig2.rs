//! Paper 002, figure 2 and section 4.3: latencies and round trips of find-or-put by load factor, and of chunks that
//! are chosen while running.

use super::table1::{INTERVAL, Interval, SIZES, Trial, measure};
use crate::scale::Scale;
use crate::stats::Mean;
use crate::{Axis, Line, Plot, Progress, ReproReport, ReproRow, Result, threads};

pub(crate) const ID: &str = "002-fig2";

/// A minute.
pub(crate) const SCALE: Scale = Scale {
    slots: 1 << 17,
    tables: 3,
    lookups: 1,
    seed: 0,
};

/// Load factors; the paper's insertions go on to the last.
const LOADS: [f64; 12] = [
    0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.92,
];
/// Probes at this load factor with chunks of 32 and of 64 buckets (section 4.3).
const PROBES: (f64, [(usize, f64); 2]) = (0.75, [(32, 1.04), (64, 1.006)]);

/// Measures the figure.
pub(crate) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let tables = scale.tables as usize;
    let sizes: Vec<_> = SIZES.into_iter().map(Some).chain([None]).collect();
    let trials = threads::in_order(sizes.len() * tables, |number| {
        progress("find-or-put");
        measure(Trial {
            size: sizes[number / tables],
            direct: false,
            loads: &LOADS,
            slots: scale.slots,
            seed: scale.seed_of((number % tables) as u32),
        })
    })?;
    let mean = |size: usize, load: usize, of: fn(&Interval) -> f64| {
        let tables = &trials[size * tables..(size + 1) * tables];
        Mean::of(tables.iter().map(|table| of(&table[load])))
    };
    let latency = |size, load| mean(size, load, |interval| interval.latency_us);
    // Beside the chunks that were needed, each find-or-put has requested one more.
    let trips = |size, load| mean(size, load, |interval| interval.reads - 1.0);
    let mut rows = Vec::new();
    for (load, factor) in LOADS.iter().enumerate() {
        for (size, buckets) in SIZES.iter().enumerate() {
            let cell = format!("latency (us), load {factor}, C = {buckets}");
            rows.push(latency(size, load).row(cell, None));
            let papers = PROBES.1.iter().find(|(of, _)| of == buckets);
            let papers = papers
                .filter(|_| *factor == PROBES.0)
                .map(|(_, probes)| *probes);
            let cell = format!("round trips, load {factor}, C = {buckets}");
            rows.push(trips(size, load).row(cell, papers));
        }
        let fixed = (0..SIZES.len()).map(|size| latency(size, load).mean);
        let best = fixed.fold(f64::INFINITY, f64::min);
        let chosen = latency(SIZES.len(), load);
        let cell = format!("latency (us), load {factor}, C chosen while running");
        rows.push(chosen.row(cell, None));
        let cell = format!("latency with C chosen over that with the best fixed C, load {factor}");
        rows.push(ReproRow::new(cell, None, chosen.mean / best));
    }
    let plot = |title: &str, label, of: &dyn Fn(usize, usize) -> Mean| {
        let line = |(size, buckets): (usize, &Option<usize>)| {
            let name = match buckets {
                Some(buckets) => format!("C = {buckets}"),
                None => "C chosen".into(),
            };
            let points = LOADS.iter().enumerate();
            let points = points.map(|(at, load)| (*load, of(size, at).mean));
            Line::ours(name, points.collect())
        };
        Plot {
            title: title.into(),
            x: Axis::linear("load factor"),
            y: Axis::linear(label),
            lines: sizes.iter().enumerate().map(line).collect(),
        }
    };
    let plots = vec![
        plot(
            "latency of find-or-put by load factor",
            "latency (us)",
            &latency,
        ),
        plot(
            "round trips of find-or-put by load factor",
            "round trips",
            &trips,
        ),
    ];
    Ok(ReproReport {
        id: ID,
        setup: format!(
            "Two simulated machines, each with half of a table of {} buckets. One process inserts random words, one at a time, and reaches both halves by \
             verbs; means of what it inserts over the last {INTERVAL} of load before each load factor, over {tables} tables. The machines are those of \
             002-table1. Round trips are READs less the one that is requested ahead and not waited for.",
            scale.slots
        ),
        rows,
        plots,
    })
}
