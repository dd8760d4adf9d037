//! Calls over queue pairs: their sizes, their ends, and whom they are refused.

use crate::{at, client, client_with, node, patient, served, wait_until};
use farslot_fabric::tcp::Grant;
use farslot_fabric::verbs::{
    Agent, ConnectOptions, ServeOptions, VerbsAgentOptions, VerbsEndpoint, VerbsOptions,
};
use farslot_fabric::*;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

const REGION: (NodeId, RegionId) = (NodeId(0), RegionId(0));
/// The longest request and the longest reply.
const LONGEST: usize = (1 << 20) - 8;

/// Replies with the request, each byte one more, as often as there is room; counts.
#[derive(Default)]
struct Echo {
    /// Calls that were begun.
    calls: AtomicUsize,
    /// Held while a call is answered.
    gate: Mutex<()>,
}

impl Handler for Echo {
    fn handle(&self, call: Call<'_>) -> CallAnswer {
        self.calls.fetch_add(1, SeqCst);
        let _open = self.gate.lock().unwrap();
        let request = call.request.iter().cycle().take(call.reply.len());
        let mut bytes = 0;
        for (into, byte) in call.reply.iter_mut().zip(request) {
            *into = byte.wrapping_add(1);
            bytes += 1;
        }
        CallAnswer::Now(bytes)
    }
}

fn echo(agent: &Agent) -> Arc<Echo> {
    let echo = Arc::new(Echo::default());
    agent.node().serve_calls(Arc::<Echo>::clone(&echo));
    echo
}

fn request(endpoint: &VerbsEndpoint, len: usize, seed: u8) -> Buffer {
    let mut request = endpoint.core().buffers.take(len).unwrap();
    for (number, byte) in request.iter_mut().enumerate() {
        *byte = (number as u8).wrapping_mul(31) ^ (number >> 8) as u8 ^ seed;
    }
    request
}

fn assert_reply(reply: &[u8], len: usize, room: usize, seed: u8) {
    assert_eq!(reply.len(), if len == 0 { 0 } else { room });
    for (number, byte) in reply.iter().enumerate() {
        let at = number % len;
        let expected = ((at as u8).wrapping_mul(31) ^ (at >> 8) as u8 ^ seed).wrapping_add(1);
        assert_eq!(*byte, expected, "byte {number} of {room}, of {len}");
    }
}

#[test]
fn requests_and_replies_of_all_sizes_up_to_the_limit_and_none_above() {
    let (_node, agent) = served(4096);
    let echo = echo(&agent);
    let executor = client(&agent);
    let endpoint = executor.endpoint();
    executor.block_on(async {
        let sizes = [
            0, 1, 7, 8, 9, 55, 56, 57, 63, 64, 65, 119, 120, 121, 4087, 4088, 4096, 65_537, LONGEST,
        ];
        let mut seed = 0;
        for len in sizes {
            for room in [0, 1, 31, 32, 33, 64, 5000, LONGEST] {
                // Of the longest, the pairs that tell something.
                if len + room > LONGEST + 5000 && len != room {
                    continue;
                }
                seed += 1;
                let call = endpoint.call(REGION, request(endpoint, len, seed), room);
                assert_reply(&call.await.unwrap(), len, room, seed);
            }
        }
        let before = echo.calls.load(SeqCst);
        for (len, room) in [(LONGEST + 1, 8), (8, LONGEST + 1), (2 << 20, 2 << 20)] {
            let call = endpoint.call(REGION, request(endpoint, len, 0), room);
            let too_large = FabricError::BufferTooLarge {
                requested: len.max(room),
                limit: LONGEST,
            };
            assert_eq!(call.await.map(drop), Err(too_large));
        }
        // Nothing was sent, and the connection is as it was: other verbs take what calls do not.
        assert_eq!(echo.calls.load(SeqCst), before);
        assert_eq!(endpoint.fetch_add(at(8), 3).await, Ok(0));
        let call = endpoint.call(REGION, request(endpoint, 100, 1), 100);
        assert_reply(&call.await.unwrap(), 100, 100, 1);
    });
    let counters = agent.counters();
    let calls = counters.verbs_by[VerbKind::Call as usize];
    assert_eq!(calls, echo.calls.load(SeqCst) as u64);
    assert_eq!(counters.failed_verbs, 0);
}

