//! A process that serves, started by a test: this program again, running one test that serves when
//! it finds its name in the environment.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The process, and a way to ask it.
pub struct Served {
    pub process: Child,
    pub address: String,
    ask: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Served {
    /// Runs this test with these variables, until it says where it serves.
    pub fn start<'e>(
        test: &str,
        environment: impl IntoIterator<Item = (&'e str, &'e str)>,
    ) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .envs(environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let ask = process.stdin.take().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let address = told(&mut lines, "serving ");
        Self {
            process,
            address,
            ask,
            lines,
        }
    }

    /// What it counts, as it says when it is asked.
    pub fn counters(&mut self) -> String {
        writeln!(self.ask).unwrap();
        told(&mut self.lines, "counters ")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn told(lines: &mut Lines<BufReader<ChildStdout>>, prefix: &str) -> String {
    let told = lines.find_map(|line| Some(line.unwrap().split_once(prefix)?.1.to_owned()));
    told.expect("it tells")
}
