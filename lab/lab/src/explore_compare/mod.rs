//! Our explorer beside Spin and Stateright, on models that all three can say.
//!
//! The models are those of [`farslot_explore::models`]: Spin has them as Promela (`promela/`),
//! written as a user of Spin would, with the same atomic steps; Stateright explores the same Rust
//! code through its own trait. All systems must find the same number of states, or the comparison
//! fails. None of them reduces: no partial order, no symmetry.
//!
//! Each exploration is a process of its own, so that its memory can be told, and systems take turns
//! within each round; every figure is a median over rounds.

mod model;
mod one;
mod outcome;
mod spin;
mod stateright;
mod system;

pub use model::{CommonModel, Kind};
pub use one::One;
pub use outcome::OneExplored;
pub use system::ExplorationTool;

use crate::{LabError, Progress, Result};
use farslot_bench::median;
use serde::Serialize;
use spin::SpinVerifiers;
use std::path::PathBuf;

/// What the comparison may vary.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The models.
    pub models: Vec<CommonModel>,
    /// Numbers of workers.
    pub workers: Vec<usize>,
    /// The systems; the first is compared with the others.
    pub systems: Vec<ExplorationTool>,
    /// Rounds, of which the median counts.
    pub rounds: usize,
    /// The program `farslot-lab`, which explores in processes of its own.
    pub program: PathBuf,
}

impl Options {
    fn check(&self) -> Result<()> {
        for (option, count) in [
            ("number of models", self.models.len()),
            ("number of systems", self.systems.len()),
            ("rounds", self.rounds),
        ] {
            if count == 0 {
                return Err(LabError::bad(option, 0, "at least 1"));
            }
        }
        match self
            .workers
            .iter()
            .find(|workers| !(1..=64).contains(*workers))
        {
            Some(workers) => Err(LabError::bad("workers", *workers as u64, "from 1 to 64")),
            None => Ok(()),
        }
    }
}

/// The figures of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExploreReport {
    /// Always `explore-compare`.
    pub bench: &'static str,
    /// Interleaved rounds, of which medians count.
    pub rounds: usize,
    /// What the figures mean, in words.
    pub notes: Vec<&'static str>,
    /// By model and number of workers, and there by system.
    pub rows: Vec<ExploreRow>,
    /// Systems that could not explore a model to its end, and have no row for it.
    pub failures: Vec<ExploreFailure>,
}

/// A system that could not explore a model to its end, as for want of memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExploreFailure {
    /// The model.
    pub model: String,
    /// Threads or processes.
    pub workers: usize,
    /// The system.
    pub system: &'static str,
    /// How it ended.
    pub reason: String,
}

/// One system on one model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExploreRow {
    /// The model, as `farslot explore` names it.
    pub model: String,
    /// Threads, or of Spin's depth-first search processes.
    pub workers: usize,
    /// The system.
    pub system: &'static str,
    /// Its version.
    pub version: String,
    /// Reachable states: all systems have found as many.
    pub states: u64,
    /// Seconds of the search.
    pub seconds: f64,
    /// States a second.
    pub states_per_second: f64,
    /// Bytes of the set of states for each of them, as the system accounts for them; Stateright
    /// does not.
    pub bytes_per_state: Option<f64>,
    /// The most memory that the process had beyond what it began with, for each state; of several
    /// processes none is told.
    pub peak_bytes_per_state: Option<f64>,
    /// The first system's states/s divided by this one's, the median over rounds; of the first
    /// none.
    pub farslot_ratio: Option<f64>,
}

const NOTES: [&str; 5] = [
    "all systems found the same number of states, without reductions (Spin: -DNOREDUCE), and checked the same invariant",
    "bytes a state: of farslot its set of states; of spin its states and its hash table, of the least power of two that has \
     a slot for each; stateright keeps 64-bit fingerprints, so that a collision loses states, and does not say how much memory that is",
    "peak: the highest resident memory of the process less that at its start: queues, stacks, and tables that are being \
     enlarged included",
    "seconds: farslot and stateright by the clock around the search, spin as its verifier says, without translation and gcc",
    "spin with several workers: -DNCORE, processes with shared memory; spin-bfs: -DBFS_PAR, states whole (-DNO_HC)",
];

