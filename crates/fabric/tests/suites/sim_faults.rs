//! Nodes, clients and links that fail in the simulated fabric.

use farslot_fabric::sim::{
    ClientId, ClientStop, FaultPlan, FaultTime, HostId, NicProfile, NodeStop, Partition, RunEnd,
    Side, Simulation, SlowNode, World,
};
use farslot_fabric::{
    Endpoint, EndpointExt, Executor, FabricError, Limits, NodeId, NodeState, OperationClass,
    RegionId, RemoteAddr, Rights, both,
};
use std::cell::Cell;
use std::rc::Rc;

const NODE: NodeId = NodeId(0);
const LIMITS: Limits = Limits {
    send_queue_depth: 64,
    largest_buffer: 1 << 16,
    buffer_budget: 1 << 20,
    verb_timeout: 100_000,
};

fn at(offset: u64) -> RemoteAddr {
    RemoteAddr {
        node: NODE,
        region: RegionId(0),
        offset,
    }
}

fn world(seed: u64) -> World {
    let world = World::new(seed, NicProfile::connectx5_edr());
    world.add_node(&[(1 << 16, Rights::ALL)]);
    world
}

fn word(world: &World, offset: u64) -> u64 {
    world.node_handle(NODE).peek(RegionId(0), offset)
}

#[test]
fn verbs_to_a_stopped_node_fail_after_the_timeout_or_at_once() {
    for (refuse_at_once, expected) in [(true, 1_290), (false, 100_120)] {
        let world = world(1);
        world.set_faults(FaultPlan {
            refuse_at_once,
            ..FaultPlan::default()
        });
        let endpoint = world.endpoint(LIMITS);
        world.stop_node(NODE);
        let failed = Executor::new(Rc::clone(&endpoint)).block_on(endpoint.read(at(0), 8));
        assert_eq!(
            failed.unwrap_err(),
            FabricError::NodeStopped {
                node: NODE,
                sent: true
            }
        );
        assert_eq!(world.now(), expected);
        let stopped = FabricError::NodeStopped {
            node: NODE,
            sent: true,
        };
        assert_eq!(endpoint.adopt(NODE), Err(stopped.clone()));
        assert_eq!(endpoint.node_state(NODE), Ok(NodeState::Down(stopped)));
    }
}

/// Of an operation that posts nothing because the node is known to be down, it is known that it
/// has not taken effect; of one that has posted a verb before, it is not.
#[test]
fn what_was_never_sent_is_not_in_doubt() {
    let world = world(1);
    let endpoint = world.endpoint(LIMITS);
    let class = OperationClass(0);
    let add = || async { endpoint.fetch_add(at(0), 1).await.unwrap_err() };
    Executor::new(Rc::clone(&endpoint)).block_on(async {
        let sends = async {
            endpoint.fetch_add(at(0), 1).await.unwrap();
            world.stop_node(NODE);
            let told = add().await;
            let known = add().await;
            let within = endpoint.operation(class, add()).await;
            [told, known, within]
        };
        for error in endpoint.operation(class, sends).await {
            assert!(error.may_have_taken_effect(), "{error:?}");
        }
        let around = async { [endpoint.operation(class, add()).await, add().await] };
        let errors = endpoint.operation(class, around).await;
        for error in errors.into_iter().chain([add().await]) {
            assert_eq!(
                error,
                FabricError::NodeStopped {
                    node: NODE,
                    sent: false
                }
            );
        }
    });
}

#[test]
fn what_an_operation_within_has_sent_leaves_the_outer_in_doubt() {
    let world = world(1);
    let endpoint = world.endpoint(LIMITS);
    let class = OperationClass(0);
    let outer = async {
        let inner = endpoint.operation(class, endpoint.fetch_add(at(0), 1));
        inner.await.unwrap();
        world.stop_node(NODE);
        let told = endpoint.operation(class, endpoint.read(at(0), 8)).await;
        told.unwrap_err();
        endpoint.fetch_add(at(0), 1).await.unwrap_err()
    };
    let error = Executor::new(Rc::clone(&endpoint)).block_on(endpoint.operation(class, outer));
    assert!(error.may_have_taken_effect());
}

