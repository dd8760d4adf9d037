//! All that hostile clients can do, at once and for a while: what an agent's memory comes to, and
//! how long a good client waits. It takes minutes and most of a machine: only `scripts/test --all`
//! runs it.

use crate::attacked::{LEN, asking, serve};
use crate::raw::{RawClient, bytes_of, frame};
use crate::served::Served;
use farslot_fabric::tcp::{ServeOptions, TcpEndpoint, wire};
use farslot_fabric::*;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const SERVES: &str = "FARSLOT_TEST_BESIEGED";
const STRANGERS: usize = 4_000;
const HOSTILE: usize = 500;
const DEAF: usize = 300;
const ROUND_TRIPS: usize = 2_000;

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
fn memory_of(agent: &Served) -> [u64; 2] {
    let status = format!("/proc/{}/status", agent.process.id());
    let status = std::fs::read_to_string(status).unwrap();
    ["RssAnon:", "VmHWM:"].map(|name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
        kilobytes.map(|kilobytes: u64| kilobytes << 10).unwrap()
    })
}

/// How long round trips took, sorted.
fn round_trips(client: &Executor<TcpEndpoint>) -> Vec<Duration> {
    let at = RemoteAddr {
        node: NodeId(0),
        region: RegionId(0),
        offset: LEN - 8,
    };
    let mut all: Vec<_> = (0..ROUND_TRIPS)
        .map(|_| {
            let since = Instant::now();
            let added = client.block_on(client.endpoint().fetch_add(at, 1));
            assert!(added.is_ok(), "{added:?}");
            since.elapsed()
        })
        .collect();
    all.sort_unstable();
    all
}

fn say(what: &str, all: &[Duration]) {
    let at = |part: usize| all[all.len() * part / 1000];
    let (median, p99, longest) = (at(500), at(990), all[all.len() - 1]);
    println!("{what}: median {median:?}, p99 {p99:?}, longest {longest:?}");
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

/// Has all of them say what they have to say, and throw away what they hear, until it is over.
fn besiege(clients: Vec<RawClient>, done: &AtomicBool) {
    let mut all: Vec<_> = (0..)
        .zip(clients)
        .map(|(which, client)| {
            let said = attack_of(which, &client);
            client.tcp().set_nonblocking(true).unwrap();
            (client, said, 0)
        })
        .collect();
    let mut sink = vec![0; 1 << 20];
    while !done.load(Ordering::Acquire) {
        for (which, (client, said, at)) in all.iter_mut().enumerate() {
            let mut stream = client.tcp();
            if let Ok(sent) = stream.write(&said[*at..]) {
                *at += sent;
            }
            // Who claims stays with its claim.
            if *at == said.len() && which % 4 != 0 {
                *at = 0;
            }
            let _ = stream.read(&mut sink);
        }
    }
}

#[test]
#[ignore = "takes a minute and most of a machine"]
fn four_thousand_strangers_and_eight_hundred_hostile_clients_leave_the_agent_its_bounds() {
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
    let quiet = round_trips(&good);
    let [before, _] = memory_of(&agent);

    let connect = |grant: &str| {
        RawClient(tcp::admission::connect(&address, &asking(grant)).expect("a place"))
    };
    let hostile: Vec<_> = (0..HOSTILE).map(|_| connect("hostile")).collect();
    let mut deaf: Vec<_> = (0..DEAF).map(|_| connect("reader")).collect();
    for client in &mut deaf {
        let mut verbs = Vec::new();
        let span = client.span(0, 0, 1 << 20);
        (0..100).for_each(|_| wire::put_read(&mut verbs, span));
        client.send(&frame(100, &verbs));
    }
    let done = AtomicBool::new(false);
    let (besieged, most) = std::thread::scope(|scope| {
        scope.spawn(|| besiege(hostile, &done));
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                let strangers: Vec<_> = (0..STRANGERS)
                    .filter_map(|_| {
                        let mut stream = TcpStream::connect(&agent.address).ok()?;
                        let _ = stream.write_all(&[1, 2, 3]);
                        (!done.load(Ordering::Acquire)).then_some(stream)
                    })
                    .collect();
                std::thread::sleep(Duration::from_secs(1));
                drop(strangers);
            }
        });
        // They have begun, all of them.
        std::thread::sleep(Duration::from_secs(5));
        let besieged = round_trips(&good);
        let mut most = 0;
        for _ in 0..100 {
            most = memory_of(&agent)[0].max(most);
            std::thread::sleep(Duration::from_millis(50));
        }
        done.store(true, Ordering::Release);
        (besieged, most)
    });
    say("quiet", &quiet);
    say("besieged", &besieged);
    let counters = agent.counters();
    println!("{counters}");
    let [_, high] = memory_of(&agent);
    println!("memory: {before} bytes before, {most} then; the most of any kind {high}");
    let connections = (HOSTILE + DEAF + 1024 + 64) as u64;
    // As docs/security.md has it; the region's pages are no part of it.
    let bound = (128 << 20) + connections * (28 << 10) + (256 << 10) + 2 * (4 << 20);
    assert!(most - before < bound, "{most} bytes, {bound} allowed");
    assert!(high < before + LEN + bound + (16 << 20), "{high} bytes");
    assert!(counters.contains("turned_away"));
}
