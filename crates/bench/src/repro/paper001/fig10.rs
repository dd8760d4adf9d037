//! Paper 001, figure 10: latencies by load factor, with keys that are not there, and where bandwidth is limited. Its
//! throughput by threads, (g) to (j), is not in it.

use super::{reasons, trial};
use crate::paper001::published::{LIMITED_FIELD_BYTES, TABLE_1, bandwidth_limited, testbed};
use crate::paper001::schemes::SCHEMES;
use crate::paper001::trial::{Bed, Draw, Op, Outcome, Task, Trial};
use crate::repro::Scale;
use crate::{Axis, Line, Plot, Progress, ReproReport, ReproRow, Result, threads};

pub(in crate::repro) const ID: &str = "001-fig10";

/// A minute.
pub(in crate::repro) const SCALE: Scale = Scale {
    slots: 1 << 17,
    tables: 1,
    lookups: 2_000,
    seed: 0,
};

/// TEA's highest is 0.68.
const LOADS: [f64; 6] = [0.1, 0.3, 0.5, 0.68, 0.8, 0.9];
/// The load factor with keys that are not there: 0.7, as far as TEA reaches.
const MIXED_AT: usize = 3;
const ABSENT: [f64; 3] = [0.0, 0.5, 1.0];
/// Slots of the tables where bandwidth is limited, at most: of 2 KiB each.
const LIMITED_SLOTS: u64 = 1 << 14;

const OPERATIONS: [(&str, Op); 4] = [
    ("insertion", Op::PutNew),
    ("lookup", Op::Get),
    ("update", Op::Update),
    ("removal", Op::Remove),
];

const REASONS: [(&str, &str); 5] = [
    (
        "*RACE out of band, load",
        "its records are out of band: a hit takes two round trips, an insertion three",
    ),
    (
        "us, lookup, RACE",
        "4 KiB of records each, which took the testbed longer than a byte costs here, on an idle link",
    ),
    (
        "us, insertion, CuckooDuo, load 0.90",
        "at this load factor the paper's insertions take two round trips, most of ours one",
    ),
    (
        "us, insertion",
        "an insertion is planned whole and written in one batch here; of MapEmbed all buckets of a cell are read in one batch",
    ),
    (
        "us, lookup, TEA",
        "the paper's lookups of TEA are of the testbed; here a byte costs what it does on an idle link",
    ),
];

/// Everything at a stop: the four operations, and at one stop those with keys that are not there.
fn tasks(stop: usize) -> Vec<Task> {
    let mut tasks = OPERATIONS.map(|(_, op)| Task::only(op)).to_vec();
    if stop == MIXED_AT {
        for absent in ABSENT {
            for (old, new) in [(Op::PutOld, Op::PutNew), (Op::Get, Op::GetAbsent)] {
                tasks.push(Task {
                    parts: vec![(new, absent), (old, 1.0 - absent)],
                    draw: Draw::Uniform,
                });
            }
        }
    }
    tasks
}

/// Measures the figure.
pub(in crate::repro) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let stops = || {
        (0..)
            .zip(LOADS)
            .map(|(stop, load)| (load, tasks(stop)))
            .collect()
    };
    let outcomes = threads::in_order(2 * SCHEMES.len(), |job| {
        let scheme = &SCHEMES[job / 2];
        progress(scheme.name);
        if job % 2 == 0 {
            return (scheme.run)(&trial(scale, stops()), &Bed::Simulated(testbed()));
        }
        let limited = Trial {
            slots: scale.slots.min(LIMITED_SLOTS),
            field_bytes: LIMITED_FIELD_BYTES,
            operations: scale.lookups.min(200),
            ..trial(scale, stops())
        };
        (scheme.run)(&limited, &Bed::Simulated(bandwidth_limited()))
    })?;
    let (whole, limited): (Vec<_>, Vec<_>) =
        outcomes.chunks(2).map(|pair| (&pair[0], &pair[1])).unzip();
    let mut rows = latencies(&whole);
    rows.extend(with_absent_keys(&whole));
    rows.extend(ratios(&limited));
    let mut plots: Vec<Plot> = Vec::new();
    for (bed, outcomes) in [
        ("100 Gb/s", &whole),
        ("10 Gb/s, 1 KiB keys and values", &limited),
    ] {
        for (task, (operation, _)) in OPERATIONS.into_iter().enumerate() {
            let lines = SCHEMES.iter().zip(outcomes).map(|(scheme, outcome)| {
                let points = LOADS.into_iter().enumerate();
                let points =
                    points.filter_map(|(stop, load)| Some((load, us(outcome, stop, task)?)));
                Line::ours(scheme.name, points.collect())
            });
            plots.push(Plot {
                title: format!("{operation}, {bed}"),
                x: Axis::linear("load factor"),
                y: Axis::linear("us"),
                lines: lines.collect(),
            });
        }
    }
    let reasons = reasons(&rows, &REASONS);
    Ok(ReproReport {
        id: ID,
        setup: format!(
            "Tables of {} slots, 8 a bucket, keys and values of 64 bytes; one client, {} operations of each kind, behind a simulated \
             NIC of 100 Gb/s with 3.2 us a round trip: the network's time, without the client's. Where bandwidth is limited, a tenth of \
             it, a byte takes ten times as long, keys and values of 1 KiB, at most {LIMITED_SLOTS} slots; the paper's ratios are \
             ranges over load factors and designs; RACE out of band is not among those.{reasons}",
            scale.slots, scale.lookups
        ),
        rows,
        plots,
    })
}

