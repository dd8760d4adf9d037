//! Paper 000, figure 12: matching records per second where keys follow Zipf's distribution, with
//! and without tracking the largest clusters.

use super::published::{self, VARIABLE};
use crate::scale::Scale;
use crate::{Axis, Line, Plot, Progress, ReproReport, ReproRow, Result, threads};
use farslot::OpenOptions;
use farslot::fabric::Nanos;
use farslot::fabric::sim::NicProfile;
use farslot::index::linear::{KeyRule, ReadPolicy};
use farslot::layout::Scheme;
use farslot_bench::simulated::CLIENT_THREADS;
use farslot_bench::simulated::{
    Answer, Ask, Experiment, Filling, Measured, Records, RunLimit, SimulatedTable, Zipf,
};

pub(crate) const ID: &str = "000-fig12";

/// Three quarters of a minute of one core.
pub(crate) const SCALE: Scale = Scale {
    slots: 1 << 19,
    tables: 1,
    lookups: 20_000,
    seed: 0,
};

const LOAD: f64 = 0.65;
/// Clusters that each client tracks.
const TRACKED: usize = 1000;
/// Exponents of Zipf's distribution; 0 is the uniform one.
const SKEWS: [f64; 7] = [0.0, 0.25, 0.5, 0.7, 0.8, 0.9, 1.0];
/// Lookups that each client thread has under way: enough for the NIC, and few, because one of a
/// very frequent key takes a thousand READs one after the other.
const WIDTH: usize = 8;
/// Nanoseconds of virtual time, for each of the scale's lookups, in which clients may learn, and in
/// which they are then measured. Both are long against any one lookup.
const LEARNING: Nanos = 300;
const MEASURED: Nanos = 600;

/// With as many hints as here: none, and the paper's.
const HINTS: [(&str, usize); 2] = [("cluster-oblivious", 0), ("tracking clusters", TRACKED)];

/// Measures the figure.
pub(crate) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let measured = threads::in_order(SKEWS.len(), |number| {
        progress(&format!("skew {:.2}", SKEWS[number]));
        measure(scale, SKEWS[number])
    })?;
    let mut rows = Vec::new();
    let mut gains = Vec::new();
    for (skew, both) in SKEWS.into_iter().zip(&measured) {
        for ((name, _), measured) in HINTS.iter().zip(both) {
            let cell = |label: &str| format!("{label}, {name}, skew {skew:.2}");
            let rate = measured.records_per_second() / 1e6;
            rows.push(ReproRow::new(
                cell("million matching records/s"),
                None,
                rate,
            ));
            let reads = measured.table_reads_per_lookup();
            rows.push(ReproRow::new(cell("READs per lookup"), None, reads));
        }
        let gain = both[1].records_per_second() / both[0].records_per_second();
        let cell = format!("tracking / oblivious, matching records/s, skew {skew:.2}");
        rows.push(ReproRow::new(cell, (skew == 0.0).then_some(1.0), gain));
        gains.push((skew, gain));
    }
    let most = gains.iter().map(|(_, gain)| *gain).fold(0.0, f64::max);
    rows.push(ReproRow::new(
        "tracking / oblivious, matching records/s, at most",
        Some(1.7),
        most,
    ));
    let lines = HINTS.iter().enumerate().map(|(column, (name, _))| {
        let rates = SKEWS.into_iter().zip(&measured);
        let points = rates.map(|(skew, both)| (skew, both[column].records_per_second() / 1e6));
        Line::ours(*name, points.collect())
    });
    Ok(ReproReport {
        id: ID,
        setup: format!(
            "Tables of {} slots of 8 bytes, load {LOAD}; keys drawn by Zipf's law from {} times as many as there are \
             records, as many as 2^32 are to the paper's; lookups of random records' keys that return all matches, by \
             28 client threads with {WIDTH} under way each; {} us are measured, after {} us of learning; 23 slots a READ; {TRACKED} clusters tracked by each client.",
            scale.slots,
            published::KEYS_PER_RECORD.round(),
            MEASURED * u64::from(scale.lookups) / 1_000,
            LEARNING * u64::from(scale.lookups) / 1_000
        ),
        rows,
        plots: vec![
            Plot {
                title: "Matching records/s by skew".into(),
                x: Axis::linear("skew of the keys"),
                y: Axis::logarithmic("million matching records/s"),
                lines: lines.collect(),
            },
            Plot {
                title: "What tracking clusters gains".into(),
                x: Axis::linear("skew of the keys"),
                y: Axis::linear("tracking / oblivious"),
                lines: vec![Line::ours("matching records/s", gains)],
            },
        ],
    })
}

fn measure(scale: &Scale, skew: f64) -> Result<Vec<Measured>> {
    let seed = scale.seed_of(0);
    let layout = published::layout(scale.slots, KeyRule::Multi, seed)?;
    let mut filling = Filling::new(layout.clone())?;
    let count = filling.records_at(LOAD);
    let keys = (f64::from(count) * published::KEYS_PER_RECORD) as u32;
    let records = Records::drawn(seed, count, &Zipf::new(keys, skew), 4);
    filling.fill_with(&records)?;
    let span = |for_each: Nanos| for_each * u64::from(scale.lookups);
    let measure = |(_, hints): &(&str, usize)| {
        let clients = OpenOptions {
            read_policy: Some(ReadPolicy::Fixed(VARIABLE.read_sizes[2])),
            cluster_hints: *hints,
            ..OpenOptions::default()
        };
        let experiment = Experiment {
            table: SimulatedTable::new(Scheme::Linear(layout.clone()), &clients),
            records: records.clone(),
            ask: Ask::Hits,
            answer: Answer::AllRecords,
            threads: CLIENT_THREADS,
            width: WIDTH,
            warm_up: span(LEARNING),
            until: RunLimit::Elapsed(span(MEASURED)),
            seed,
        };
        Ok(experiment.run(filling.memory().world(seed, NicProfile::connectx5_edr())?)?)
    };
    HINTS.iter().map(measure).collect()
}