#[test]
fn many_calls_of_many_clients_side_by_side() {
    const CLIENTS: usize = 12;
    const EACH: usize = 300;
    let (_node, agent) = served(4096);
    let echo = echo(&agent);
    std::thread::scope(|scope| {
        for client_number in 0..CLIENTS {
            let agent = &agent;
            scope.spawn(move || {
                let executor = client(agent);
                let endpoint = executor.endpoint();
                // Fewer than there are slots, as many, and more.
                let width = [5, 64, 200][client_number % 3];
                let calls = (0..EACH).map(async |number| {
                    let seed = (client_number * 7 + number) as u8;
                    // Some are so large that rooms are full of them.
                    let len = match number % 10 {
                        0 => 90_000 + number * 100,
                        part => 1 + (number * 37 + part) % 900,
                    };
                    let room = (len / 2 + number % 300).max(1);
                    let call = endpoint.call(REGION, request(endpoint, len, seed), room);
                    assert_reply(&call.await.unwrap(), len, room, seed);
                });
                executor.block_on(window(width, calls, |_, ()| ()));
            });
        }
    });
    assert_eq!(echo.calls.load(SeqCst), CLIENTS * EACH);
    wait_until("let go", || agent.counters().connections == 0);
}

/// Refuses callers that may not write the region's first word; else tells what that is.
struct Careful;

impl Handler for Careful {
    fn handle(&self, call: Call<'_>) -> CallAnswer {
        CallAnswer::Now(match call.caller.check(0..8, Rights::WRITE) {
            Ok(()) => {
                call.reply[..8].copy_from_slice(&call.memory.load(0).unwrap().to_le_bytes());
                8
            }
            Err(_) => {
                assert!(call.caller.check(0..8, Rights::READ).is_ok());
                assert!(call.caller.check(0..8192, Rights::READ).is_err());
                0
            }
        })
    }

    fn checks_callers(&self) -> bool {
        true
    }
}

#[test]
fn callers_are_held_to_their_rights() {
    let (node, agent) = served(4096);
    let reading = Grant::limited("reading", None, node.info(), Rights::READ);
    agent.grant(&reading).unwrap();
    let reading = VerbsOptions::from(ConnectOptions {
        grant: "reading".into(),
        ..patient().connect
    });
    let (writer, reader) = (client(&agent), client_with(&agent, &reading));
    let call = |executor: &Executor<VerbsEndpoint>, region| {
        let endpoint = executor.endpoint();
        let call = endpoint.call((NodeId(0), region), request(endpoint, 5, 0), 16);
        executor.block_on(call).map(|reply| reply.to_vec())
    };
    let (node_id, region) = REGION;
    let silent = FabricError::NoHandler {
        node: node_id,
        region,
    };
    assert_eq!(call(&writer, region), Err(silent));
    node.serve_calls(Arc::new(Careful));
    assert_eq!(
        writer.block_on(writer.endpoint().fetch_add(at(0), 77)),
        Ok(0)
    );
    assert_eq!(call(&writer, region).unwrap(), 77u64.to_le_bytes());
    assert!(call(&reader, region).unwrap().is_empty());
    // One that leaves it to the fabric is not called by a client without the right.
    let echo = echo(&agent);
    assert_eq!(
        call(&reader, region),
        Err(FabricError::AccessDenied {
            at: at(0),
            needed: Rights::CALL,
            granted: Rights::READ,
        })
    );
    assert_eq!(echo.calls.load(SeqCst), 0);
    assert_eq!(call(&writer, region).unwrap().len(), 16);
    let unknown = FabricError::UnknownRegion {
        node: node_id,
        region: RegionId(1),
        regions: 1,
    };
    assert_eq!(call(&writer, RegionId(1)), Err(unknown));
    assert_eq!(agent.counters().failed_verbs, 2);
}

