//! Who is let in, how far, and what the others are told.

use crate::bed::nobody;
use crate::raw::{RawClient, frame};
use farslot_fabric::shm::{Node, RegionSpec};
use farslot_fabric::tcp::admission::handshake::{self, Hello, decode_refused};
use farslot_fabric::tcp::wire::{self, FrameKind};
use farslot_fabric::tcp::{
    Agent, AgentOptions, Area, ConnectOptions, Grant, Refusal, Secret, ServeOptions, TcpEndpoint,
};
use farslot_fabric::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;
use std::time::{Duration, Instant};

fn node(regions: usize) -> Node {
    let region = RegionSpec {
        len: 4096,
        rights: Rights::ALL,
    };
    Node::embedded(&vec![region; regions]).unwrap()
}

fn secret(byte: u8) -> Option<Secret> {
    Some(Secret::new([byte; 32]).unwrap())
}

fn agent_with(grants: Vec<Grant>) -> Agent {
    let options = AgentOptions::from(ServeOptions {
        grants,
        ..ServeOptions::default()
    });
    Agent::start(node(2), &options).unwrap()
}

fn asking(grant: &str, secret: Option<Secret>) -> ConnectOptions {
    ConnectOptions {
        grant: grant.into(),
        secret,
        ..ConnectOptions::default()
    }
}

fn connect(agent: &Agent, options: &ConnectOptions) -> Result<TcpEndpoint> {
    TcpEndpoint::connect(&[agent.address().to_string()], options)
}

fn refusal(agent: &Agent, options: &ConnectOptions) -> Refusal {
    match connect(agent, options).map(drop) {
        Err(FabricError::NotAdmitted { address, reason }) => {
            assert_eq!(address, agent.address().to_string());
            reason
        }
        other => panic!("{other:?}"),
    }
}

/// Waits for the agent to have counted so many refusals: its client may know sooner.
fn wait_for_refusals(agent: &Agent, refused: u64) {
    let until = Instant::now() + Duration::from_secs(10);
    while agent.counters().refused < refused {
        assert!(Instant::now() < until, "{:?}", agent.counters());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn only_those_who_know_the_secret_are_let_in_and_the_others_are_told_why() {
    let grants = vec![Grant::everything(secret(1))];
    let agent = agent_with(grants);
    let open = agent_with(vec![Grant::everything(None)]);
    assert!(connect(&agent, &asking("default", secret(1))).is_ok());
    for (options, told) in [
        (asking("default", secret(2)), Refusal::WrongSecret),
        (asking("other", secret(1)), Refusal::WrongSecret),
    ] {
        assert_eq!(refusal(&agent, &options), told);
    }
    wait_for_refusals(&agent, 2);
    // These two are the client's own decision.
    let no_secret = asking("default", None);
    assert_eq!(refusal(&agent, &no_secret), Refusal::SecretNeeded);
    assert_eq!(
        refusal(&open, &asking("default", secret(1))),
        Refusal::NodeUnproved
    );
    assert!(agent.revoke("default"));
    assert_eq!(
        refusal(&agent, &asking("default", secret(1))),
        Refusal::GrantRevoked
    );
    assert_eq!(agent.counters().admitted, 1);
}

#[test]
fn a_node_that_does_not_know_the_secret_is_not_trusted() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let rogue = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let bytes = |words: &[u64]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_le_bytes()).collect()
        };
        stream
            .read_exact(&mut [0; 8 * handshake::HELLO_WORDS])
            .unwrap();
        let challenge = handshake::challenge(true, [7; 4]);
        stream.write_all(&bytes(&challenge)).unwrap();
        stream
            .read_exact(&mut [0; 8 * handshake::PROOF_FRAME_WORDS])
            .unwrap();
        let info = NodeInfo {
            incarnation: 1,
            regions: Vec::new(),
            page_bytes: 4096,
        };
        let mut welcome = handshake::Welcome {
            node: info,
            keys: Vec::new(),
            frame_words: 1 << 20,
            session: 1,
        }
        .encode();
        handshake::set_proof(&mut welcome, [3; 4]);
        stream.write_all(&bytes(&welcome)).unwrap();
    });
    let refused = TcpEndpoint::connect(&[&address], &asking("default", secret(1))).map(drop);
    let reason = Refusal::NodeUnproved;
    assert_eq!(refused, Err(FabricError::NotAdmitted { address, reason }));
    rogue.join().unwrap();
}

