//! Paper 001, figure 12: what doubling a table takes, and how full a table is that grows.

use super::common::reasons;
use crate::baseline::{CleaningMode, CopyPace};
use crate::paper001::designs::growth::{self, Grown, GrowthTrial, Utilisation};
use crate::paper001::designs::published::{
    BUCKET_SLOTS, FIELD_BYTES, GROWTH_SECONDS, LIMITED_FIELD_BYTES, testbed,
};
use crate::scale::Scale;
use crate::{Axis, Line, Plot, Progress, ReproReport, ReproRow, Result, threads};

pub(crate) const ID: &str = "001-fig12";

/// A minute. A hundredth of the paper's.
pub(crate) const SCALE: Scale = Scale {
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
/// Of the keys of figures 12(f) and (g), those before which tables are so small that chance
/// decides.
const BEGINS_AT: f64 = 0.1;
/// Points of the curves.
const POINTS: u64 = 400;

/// Bytes of the READs by which the paper's own growth is counted.
const READ_BYTES: u64 = 8 << 10;
/// How many times fewer slots the tables of large records have: of as many bytes.
const FEWER: u64 = (LIMITED_FIELD_BYTES / FIELD_BYTES) as u64;

/// How a table is doubled.
struct DoublingMethod {
    name: &'static str,
    /// In the paper, of 30 million slots.
    seconds: f64,
    grow: fn(&GrowthTrial) -> Result<Grown>,
}

static METHODS: [DoublingMethod; 6] = [
    DoublingMethod {
        name: "CuckooDuo, active",
        seconds: GROWTH_SECONDS[0],
        grow: |trial| growth::duo(trial, &testbed(), CleaningMode::Active),
    },
    DoublingMethod {
        name: "RACE",
        seconds: GROWTH_SECONDS[1],
        grow: |trial| growth::race(trial, &testbed()),
    },
    DoublingMethod {
        name: "MapEmbed, active",
        seconds: GROWTH_SECONDS[2],
        grow: |trial| map_embed(trial, CleaningMode::Active, CopyPace::SIDE_BY_SIDE),
    },
    DoublingMethod {
        name: "MapEmbed, active, bucket by bucket",
        seconds: GROWTH_SECONDS[2],
        grow: |trial| map_embed(trial, CleaningMode::Active, CopyPace::BUCKET_BY_BUCKET),
    },
    DoublingMethod {
        name: "CuckooDuo, lazy",
        seconds: GROWTH_SECONDS[3],
        grow: |trial| growth::duo(trial, &testbed(), CleaningMode::Lazy),
    },
    DoublingMethod {
        name: "MapEmbed, lazy",
        seconds: GROWTH_SECONDS[4],
        grow: |trial| map_embed(trial, CleaningMode::Lazy, CopyPace::SIDE_BY_SIDE),
    },
];
const ACTIVE: usize = 0;
const OF_MAP_EMBED: usize = 2;
const LAZY: usize = 4;

fn map_embed(trial: &GrowthTrial, cleaning: CleaningMode, pace: CopyPace) -> Result<Grown> {
    growth::map_embed(trial, &testbed(), cleaning, pace)
}

/// Measures the figure.
pub(crate) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let trial = GrowthTrial {
        slots: scale.slots,
        bucket_slots: BUCKET_SLOTS,
        field_bytes: FIELD_BYTES,
        load: LOAD,
        seed: scale.seed_of(0),
    };
    let large = GrowthTrial {
        slots: scale.slots / FEWER,
        field_bytes: LIMITED_FIELD_BYTES,
        ..trial
    };
    let methods = METHODS.iter().map(|method| (method, trial));
    let methods = methods.chain(OF_LARGE.map(|method| (&METHODS[method], large)));
    let methods: Vec<(&DoublingMethod, GrowthTrial)> = methods.collect();
    let grown = threads::in_order(methods.len(), |number| {
        let (method, trial) = &methods[number];
        progress(method.name);
        (method.grow)(trial)
    })?;
    let (grown, of_large) = grown.split_at(METHODS.len());
    let mut rows = times(grown);
    rows.extend(large_records(&of_large[0], &of_large[1]));
    rows.extend(of_paper(&trial, &grown[ACTIVE])?);
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
             time of CuckooDuo's active growth is what the paper's figure is held against; the model of a time is what the NIC takes at \
             least for as many verbs and bytes. Load factors are of tables that start with {STARTS_WITH} slots, over the \
             last {:.0} % of the keys.{reasons}",
            scale.slots,
            100.0 * (1.0 - BEGINS_AT)
        ),
        rows,
        plots,
    })
}