/// What a task of a stop took on average, if the table was not full before.
fn us(outcome: &Outcome, stop: usize, task: usize) -> Option<f64> {
    let spent = outcome.stops.get(stop)?.get(task)?;
    Some(spent.latency_ns / 1e3)
}

/// Figures 10(a) to 10(d).
fn latencies(outcomes: &[&Outcome]) -> Vec<ReproRow> {
    let mut rows = Vec::new();
    for (task, (operation, _)) in OPERATIONS.into_iter().enumerate() {
        for (scheme, outcome) in SCHEMES.iter().zip(outcomes) {
            let published = &TABLE_1[scheme.published];
            for (stop, load) in LOADS.into_iter().enumerate() {
                let Some(ours) = us(outcome, stop, task) else {
                    continue;
                };
                let paper = match operation {
                    "insertion" if load == scheme.high_load => Some(published.insert[1].us),
                    "insertion" if load <= 0.5 => Some(published.insert[0].us),
                    "insertion" => None,
                    "lookup" => Some(published.lookup.us),
                    "update" => Some(published.update.us),
                    _ => Some(published.remove.us),
                };
                let cell = format!("us, {operation}, {}, load {load:.2}", scheme.name);
                rows.push(ReproRow::new(cell, paper, ours));
            }
        }
    }
    rows
}

/// Figures 10(e) and 10(f).
fn with_absent_keys(outcomes: &[&Outcome]) -> Vec<ReproRow> {
    let mut rows = Vec::new();
    for (scheme, outcome) in SCHEMES.iter().zip(outcomes) {
        for (at, absent) in ABSENT.into_iter().enumerate() {
            for (of, what) in ["puts", "lookups"].into_iter().enumerate() {
                let Some(ours) = us(outcome, MIXED_AT, OPERATIONS.len() + 2 * at + of) else {
                    continue;
                };
                let percent = absent * 100.0;
                let cell = format!(
                    "us, {what}, {percent:.0} % of the keys absent, {}",
                    scheme.name
                );
                // The paper's time for absent keys alone is the client's.
                let paper = (scheme.name == "CuckooDuo" && what == "lookups" && absent == 0.0)
                    .then_some(3.41);
                rows.push(ReproRow::new(cell, paper, ours));
            }
        }
    }
    rows
}

/// Figures 10(k) and 10(l): how much longer the others take.
fn ratios(outcomes: &[&Outcome]) -> Vec<ReproRow> {
    let mut rows = Vec::new();
    for (task, operation) in [(0, "insertion"), (1, "lookup")] {
        for (scheme, outcome) in SCHEMES.iter().zip(outcomes).skip(1) {
            for (stop, load) in LOADS.into_iter().enumerate() {
                let (Some(theirs), Some(ours)) =
                    (us(outcome, stop, task), us(outcomes[0], stop, task))
                else {
                    continue;
                };
                let cell = format!(
                    "10 Gb/s: {operation} of {} / of CuckooDuo, load {load:.2}",
                    scheme.name
                );
                rows.push(ReproRow::new(cell, None, theirs / ours));
            }
        }
        let of_paper =
            |row: &&ReproRow| row.cell.contains(operation) && !row.cell.contains("out of band");
        let all = rows.iter().filter(of_paper);
        let all: Vec<f64> = all.map(|row| row.ours).collect();
        let (least, most) = if operation == "insertion" {
            (6.1, 17.6)
        } else {
            (3.0, 9.8)
        };
        let ends = [
            (
                "least",
                least,
                f64::INFINITY,
                f64::min as fn(f64, f64) -> f64,
            ),
            ("most", most, 0.0, f64::max),
        ];
        for (end, paper, from, fold) in ends {
            let ours = all.iter().copied().fold(from, fold);
            let cell = format!("10 Gb/s: {end} ratio, {operation}");
            rows.push(ReproRow::new(cell, Some(paper), ours));
        }
    }
    rows
}
