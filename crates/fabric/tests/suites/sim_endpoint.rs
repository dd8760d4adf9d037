//! The simulated fabric as an endpoint: errors, counters, messages, dropped futures, determinism.

use farslot_fabric::endpoint::Inbox;
use farslot_fabric::sim::{
    FaultPlan, NicProfile, NodeConfig, RunEnd, SimEndpoint, Simulation, World,
};
use farslot_fabric::{
    Endpoint, EndpointExt, Executor, FabricError, Limits, Message, NodeId, OperationClass, Piece,
    RegionId, RemoteAddr, Rights, window,
};
use std::rc::Rc;

const LEN: u64 = 1 << 16;

fn addr(node: u16, region: u16, offset: u64) -> RemoteAddr {
    RemoteAddr {
        node: NodeId(node),
        region: RegionId(region),
        offset,
    }
}

fn at(offset: u64) -> RemoteAddr {
    addr(0, 0, offset)
}

fn world(seed: u64) -> World {
    let world = World::new(seed, NicProfile::connectx5_edr());
    world.add_node(&[(LEN, Rights::ALL), (LEN, Rights::READ)]);
    world
}

fn executor(world: &World) -> (Rc<SimEndpoint>, Executor<SimEndpoint>) {
    let endpoint = world.endpoint(Limits::default());
    (Rc::clone(&endpoint), Executor::new(endpoint))
}

#[test]
fn wrong_verbs_are_refused_with_what_is_wrong() {
    let world = world(1);
    let (endpoint, executor) = executor(&world);
    executor.block_on(async {
        let buffer = || endpoint.core().buffers.take(16).unwrap();
        let read_only = addr(0, 1, 0);
        let denied = |needed| FabricError::AccessDenied {
            at: read_only,
            needed,
            granted: Rights::READ,
        };
        let write = endpoint.write(read_only, buffer()).await.unwrap_err();
        assert_eq!(write, denied(Rights::WRITE));
        let swap = endpoint.compare_swap(read_only, 0, 1).await.unwrap_err();
        assert_eq!(swap, denied(Rights::ATOMIC));
        let beyond = endpoint.read(at(LEN - 8), 16).await.unwrap_err();
        assert!(matches!(
            beyond,
            FabricError::OutOfBounds {
                len: 16,
                region_len: LEN,
                ..
            }
        ));
        let misaligned = endpoint.fetch_add(at(12), 1).await.unwrap_err();
        assert_eq!(misaligned, FabricError::Misaligned { at: at(12) });
        let region = endpoint.read(addr(0, 2, 0), 8).await.unwrap_err();
        assert!(matches!(
            region,
            FabricError::UnknownRegion { regions: 2, .. }
        ));
        let node = endpoint.read(addr(1, 0, 0), 8).await.unwrap_err();
        assert!(matches!(
            node,
            FabricError::UnknownNode { connected: 1, .. }
        ));
    });
    assert_eq!(world.now(), 0, "nothing went out");
    let read = executor.block_on(endpoint.read(addr(0, 1, 0), 16));
    assert_eq!(read.unwrap().len(), 16);
}

#[test]
fn bytes_come_back_as_they_were_written() {
    let world = world(1);
    let (endpoint, executor) = executor(&world);
    let bytes: Vec<u8> = (0..200).collect();
    executor.block_on(async {
        for offset in 0..9 {
            for len in [0, 1, 7, 8, 9, 64, 200] {
                let data = endpoint.core().buffers.copy_of(&bytes[..len]).unwrap();
                endpoint.write(at(offset), data).await.unwrap();
                let read = endpoint.read(at(offset), len).await.unwrap();
                assert_eq!(&*read, &bytes[..len], "{len} bytes at {offset}");
            }
        }
        let piece = |offset, len| Piece {
            from: at(offset),
            len,
        };
        let pieces = [piece(8 + 3, 5), piece(8 + 100, 17)].into_iter().collect();
        let gathered = endpoint.read_many(pieces).await.unwrap();
        assert_eq!(gathered[..5], bytes[3..8]);
        assert_eq!(gathered[8..25], bytes[100..117]);
    });
}

#[test]
fn operations_count_their_round_trips_and_batches_share_a_doorbell() {
    const ONE: OperationClass = OperationClass(1);
    const TWO: OperationClass = OperationClass(2);
    let world = world(1);
    let (endpoint, executor) = executor(&world);
    executor.block_on(async {
        let dependent = async {
            endpoint.read(at(0), 8).await.unwrap();
            endpoint.read(at(8), 8).await.unwrap();
        };
        endpoint.operation(ONE, dependent).await;
        let reads = (0..5).map(|slot| endpoint.read(at(8 * slot), 8));
        let independent = window(5, reads, |_, read| drop(read.unwrap()));
        endpoint.operation(TWO, independent).await;
    });
    let counted = endpoint.core().counters.snapshot();
    let (one, two) = (counted.operation(ONE), counted.operation(TWO));
    assert_eq!((one.verbs, one.round_trips), (2, 2));
    assert_eq!((two.verbs, two.round_trips), (5, 1));
    assert_eq!((counted.doorbells, counted.bytes_read), (3, 56));
}

#[test]
fn a_full_send_queue_delays_verbs_and_loses_none() {
    let world = world(1);
    let endpoint = world.endpoint(Limits {
        send_queue_depth: 4,
        ..Limits::default()
    });
    let executor = Executor::new(Rc::clone(&endpoint));
    executor.block_on(async {
        let adds = (0..100).map(|_| endpoint.fetch_add(at(0), 1));
        window(50, adds, |_, add| assert!(add.is_ok())).await;
    });
    assert_eq!(world.node_handle(NodeId(0)).peek(RegionId(0), 0), 100);
    assert!(endpoint.core().counters.snapshot().queue_full > 0);
}

