//! Spin: models are translated to C, compiled and run; what it prints is read.

use super::one::{Checker, One};
use super::{Subject, promela};
use crate::{LabError, Result};
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

/// The hash table has this many times as many slots as there are states, at least: 8 bytes each.
const LOG_SLOTS: u32 = 20;
/// Longest path of the depth-first search; a longer one would leave states out, which is noticed.
const DEPTH: &str = "-m20000000";

/// A model's verifiers, in a directory of their own.
pub(super) struct Compiled {
    directory: tempfile::TempDir,
}

const VARIANTS: [(Checker, &str, &[&str]); 3] = [
    (Checker::Spin, "pan-default", &[]),
    (Checker::SpinCollapse, "pan-collapse", &["-DCOLLAPSE"]),
    (Checker::SpinParallel, "pan-parallel", &["-DBFS_PAR"]),
];

impl Compiled {
    pub(super) fn new(model: Subject) -> Result<Self> {
        let directory = tempfile::tempdir().map_err(|error| failed("a directory", error))?;
        let at = directory.path();
        let wrote = std::fs::write(at.join("model.pml"), promela::text(model));
        wrote.map_err(|error| failed("model.pml", error))?;
        output(at, "spin", "spin", &["-a", "model.pml"])?;
        for (_, name, defines) in VARIANTS {
            let common = [
                "-O2",
                "-w",
                "-DSAFETY",
                "-DNOREDUCE",
                "-DMEMLIM=8192",
                "-o",
                name,
            ];
            let args = [&common[..], defines, &["pan.c", "-lpthread"]].concat();
            output(at, "a C compiler", "gcc", &args)?;
        }
        Ok(Self { directory })
    }

    /// Runs one of them. The first run says how many states there are; the second has a table for them.
    pub(super) fn run(&self, checker: Checker, workers: usize) -> Result<One> {
        let (_, name, _) = VARIANTS
            .into_iter()
            .find(|(of, ..)| *of == checker)
            .ok_or_else(|| failed("spin", "no such variant"))?;
        let first = self.run_with(name, checker, workers, LOG_SLOTS)?;
        let slots = first.states.max(2).next_power_of_two().ilog2();
        if slots <= LOG_SLOTS {
            return Ok(first);
        }
        self.run_with(name, checker, workers, slots)
    }

    fn run_with(&self, name: &str, checker: Checker, workers: usize, slots: u32) -> Result<One> {
        let at = self.directory.path();
        let program = at.join(name);
        let program = program.to_string_lossy();
        let (slots, of) = (format!("-w{slots}"), format!("-u{workers}"));
        let mut args = vec![slots.as_str(), "-E"];
        args.push(if checker == Checker::SpinParallel {
            &of
        } else {
            DEPTH
        });
        let printed = output(at, "the verifier", &program, &args)?;
        read(&printed, checker)
    }
}

/// What a verifier has printed.
fn read(printed: &str, checker: Checker) -> Result<One> {
    let missing = |what: &str| failed("pan", format!("it does not say {what}:\n{printed}"));
    if printed.contains("max search depth too small") || printed.contains("out of memory") {
        return Err(failed("pan", format!("it has left out states:\n{printed}")));
    }
    let number = |what: &str| {
        let line = printed.lines().find(|line| line.contains(what))?;
        let number = line
            .split_whitespace()
            .find_map(|word| word.parse::<f64>().ok());
        number
    };
    let states = number("states, stored").ok_or_else(|| missing("its states"))? as u64;
    let seconds = number("elapsed time").ok_or_else(|| missing("its time"))?;
    let megabytes = |what: &str| number(what).map(|megabytes| (megabytes * 1048576.0) as u64);
    let resident_bytes = if checker == Checker::SpinParallel {
        let shared = megabytes("total shared memory usage");
        let own = megabytes("total non-shared memory usage");
        shared.zip(own).map(|(shared, own)| shared + own)
    } else {
        let all = megabytes("total actual memory usage");
        let stack = megabytes("memory used for DFS stack").unwrap_or(0);
        all.map(|all| all.saturating_sub(stack))
    };
    let table = megabytes("memory used for hash table");
    // Without compression it says only what equals what it has used.
    let stored = megabytes("actual memory usage for states")
        .or_else(|| megabytes("equivalent memory usage for states"));
    Ok(One {
        states,
        seconds,
        set_bytes: table.zip(stored).map(|(table, stored)| table + stored),
        resident_bytes: resident_bytes.ok_or_else(|| missing("its memory"))?,
    })
}

fn failed(what: &str, reason: impl std::fmt::Display) -> LabError {
    LabError::Checker {
        checker: format!("spin ({what})"),
        reason: reason.to_string(),
    }
}

/// What a program prints, which must succeed.
fn output(at: &Path, what: &'static str, program: &str, args: &[&str]) -> Result<String> {
    let output = Command::new(program).args(args).current_dir(at).output();
    let output = output.map_err(|error| match (error.kind(), program) {
        (ErrorKind::NotFound, "spin") => LabError::NotInstalled {
            peer: "Spin",
            program: "spin",
        },
        (ErrorKind::NotFound, "gcc") => LabError::NotInstalled {
            peer: "a C compiler",
            program: "gcc",
        },
        _ => failed(what, error),
    })?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(printed);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(failed(what, format!("{}\n{printed}{said}", output.status)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPTH_FIRST: &str = "
State-vector 28 byte, depth reached 207242, errors: 0
   228486 states, stored
  2067857 transitions (= stored+matched)

Stats on memory usage (in Megabytes):
   10.459	equivalent memory usage for states (stored*(State-vector + overhead))
    9.717	actual memory usage for states (compression: 92.90%)
    2.000	memory used for hash table (-w18)
  457.764	memory used for DFS stack (-m10000000)
  481.248	total actual memory usage

pan: elapsed time 1.61 seconds
";

    #[test]
    fn what_it_prints_is_read() {
        let one = read(DEPTH_FIRST, Checker::Spin).unwrap();
        assert_eq!((one.states, one.seconds), (228_486, 1.61));
        let set = one.set_bytes.unwrap() as f64 / 1048576.0;
        assert!((set - 11.717).abs() < 1e-3, "{set}");
        let resident = one.resident_bytes as f64 / 1048576.0;
        assert!((resident - 23.484).abs() < 1e-3, "{resident}");
        let cut = format!("error: max search depth too small\n{DEPTH_FIRST}");
        assert!(read(&cut, Checker::Spin).is_err());
        assert!(read("", Checker::Spin).is_err());
    }
}
