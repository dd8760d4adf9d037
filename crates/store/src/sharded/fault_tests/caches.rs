//! Clients with caches while a node goes and comes back empty.

use super::*;
use crate::cache::Cache;
use std::time::Duration;

/// How old answers from caches may be: longer than a node is away, or than most runs take.
const BOUNDS: [Nanos; 2] = [200_000, 5_000_000];

/// With a cache of answers that may be so old.
fn cached(bound: Nanos) -> ClientFactory {
    let cache = Cache::new(1 << 14).stale_for(Duration::from_nanos(bound));
    ClientFactory {
        cache: Some(cache),
        ..plain()
    }
}

/// Nor does the client's cache: whatever it may still say of other nodes, of that one it says
/// nothing from before, once it is known.
#[test]
fn a_node_that_came_back_empty_is_not_answered_for_from_the_cache() {
    let scheme = linear();
    let runs = (0..120).map(|seed| {
        let (clients, bound): (fn(u32) -> _, _) = match seed % 2 {
            0 => (|_| cached(BOUNDS[0]), BOUNDS[0]),
            _ => (|_| cached(BOUNDS[1]), BOUNDS[1]),
        };
        lose_a_node(seed, &scheme, clients, 3, bound)
    });
    let losses = all(runs);
    assert!(losses.failed > 50 && losses.adopted > 150, "{losses:?}");
    assert!(losses.hits > 1_000, "{losses:?}");
    let scheme = cuckoo();
    let clients: fn(u32) -> _ = |_| cached(BOUNDS[1]);
    let losses = all((0..60).map(|seed| lose_a_node(seed, &scheme, clients, 1, BOUNDS[1])));
    assert!(losses.adopted > 50 && losses.hits > 500, "{losses:?}");
}

/// The same in the open: what is in the cache when the node goes is not said again when it is back,
/// whichever of its keys is asked for first.
#[test]
fn a_cache_goes_with_the_memory_that_it_is_of() {
    for asks_for_cached_first in [true, false] {
        let world = world(1, AMPLE);
        make(&world, &linear(), 1);
        let slots = new_table(&linear(), 1).slots;
        let lost = NodeId(slots.partition_of(&key(0)));
        let is_lost = |number: &u64| slots.partition_of(&key(*number)) == lost.0;
        let of_node: Vec<u64> = (0..100).filter(is_lost).take(2).collect();
        let elsewhere = (0..100).find(|number| !is_lost(number)).unwrap();
        let (stop, back_after) = (1_000_000, 10_000_000);
        world.set_faults(FaultPlan {
            node_stops: vec![NodeStop {
                node: lost,
                when: FaultTime::At(world.now() + stop),
                back_after: Some(back_after),
            }],
            ..FaultPlan::default()
        });
        let mut simulation = Simulation::new(world.clone());
        let client = simulation.add_client(HostId(0), limits());
        simulation.spawn(client, async move |endpoint| {
            // Older than this test takes.
            let clients = cached(u64::MAX);
            let table = open(&endpoint, &nodes(), clients).await.unwrap();
            let get = async |number: u64| {
                let found = table.get(&key(number)).await;
                found.map(|found| found.map(|found| self::number(&found)))
            };
            let hits = || table.state().cache.hits;
            for number in [of_node[0], of_node[1], elsewhere] {
                let put = Operation::Put(&key(number), &value(number));
                table.run(put).await.unwrap();
            }
            for cached in [of_node[0], elsewhere] {
                for _ in 0..2 {
                    assert_eq!(get(cached).await, Ok(Some(cached)));
                }
            }
            assert_eq!(hits(), 2);
            endpoint.sleep(stop).await;
            // While nobody has noticed, it may be said; then it is not.
            assert_eq!(get(of_node[0]).await, Ok(Some(of_node[0])));
            let away = get(of_node[1]).await.unwrap_err();
            assert!(matches!(away, StoreError::Node { .. }), "{away}");
            let away = get(of_node[0]).await.unwrap_err();
            assert!(matches!(away, StoreError::Node { .. }), "{away}");
            assert_eq!(get(elsewhere).await, Ok(Some(elsewhere)));
            assert_eq!(hits(), 4);
            endpoint.sleep(2 * back_after).await;
            let order = match asks_for_cached_first {
                true => [of_node[0], of_node[1]],
                false => [of_node[1], of_node[0]],
            };
            for number in order {
                assert_eq!(get(number).await, Ok(None));
            }
            assert_eq!(table.nodes.times_adopted(lost), 1);
            // What is known of it from then on is as good as ever.
            assert_eq!(get(of_node[0]).await, Ok(None));
            assert_eq!(get(elsewhere).await, Ok(Some(elsewhere)));
            let (key, value) = (key(of_node[0]), value(7));
            let put = table.run(Operation::Put(&key, &value)).await.unwrap();
            assert!(put.is_changed());
            assert_eq!(get(of_node[0]).await, Ok(Some(7)));
        });
        run(&mut simulation, 1);
    }
}
