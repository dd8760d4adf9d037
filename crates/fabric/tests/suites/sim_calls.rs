//! Calls over the simulated fabric: what they do, what they cost, and what faults make of them.

use farslot_fabric::sim::{
    Chance, ClientStop, FaultPlan, FaultTime, NicProfile, NodeConfig, NodePause, NodeStop,
    Partition, RunEnd, Side, Simulation, World,
};
use farslot_fabric::{
    Call, CallAnswer, Endpoint, EndpointExt, Executor, FabricError, Handler, Limits, NodeId,
    RegionId, RemoteAddr, Rights, VerbKind, both, window,
};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

const NODE: (NodeId, RegionId) = (NodeId(0), RegionId(0));
/// Words that [`Counter`] counts in, one after the other.
const WORDS: u64 = 8;

fn at(offset: u64) -> RemoteAddr {
    RemoteAddr {
        node: NODE.0,
        region: NODE.1,
        offset,
    }
}

fn world(seed: u64) -> World {
    let world = World::new(seed, NicProfile::connectx5_edr());
    world.add_node(&[(4096, Rights::ALL), (64, Rights::READ)]);
    world
}

/// Adds 1 to each of the first words and replies the sum before, and the request.
struct Counter {
    executed: Arc<AtomicU64>,
    /// One process counts without a gap: a restarted one has another handler.
    expected: Mutex<u64>,
}

impl Counter {
    fn serve(world: &World) -> Arc<AtomicU64> {
        let executed = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&executed);
        world.node_handle(NODE.0).serve_calls(move || {
            Arc::new(Self {
                executed: Arc::clone(&counted),
                expected: Mutex::new(0),
            })
        });
        executed
    }
}

impl Handler for Counter {
    fn handle(&self, call: Call<'_>) -> CallAnswer {
        self.executed.fetch_add(1, Relaxed);
        let mut expected = self.expected.lock().unwrap();
        for word in 0..WORDS {
            let count = call.memory.load(word * 8).unwrap();
            assert_eq!(
                count, *expected,
                "a handler sees what those before it stored"
            );
            call.memory.store(word * 8, count + 1).unwrap();
        }
        let before = expected.to_le_bytes();
        *expected += 1;
        let reply = before.iter().chain(call.request);
        let mut len = 0;
        for (to, from) in call.reply.iter_mut().zip(reply) {
            *to = *from;
            len += 1;
        }
        CallAnswer::Now(len)
    }
}

#[test]
fn a_call_is_answered_and_a_wrong_one_is_told_what_is_wrong() {
    let world = world(1);
    let endpoint = world.endpoint(Limits::default());
    let executor = Executor::new(endpoint.clone());
    let request = || endpoint.core().buffers.copy_of(b"five!").unwrap();
    let call = |to, room| executor.block_on(endpoint.call(to, request(), room));
    assert_eq!(
        call(NODE, 64).unwrap_err(),
        FabricError::NoHandler {
            node: NODE.0,
            region: NODE.1
        }
    );
    Counter::serve(&world);
    assert_eq!(&*call(NODE, 64).unwrap(), b"\0\0\0\0\0\0\0\0five!");
    // A reply is never longer than the room for it.
    assert_eq!(&*call(NODE, 10).unwrap(), b"\x01\0\0\0\0\0\0\0fi");
    assert_eq!(call(NODE, 0).unwrap().len(), 0);
    let denied = call((NODE.0, RegionId(1)), 64).unwrap_err();
    assert!(
        matches!(
            denied,
            FabricError::AccessDenied {
                needed: Rights::CALL,
                granted: Rights::READ,
                ..
            }
        ),
        "{denied}"
    );
    let unknown = call((NODE.0, RegionId(2)), 64).unwrap_err();
    assert!(matches!(unknown, FabricError::UnknownRegion { .. }));
    let counters = endpoint.core().counters.snapshot();
    assert_eq!(counters.verbs_of(VerbKind::Call), 4);
    assert_eq!((counters.bytes_written, counters.bytes_read), (4 * 5, 23));
}

#[test]
fn a_call_costs_two_messages_and_the_owners_time() {
    let world = world(1);
    Counter::serve(&world);
    let endpoint = world.endpoint(Limits::default());
    let executor = Executor::new(endpoint.clone());
    let timed = |of: &dyn Fn()| {
        let before = world.now_picos();
        of();
        (world.now_picos() - before) as f64 / 1e3
    };
    let read = timed(&|| drop(executor.block_on(endpoint.read(at(0), 128))));
    let call = timed(&|| {
        let request = endpoint.core().buffers.take(128).unwrap();
        drop(executor.block_on(endpoint.call(NODE, request, 128)));
    });
    let profile = NicProfile::connectx5_edr();
    // The request's bytes travel as well; the owner polls, handles and posts; the reply is served
    // by two NICs.
    let owner = profile.handler_ns + profile.doorbell_ns + profile.post_ns;
    let extra = call - read - owner;
    assert!((0.0..60.0).contains(&extra), "{read} {call}");
}

