//! Clients by calls and clients by verbs, together, while nodes and what travels are lost.

use super::*;
use crate::clients::CallRule;

/// What each client does by calls: everything, lookups, or nothing.
fn called(client: u32) -> ClientFactory {
    let rule = |writes| CallRule {
        writes,
        is_forced: false,
    };
    let calls = match client % 3 {
        0 => Some(rule(true)),
        1 => Some(rule(false)),
        _ => None,
    };
    ClientFactory { calls, ..plain() }
}

#[test]
fn what_owners_do_is_linearizable_with_what_clients_do_and_goes_with_their_memory() {
    let scheme = linear();
    let losses = all((0..150).map(|seed| lose_a_node(seed, &scheme, called, 3, 0)));
    assert!(losses.failed > 100 && losses.adopted > 200, "{losses:?}");
    let race = options().race(RaceShape::default()).scheme().unwrap();
    let losses = all((0..90).map(|seed| lose_a_node(seed, &race, called, 3, 0)));
    assert!(losses.failed > 50 && losses.adopted > 100, "{losses:?}");
    // One that grows, by its owner and by its clients.
    let growing = options().capacity(2).grow_to(64).race(RaceShape::default());
    let growing = growing.scheme().unwrap();
    let losses = all((0..60).map(|seed| lose_a_node(seed, &growing, called, 3, 0)));
    assert!(losses.failed > 30 && losses.adopted > 60, "{losses:?}");
    let scheme = cuckoo();
    let losses = all((0..60).map(|seed| lose_a_node(seed, &scheme, called, 1, 0)));
    assert!(losses.failed > 50 && losses.adopted > 100, "{losses:?}");
}

/// The tests above would pass if nobody called.
#[test]
fn owners_are_called_and_answer() {
    let scheme = linear();
    let world = world(3, AMPLE);
    serve_simulated(&world, NODES);
    make(&world, &scheme, 3);
    let mut simulation = Simulation::new(world);
    let counted = simulation.spawn_client(async move |endpoint| {
        let clients = called(0);
        let table = open(&endpoint, &nodes(), clients).await.unwrap();
        let before = endpoint.core().counters.snapshot();
        for number in 0..40 {
            let put = Operation::Put(&key(number), &value(number));
            assert!(table.run(put).await.unwrap().is_changed());
            let found = table.get(&key(number)).await.unwrap();
            assert_eq!(found.as_deref(), Some(&value(number)[..]));
        }
        endpoint.core().counters.snapshot().since(&before).verbs
    });
    run(&mut simulation, 3);
    let verbs = counted.try_take().unwrap();
    assert_eq!(verbs.iter().sum::<u64>(), 80);
    assert_eq!(verbs[farslot_fabric::VerbKind::Call as usize], 80);
}
