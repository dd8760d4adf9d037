//! What the NIC refuses of a client that does not check itself. These need an RDMA device:
//! `scripts/test-verbs` runs them.

use super::rooms::{CallHeader, ROOM, request_imm};
use super::{Agent, ConnectOptions, ServeOptions, VerbsAgentOptions, VerbsEndpoint, VerbsOptions};
use crate::memory::{Node, RegionSpec};
use crate::net::admission::Grant;
use crate::{
    Buffer, Call, CallAnswer, Endpoint, EndpointExt, Executor, FabricError, Handler, Limits,
    NodeId, RegionId, RemoteAddr, Rights,
};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

const NODE: NodeId = NodeId(0);

fn at(offset: u64) -> RemoteAddr {
    RemoteAddr {
        node: NODE,
        region: RegionId(0),
        offset,
    }
}

/// A node with a guard behind its first region, and the grants `default`, `other` and `read-only`.
fn served() -> Agent {
    let region = RegionSpec {
        len: 4096,
        rights: Rights::ALL,
    };
    let node = Node::embedded(&[region, region]).unwrap();
    let grants = vec![
        Grant::everything(None),
        Grant {
            name: "other".into(),
            ..Grant::everything(None)
        },
        Grant::limited("read-only", None, node.info(), Rights::READ),
    ];
    let options = VerbsAgentOptions::from(ServeOptions {
        grants,
        ..ServeOptions::default()
    });
    Agent::start(node, &options).unwrap()
}

fn client(agent: &Agent, grant: &str) -> Executor<VerbsEndpoint> {
    let options = VerbsOptions::from(ConnectOptions {
        grant: grant.into(),
        limits: Limits {
            verb_timeout: 20_000_000_000,
            ..Limits::default()
        },
        ..ConnectOptions::default()
    });
    let address = agent.address().to_string();
    Executor::new(Rc::new(
        VerbsEndpoint::connect(&[address], &options).unwrap(),
    ))
}

