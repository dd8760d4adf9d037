//! Sealed tables while everything goes wrong: torn, late and lost words, slow and cut-off clients,
//! a builder that stops after any of its verbs. A lookup answers right, or with an error.

use crate::common::chaos::limits;
use crate::common::from_sim;
use crate::common::sealed::{Shape, region_bytes, shapes};
use crate::common::{TABLE, scan_all};
use farslot_fabric::sim::{
    ClientId, ClientStop, FaultPlan, FaultTime, HostId, NicProfile, Partition, RunEnd, Side,
    SimEndpoint, Simulation, SlowNode, World,
};
use farslot_fabric::{Endpoint, EndpointExt, Executor, FabricError, Limits, Nanos, NodeId, Rights};
use farslot_index::sealed::{ReadPolicy, SealedLayout, SealedTable};
use farslot_index::{Index, IndexError, IndexExt, KeyRule, Result};
use farslot_testbed::AnyEndpoint;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::Cell;
use std::rc::Rc;

type Records = Vec<(Vec<u8>, Vec<u8>)>;

const READERS: u32 = 3;
const LONGEST_RUN: Nanos = 10_000_000_000;

/// What there is in one run.
#[derive(Clone)]
struct Case {
    shape: Shape,
    layout: SealedLayout,
    records: Records,
    policy: ReadPolicy,
}

impl Case {
    fn drawn(shape: Shape, most: u64, rng: &mut ChaCha8Rng) -> Self {
        let held = rng.random_range(0..=most);
        let mut records: Records = (0..held)
            .map(|value| {
                let key = match shape.keys {
                    KeyRule::Unique => value as u16,
                    KeyRule::Multi => rng.random_range(0..=held as u16 / 2),
                };
                (shape.key(key), shape.value(value))
            })
            .collect();
        records.reverse();
        let load = [0.5, 0.9, 1.0][rng.random_range(0..3)];
        let layout = shape.options(load).layout_for(&as_pairs(&records)).unwrap();
        Self {
            shape,
            layout,
            records,
            policy: ReadPolicy::Fixed([1, 3, 16][rng.random_range(0..3)]),
        }
    }

    fn world(&self, seed: u64) -> World {
        let world = World::new(seed, NicProfile::connectx5_edr());
        world.add_node(&[(region_bytes(&self.layout), Rights::ALL)]);
        world
    }

    async fn open(&self, endpoint: Rc<SimEndpoint>) -> Result<SealedTable<AnyEndpoint>> {
        SealedTable::open(from_sim(endpoint), TABLE, self.layout.clone(), self.policy).await
    }

    async fn build(&self, endpoint: Rc<SimEndpoint>) -> Result<()> {
        let table = self.open(endpoint).await?;
        table.build(&as_pairs(&self.records)).await
    }

    fn values(&self, key: &[u8]) -> Vec<Vec<u8>> {
        let of_key = self.records.iter().filter(|record| record.0 == key);
        sorted(of_key.map(|record| record.1.clone()).collect())
    }

    /// Looks up a key both ways; whether it had an answer.
    async fn look_up(&self, table: &SealedTable<AnyEndpoint>, number: u16) -> Result<()> {
        let key = self.shape.key(number);
        let there = self.values(&key);
        let got = table.get(&key).await?;
        assert_eq!(
            got.is_some(),
            !there.is_empty(),
            "{:?} {number}",
            self.shape
        );
        assert!(got.is_none_or(|value| there.iter().any(|one| **one == *value)));
        let all = table.get_all(&key).await?;
        let all = all.iter().map(|value| value.to_vec()).collect();
        assert_eq!(sorted(all), there, "{:?} {number}", self.shape);
        Ok(())
    }

    /// Finds all of it.
    async fn look_around(&self, table: &SealedTable<AnyEndpoint>) {
        for number in 0..self.records.len() as u16 + 4 {
            self.look_up(table, number).await.unwrap();
        }
        let met = scan_all(table).await.unwrap();
        assert_eq!(sorted(met), sorted(self.records.clone()));
    }
}

fn as_pairs(records: &Records) -> Vec<(&[u8], &[u8])> {
    let pairs = records.iter().map(|(key, value)| (&key[..], &value[..]));
    pairs.collect()
}

fn sorted<T: Ord>(mut all: Vec<T>) -> Vec<T> {
    all.sort();
    all
}

fn block_on<T>(world: &World, run: impl AsyncFnOnce(Rc<SimEndpoint>) -> T) -> T {
    let endpoint = world.endpoint(limits());
    Executor::new(Rc::clone(&endpoint)).block_on(run(endpoint))
}

