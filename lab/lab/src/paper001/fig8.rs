//! Paper 001, figure 8: what the length of fingerprints does.

use super::common::{reasons, shape, trial};
use crate::paper001::designs::cost::FillingCost;
use crate::paper001::designs::ours::Ours;
use crate::paper001::designs::published::{BUCKET_SLOTS, testbed};
use crate::paper001::designs::schemes::SCHEMES;
use crate::paper001::designs::trial::{Draw, TableTrial, Task, TrialFabric, TrialOperation};
use crate::scale::Scale;
use crate::{Axis, Line, Plot, Progress, ReproReport, ReproRow, Result, threads};
use farslot::index::duo::placement::Shape;
use farslot::index::hash::derive;
use farslot::model::duo::Fingerprints;

pub(crate) const ID: &str = "001-fig8";

/// Half a minute.
pub(crate) const SCALE: Scale = Scale {
    slots: 1 << 18,
    tables: 1,
    lookups: 10_000,
    seed: 0,
};

const BITS: [u32; 7] = [8, 10, 12, 14, 16, 20, 24];
/// The load factor at which lookups are made.
const LOAD: f64 = 0.7;
/// The part of the lookups in figure 8(c) that ask for absent keys.
const ABSENT: f64 = 0.9;
/// False positives behind each rate of them: chance is then a part in a hundred.
const FOUND: f64 = 10_000.0;
/// The most absent keys that are asked for, by the table's slots.
const MOST_ASKED: u64 = 128;

/// What is known of a length.
struct Point {
    full_at: f64,
    false_positives: f64,
    /// Of those: as many as there are have the error of their root.
    standard_error: f64,
    lookup_us: f64,
    insertion_us: f64,
}

/// Measures the figure.
pub(crate) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let points = threads::in_order(BITS.len(), |number| {
        progress(&format!("f = {}", BITS[number]));
        point(scale, BITS[number])
    })?;
    let mut rows = Vec::new();
    for (bits, point) in BITS.into_iter().zip(&points) {
        let cell = |label: &str| format!("{label}, f = {bits}");
        // From 14 bits on, the bucket size is the limit.
        let paper = (bits >= 14).then_some(0.98);
        rows.push(ReproRow::new(
            cell("load factor when full"),
            paper,
            point.full_at,
        ));
        let expected = expected_false_positives(bits);
        let cell_name = cell("false positives per absent key, of a full table");
        // 0 is a free slot.
        let values = Fingerprints::new(scale.slots, BUCKET_SLOTS, (1 << bits) - 1)?;
        rows.push(ReproRow {
            standard_error: Some(point.standard_error),
            model: Some(values.false_positives(1.0)?),
            ..ReproRow::new(cell_name, Some(expected), point.false_positives)
        });
        rows.push(ReproRow::new(
            cell("us, lookups, nine of ten absent"),
            None,
            point.lookup_us,
        ));
        rows.push(ReproRow::new(
            cell("us, insertions"),
            None,
            point.insertion_us,
        ));
    }
    let line = |of: fn(&Point) -> f64| {
        let points = BITS.into_iter().zip(&points);
        points
            .map(|(bits, point)| (f64::from(bits), of(point)))
            .collect::<Vec<_>>()
    };
    let plot = |title: &str, y: Axis, lines: Vec<Line>| Plot {
        title: title.into(),
        x: Axis::linear("bits of a fingerprint"),
        y,
        lines,
    };
    let expected = BITS.map(|bits| (f64::from(bits), expected_false_positives(bits)));
    let found = line(|point| point.false_positives);
    let found = found.into_iter().filter(|(_, rate)| *rate > 0.0).collect();
    let plots = vec![
        plot(
            "Load factor when full",
            Axis::linear("load factor"),
            vec![Line::ours("ours", line(|point| point.full_at))],
        ),
        plot(
            "False positives",
            Axis::logarithmic("rate"),
            vec![
                Line::ours("ours", found),
                Line::model("2d / 2^f", expected.to_vec()),
            ],
        ),
        plot(
            "Latency",
            Axis::linear("us"),
            vec![
                Line::ours("lookups, nine of ten absent", line(|point| point.lookup_us)),
                Line::ours("insertions", line(|point| point.insertion_us)),
            ],
        ),
    ];
    let reasons = reasons(&rows, &[]);
    Ok(ReproReport {
        id: ID,
        setup: format!(
            "Tables of {} slots, 8 a bucket. False positives are counted with absent keys in a table that is full, {} or as \
             many as have {FOUND} of them, against 2d/2^f for the part of its slots that is in use; the model has a fingerprint fewer, which marks free slots. Latencies are at a load of {LOAD}, {} operations behind a \
             simulated NIC with 3.2 us a round trip, without the client's time.{reasons}",
            scale.slots,
            MOST_ASKED * scale.slots,
            scale.lookups
        ),
        rows,
        plots,
    })
}

/// Section III-B's bound, for a table of load 1.
fn expected_false_positives(bits: u32) -> f64 {
    f64::from(2 * BUCKET_SLOTS) / f64::powi(2.0, bits as i32)
}

/// Absent keys to ask for.
fn asked(scale: &Scale, bits: u32) -> u64 {
    ((FOUND / expected_false_positives(bits)) as u64).min(MOST_ASKED * scale.slots)
}

fn point(scale: &Scale, bits: u32) -> Result<Point> {
    let mut table = Ours::new(Shape {
        fingerprint_bits: bits,
        ..shape(scale.slots, BUCKET_SLOTS)
    });
    let seed = scale.seed_of(0);
    let full_at = FillingCost::of(&mut table, 2.0, 0.01, seed).load;
    let index = &table.vault().index;
    let asked = asked(scale, bits);
    let absent = (0..asked).map(|number| derive(!seed, number));
    let found: u64 = absent.map(|hash| index.matches(hash).count() as u64).sum();
    // Only slots that are in use can match.
    let by_slots = asked as f64 * full_at;
    let lookups = Task {
        parts: vec![
            (TrialOperation::GetAbsent, ABSENT),
            (TrialOperation::Get, 1.0 - ABSENT),
        ],
        draw: Draw::Uniform,
    };
    let stops = vec![(
        LOAD.min(full_at * 0.9),
        vec![lookups, Task::only(TrialOperation::PutNew)],
    )];
    let trial = TableTrial {
        fingerprint_bits: bits,
        ..trial(scale, stops)
    };
    let outcome = (SCHEMES[0].run)(&trial, &TrialFabric::Simulated(Box::new(testbed())))?;
    let us = |task: usize| {
        let spent = outcome.spent(0, task);
        spent.map_or(0.0, |spent| spent.latency_ns / 1e3)
    };
    Ok(Point {
        full_at,
        false_positives: found as f64 / by_slots,
        standard_error: (found.max(1) as f64).sqrt() / by_slots,
        lookup_us: us(0),
        insertion_us: us(1),
    })
}