#[test]
fn a_node_that_came_back_is_empty_and_refuses_those_who_knew_it_before() {
    let world = world(1);
    world.set_faults(FaultPlan {
        node_stops: vec![NodeStop {
            node: NODE,
            when: FaultTime::At(10_000),
            back_after: Some(5_000),
        }],
        ..FaultPlan::default()
    });
    let endpoint = world.endpoint(LIMITS);
    let executor = Executor::new(Rc::clone(&endpoint));
    executor.block_on(async {
        let before = endpoint.node(NODE).unwrap().incarnation;
        endpoint.fetch_add(at(8), 7).await.unwrap();
        endpoint.sleep(20_000).await;
        let restarted = FabricError::NodeRestarted {
            node: NODE,
            expected: before,
        };
        for _ in 0..2 {
            assert_eq!(endpoint.fetch_add(at(8), 1).await.unwrap_err(), restarted);
        }
        let Ok(NodeState::Restarted { incarnation }) = endpoint.node_state(NODE) else {
            panic!("{:?}", endpoint.node_state(NODE));
        };
        assert_ne!(incarnation, before);
        let now = endpoint.adopt(NODE).unwrap();
        assert_eq!(now.incarnation, incarnation);
        assert_eq!(endpoint.node(NODE), Ok(now));
        assert_eq!(endpoint.node_state(NODE), Ok(NodeState::Up));
        assert_eq!(endpoint.fetch_add(at(8), 1).await.unwrap(), 0);
    });
}

#[test]
fn what_was_posted_to_a_node_before_it_came_back_has_no_effect_on_what_it_is_now() {
    let world = world(1);
    let endpoint = world.endpoint(LIMITS);
    let executor = Executor::new(Rc::clone(&endpoint));
    let (stopped, other) = (NODE, world.add_node(&[(64, Rights::ALL)]));
    let connected = world.endpoint(LIMITS);
    assert_eq!(connected.node_state(other), Ok(NodeState::Up));
    assert!(matches!(
        endpoint.node_state(other),
        Err(FabricError::UnknownNode { connected: 1, .. })
    ));
    executor.block_on(async {
        world.stop_node(stopped);
        world.return_node(stopped);
        // Nothing has failed yet: the endpoint knows of nothing.
        assert_eq!(endpoint.node_state(stopped), Ok(NodeState::Up));
        let before = endpoint.node(stopped);
        assert_eq!(endpoint.adopt(stopped), before);
        assert!(endpoint.fetch_add(at(8), 1).await.is_err());
        let late = async { endpoint.fetch_add(at(8), 1).await };
        let adopting = async {
            // The verb is posted, and leaves before the node is adopted.
            endpoint.sleep(1).await;
            endpoint.adopt(stopped).unwrap();
        };
        let (late, ()) = both(late, adopting).await;
        assert!(matches!(late, Err(FabricError::NodeRestarted { .. })));
        // Its failure came after the adoption, and says nothing of the node as it is now.
        assert_eq!(endpoint.node_state(stopped), Ok(NodeState::Up));
        assert_eq!(endpoint.fetch_add(at(8), 1).await, Ok(0));
    });
}

#[test]
fn a_client_cut_off_from_a_node_is_told_so_until_the_link_is_back() {
    let world = world(1);
    world.set_faults(FaultPlan {
        partitions: vec![Partition {
            side: Side::Client(ClientId(0)),
            node: NODE,
            from: 1_000,
            until: 500_000,
        }],
        ..FaultPlan::default()
    });
    let endpoint = world.endpoint(LIMITS);
    Executor::new(Rc::clone(&endpoint)).block_on(async {
        endpoint.sleep(2_000).await;
        let lost = endpoint.read(at(0), 8).await.unwrap_err();
        assert!(matches!(lost, FabricError::TimedOut { .. }));
        assert_eq!(endpoint.node_state(NODE), Ok(NodeState::Down(lost.clone())));
        assert_eq!(endpoint.adopt(NODE), Err(lost));
        endpoint.sleep(500_000).await;
        assert_eq!(endpoint.node_state(NODE), Ok(NodeState::Up));
        endpoint.read(at(0), 8).await.unwrap();
    });
}