/// What happened in all runs, so that none of it is vacuous.
#[derive(Default, Debug)]
struct Tally {
    answers: Cell<u32>,
    not_built: Cell<u32>,
    failed: Cell<u32>,
    builds: Cell<u32>,
    failed_builds: Cell<u32>,
}

fn one_more(count: &Cell<u32>) {
    count.set(count.get() + 1);
}

fn faults(seed: u64, rng: &mut ChaCha8Rng) -> FaultPlan {
    let mut plan = FaultPlan::chaos(seed, rng.random_range(0.0..=1.0));
    let node = NodeId(0);
    for client in 0..=READERS {
        if rng.random_bool(0.3) {
            let from = rng.random_range(0..60_000);
            plan.partitions.push(Partition {
                side: Side::Client(ClientId(client)),
                node,
                from,
                until: from + rng.random_range(1..20_000),
            });
        }
    }
    if rng.random_bool(0.3) {
        plan.slow_nodes.push(SlowNode {
            node,
            factor: rng.random_range(2.0..200.0),
            from: rng.random_range(0..40_000),
            until: 80_000,
        });
    }
    plan
}

/// A reader that does not wait for the table to be built, and does not give up.
async fn read(case: Case, endpoint: Rc<SimEndpoint>, tally: Rc<Tally>, mut rng: ChaCha8Rng) {
    let table = loop {
        match case.open(Rc::clone(&endpoint)).await {
            Ok(table) => break table,
            Err(error) => assert!(error.may_have_taken_effect(), "open: {error}"),
        }
    };
    for _ in 0..30 {
        endpoint.sleep(rng.random_range(0..8_000)).await;
        let number = rng.random_range(0..case.records.len() as u16 + 4);
        match case.look_up(&table, number).await {
            Ok(()) => one_more(&tally.answers),
            Err(IndexError::NotBuilt) => {
                assert!(!table.is_built());
                one_more(&tally.not_built);
            }
            Err(IndexError::Fabric(_)) => one_more(&tally.failed),
            Err(error) => panic!("{:?}: {error}", case.shape),
        }
    }
}

fn run(shape: Shape, seed: u64, tally: &Rc<Tally>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let case = Case::drawn(shape, 40, &mut rng);
    let world = case.world(seed);
    world.set_faults(faults(seed, &mut rng));
    let mut simulation = Simulation::new(world.clone());
    let builder = simulation.add_client(HostId(0), limits());
    let pause = rng.random_range(0..50_000);
    let built = Rc::new(Cell::new(None));
    simulation.spawn(builder, {
        let (case, built) = (case.clone(), Rc::clone(&built));
        async move |endpoint| {
            endpoint.sleep(pause).await;
            built.set(Some(case.build(endpoint).await));
        }
    });
    for _ in 0..READERS {
        let reader = simulation.add_client(HostId(0), limits());
        let (case, tally) = (case.clone(), Rc::clone(tally));
        let rng = ChaCha8Rng::seed_from_u64(rng.random());
        simulation.spawn(reader, move |endpoint| read(case, endpoint, tally, rng));
    }
    assert_eq!(simulation.run_until(LONGEST_RUN), RunEnd::Done, "{seed}");
    let built = built.take().expect("the builder has ended");

    world.set_faults(FaultPlan::default());
    world.advance_to(world.now() + 1_000_000);
    block_on(&world, async |endpoint| {
        let table = case.open(endpoint).await.unwrap();
        match built {
            Ok(()) => {
                one_more(&tally.builds);
                assert!(table.is_built());
            }
            Err(error) => {
                one_more(&tally.failed_builds);
                assert!(matches!(error, IndexError::Fabric(_)), "{error}");
                assert!(!table.is_built() || error.may_have_taken_effect());
            }
        }
        if table.is_built() {
            case.look_around(&table).await;
        } else {
            let missing = table.get(&case.shape.key(0)).await.unwrap_err();
            assert_eq!(missing, IndexError::NotBuilt);
        }
    });
}

#[test]
fn readers_under_faults_answer_right_or_with_an_error() {
    let tally = Rc::new(Tally::default());
    for (number, shape) in (0..).zip(shapes()) {
        for round in 0..12 {
            run(shape, number * 1000 + round, &tally);
        }
    }
    println!("{tally:?}");
    let Tally {
        answers,
        not_built,
        failed,
        builds,
        failed_builds,
    } = &*tally;
    for often in [answers, not_built, failed, builds, failed_builds] {
        assert!(often.get() > 10, "{tally:?}");
    }
}