#[test]
fn owners_threads_take_one_call_each_at_a_time() {
    let rate = |owner_threads| {
        let world = World::new(7, NicProfile::connectx5_edr());
        world.add_node_with(&NodeConfig {
            owner_threads,
            ..NodeConfig::new(&[(4096, Rights::ALL)])
        });
        Counter::serve(&world);
        let mut sim = Simulation::new(world);
        for _ in 0..4 {
            sim.spawn_client(async move |endpoint| {
                let calls = (0..500).map(|_| {
                    let request = endpoint.core().buffers.take(32).unwrap();
                    endpoint.call(NODE, request, 32)
                });
                window(16, calls, |_, reply| drop(reply.unwrap())).await;
            });
        }
        assert_eq!(sim.run(), RunEnd::Done);
        2000.0 / sim.world().now() as f64
    };
    let profile = NicProfile::connectx5_edr();
    let one = 1.0 / (profile.handler_ns + profile.doorbell_ns + profile.post_ns);
    assert!((rate(1) / one - 1.0).abs() < 0.05, "{}", rate(1));
    assert!((rate(3) / one - 3.0).abs() < 0.2, "{}", rate(3));
}

#[test]
fn reads_of_a_doorbell_do_not_wait_for_its_call() {
    let world = world(3);
    Counter::serve(&world);
    let endpoint = world.endpoint(Limits::default());
    let executor = Executor::new(endpoint.clone());
    let order = executor.block_on(async {
        let order = std::cell::RefCell::new(Vec::new());
        let request = endpoint.core().buffers.take(8).unwrap();
        let call = async {
            endpoint.call(NODE, request, 64).await.unwrap();
            order.borrow_mut().push("call");
        };
        let read = async {
            endpoint.read(at(0), 64).await.unwrap();
            order.borrow_mut().push("read");
        };
        farslot_fabric::both(call, read).await;
        order.into_inner()
    });
    assert_eq!(order, ["read", "call"]);
    assert_eq!(endpoint.core().counters.snapshot().doorbells, 1);
}

/// Some faults of every kind that a call may meet.
fn faults(seed: u64) -> FaultPlan {
    let mut plan = FaultPlan::chaos(seed, 0.8);
    plan.refuse_at_once = seed.is_multiple_of(2);
    if !seed.is_multiple_of(3) {
        plan.node_stops.push(NodeStop {
            node: NODE.0,
            when: FaultTime::AfterVerbs(40 + seed % 50),
            back_after: Some(100_000),
        });
    }
    if !seed.is_multiple_of(5) {
        plan.client_stops.push(ClientStop {
            client: farslot_fabric::sim::ClientId(1),
            when: FaultTime::AfterVerbs(20 + seed % 7),
        });
    }
    if seed % 7 > 2 {
        plan.partitions.push(Partition {
            side: Side::Client(farslot_fabric::sim::ClientId(2)),
            node: NODE.0,
            from: 20_000,
            until: 60_000,
        });
    }
    plan
}

#[derive(Default)]
struct Seen {
    replies: AtomicU64,
    posted: AtomicU64,
    mixed: AtomicU64,
}

fn run_under_faults(seed: u64, seen: &Arc<Seen>) -> u64 {
    let world = world(seed);
    let executed = Counter::serve(&world);
    world.set_faults(faults(seed));
    let before = (seen.replies.load(Relaxed), seen.posted.load(Relaxed));
    let mut sim = Simulation::new(world);
    for _ in 0..4 {
        let seen = Arc::clone(seen);
        let limits = Limits {
            verb_timeout: 50_000,
            ..Limits::default()
        };
        let client = sim.add_client(farslot_fabric::sim::HostId(0), limits);
        sim.spawn(client, async move |endpoint| {
            let mut newest = 0;
            for _ in 0..40 {
                let request = endpoint.core().buffers.copy_of(&[7; 24]).unwrap();
                seen.posted.fetch_add(1, Relaxed);
                match endpoint.call(NODE, request, 64).await {
                    Ok(reply) => {
                        seen.replies.fetch_add(1, Relaxed);
                        assert_eq!(reply[8..], [7; 24]);
                        let count = u64::from_le_bytes(reply[..8].try_into().unwrap());
                        assert!(count >= newest, "{count} {newest}");
                        newest = count + 1;
                    }
                    Err(error) => {
                        newest = 0;
                        let _ = endpoint.adopt(NODE.0);
                        // What was not sent is not executed.
                        let unsent = !error.may_have_taken_effect();
                        let is_known =
                            matches!(error, FabricError::NodeStopped { sent: false, .. });
                        assert_eq!(unsent, is_known, "{error}");
                        seen.posted.fetch_sub(unsent.into(), Relaxed);
                        endpoint.sleep(5_000).await;
                    }
                }
                // The words are stored in order: who sees the last of them sees the first.
                let last = endpoint.read(at(8 * (WORDS - 1)), 8).await;
                let first = endpoint.read(at(0), 8).await;
                if let (Ok(last), Ok(first)) = (last, first) {
                    let (last, first) = (last.words()[0], first.words()[0]);
                    assert!(first >= last && last >= newest, "{first} {last} {newest}");
                }
                if let Ok(all) = endpoint.read(at(0), 8 * WORDS as usize).await {
                    let mixed = all.words().windows(2).any(|pair| pair[0] != pair[1]);
                    seen.mixed.fetch_add(mixed.into(), Relaxed);
                }
            }
        });
    }
    assert_eq!(sim.run(), RunEnd::Done, "seed {seed}");
    let (replies, posted) = (seen.replies.load(Relaxed), seen.posted.load(Relaxed));
    let (replies, posted) = (replies - before.0, posted - before.1);
    let executed = executed.load(Relaxed);
    assert!(
        replies <= executed && executed <= posted,
        "seed {seed}: {replies} {executed} {posted}"
    );
    sim.world().digest()
}

