//! Calls over the simulated fabric that are answered later: when, in which order, and what faults
//! make of them.

use farslot_fabric::sim::{
    Chance, ClientId, ClientStop, FaultPlan, FaultTime, HostId, NicProfile, NodeConfig, NodePause,
    NodeStop, Partition, RunEnd, Side, SimNode, Simulation, World,
};
use farslot_fabric::{
    Call, CallAnswer, Endpoint, EndpointExt, Executor, FabricError, Handler, Limits, Nanos, NodeId,
    OwnerMemory, RegionId, RemoteAddr, Rights, Ticket, window,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

const NODE: (NodeId, RegionId) = (NodeId(0), RegionId(0));
const TIMEOUT: Nanos = 100_000_000;

fn world(seed: u64) -> World {
    let world = World::new(seed, NicProfile::connectx5_edr());
    world.add_node(&[(4096, Rights::ALL)]);
    world
}

fn limits() -> Limits {
    Limits {
        verb_timeout: TIMEOUT,
        ..Limits::default()
    }
}

/// A ticket that is kept, when it is to be answered, and with what.
struct Kept {
    due: Nanos,
    reply: Vec<u8>,
    ticket: Ticket,
}

/// Replies how many calls there were before, and the request: of most calls up to 50 ms later, of
/// some at once, of some never.
struct Postponing {
    random: Mutex<ChaCha8Rng>,
    /// One in so many is let go of.
    drops: u32,
    kept: Arc<Mutex<Vec<Kept>>>,
    executed: Arc<AtomicU64>,
}

impl Handler for Postponing {
    fn handle(&self, call: Call<'_>) -> CallAnswer {
        let before = self.executed.fetch_add(1, Relaxed).to_le_bytes();
        let reply = [&before, call.request].concat();
        let mut random = self.random.lock().unwrap();
        match random.random_range(0..self.drops) {
            0 => CallAnswer::Later(call.later().1),
            fate if fate % 4 == 1 => {
                call.reply[..reply.len()].copy_from_slice(&reply);
                CallAnswer::Now(reply.len())
            }
            _ => {
                let (ticket, later) = call.later();
                let due = call.now + random.random_range(0..50_000_000);
                let kept = Kept { due, reply, ticket };
                self.kept.lock().unwrap().push(kept);
                CallAnswer::Later(later)
            }
        }
    }
}

/// A simulation whose node answers later, by a task.
struct Bed {
    sim: Simulation,
    kept: Arc<Mutex<Vec<Kept>>>,
    executed: Arc<AtomicU64>,
}

fn postponing(seed: u64, drops: u32) -> Bed {
    let world = World::new(seed, NicProfile::connectx5_edr());
    world.add_node_with(&NodeConfig {
        owner_threads: 1 + seed as u32 % 3,
        ..NodeConfig::new(&[(4096, Rights::ALL)])
    });
    let (kept, executed) = (Arc::<Mutex<Vec<_>>>::default(), Arc::default());
    let (of_handler, counted) = (Arc::clone(&kept), Arc::clone(&executed));
    world.node_handle(NODE.0).serve_calls(move || {
        Arc::new(Postponing {
            random: Mutex::new(ChaCha8Rng::seed_from_u64(seed)),
            drops,
            kept: Arc::clone(&of_handler),
            executed: Arc::clone(&counted),
        })
    });
    let mut sim = Simulation::new(world);
    let answering = sim.add_background_client(HostId(0), limits());
    let to_answer = Arc::clone(&kept);
    sim.spawn(answering, async move |endpoint| {
        loop {
            endpoint.sleep(500_000).await;
            let now = endpoint.now();
            let is_due = |kept: &mut Kept| kept.due <= now;
            let due: Vec<Kept> = to_answer.lock().unwrap().extract_if(.., is_due).collect();
            for Kept { reply, ticket, .. } in due {
                ticket.answer(reply);
            }
        }
    });
    Bed {
        sim,
        kept,
        executed,
    }
}

#[test]
fn answers_come_at_their_times_and_in_the_order_of_each_client() {
    for seed in 0..50 {
        let Bed { mut sim, kept, .. } = postponing(seed, u32::MAX);
        for width in [1, 8, 40] {
            let client = sim.add_client(HostId(0), limits());
            sim.spawn(client, async move |endpoint| {
                let calls = (0..60u64).map(|number| {
                    let request = endpoint.core().buffers.copy_of(&number.to_le_bytes());
                    endpoint.call(NODE, request.unwrap(), 64)
                });
                let mut seen = Vec::new();
                window(width, calls, |number, reply| {
                    let reply = reply.unwrap();
                    assert_eq!(reply.words()[1], number as u64);
                    seen.push((endpoint.now(), reply.words()[0]));
                })
                .await;
                // What has come by one turn is told in any order.
                seen.sort_unstable();
                assert!(seen.is_sorted_by_key(|(_, count)| count), "{seen:?}");
                // One after the other they take about 20 ms each, side by side much less.
                let each = endpoint.now() / 60;
                let expected = [
                    8_000_000..50_000_000,
                    3_000_000..9_000_000,
                    800_000..3_500_000,
                ];
                let at = [1, 8, 40].iter().position(|of| *of == width).unwrap();
                assert!(expected[at].contains(&each), "seed {seed}: {width} {each}");
            });
        }
        assert_eq!(sim.run(), RunEnd::Done, "seed {seed}");
        assert!(kept.lock().unwrap().is_empty());
        assert_eq!(sim.world().verbs_under_way(), 0);
    }
}

fn faults(seed: u64) -> FaultPlan {
    let mut plan = FaultPlan::chaos(seed, 0.8);
    plan.refuse_at_once = seed.is_multiple_of(2);
    if !seed.is_multiple_of(3) {
        plan.node_stops.push(NodeStop {
            node: NODE.0,
            when: FaultTime::AfterVerbs(30 + seed % 50),
            back_after: Some(20_000_000),
        });
    }
    if !seed.is_multiple_of(5) {
        plan.client_stops.push(ClientStop {
            client: ClientId(2),
            when: FaultTime::AfterVerbs(20 + seed % 7),
        });
    }
    if seed % 7 > 2 {
        plan.partitions.push(Partition {
            side: Side::Client(ClientId(3)),
            node: NODE.0,
            from: 20_000_000,
            until: 160_000_000,
        });
    }
    if seed % 6 == 2 {
        plan.late_calls = Chance {
            probability: 0.2,
            up_to_ns: 60_000_000,
        };
    }
    if seed % 4 == 1 {
        plan.node_pauses.push(NodePause {
            node: NODE.0,
            from: 50_000_000,
            until: 140_000_000,
        });
    }
    plan
}

#[derive(Default)]
struct Ends {
    replies: AtomicU64,
    unanswered: AtomicU64,
    stopped: AtomicU64,
    timed_out: AtomicU64,
}

fn run_under_faults(seed: u64, ends: &Arc<Ends>) -> u64 {
    let Bed {
        mut sim,
        kept,
        executed,
    } = postponing(seed, 12);
    sim.world().set_faults(faults(seed));
    let posted = Arc::new(AtomicU64::new(0));
    let before = ends.replies.load(Relaxed);
    for width in [1, 2, 4, 12] {
        let (ends, posted) = (Arc::clone(ends), Arc::clone(&posted));
        let client = sim.add_client(HostId(0), limits());
        sim.spawn(client, async move |endpoint| {
            let calls = (0..40u64).map(async |number| {
                let request = endpoint.core().buffers.copy_of(&number.to_le_bytes());
                posted.fetch_add(1, Relaxed);
                let end = endpoint.call(NODE, request.unwrap(), 64).await;
                if end.is_err() {
                    let _ = endpoint.adopt(NODE.0);
                    endpoint.sleep(5_000_000).await;
                }
                end
            });
            window(width, calls, |number, end| {
                let count = match end {
                    Ok(reply) => {
                        assert_eq!(reply.words()[1], number as u64);
                        &ends.replies
                    }
                    Err(FabricError::Unanswered { node, region }) => {
                        assert_eq!((node, region), NODE);
                        &ends.unanswered
                    }
                    Err(FabricError::TimedOut { .. }) => &ends.timed_out,
                    Err(FabricError::NodeStopped { .. } | FabricError::NodeRestarted { .. }) => {
                        &ends.stopped
                    }
                    Err(other) => panic!("{other}"),
                };
                count.fetch_add(1, Relaxed);
            })
            .await;
        });
    }
    assert_eq!(sim.run(), RunEnd::Done, "seed {seed}");
    let replies = ends.replies.load(Relaxed) - before;
    let (executed, posted) = (executed.load(Relaxed), posted.load(Relaxed));
    assert!(
        replies <= executed && executed <= posted,
        "seed {seed}: {replies} {executed} {posted}"
    );
    let digest = sim.world().digest();
    // Whoever waited has been told by then, or is gone: nothing is held for anybody.
    let world = sim.world().clone();
    world.advance_to(world.now() + 3 * TIMEOUT);
    for Kept { ticket, reply, .. } in std::mem::take(&mut *kept.lock().unwrap()) {
        assert!(!ticket.is_awaited(), "seed {seed}");
        ticket.answer(reply);
    }
    assert_eq!(world.verbs_under_way(), 0, "seed {seed}");
    digest
}

#[test]
fn under_faults_calls_are_answered_once_or_fail_and_nothing_is_left() {
    let ends = Arc::<Ends>::default();
    let digests: Vec<_> = (0..300).map(|seed| run_under_faults(seed, &ends)).collect();
    let [replies, unanswered, stopped, timed_out] = [
        &ends.replies,
        &ends.unanswered,
        &ends.stopped,
        &ends.timed_out,
    ]
    .map(|count| count.load(Relaxed));
    let counts = format!("{replies} {unanswered} {stopped} {timed_out}");
    assert!(replies > 20_000 && unanswered > 1500, "{counts}");
    assert!(stopped > 1000 && timed_out > 1000, "{counts}");
    let again: Vec<_> = (0..10).map(|seed| run_under_faults(seed, &ends)).collect();
    assert_eq!(digests[..10], again);
}

/// Keeps all tickets.
#[derive(Clone, Default)]
struct Keeping(Arc<Mutex<Vec<Ticket>>>);

impl Keeping {
    fn serve(node: &SimNode) -> Self {
        let keeping = Self::default();
        let of_node = keeping.clone();
        node.serve_calls(move || Arc::new(of_node.clone()));
        keeping
    }

    fn take(&self) -> Vec<Ticket> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Handler for Keeping {
    fn handle(&self, call: Call<'_>) -> CallAnswer {
        let (ticket, later) = call.later();
        self.0.lock().unwrap().push(ticket);
        CallAnswer::Later(later)
    }
}

#[test]
fn a_call_without_an_answer_ends_with_its_time_or_its_node() {
    let world = world(1);
    let node = world.node_handle(NODE.0);
    let keeping = Keeping::serve(&node);
    let endpoint = world.endpoint(limits());
    let executor = Executor::new(endpoint.clone());
    let call = || {
        let request = endpoint.core().buffers.take(0).unwrap();
        endpoint.call(NODE, request, 8)
    };
    let since = world.now();
    let after = TIMEOUT;
    let timed_out = FabricError::TimedOut {
        node: NODE.0,
        after,
    };
    assert_eq!(executor.block_on(call()).map(drop), Err(timed_out));
    assert!((TIMEOUT..TIMEOUT + 10_000).contains(&(world.now() - since)));
    for ticket in keeping.take() {
        assert!(!ticket.is_awaited());
        ticket.answer(vec![1; 8]);
    }
    let stopped = executor.block_on(async {
        let stop = async {
            endpoint.sleep(1_000_000).await;
            world.stop_node(NODE.0);
        };
        farslot_fabric::both(call(), stop).await.0
    });
    assert!(matches!(stopped, Err(FabricError::NodeStopped { .. })));
    for ticket in keeping.take() {
        assert!(!ticket.is_awaited());
        ticket.answer(vec![2; 8]);
    }
    world.return_node(NODE.0);
    endpoint.adopt(NODE.0).unwrap();
    let answered = executor.block_on(async {
        let answer = async {
            endpoint.sleep(1_000_000).await;
            keeping.take().remove(0).answer(vec![3; 8]);
        };
        farslot_fabric::both(call(), answer).await.0
    });
    assert_eq!(answered.unwrap()[..], [3; 8]);
    assert_eq!(world.verbs_under_way(), 0);
}

/// Answers four calls together when it has them: those before by their tickets.
#[derive(Default)]
struct Gathering(Mutex<Vec<Ticket>>);

impl Handler for Gathering {
    fn handle(&self, call: Call<'_>) -> CallAnswer {
        let mut gathered = self.0.lock().unwrap();
        if gathered.len() < 3 {
            let (ticket, later) = call.later();
            gathered.push(ticket);
            return CallAnswer::Later(later);
        }
        for (number, ticket) in (0..).zip(gathered.drain(..)) {
            ticket.answer(vec![number]);
        }
        call.reply[0] = 3;
        CallAnswer::Now(1)
    }
}

#[test]
fn a_handler_answers_earlier_calls_from_within_a_later_one() {
    let world = world(1);
    let handler = || Arc::new(Gathering::default()) as Arc<dyn Handler>;
    world.node_handle(NODE.0).serve_calls(handler);
    let endpoint = world.endpoint(limits());
    Executor::new(endpoint.clone()).block_on(async {
        let calls = (0..40).map(|_| {
            let request = endpoint.core().buffers.take(8).unwrap();
            endpoint.call(NODE, request, 8)
        });
        window(4, calls, |number, reply| {
            assert_eq!(reply.unwrap()[..], [(number % 4) as u8]);
        })
        .await;
        let last = RemoteAddr {
            node: NODE.0,
            region: NODE.1,
            offset: 0,
        };
        endpoint.read(last, 8).await.unwrap();
    });
    assert!(world.now() < 1_000_000);
    assert_eq!(world.verbs_under_way(), 0);
}

/// Writes what was called for by turns of its own: of the call that has waited for the longest, one
/// word a turn. It answers when it has written all of the call's words.
#[derive(Default)]
struct ByTurns(Mutex<VecDeque<(Vec<u64>, Kept)>>);

impl Handler for ByTurns {
    fn handle(&self, call: Call<'_>) -> CallAnswer {
        let (ticket, later) = call.later();
        let words = call.request.as_chunks::<8>().0;
        let words = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let (due, reply) = (call.now, call.request.to_vec());
        let kept = Kept { due, reply, ticket };
        self.0.lock().unwrap().push_back((words, kept));
        CallAnswer::Later(later)
    }

    fn go_on(&self, memory: &mut dyn OwnerMemory, now: Nanos) -> Option<Nanos> {
        let mut kept = self.0.lock().unwrap();
        let (mut words, first) = kept.pop_front()?;
        let Some(word) = words.pop() else {
            first.ticket.answer(first.reply);
            return Some(now);
        };
        let at = (word % 512) * 8;
        memory.store(at, memory.load(at).unwrap() + 1).unwrap();
        kept.push_back((words, first));
        // Every other turn it has to wait for something.
        Some(now + word % 2 * 20_000)
    }
}

/// Clients call a handler that answers by its own turns, while its node stops once and pauses.
/// Returns how many calls were answered, and what the world came to.
fn run_by_turns(seed: u64, has_faults: bool) -> (u64, u64) {
    const CALLS: u64 = 20;
    let world = World::new(seed, NicProfile::connectx5_edr());
    world.add_node_with(&NodeConfig {
        owner_threads: 1 + seed as u32 % 2,
        ..NodeConfig::new(&[(4096, Rights::ALL)])
    });
    let node = world.node_handle(NODE.0);
    node.serve_calls(|| Arc::new(ByTurns::default()));
    if has_faults {
        let mut plan = FaultPlan::chaos(seed, 0.5);
        plan.node_stops.push(NodeStop {
            node: NODE.0,
            when: FaultTime::At(100_000 + seed % 7 * 50_000),
            back_after: Some(200_000),
        });
        plan.node_pauses.push(NodePause {
            node: NODE.0,
            from: 40_000,
            until: 90_000,
        });
        world.set_faults(plan);
    }
    let mut sim = Simulation::new(world.clone());
    let answered = Arc::new(AtomicU64::new(0));
    for client in 0..3u64 {
        let (id, answered) = (sim.add_client(HostId(0), limits()), Arc::clone(&answered));
        sim.spawn(id, async move |endpoint| {
            let calls = (0..CALLS).map(async |number| {
                let words = [client, 10 + number, 100 + 20 * client + number];
                let request = endpoint
                    .core()
                    .buffers
                    .copy_of(bytemuck::cast_slice(&words));
                let end = endpoint.call(NODE, request.unwrap(), 64).await;
                if end.is_err() {
                    let _ = endpoint.adopt(NODE.0);
                    endpoint.sleep(100_000).await;
                }
                end.map(|reply| assert_eq!(reply.words(), words))
            });
            window(4, calls, |_, end| match end {
                Ok(()) => _ = answered.fetch_add(1, Relaxed),
                Err(error) => assert!(has_faults && error.may_have_taken_effect(), "{error}"),
            })
            .await;
        });
    }
    assert_eq!(sim.run(), RunEnd::Done, "seed {seed}");
    world.advance_to(world.now() + 3 * TIMEOUT);
    assert_eq!(world.verbs_under_way(), 0, "seed {seed}");
    if !has_faults {
        // Each word of each call was counted once.
        let counts = node.with_region(NODE.1, <[u64]>::to_vec);
        assert_eq!(counts[..3], [CALLS; 3]);
        assert!(counts[10..30].iter().all(|count| *count == 3));
        assert!(counts[100..160].iter().all(|count| *count == 1));
    }
    (answered.load(Relaxed), world.digest())
}

#[test]
fn handlers_go_on_by_turns_of_their_own_as_the_seed_says() {
    for seed in 0..20 {
        let ran = run_by_turns(seed, false);
        assert_eq!((ran.0, run_by_turns(seed, false)), (60, ran));
    }
    let runs: Vec<_> = (0..200).map(|seed| run_by_turns(seed, true)).collect();
    let answered: u64 = runs.iter().map(|(answered, _)| answered).sum();
    assert!((4_000..12_000).contains(&answered), "{answered}");
    let again: Vec<_> = (0..20).map(|seed| run_by_turns(seed, true)).collect();
    assert_eq!(runs[..20], again);
}
