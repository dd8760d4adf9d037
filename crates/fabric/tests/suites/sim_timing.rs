//! The simulated fabric keeps the times of its profile.

use farslot_fabric::sim::{
    NicCacheProfile, NicProfile, NodeConfig, RunEnd, SimEndpoint, Simulation, World,
};
use farslot_fabric::{
    Endpoint, EndpointExt, Executor, Limits, NodeId, RegionId, RemoteAddr, Rights, window,
};
use std::rc::Rc;

const REGION: u64 = 1 << 20;

fn world(profile: NicProfile) -> World {
    let world = World::new(1, profile);
    world.add_node(&[(REGION, Rights::ALL)]);
    world
}

fn at(node: u16, offset: u64) -> RemoteAddr {
    RemoteAddr {
        node: NodeId(node),
        region: RegionId(0),
        offset,
    }
}

/// Picoseconds of an unloaded READ and WRITE of `len` bytes.
fn unloaded(len: usize) -> (u64, u64) {
    let world = world(NicProfile::connectx5_edr());
    let endpoint = world.endpoint(Limits::default());
    let executor = Executor::new(Rc::clone(&endpoint));
    executor.block_on(async {
        endpoint.read(at(0, 0), len).await.unwrap();
        let read = world.now_picos();
        let data = endpoint.core().buffers.take(len).unwrap();
        endpoint.write(at(0, 64), data).await.unwrap();
        (read, world.now_picos() - read)
    })
}

#[test]
fn an_unloaded_verb_takes_the_profiles_latency() {
    for len in [0, 8, 40, 104, 256, 1024, 65536] {
        let expected = 1_290_000 + 80 * len as u64;
        assert_eq!(unloaded(len), (expected, expected), "{len} bytes");
    }
}

/// READs of `len` bytes a nanosecond, of many clients with `width` coroutines each.
fn rate(profile: NicProfile, clients: usize, nodes: u16, width: usize, len: usize) -> f64 {
    const READS: usize = 100_000;
    let world = World::new(1, profile);
    for _ in 0..nodes {
        world.add_node(&[(REGION, Rights::ALL)]);
    }
    let mut sim = Simulation::new(world);
    let each = READS / clients;
    for client in 0..clients {
        sim.spawn_client(|endpoint| reads(endpoint, client, each, width, len));
    }
    assert_eq!(sim.run(), RunEnd::Done);
    (each * clients) as f64 / (sim.world().now_picos() as f64 / 1e3)
}

async fn reads(endpoint: Rc<SimEndpoint>, client: usize, count: usize, width: usize, len: usize) {
    let nodes = endpoint.node_count();
    let reads = (0..count).map(|read| {
        let endpoint = &endpoint;
        let node = ((client * 7919 + read) % nodes) as u16;
        async move { endpoint.read(at(node, 64 * (read as u64 % 100)), len).await }
    });
    window(width, reads, |_, read| assert_eq!(read.unwrap().len(), len)).await;
}

#[test]
fn a_saturated_node_answers_at_the_rate_of_its_nic() {
    for len in [40, 104, 184, 256] {
        let expected = 1.0 / (15.0 + 0.0713 * len as f64);
        let measured = rate(NicProfile::connectx5_edr(), 28, 1, 32, len);
        // The first round trip and the last answers are not at full rate.
        assert!(
            (measured / expected - 1.0).abs() < 0.01,
            "{len}: {measured} {expected}"
        );
    }
}

#[test]
fn more_outstanding_reads_per_queue_pair_raise_the_throughput() {
    let with = |max_outstanding_reads| {
        let profile = NicProfile {
            max_outstanding_reads,
            ..NicProfile::connectx5_edr()
        };
        rate(profile, 14, 1, 32, 40)
    };
    let (one, sixteen) = (with(1), with(16));
    assert!(sixteen > 4.0 * one, "{sixteen} {one}");
}

#[test]
fn a_nic_that_lost_its_connections_serves_ten_million_reads_a_second() {
    // Paper 003, section 3.3: what is left at 10,000 queue pairs, none of them in the cache.
    let many = rate(NicProfile::connectx5_edr(), 10_000, 1, 1, 64);
    assert!((0.0095..0.0105).contains(&many), "{many}");
    let few = rate(NicProfile::connectx5_edr(), 1_000, 1, 1, 64);
    assert!(few > 4.5 * many, "{few} {many}");
}

#[test]
fn small_pages_cost_translations() {
    let with = |page_bytes| {
        let profile = NicProfile::connectx5_edr();
        let cache = NicCacheProfile {
            capacity_bytes: 64 << 10,
            ..profile.cache
        };
        let world = World::new(1, NicProfile { cache, ..profile });
        let regions = [(64 << 20, Rights::READ)];
        let node = NodeConfig {
            page_bytes,
            ..NodeConfig::new(&regions)
        };
        world.add_node_with(&node);
        let mut sim = Simulation::new(world);
        for client in 0..8 {
            sim.spawn_client(async move |endpoint| {
                let reads = (0..5000u64).map(|read| {
                    let offset = (client * 7_777_777 + read * 5_000_011) % (64 << 20);
                    endpoint.read(at(0, offset / 64 * 64), 64)
                });
                window(16, reads, |_, read| drop(read.unwrap())).await;
            });
        }
        assert_eq!(sim.run(), RunEnd::Done);
        sim.world().now()
    };
    let (huge, small) = (with(2 << 20), with(4 << 10));
    // 19.6 ns a READ, and 13.4 for the translation that nearly none finds.
    let ratio = small as f64 / huge as f64;
    assert!((1.5..1.75).contains(&ratio), "{small} {huge}");
}

#[test]
fn payload_shares_the_link_of_the_client_host() {
    // Four nodes could answer 4 x 16.4 B/ns; the one link to the client carries 12.5.
    let rate = rate(NicProfile::connectx5_edr(), 16, 4, 16, 4096);
    let link = 12.5 / (4096.0 + 30.0);
    assert!((rate / link - 1.0).abs() < 0.01, "{rate} {link}");
}

#[test]
fn handlers_share_the_owners_cpu() {
    let world = world(NicProfile::connectx5_edr());
    let owner = world.node_handle(NodeId(0));
    assert_eq!([owner.occupy_cpu(0), owner.occupy_cpu(200)], [300, 800]);
    world.advance_to(5000);
    assert_eq!(owner.occupy_cpu(0), 5300);
}