/// Waits until it is so.
fn wait_until(condition: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < until, "never: {condition}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until the connection was made anew, as it is after every refusal.
fn wait_until_up(executor: &Executor<VerbsEndpoint>) {
    wait_until("up again", || executor.endpoint().is_up(NODE));
}

#[test]
#[ignore = "needs an RDMA device: scripts/test-verbs runs it"]
fn a_key_of_one_grant_is_void_in_another() {
    let agent = served();
    let (mine, other) = (client(&agent, "default"), client(&agent, "other"));
    let key_of = |executor: &Executor<VerbsEndpoint>| {
        let peer = executor.endpoint().peers.get(NODE).unwrap().borrow();
        peer.regions[0][0].key
    };
    let (valid, stolen) = (key_of(&mine), key_of(&other));
    assert_ne!(valid, stolen);
    let use_key = |key| {
        let mut peer = mine.endpoint().peers.get(NODE).unwrap().borrow_mut();
        peer.regions[0][0].key = key;
    };
    for wrong in [stolen, valid ^ 1, valid.wrapping_add(1 << 8)] {
        use_key(wrong);
        let at = at(8);
        let refused = mine.block_on(mine.endpoint().fetch_add(at, 1));
        assert_eq!(refused, Err(FabricError::WrongKey { at }));
        wait_until_up(&mine);
    }
    // The connection that was made anew has the right ones.
    assert_eq!(mine.block_on(mine.endpoint().fetch_add(at(8), 1)), Ok(0));
    assert_eq!(other.block_on(other.endpoint().fetch_add(at(8), 1)), Ok(1));
}

#[test]
#[ignore = "needs an RDMA device: scripts/test-verbs runs it"]
fn the_nic_itself_checks_bounds_and_rights() {
    let agent = served();
    let reader = client(&agent, "read-only");
    let writer = client(&agent, "default");
    let endpoint = writer.endpoint();
    assert_eq!(writer.block_on(endpoint.fetch_add(at(0), 7)), Ok(0));

    // A client of a read-only grant that takes itself for a writer.
    type Attempt = fn(&VerbsEndpoint) -> crate::verb::Verb;
    let attempts: [Attempt; 4] = [
        |endpoint| crate::Verb::Write {
            to: at(0),
            data: endpoint.core().buffers.copy_of(b"overwritten").unwrap(),
        },
        |endpoint| crate::Verb::WriteImm {
            to: at(0),
            data: endpoint.core().buffers.copy_of(b"overwritten").unwrap(),
            imm: 1,
        },
        |_| crate::Verb::FetchAdd { at: at(0), add: 1 },
        |_| crate::Verb::CompareSwap {
            at: at(0),
            expected: 7,
            new: 8,
        },
    ];
    use crate::Inbox;
    for attempt in attempts {
        let mut peer = reader.endpoint().peers.get(NODE).unwrap().borrow_mut();
        peer.info.regions[0].rights = Rights::ALL;
        peer.regions[0][0].rights = Rights::ALL;
        drop(peer);
        let endpoint = reader.endpoint();
        let verb = attempt(endpoint);
        let needed = verb.needs();
        let mut posted = endpoint.post(verb).unwrap();
        let refused = reader.block_on(std::future::poll_fn(|cx| {
            endpoint.poll_posted(&mut posted, cx)
        }));
        let denied = Err(FabricError::AccessDenied {
            at: at(0),
            needed,
            granted: Rights::READ,
        });
        assert_eq!(refused.map(drop), denied);
        wait_until_up(&reader);
    }
    let found = reader.block_on(reader.endpoint().read(at(0), 8)).unwrap();
    assert_eq!(found.words(), [7]);
    assert_eq!(agent.node().take_message(), None);

    // One that takes the region for longer than it is: before it and behind it lies other memory.
    for beyond in [4096, 4090, u64::MAX - 7, 2 << 20] {
        let mut peer = endpoint.peers.get(NODE).unwrap().borrow_mut();
        peer.info.regions[0].len = u64::MAX;
        peer.regions[0][0].bytes = u64::MAX;
        drop(peer);
        let read = writer.block_on(endpoint.read(at(beyond), 7));
        let out_of_bounds = Err(FabricError::OutOfBounds {
            at: at(beyond),
            len: 7,
            region_len: 4096,
        });
        assert_eq!(read.map(drop), out_of_bounds);
        wait_until_up(&writer);
    }
    assert_eq!(writer.block_on(endpoint.fetch_add(at(0), 0)), Ok(7));
}

/// Replies with the request.
struct Echo;

impl Handler for Echo {
    fn handle(&self, call: Call<'_>) -> CallAnswer {
        call.reply[..call.request.len()].copy_from_slice(call.request);
        CallAnswer::Now(call.request.len())
    }
}

fn call(executor: &Executor<VerbsEndpoint>, bytes: &[u8]) -> crate::Result<Buffer> {
    let endpoint = executor.endpoint();
    let request = endpoint.core().buffers.copy_of(bytes).unwrap();
    executor.block_on(endpoint.call((NODE, RegionId(0)), request, bytes.len()))
}

/// Who it is that ends a connection.
#[derive(PartialEq)]
enum ConnectionEnder {
    Owner,
    Nic,
    /// The client itself, by a reply that it has not asked for.
    Client,
}

/// What a client that keeps to nothing writes into its own room of requests: first bytes, where,
/// and the immediate. It has made one call before.
struct ForgedRequest {
    label: &'static str,
    head: CallHeader,
    bytes: usize,
    at: u64,
    imm: u32,
    /// Who notices.
    noticed_by: ConnectionEnder,
}

#[test]
#[ignore = "needs an RDMA device: scripts/test-verbs runs it"]
fn a_client_that_writes_rubbish_into_its_room_hurts_its_own_calls_alone() {
    let agent = served();
    agent.node().serve_calls(Arc::new(Echo));
    let other = client(&agent, "other");
    let head = CallHeader {
        region: RegionId(0),
        reply_at: 0,
        reply_bytes: 64,
    };
    let rubbish = |label, head, bytes, at, imm| ForgedRequest {
        label,
        head,
        bytes,
        at,
        imm,
        noticed_by: ConnectionEnder::Owner,
    };
    let by_nic = |rubbish| ForgedRequest {
        noticed_by: ConnectionEnder::Nic,
        ..rubbish
    };
    let last = (ROOM / 64 - 1) as u16;
    let mut all = [
        rubbish(
            "a number that is not the next",
            head,
            16,
            0,
            request_imm(7, 0),
        ),
        rubbish("a number that was", head, 16, 0, request_imm(0, 0)),
        rubbish(
            "no granule of the room",
            head,
            16,
            0,
            request_imm(1, last + 1),
        ),
        rubbish(
            "past the end of the room",
            head,
            80,
            0,
            request_imm(1, last),
        ),
        rubbish("a request without its head", head, 7, 0, request_imm(1, 0)),
        rubbish("no bytes", head, 0, 0, request_imm(1, 0)),
        by_nic(rubbish(
            "past the room's memory",
            head,
            64,
            ROOM as u64 - 8,
            request_imm(1, last),
        )),
        by_nic(rubbish(
            "before the room's memory",
            head,
            64,
            u64::MAX - 63,
            request_imm(1, 0),
        )),
        rubbish(
            "a reply past the end of its room",
            CallHeader {
                reply_at: last,
                reply_bytes: 65,
                ..head
            },
            16,
            0,
            request_imm(1, 0),
        ),
        rubbish(
            "a reply longer than any",
            CallHeader {
                reply_bytes: u32::MAX,
                ..head
            },
            16,
            0,
            request_imm(1, 0),
        ),
        ForgedRequest {
            noticed_by: ConnectionEnder::Client,
            ..rubbish(
                "bytes of which it says nothing",
                head,
                64,
                4096,
                request_imm(1, 64),
            )
        },
    ];
    // A late count of the others' would be taken for one of these.
    all.sort_by_key(|rubbish| rubbish.noticed_by != ConnectionEnder::Owner);
    let mut malformed = 0;
    for ForgedRequest {
        label,
        head,
        bytes,
        at: to,
        imm,
        noticed_by,
    } in all
    {
        let bad = client(&agent, "default");
        assert_eq!(&*call(&bad, b"zero").unwrap(), b"zero");
        let endpoint = bad.endpoint();
        let mut buffer = endpoint.core().buffers.take(bytes).unwrap();
        buffer.words_mut().fill(0x0123_4567_89ab_cdef);
        if let Some(first) = buffer.words_mut().first_mut() {
            *first = head.encode();
        }
        let mut peer = endpoint.peers.get(NODE).unwrap().borrow_mut();
        assert!(peer.calls.write_raw(to, &buffer, imm), "{label}");
        drop(peer);
        // Its own next call fails, unless a new connection was there before.
        match call(&bad, b"next") {
            Ok(reply) => assert_eq!(&*reply, b"next"),
            Err(FabricError::NodeStopped { .. }) => {}
            Err(FabricError::Protocol { .. }) if noticed_by == ConnectionEnder::Client => {}
            Err(other) => panic!("{label}: {other}"),
        }
        if noticed_by == ConnectionEnder::Owner {
            malformed += 1;
            wait_until(label, || agent.counters().malformed == malformed);
        }
        // Others do not notice, nor does it when it begins anew.
        assert_eq!(&*call(&other, label.as_bytes()).unwrap(), label.as_bytes());
        wait_until_up(&bad);
        assert_eq!(&*call(&bad, b"again").unwrap(), b"again");
        assert_eq!(bad.block_on(endpoint.fetch_add(at(0), 0)), Ok(0), "{label}");
        assert!(agent.is_serving(), "{label}");
    }
}

#[test]
#[ignore = "needs an RDMA device: scripts/test-verbs runs it"]
fn channels_that_have_ended_make_room_for_others() {
    let agent = served();
    agent.node().serve_calls(Arc::new(Echo));
    for round in 0..40u32 {
        let executor = client(&agent, "default");
        let name = round.to_le_bytes();
        assert_eq!(&*call(&executor, &name).unwrap(), name);
        drop(executor);
    }
    wait_until("given back", || agent.open_calls() == 0);
}
