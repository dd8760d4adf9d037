//! Linearizability of the tables for comparison under simulated faults: coroutines of one client read and write keys
//! of a nearly full table, some are dropped half way, and MapEmbed grows meanwhile.
//!
//! `FARSLOT_SEED=<n> FARSLOT_SLOT=<slot>` replays one run of both designs; `FARSLOT_SEEDS=<count>` runs so many
//! seeds.

mod common;

use common::chaos::{Caller, Record, Tally, limits, rng_of};
use common::seeds::Runs;
use common::{INLINE, Slot, TABLE};
use farslot_check::{RegisterMap, TableOp, check};
use farslot_fabric::sim::{
    FaultPlan, HostId, NicProfile, Partition, RunEnd, Side, SimEndpoint, Simulation, SlowNode,
    World,
};
use farslot_fabric::{EndpointExt, Nanos, NodeId, RemoteAddr, Rights, window};
use farslot_index::baseline::map_embed::{MapEmbed, MapEmbedTable};
use farslot_index::baseline::tea::{Tea, TeaTable};
use farslot_index::baseline::{BaselineOptions, BaselineTable, Cleaning, Placing};
use farslot_index::{FieldSize, IndexError};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::Cell;
use std::rc::Rc;

/// Keys and values of any length up to a most.
const VARIED: Slot = Slot {
    name: "varied",
    key: FieldSize::UpTo(40),
    value: FieldSize::UpTo(300),
    ..INLINE
};
const RUNS: Runs = Runs {
    test: "baseline_linearizable_sim",
    slots: &[INLINE, VARIED],
    seeds: 150,
    run,
};
/// No run needs longer, in virtual time.
const LONGEST_RUN: Nanos = 10_000_000_000;
/// Where a table goes when it grows.
const GROWN_AT: u64 = 1 << 16;

/// The dimensions of a run.
#[derive(Clone)]
struct Shape {
    slot: Slot,
    keys: u64,
    coroutines: u32,
    /// Of each coroutine.
    operations: u32,
    options: BaselineOptions,
    /// How often an operation is dropped before it has ended.
    dropped: f64,
    grows: Option<Cleaning>,
    faults: FaultPlan,
}

impl Shape {
    fn of(slot: Slot, seed: u64, rng: &mut ChaCha8Rng) -> Self {
        let bucket_slots = rng.random_range(1..=2);
        let slots = 16 * u64::from(bucket_slots);
        Self {
            slot,
            // Enough keys to fill it, and now and then too many.
            keys: rng.random_range(slots - 3..=slots + 3),
            coroutines: rng.random_range(1..=5),
            operations: rng.random_range(12..=36),
            options: BaselineOptions {
                bucket_slots,
                stash: rng.random_range(0..=2),
                ..BaselineOptions::new(slots, slot.key, slot.value, rng.random())
            },
            dropped: [0.0, 0.1][rng.random_range(0..2)],
            grows: [None, Some(Cleaning::Active), Some(Cleaning::Lazy)][rng.random_range(0..3)],
            faults: faults(seed, rng),
        }
    }
}

fn faults(seed: u64, rng: &mut ChaCha8Rng) -> FaultPlan {
    let mut plan = FaultPlan::chaos(seed, rng.random_range(0.0..=1.0));
    let node = NodeId(0);
    if rng.random_bool(0.2) {
        let from = rng.random_range(0..100_000);
        plan.slow_nodes.push(SlowNode {
            node,
            factor: rng.random_range(2.0..50.0),
            from,
            until: from + rng.random_range(0..100_000),
        });
    }
    for _ in 0..rng.random_range(0..4) {
        let from = rng.random_range(0..600_000);
        plan.partitions.push(Partition {
            side: Side::Host(HostId(0)),
            node,
            from,
            until: from + rng.random_range(0..=10_000),
        });
    }
    plan
}

/// A design, as this test makes its tables.
trait Made: Placing + 'static {
    fn made(
        endpoint: Rc<SimEndpoint>,
        options: &BaselineOptions,
    ) -> BaselineTable<SimEndpoint, Self>;

    /// Grows the table, if its design can.
    async fn grow(
        table: &BaselineTable<SimEndpoint, Self>,
        to: RemoteAddr,
        cleaning: Cleaning,
    ) -> Result<(), IndexError>;
}

impl Made for Tea {
    fn made(endpoint: Rc<SimEndpoint>, options: &BaselineOptions) -> TeaTable<SimEndpoint> {
        TeaTable::create(endpoint, TABLE, options).unwrap()
    }

    async fn grow(_: &TeaTable<SimEndpoint>, _: RemoteAddr, _: Cleaning) -> Result<(), IndexError> {
        Ok(())
    }
}

impl Made for MapEmbed {
    fn made(endpoint: Rc<SimEndpoint>, options: &BaselineOptions) -> MapEmbedTable<SimEndpoint> {
        MapEmbedTable::create(endpoint, TABLE, options).unwrap()
    }

    async fn grow(
        table: &MapEmbedTable<SimEndpoint>,
        to: RemoteAddr,
        cleaning: Cleaning,
    ) -> Result<(), IndexError> {
        table.grow(to, cleaning).await
    }
}