const REASONS: [(&str, &str); 6] = [
    (
        "time of RACE",
        "each slot is carried over by compare-and-swaps of its word, two where a record stays and three where it goes, and each \
         record is read for its key: 128 slots side by side, online; the paper's moves whole buckets, one after the other",
    ),
    (
        "time of MapEmbed, active, bucket by bucket",
        "CuckooDuo has 48 KiB of buckets under way, so that the NIC's rate decides for it, and not the round trips. One bucket at a \
         time it would take two round trips for each, as this does",
    ),
    (
        "time of MapEmbed, active",
        "it has as much under way here as keeps the NIC busy, so that bytes decide: both read the table once through the client, MapEmbed writes it \
         twice, CuckooDuo only what has to be. In the paper round trips decide: one a bucket of CuckooDuo, which the memory's \
         owner has copied, two of MapEmbed",
    ),
    (
        "time of MapEmbed, lazy",
        "the client copies here, and in the paper the memory's owner",
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
    for (DoublingMethod { name, seconds, .. }, grown) in METHODS.iter().zip(grown) {
        let of_active = seconds / METHODS[ACTIVE].seconds;
        let ratio = grown.ns as f64 / active;
        // The first is the measure of all others.
        if *name != METHODS[ACTIVE].name {
            let cell = format!("time of {name} / of {}", METHODS[ACTIVE].name);
            rows.push(ReproRow::new(cell, Some(of_active), ratio));
        }
        rows.push(ReproRow {
            model: Some(grown.least_ns(&testbed()) / 1e6),
            ..ReproRow::new(format!("ms, {name}"), None, grown.ns as f64 / 1e6)
        });
        let per_key = |total: f64| total / grown.keys as f64;
        let cells = [
            ("ns a key", per_key(grown.ns as f64)),
            ("verbs a key", per_key(grown.verbs as f64)),
            ("bytes a key", per_key(grown.bytes() as f64)),
        ];
        let cells =
            cells.map(|(label, ours)| ReproRow::new(format!("{label}, {name}"), None, ours));
        rows.extend(cells);
    }
    let faster = active / grown[LAZY].ns as f64;
    let cell = "CuckooDuo, how many times as fast lazily as actively, at least";
    rows.push(ReproRow::new(cell, None, faster));
    rows
}

/// The methods by which tables of large records are doubled as well.
const OF_LARGE: [usize; 2] = [ACTIVE, OF_MAP_EMBED];

/// The same with keys and values of 1 KiB.
fn large_records(ours: &Grown, theirs: &Grown) -> Vec<ReproRow> {
    let of = "keys and values of 1 KiB";
    let per_key = |grown: &Grown| grown.bytes() as f64 / grown.keys as f64;
    [
        (
            "time of MapEmbed, active / of CuckooDuo, active",
            theirs.ns as f64 / ours.ns as f64,
        ),
        ("bytes a key, CuckooDuo, active", per_key(ours)),
        ("bytes a key, MapEmbed, active", per_key(theirs)),
    ]
    .map(|(cell, ours)| ReproRow::new(format!("{cell}, {of}"), None, ours))
    .to_vec()
}

/// What the paper's own growth would take at the same NIC, at least.
fn of_paper(trial: &GrowthTrial, ours: &Grown) -> Result<Vec<ReproRow>> {
    let layout = growth::duo_layout(trial)?;
    let slots = layout.slots() * layout.slot_bytes() as u64;
    let least = Grown::of_paper(slots, READ_BYTES).least_ns(&testbed());
    let cell = "ms at least, if the memory's owner copied and the client read each bucket once";
    let ratio = "time of CuckooDuo, active / that";
    Ok(vec![
        ReproRow::new(cell, None, least / 1e6),
        ReproRow::new(ratio, None, ours.ns as f64 / least),
    ])
}

/// Figures 12(f) and (g).
fn utilisation(scale: &Scale) -> Result<(Vec<ReproRow>, Vec<Line>)> {
    let trial = GrowthTrial {
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
            growth::duo_utilisation(&trial, &testbed(), keys, every)?,
        ),
        (
            "RACE, extendible",
            growth::race_utilisation(&trial, &testbed(), keys, every)?,
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
        for (label, paper, ours) in [
            ("least", papers[0], least),
            ("most", papers[1], most),
            ("mean", None, mean),
        ] {
            let cell = format!("load factor while it grows, {label}, {name}");
            rows.push(ReproRow::new(cell, paper, ours));
        }
        lines.push(Line::ours(name, curve));
    }
    Ok((rows, lines))
}