#[test]
fn another_version_and_another_protocol_are_told_apart() {
    let agent = agent_with(vec![Grant::everything(None)]);
    let hello = Hello {
        carrier: handshake::Carrier::Tcp,
        grant: "default".into(),
        rights: Rights::ALL,
        receiver_wait: 0,
        nonce: [0; 4],
    }
    .encode();
    let send = |words: &[u64]| {
        let mut stream = TcpStream::connect(agent.address()).unwrap();
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        stream.write_all(&bytes).unwrap();
        let mut answer = Vec::new();
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let mut word = [0; 8];
        while stream.read_exact(&mut word).is_ok() {
            answer.push(u64::from_le_bytes(word));
        }
        answer
    };
    let mut later = hello;
    later[0] = later[0] & (u64::MAX >> 8) | 9 << 56;
    let told = Refusal::Version {
        client: 9,
        agent: wire::VERSION,
    };
    assert_eq!(decode_refused(&send(&later)), Some(told));
    wait_for_refusals(&agent, 1);
    // Whatever does not begin as it must gets no answer at all.
    let mut other = hello;
    other[1] ^= 1;
    assert!(send(&other).is_empty());
    assert!(send(&[u64::from_le_bytes(*b"GET / HT")]).is_empty());
    assert!(send(&frame(1, &[0; 3])).is_empty());
    assert_eq!(agent.counters().malformed, 3);

    // And from the other side.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let other = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"220 mail.example ESMTP\r\n").unwrap();
        let _ = stream.read(&mut [0; 256]);
    });
    let end = TcpEndpoint::connect(&[&address], &ConnectOptions::default()).map(drop);
    assert!(
        matches!(&end, Err(FabricError::Protocol { peer, .. }) if *peer == address),
        "{end:?}"
    );
    other.join().unwrap();
}

#[test]
fn a_grant_is_checked_where_the_memory_is() {
    let node = node(2);
    let read_only = Grant {
        name: "reader".into(),
        areas: Some(vec![Area::of_region(RegionId(0), Rights::READ)]),
        ..Grant::everything(secret(1))
    };
    let options = AgentOptions::from(ServeOptions {
        grants: vec![Grant::everything(secret(2)), read_only],
        ..ServeOptions::default()
    });
    let agent = Agent::start(node, &options).unwrap();
    let mut all = RawClient::connect(&agent, &asking("default", secret(2)));
    let mut reader = RawClient::connect(&agent, &asking("reader", secret(1)));
    let at = |region, offset| RemoteAddr {
        node: NodeId(0),
        region: RegionId(region),
        offset,
    };
    let span = all.span(0, 8, 8);
    assert_eq!(all.ask(|out| wire::put_write(out, span, &[77])), Ok(vec![]));

    let span = reader.span(0, 8, 8);
    assert_eq!(reader.ask(|out| wire::put_read(out, span)), Ok(vec![77]));
    let denied = |at, needed, granted| FabricError::AccessDenied {
        at,
        needed,
        granted,
    };
    assert_eq!(
        reader.ask(|out| wire::put_write(out, span, &[1])),
        Err(denied(at(0, 8), Rights::WRITE, Rights::READ))
    );
    assert_eq!(
        reader.ask(|out| wire::put_write_imm(out, span, 1, &[1])),
        Err(denied(at(0, 8), Rights::WRITE, Rights::READ))
    );
    assert_eq!(
        reader.ask(|out| wire::put_fetch_add(out, span, 1)),
        Err(denied(at(0, 8), Rights::ATOMIC, Rights::READ))
    );
    let elsewhere = reader.span(1, 0, 8);
    assert_eq!(
        reader.ask(|out| wire::put_read(out, elsewhere)),
        Err(denied(at(1, 0), Rights::READ, Rights::NONE))
    );
    // The key of the other grant, though it is a good one there.
    let others = all.span(0, 8, 8);
    assert_eq!(
        reader.ask(|out| wire::put_read(out, others)),
        Err(FabricError::WrongKey { at: at(0, 8) })
    );
    assert_eq!(
        reader.ask(|out| wire::put_read_many(out, [span, others].into_iter())),
        Err(FabricError::WrongKey { at: at(0, 8) })
    );
    let third = wire::Span { region: 2, ..span };
    assert_eq!(
        reader.ask(|out| wire::put_read(out, third)),
        Err(FabricError::UnknownRegion {
            node: NodeId(0),
            region: RegionId(2),
            regions: 2
        })
    );
    let past = all.span(0, 4090, 7);
    assert_eq!(
        all.ask(|out| wire::put_read(out, past)),
        Err(FabricError::OutOfBounds {
            at: at(0, 4090),
            len: 7,
            region_len: 4096
        })
    );
    let odd = all.span(0, 12, 8);
    for misaligned in [
        all.ask(|out| wire::put_compare_swap(out, odd, 0, 1)),
        all.ask(|out| wire::put_fetch_add(out, odd, 1)),
    ] {
        assert_eq!(misaligned, Err(FabricError::Misaligned { at: at(0, 12) }));
    }
    // A client's own wish to do no more.
    let careful = ConnectOptions {
        rights: Rights::READ,
        ..asking("default", secret(2))
    };
    let mut careful = RawClient::connect(&agent, &careful);
    let span = careful.span(0, 8, 8);
    assert!(matches!(
        careful.ask(|out| wire::put_write(out, span, &[1])),
        Err(FabricError::AccessDenied { .. })
    ));
    let after = all.span(0, 8, 8);
    assert_eq!(all.ask(|out| wire::put_read(out, after)), Ok(vec![77]));
    assert_eq!(agent.counters().failed_verbs, 11);
    // As VerbFailure has them: of an unknown region, out of bounds, misaligned, denied, wrong keys.
    assert_eq!(agent.counters().failed_by[..6], [1, 1, 2, 5, 2, 0]);
    assert_eq!(agent.counters().malformed, 0);
}

