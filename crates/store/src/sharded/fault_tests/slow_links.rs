//! Links of seconds.

use super::super::{clear, drop_table};
use super::*;
use crate::ErrorKind;
use crate::catalog::LEASE;
use farslot_fabric::FabricError;

/// A network card over a link with that round trip, or as it is.
pub(super) fn over_links_of(round_trip: Nanos) -> NicProfile {
    let profile = NicProfile::connectx5_edr();
    NicProfile {
        read_latency_ns: profile.read_latency_ns.max(round_trip as f64),
        ..profile
    }
}

/// Who waits for slow links.
pub(super) fn patient() -> Limits {
    Limits {
        verb_timeout: 4 * LEASE,
        ..Limits::default()
    }
}

fn world_of(round_trip: Nanos) -> World {
    let world = World::new(1, over_links_of(round_trip));
    for _ in 0..NODES {
        world.add_node(&[(AMPLE, Rights::ALL)]);
    }
    world
}

#[test]
fn tables_are_made_used_emptied_and_dropped_over_links_of_a_second() {
    let world = world_of(1_000_000_000);
    let mut simulation = Simulation::new(world.clone());
    let client = simulation.add_client(HostId(0), Limits::default());
    let done = simulation.spawn(client, async move |endpoint| {
        let new = new_table(&linear(), 1);
        create(&*endpoint, new).await.unwrap();
        for _ in 0..2 {
            let table = open(&endpoint, &nodes(), plain()).await.unwrap();
            for number in 0..8 {
                assert_eq!(table.get(&key(number)).await.unwrap(), None);
                let put = Operation::Put(&key(number), &value(number));
                assert!(table.run(put).await.unwrap().is_changed());
                // Now and then nothing is known of the lease.
                endpoint.sleep(LEASE / 5 * number).await;
                let found = table.get(&key(number)).await.unwrap();
                assert_eq!(found.as_deref(), Some(&value(number)[..]));
            }
            clear(&*endpoint, &nodes(), "t").await.unwrap();
            let gone = table.get(&key(0)).await.unwrap_err();
            assert_eq!(gone.kind(), ErrorKind::TableGone, "{gone}");
        }
        drop_table(&*endpoint, &nodes(), "t").await.unwrap();
    });
    run(&mut simulation, 1);
    done.try_take().unwrap();
}

#[test]
fn over_links_that_are_slower_than_a_lease_operations_fail_and_say_so() {
    let world = world_of(LEASE / 4 * 5);
    let mut simulation = Simulation::new(world.clone());
    let client = simulation.add_client(HostId(0), patient());
    let failed = simulation.spawn(client, async move |endpoint| {
        // The catalog needs no lease.
        let new = new_table(&linear(), 1);
        create(&*endpoint, new).await.unwrap();
        let begun = endpoint.now();
        let opened = open(&endpoint, &nodes(), plain()).await;
        let error = match opened {
            Ok(table) => {
                let put = Operation::Put(&key(1), &value(1));
                table.run(put).await.unwrap_err()
            }
            Err(error) => error,
        };
        (error, endpoint.now() - begun)
    });
    run(&mut simulation, 1);
    let (error, took) = failed.try_take().unwrap();
    assert!(
        matches!(
            error,
            StoreError::Node {
                error: FabricError::SlowLink { .. },
                ..
            } | StoreError::Fabric(FabricError::SlowLink { .. })
        ),
        "{error}"
    );
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert!(!error.may_have_taken_effect());
    assert!(took < 10 * patient().verb_timeout, "{took}");
}
