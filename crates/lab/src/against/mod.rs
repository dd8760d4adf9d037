//! Exploration beside other model checkers: the same models, counted by all of them in one run.
//!
//! Each measurement is a process of its own, so that memory is a process's: the most that it ever had resident. All search all
//! states and check nothing. Farslot's models are those of `farslot explore`; [`compact`] has them for Stateright, as arrays
//! of bytes that are copied, and [`promela`] for Spin, as one process of guarded steps on bytes. All must count the same
//! states: what differs is no comparison, and fails.

mod compact;
mod one;
mod promela;
mod spin;

pub use one::{Checker, One, OneArgs};

use crate::{LabError, Progress, Result};
use serde::Serialize;

/// What is compared.
#[derive(Clone, Debug)]
pub struct Options {
    /// Models by name: `philosophers:N`, `peterson:N`, `2pc:N`.
    pub models: Vec<Subject>,
    /// Numbers of workers.
    pub workers: Vec<usize>,
    /// How often each is run; the fastest run counts.
    pub rounds: usize,
}

/// A model that all of them can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Dining philosophers.
    Philosophers(usize),
    /// Peterson's algorithm for so many processes.
    Peterson(usize),
    /// Two-phase commit with so many resource managers.
    TwoPhase(usize),
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Philosophers(size) => write!(f, "philosophers:{size}"),
            Self::Peterson(size) => write!(f, "peterson:{size}"),
            Self::TwoPhase(size) => write!(f, "2pc:{size}"),
        }
    }
}

impl std::str::FromStr for Subject {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, String> {
        let refused =
            || format!("{name:?} is none of philosophers:2 to :31, peterson:2 to :7, 2pc:1 to :31");
        let (kind, size) = name.split_once(':').ok_or_else(refused)?;
        let size: usize = size.parse().map_err(|_| refused())?;
        match (kind, size) {
            ("philosophers", 2..=31) => Ok(Self::Philosophers(size)),
            ("peterson", 2..=7) => Ok(Self::Peterson(size)),
            ("2pc", 1..=31) => Ok(Self::TwoPhase(size)),
            _ => Err(refused()),
        }
    }
}

/// One checker on one model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The model.
    pub model: String,
    /// The checker.
    pub checker: String,
    /// Workers: threads, for Spin processes.
    pub workers: usize,
    /// Reachable states.
    pub states: u64,
    /// Seconds of the search, in the fastest run.
    pub seconds: f64,
    /// States a second.
    pub states_per_second: f64,
    /// Bytes of the set of visited states, for each of them, where the checker tells.
    pub bytes_per_state: Option<f64>,
    /// Bytes that the process had resident at most, for each state; of Spin those that it says it has used, its stack
    /// left out.
    pub resident_bytes_per_state: f64,
    /// Farslot's states a second by this checker's, with as many workers.
    pub farslot_ratio: Option<f64>,
}

/// A comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AgainstReport {
    /// `explore-against`.
    pub bench: &'static str,
    /// Runs of each, of which the fastest counts.
    pub rounds: usize,
    /// What was measured.
    pub rows: Vec<Row>,
    /// What could not be compared, and why.
    pub notes: Vec<String>,
}

/// Compares, on this machine.
///
/// # Errors
/// [`LabError::NotInstalled`] without Spin or a C compiler; [`LabError::Peer`] where one fails; [`LabError::Counted`]
/// where they count different states.
pub fn run(options: &Options, progress: &Progress<'_>) -> Result<AgainstReport> {
    let mut rows: Vec<Row> = Vec::new();
    for model in &options.models {
        let compiled = spin::Compiled::new(*model)?;
        for &workers in &options.workers {
            let mut of_model = Vec::new();
            for checker in Checker::ALL {
                if !checker.runs_with(workers) {
                    continue;
                }
                progress(&format!("{model}: {checker}, {workers}"));
                let runs = (0..options.rounds.max(1)).map(|_| match checker {
                    Checker::Farslot | Checker::Stateright => one::start(checker, *model, workers),
                    _ => compiled.run(checker, workers),
                });
                let runs: Vec<One> = runs.collect::<Result<_>>()?;
                of_model.push(row(*model, checker, workers, &runs)?);
            }
            rows.extend(with_ratios(of_model)?);
        }
    }
    Ok(AgainstReport {
        bench: "explore-against",
        rounds: options.rounds,
        rows,
        notes: Checker::notes(&options.workers),
    })
}

fn row(model: Subject, checker: Checker, workers: usize, runs: &[One]) -> Result<Row> {
    let fastest = runs
        .iter()
        .min_by(|one, two| one.seconds.total_cmp(&two.seconds));
    let fastest = fastest.ok_or_else(|| LabError::bad("--rounds", 0, "at least 1"))?;
    let states = fastest.states.max(1) as f64;
    Ok(Row {
        model: model.to_string(),
        checker: checker.to_string(),
        workers,
        states: fastest.states,
        seconds: fastest.seconds,
        states_per_second: states / fastest.seconds.max(1e-9),
        bytes_per_state: fastest.set_bytes.map(|bytes| bytes as f64 / states),
        resident_bytes_per_state: fastest.resident_bytes as f64 / states,
        farslot_ratio: None,
    })
}

/// The rows of one model and number of workers, of which the first is Farslot's.
fn with_ratios(mut rows: Vec<Row>) -> Result<Vec<Row>> {
    let Some((states, rate)) = rows.first().map(|row| (row.states, row.states_per_second)) else {
        return Ok(rows);
    };
    for row in &mut rows {
        if row.states != states {
            return Err(LabError::Counted {
                model: row.model.clone(),
                checker: row.checker.clone(),
                found: row.states,
                farslot: states,
            });
        }
        row.farslot_ratio = Some(rate / row.states_per_second.max(1e-9));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_parsed_and_printed() {
        for name in ["philosophers:12", "peterson:4", "2pc:7"] {
            assert_eq!(name.parse::<Subject>().unwrap().to_string(), name);
        }
        for name in [
            "",
            "2pc",
            "2pc:0",
            "peterson:8",
            "philosophers:99",
            "puzzle:3x3",
        ] {
            assert!(name.parse::<Subject>().is_err(), "{name}");
        }
    }
}
