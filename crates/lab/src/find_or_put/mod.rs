//! Find-or-put on this machine: operations a second beside concurrent maps, and beside the least that any table must do.
//!
//! A table is filled from empty to nine tenths by a mix of elements that are there and elements that are new (paper 002,
//! section 4.3), in bands of load. Farslot's is filled by processes that each own a part of it, in each other's mapped memory;
//! [`papaya`](https://docs.rs/papaya) and [`dashmap`](https://docs.rs/dashmap) by as many threads of one process, with room for
//! all from the start. *CAS* is the limit of the mapping: the same memory and the same operations, each with one
//! load at its home and, for a new element, one compare-and-swap there, whatever lies in the word.

mod job;
mod peers;
mod rank;
mod stream;

pub use job::Meeting;

use crate::{LabError, Progress, Result};
use serde::Serialize;

/// The loads that a table is measured between.
pub(crate) const LOADS: [f64; 4] = [0.0, 0.5, 0.75, 0.9];

/// What is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Buckets of each table.
    pub buckets: u64,
    /// Of a hundred operations, how many find an element that is there; one mix after the other.
    pub found: Vec<u32>,
    /// Numbers of processes.
    pub processes: Vec<u32>,
    /// How often each is measured; medians count.
    pub rounds: usize,
    /// What the operations derive from.
    pub seed: u64,
}

/// One table, under one mix, in one band of load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Which table.
    pub system: String,
    /// Processes; of maps, threads of one.
    pub workers: u32,
    /// Of a hundred operations, how many find.
    pub found_percent: u32,
    /// The band of load.
    pub load: [f64; 2],
    /// Operations of the band, by all workers.
    pub operations: u64,
    /// Operations a second of all workers together: the median of the rounds.
    pub operations_per_second: f64,
    /// Its share of the limit.
    pub of_limit: f64,
}

/// A measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FindOrPutReport {
    /// `find-or-put`.
    pub bench: &'static str,
    /// Buckets of each table.
    pub buckets: u64,
    /// Rounds, of which the medians count.
    pub rounds: usize,
    /// What was measured.
    pub rows: Vec<Row>,
}

/// Nanoseconds of each band, of one system, mix and number of workers, for each round.
#[derive(Clone, Debug)]
pub(crate) struct Timed {
    pub(crate) system: &'static str,
    pub(crate) found: u32,
    /// Operations of all workers in each band.
    pub(crate) operations: Vec<u64>,
    /// For each round, the slowest worker's time in each band.
    pub(crate) rounds: Vec<Vec<u64>>,
}

/// Measures.
///
/// # Errors
/// A usage error for options that no measurement can be made with; [`LabError::Bench`] for wrong answers.
pub fn run(options: &Options, progress: &Progress<'_>) -> Result<FindOrPutReport> {
    options.check()?;
    let mut rows = Vec::new();
    for &workers in &options.processes {
        progress(&format!("{workers} processes"));
        let mut timed = job::measure(options, workers)?;
        for found in &options.found {
            progress(&format!("{workers} threads of maps, {found}% found"));
            timed.extend(peers::measure(options, *found, workers)?);
        }
        rows.extend(rows_of(&timed, workers));
    }
    Ok(FindOrPutReport {
        bench: "find-or-put",
        buckets: options.buckets,
        rounds: options.rounds,
        rows,
    })
}

impl Options {
    pub(crate) fn check(&self) -> Result<()> {
        if !(1 << 10..=1 << 32).contains(&self.buckets) {
            let limit = "from 1024 to 2^32";
            return Err(LabError::bad("--buckets", self.buckets, limit));
        }
        if self.rounds == 0 {
            return Err(LabError::bad("--rounds", 0, "at least 1"));
        }
        let most = self.found.iter().copied().max().unwrap_or_default();
        if most > 99 {
            return Err(LabError::bad("--found", most.into(), "at most 99"));
        }
        let most = self.processes.iter().copied().max().unwrap_or_default();
        let least = self.processes.iter().copied().min().unwrap_or_default();
        if least == 0 || most > 64 {
            return Err(LabError::bad("--processes", most.into(), "from 1 to 64"));
        }
        Ok(())
    }
}

fn rows_of(timed: &[Timed], workers: u32) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for of in timed {
        for (band, operations) in of.operations.iter().enumerate() {
            let mut spans: Vec<u64> = of.rounds.iter().map(|round| round[band]).collect();
            spans.sort_unstable();
            let median = spans[spans.len() / 2].max(1);
            rows.push(Row {
                system: of.system.into(),
                workers,
                found_percent: of.found,
                load: [LOADS[band], LOADS[band + 1]],
                operations: *operations,
                operations_per_second: *operations as f64 * 1e9 / median as f64,
                of_limit: 0.0,
            });
        }
    }
    let limits: Vec<Row> = rows
        .iter()
        .filter(|row| row.system == rank::LIMIT)
        .cloned()
        .collect();
    for row in &mut rows {
        let same =
            |limit: &&Row| limit.found_percent == row.found_percent && limit.load == row.load;
        if let Some(limit) = limits.iter().find(same) {
            row.of_limit = row.operations_per_second / limit.operations_per_second;
        }
    }
    rows
}