/// Runs the comparison.
///
/// # Errors
/// [`BadOption`](farslot_bench::BenchError::BadOption); [`LabError::NotInstalled`];
/// [`LabError::Explorer`]; [`LabError::OtherStates`] where a system has found another number of
/// states; and of the first system [`LabError::Explorer`], which of the others is a failure in the
/// report.
pub(crate) fn run(options: &Options, progress: Progress<'_>) -> Result<ExploreReport> {
    options.check()?;
    let spin = match options.systems.iter().any(|system| system.is_spin()) {
        true => Some(SpinVerifiers::find()?),
        false => None,
    };
    let (mut rows, mut failures) = (Vec::new(), Vec::new());
    for model in &options.models {
        let mut states = None;
        for workers in &options.workers {
            let mut found: Vec<Vec<OneExplored>> = vec![Vec::new(); options.systems.len()];
            let mut failed: Vec<Option<String>> = vec![None; options.systems.len()];
            for round in 0..options.rounds {
                for turn in 0..options.systems.len() {
                    // Another one begins each round.
                    let at = (round + turn) % options.systems.len();
                    let system = options.systems[at];
                    if failed[at].is_some() {
                        continue;
                    }
                    progress(&format!(
                        "{model}, {workers} workers, round {}, {system}",
                        round + 1
                    ));
                    let explored = match &spin {
                        Some(spin) if system.is_spin() => {
                            // Its hash table is sized by the states that there are.
                            let states = match states {
                                Some(states) => states,
                                None => {
                                    one::run(&options.program, ExplorationTool::Farslot, *model, 1)?
                                        .states
                                }
                            };
                            spin.explore(system, *model, *workers, states)
                        }
                        _ => one::run(&options.program, system, *model, *workers),
                    };
                    let explored = match explored {
                        Err(LabError::Explorer { reason, .. }) if at > 0 => {
                            failed[at] = Some(reason);
                            continue;
                        }
                        explored => explored?,
                    };
                    let expected = *states.get_or_insert(explored.states);
                    if explored.states != expected {
                        return Err(LabError::OtherStates {
                            system: system.name(),
                            model: model.to_string(),
                            found: explored.states,
                            expected,
                        });
                    }
                    found[at].push(explored);
                }
            }
            for ((system, own), failed) in options.systems.iter().zip(&found).zip(failed) {
                if let Some(reason) = failed {
                    failures.push(ExploreFailure {
                        model: model.to_string(),
                        workers: *workers,
                        system: system.name(),
                        reason,
                    });
                    continue;
                }
                rows.push(row(
                    *model,
                    *workers,
                    *system,
                    own,
                    &found[0],
                    spin.as_ref(),
                ));
            }
        }
    }
    Ok(ExploreReport {
        bench: "explore-compare",
        rounds: options.rounds,
        notes: NOTES.to_vec(),
        rows,
        failures,
    })
}

fn row(
    model: CommonModel,
    workers: usize,
    system: ExplorationTool,
    rounds: &[OneExplored],
    first: &[OneExplored],
    spin: Option<&SpinVerifiers>,
) -> ExploreRow {
    let states = rounds[0].states;
    let seconds = median(rounds.iter().map(|round| round.seconds));
    let each = |bytes: Option<Vec<u64>>| {
        let bytes = bytes?.into_iter().map(|bytes| bytes as f64);
        Some(median(bytes) / states.max(1) as f64)
    };
    let ratios = rounds.iter().zip(first);
    let ratio = median(ratios.map(|(own, first)| own.seconds / first.seconds));
    let is_first = std::ptr::eq(rounds, first);
    ExploreRow {
        model: model.to_string(),
        workers,
        system: system.name(),
        version: match (system, spin) {
            (ExplorationTool::Farslot, _) => env!("CARGO_PKG_VERSION").into(),
            (_, Some(spin)) if system.is_spin() => spin.version.clone(),
            _ => stateright::VERSION.into(),
        },
        states,
        seconds,
        states_per_second: states as f64 / seconds,
        bytes_per_state: each(rounds.iter().map(|round| round.set_bytes).collect()),
        peak_bytes_per_state: each(rounds.iter().map(|round| round.peak_bytes).collect()),
        farslot_ratio: (!is_first).then_some(ratio),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A program that answers as one does, but is killed where it is to be the system that fails.
    const PROGRAM: &str = r#"#!/bin/sh
case "$*" in
*"--system stateright-dfs"*) kill -9 $$ ;;
*) echo '{"states":288,"seconds":0.5,"set_bytes":null,"peak_bytes":null}' ;;
esac
"#;

    #[test]
    fn a_system_that_is_killed_is_named_and_the_others_go_on() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("program");
        std::fs::write(&program, PROGRAM).unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        let options = |systems: &[ExplorationTool]| Options {
            models: vec!["2pc:3".parse().unwrap()],
            workers: vec![1, 2],
            systems: systems.to_vec(),
            rounds: 2,
            program: program.clone(),
        };
        let systems = [
            ExplorationTool::Farslot,
            ExplorationTool::StaterightDfs,
            ExplorationTool::StaterightBfs,
        ];
        let report = run(&options(&systems), &|_| ()).unwrap();
        let rows: Vec<_> = report.rows.iter().map(|row| row.system).collect();
        assert_eq!(
            rows,
            ["farslot", "stateright-bfs", "farslot", "stateright-bfs"]
        );
        assert_eq!(report.failures.len(), 2);
        for failure in &report.failures {
            assert_eq!(failure.system, "stateright-dfs");
            assert!(failure.reason.contains("signal: 9"), "{failure:?}");
        }
        let end = run(&options(&[ExplorationTool::StaterightDfs]), &|_| ());
        assert!(matches!(end, Err(LabError::Explorer { .. })), "{end:?}");
    }
}
