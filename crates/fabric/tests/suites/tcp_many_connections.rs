//! Many connections, and that nothing of them stays: neither with the process that serves them nor
//! with the one that makes them. A file of its own: its tests count the files, the threads and the
//! memory of processes.

use crate::alone::is_alone;
use crate::served::Served;
use farslot_fabric::shm::{Node, RegionSpec};
use farslot_fabric::tcp::admission::connect;
use farslot_fabric::tcp::{Agent, AgentOptions, ConnectOptions, TcpEndpoint, wire};
use farslot_fabric::*;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::SockRef;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::time::{Duration, Instant};

const SERVES: &str = "FARSLOT_TEST_SERVES";
const LEN: u64 = 1 << 20;
const HELD: usize = 1_000;
const DROPPED: usize = 10_000;
/// More than what allocators keep back, and far less than a few bytes for each connection of the
/// thousands that would stay with a buffer of its own.
const KEPT_BYTES: u64 = 8 << 20;

/// Not a test of its own: what the serving process does. It tells what it has seen whenever it is
/// asked.
#[test]
fn agent_process() {
    if std::env::var(SERVES).is_err() {
        return;
    }
    // As on most machines: few files, and leave to have more.
    let few = Rlimit {
        current: Some(256),
        ..getrlimit(Resource::Nofile)
    };
    setrlimit(Resource::Nofile, few).unwrap();
    let region = RegionSpec {
        len: LEN,
        rights: Rights::ALL,
    };
    let node = Node::embedded(&[region]).unwrap();
    let options = AgentOptions {
        threads: 2,
        ..AgentOptions::default()
    };
    let agent = Agent::start(node, &options).unwrap();
    println!("serving {}", agent.address());
    for _ in std::io::stdin().lines() {
        let seen = agent.counters();
        let (now, accepted, admitted) = (seen.connections, seen.accepted, seen.admitted);
        println!("counters {now} {accepted} {admitted}");
    }
}

/// The process that serves.
struct Serving(Served);

impl Serving {
    fn start() -> Self {
        let test = "tcp_many_connections::agent_process";
        Self(Served::start(test, [(SERVES, "")]))
    }

    fn address(&self) -> SocketAddr {
        self.0.address.parse().unwrap()
    }

    /// Connections now, ever accepted, and ever admitted.
    fn counters(&mut self) -> [usize; 3] {
        let told = self.0.counters();
        let counts: Vec<usize> = told
            .split(' ')
            .map(|count| count.parse().unwrap())
            .collect();
        counts.try_into().unwrap()
    }

    fn wait_for_connections(&mut self, expected: usize) {
        wait_for("connections", expected, || self.counters()[0]);
    }

    fn resources(&self) -> Resources {
        Resources::of(self.0.process.id())
    }
}

/// What a process has of the machine.
#[derive(Clone, Copy, Debug)]
struct Resources {
    files: usize,
    threads: usize,
    /// Resident, without what is mapped from files.
    bytes: u64,
}

impl Resources {
    fn of(process: u32) -> Self {
        let of = |directory| format!("/proc/{process}/{directory}");
        let count = |directory| std::fs::read_dir(of(directory)).unwrap().count();
        let status = std::fs::read_to_string(of("status")).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"));
        let kilobytes: u64 = line
            .and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok())
            .unwrap();
        Self {
            files: count("fd"),
            threads: count("task"),
            bytes: kilobytes << 10,
        }
    }

    fn of_this() -> Self {
        Self::of(std::process::id())
    }
}