#[test]
fn under_faults_a_call_is_executed_once_or_not_and_its_stores_appear_in_order() {
    let seen = Arc::default();
    let digests: Vec<_> = (0..60).map(|seed| run_under_faults(seed, &seen)).collect();
    assert!(
        seen.mixed.load(Relaxed) > 100,
        "readers met stores half done"
    );
    assert!(seen.replies.load(Relaxed) > 60 * 80);
    assert!(seen.replies.load(Relaxed) < seen.posted.load(Relaxed));
    let again: Vec<_> = (0..10).map(|seed| run_under_faults(seed, &seen)).collect();
    assert_eq!(digests[..10], again);
}

/// Replies the word that the client wrote before it called.
struct Reader;

impl Handler for Reader {
    fn handle(&self, call: Call<'_>) -> CallAnswer {
        let word = call.memory.load(64).unwrap();
        call.reply.copy_from_slice(&word.to_le_bytes());
        CallAnswer::Now(8)
    }
}

#[test]
fn a_handler_sees_what_its_caller_wrote_before() {
    for seed in 0..50 {
        let world = world(seed);
        world.node_handle(NODE.0).serve_calls(|| Arc::new(Reader));
        world.set_faults(FaultPlan::chaos(seed, 1.0));
        let endpoint = world.endpoint(Limits::default());
        let seen = Executor::new(endpoint.clone()).block_on(async {
            let data = endpoint
                .core()
                .buffers
                .copy_of(&seed.to_le_bytes())
                .unwrap();
            endpoint.write(at(64), data).await.unwrap();
            let request = endpoint.core().buffers.take(0).unwrap();
            endpoint.call(NODE, request, 8).await.unwrap()
        });
        assert_eq!(seen.words(), [seed], "seed {seed}");
    }
}

/// Replies its clock.
struct Clock;

impl Handler for Clock {
    fn handle(&self, call: Call<'_>) -> CallAnswer {
        call.reply.copy_from_slice(&call.now.to_le_bytes());
        CallAnswer::Now(8)
    }
}

#[test]
fn calls_wait_for_processes_that_are_suspended_and_reads_do_not() {
    let world = world(1);
    world.node_handle(NODE.0).serve_calls(|| Arc::new(Clock));
    let pause = |from, until| NodePause {
        node: NODE.0,
        from,
        until,
    };
    world.set_faults(FaultPlan {
        // The second one comes while a thread has taken a call, and looked at its clock.
        node_pauses: vec![pause(0, 50_000), pause(50_001, 90_000)],
        ..FaultPlan::default()
    });
    let endpoint = world.endpoint(Limits::default());
    Executor::new(endpoint.clone()).block_on(async {
        let request = endpoint.core().buffers.take(0).unwrap();
        let call = endpoint.call(NODE, request, 8);
        let read = async {
            endpoint.read(at(0), 8).await.unwrap();
            assert!(endpoint.now() < 10_000);
        };
        let (reply, ()) = both(call, read).await;
        let clock = reply.unwrap().words()[0];
        assert!((50_000..60_000).contains(&clock), "{clock}");
        assert!(endpoint.now() > 90_000);
    });
}

#[test]
fn a_late_call_is_executed_after_its_client_was_told_that_it_timed_out() {
    for seed in 0..50 {
        let world = world(seed);
        let executed = Counter::serve(&world);
        world.set_faults(FaultPlan {
            late_calls: Chance {
                probability: 1.0,
                up_to_ns: 1_000_000,
            },
            ..FaultPlan::default()
        });
        let endpoint = world.endpoint(Limits::default());
        let executor = Executor::new(endpoint.clone());
        let call = || {
            let request = endpoint.core().buffers.take(0).unwrap();
            executor.block_on(endpoint.call(NODE, request, 64))
        };
        let end = call();
        assert!(matches!(end, Err(FabricError::TimedOut { .. })), "{end:?}");
        assert_eq!(executed.load(Relaxed), 0);
        world.set_faults(FaultPlan::default());
        // What is posted after it is executed before it.
        assert_eq!(call().unwrap().words()[0], 0);
        assert_eq!(executed.load(Relaxed), 1);
        world.advance_to(world.now() + 1_000_000);
        assert_eq!(executed.load(Relaxed), 2);
        assert_eq!(world.verbs_under_way(), 0, "seed {seed}");
    }
}
