//! Paper 001, figure 11: lookups with as much of the client's memory for each design, for its index
//! and a cache, by the part of the keys that are absent.

use super::common::{client_bytes, operations, reasons, trial};
use crate::paper001::designs::published::testbed;
use crate::paper001::designs::schemes::SCHEMES;
use crate::paper001::designs::trial::{Draw, Spent, TableTrial, Task, TrialFabric, TrialOperation};
use crate::scale::Scale;
use crate::{Axis, Line, Plot, Progress, ReproReport, ReproRow, Result, threads};

pub(crate) const ID: &str = "001-fig11";

/// Half a minute. A thirtieth of the paper's, in slots, in operations, and in the client's memory.
pub(crate) const SCALE: Scale = Scale {
    slots: 1_000_000,
    tables: 1,
    lookups: 10_000,
    seed: 0,
};

/// The paper does not say at which load factor.
const LOAD: f64 = 0.5;
/// YCSB's skew.
const SKEW: f64 = 0.99;
/// Parts of the lookups that ask for absent keys.
const ABSENT: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];

/// What a panel of the figure shows: its axis, and that of what was spent.
type Panel = (&'static str, fn(&Spent) -> f64);

const PANELS: [Panel; 3] = [
    ("round trips", |spent| spent.round_trips),
    ("slots", |spent| spent.items),
    ("us", |spent| spent.latency_ns / 1e3),
];

const REASONS: [(&str, &str); 2] = [
    (
        "round trips*RACE out of band",
        "a lookup that the cache does not answer takes two round trips, if its key is there",
    ),
    (
        "round trips a lookup, 0 %",
        "the cache is empty at first, so that the part of the lookups whose key comes for the first time decides; the paper's \
         workload, which is not published, repeats its keys more",
    ),
];

/// Measures the figure.
pub(crate) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let outcomes = threads::in_order(SCHEMES.len(), |number| {
        let scheme = &SCHEMES[number];
        progress(scheme.name);
        let lookups = |absent| Task {
            parts: vec![
                (TrialOperation::GetAbsent, absent),
                (TrialOperation::Get, 1.0 - absent),
            ],
            draw: Draw::Zipf(SKEW),
        };
        let trial = TableTrial {
            client_bytes: Some(client_bytes(scale)),
            ..trial(scale, vec![(LOAD, ABSENT.map(lookups).to_vec())])
        };
        (scheme.run)(&trial, &TrialFabric::Simulated(Box::new(testbed())))
    })?;
    let (mut rows, mut plots) = (Vec::new(), Vec::new());
    for (label, of) in PANELS {
        let mut lines = Vec::new();
        for (number, scheme) in SCHEMES.iter().enumerate() {
            let points: Vec<(f64, f64)> = (0..)
                .zip(ABSENT)
                .filter_map(|(at, absent)| Some((absent, of(&outcomes[number].spent(0, at)?))))
                .collect();
            for (absent, ours) in &points {
                let cell = format!(
                    "{label} a lookup, {:.0} % of the keys absent, {}",
                    absent * 100.0,
                    scheme.name
                );
                let paper = published(label, number, *absent);
                rows.push(ReproRow::new(cell, paper, *ours));
            }
            lines.push(Line::ours(scheme.name, points));
        }
        plots.push(Plot {
            title: format!("{label} a lookup"),
            x: Axis::linear("part of the keys that are absent"),
            y: Axis::linear(label),
            lines,
        });
    }
    let reasons = reasons(&rows, &REASONS);
    Ok(ReproReport {
        id: ID,
        setup: format!(
            "Tables of {} slots, 8 a bucket, at a load of {LOAD}; keys and values of 64 bytes; {} bytes of the client's memory, \
             of which the index leaves some to a cache, 8-way and the least recently used going first, which is empty at first. {} lookups, their keys by Zipf's distribution as \
             YCSB draws it, or absent, each another; behind a simulated NIC with 3.2 us a round trip: the network's time, without the client's.{reasons}",
            scale.slots,
            client_bytes(scale),
            operations(scale)
        ),
        rows,
        plots,
    })
}

/// What the paper says of figure 11(a): CuckooDuo's round trips fall from 0.63 to nearly 0, the
/// others' rise from 0.61 to 1.
fn published(label: &str, scheme: usize, absent: f64) -> Option<f64> {
    let is_ours = scheme == 0;
    match (label, is_ours) {
        ("round trips", true) if absent == 0.0 => Some(0.63),
        ("round trips", false) if absent == 0.0 => Some(0.61),
        ("round trips", false) if absent == 1.0 => Some(1.0),
        _ => None,
    }
}
