//! Linearizability of the tables for comparison under simulated faults: coroutines of one client
//! read and write keys of a nearly full table, some are dropped half way, and MapEmbed grows
//! meanwhile.

use crate::common::chaos::{Caller, Tally, limits, rng_of};
use crate::common::run::{Run, Turns};
use crate::common::seeds::Runs;
use crate::common::{INLINE, Slot, TABLE, faults};
use farslot_check::TableOp;
use farslot_fabric::sim::{FaultPlan, HostId, NicProfile, SimEndpoint, Simulation, World};
use farslot_fabric::{EndpointExt, RemoteAddr, Rights, window};
use farslot_index::{FieldSize, IndexError};
use farslot_lab::baseline::map_embed::{MapEmbed, MapEmbedTable};
use farslot_lab::baseline::tea::{Tea, TeaTable};
use farslot_lab::baseline::{BaselineOptions, BaselineTable, CleaningMode, CopyPace, RoomPlanner};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::rc::Rc;

/// Keys and values of any length up to a most.
const VARIED: Slot = Slot {
    name: "varied",
    key: FieldSize::UpTo(40),
    value: FieldSize::UpTo(300),
    ..INLINE
};
const RUNS: Runs = Runs {
    module: module_path!(),
    slots: &[INLINE, VARIED],
    seeds: 60,
    run,
};
/// Where a table goes when it grows.
const GROWN_AT: u64 = 1 << 16;

/// The dimensions of a run.
#[derive(Clone)]
struct Shape {
    keys: u64,
    coroutines: u32,
    /// Of each coroutine.
    operations: u32,
    options: BaselineOptions,
    /// Whether some operations are dropped before they have ended.
    some_are_dropped: bool,
    grows: Option<CleaningMode>,
    faults: FaultPlan,
}

impl Shape {
    fn of(slot: Slot, seed: u64, rng: &mut ChaCha8Rng) -> Self {
        let bucket_slots = rng.random_range(1..=2);
        let slots = 16 * u64::from(bucket_slots);
        Self {
            // Enough keys to fill it, and now and then too many.
            keys: rng.random_range(slots - 3..=slots + 3),
            coroutines: rng.random_range(1..=5),
            operations: rng.random_range(12..=36),
            options: BaselineOptions {
                bucket_slots,
                stash: rng.random_range(0..=2),
                ..BaselineOptions::new(slots, slot.key, slot.value, rng.random())
            },
            some_are_dropped: rng.random_bool(0.5),
            grows: [None, Some(CleaningMode::Active), Some(CleaningMode::Lazy)]
                [rng.random_range(0..3)],
            faults: faults(seed, rng),
        }
    }
}

fn faults(seed: u64, rng: &mut ChaCha8Rng) -> FaultPlan {
    let mut plan = faults::chaos(seed, rng);
    faults::slow_down(&mut plan, 0.2, 50.0, rng);
    faults::cut_the_host_off(&mut plan, rng);
    plan
}

/// A design, as this test makes its tables.
trait Made: RoomPlanner + 'static {
    fn made(
        endpoint: Rc<SimEndpoint>,
        options: &BaselineOptions,
    ) -> BaselineTable<SimEndpoint, Self>;

    /// Grows the table, if its design can.
    async fn grow(
        table: &BaselineTable<SimEndpoint, Self>,
        to: RemoteAddr,
        cleaning: CleaningMode,
    ) -> Result<(), IndexError>;
}

impl Made for Tea {
    fn made(endpoint: Rc<SimEndpoint>, options: &BaselineOptions) -> TeaTable<SimEndpoint> {
        TeaTable::create(endpoint, TABLE, options).unwrap()
    }

    async fn grow(
        _: &TeaTable<SimEndpoint>,
        _: RemoteAddr,
        _: CleaningMode,
    ) -> Result<(), IndexError> {
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
        cleaning: CleaningMode,
    ) -> Result<(), IndexError> {
        let pace = match cleaning {
            CleaningMode::Active => CopyPace::SIDE_BY_SIDE,
            CleaningMode::Lazy => CopyPace::BUCKET_BY_BUCKET,
        };
        table.grow(to, cleaning, pace).await
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
    let run = Run::new(slot, seed);
    let mut simulation = Simulation::new(world.clone());
    let client = simulation.add_client(HostId(0), limits());
    let (its, without_faults) = (run.clone(), world.clone());
    simulation.spawn(client, async move |endpoint| {
        let table = P::made(endpoint, &shape.options);
        let coroutines = (0..shape.coroutines).map(|number| {
            let caller = its.caller(&table, number);
            work(caller, &shape, ChaCha8Rng::seed_from_u64(rng.random()))
        });
        let working = window(5, coroutines, |_, ()| {});
        farslot_fabric::both(working, grow(&table, &shape)).await;
        // When all faults are over, every key is looked at, and met once.
        without_faults.set_faults(FaultPlan::default());
        table.endpoint().sleep(1_000_000).await;
        its.caller(&table, 1_000).look_around(shape.keys).await;
        its.count(|tally| tally.moves = table.work().moved);
    });
    run.finish(&mut simulation, &[client]);
    run.judged(&world)
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
    caller.fill(shape.keys, shape.coroutines).await;
    let turns = Turns {
        operations: shape.operations,
        pause: 0,
        some_are_dropped: shape.some_are_dropped,
    };
    let operation = async |number, rng: &mut ChaCha8Rng| {
        work_once(&caller, shape, number, rng).await;
    };
    let endpoint = caller.table.endpoint();
    turns.take(&caller, endpoint, &mut rng, operation).await;
}

/// Mostly changes a key; removes one now and then.
async fn work_once<P: Made>(
    caller: &Caller<'_, BaselineTable<SimEndpoint, P>>,
    shape: &Shape,
    number: u64,
    rng: &mut ChaCha8Rng,
) {
    let key = rng.random_range(0..shape.keys);
    let value = caller.slot.fitted(number);
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
