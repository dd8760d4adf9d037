//! Tables that are cleared while others use them, and clients that die in that: a key becomes
//! absent at one moment, and what is acknowledged after it stays.

use super::super::change;
use super::*;
use crate::ErrorKind;
use crate::catalog::{Catalog, LEASE};
use farslot_check::OpId;
use std::cell::RefCell;

/// How a table is cleared.
#[derive(Clone, Copy, PartialEq)]
enum ClearMethod {
    AsItIs,
    /// A mutant, which does not wait for clients that have the table open.
    WithoutWaiting,
}

/// What a run has met.
#[derive(Default, Debug)]
struct Encounters {
    /// Operations that found that the table was another.
    gone: u64,
    /// Tables that were cleared by the client that began to.
    cleared: u64,
}

async fn operate(table: &ShardedTable, op: &TableOp<u64>, key: &[u8]) -> Result<TableRet<u64>> {
    Ok(match op {
        TableOp::Put(new) => {
            let put = table.run(Operation::Put(key, &value(*new))).await?;
            TableRet::Put {
                inserted: Some(put.is_changed()),
            }
        }
        TableOp::Remove => TableRet::Removed(table.run(Operation::Remove(key)).await?.is_changed()),
        _ => TableRet::Got(table.get(key).await?.map(|found| number(&found))),
    })
}

/// Uses the table, and opens it again whenever it is gone; returns how often it was.
async fn user(endpoint: Rc<SimEndpoint>, client: u32, record: Record, seed: u64) -> u64 {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut table = open_surely(&endpoint, &nodes(), &plain()).await;
    let mut gone = 0;
    for round in 0..60_u64 {
        endpoint.sleep(rng.random_range(0..LEASE / 20)).await;
        let of_key = rng.random_range(0..KEYS);
        let op = match rng.random_range(0..8) {
            0..3 => TableOp::Get,
            3..7 => TableOp::Put((u64::from(client) << 32) | (round + 1)),
            _ => TableOp::Remove,
        };
        let id = record.invoke(client, of_key, Op::Table(op.clone()), endpoint.now());
        match operate(&table, &op, &key(of_key)).await {
            Ok(ret) => record.complete(id, Some(ret), endpoint.now()),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::TableGone, "seed {seed}: {error}");
                gone += 1;
                // It may have been refused between two verbs.
                record.in_doubt(id, endpoint.now());
                table = open_surely(&endpoint, &nodes(), &plain()).await;
            }
        }
    }
    gone
}

/// Empties the table twice; `begun` has what has not ended.
async fn emptier(
    endpoint: Rc<SimEndpoint>,
    how: ClearMethod,
    record: Record,
    begun: Rc<RefCell<Vec<OpId>>>,
    seed: u64,
) -> u64 {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for _ in 0..2 {
        endpoint.sleep(rng.random_range(0..LEASE)).await;
        let now = endpoint.now();
        let ids = (0..KEYS).map(|of_key| record.invoke(8, of_key, Op::Lose, now));
        begun.replace(ids.collect());
        match how {
            ClearMethod::AsItIs => change::clear(&*endpoint, &nodes(), "t").await.unwrap(),
            ClearMethod::WithoutWaiting => {
                for node in (0..NODES).map(NodeId) {
                    let catalog = Catalog::new(&*endpoint, node).unwrap();
                    let creation = new_table(&scheme_of(seed), seed).creation;
                    let begun = catalog
                        .begin_clearing("t", Some(creation))
                        .await
                        .unwrap()
                        .unwrap();
                    catalog.end_clearing(&begun, true).await.unwrap();
                }
            }
        }
        for id in begun.take() {
            record.complete(id, None, endpoint.now());
        }
    }
    2
}

/// What the table of a seed is.
fn scheme_of(seed: u64) -> Scheme {
    let options = match (seed % 3, seed / 3 % 2) {
        (0, _) => options().slots(SlotKind::Heap),
        (1, 0) => options().race(RaceShape::default()),
        (1, _) => options().chained(),
        (_, 0) => options().ordered(),
        _ => options(),
    };
    options.scheme().unwrap()
}

/// Whether the histories of all keys can be explained.
fn run_seed(seed: u64, how: ClearMethod, met: &mut Encounters) -> std::result::Result<(), String> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let world = world(seed, AMPLE);
    serve_simulated(&world, NODES);
    make(&world, &scheme_of(seed), seed);
    let mut simulation = Simulation::new(world.clone());
    let clears = simulation.add_client(HostId(0), limits());
    let mut faults = FaultPlan::chaos(seed, rng.random_range(0.0..=1.0));
    if how == ClearMethod::AsItIs && seed.is_multiple_of(2) {
        faults.client_stops.push(ClientStop {
            client: clears,
            when: FaultTime::AfterVerbs(rng.random_range(1..450)),
        });
    }
    world.set_faults(faults);
    let (record, begun) = (Record::new(), Rc::default());
    let cleared = {
        let (record, begun) = (record.clone(), Rc::clone(&begun));
        simulation.spawn(clears, async move |endpoint| {
            emptier(endpoint, how, record, begun, seed).await
        })
    };
    let users: Vec<_> = (0..3)
        .map(|number| {
            let (client, record) = (simulation.add_client(HostId(0), limits()), record.clone());
            let seed = rng.random();
            simulation.spawn(client, async move |endpoint| {
                user(endpoint, number, record, seed).await
            })
        })
        .collect();
    run(&mut simulation, seed);
    met.gone += users.iter().filter_map(|user| user.try_take()).sum::<u64>();
    met.cleared += cleared.try_take().unwrap_or(0);
    for id in begun.take() {
        record.in_doubt(id, world.now());
    }
    let last = record.clone();
    simulation.spawn_client(async move |endpoint| {
        let table = open(&endpoint, &nodes(), plain()).await.unwrap();
        for of_key in 0..KEYS {
            let id = last.invoke(9, of_key, Op::Table(TableOp::Get), endpoint.now());
            let got = operate(&table, &TableOp::Get, &key(of_key)).await.unwrap();
            last.complete(id, Some(got), endpoint.now());
        }
    });
    run(&mut simulation, seed);
    check(&record.take(), &LosingMap(RegisterMap::new()))
        .map(drop)
        .map_err(|error| format!("seed {seed}: {error}"))
}

#[test]
fn a_table_becomes_empty_at_one_moment() {
    let mut met = Encounters::default();
    for seed in 0..50 {
        if let Err(error) = run_seed(seed, ClearMethod::AsItIs, &mut met) {
            panic!("{error}");
        }
    }
    println!("{met:?}");
    assert!(met.gone > 60 && met.cleared >= 30, "{met:?}");
}

#[test]
fn a_table_that_is_open_again_too_early_is_found_out() {
    // In the memory of one generation two allocate: clients find torn values, or miss their own.
    let is_found = |seed: &u64| {
        let run = || {
            run_seed(
                *seed,
                ClearMethod::WithoutWaiting,
                &mut Encounters::default(),
            )
        };
        !matches!(std::panic::catch_unwind(run), Ok(Ok(())))
    };
    let found = (0..30).step_by(3).filter(is_found).count();
    assert!(found > 0, "none of 10");
}
