//! Processes that are killed in the middle of their transactions, over TCP and over shared memory,
//! and nodes and clients that are suspended for longer than a lease: no lock outlasts its lease, no
//! transaction is half done, and the history is strictly serializable.
//!
//! This program is all of it: nodes, clients, and what kills and suspends them. `-- --ignored` runs
//! the long form.

mod client;
mod layout;
mod log;
mod node;

use farslot_check::serial::check_serial;
use log::Log;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Client processes at a time.
const CLIENTS: u64 = 4;
const NAME: &str = "clients_that_are_killed_leave_no_trace";

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match *words {
        ["node", number, fabric] => {
            return node::run(number.parse().expect("a node's number"), fabric);
        }
        ["client", number, ref addresses @ ..] => {
            let addresses: Vec<String> =
                addresses.iter().map(|address| (*address).into()).collect();
            return client::run(number.parse().expect("a client's number"), &addresses);
        }
        _ => {}
    }
    if words.contains(&"--list") {
        println!("{NAME}: test");
        return;
    }
    let mut filters = words
        .iter()
        .filter(|word| !word.starts_with('-'))
        .peekable();
    if filters.peek().is_some() && !filters.any(|filter| NAME.contains(filter)) {
        return;
    }
    let long = words.contains(&"--ignored");
    // What is drawn derives from this; what the processes do side by side does not.
    let seed = std::env::var("FARSLOT_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(1);
    let runs = match long {
        true => [
            ("tcp", 1, 60),
            ("tcp", 3, 160),
            ("shm", 1, 120),
            ("shm", 3, 120),
        ],
        false => [("tcp", 1, 6), ("tcp", 3, 10), ("shm", 1, 6), ("shm", 3, 6)],
    };
    for (fabric, nodes, kills) in runs {
        println!("test {NAME}: FARSLOT_SEED={seed}, {nodes} {fabric} nodes, {kills} kills ...");
        kill(seed, fabric, nodes, kills);
    }
    println!("test {NAME} ... ok");
}

/// This program in another role, which ends with this.
struct Process(Child);

impl Process {
    fn start(args: &[String]) -> (Self, BufReader<ChildStdout>) {
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new(program);
        command
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("a process");
        let output = child.stdout.take().expect("its output");
        (Self(child), BufReader::new(output))
    }

    /// Suspends it (SIGSTOP) for a while.
    fn suspend(&self, span: Duration) {
        let signal = |signal| {
            let process = Pid::from_child(&self.0);
            kill_process(process, signal).expect("a signal");
        };
        signal(Signal::STOP);
        thread::sleep(span);
        signal(Signal::CONT);
    }

    /// Kills it (SIGKILL); returns whether it ran until then.
    fn kill(&mut self) -> bool {
        let ran = self.0.try_wait().expect("its state").is_none();
        self.0.kill().expect("a signal");
        self.0.wait().expect("its end");
        ran
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A client, and the thread that keeps what it says.
struct Client {
    process: Process,
    said: JoinHandle<Vec<u8>>,
}

impl Client {
    fn start(number: u64, addresses: &[String]) -> Self {
        let args = [&["client".into(), number.to_string()][..], addresses].concat();
        let (process, mut output) = Process::start(&args);
        let said = thread::spawn(move || {
            let mut said = Vec::new();
            output.read_to_end(&mut said).expect("a pipe");
            said
        });
        Self { process, said }
    }

    fn kill(mut self) -> Vec<u8> {
        assert!(self.process.kill(), "a client ended before it was killed");
        self.said.join().expect("its reader")
    }
}

fn kill(seed: u64, fabric: &str, nodes: u8, kills: u64) {
    let started = (0..nodes)
        .map(|number| Process::start(&["node".into(), number.to_string(), fabric.into()]));
    let mut started: Vec<_> = started.collect();
    let addresses = started.iter_mut().map(|(_, output)| {
        let mut address = String::new();
        output.read_line(&mut address).expect("an address");
        address.trim().to_owned()
    });
    let addresses: Vec<String> = addresses.collect();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut clients: Vec<Client> = (0..CLIENTS)
        .map(|number| Client::start(number, &addresses))
        .collect();
    let mut log = Log::default();
    for number in 0..kills {
        thread::sleep(Duration::from_micros(random.random_range(20_000..120_000)));
        let processes = started.iter().map(|(node, _)| node);
        let processes = processes.chain(clients.iter().map(|client| &client.process));
        let processes: Vec<_> = processes.collect();
        let suspended = processes[random.random_range(0..processes.len())];
        suspended.suspend(layout::LEASE.mul_f64(random.random_range(0.5..2.5)));
        let killed = clients.swap_remove(random.random_range(0..clients.len()));
        log.add(&killed.kill());
        clients.push(Client::start(CLIENTS + number, &addresses));
    }
    // The last ones are killed as well, all at one time.
    for client in clients {
        log.add(&client.kill());
    }
    thread::sleep(2 * layout::LEASE);
    client::read_all(&addresses, &mut log);
    let (history, unknown) = log.history();
    let summary = match check_serial(&history) {
        Ok(summary) => summary,
        Err(anomaly) => panic!("seed {seed}, {nodes} {fabric} nodes: {anomaly}"),
    };
    println!(
        "  {} transactions committed, {} ended unknown, {} dependencies",
        summary.committed, unknown, summary.dependencies
    );
    assert!(summary.committed as u64 > kills, "{summary:?}");
    assert!(
        unknown > 0,
        "no client was killed in the middle of a commit"
    );
}