#[test]
fn dropped_verbs_still_happen_and_give_everything_back() {
    let world = world(1);
    world.set_faults(FaultPlan::chaos(1, 1.0));
    let endpoint = world.endpoint(Limits {
        buffer_budget: 4096,
        largest_buffer: 1024,
        ..Limits::default()
    });
    let executor = Executor::new(Rc::clone(&endpoint));
    executor.block_on(async {
        for round in 0..200 {
            let both = async {
                let add = endpoint.fetch_add(at(0), 1);
                let read = endpoint.read(at(8), 1024);
                add.await.unwrap();
                read.await.unwrap();
            };
            // Sometimes before the first completion, sometimes after it, sometimes not at all.
            let _ = endpoint.timeout(round * 100, both).await;
        }
        assert_eq!(endpoint.fetch_add(at(0), 0).await, Ok(200));
    });
    world.advance_to(world.now() + 1_000_000);
    endpoint.poll_completions();
    assert_eq!(world.verbs_under_way(), 0);
}

#[test]
fn messages_follow_their_data_and_a_full_inbox_refuses() {
    let world = World::new(1, NicProfile::connectx5_edr());
    let node = NodeConfig {
        inbox_capacity: 2,
        ..NodeConfig::new(&[(LEN, Rights::ALL)])
    };
    world.add_node_with(&node);
    world.set_faults(FaultPlan::chaos(1, 1.0));
    let owner = world.node_handle(NodeId(0));
    let (endpoint, executor) = executor(&world);
    executor.block_on(async {
        let data = |len| endpoint.core().buffers.copy_of(&vec![9; len]).unwrap();
        endpoint.write_imm(at(8), data(8), 1).await.unwrap();
        endpoint.write_imm(at(64), data(24), 2).await.unwrap();
        assert_eq!(owner.peek(RegionId(0), 80), 0x0909_0909_0909_0909);
        let refused = endpoint.write_imm(at(8), data(8), 3).await.unwrap_err();
        let full = FabricError::ReceiverNotReady {
            node: NodeId(0),
            capacity: 2,
        };
        assert_eq!(refused, full);
        assert_eq!(owner.take_message(), Some(Message { imm: 1, len: 8 }));
        endpoint.write_imm(at(8), data(0), 4).await.unwrap();
    });
    let rest: Vec<_> = std::iter::from_fn(|| owner.take_message()).collect();
    assert_eq!(
        rest,
        [Message { imm: 2, len: 24 }, Message { imm: 4, len: 0 }]
    );
}

#[test]
fn messages_wait_for_room_in_their_order_and_wake_a_server() {
    let world = World::new(7, NicProfile::connectx5_edr());
    let node = NodeConfig {
        inbox_capacity: 3,
        ..NodeConfig::new(&[(LEN, Rights::ALL)])
    };
    world.add_node_with(&node);
    let owner = world.node_handle(NodeId(0));
    let mut sim = Simulation::new(world);
    let server = sim.add_background_client(farslot_fabric::sim::HostId(0), Limits::default());
    sim.spawn(server, async move |endpoint| {
        for expected in 0.. {
            assert_eq!(owner.message().await.imm, expected);
            let done = owner.occupy_cpu(1000);
            endpoint.sleep(done - endpoint.now()).await;
        }
    });
    let sender = sim.spawn_client(async move |endpoint| {
        let sends = (0..20).map(|imm| {
            let empty = endpoint.core().buffers.take(0).unwrap();
            endpoint.write_imm(at(0), empty, imm)
        });
        window(20, sends, |_, sent| sent.unwrap()).await;
    });
    assert_eq!(sim.run(), RunEnd::Done);
    assert!(sender.try_take().is_some());
}

/// Runs clients that use every verb under chaos; returns the digest of the run.
fn digest(seed: u64) -> u64 {
    let world = world(seed);
    world.set_faults(FaultPlan::chaos(seed, 0.8));
    let mut sim = Simulation::new(world);
    for client in 0..5 {
        sim.spawn_client(async move |endpoint| {
            for round in 0..20 {
                let data = endpoint.core().buffers.copy_of(&[client; 100]).unwrap();
                endpoint.write(at(64 * round), data).await.unwrap();
                endpoint.read(at(32 * round), 200).await.unwrap();
                endpoint.fetch_add(at(0), 3).await.unwrap();
                endpoint.compare_swap(at(8), 0, round).await.unwrap();
                let data = endpoint.core().buffers.copy_of(&[client; 9]).unwrap();
                endpoint.write_imm(at(512), data, 7).await.unwrap();
            }
        });
    }
    assert_eq!(sim.run(), RunEnd::Done);
    sim.world().digest()
}

#[test]
fn the_same_seed_is_the_same_run_and_another_seed_another() {
    let digests: Vec<_> = (0..10).map(digest).collect();
    let again: Vec<_> = (0..10).map(digest).collect();
    assert_eq!(digests, again);
    let mut distinct = digests;
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), 10);
}

#[test]
fn worlds_and_nodes_can_be_shared_between_threads() {
    fn is_shared<T: Send + Sync>(_: &T) {}
    let world = world(1);
    is_shared(&world);
    is_shared(&world.node_handle(NodeId(0)));
}