/// A builder that stops with its verb of every number: the table is not built, unless that was its
/// last; and no other client builds over what it has left.
#[test]
fn a_builder_that_stops_half_way_leaves_a_table_that_is_not_built() {
    for (number, shape) in (0..).zip(shapes()) {
        let mut rng = ChaCha8Rng::seed_from_u64(number);
        let case = Case::drawn(shape, 2000, &mut rng);
        let mut stopped_at = 0;
        loop {
            let world = case.world(number);
            world.set_faults(FaultPlan {
                client_stops: vec![ClientStop {
                    client: ClientId(0),
                    when: FaultTime::AfterVerbs(stopped_at),
                }],
                ..FaultPlan::default()
            });
            let mut simulation = Simulation::new(world.clone());
            let builder = simulation.add_client(HostId(0), limits());
            let built = Rc::new(Cell::new(None));
            simulation.spawn(builder, {
                let (case, built) = (case.clone(), Rc::clone(&built));
                async move |endpoint| built.set(Some(case.build(endpoint).await))
            });
            assert_eq!(simulation.run_until(LONGEST_RUN), RunEnd::Done);
            let finished = built.take().is_some_and(|built| built.is_ok());
            world.set_faults(FaultPlan::default());
            world.advance_to(world.now() + 1_000_000);
            let last_word = block_on(&world, async |endpoint| {
                let table = case.open(endpoint).await.unwrap();
                let pairs = as_pairs(&case.records);
                if table.is_built() {
                    case.look_around(&table).await;
                    let again = table.build(&pairs).await.unwrap_err();
                    assert_eq!(again, IndexError::Sealed { operation: "build" });
                    return true;
                }
                assert!(!finished);
                let get = table.get(&case.shape.key(1)).await.unwrap_err();
                assert_eq!(get, IndexError::NotBuilt);
                assert_eq!(scan_all(&table).await.unwrap_err(), IndexError::NotBuilt);
                match table.build(&pairs).await {
                    // The one before had not claimed it.
                    Ok(()) => case.look_around(&table).await,
                    Err(error) => assert_eq!(error, IndexError::WriterBusy { writer: 1 }),
                }
                false
            });
            if finished {
                assert!(last_word);
                break;
            }
            stopped_at += 1;
        }
        let posted = stopped_at;
        // Open, look again, claim, slots, summary, seal: more where there is more to write.
        assert!(posted >= 6, "{shape:?}: {posted}");
    }
}

/// A builder whose buffers are too small for its WRITEs is told so before it has claimed the table.
#[test]
fn a_build_that_has_no_buffers_claims_nothing() {
    for (number, shape) in (0..).zip(shapes()) {
        let mut rng = ChaCha8Rng::seed_from_u64(number);
        let case = loop {
            let case = Case::drawn(shape, 2000, &mut rng);
            if case.records.len() > 200 {
                break case;
            }
        };
        let world = case.world(number);
        let small = world.endpoint(Limits {
            largest_buffer: 256,
            ..limits()
        });
        let executor = Executor::new(Rc::clone(&small));
        let refused = executor.block_on(case.build(small)).unwrap_err();
        assert!(
            matches!(
                refused,
                IndexError::Fabric(FabricError::BufferTooLarge { .. })
            ),
            "{refused}"
        );
        block_on(&world, async |endpoint| {
            case.build(Rc::clone(&endpoint)).await.unwrap();
            let table = case.open(endpoint).await.unwrap();
            case.look_around(&table).await;
        });
    }
}

/// Memory in which something else lies: errors, no panics and no end of time.
#[test]
fn damaged_memory_is_an_error_or_a_wrong_answer_but_no_panic() {
    let mut refused = 0;
    for (number, shape) in (0..).zip(shapes()) {
        let mut rng = ChaCha8Rng::seed_from_u64(number + 99);
        let case = Case::drawn(shape, 60, &mut rng);
        let world = case.world(number);
        block_on(&world, async |endpoint| {
            let table = case.open(Rc::clone(&endpoint)).await.unwrap();
            table.build(&as_pairs(&case.records)).await.unwrap();
            for _ in 0..40 {
                // Anything behind the word that says that it is built.
                let end = region_bytes(&case.layout) - 8;
                let from = match rng.random_range(0..3) {
                    0 => TABLE.offset + 16,
                    _ => TABLE.offset + 4096,
                };
                let mut at = TABLE;
                at.offset = rng.random_range(from..end.max(from + 1)).min(end);
                let bytes: [u8; 8] = rng.random();
                let noise = endpoint.core().buffers.copy_of(&bytes).unwrap();
                endpoint.write(at, noise).await.unwrap();
                let Ok(table) = case.open(Rc::clone(&endpoint)).await else {
                    refused += 1;
                    continue;
                };
                for number in 0..20 {
                    let key = shape.key(number);
                    refused += u32::from(table.get(&key).await.is_err());
                    refused += u32::from(table.get_all(&key).await.is_err());
                }
                refused += u32::from(scan_all(&table).await.is_err());
            }
        });
    }
    assert!(refused > 100, "{refused}");
}