#[test]
fn a_node_stops_between_any_two_verbs_and_perhaps_answers_the_last() {
    let mut answered_the_last = [0, 0];
    for seed in 0..30 {
        for last in 0..5 {
            let world = world(seed);
            world.set_faults(FaultPlan {
                node_stops: vec![NodeStop {
                    node: NODE,
                    when: FaultTime::AfterVerbs(last),
                    back_after: None,
                }],
                ..FaultPlan::default()
            });
            let endpoint = world.endpoint(LIMITS);
            let succeeded = Executor::new(Rc::clone(&endpoint)).block_on(async {
                let mut succeeded = 0;
                while endpoint.fetch_add(at(0), 1).await.is_ok() {
                    succeeded += 1;
                }
                succeeded
            });
            assert_eq!(word(&world, 0), last, "the last verb takes effect");
            assert!(succeeded == last || succeeded + 1 == last);
            answered_the_last[usize::from(succeeded == last)] += u32::from(last > 0);
        }
    }
    assert!(answered_the_last.iter().all(|times| *times > 20));
}

#[test]
fn a_client_stops_between_any_two_verbs_and_its_last_perhaps_takes_effect() {
    let mut took_effect = [0, 0];
    for seed in 0..30 {
        for last in 0..5 {
            let mut sim = Simulation::new(world(seed));
            let client = sim.add_client(HostId(0), LIMITS);
            sim.world().set_faults(FaultPlan {
                client_stops: vec![ClientStop {
                    client,
                    when: FaultTime::AfterVerbs(last),
                }],
                ..FaultPlan::default()
            });
            let completed = Rc::new(Cell::new(0));
            let counter = Rc::clone(&completed);
            let join = sim.spawn(client, async move |endpoint| {
                for _ in 0..10 {
                    endpoint.fetch_add(at(0), 1).await.unwrap();
                    counter.set(counter.get() + 1);
                }
            });
            assert_eq!(sim.run(), RunEnd::Done);
            assert!(join.try_take().is_none() && sim.endpoint(client).is_stopped());
            assert_eq!(completed.get(), last.saturating_sub(1));
            sim.world().advance_to(1_000_000);
            let effects = word(sim.world(), 0);
            assert!(effects == last || effects + 1 == last);
            took_effect[usize::from(effects == last)] += u32::from(last > 0);
            assert_eq!(sim.world().verbs_under_way(), 0);
        }
    }
    assert!(
        took_effect.iter().all(|times| *times > 20),
        "{took_effect:?}"
    );
}

#[test]
fn a_stopped_client_leaves_the_others_alone() {
    let mut sim = Simulation::new(world(5));
    let task = async move |endpoint: Rc<farslot_fabric::sim::SimEndpoint>| {
        for _ in 0..50 {
            endpoint.fetch_add(at(0), 1).await.unwrap();
        }
    };
    let joins: Vec<_> = (0..3).map(|_| sim.spawn_client(task)).collect();
    sim.world().set_faults(FaultPlan {
        client_stops: vec![ClientStop {
            client: ClientId(1),
            when: FaultTime::At(20_000),
        }],
        ..FaultPlan::default()
    });
    assert_eq!(sim.run(), RunEnd::Done);
    let ended: Vec<_> = joins.iter().map(|join| join.try_take().is_some()).collect();
    assert_eq!(ended, [true, false, true]);
}

