//! What may not be, as both sides are told: the client by a typed error, the owner by a line in the
//! agent's log.

use crate::raw::RawClient;
use farslot_fabric::shm::{Node, RegionSpec};
use farslot_fabric::tcp::admission::handshake::{Carrier, Hello, decode_refused};
use farslot_fabric::tcp::wire::{self, FrameKind, Header, VERSION};
use farslot_fabric::tcp::{
    Agent, AgentOptions, ConnectOptions, Grant, Refusal, Secret, ServeOptions, TcpEndpoint,
};
use farslot_fabric::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

/// Keeps every line of the log.
struct Lines(Mutex<Vec<String>>);

static LINES: Lines = Lines(Mutex::new(Vec::new()));

impl log::Log for Lines {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let line = format!("{} {}", record.level(), record.args());
        self.0.lock().unwrap().push(line);
    }

    fn flush(&self) {}
}

/// Waits for a line of the log, as a warning, that begins so: the agent writes it in its own time.
fn wait_for_line(line: &str) {
    let until = Instant::now() + Duration::from_secs(20);
    let line = format!("WARN {line}");
    while !LINES.0.lock().unwrap().contains(&line) {
        let lines = LINES.0.lock().unwrap().join("\n");
        assert!(Instant::now() < until, "no line {line:?} in\n{lines}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn secret(byte: u8) -> Option<Secret> {
    Some(Secret::new([byte; 32]).unwrap())
}

/// An agent of its own for each test, with two grants: few warnings a second are written for each.
fn agent() -> Agent {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::set_logger(&LINES).unwrap();
        log::set_max_level(log::LevelFilter::Debug);
    });
    let region = RegionSpec {
        len: 4096,
        rights: Rights::ALL,
    };
    let node = Node::embedded(&[region]).unwrap();
    let reader = Grant::limited("reader", secret(2), node.info(), Rights::READ);
    let options = AgentOptions::from(ServeOptions {
        grants: vec![Grant::everything(secret(1)), reader],
        ..ServeOptions::default()
    });
    Agent::start(node, &options).unwrap()
}

fn asking(grant: &str, secret: Option<Secret>) -> ConnectOptions {
    ConnectOptions {
        grant: grant.into(),
        secret,
        ..ConnectOptions::default()
    }
}

fn all() -> ConnectOptions {
    asking("default", secret(1))
}

fn connect(agent: &Agent, options: &ConnectOptions) -> Result<Executor<TcpEndpoint>> {
    let endpoint = TcpEndpoint::connect(&[agent.address().to_string()], options)?;
    Ok(Executor::new(Rc::new(endpoint)))
}

fn at(offset: u64) -> RemoteAddr {
    RemoteAddr {
        node: NodeId(0),
        region: RegionId(0),
        offset,
    }
}

/// A verb that the agent refuses: its client and its owner are told the same.
fn check_verb(
    client: &mut RawClient,
    grant: &str,
    error: FabricError,
    verb: impl FnOnce(&mut Vec<u64>),
) {
    assert_eq!(client.ask(verb), Err(error.clone()));
    let peer = client.tcp().local_addr().unwrap();
    wait_for_line(&format!(
        "refused a verb of {peer} under the grant {grant:?}: {error}"
    ));
}

#[test]
fn a_wrong_key_is_told_to_both_sides() {
    let agent = agent();
    let mut client = RawClient::connect(&agent, &all());
    let mut span = client.span(0, 64, 8);
    span.key ^= 1;
    let wrong = FabricError::WrongKey { at: at(64) };
    check_verb(&mut client, "default", wrong, |out| {
        wire::put_read(out, span)
    });
}

#[test]
fn a_revoked_grant_is_told_to_both_sides() {
    let agent = agent();
    let mut client = RawClient::connect(&agent, &all());
    let span = client.span(0, 64, 8);
    assert!(client.ask(|out| wire::put_read(out, span)).is_ok());
    assert!(agent.revoke("default"));
    let node = NodeId(0);
    let revoked = FabricError::GrantRevoked { node };
    check_verb(&mut client, "default", revoked, |out| {
        wire::put_read(out, span)
    });

    // And to those who come now.
    let address = agent.address().to_string();
    let reason = Refusal::GrantRevoked;
    let refused = connect(&agent, &all()).map(drop);
    assert_eq!(refused, Err(FabricError::NotAdmitted { address, reason }));
    wait_for_refusal(reason);
}

#[test]
fn a_write_under_a_read_only_grant_is_told_to_both_sides() {
    let agent = agent();
    let reader = asking("reader", secret(2));
    let mut client = RawClient::connect(&agent, &reader);
    let denied = |needed| FabricError::AccessDenied {
        at: at(64),
        needed,
        granted: Rights::READ,
    };
    let span = client.span(0, 64, 8);
    check_verb(&mut client, "reader", denied(Rights::WRITE), |out| {
        wire::put_write(out, span, &[1]);
    });
    check_verb(&mut client, "reader", denied(Rights::ATOMIC), |out| {
        wire::put_compare_swap(out, span, 0, 1);
    });
    // An endpoint knows its rights, and sends nothing.
    let executor = connect(&agent, &reader).unwrap();
    let endpoint = executor.endpoint();
    let data = endpoint.core().buffers.copy_of(b"x").unwrap();
    let written = executor.block_on(endpoint.write(at(64), data));
    assert_eq!(written, Err(denied(Rights::WRITE)));
    let read = executor.block_on(endpoint.read(at(64), 8)).unwrap();
    assert_eq!(read.words(), [0]);
}

