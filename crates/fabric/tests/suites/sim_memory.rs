//! What the simulated fabric promises of memory, and what it breaks.

use farslot_fabric::sim::{Chance, FaultPlan, NicProfile, RunEnd, SimEndpoint, Simulation, World};
use farslot_fabric::{
    Buffer, Endpoint, EndpointExt, Limits, NodeId, RegionId, RemoteAddr, Rights, window,
};
use std::cell::Cell;
use std::rc::Rc;

const ALWAYS: Chance = Chance {
    probability: 1.0,
    up_to_ns: 3_000,
};

fn at(offset: u64) -> RemoteAddr {
    RemoteAddr {
        node: NodeId(0),
        region: RegionId(0),
        offset,
    }
}

fn simulation(seed: u64, faults: FaultPlan) -> Simulation {
    let world = World::new(seed, NicProfile::connectx5_edr());
    world.add_node(&[(1 << 16, Rights::ALL)]);
    world.set_faults(faults);
    Simulation::new(world)
}

fn repeated(endpoint: &SimEndpoint, byte: u8, len: usize) -> Buffer {
    let mut buffer = endpoint.core().buffers.take(len).unwrap();
    buffer.fill(byte);
    buffer
}

/// Writes records of one repeated byte while others read them; returns how many reads were torn.
/// `offset` is deliberately free: words are whole whatever the alignment of the record.
fn torn_reads(seed: u64, offset: u64, faults: FaultPlan) -> u64 {
    const LEN: usize = 61;
    let mut sim = simulation(seed, faults);
    sim.spawn_client(async move |endpoint| {
        for round in 1..=100 {
            let record = repeated(&endpoint, round, LEN);
            endpoint.write(at(offset), record).await.unwrap();
        }
    });
    let torn = Rc::new(Cell::new(0));
    for _ in 0..4 {
        let torn = Rc::clone(&torn);
        sim.spawn_client(async move |endpoint| {
            for _ in 0..100 {
                let record = endpoint.read(at(offset), LEN).await.unwrap();
                let word_of = |byte: usize| (offset as usize + byte) / 8;
                for byte in 1..LEN {
                    let torn_here = record[byte] != record[byte - 1];
                    assert!(
                        !torn_here || word_of(byte) != word_of(byte - 1),
                        "torn word"
                    );
                    torn.set(torn.get() + u64::from(torn_here));
                }
            }
        });
    }
    assert_eq!(sim.run(), RunEnd::Done);
    torn.get()
}

#[test]
fn reads_and_writes_tear_between_words_but_never_within_one() {
    for offset in [0, 5, 4088] {
        let torn_reads_only = FaultPlan {
            torn_reads: ALWAYS,
            ..FaultPlan::default()
        };
        let torn_writes_only = FaultPlan {
            torn_writes: ALWAYS,
            ..FaultPlan::default()
        };
        let late_writes_only = FaultPlan {
            late_writes: ALWAYS,
            ..FaultPlan::default()
        };
        assert_eq!(torn_reads(1, offset, FaultPlan::default()), 0);
        assert!(torn_reads(1, offset, torn_reads_only) > 50);
        assert!(torn_reads(1, offset, torn_writes_only) > 50);
        assert!(torn_reads(1, offset, late_writes_only) > 10);
    }
}

#[test]
fn a_late_write_is_seen_by_its_writer_and_not_yet_by_others() {
    let late = FaultPlan {
        late_writes: Chance {
            probability: 1.0,
            up_to_ns: 1_000_000,
        },
        ..FaultPlan::default()
    };
    let mut sim = simulation(3, late);
    let owner = sim.world().node_handle(NodeId(0));
    let other = sim.world().endpoint(Limits::default());
    let other = sim.add_client(farslot_fabric::sim::HostId(0), other.core().limits);
    let written = Rc::new(Cell::new(false));
    let stale = Rc::new(Cell::new(0));
    let (flag, cpu) = (Rc::clone(&written), owner.clone());
    sim.spawn_client(async move |endpoint| {
        let record = repeated(&endpoint, 7, 64);
        endpoint.write(at(0), record).await.unwrap();
        flag.set(true);
        let own = endpoint.read(at(0), 64).await.unwrap();
        assert!(own.iter().all(|byte| *byte == 7));
        assert!((0..8).any(|word| cpu.peek(RegionId(0), 8 * word) == 0));
        endpoint.sleep(1_000_000).await;
        assert!((0..8).all(|word| cpu.peek(RegionId(0), 8 * word) != 0));
    });
    let count = Rc::clone(&stale);
    sim.spawn(other, async move |endpoint| {
        while !written.get() {
            endpoint.sleep(100).await;
        }
        let seen = endpoint.read(at(0), 64).await.unwrap();
        count.set(seen.iter().filter(|byte| **byte == 0).count());
    });
    assert_eq!(sim.run(), RunEnd::Done);
    assert!(stale.get() > 0);
}