/// Runs a seed for each design and judges it.
fn run(slot: Slot, seed: u64) -> Tally {
    let mut tally = run_of::<Tea>(slot, seed);
    tally += run_of::<MapEmbed>(slot, seed);
    tally
}

fn run_of<P: Made>(slot: Slot, seed: u64) -> Tally {
    let mut rng = rng_of(slot, seed);
    let shape = Shape::of(slot, seed, &mut rng);
    let world = World::new(rng.random(), NicProfile::connectx5_edr());
    world.add_node(&[(TABLE.offset + (1 << 17), Rights::ALL)]);
    world.set_faults(shape.faults.clone());
    let (record, tally) = (Record::new(), Rc::new(Cell::new(Tally::default())));
    let mut simulation = Simulation::new(world.clone());
    let client = simulation.add_client(HostId(0), limits());
    let (recorded, counted) = (record.clone(), Rc::clone(&tally));
    let without_faults = world.clone();
    let work = simulation.spawn(client, async move |endpoint| {
        let table = P::made(endpoint, &shape.options);
        let caller = |client| Caller {
            table: &table,
            slot: shape.slot,
            record: &recorded,
            tally: &counted,
            client,
        };
        let coroutines = (0..shape.coroutines).map(|number| {
            work(
                caller(number),
                &shape,
                ChaCha8Rng::seed_from_u64(rng.random()),
            )
        });
        let working = window(5, coroutines, |_, ()| {});
        farslot_fabric::both(working, grow(&table, &shape)).await;
        // When all faults are over, every key is looked at, and met once.
        without_faults.set_faults(FaultPlan::default());
        table.endpoint().sleep(1_000_000).await;
        let last = caller(1_000);
        for key in 0..shape.keys {
            last.run(key, TableOp::Get).await;
        }
        last.scan(shape.keys).await;
        table.work()
    });
    let end = simulation.run_until(LONGEST_RUN);
    assert_eq!(end, RunEnd::Done, "{} {seed}: the client waits", slot.name);
    let mut counts = tally.get();
    (counts.runs, counts.digest) = (1, world.digest());
    counts.moves = work.try_take().expect("it has ended").moved;
    if let Err(error) = check(&record.take(), &RegisterMap::new()) {
        panic!("{error}");
    }
    counts
}

/// Grows the table once it has been used for a while.
async fn grow<P: Made>(table: &BaselineTable<SimEndpoint, P>, shape: &Shape) {
    let Some(cleaning) = shape.grows else {
        return;
    };
    table.endpoint().sleep(100_000).await;
    while let Err(error) = P::grow(table, TABLE.plus(GROWN_AT), cleaning).await {
        assert!(error.may_have_taken_effect(), "grow: {error}");
    }
}

async fn work<P: Made>(
    caller: Caller<'_, BaselineTable<SimEndpoint, P>>,
    shape: &Shape,
    mut rng: ChaCha8Rng,
) {
    let (first, step) = (u64::from(caller.client), shape.coroutines as usize);
    for key in (first..shape.keys).step_by(step) {
        let value = caller.slot.fitted(2_000 + key);
        caller.run(key, TableOp::Put(value)).await;
    }
    for turn in 0..shape.operations {
        let unique = u64::from(caller.client * 64 + turn);
        let working = work_once(&caller, shape, unique, &mut rng);
        if turn % 8 == 7 && shape.dropped > 0.0 && caller.client % 2 == 1 {
            // Such an operation stays in the history without an end.
            let ended = caller.table.endpoint().timeout(4_000, working).await;
            if ended.is_err() {
                return;
            }
        } else {
            working.await;
        }
    }
}

/// Mostly changes a key; removes one now and then.
async fn work_once<P: Made>(
    caller: &Caller<'_, BaselineTable<SimEndpoint, P>>,
    shape: &Shape,
    unique: u64,
    rng: &mut ChaCha8Rng,
) {
    let key = rng.random_range(0..shape.keys);
    let value = caller.slot.fitted(unique + 1);
    match rng.random_range(0..16) {
        0..6 => caller.run(key, TableOp::Put(value)).await,
        6..8 => caller.run(key, TableOp::FindOrPut(value)).await,
        8..10 => caller.run(key, TableOp::Update(value)).await,
        10..13 => caller.run(key, TableOp::Get).await,
        13 => caller.get_many(shape.keys).await,
        _ => caller.run(key, TableOp::Remove).await,
    }
}

fn seeds_of(slot: Slot) {
    RUNS.judge_all(slot, |total| {
        let runs = total.runs;
        assert!(total.returned > 60 * runs, "{total:?}");
        assert!(total.seen > 10 * runs, "{total:?}");
        assert!(total.full > runs / 8, "{total:?}");
        assert!(total.in_doubt > runs / 8, "{total:?}");
        assert!(total.moves > runs, "{total:?}");
    });
}

#[test]
fn a_seed_is_one_run() {
    RUNS.are_repeatable(5);
}

#[test]
fn inline_records() {
    seeds_of(INLINE);
}

#[test]
fn records_of_many_lengths() {
    seeds_of(VARIED);
}