/// Waits until a count is what it must come to: connections are taken and closed in their own time.
fn wait_for(condition: &str, expected: usize, mut count: impl FnMut() -> usize) {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let now = count();
        if now == expected {
            return;
        }
        assert!(Instant::now() < until, "{condition}: {now}, not {expected}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, raised).unwrap();
}

fn options() -> ConnectOptions {
    ConnectOptions {
        limits: Limits {
            verb_timeout: 30_000_000_000,
            ..Limits::default()
        },
        ..ConnectOptions::default()
    }
}

fn endpoint(address: SocketAddr) -> Executor<TcpEndpoint> {
    let endpoint = TcpEndpoint::connect(&[address.to_string()], &options()).unwrap();
    Executor::new(Rc::new(endpoint))
}

fn add(client: &Executor<TcpEndpoint>) -> Result<u64> {
    let at = RemoteAddr {
        node: NodeId(0),
        region: RegionId(0),
        offset: 0,
    };
    client.block_on(client.endpoint().fetch_add(at, 1))
}

/// Opens a connection, uses it in one of the ways there are, and drops it.
fn open_and_drop(number: usize, address: SocketAddr) {
    match number % 10 {
        // One that is admitted, and asks for answers that it does not take: they are under way when
        // it ends.
        0 => {
            let admitted = connect(&address.to_string(), &options()).unwrap();
            let read = wire::Span {
                region: 0,
                offset: 0,
                len: LEN as u32,
                key: admitted.welcome.keys[0],
            };
            let mut frame = vec![0];
            (0..4).for_each(|_| wire::put_read(&mut frame, read));
            frame[0] = wire::Header {
                kind: wire::FrameKind::Verbs,
                count: 4,
                words: frame.len() as u32,
            }
            .encode();
            let bytes: Vec<u8> = frame.iter().flat_map(|word| word.to_le_bytes()).collect();
            let mut stream = admitted.socket.tcp();
            stream.write_all(&bytes).unwrap();
        }
        // One that is admitted, and says no more.
        1 => drop(connect(&address.to_string(), &options()).unwrap()),
        // One that ends by a reset.
        2 => {
            let stream = TcpStream::connect(address).unwrap();
            let at_once = Some(Duration::ZERO);
            SockRef::from(&stream).set_linger(at_once).unwrap();
        }
        // Those that say a little, or nothing.
        _ => {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(&vec![0; number % 8]).unwrap();
        }
    }
}

#[test]
fn a_thousand_held_and_ten_thousand_dropped_leave_nothing_with_either_side() {
    if !is_alone(
        "tcp_many_connections::a_thousand_held_and_ten_thousand_dropped_leave_nothing_with_either_side",
    ) {
        return;
    }
    raise_file_limit();
    let mut serving = Serving::start();
    let address = serving.address();
    serving.wait_for_connections(0);
    let (served_before, before) = (serving.resources(), Resources::of_this());

    let held: Vec<_> = (0..HELD).map(|_| endpoint(address)).collect();
    serving.wait_for_connections(HELD);
    for (number, client) in held.iter().enumerate() {
        assert_eq!(add(client), Ok(number as u64));
    }
    let (served_held, with_held) = (serving.resources(), Resources::of_this());
    assert_eq!(served_held.files, served_before.files + HELD);
    assert_eq!(served_held.threads, served_before.threads);
    // One thread watches over all connections of the process.
    assert_eq!(with_held.threads, before.threads + 1);
    // Connections that rest have no buffers.
    let each = served_held.bytes.saturating_sub(served_before.bytes) / HELD as u64;
    assert!(each < 8 << 10, "{each} bytes for each connection held");

    let mut served_early = served_held;
    for number in 0..DROPPED {
        open_and_drop(number, address);
        if number == DROPPED / 10 {
            served_early = serving.resources();
        }
    }
    wait_for("accepted", HELD + DROPPED, || serving.counters()[1]);
    serving.wait_for_connections(HELD);
    let served_late = serving.resources();
    assert_eq!(served_late.files, served_held.files);
    assert_eq!(served_late.threads, served_held.threads);
    let grown = served_late.bytes.saturating_sub(served_early.bytes);
    assert!(grown < KEPT_BYTES, "{grown} bytes more");
    assert_eq!(serving.counters()[2], HELD + DROPPED / 5);

    // Those that were held all the while are served as before.
    for (number, client) in held.iter().enumerate() {
        assert_eq!(add(client), Ok((HELD + number) as u64));
    }
    drop(held);
    serving.wait_for_connections(0);
    let served_after = serving.resources();
    assert_eq!(served_after.files, served_before.files);
    assert_eq!(served_after.threads, served_before.threads);
    wait_for("files", before.files, || Resources::of_this().files);
    wait_for("threads", before.threads, || Resources::of_this().threads);
}

#[test]
fn endpoints_that_come_and_go_leave_nothing_with_their_process() {
    if !is_alone(
        "tcp_many_connections::endpoints_that_come_and_go_leave_nothing_with_their_process",
    ) {
        return;
    }
    let serving = Serving::start();
    let before = Resources::of_this();
    let mut early = before;
    for round in 0..2_000 {
        let client = endpoint(serving.address());
        assert_eq!(add(&client), Ok(round));
        if round == 200 {
            early = Resources::of_this();
        }
    }
    let nobody = TcpEndpoint::connect(&["127.0.0.1:1"], &options());
    assert!(nobody.is_err());
    // Nodes that are lost: each endpoint tries to reach its own again, until it is dropped.
    let lost: Vec<_> = (0..20).map(|_| endpoint(serving.address())).collect();
    drop(serving);
    for client in &lost {
        assert!(add(client).is_err());
    }
    assert!(Resources::of_this().threads > before.threads);
    drop(lost);
    wait_for("threads", before.threads, || Resources::of_this().threads);
    // The pipes to the process that served are closed as well.
    wait_for("files", before.files - 2, || Resources::of_this().files);
    let grown = Resources::of_this().bytes.saturating_sub(early.bytes);
    assert!(grown < KEPT_BYTES, "{grown} bytes more");
}
