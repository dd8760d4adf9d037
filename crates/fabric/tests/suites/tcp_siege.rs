//! All that hostile clients can do, at once and for a while: what an agent's memory comes to, and
//! how long a good client waits. It takes a minute and most of a machine, so `scripts/test` does
//! not run it.
//!
//! Attackers that are cut off come again at once, so that there are always as many. The admitted
//! ones run when nothing else wants to (Linux's `SCHED_IDLE`), the unauthenticated clients at the
//! lowest priority: elsewhere they would be on machines of their own, and would not take turns with
//! the agent and the good client on two processors.

use crate::attacked::{LEN, asking, serve};
use crate::raw::{RawClient, bytes_of, frame};
use crate::served::Served;
use farslot_fabric::tcp::{ServeOptions, TcpEndpoint, wire};
use farslot_fabric::*;
use rustix::process::{Resource, Rlimit, getrlimit, nice, setrlimit};
use rustix::thread::gettid;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const SERVES: &str = "FARSLOT_TEST_BESIEGED";
const UNAUTHENTICATED: usize = 4_000;
const HOSTILE: usize = 500;
const DEAF: usize = 300;
/// The most that an attacker moves at once: a processor that is at a system call of an attacker's
/// cannot run the good client before its end.
const AT_ONCE: usize = 16 << 10;
/// How long the good client is measured, alone and besieged.
const MEASURED: Duration = Duration::from_secs(10);

/// Not a test of its own: what the serving process does. It tells what it has counted whenever it
/// is asked.
#[test]
fn agent_process() {
    if std::env::var(SERVES).is_err() {
        return;
    }
    let agent = serve(ServeOptions::default());
    println!("serving {}", agent.address());
    for _ in std::io::stdin().lines() {
        println!("counters {:?}", agent.counters());
    }
}

/// Resident bytes of its own: now, and the most there ever were of any kind.
fn memory_of(process: u32) -> [u64; 2] {
    let status = format!("/proc/{process}/status");
    let status = std::fs::read_to_string(status).unwrap();
    ["RssAnon:", "VmHWM:"].map(|name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
        kilobytes.map(|kilobytes: u64| kilobytes << 10).unwrap()
    })
}

/// How long round trips took that began within so long, sorted.
fn round_trips(client: &Executor<TcpEndpoint>, lasts: Duration) -> Vec<Duration> {
    let at = RemoteAddr {
        node: NodeId(0),
        region: RegionId(0),
        offset: LEN - 8,
    };
    let mut all = Vec::new();
    let until = Instant::now() + lasts;
    while Instant::now() < until {
        let since = Instant::now();
        let added = client.block_on(client.endpoint().fetch_add(at, 1));
        assert!(added.is_ok(), "{added:?}");
        all.push(since.elapsed());
    }
    all.sort_unstable();
    all
}

fn say(label: &str, all: &[Duration]) {
    let at = |part: usize| all[all.len() * part / 1000];
    let (median, p99, longest) = (at(500), at(990), all[all.len() - 1]);
    let number = all.len();
    println!("{label}: {number} round trips: median {median:?}, p99 {p99:?}, longest {longest:?}");
}

/// What a hostile client says, over and over.
fn attack_of(which: usize, client: &RawClient) -> Vec<u8> {
    let mut verbs = Vec::new();
    let large = client.span(0, 0, 4 << 20);
    let payload = vec![9u64; 1 << 19];
    let words = match which % 4 {
        // Claims more than it sends, ever.
        0 => {
            wire::put_call(&mut verbs, client.span(0, 64, 4 << 20), &payload);
            let mut claim = frame(1, &verbs);
            claim.truncate(1 << 16);
            claim
        }
        // Asks for what it may not have.
        1 => {
            let at = client.span(0, 1 << 40, 8);
            (0..20_000).for_each(|_| wire::put_read(&mut verbs, at));
            frame(20_000, &verbs)
        }
        // Reads all it can.
        2 => {
            (0..64).for_each(|_| wire::put_read(&mut verbs, large));
            frame(64, &verbs)
        }
        _ => {
            wire::put_write(&mut verbs, large, &payload);
            frame(1, &verbs)
        }
    };
    bytes_of(&words)
}

/// A client that does harm: what it has to say, and how much of it is said.
struct Attacker {
    client: RawClient,
    said: Vec<u8>,
    at: usize,
}

impl Attacker {
    fn new(which: usize, client: RawClient) -> Self {
        let said = match which {
            0..HOSTILE => attack_of(which, &client),
            // It asks for much, and takes nothing.
            _ => {
                let mut verbs = Vec::new();
                let span = client.span(0, 0, 1 << 20);
                (0..100).for_each(|_| wire::put_read(&mut verbs, span));
                bytes_of(&frame(100, &verbs))
            }
        };
        client.tcp().set_nonblocking(true).unwrap();
        Self {
            client,
            said,
            at: 0,
        }
    }