#[test]
fn a_misaligned_atomic_is_told_to_both_sides() {
    let agent = agent();
    let mut client = RawClient::connect(&agent, &all());
    let span = client.span(0, 12, 8);
    let misaligned = FabricError::Misaligned { at: at(12) };
    check_verb(&mut client, "default", misaligned.clone(), |out| {
        wire::put_fetch_add(out, span, 1);
    });
    let executor = connect(&agent, &all()).unwrap();
    let added = executor.block_on(executor.endpoint().fetch_add(at(12), 1));
    assert_eq!(added, Err(misaligned));
}

/// Waits for a warning about a client whose port is not known here.
fn wait_for_any(about: &str) {
    let until = Instant::now() + Duration::from_secs(20);
    let is_it = |line: &String| line.starts_with("WARN ") && line.contains(about);
    while !LINES.0.lock().unwrap().iter().any(is_it) {
        assert!(Instant::now() < until, "no line with {about:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn wait_for_refusal(reason: Refusal) {
    wait_for_any(&format!(": {reason}"));
}

#[test]
fn a_wrong_secret_is_told_to_both_sides() {
    let agent = agent();
    for (options, reason) in [
        (asking("default", secret(9)), Refusal::WrongSecret),
        // Of another grant.
        (asking("reader", secret(1)), Refusal::WrongSecret),
        (asking("writer", secret(1)), Refusal::WrongSecret),
    ] {
        let address = agent.address().to_string();
        let refused = connect(&agent, &options).map(drop);
        assert_eq!(refused, Err(FabricError::NotAdmitted { address, reason }));
        wait_for_refusal(reason);
    }
    // Here the client ends it, and knows why; to the agent it is one that left.
    let address = agent.address().to_string();
    let reason = Refusal::SecretNeeded;
    let refused = connect(&agent, &asking("default", None)).map(drop);
    assert_eq!(refused, Err(FabricError::NotAdmitted { address, reason }));
    wait_for_any("left when it was asked for the secret of the grant \"default\"");
    assert_eq!(agent.counters().admitted, 0);
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A frame as another version sends it.
fn of_version(version: u8, frame: &[u64]) -> Vec<u64> {
    let mut frame = frame.to_vec();
    frame[0] = frame[0] & (u64::MAX >> 8) | u64::from(version) << 56;
    frame
}

#[test]
fn a_client_of_another_version_is_told_so_and_so_is_the_owner() {
    let agent = agent();
    for version in [VERSION + 1, VERSION - 1] {
        let hello = Hello {
            carrier: Carrier::Tcp,
            grant: "default".into(),
            rights: Rights::ALL,
            receiver_wait: 0,
            nonce: [7; 4],
        };
        let mut stream = TcpStream::connect(agent.address()).unwrap();
        let hello = of_version(version, &hello.encode());
        stream.write_all(&bytes(&hello)).unwrap();
        let mut told = Vec::new();
        stream.read_to_end(&mut told).unwrap();
        let words: Vec<u64> = told
            .chunks_exact(8)
            .map(bytemuck::pod_read_unaligned)
            .collect();
        let reason = Refusal::Version {
            client: version,
            agent: VERSION,
        };
        assert_eq!(decode_refused(&words), Some(reason));
        let peer = stream.local_addr().unwrap();
        wait_for_line(&format!("refused {peer}: {reason}"));
    }
}

/// A node of another version refuses as every version does: in a frame that all of them know.
#[test]
fn a_node_of_another_version_is_told_apart_by_its_client() {
    for version in [VERSION + 1, VERSION - 1] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let other = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = [0; 8];
            stream.read_exact(&mut head).unwrap();
            let head = Header::decode(u64::from_le_bytes(head)).unwrap();
            assert_eq!(head.kind, FrameKind::Hello);
            let rest = &mut vec![0; head.words as usize * 8 - 8];
            stream.read_exact(rest).unwrap();
            let refused = tcp::admission::handshake::refused(Refusal::Version {
                client: VERSION,
                agent: version,
            });
            let refused = of_version(version, &refused);
            stream.write_all(&bytes(&refused)).unwrap();
        });
        let refused = TcpEndpoint::connect(&[&address], &ConnectOptions::default()).map(drop);
        let reason = Refusal::Version {
            client: VERSION,
            agent: version,
        };
        let expected = FabricError::NotAdmitted { address, reason };
        assert_eq!(refused, Err(expected));
        other.join().unwrap();
    }
}