/// A client whose calls are given up after so long.
fn impatient(agent: &Agent, verb_timeout: Nanos) -> Executor<VerbsEndpoint> {
    let limits = Limits {
        verb_timeout,
        ..crate::PATIENT
    };
    client_with(
        agent,
        &VerbsOptions::from(ConnectOptions {
            limits,
            ..patient().connect
        }),
    )
}

#[test]
fn calls_that_are_not_answered_in_time_are_in_doubt_and_none_begins_behind_a_later_one() {
    const TIMEOUT: Nanos = 300_000_000;
    let (_node, agent) = served(4096);
    let echo = echo(&agent);
    let executor = impatient(&agent, TIMEOUT);
    let endpoint = executor.endpoint();
    let held = echo.gate.lock().unwrap();
    let node = NodeId(0);
    // Where the agent gets no processor in time none is begun: then others are sent.
    while echo.calls.load(SeqCst) == 0 {
        let calls = (0..100).map(|number| endpoint.call(REGION, request(endpoint, 9, number), 9));
        let mut ends = Vec::new();
        executor.block_on(window(100, calls, |_, end| ends.push(end.map(drop))));
        let after = TIMEOUT;
        assert_eq!(ends, vec![Err(FabricError::TimedOut { node, after }); 100]);
        wait_until("begun, or up again", || {
            echo.calls.load(SeqCst) > 0 || endpoint.is_up(node)
        });
    }
    drop(held);
    // By a new connection, before which what was left of the old one is at an end.
    wait_until("up again", || endpoint.is_up(node));
    let begun = echo.calls.load(SeqCst);
    let call = endpoint.call(REGION, request(endpoint, 9, 1), 9);
    assert_reply(&executor.block_on(call).unwrap(), 9, 9, 1);
    assert_eq!(echo.calls.load(SeqCst), begun + 1);
}

#[test]
fn calls_of_an_agent_that_ends_are_done_or_in_doubt() {
    let (node, agent) = served(4096);
    let echo = echo(&agent);
    let executor = client(&agent);
    let endpoint = executor.endpoint();
    let first = endpoint.call(REGION, request(endpoint, 9, 1), 9);
    assert_reply(&executor.block_on(first).unwrap(), 9, 9, 1);
    let mut agent = Some(agent);
    let (mut done, lost) = (1, Cell::new(0));
    std::thread::scope(|scope| {
        let calls = (0..=u8::MAX).cycle().take_while(|_| lost.get() == 0);
        let calls = calls.map(|number| endpoint.call(REGION, request(endpoint, 9, number), 9));
        executor.block_on(window(100, calls, |_, end| match end {
            Ok(_) => {
                done += 1;
                if let Some(agent) = (done == 50).then(|| agent.take()).flatten() {
                    scope.spawn(move || drop(agent));
                }
            }
            Err(error) => {
                let node = NodeId(0);
                assert!(
                    matches!(error, FabricError::NodeStopped { node: of, .. } if of == node),
                    "{error}"
                );
                lost.set(lost.get() + 1);
            }
        }));
    });
    let lost = lost.get();
    let begun = echo.calls.load(SeqCst);
    assert!(
        lost > 0 && begun >= done,
        "{done} done, {lost} lost, {begun} begun"
    );
    // Another agent of the same memory, at another address.
    let again = Agent::start(node, &VerbsAgentOptions::default()).unwrap();
    let executor = client(&again);
    let endpoint = executor.endpoint();
    let call = endpoint.call(REGION, request(endpoint, 9, 1), 9);
    assert_reply(&executor.block_on(call).unwrap(), 9, 9, 1);
}

