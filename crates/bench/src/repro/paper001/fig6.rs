//! Paper 001, figure 6: the theorems of section IV against what is counted.

use super::{reasons, shape, single, split};
use crate::paper001::cost::{Filled, Placed};
use crate::paper001::ours::Ours;
use crate::paper001::published::BUCKET_SLOTS;
use crate::paper001::split::{Search, Split, SplitShape};
use crate::repro::Scale;
use crate::{Axis, Line, Plot, Progress, ReproReport, ReproRow, Result, threads};
use farslot::index::duo::placement::Shape;

pub(in crate::repro) const ID: &str = "001-fig6";

/// Half a minute. Theorem IV.1 counts in proportion to the slots.
pub(in crate::repro) const SCALE: Scale = Scale {
    slots: 3_000_000,
    tables: 1,
    lookups: 1,
    seed: 0,
};

/// A stash that is never full.
const ENDLESS: u64 = u64::MAX;
const LOADS: [f64; 9] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
/// Load factors of figure 6(d).
const HIGH_LOADS: [f64; 5] = [0.91, 0.92, 0.93, 0.94, 0.95];
/// The load factor of figures 6(b) and 6(c).
const FULL: f64 = 0.99;
/// Steps in which the integral of theorem IV.3 is taken.
const STEP: f64 = 0.002;

/// Theorem IV.1: keys that collide in a table with one fingerprint at this load factor.
fn collisions(shape: &SplitShape, load: f64) -> f64 {
    let (m, d) = (shape.buckets as f64, shape.bucket_slots as f64);
    2.0 * m * (d * load).powi(2) / f64::from(1 << shape.fingerprint_bits)
}

/// Theorem IV.2: keys whose collisions dual fingerprints do not resolve, at most.
fn unresolved(buckets: u64, bits: u32) -> f64 {
    let (m, d) = (buckets as f64, f64::from(BUCKET_SLOTS));
    4.0 * m * d * (d + 1.0) * (d - 1.0) / (3.0 * f64::powi(4.0, bits as i32))
}

/// Theorem IV.3: keys that find no path of at most one move, by what is counted of full buckets.
fn pathless(filled: &Filled, slots: f64, load: f64) -> f64 {
    let d = i32::try_from(BUCKET_SLOTS).unwrap_or(i32::MAX);
    let bands = filled
        .bands
        .windows(2)
        .take_while(|pair| pair[1].load <= load + STEP / 2.0);
    let sum = bands.map(|pair| {
        let full = f64::midpoint(pair[0].full_buckets, pair[1].full_buckets);
        let none = full.powi(2 * (1 + d));
        none / (1.0 - none) * (pair[1].load - pair[0].load)
    });
    sum.sum::<f64>() * slots
}

/// Counts it.
pub(in crate::repro) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let seed = scale.seed_of(0);
    let basic = SplitShape {
        collisions_aside: true,
        stash: ENDLESS,
        ..single(scale.slots)
    };
    let dual = |bits| SplitShape {
        fingerprint_bits: bits,
        stash: ENDLESS,
        ..split(scale.slots, BUCKET_SLOTS)
    };
    // Ours looks through all of its stash for every key, so that it is a smaller table: the bound is in proportion.
    let ours = |bits| Shape {
        fingerprint_bits: bits,
        stash: 1024,
        ..shape((scale.slots / 16).max(1 << 10), BUCKET_SLOTS)
    };
    let filled = threads::in_order(6, |job| {
        progress(&format!("table {} of 6", job + 1));
        Ok(match job {
            0 => Filled::of(&mut Split::new(basic), 0.9, 0.01, seed),
            1 => {
                let shallow = SplitShape {
                    search: Search::Breadth(1),
                    ..basic
                };
                Filled::of(&mut Split::new(shallow), 0.95, STEP, seed)
            }
            2 | 3 => {
                let bits = if job == 2 { 8 } else { 16 };
                Filled::of(&mut Split::new(dual(bits)), FULL, 0.01, seed)
            }
            _ => {
                let bits = if job == 4 { 8 } else { 16 };
                Filled::of(&mut Ours::new(ours(bits)), FULL, 0.01, seed)
            }
        })
    })?;
    let mut rows = Vec::new();
    let collided = |filled: &Filled, load| filled.until(load).collided as f64;
    for load in LOADS {
        let cell = format!("keys that collide, one fingerprint, load {load:.2}");
        let theorem = collisions(&basic, load);
        rows.push(ReproRow::new(
            cell,
            Some(theorem),
            collided(&filled[0], load),
        ));
    }
    for (bits, numbers) in [(8, [2, 4]), (16, [3, 5])] {
        let theirs = ("backup slots set aside", numbers[0], dual(bits).buckets);
        let ours = ("any slot", numbers[1], ours(bits).buckets);
        for (name, number, buckets) in [theirs, ours] {
            let bound = unresolved(buckets, bits);
            let cell =
                format!("collisions not resolved / their bound, f = {bits}, {name}, load {FULL}");
            let ratio = collided(&filled[number], 1.0) / bound;
            // The theorem is a bound: there is no ratio to it.
            rows.push(ReproRow::new(cell, None, ratio));
        }
    }
    let slots = Split::new(basic).slots() as f64;
    let without_path = |load| filled[1].until(load).pathless as f64;
    for load in HIGH_LOADS {
        let cell = format!("keys without a path, L = 1, load {load:.2}");
        let theorem = pathless(&filled[1], slots, load);
        rows.push(ReproRow::new(cell, Some(theorem), without_path(load)));
    }
    let line = |of: &dyn Fn(f64) -> f64, loads: &[f64]| {
        loads.iter().map(|load| (*load, of(*load))).collect()
    };
    let plots = vec![
        Plot {
            title: "Keys that collide with one fingerprint".into(),
            x: Axis::linear("load factor"),
            y: Axis::linear("keys"),
            lines: vec![
                Line::ours("counted", line(&|load| collided(&filled[0], load), &LOADS)),
                Line::model(
                    "theorem IV.1",
                    line(&|load| collisions(&basic, load), &LOADS),
                ),
            ],
        },
        Plot {
            title: "Keys without a path of one move".into(),
            x: Axis::linear("load factor"),
            y: Axis::linear("keys"),
            lines: vec![
                Line::ours("counted", line(&without_path, &HIGH_LOADS)),
                Line::model(
                    "theorem IV.3",
                    line(&|load| pathless(&filled[1], slots, load), &HIGH_LOADS),
                ),
            ],
        },
    ];
    let reasons = reasons(
        &rows,
        &[
            (
                "keys that collide",
                "so few that chance makes the difference",
            ),
            (
                "keys without a path",
                "the theorem takes buckets to be full independently of each other; where hardly any key is without a path, chance \
                 matters too",
            ),
        ],
    );
    Ok(ReproReport {
        id: ID,
        setup: format!(
            "Tables of {} slots, 8 a bucket, f = 16 where nothing else is said; counted. In the paper's column are the \
             theorems for these tables.{reasons}",
            scale.slots
        ),
        rows,
        plots,
    })
}
