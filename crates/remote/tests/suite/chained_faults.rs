//! The chained table under faults: its history is linearizable.

use crate::chained_model::SHAPE;
use crate::sim::{OBJECT, client, faults, limits, world};
use farslot_check::{Recorder, RegisterMap, TableOp, TableRet, check};
use farslot_fabric::sim::{FaultPlan, HostId, RunEnd, SimEndpoint, Simulation};
use farslot_fabric::{Endpoint, EndpointExt, Executor, window};
use farslot_remote::chained::{Chained, Shape, Table};
use farslot_remote::{LookupCounts, PolicyOptions, RemoteError};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::RefCell;
use std::rc::Rc;

type Record = Recorder<u64, TableOp<u64>, TableRet<u64>>;

/// What has happened in all runs, so that none of it is vacuous.
#[derive(Default)]
struct Tally {
    by_read: u64,
    by_both: u64,
    by_call: u64,
    seen: u64,
    in_doubt: u64,
}

impl Tally {
    fn add(&mut self, counts: LookupCounts) {
        self.by_read += counts.by_read;
        self.by_both += counts.by_both;
        self.by_call += counts.by_call;
    }
}

/// Longer than a cache line: READs of it tear.
fn value(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(9)
}

fn number(value: &[u8]) -> u64 {
    let (words, _) = value.as_chunks::<8>();
    assert!(words.windows(2).all(|pair| pair[0] == pair[1]), "{value:?}");
    u64::from_le_bytes(words[0])
}

async fn perform(
    table: &Chained<SimEndpoint>,
    key: u64,
    operation: TableOp<u64>,
) -> Result<TableRet<u64>, RemoteError> {
    let bytes = key.to_le_bytes();
    Ok(match operation {
        TableOp::Get => {
            let item = table.get(&bytes).await?;
            TableRet::Got(item.map(|item| number(&item.value)))
        }
        TableOp::Put(new) => TableRet::Put {
            inserted: Some(table.put(&bytes, &value(new)).await?),
        },
        TableOp::Update(new) => TableRet::Updated(table.update(&bytes, &value(new)).await?),
        TableOp::Remove => TableRet::Removed(table.remove(&bytes).await?),
        TableOp::Replace(..) | TableOp::RemoveIf(_) => unreachable!("none is drawn"),
        TableOp::FindOrPut(_) => unreachable!("it is not drawn"),
    })
}

fn operation(rng: &mut ChaCha8Rng) -> TableOp<u64> {
    match rng.random_range(0..10) {
        0..5 => TableOp::Get,
        5..8 => TableOp::Put(rng.random_range(0..1000)),
        8 => TableOp::Update(rng.random_range(0..1000)),
        _ => TableOp::Remove,
    }
}

fn run(seed: u64, tally: &Rc<RefCell<Tally>>) -> u64 {
    let shape = Shape {
        value_bytes: 72,
        slots: 1 + (seed % 2) as u8,
        buckets: 2,
        most_buckets: 16,
        overflow: 16,
        split_after: (seed % 4) as u32 * 3,
        seed: 7,
        ..SHAPE
    };
    let table = Table::new(shape).unwrap();
    let world = world(seed, &table, shape.at + shape.bytes());
    world.set_faults(faults(seed));
    let record = Record::new();
    let mut sim = Simulation::new(world.clone());
    for client_number in 0..4u32 {
        let id = sim.add_client(HostId(0), limits());
        let (record, tally) = (record.clone(), Rc::clone(tally));
        sim.spawn(id, async move |endpoint| {
            // In so few lookups no policy gives READs up.
            let policy = match client_number {
                3 => PolicyOptions::CALLS,
                _ => PolicyOptions::default(),
            };
            let places = 4 * (client_number % 2) as usize;
            let table = Chained::new(table, OBJECT, client(&endpoint), places, policy);
            let coroutines = (0..2u32).map(|coroutine| {
                let number = client_number * 2 + coroutine;
                let mut rng = ChaCha8Rng::seed_from_u64(seed << 8 | u64::from(number));
                let (table, record, endpoint, tally) = (&table, &record, &endpoint, &tally);
                async move {
                    for _ in 0..25 {
                        let key = rng.random_range(0..6);
                        let operation = operation(&mut rng);
                        let begun = record.invoke(number, key, operation.clone(), endpoint.now());
                        match perform(table, key, operation).await {
                            Ok(ret) => {
                                let seen = matches!(ret, TableRet::Got(Some(_)));
                                tally.borrow_mut().seen += u64::from(seen);
                                record.complete(begun, ret, endpoint.now());
                            }
                            Err(error) if error.may_have_taken_effect() => {
                                tally.borrow_mut().in_doubt += 1;
                                record.in_doubt(begun, endpoint.now());
                                endpoint.sleep(20_000).await;
                            }
                            Err(error) => panic!("seed {seed}: {error}"),
                        }
                    }
                }
            });
            window(2, coroutines, |_, ()| ()).await;
            tally.borrow_mut().add(table.remote().counts());
        });
    }
    assert_eq!(sim.run_until(1_000_000_000), RunEnd::Done, "seed {seed}");
    world.set_faults(FaultPlan::default());
    world.advance_to(world.now() + 1_000_000);
    let endpoint = world.endpoint(limits());
    Executor::new(Rc::clone(&endpoint)).block_on(async {
        let table = Chained::new(
            table,
            OBJECT,
            client(&endpoint),
            0,
            PolicyOptions::default(),
        );
        for key in 0..6 {
            let begun = record.invoke(99, key, TableOp::Get, endpoint.now());
            let ret = perform(&table, key, TableOp::Get).await.unwrap();
            record.complete(begun, ret, endpoint.now());
        }
    });
    if let Err(error) = check(&record.take(), &RegisterMap::new()) {
        panic!("seed {seed}:\n{error}");
    }
    world.digest()
}

#[test]
fn histories_under_faults_are_linearizable() {
    let tally = Rc::default();
    let digests: Vec<_> = (0..150).map(|seed| run(seed, &tally)).collect();
    let again: Vec<_> = (0..3).map(|seed| run(seed, &tally)).collect();
    assert_eq!(digests[..3], again, "the same seed is the same run");
    let tally = tally.borrow();
    for (subject, count, least) in [
        ("lookups by READ", tally.by_read, 1000),
        ("lookups by READ and call", tally.by_both, 1000),
        ("lookups by call", tally.by_call, 50),
        ("values seen", tally.seen, 1000),
        ("changes in doubt", tally.in_doubt, 10),
    ] {
        assert!(count > least, "{subject}: {count}");
    }
}