#[test]
fn a_revoked_grant_ends_for_those_who_have_it() {
    let agent = agent_with(vec![Grant::everything(secret(1))]);
    let options = asking("default", secret(1));
    let endpoint = Rc::new(connect(&agent, &options).unwrap());
    let executor = Executor::new(Rc::clone(&endpoint));
    let at = RemoteAddr {
        node: NodeId(0),
        region: RegionId(0),
        offset: 0,
    };
    assert_eq!(executor.block_on(endpoint.fetch_add(at, 1)), Ok(0));
    assert!(agent.revoke("default"));
    let node = NodeId(0);
    let revoked = Err(FabricError::GrantRevoked { node });
    assert_eq!(executor.block_on(endpoint.fetch_add(at, 1)), revoked);
    // Granted anew: the keys of before are none of it.
    agent.grant(&Grant::everything(secret(1))).unwrap();
    assert_eq!(executor.block_on(endpoint.fetch_add(at, 1)), revoked);
    let again = connect(&agent, &options).unwrap();
    let executor = Executor::new(Rc::new(again));
    let added = executor.block_on(executor.endpoint().fetch_add(at, 1));
    assert_eq!(added, Ok(1));
}

#[test]
fn those_who_say_nothing_or_too_little_are_let_go_in_time() {
    let options = AgentOptions::from(ServeOptions {
        handshake_timeout: Duration::from_millis(300),
        ..ServeOptions::default()
    });
    let agent = Agent::start(node(1), &options).unwrap();
    let mute = TcpStream::connect(agent.address()).unwrap();
    let mut slow = TcpStream::connect(agent.address()).unwrap();
    let since = Instant::now();
    slow.write_all(&[0, 0, 0]).unwrap();
    for mut stream in [mute, slow] {
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let mut told = [0; 8 * handshake::REFUSED_WORDS];
        stream.read_exact(&mut told).unwrap();
        let words: Vec<u64> = told
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
            .collect();
        let refusal = Refusal::TooSlow { after_ms: 300 };
        assert_eq!(decode_refused(&words), Some(refusal));
        assert!(matches!(stream.read(&mut told), Ok(0) | Err(_)));
    }
    assert!(since.elapsed() >= Duration::from_millis(300));
    assert_eq!(agent.counters().connections, 0);
}

