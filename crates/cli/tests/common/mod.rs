//! Runs the real program.
#![allow(dead_code, reason = "no test file uses all of it")]

use serde_json::Value;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The program with these arguments, and no address from the environment.
pub fn farslot(args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_farslot"));
    command.args(args);
    for variable in [
        "FARSLOT_ADDRESS",
        "FARSLOT_GRANT",
        "FARSLOT_LOG",
        "FARSLOT_MEMORY",
        "FARSLOT_SECRET",
        "FARSLOT_SECRET_FILE",
        "FARSLOT_TLS_CA",
        "FARSLOT_TLS_CERT",
        "FARSLOT_TLS_KEY",
        "FARSLOT_TLS_PIN",
    ] {
        command.env_remove(variable);
    }
    command
}

/// An address that no other test uses.
pub fn fresh_address() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("shm://cli-test-{}-{number}", std::process::id())
}

/// An address over TCP at any port that is free.
pub const ANY_PORT: &str = "tcp://127.0.0.1:0";

/// What changes by itself has done so long before this.
const DEADLINE: Duration = Duration::from_secs(30);

/// Waits until something is so.
pub fn wait_until(mut is_so: impl FnMut() -> bool, otherwise: impl FnOnce() -> String) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < DEADLINE, "{}", otherwise());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until a log says something so many times.
pub fn wait_for(log: &Path, times: usize, said: &str) {
    let text = || std::fs::read_to_string(log).unwrap();
    wait_until(
        || text().matches(said).count() >= times,
        || format!("{said:?} is not in {}", text()),
    );
}

/// A process that serves, for as long as its input is open, and the line by which it says that it
/// is ready.
pub fn start_serving(mut command: Command) -> (Child, String) {
    let mut process = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    let mut lines = BufReader::new(process.stdout.take().unwrap());
    lines.read_line(&mut ready).unwrap();
    (process, ready)
}

/// A process that serves memory, killed at the end of the test.
pub struct Node {
    pub process: Child,
    pub address: String,
}

impl Node {
    pub fn start() -> Self {
        Self::start_at(&fresh_address(), "256MiB")
    }

    /// One over shared memory and one over TCP.
    pub fn of_each_fabric() -> [Self; 2] {
        [Self::start(), Self::start_at(ANY_PORT, "256MiB")]
    }

    pub fn start_at(address: &str, memory: &str) -> Self {
        Self::start_command(farslot([
            "serve",
            address,
            "--memory",
            memory,
            "--while-stdin",
        ]))
    }

    /// One of a command to serve.
    pub fn start_command(command: Command) -> Self {
        let (process, ready) = start_serving(command);
        // "serving 256 MiB at ADDRESS (process ..."
        let address = ready.split(' ').find(|word| word.contains("://"));
        let address = address.unwrap_or_else(|| panic!("{ready}")).to_owned();
        Self { process, address }
    }

    /// Has the node end, and waits until it has.
    pub fn end(&mut self) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").arg(&pid).status().unwrap().success());
        assert!(self.process.wait().unwrap().success());
    }

    /// Has the node read its files again.
    pub fn hang_up(&self) {
        let pid = self.process.id().to_string();
        let sent = Command::new("kill").args(["-HUP", &pid]).status().unwrap();
        assert!(sent.success());
    }

    /// A command on this node's memory.
    pub fn command(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = farslot(args);
        command.env("FARSLOT_ADDRESS", &self.address);
        command
    }

    /// Runs a command on this node's memory.
    pub fn run(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs a command that must succeed; returns what it wrote.
    pub fn ok(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Vec<u8> {
        let output = self.run(args);
        assert!(output.status.success(), "{}", error_of(&output));
        output.stdout
    }

    /// Runs a command with `--json` that must succeed; returns the object.
    pub fn json(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Value {
        let output = self.command(args).arg("--json").output().unwrap();
        assert!(output.status.success(), "{}", error_of(&output));
        one_object(&output)
    }

    /// Starts a command whose standard input and outputs are pipes.
    pub fn spawn(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Child {
        self.command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Runs a command with this on its standard input.
    pub fn feed(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>, input: &[u8]) -> Output {
        let mut child = self.spawn(args);
        let mut stdin = child.stdin.take().unwrap();
        std::thread::scope(|scope| {
            // A command that fails early does not read all of it.
            scope.spawn(move || {
                let _ = stdin.write_all(input);
            });
            child.wait_with_output().unwrap()
        })
    }

    /// The lines of a table's dump, sorted.
    pub fn sorted_dump(&self, table: &str) -> Vec<String> {
        let dump = String::from_utf8(self.ok(["dump", table])).unwrap();
        let mut lines: Vec<_> = dump.lines().map(Into::into).collect();
        lines.sort();
        lines
    }

    pub fn count(&self, table: &str) -> u64 {
        self.json(["count", table])["count"].as_u64().unwrap()
    }

    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Lines of CSV: the records of these numbers.
pub fn lines(numbers: std::ops::Range<u32>) -> String {
    numbers
        .map(|number| format!("key-{number},value of {number}\n"))
        .collect()
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
