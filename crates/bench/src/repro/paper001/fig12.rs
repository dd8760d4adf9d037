//! Paper 001, figure 12: what doubling a table takes, and how full a table is that grows.

use super::reasons;
use crate::paper001::growth::{self, Growing, Grown, Utilisation};
use crate::paper001::published::{BUCKET_SLOTS, FIELD_BYTES, GROWTH_SECONDS, testbed};
use crate::repro::Scale;
use crate::{Axis, Line, Plot, Progress, ReproReport, ReproRow, Result, threads};
use farslot::index::baseline::Cleaning;

pub(in crate::repro) const ID: &str = "001-fig12";

/// A minute. A hundredth of the paper's.
pub(in crate::repro) const SCALE: Scale = Scale {
    slots: 300_000,
    tables: 1,
    lookups: 1,
    seed: 0,
};

/// How full the tables are that are doubled: RACE is where its first key finds no room, some 0.9.
const LOAD: f64 = 0.85;
/// The load factor at which CuckooDuo doubles in figure 12(f).
const FULL: f64 = 0.96;
/// Slots that figures 12(f) and (g) start with: the paper's smaller sub-tables.
const STARTS_WITH: u64 = 300;
/// Of the keys of figures 12(f) and (g), those before which tables are so small that chance decides.
const BEGINS_AT: f64 = 0.1;
/// Points of the curves.
const POINTS: u64 = 400;

/// A growth: its name, its seconds in the paper, and how it is done.
type Way = (&'static str, f64, fn(&Growing) -> Result<Grown>);

const WAYS: [Way; 5] = [
    ("CuckooDuo, active", GROWTH_SECONDS[0], |growing| {
        growth::duo(growing, &testbed(), Cleaning::Active)
    }),
    ("RACE", GROWTH_SECONDS[1], |growing| {
        growth::race(growing, &testbed())
    }),
    ("MapEmbed, active", GROWTH_SECONDS[2], |growing| {
        growth::map_embed(growing, &testbed(), Cleaning::Active)
    }),
    ("CuckooDuo, lazy", GROWTH_SECONDS[3], |growing| {
        growth::duo(growing, &testbed(), Cleaning::Lazy)
    }),
    ("MapEmbed, lazy", GROWTH_SECONDS[4], |growing| {
        growth::map_embed(growing, &testbed(), Cleaning::Lazy)
    }),
];
const ACTIVE: usize = 0;
const LAZY: usize = 3;

/// Measures the figure.
pub(in crate::repro) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let growing = Growing {
        slots: scale.slots,
        bucket_slots: BUCKET_SLOTS,
        field_bytes: FIELD_BYTES,
        load: LOAD,
        seed: scale.seed_of(0),
    };
    let grown = threads::in_order(WAYS.len(), |number| {
        let (name, _, grow) = WAYS[number];
        progress(name);
        grow(&growing)
    })?;
    let mut rows = times(&grown);
    progress("load factors");
    let (curves, lines) = utilisation(scale)?;
    rows.extend(curves);
    let plots = vec![Plot {
        title: "Load factor of a table that grows".into(),
        x: Axis::linear("keys"),
        y: Axis::linear("load factor"),
        lines,
    }];
    let reasons = reasons(&rows, &REASONS);
    Ok(ReproReport {
        id: ID,
        setup: format!(
            "Tables of {} slots, 8 a bucket, with keys and values of 64 bytes, doubled at a load of {LOAD} (RACE where its first key finds no \
             room) by one client behind a simulated NIC of 100 Gb/s with 3.2 us a round trip: the network's time, without the \
             client's and without the registration of memory. The memory's owner does not copy: all bytes pass through the client. A time by the \
             time of CuckooDuo's active growth is what the paper's figure is held against. Load factors are of tables that start with {STARTS_WITH} slots, over the \
             last {:.0} % of the keys.{reasons}",
            scale.slots,
            100.0 * (1.0 - BEGINS_AT)
        ),
        rows,
        plots,
    })
}

