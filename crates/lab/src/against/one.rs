//! One measurement in a process of its own, for the checkers that are libraries.

use super::Subject;
use super::compact::Compact;
use crate::{LabError, Result};
use farslot_explore::explicit::{Options, Progress, explore};
use farslot_explore::models::{Filter, Philosophers, TwoPhase};
use farslot_explore::{ExploreError, model};
use serde::{Deserialize, Serialize};
use stateright::{Checker as _, Model as _};
use std::fmt;
use std::num::NonZeroUsize;
use std::process::Command;
use std::time::Instant;

/// What counts states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Checker {
    /// Farslot, breadth first.
    Farslot,
    /// Stateright, breadth first.
    Stateright,
    /// Spin as it is compiled without options, depth first.
    Spin,
    /// Spin with `-DCOLLAPSE`, depth first.
    SpinCollapse,
    /// Spin with `-DBFS_PAR`, breadth first by several processes.
    SpinParallel,
}

impl Checker {
    pub(super) const ALL: [Self; 5] = [
        Self::Farslot,
        Self::Stateright,
        Self::Spin,
        Self::SpinCollapse,
        Self::SpinParallel,
    ];

    /// Whether it can search with so many workers.
    pub(super) const fn runs_with(self, workers: usize) -> bool {
        match self {
            Self::Farslot | Self::Stateright => true,
            Self::Spin | Self::SpinCollapse => workers == 1,
            Self::SpinParallel => workers > 1,
        }
    }

    /// What is not compared, and why.
    pub(super) fn notes(workers: &[usize]) -> Vec<String> {
        let several = workers.iter().any(|workers| *workers > 1);
        let note = "Spin compresses (-DCOLLAPSE) with one worker only; with several it is its breadth-first search \
                    (-DBFS_PAR)";
        several.then(|| note.to_owned()).into_iter().collect()
    }
}

impl fmt::Display for Checker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Farslot => "farslot",
            Self::Stateright => "stateright",
            Self::Spin => "spin",
            Self::SpinCollapse => "spin -DCOLLAPSE",
            Self::SpinParallel => "spin -DBFS_PAR",
        })
    }
}

/// The options of the process that measures one.
#[derive(clap::Args, Clone, Debug)]
pub struct OneArgs {
    /// What counts.
    #[arg(value_enum)]
    pub checker: Checker,
    /// The model.
    pub model: Subject,
    /// Threads.
    pub workers: NonZeroUsize,
}

/// What one measurement has found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct One {
    /// Reachable states.
    pub states: u64,
    /// Seconds of the search.
    pub seconds: f64,
    /// Bytes of the set of states, where the checker tells.
    pub set_bytes: Option<u64>,
    /// Bytes that the process had resident at most.
    pub resident_bytes: u64,
}

impl OneArgs {
    /// Measures it in this process.
    ///
    /// # Errors
    /// What the checker says.
    pub fn run(&self) -> Result<One> {
        let workers = self.workers;
        let (states, seconds, set_bytes) = match self.checker {
            Checker::Farslot => by_farslot(self.model, workers)?,
            Checker::Stateright => {
                let started = Instant::now();
                let checker = Compact(self.model).checker().threads(workers.get());
                let checker = checker.spawn_bfs().join();
                let seconds = started.elapsed().as_secs_f64();
                (checker.unique_state_count() as u64, seconds, None)
            }
            other => {
                return Err(failed(other, "it is a program of its own"));
            }
        };
        Ok(One {
            states,
            seconds,
            set_bytes,
            resident_bytes: most_resident()?,
        })
    }
}

fn by_farslot(model: Subject, threads: NonZeroUsize) -> Result<(u64, f64, Option<u64>)> {
    let options = Options {
        threads,
        ..Options::default()
    };
    fn of<M: model::Model>(
        model: &M,
        options: &Options,
    ) -> std::result::Result<(u64, f64, Option<u64>), ExploreError> {
        let found = explore(model, options, None, &Progress::default())?;
        Ok((found.states, found.seconds, Some(found.bytes)))
    }
    let size = |error: farslot_explore::models::SizeError| failed(Checker::Farslot, error);
    let found = match model {
        Subject::Philosophers(count) => of(&Philosophers::new(count).map_err(size)?, &options),
        Subject::Peterson(count) => of(&Filter::new(count).map_err(size)?, &options),
        Subject::TwoPhase(count) => of(&TwoPhase::new(count, false).map_err(size)?, &options),
    };
    found.map_err(|error| failed(Checker::Farslot, error))
}

fn failed(checker: Checker, reason: impl fmt::Display) -> LabError {
    LabError::Checker {
        checker: checker.to_string(),
        reason: reason.to_string(),
    }
}

/// The most memory that this process has ever had resident.
fn most_resident() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status");
    let status = status.map_err(|error| failed(Checker::Farslot, error))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes =
        line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    let kilobytes = kilobytes.ok_or_else(|| failed(Checker::Farslot, "no VmHWM"))?;
    Ok(kilobytes << 10)
}

/// Measures in a new process.
pub(super) fn start(checker: Checker, model: Subject, workers: usize) -> Result<One> {
    let program = std::env::current_exe().map_err(|error| failed(checker, error))?;
    let name = match checker {
        Checker::Farslot => "farslot",
        _ => "stateright",
    };
    let mut command = Command::new(program);
    command.args(["explore-one", name]);
    command.args([model.to_string(), workers.to_string()]);
    let output = command.output().map_err(|error| failed(checker, error))?;
    if !output.status.success() {
        return Err(failed(checker, String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| failed(checker, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The models are written twice in Rust: they have the same states.
    #[test]
    fn both_libraries_count_the_same_states() {
        for model in [
            "philosophers:2",
            "philosophers:7",
            "peterson:2",
            "peterson:3",
            "2pc:1",
            "2pc:4",
        ] {
            let count = |checker| {
                let args = OneArgs {
                    checker,
                    model: model.parse().unwrap(),
                    workers: NonZeroUsize::MIN,
                };
                args.run().unwrap().states
            };
            assert_eq!(
                count(Checker::Farslot),
                count(Checker::Stateright),
                "{model}"
            );
        }
    }
}