#[test]
fn a_node_that_came_back_empty_is_not_called_before_it_is_adopted() {
    let (_node, agent) = served(4096);
    echo(&agent);
    let executor = client(&agent);
    let endpoint = executor.endpoint();
    let call = |len| {
        let call = endpoint.call(REGION, request(endpoint, len, 1), 9);
        executor.block_on(call).map(|reply| reply.len())
    };
    assert_eq!(call(3), Ok(9));
    let address = agent.address().to_string();
    drop(agent);
    let id = NodeId(0);
    let stopped = call(3);
    assert!(
        matches!(stopped, Err(FabricError::NodeStopped { node, .. }) if node == id),
        "{stopped:?}"
    );
    let options = VerbsAgentOptions::from(ServeOptions {
        listen: address,
        grants: vec![Grant::everything(None)],
        ..ServeOptions::default()
    });
    let agent = Agent::start(node(4096, Rights::ALL), &options).unwrap();
    let second = echo(&agent);
    wait_until("known to be another", || {
        matches!(endpoint.node_state(id), Ok(NodeState::Restarted { .. }))
    });
    assert!(matches!(call(3), Err(FabricError::NodeRestarted { .. })));
    assert_eq!(second.calls.load(SeqCst), 0);
    endpoint.adopt(id).unwrap();
    assert_eq!(call(3), Ok(9));
    assert_eq!(second.calls.load(SeqCst), 1);
}

#[test]
fn clients_of_a_revoked_grant_call_no_more_and_others_do() {
    let (_node, agent) = served(4096);
    let other = Grant {
        name: "other".into(),
        ..Grant::everything(None)
    };
    agent.grant(&other).unwrap();
    let other = VerbsOptions::from(ConnectOptions {
        grant: "other".into(),
        ..patient().connect
    });
    let echo = echo(&agent);
    let (revoked, other) = (client(&agent), client_with(&agent, &other));
    let endpoint = Rc::clone(revoked.endpoint());
    let (mut done, mut refused, mut doubtful) = (0, 0, 0);
    let calls =
        (0..400).map(|number| endpoint.call(REGION, request(&endpoint, 9, number as u8), 9));
    revoked.block_on(window(100, calls, |_, end| match end {
        Ok(_) => {
            done += 1;
            if done == 40 {
                assert!(agent.revoke("default"));
            }
        }
        Err(FabricError::GrantRevoked { .. }) => refused += 1,
        Err(error) => {
            assert!(error.may_have_taken_effect(), "{error}");
            doubtful += 1;
        }
    }));
    let begun = echo.calls.load(SeqCst);
    let counts = format!("{done} done, {refused} refused, {doubtful} in doubt, {begun} begun");
    assert!(refused > 0 && done >= 40, "{counts}");
    assert!((done..=done + doubtful).contains(&begun), "{counts}");
    let call = endpoint.call(REGION, request(&endpoint, 9, 1), 9);
    let gone = FabricError::GrantRevoked { node: NodeId(0) };
    assert_eq!(revoked.block_on(call).map(drop), Err(gone));
    let call = |executor: &Executor<VerbsEndpoint>| {
        let endpoint = executor.endpoint();
        let call = endpoint.call(REGION, request(endpoint, 9, 1), 9);
        assert_reply(&executor.block_on(call).unwrap(), 9, 9, 1);
    };
    call(&other);
    agent.grant(&Grant::everything(None)).unwrap();
    wait_until("up again", || endpoint.is_up(NodeId(0)));
    call(&revoked);
    assert_eq!(echo.calls.load(SeqCst), begun + 2);
}

#[test]
fn an_endpoint_that_is_dropped_finishes_its_calls() {
    let (_node, agent) = served(4096);
    let echo = echo(&agent);
    let executor = client(&agent);
    let endpoint = Rc::clone(executor.endpoint());
    for number in 0..150 {
        let endpoint = Rc::clone(&endpoint);
        drop(executor.spawn(async move {
            let request = request(&endpoint, 20, number);
            endpoint.call(REGION, request, 20).await
        }));
    }
    executor.block_on(async {});
    executor.run_ready();
    drop((executor, endpoint));
    assert_eq!(echo.calls.load(SeqCst), 150);
}