const REASONS: [(&str, &str); 4] = [
    (
        "time of RACE",
        "each slot is carried over by compare-and-swaps of its word, two where a record stays and three where it goes, and each \
         record is read for its key: 128 slots side by side, online; the paper's moves whole buckets, one after the other",
    ),
    (
        "time of MapEmbed",
        "the copy is made by 64 KiB and 8 READs at a time here, with nothing else under way, where the paper's has a round trip a bucket",
    ),
    (
        "time of CuckooDuo, lazy",
        "a growth begins here without a copy: 4 round trips, whatever the size; the insertions that follow split what they need",
    ),
    (
        "load factor",
        "the largest is that at which the table is told to grow",
    ),
];

/// Figures 12(a) to (e).
fn times(grown: &[Grown]) -> Vec<ReproRow> {
    let (mut rows, active) = (Vec::new(), grown[ACTIVE].ns as f64);
    for ((name, seconds, _), grown) in WAYS.into_iter().zip(grown) {
        let of_active = seconds / WAYS[ACTIVE].1;
        let ratio = grown.ns as f64 / active;
        // The first is the measure of all others.
        if name != WAYS[ACTIVE].0 {
            let cell = format!("time of {name} / of {}", WAYS[ACTIVE].0);
            rows.push(ReproRow::new(cell, Some(of_active), ratio));
        }
        let per_key = |what: f64| what / grown.keys as f64;
        let cells = [
            ("ms", grown.ns as f64 / 1e6),
            ("ns a key", per_key(grown.ns as f64)),
            ("verbs a key", per_key(grown.verbs as f64)),
            ("bytes a key", per_key(grown.bytes as f64)),
        ];
        let cells = cells.map(|(what, ours)| ReproRow::new(format!("{what}, {name}"), None, ours));
        rows.extend(cells);
    }
    let faster = active / grown[LAZY].ns as f64;
    let cell = "CuckooDuo, how many times as fast lazily as actively, at least";
    rows.push(ReproRow::new(cell, None, faster));
    rows
}

/// Figures 12(f) and (g).
fn utilisation(scale: &Scale) -> Result<(Vec<ReproRow>, Vec<Line>)> {
    let growing = Growing {
        slots: STARTS_WITH,
        bucket_slots: BUCKET_SLOTS,
        field_bytes: 8,
        load: FULL,
        seed: scale.seed_of(0),
    };
    let (keys, every) = (scale.slots, (scale.slots / POINTS).max(1));
    let curves: [(&str, Utilisation); 2] = [
        (
            "CuckooDuo, doubling",
            growth::duo_utilisation(&growing, &testbed(), keys, every)?,
        ),
        (
            "RACE, extendible",
            growth::race_utilisation(&growing, &testbed(), keys, every)?,
        ),
    ];
    let (mut rows, mut lines) = (Vec::new(), Vec::new());
    for (name, curve) in curves {
        let later: Vec<f64> = curve
            .iter()
            .filter(|(there, _)| *there >= BEGINS_AT * keys as f64)
            .map(|(_, load)| *load)
            .collect();
        let least = later.iter().copied().fold(f64::INFINITY, f64::min);
        let most = later.iter().copied().fold(0.0, f64::max);
        let mean = later.iter().sum::<f64>() / later.len() as f64;
        let is_duo = lines.is_empty();
        let papers = if is_duo {
            [Some(0.5), Some(FULL)]
        } else {
            [None; 2]
        };
        for (what, paper, ours) in [
            ("least", papers[0], least),
            ("most", papers[1], most),
            ("mean", None, mean),
        ] {
            let cell = format!("load factor while it grows, {what}, {name}");
            rows.push(ReproRow::new(cell, paper, ours));
        }
        lines.push(Line::ours(name, curve));
    }
    Ok((rows, lines))
}
