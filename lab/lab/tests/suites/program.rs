//! Runs the laboratory's program.

use serde_json::Value;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

/// The program with these arguments, and no address from the environment.
pub fn lab(args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_farslot-lab"));
    command.args(args);
    for variable in [
        "FARSLOT_ADDRESS",
        "FARSLOT_GRANT",
        "FARSLOT_LOG",
        "FARSLOT_SECRET",
    ] {
        command.env_remove(variable);
    }
    command
}

/// A process that serves memory, killed at the end of the test.
pub struct Node {
    process: Child,
    pub address: String,
}

impl Node {
    pub fn start(address: &str, memory: &str) -> Self {
        let mut process = lab([
            "serve",
            address,
            "--memory",
            memory,
            "--while-stdin",
            "--json",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
        let mut ready = String::new();
        let mut lines = BufReader::new(process.stdout.take().unwrap());
        lines.read_line(&mut ready).unwrap();
        let ready: Value = serde_json::from_str(&ready).unwrap();
        let address = ready["address"].as_str().unwrap().to_owned();
        Self { process, address }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What a command wrote to standard error.
pub fn error_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The one JSON object that a command wrote.
pub fn one_object(output: &Output) -> Value {
    let value: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stdout)));
    assert!(value.is_object());
    value
}

/// Asserts a failure with this exit code, whose message has all these parts, and no panic.
pub fn assert_fails(output: &Output, code: i32, parts: &[&str]) {
    let error = error_of(output);
    assert_eq!(output.status.code(), Some(code), "{error}");
    assert!(!error.contains("panicked"), "{error}");
    for part in parts {
        assert!(error.contains(part), "{part:?} is not in: {error}");
    }
}
