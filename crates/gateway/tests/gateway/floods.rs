//! Attacks on the memory of a gateway, in a process of its own: what it takes besides the tables
//! stays within its bound, and others are served meanwhile.

use crate::authority::Authority;
use crate::client::{Client, Reply, gateway_with, request};
use farslot::admission::{Secret, TlsServer};
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;
/// The bound of a thread, by default
/// ([`GatewayOptions::buffers`](farslot_gateway::GatewayOptions)).
const BOUND: usize = 256 * MIB;
/// Says that this process is the one that serves.
const SERVES: &str = "FARSLOT_TEST_SERVES";
/// The certificate and the key of one that serves under TLS, in PEM.
const CERTIFIED: [&str; 2] = ["FARSLOT_TEST_CERT", "FARSLOT_TEST_KEY"];

/// A gateway in a process of its own.
struct Server {
    process: Child,
    /// Open while it serves, for what the harness says.
    _said: Lines<BufReader<ChildStdout>>,
    address: SocketAddr,
    /// Of its certificate, where it serves under TLS.
    authority: Option<Authority>,
}

impl Server {
    fn start() -> Self {
        Self::start_with(None)
    }

    fn start_with(authority: Option<Authority>) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        if let Some(authority) = &authority {
            let own = authority.issue(&["127.0.0.1"]);
            command.envs(
                CERTIFIED
                    .into_iter()
                    .zip([own.certificate, own.private_key]),
            );
        }
        let mut process = command
            .args(["--exact", "floods::serves", "--nocapture"])
            .env(SERVES, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stdout.take().unwrap()).lines();
        let address = said
            .by_ref()
            .map(|line| line.unwrap())
            .find_map(|line| Some(line.split_once("serving at ")?.1.parse().unwrap()));
        Self {
            process,
            _said: said,
            address: address.expect("it says where it serves"),
            authority,
        }
    }

    fn client(&self) -> Client {
        match &self.authority {
            None => Client::at(self.address),
            Some(authority) => Client::under_tls(self.address, authority.pem()).unwrap(),
        }
    }

    /// Bytes, by a line of `/proc/PID/status`: `VmHWM` or `VmRSS`.
    fn memory(&self, line: &str) -> usize {
        let status = format!("/proc/{}/status", self.process.id());
        let status = std::fs::read_to_string(status).unwrap();
        let of_it = status.lines().find_map(|of| of.strip_prefix(line));
        let kib = of_it.and_then(|of| of.trim_start_matches(':').trim().strip_suffix(" kB"));
        let kib = kib.unwrap_or_else(|| panic!("it serves no more: {status}"));
        kib.parse::<usize>().unwrap() << 10
    }

    /// Waits until a flood that was sent is done: others have been served `rounds` times.
    fn outlast(&self, rounds: usize) {
        let mut good = self.client();
        for round in 0..rounds {
            let value = format!("{round}");
            assert_eq!(good.run(&["SET", "good", &value]).shown(), "OK");
            good.expect(&[("GET good", &format!("{value:?}"))]);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The process that serves; nothing else.
#[test]
fn serves() {
    if std::env::var_os(SERVES).is_none() {
        return;
    }
    let [certificate, key] = CERTIFIED.map(|variable| std::env::var(variable).ok());
    let (_store, gateway) = gateway_with(|options| {
        options.tls = certificate.zip(key).map(|(certificate, key)| {
            TlsServer::new(certificate.as_bytes(), key.as_bytes(), None).unwrap()
        });
    });
    println!("\nserving at {}", gateway.address());
    // Until the test ends.
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn many_names_in_one_request_take_no_more_than_the_bound() {
    let server = Server::start();
    server.outlast(1);
    let before = server.memory("VmHWM");
    let names = ["get"; 60_000];
    let asked = request(&[&["COMMAND", "INFO"], &names[..]].concat());
    let mut all: Vec<Client> = (0..50).map(|_| server.client()).collect();
    for client in &mut all {
        client.send(&asked).unwrap();
    }
    server.outlast(500);
    // Who takes the reply gets all of it.
    let mut taker = server.client();
    taker.send(&asked).unwrap();
    let Reply::Array(parts) = taker.reply().unwrap() else {
        panic!("no array");
    };
    assert_eq!(parts.len(), names.len());
    assert!(parts.iter().all(|part| *part == parts[0]));
    let grown = server.memory("VmHWM") - before;
    assert!(grown <= BOUND, "{} MiB more", grown / MIB);
}

#[test]
fn replies_that_nobody_takes_take_no_more_than_the_bound() {
    let server = Server::start();
    let mut good = server.client();
    let value = vec![b'v'; MIB];
    for key in 0..32 {
        let key = format!("k{key}");
        assert_eq!(good.run(&[b"SET", key.as_bytes(), &value]).shown(), "OK");
    }
    let before = server.memory("VmHWM");
    let asked: Vec<u8> = (0..32)
        .flat_map(|key| request(&["GET", &format!("k{key}")]))
        .collect();
    let mut deaf: Vec<Client> = (0..100).map(|_| server.client()).collect();
    for client in &mut deaf {
        client.send(&asked).unwrap();
    }
    server.outlast(500);
    let grown = server.memory("VmHWM") - before;
    assert!(grown <= BOUND, "{} MiB more", grown / MIB);
    // Who begins to take them gets all of them.
    for client in &mut deaf[..3] {
        for _ in 0..32 {
            assert_eq!(client.reply().unwrap(), Reply::Bulk(value.clone()));
        }
    }
    // What the flood has taken goes back to the system, but for the buffers of the store's client.
    drop(deaf);
    let since = Instant::now();
    while server.memory("VmRSS") > before + (64 + 16) * MIB {
        assert!(
            since.elapsed() < Duration::from_secs(60),
            "{} MiB more",
            (server.memory("VmRSS") - before) / MIB
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What TLS holds for connections is among the bytes that are bounded: handshakes that do not go
/// on, and records that nobody takes.
#[test]
fn sessions_of_tls_take_no_more_than_the_bound() {
    let server = Server::start_with(Some(Authority::new()));
    let mut good = server.client();
    let value = vec![b'v'; MIB];
    for key in 0..8 {
        let key = format!("k{key}");
        assert_eq!(good.run(&[b"SET", key.as_bytes(), &value]).shown(), "OK");
    }
    let before = server.memory("VmHWM");
    // A ClientHello whose end does not come, in records of TLS.
    let hello = [&[22, 3, 1, 64, 0, 1, 0, 255, 255][..], &[0; 16_380]].concat();
    let unauthenticated: Vec<TcpStream> = (0..300)
        .map(|_| {
            let mut stream = TcpStream::connect(server.address).unwrap();
            // The oldest have been closed by now.
            let _ = stream.write_all(&hello);
            stream
        })
        .collect();
    let asked: Vec<u8> = (0..32)
        .flat_map(|number| request(&["GET", &format!("k{}", number % 8)]))
        .collect();
    let mut deaf: Vec<Client> = (0..100).map(|_| server.client()).collect();
    for client in &mut deaf {
        client.send(&asked).unwrap();
    }
    server.outlast(300);
    let grown = server.memory("VmHWM") - before;
    assert!(grown <= BOUND, "{} MiB more", grown / MIB);
    drop(unauthenticated);
    for client in &mut deaf[..3] {
        for _ in 0..32 {
            assert_eq!(client.reply().unwrap(), Reply::Bulk(value.clone()));
        }
    }
}

/// A few bytes can make a value of a megabyte.
#[test]
fn values_that_short_requests_make_take_no_more_than_the_bound() {
    let server = Server::start();
    server.outlast(1);
    let before = server.memory("VmHWM");
    let mut all: Vec<Client> = (0..30).map(|_| server.client()).collect();
    for (number, client) in all.iter_mut().enumerate() {
        for step in 0..32 {
            let key = format!("k{}", (number + step) % 16);
            let made = request(&["SETRANGE", &key, "1000000", "x"]);
            let told = request(&["GET", &key]);
            client.send(&[made, told].concat()).unwrap();
        }
    }
    server.outlast(500);
    // The tables have these as well.
    let grown = server.memory("VmHWM") - before;
    assert!(grown <= BOUND + 64 * MIB, "{} MiB more", grown / MIB);
}

/// Requests that never end, and others that do meanwhile.
#[test]
fn requests_that_never_end_take_no_more_than_the_bound() {
    let server = Server::start();
    server.outlast(1);
    let before = server.memory("VmHWM");
    let part = request(&[&vec![b'v'; MIB][..]]);
    let mut all: Vec<Client> = (0..60).map(|_| server.client()).collect();
    for client in &mut all {
        let _ = client.send(b"*60000\r\n");
        for _ in 0..12 {
            // One that others need the room of is closed.
            let _ = client.send(&part[4..]);
        }
    }
    let mut good = server.client();
    let value = vec![b'v'; 2 * MIB];
    assert_eq!(good.run(&[b"SET", &b"k"[..], &value]).shown(), "OK");
    assert_eq!(good.run(&["GET", "k"]), Reply::Bulk(value));
    let grown = server.memory("VmHWM") - before;
    assert!(grown <= BOUND + 16 * MIB, "{} MiB more", grown / MIB);
}

/// Transactions that are never executed, and some that read and write as much as one may.
#[test]
fn queues_of_transactions_take_no_more_than_the_bound() {
    let server = Server::start();
    server.outlast(1);
    let before = server.memory("VmHWM");
    let value = vec![b'v'; MIB];
    let set = request(&[b"SET", &b"k"[..], &value]);
    let mut all: Vec<Client> = (0..60).map(|_| server.client()).collect();
    for client in &mut all {
        let _ = client.send(b"MULTI\r\n");
        for _ in 0..15 {
            // One that others need the room of is closed.
            let _ = client.send(&set);
        }
    }
    let mut good = server.client();
    for _ in 0..3 {
        assert_eq!(good.ask("MULTI"), "OK");
        for _ in 0..4 {
            assert_eq!(good.run(&[b"SET", &b"k"[..], &value]).shown(), "QUEUED");
            assert_eq!(good.ask("GET k"), "QUEUED");
        }
        let Reply::Array(parts) = good.run(&["EXEC"]) else {
            panic!("no array");
        };
        assert_eq!(parts.len(), 8);
        assert_eq!(parts[7], Reply::Bulk(value.clone()));
    }
    // Those that are open still may go on.
    let mut done = 0;
    for client in &mut all {
        if client.send(&request(&["EXEC"])).is_err() {
            continue;
        }
        let replies = (0..17).map(|_| client.reply());
        if let Some(Ok(Reply::Array(parts))) = replies.last() {
            assert_eq!(parts.len(), 15);
            done += 1;
        }
    }
    assert!(done > 0, "all were closed");
    let grown = server.memory("VmHWM") - before;
    assert!(grown <= BOUND + 16 * MIB, "{} MiB more", grown / MIB);
}

#[test]
fn a_request_that_is_too_long_is_refused_and_those_behind_it_are_answered() {
    let server = Server::start();
    let mut client = server.client();
    let before = server.memory("VmHWM");
    let long = vec![b'v'; 60 * MIB];
    let some = vec![b'v'; MIB];
    let many = [&[&b"MSET"[..]], &[&b"k"[..], &some].repeat(20)[..]].concat();
    let keys = ["k"; 70_000];
    for (sent, told) in [
        (
            request(&[b"SET", &b"k"[..], &long]),
            "-ERR an argument of 62914560 bytes is longer than the limit of 2555880 bytes",
        ),
        (request(&many), "-ERR a request of at least 16777"),
        (
            request(&[&["DEL"], &keys[..]].concat()),
            "-ERR a request of 70001 arguments has more than the limit of 65536",
        ),
    ] {
        let behind = [request(&["SET", "a", "1"]), request(&["GET", "a"])].concat();
        client
            .send(&[b"PING\r\n".to_vec(), sent, behind].concat())
            .unwrap();
        assert_eq!(client.reply().unwrap().shown(), "PONG");
        let error = client.reply().unwrap().shown();
        assert!(error.starts_with(told), "{error}");
        assert_eq!(client.reply().unwrap().shown(), "OK");
        assert_eq!(client.reply().unwrap().shown(), "\"1\"");
        client.expect(&[("GET k", "nil")]);
    }
    let grown = server.memory("VmHWM") - before;
    assert!(grown <= 64 * MIB, "what is skipped is not kept: {grown}");
}

/// A connection that guesses is slowed, and no other.
#[test]
fn guesses_of_a_secret_take_longer_and_longer() {
    let secret = Secret::new("sixteen bytes at least").unwrap();
    let (_store, gateway) = gateway_with(|options| options.secrets = vec![secret]);
    let mut guesser = Client::of(&gateway);
    let since = Instant::now();
    guesser
        .send(&request(&["AUTH", "a guess"]).repeat(4))
        .unwrap();
    for _ in 0..4 {
        let told = guesser.reply().unwrap().shown();
        assert!(told.starts_with("-WRONGPASS"), "{told}");
    }
    // After each of the first three it has rested for 100 ms more than before.
    assert!(since.elapsed() >= Duration::from_millis(600));
    // It is closed when it has been an unauthenticated client for too long, however often it is
    // answered.
    while guesser.run_if_open(&["AUTH", "a guess"]) {
        assert!(since.elapsed() < Duration::from_secs(60), "it may guess on");
    }
}

/// Whoever guesses by new connections waits as long as by one, and with the right secret no longer
/// than that.
#[test]
fn guesses_of_an_address_take_longer_and_longer_over_all_of_its_connections() {
    let right = "sixteen bytes at least";
    let secret = Secret::new(right).unwrap();
    let (_store, gateway) = gateway_with(|options| options.secrets = vec![secret]);
    let since = Instant::now();
    for _ in 0..5 {
        let mut guesser = Client::of(&gateway);
        let told = guesser.run(&["AUTH", "a guess"]).shown();
        assert!(told.starts_with("-WRONGPASS"), "{told}");
    }
    // Before each but the first it has waited for 100 ms more than before.
    assert!(since.elapsed() >= Duration::from_millis(1_000));
    let mut client = Client::of(&gateway);
    let hello = client.run(&["HELLO", "3", "AUTH", "default", right]);
    assert!(hello.shown().contains("\"proto\" :3"), "{hello:?}");
    client.expect(&[("PING", "PONG")]);
}