#[test]
fn a_partition_times_verbs_out_with_or_without_effect_and_spares_others() {
    let mut effects = [0, 0];
    for seed in 0..30 {
        let world = world(seed);
        let cut_off = world.endpoint(LIMITS);
        let elsewhere = world.endpoint_on(world.add_host(), LIMITS);
        world.set_faults(FaultPlan {
            partitions: vec![Partition {
                side: Side::Host(HostId(0)),
                node: NODE,
                from: 0,
                until: 50_000,
            }],
            ..FaultPlan::default()
        });
        let timed_out = FabricError::TimedOut {
            node: NODE,
            after: LIMITS.verb_timeout,
        };
        Executor::new(Rc::clone(&cut_off)).block_on(async {
            assert_eq!(cut_off.fetch_add(at(0), 1).await.unwrap_err(), timed_out);
            cut_off.fetch_add(at(8), 1).await.unwrap();
        });
        Executor::new(Rc::clone(&elsewhere)).block_on(async {
            elsewhere.fetch_add(at(8), 1).await.unwrap();
        });
        effects[word(&world, 0) as usize] += 1;
        assert_eq!(word(&world, 8), 2);
    }
    assert!(effects.iter().all(|times| *times > 5), "{effects:?}");
}

#[test]
fn no_verb_takes_effect_behind_one_of_its_queue_pair_that_was_lost() {
    let mut lost_from = [0; 5];
    for seed in 0..200 {
        let world = world(seed);
        let endpoint = world.endpoint(LIMITS);
        world.set_faults(FaultPlan {
            partitions: vec![Partition {
                side: Side::Host(HostId(0)),
                node: NODE,
                from: 0,
                until: 50_000,
            }],
            ..FaultPlan::default()
        });
        let executor = Executor::new(Rc::clone(&endpoint));
        let add = |word: u64| {
            let endpoint = Rc::clone(&endpoint);
            executor.spawn(async move { endpoint.fetch_add(at(8 * word), 1).await.is_ok() })
        };
        let first: Vec<_> = (0..2).map(add).collect();
        executor.block_on(endpoint.sleep(10_000));
        let second: Vec<_> = (2..4).map(add).collect();
        executor.block_on(async {
            for join in first.into_iter().chain(second) {
                assert!(!join.await);
            }
        });
        let effects = [0, 1, 2, 3].map(|index| word(&world, 8 * index));
        let lost = effects.iter().take_while(|effect| **effect == 1).count();
        assert!(
            effects[lost..].iter().all(|effect| *effect == 0),
            "{effects:?}"
        );
        lost_from[lost] += 1;
        executor.block_on(endpoint.fetch_add(at(0), 1)).unwrap();
    }
    assert!(lost_from.iter().all(|seeds| *seeds > 0), "{lost_from:?}");
}

#[test]
fn a_slow_node_answers_late_and_one_too_slow_times_out() {
    let slow = |factor, until| FaultPlan {
        slow_nodes: vec![SlowNode {
            node: NODE,
            factor,
            from: 0,
            until,
        }],
        ..FaultPlan::default()
    };
    let world = world(1);
    let endpoint = world.endpoint(LIMITS);
    let executor = Executor::new(Rc::clone(&endpoint));
    world.set_faults(slow(10.0, 5_000));
    executor.block_on(endpoint.read(at(0), 8)).unwrap();
    assert!(world.now() > 6_000, "{}", world.now());
    let before = world.now();
    executor.block_on(endpoint.read(at(0), 8)).unwrap();
    assert_eq!((world.now() - before) / 10, 129);
    world.set_faults(slow(1_000.0, u64::MAX));
    let failed = executor.block_on(endpoint.read(at(0), 8)).unwrap_err();
    assert!(matches!(failed, FabricError::TimedOut { .. }));
}

#[test]
fn what_waits_for_ever_is_a_deadlock() {
    let mut sim = Simulation::new(world(1));
    let owner = sim.world().node_handle(NODE);
    sim.spawn_client(async move |_| owner.message().await);
    assert_eq!(sim.run(), RunEnd::Deadlock(vec![ClientId(0)]));
    let mut sim = Simulation::new(world(1));
    sim.spawn_client(async move |endpoint| endpoint.sleep(10_000).await);
    assert_eq!(sim.run_until(5_000), RunEnd::TimeLimit);
    assert_eq!((sim.world().now(), sim.run()), (5_000, RunEnd::Done));
    assert_eq!(sim.world().now(), 10_000);
}