    /// Says some more, and throws away what it hears; false if it was cut off.
    fn go_on(&mut self, which: usize, sink: &mut [u8]) -> bool {
        let lives = |moved: &std::io::Result<usize>| match moved {
            Ok(bytes) => *bytes > 0,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        };
        let mut stream = self.client.tcp();
        let left = &self.said[self.at..];
        if !left.is_empty() {
            let sent = stream.write(&left[..left.len().min(AT_ONCE)]);
            if !lives(&sent) {
                return false;
            }
            self.at += sent.unwrap_or(0);
        }
        // Whoever claims stays with its claim, and so does who takes nothing.
        if self.at == self.said.len() && which < HOSTILE && !which.is_multiple_of(4) {
            self.at = 0;
        }
        which >= HOSTILE || lives(&stream.read(sink))
    }
}

fn admitted(address: &str, which: usize) -> Option<Attacker> {
    let grant = if which < HOSTILE { "hostile" } else { "reader" };
    let admitted = tcp::admission::connect(address, &asking(grant)).ok()?;
    Some(Attacker::new(which, RawClient(admitted)))
}

/// Has this thread run when no other wants to. The least nice would not do: it waits its turn on a
/// processor, but then keeps it for milliseconds.
fn run_when_idle() {
    let thread = gettid().as_raw_nonzero().to_string();
    let told = Command::new("chrt")
        .args(["--idle", "--pid", "0", &thread])
        .status();
    assert!(told.expect("chrt, of util-linux").success());
}

/// Has all of them attack until it is over; one that was cut off comes again. Returns how many did.
fn besiege(address: &str, mut all: Vec<Attacker>, done: &AtomicBool) -> usize {
    run_when_idle();
    let mut sink = vec![0; AT_ONCE];
    let mut again = 0;
    while !done.load(Ordering::Acquire) {
        for (which, attacker) in all.iter_mut().enumerate() {
            if done.load(Ordering::Acquire) {
                break;
            }
            if !attacker.go_on(which, &mut sink)
                && let Some(another) = admitted(address, which)
            {
                *attacker = another;
                again += 1;
            }
        }
    }
    again
}

/// Has unauthenticated clients come, so many at a time, until it is over: the agent lets the oldest
/// of them go, and another comes for each. Counts how many came.
fn flock(address: &str, came: &AtomicUsize, done: &AtomicBool) {
    // Of this thread alone, on Linux.
    nice(19).unwrap();
    let mut unauthenticated = VecDeque::new();
    while !done.load(Ordering::Acquire) {
        if let Ok(mut stream) = TcpStream::connect(address) {
            let _ = stream.write_all(&[1, 2, 3]);
            unauthenticated.push_back(stream);
            came.fetch_add(1, Ordering::Release);
        }
        if unauthenticated.len() > UNAUTHENTICATED {
            unauthenticated.pop_front();
        }
        // Four thousand within two seconds, and then so many in each.
        std::thread::sleep(Duration::from_micros(500));
    }
}

#[test]
#[ignore = "takes a minute and most of a machine"]
fn four_thousand_unauthenticated_and_eight_hundred_hostile_clients_leave_the_agent_its_bounds() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, raised).unwrap();
    let mut agent = Served::start("tcp_siege::agent_process", [(SERVES, "")]);
    let address = agent.address.clone();
    let good = TcpEndpoint::connect(&[&address], &asking("good")).unwrap();
    let good = Executor::new(Rc::new(good));
    let quiet = round_trips(&good, MEASURED);
    let id = agent.process.id();
    let [before, _] = memory_of(id);

    let attackers: Vec<_> = (0..HOSTILE + DEAF)
        .map(|which| admitted(&address, which).expect("a place"))
        .collect();
    let (done, came) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (besieged, most, again) = std::thread::scope(|scope| {
        let again = scope.spawn(|| besiege(&address, attackers, &done));
        let unauthenticated = scope.spawn(|| flock(&address, &came, &done));
        // They are there, all of them.
        while came.load(Ordering::Acquire) <= UNAUTHENTICATED {
            std::thread::sleep(Duration::from_millis(50));
        }
        let watching = scope.spawn(|| {
            let mut most = 0;
            while !done.load(Ordering::Acquire) {
                most = memory_of(id)[0].max(most);
                std::thread::sleep(Duration::from_millis(50));
            }
            most
        });
        let besieged = round_trips(&good, MEASURED);
        done.store(true, Ordering::Release);
        unauthenticated.join().unwrap();
        (besieged, watching.join().unwrap(), again.join().unwrap())
    });
    say("quiet", &quiet);
    say("besieged", &besieged);
    let counters = agent.counters();
    println!("{counters}");
    let [_, high] = memory_of(id);
    let came = came.into_inner();
    println!("{again} attackers were cut off and came again, {came} unauthenticated clients came");
    println!("memory: {before} bytes before, {most} then; the most of any kind {high}");
    let connections = (HOSTILE + DEAF + 1024 + 64) as u64;
    // As docs/security.md has it; the region's pages are no part of it.
    let bound = (128 << 20) + connections * (28 << 10) + (256 << 10) + 2 * (4 << 20);
    assert!(most - before < bound, "{most} bytes, {bound} allowed");
    assert!(high < before + LEN + bound + (16 << 20), "{high} bytes");
    assert!(counters.contains("turned_away"));
    assert!(again > 0, "nobody was cut off");
    let p99 = |all: &[Duration]| all[all.len() * 99 / 100];
    let times = p99(&besieged).as_secs_f64() / p99(&quiet).as_secs_f64();
    println!("its p99 is {times:.1} times that of a quiet agent");
}