#[test]
fn an_atomic_publishes_the_writes_before_it() {
    for seed in 0..20 {
        let mut sim = simulation(seed, FaultPlan::chaos(seed, 1.0));
        sim.spawn_client(async move |endpoint| {
            for round in 1..=20u64 {
                let record = repeated(&endpoint, round as u8, 32);
                // Not even awaited in between: a queue pair keeps their order.
                let write = endpoint.write(at(1024 * round), record);
                let publish = endpoint.fetch_add(at(0), 1);
                let mut verbs = Vec::new();
                window(
                    2,
                    [either(Some(write), None), either(None, Some(publish))],
                    |_, done| {
                        verbs.push(done);
                    },
                )
                .await;
                assert_eq!(verbs.len(), 2);
            }
        });
        sim.spawn_client(async move |endpoint| {
            loop {
                let published = endpoint.fetch_add(at(0), 0).await.unwrap();
                if published > 0 {
                    let record = endpoint.read(at(1024 * published), 32).await.unwrap();
                    assert!(record.iter().all(|byte| u64::from(*byte) == published));
                }
                if published == 20 {
                    return;
                }
            }
        });
        assert_eq!(sim.run(), RunEnd::Done);
    }
}

/// One type for two kinds of verbs, posted in one doorbell.
async fn either(
    write: Option<impl Future<Output = farslot_fabric::Result<()>>>,
    atomic: Option<impl Future<Output = farslot_fabric::Result<u64>>>,
) {
    if let Some(write) = write {
        write.await.unwrap();
    }
    if let Some(atomic) = atomic {
        atomic.await.unwrap();
    }
}

#[test]
fn no_atomic_is_lost_under_chaos() {
    for seed in 0..20 {
        let mut sim = simulation(seed, FaultPlan::chaos(seed, 1.0));
        for client in 0..6 {
            sim.spawn_client(async move |endpoint| {
                for _ in 0..20 {
                    endpoint.fetch_add(at(8), 1).await.unwrap();
                    increment(&endpoint, at(16)).await;
                    let neighbour = repeated(&endpoint, client, 8);
                    endpoint.write(at(24), neighbour).await.unwrap();
                }
            });
        }
        assert_eq!(sim.run(), RunEnd::Done);
        let owner = sim.world().node_handle(NodeId(0));
        assert_eq!(
            [8, 16].map(|word| owner.peek(RegionId(0), word)),
            [120, 120]
        );
    }
}

async fn increment(endpoint: &SimEndpoint, word: RemoteAddr) {
    let mut expected = 0;
    loop {
        match endpoint
            .compare_swap(word, expected, expected + 1)
            .await
            .unwrap()
        {
            found if found == expected => return,
            found => expected = found,
        }
    }
}

#[test]
fn readers_never_see_a_word_go_back() {
    for seed in 0..20 {
        let mut sim = simulation(seed, FaultPlan::chaos(seed, 1.0));
        sim.spawn_client(async move |endpoint| {
            for round in 1..=100u64 {
                let word = endpoint
                    .core()
                    .buffers
                    .copy_of(&round.to_le_bytes())
                    .unwrap();
                endpoint.write(at(8), word).await.unwrap();
            }
        });
        for _ in 0..3 {
            sim.spawn_client(async move |endpoint| {
                let mut last = 0;
                for _ in 0..200 {
                    let word = endpoint.read(at(8), 8).await.unwrap().words()[0];
                    assert!(word >= last);
                    last = word;
                }
            });
        }
        assert_eq!(sim.run(), RunEnd::Done);
        let world = sim.world();
        world.advance_to(world.now() + 100_000);
        assert_eq!(world.node_handle(NodeId(0)).peek(RegionId(0), 8), 100);
    }
}
