//! Spin: a verifier that it makes of a Promela text, and gcc a program of that.

use super::model::CommonModel;
use super::outcome::OneExplored;
use super::system::ExplorationTool;
use crate::ycsb::find_program;
use crate::{LabError, Result};
use farslot_bench::process::memory_of;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// The longest path of a depth-first search. Its memory is used only as far as paths go.
const DEPTH: u64 = 20_000_000;
/// Between two looks at a verifier's memory.
const LOOK: Duration = Duration::from_millis(1);

/// Spin and gcc, as they are installed, and the verifiers made so far.
pub(super) struct SpinVerifiers {
    spin: PathBuf,
    gcc: PathBuf,
    pub version: String,
    directory: TempDir,
    /// By system, model and number of workers.
    verifiers: RefCell<HashMap<String, PathBuf>>,
}

impl SpinVerifiers {
    pub(super) fn find() -> Result<Self> {
        let find = |program| {
            find_program(program).ok_or(LabError::NotInstalled {
                peer: "spin",
                program,
            })
        };
        let (spin, gcc) = (find("spin")?, find("gcc")?);
        let failed = |error: std::io::Error| LabError::Explorer {
            system: "spin",
            model: "no model".into(),
            reason: error.to_string(),
        };
        let version = Command::new(&spin).arg("-V").output().map_err(failed)?;
        // Spin Version 6.5.2 -- 6 December 2019
        let version = String::from_utf8_lossy(&version.stdout).into_owned();
        let version = version.split_whitespace().nth(2).unwrap_or_default();
        Ok(Self {
            spin,
            gcc,
            version: version.into(),
            directory: tempfile::tempdir().map_err(failed)?,
            verifiers: RefCell::default(),
        })
    }

    /// Explores a model whose number of states is known, by which the hash table is sized.
    pub(super) fn explore(
        &self,
        system: ExplorationTool,
        model: CommonModel,
        workers: usize,
        states: u64,
    ) -> Result<OneExplored> {
        let failed = |reason: String| system.failure(model, reason);
        let verifier = self.verifier(system, model, workers)?;
        let slots = states.next_power_of_two().ilog2().max(10);
        let mut command = Command::new(&verifier);
        // Deadlocks are no errors here: philosophers have one.
        command.arg("-E").arg(format!("-w{slots}"));
        match system {
            ExplorationTool::SpinBfs => command.arg(format!("-u{workers}")),
            _ => command.arg(format!("-m{DEPTH}")),
        };
        command.current_dir(verifier.parent().unwrap_or(Path::new("/")));
        let (output, peak) = watched(command).map_err(|error| failed(error.to_string()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let told = told(&text).ok_or_else(|| failed(format!("its verifier says: {text}")))?;
        let several = workers > 1 || system == ExplorationTool::SpinBfs;
        Ok(OneExplored {
            peak_bytes: peak.filter(|_| !several),
            ..told
        })
    }

    /// The verifier, which is made if it was not before.
    fn verifier(
        &self,
        system: ExplorationTool,
        model: CommonModel,
        workers: usize,
    ) -> Result<PathBuf> {
        let failed = |reason: String| system.failure(model, reason);
        let name = format!("{system}-{model}-{workers}").replace(':', "-");
        if let Some(made) = self.verifiers.borrow().get(&name) {
            return Ok(made.clone());
        }
        let directory = self.directory.path().join(&name);
        let write = || {
            fs::create_dir(&directory)?;
            fs::write(directory.join("model.pml"), model.promela())
        };
        write().map_err(|error| failed(error.to_string()))?;
        let size = format!("-DN={}", model.size);
        self.made(&self.spin, &directory, &[&size, "-a", "model.pml"])
            .map_err(failed)?;
        let mut options = vec!["-O2", "-DSAFETY", "-DNOREDUCE", "-DMEMLIM=16000"];
        let cores = format!("-DNCORE={workers}");
        match system {
            ExplorationTool::SpinBfs => options.extend(["-DBFS_PAR", "-DNO_HC"]),
            _ if workers > 1 => options.push(&cores),
            _ => {}
        }
        if system == ExplorationTool::SpinCollapse {
            options.push("-DCOLLAPSE");
        }
        options.extend(["-w", "-o", "pan", "pan.c"]);
        self.made(&self.gcc, &directory, &options).map_err(failed)?;
        let verifier = directory.join("pan");
        self.verifiers.borrow_mut().insert(name, verifier.clone());
        Ok(verifier)
    }

    fn made(
        &self,
        program: &Path,
        directory: &Path,
        args: &[&str],
    ) -> std::result::Result<(), String> {
        let mut command = Command::new(program);
        command.args(args).current_dir(directory);
        let output = command.output().map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(());
        }
        let said = [&output.stdout[..], &output.stderr].concat();
        Err(format!(
            "{}: {}",
            program.display(),
            String::from_utf8_lossy(&said)
        ))
    }
}

/// Runs a program, and looks again and again how much memory it had at most.
fn watched(mut command: Command) -> std::io::Result<(Output, Option<u64>)> {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let process = child.id();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| child.wait_with_output());
        let mut peak = None;
        while !waiting.is_finished() {
            peak = peak.max(memory_of(process, "VmHWM:"));
            thread::sleep(LOOK);
        }
        let output = waiting.join();
        let output = output.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((output?, peak))
    })
}

/// What a verifier tells of a search that was complete and without errors.
fn told(text: &str) -> Option<OneExplored> {
    let lines = || text.lines().map(str::trim);
    let before = |label: &str| {
        let line = lines().find(|line| line.contains(label))?;
        line.split(label)
            .next()?
            .split_whitespace()
            .last()?
            .parse::<f64>()
            .ok()
    };
    let is_whole = text.contains("errors: 0") && !text.contains("Search not completed");
    let states = before(" states, stored")?;
    let seconds = lines().filter_map(|line| line.split_once("elapsed time "));
    let seconds =
        seconds.filter_map(|(_, rest)| rest.split_whitespace().next()?.parse::<f64>().ok());
    let megabytes = before("actual memory usage for states").unwrap_or(0.0)
        + before("memory used for hash table")
            .or_else(|| before("shared memory used for hash table"))?;
    is_whole.then(|| OneExplored {
        states: states as u64,
        // It counts hundredths of a second.
        seconds: seconds.fold(0.005, f64::max),
        set_bytes: Some((megabytes * f64::from(1 << 20)) as u64),
        peak_bytes: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLD: &str = "
State-vector 92 byte, depth reached 5853, errors: 0
     6726 states, stored
    36755 states, matched
    43481 transitions (= stored+matched)
Stats on memory usage (in Megabytes):
    0.718\tequivalent memory usage for states (stored*(State-vector + overhead))
    0.500\tactual memory usage for states (compression: 66.66%)
         \tstate-vector as stored = 55 byte + 20 byte overhead
    2.000\tmemory used for hash table (-w18)
pan: elapsed time 0.07 seconds
";

    #[test]
    fn what_a_verifier_tells_is_read() {
        let read = told(TOLD).unwrap();
        assert_eq!((read.states, read.seconds), (6726, 0.07));
        assert_eq!(read.set_bytes, Some(5 << 19));
        // Not the whole search, or none.
        assert_eq!(told(&TOLD.replace("errors: 0", "errors: 1")), None);
        assert_eq!(
            told(&format!("Warning: Search not completed\n{TOLD}")),
            None
        );
        assert_eq!(told(""), None);
    }
}
