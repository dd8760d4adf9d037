//! Paper 001, figure 9, and the supplement's counts: load factors, and what insertions cost by load
//! factor.

use super::common::{
    as_published_of_map_embed, filling, one_record_after_the_other, reasons, trial,
};
use crate::paper001::designs::published::{
    BUCKET_SIZES, LOADS_BY_SIZE, MAP_EMBED_LOADS, RACE_LOADS, TABLE_1, TEA_LOADS,
};
use crate::paper001::designs::schemes::SCHEMES;
use crate::paper001::designs::trial::{
    Outcome, Spent, TableTrial, Task, TrialFabric, TrialOperation,
};
use crate::scale::Scale;
use crate::{Axis, Line, Plot, Progress, ReproReport, ReproRow, Result, threads};

pub(crate) const ID: &str = "001-fig9";

/// A minute.
pub(crate) const SCALE: Scale = Scale {
    slots: 3_000_000,
    tables: 1,
    lookups: 10_000,
    seed: 0,
};

/// TEA's highest is 0.68.
const LOADS: [f64; 9] = [0.1, 0.3, 0.5, 0.6, 0.68, 0.7, 0.8, 0.9, 0.95];
/// The published counts: at which load factor, and accesses and slots an insertion.
const COUNTED: [(f64, f64, f64); 4] = [
    (0.9, 2.72, 5.89),
    (0.9, 26.9, 124.0),
    (0.9, 3.0, 33.0),
    (0.68, 8.7, 74.0),
];

/// A line of the figure: its axis, and what it takes of what was spent.
type Cost = (&'static str, fn(&Spent) -> f64);

const COSTS: [Cost; 3] = [
    ("round trips", |spent| spent.round_trips),
    ("slots", |spent| spent.items),
    ("accesses", |spent| spent.accesses),
];

const REASONS: [(&str, &str); 6] = [
    (
        "*RACE out of band, load",
        "an insertion is begun by one swap and made live by another, with a look at the key's slots in between, in three round \
         trips; a slot is a word, and the record, out of band, three or four of them",
    ),
    (
        "accesses an insertion, CuckooDuo",
        "the published counts are of primary slots first, which reads buckets for backup slots; each record here is \
         written in two verbs, bytes and head",
    ),
    (
        "slots an insertion, CuckooDuo",
        "no bucket is read for backup slots here",
    ),
    (
        "accesses an insertion, MapEmbed",
        "the published code counts sixteen READs and sixteen moves for every cell that gets another number (the model's column); here the bucket that \
         was read is not read again, only what moves is written, and the buckets of a cell that is given up are READs as well",
    ),
    (
        "accesses an insertion, TEA",
        "the published code writes each record of a walk (the model's column); walks that are given up are not written here, and at 0.68 most \
         of the READs are theirs, of which there are few enough to be chance",
    ),
    (
        "slots an insertion",
        "of TEA's walks those that are given up, after 1000 records, are most of the slots: their number is chance. A small table of MapEmbed \
         changes more cells at this load factor",
    ),
];

/// Measures the figure.
pub(crate) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let jobs = SCHEMES.len() * BUCKET_SIZES.len();
    let fullest = threads::in_order(jobs, |job| {
        let (scheme, size) = (
            &SCHEMES[job / BUCKET_SIZES.len()],
            BUCKET_SIZES[job % BUCKET_SIZES.len()],
        );
        progress(&format!("{}, d = {size}", scheme.name));
        (scheme.run)(&filling(scale, size), &TrialFabric::Memory)
    })?;
    let papers = [LOADS_BY_SIZE, MAP_EMBED_LOADS, RACE_LOADS, TEA_LOADS];
    let mut rows = Vec::new();
    for (job, outcome) in fullest.iter().enumerate() {
        let (scheme, size) = (&SCHEMES[job / BUCKET_SIZES.len()], job % BUCKET_SIZES.len());
        let cell = format!(
            "load factor when full, {}, d = {}",
            scheme.name, BUCKET_SIZES[size]
        );
        let paper = papers[scheme.published][size];
        rows.push(ReproRow::new(cell, Some(paper), outcome.load));
    }
    let costs = threads::in_order(SCHEMES.len(), |number| {
        progress(SCHEMES[number].name);
        let stops = LOADS.map(|load| (load, vec![Task::only(TrialOperation::PutNew)]));
        let trial = TableTrial {
            field_bytes: 8,
            ..trial(scale, stops.to_vec())
        };
        (SCHEMES[number].run)(&trial, &TrialFabric::Memory)
    })?;
    for (scheme, outcome) in SCHEMES.iter().zip(&costs) {
        for (load, spent) in points(outcome) {
            let (at, accesses, slots) = COUNTED[scheme.published];
            for (label, of) in COSTS {
                let paper = match (load == at, label) {
                    (true, "accesses") => Some(accesses),
                    (true, "slots") => Some(slots),
                    (false, "round trips") if load <= 0.5 => {
                        Some(TABLE_1[scheme.published].insert[0].round_trips)
                    }
                    _ => None,
                };
                let cell = format!("{label} an insertion, {}, load {load:.2}", scheme.name);
                let model = match (scheme.name, label) {
                    ("MapEmbed", "accesses") => Some(as_published_of_map_embed(&spent)[0]),
                    ("MapEmbed", "slots") => Some(as_published_of_map_embed(&spent)[1]),
                    ("TEA", "accesses") => Some(one_record_after_the_other(&spent, &spent).0),
                    _ => None,
                };
                let row = ReproRow::new(cell, paper, of(&spent)).counted_by_its_code();
                rows.push(ReproRow { model, ..row });
            }
        }
    }
    let plots = COSTS.map(|(label, of)| Plot {
        title: format!("{label} an insertion"),
        x: Axis::linear("load factor"),
        y: Axis::linear(label),
        lines: SCHEMES
            .iter()
            .zip(&costs)
            .map(|(scheme, outcome)| {
                let points = points(outcome).map(|(load, spent)| (load, of(&spent)));
                Line::ours(scheme.name, points.collect())
            })
            .collect(),
    });
    let reasons = reasons(&rows, &REASONS);
    Ok(ReproReport {
        id: ID,
        setup: format!(
            "Tables of {} slots, records of 16 bytes, counted by the client's endpoint; {} insertions at each load factor. The paper's \
             column has the published code's counts at 3 million slots where the paper gives none. An access is a verb, slots are \
             bytes by the bytes of a slot. RACE is as in the paper, its records in the slots; out of band it is this project's.{reasons}",
            scale.slots, scale.lookups
        ),
        rows,
        plots: plots.into(),
    })
}

/// The load factors that were reached, with what insertions took there.
fn points(outcome: &Outcome) -> impl Iterator<Item = (f64, Spent)> {
    let stops = LOADS.into_iter().zip(&outcome.stops);
    stops.filter_map(|(load, spent)| Some((load, *spent.first()?)))
}
