//! Paper 001, Table III: latencies of mixed operations by distribution, without a cache.

use super::{reasons, trial};
use crate::paper001::published::{TABLE_3, testbed};
use crate::paper001::schemes::SCHEMES;
use crate::paper001::trial::{Bed, Draw, Op, Task};
use crate::repro::Scale;
use crate::{Progress, ReproReport, ReproRow, Result, threads};

pub(in crate::repro) const ID: &str = "001-table3";

/// Half a minute.
pub(in crate::repro) const SCALE: Scale = Scale {
    slots: 1 << 18,
    tables: 1,
    lookups: 10_000,
    seed: 0,
};

const LOAD: f64 = 0.5;

/// What a row of the table asks for.
fn task(mode: &str, distribution: &str) -> Task {
    let parts = match mode {
        "A" => vec![(Op::Get, 0.5), (Op::Update, 0.5)],
        _ => vec![(Op::Get, 0.95), (Op::PutNew, 0.05)],
    };
    let draw = match distribution {
        "zipf-0.99" => Draw::Zipf(0.99),
        "zipf-0.90" => Draw::Zipf(0.90),
        "latest" => Draw::Latest(0.99),
        _ => Draw::Uniform,
    };
    Task { parts, draw }
}

/// Measures the table.
pub(in crate::repro) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let outcomes = threads::in_order(SCHEMES.len(), |number| {
        let scheme = &SCHEMES[number];
        progress(scheme.name);
        let tasks = TABLE_3.map(|(mode, distribution, _)| task(mode, distribution));
        let stops = vec![(LOAD, tasks.to_vec())];
        (scheme.run)(&trial(scale, stops), &Bed::Simulated(testbed()))
    })?;
    let mut rows = Vec::new();
    for (at, (mode, distribution, published)) in TABLE_3.into_iter().enumerate() {
        for ((scheme, outcome), paper) in SCHEMES.iter().zip(&outcomes).zip(published) {
            let Some(spent) = outcome.stops.first().and_then(|stop| stop.get(at)) else {
                continue;
            };
            let cell = format!("us, YCSB-{mode}, {distribution}, {}", scheme.name);
            rows.push(ReproRow::new(cell, Some(paper), spent.latency_ns / 1e3));
        }
    }
    let setup = format!(
        "Tables of {} slots at a load of {LOAD}, {} operations behind a simulated NIC with 3.2 us a round trip: the \
         network's time, without the client's. Nothing is cached, so that the distributions make no difference here. RACE, and \
         the columns with a cache, are not in it.{}",
        scale.slots,
        scale.lookups,
        reasons(&rows, &[])
    );
    Ok(ReproReport {
        id: ID,
        setup,
        rows,
        plots: Vec::new(),
    })
}
