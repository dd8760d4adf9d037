//! Clients by calls and clients by verbs, together, while nodes and what travels are lost.

use super::*;
use crate::Outcome;
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

/// Keys of a batch: several turns of each node, whose handlers take no time, and of 64 operations.
const BATCH: u64 = 600;

/// Limits of clients that wait for longer than any turns take here, faults included.
fn patient() -> Limits {
    Limits {
        verb_timeout: 20_000_000,
        ..Limits::default()
    }
}

fn roomy() -> Scheme {
    options().capacity(2 * BATCH).scheme().unwrap()
}

/// What a client is told of an operation, for the history.
fn told(op: &TableOp<u64>, outcome: &Outcome) -> TableRet<u64> {
    let found = match outcome {
        Outcome::Value(value) => value.as_ref().map(|value| number(value)),
        _ => None,
    };
    match op {
        TableOp::Get => TableRet::Got(found),
        TableOp::FindOrPut(_) => found.map_or(TableRet::Inserted, TableRet::Found),
        TableOp::Update(_) => TableRet::Updated(outcome.is_changed()),
        TableOp::Remove => TableRet::Removed(outcome.is_changed()),
        _ => TableRet::Put {
            inserted: Some(outcome.is_changed()),
        },
    }
}

/// Runs batches with an operation on each key; returns how many operations failed.
async fn run_batches(
    table: &ShardedTable,
    client: u32,
    record: &Record,
    mut rng: ChaCha8Rng,
) -> u64 {
    let mut failed = 0;
    let now = || table.endpoint.now();
    for round in 0..4_u64 {
        table.endpoint.sleep(rng.random_range(0..=20_000)).await;
        let new = u64::from(client) << 32 | (round + 1);
        let ops: Vec<_> = (0..BATCH)
            .map(|_| match rng.random_range(0..10) {
                0..3 => TableOp::Get,
                3..6 => TableOp::Put(new),
                6 => TableOp::FindOrPut(new),
                7 => TableOp::Update(new),
                _ => TableOp::Remove,
            })
            .collect();
        let (keys, value): (Vec<_>, _) = ((0..BATCH).map(key).collect(), value(new));
        let operations = keys.iter().zip(&ops).map(|(key, op)| match op {
            TableOp::Get => Operation::Get(key),
            TableOp::Put(_) => Operation::Put(key, &value),
            TableOp::FindOrPut(_) => Operation::FindOrPut(key, &value),
            TableOp::Update(_) => Operation::Update(key, &value),
            _ => Operation::Remove(key),
        });
        let operations: Vec<_> = operations.collect();
        let begun = now();
        let ids: Vec<_> = (0..)
            .zip(&ops)
            .map(|(key, op)| record.invoke(client, key, Op::Table(op.clone()), begun))
            .collect();
        let done = |at: usize, outcome: Result<Outcome>| match outcome {
            Ok(outcome) => record.complete(ids[at], Some(told(&ops[at], &outcome)), now()),
            Err(error) => {
                failed += 1;
                assert!(matches!(error, StoreError::Node { .. }), "{error}");
                match error.may_have_taken_effect() {
                    true => record.in_doubt(ids[at], now()),
                    false => record.no_effect(ids[at], now()),
                }
            }
        };
        table.run_many(&operations, done).await;
    }
    failed
}

/// Clients run batches by calls, and one by verbs, while a node stops and comes back empty, and a
/// client stops for good. Returns how many operations failed.
fn lose_a_node_in_batches(seed: u64) -> u64 {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (world, scheme) = (world(seed, AMPLE), roomy());
    serve_simulated(&world, NODES);
    make(&world, &scheme, seed);
    let slots = new_table(&scheme, seed).slots;
    let lost = NodeId(rng.random_range(0..NODES));
    let stop = world.now() + rng.random_range(20_000..300_000);
    let back_after = rng.random_range(1_000..300_000);
    let (record, mut simulation) = (Record::new(), Simulation::new(world.clone()));
    let clients = [0, 0, 2, 0].map(|kind| (simulation.add_client(HostId(0), patient()), kind));
    world.set_faults(FaultPlan {
        node_stops: vec![NodeStop {
            node: lost,
            when: FaultTime::At(stop),
            back_after: Some(back_after),
        }],
        client_stops: vec![ClientStop {
            client: clients[3].0,
            when: FaultTime::At(world.now() + rng.random_range(20_000..200_000)),
        }],
        refuse_at_once: rng.random_bool(0.5),
        ..FaultPlan::chaos(seed, rng.random_range(0.0..=0.5))
    });
    let mut number = 0;
    let failed = clients.map(|(client, kind)| {
        let (record, rng) = (record.clone(), ChaCha8Rng::seed_from_u64(rng.random()));
        number += 1;
        simulation.spawn(client, async move |endpoint| {
            let table = open_surely(&endpoint, &nodes(), &called(kind)).await;
            run_batches(&table, number, &record, rng).await
        })
    });
    run(&mut simulation, seed);
    let failed = failed.into_iter().filter_map(|client| client.try_take());
    let failed: u64 = failed.sum();
    world.advance_to((stop + back_after).max(world.now()) + 1);
    for number_of_key in 0..BATCH {
        if slots.partition_of(&key(number_of_key)) == lost.0 {
            let id = record.invoke(10, number_of_key, Op::Lose, stop);
            record.complete(id, None, stop + back_after);
        }
    }
    if let Err(error) = check(&record.take(), &LosingMap(RegisterMap::new())) {
        panic!("seed {seed}, {} lost: {error}", lost.0);
    }
    failed
}

#[test]
fn batches_of_several_turns_are_linearizable_and_go_with_their_clients_and_nodes() {
    let failed: u64 = (0..60).map(lose_a_node_in_batches).sum();
    assert!(failed > 2_000, "{failed}");
}

/// What a node has not come to in a call's turn it goes on with: nothing is left to clients.
#[test]
fn batches_of_several_turns_are_one_call_of_each_node() {
    let world = world(5, AMPLE);
    serve_simulated(&world, NODES);
    make(&world, &roomy(), 5);
    let mut simulation = Simulation::new(world);
    let client = simulation.add_client(HostId(0), patient());
    let counted = simulation.spawn(client, async move |endpoint| {
        let table = open(&endpoint, &nodes(), called(0)).await.unwrap();
        let before = endpoint.core().counters.snapshot();
        let (keys, value) = ((0..BATCH).map(key).collect::<Vec<_>>(), value(7));
        let puts: Vec<_> = keys.iter().map(|key| Operation::Put(key, &value)).collect();
        let mut put = 0;
        let done = |_, outcome: Result<Outcome>| put += u64::from(outcome.unwrap().is_changed());
        table.run_many(&puts, done).await;
        assert_eq!(put, BATCH);
        endpoint.core().counters.snapshot().since(&before).verbs
    });
    run(&mut simulation, 5);
    let verbs = counted.try_take().unwrap();
    assert_eq!(verbs.iter().sum::<u64>(), u64::from(NODES));
    assert_eq!(verbs[farslot_fabric::VerbKind::Call as usize], 3);
}