#[test]
fn more_connections_than_the_limit_are_refused_until_one_goes() {
    let options = AgentOptions::from(ServeOptions {
        connections: 2,
        ..ServeOptions::default()
    });
    let agent = Agent::start(node(1), &options).unwrap();
    let asked = ConnectOptions::default();
    let held: Vec<_> = (0..2).map(|_| connect(&agent, &asked).unwrap()).collect();
    assert_eq!(
        refusal(&agent, &asked),
        Refusal::TooManyConnections { limit: 2 }
    );
    drop(held);
    let until = Instant::now() + Duration::from_secs(10);
    while agent.counters().connections > 0 {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(connect(&agent, &asked).is_ok());
}

#[test]
fn an_address_that_others_reach_needs_secrets() {
    let start = |grant, insecure| {
        let options = AgentOptions::from(ServeOptions {
            listen: "0.0.0.0:0".into(),
            grants: vec![grant],
            insecure,
            ..ServeOptions::default()
        });
        Agent::start(node(1), &options).map(drop)
    };
    assert!(matches!(
        start(Grant::everything(None), false),
        Err(FabricError::Insecure { grant, .. }) if grant == "default"
    ));
    assert_eq!(start(Grant::everything(None), true), Ok(()));
    assert_eq!(start(Grant::everything(secret(1)), false), Ok(()));
}

#[test]
fn what_cannot_be_connected_to_is_named_in_time() {
    let connect = |address: &str| {
        let options = ConnectOptions {
            connect_timeout: Duration::from_millis(300),
            ..ConnectOptions::default()
        };
        TcpEndpoint::connect(&[address], &options).map(drop)
    };
    let (_held, address) = nobody();
    let refused = FabricError::ConnectionRefused {
        address: address.clone(),
    };
    assert_eq!(connect(&address), Err(refused));
    for nonsense in ["", "no port", "127.0.0.1:99999", ":"] {
        assert!(
            matches!(connect(nonsense), Err(FabricError::Unresolvable { address, .. }) if address == nonsense),
            "{nonsense:?}"
        );
    }
    // Somebody who takes connections and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let timed_out = FabricError::ConnectTimedOut {
        address: address.clone(),
        after: 300_000_000,
    };
    assert_eq!(connect(&address), Err(timed_out));
    let start = |listen: &str| {
        let options = AgentOptions::from(ServeOptions {
            listen: listen.into(),
            ..ServeOptions::default()
        });
        Agent::start(node(1), &options).map(drop)
    };
    assert_eq!(
        start(&address),
        Err(FabricError::AddressInUse {
            address: address.clone()
        })
    );
    assert!(matches!(
        start("no port"),
        Err(FabricError::Unresolvable { .. })
    ));
}

#[test]
fn an_answer_is_no_verb() {
    let agent = agent_with(vec![Grant::everything(None)]);
    let mut client = RawClient::connect(&agent, &ConnectOptions::default());
    let mut answer = frame(1, &[]);
    answer[0] ^= (FrameKind::Verbs as u64 ^ FrameKind::Completions as u64) << 48;
    client.send(&answer);
    assert!(matches!(client.tcp().read(&mut [0; 8]), Ok(0) | Err(_)));
    assert_eq!(agent.counters().malformed, 1);
}

/// Replies nothing.
struct Silent;

impl Handler for Silent {
    fn handle(&self, _: Call<'_>) -> CallAnswer {
        CallAnswer::Now(0)
    }
}

#[test]
fn a_call_needs_a_grant_of_the_whole_region() {
    let grant = |name: &str, areas: Vec<Area>| Grant {
        name: name.into(),
        areas: Some(areas),
        ..Grant::everything(None)
    };
    let called = Rights::READ.and(Rights::CALL);
    let part = Area {
        region: RegionId(0),
        bytes: 0..2048,
        rights: called,
    };
    let agent = agent_with(vec![
        grant("whole", vec![Area::of_region(RegionId(0), called)]),
        grant("reads", vec![Area::of_region(RegionId(0), Rights::READ)]),
        grant("part", vec![part]),
    ]);
    agent.node().serve_calls(std::sync::Arc::new(Silent));
    for (name, allowed) in [("whole", true), ("reads", false), ("part", false)] {
        let address = [agent.address().to_string()];
        let endpoint = TcpEndpoint::connect(&address, &asking(name, None)).unwrap();
        let executor = Executor::new(Rc::new(endpoint));
        let request = executor.endpoint().core().buffers.take(8).unwrap();
        let call = executor
            .endpoint()
            .call((NodeId(0), RegionId(0)), request, 8);
        match executor.block_on(call) {
            Ok(reply) => assert!(allowed && reply.is_empty(), "{name}"),
            Err(FabricError::AccessDenied { needed, .. }) => {
                assert!(!allowed && needed == Rights::CALL, "{name}");
            }
            Err(other) => panic!("{name}: {other}"),
        }
    }
}
