//! Linearizability of a CuckooDuo table that grows under simulated faults: it starts tiny, several
//! owners one after the other fill it with coroutines of some threads side by side, some of which
//! grow and sweep it; the threads stop anywhere, or the last one resigns, and the next one makes
//! its index from the vault, wherever the growth stands. Readers on other machines look keys up all
//! the while.

use crate::common::beside::Beside;
use crate::common::chaos::{Caller, Tally, limits, rng_of};
use crate::common::duo::{
    Dimensions, GROWING, SimTable, VARIED, growing, growing_world, memory_behind,
};
use crate::common::from_sim;
use crate::common::owners::Owners;
use crate::common::run::{AtEnd, Run, Turns, look_around};
use crate::common::seeds::Runs;
use crate::common::{HEAP, INLINE, Slot, TABLE, faults};
use farslot_check::TableOp;
use farslot_fabric::sim::{FaultPlan, Simulation};
use farslot_fabric::{Limits, window};
use farslot_index::IndexError;
use farslot_index::duo::{DuoGrowth, DuoLayout, DuoOwner};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const RUNS: Runs = Runs {
    module: module_path!(),
    slots: &GROWING,
    seeds: 130,
    run,
};

/// The dimensions of a run.
#[derive(Clone)]
struct Shape {
    keys: u64,
    owners: u32,
    /// Readers beside them.
    readers: u32,
    /// Of each owner.
    threads: u32,
    /// Of each thread.
    coroutines: u32,
    /// Of each coroutine.
    operations: u32,
    layout: DuoLayout,
    growth: DuoGrowth,
    /// Whether some operations are dropped before they have ended.
    some_are_dropped: bool,
    limits: Limits,
    faults: FaultPlan,
}

impl Shape {
    fn of(slot: Slot, seed: u64, rng: &mut ChaCha8Rng) -> Self {
        let dimensions = Dimensions {
            slots: rng.random_range(2..=8),
            bucket_slots: [1, 2, 2, 4][rng.random_range(0..4)],
            fingerprint_bits: 8,
            longest_path: rng.random_range(0..=3),
            stash: rng.random_range(0..=2),
            readers: rng.random_bool(0.6),
        };
        let readers = if dimensions.readers {
            rng.random_range(1..=3)
        } else {
            0
        };
        let layout = dimensions.layout(slot, rng.random());
        let owners = rng.random_range(2..=4);
        let threads = rng.random_range(1..=3);
        Self {
            keys: rng.random_range(8..=40),
            owners,
            readers,
            threads,
            coroutines: rng.random_range(1..=5),
            // What there is to be checked grows with the operations of all.
            operations: rng.random_range(12..=30) / threads,
            growth: DuoGrowth {
                // Now and then too little.
                memory: memory_behind(&layout, [8 << 10, 1 << 20, 1 << 20][rng.random_range(0..3)]),
                ratio: [2, 2, 3, 7][rng.random_range(0..4)],
                at_load: rng.random_range(0.4..=1.0),
            },
            layout,
            some_are_dropped: rng.random_bool(0.5),
            limits: Limits {
                // A batch does not always fit.
                send_queue_depth: [4, 16, 64][rng.random_range(0..3)],
                ..limits()
            },
            faults: faults::of_threads(seed, (owners, threads), 400, rng),
        }
    }
}

/// Runs a seed and judges it.
fn run(slot: Slot, seed: u64) -> Tally {
    let mut rng = rng_of(slot, seed);
    let shape = Shape::of(slot, seed, &mut rng);
    let world = growing_world(rng.random(), &shape.growth.memory);
    world.set_faults(shape.faults.clone());
    let run = Run::new(slot, seed);
    let mut simulation = Simulation::new(world.clone());
    let (of_owner, owned) = (shape.clone(), run.clone());
    let opened = shape.clone();
    let layout = shape.layout.clone();
    let owners = Owners::new(shape.owners).of_threads(shape.threads);
    let clients = owners.spawn_threads(
        &mut simulation,
        shape.limits,
        &mut rng,
        || DuoOwner::new(TABLE, layout.clone()).unwrap(),
        move |owner, endpoint| {
            owner
                .table(from_sim(endpoint))
                .with_growth(opened.growth)
                .unwrap()
        },
        async move |table: &SimTable, number, thread, rng| {
            own(&owned, &of_owner, table, number * 100 + thread * 10, rng).await;
        },
    );
    let beside = Beside {
        run: run.clone(),
        owners,
        layout: shape.layout.clone(),
        keys: shape.keys,
        pause: 4_000,
    };
    beside.spawn(&mut simulation, shape.readers, shape.limits, &mut rng);
    run.finish(&mut simulation, &clients);
    look_around(&world, async |endpoint| {
        let table = growing(&shape.layout, endpoint, shape.growth);
        table.take_over().await.unwrap();
        let caller = run.caller(&table, 1_000);
        // Each key is met once, wherever the growth stands; then again when it is over.
        caller.scan(shape.keys).await;
        run.count(|tally| tally.grown = u64::from(table.slots() > shape.layout.slots()));
        table.sweep().await.unwrap();
        caller.look_around(shape.keys).await;
    });
    run.judged(&world)
}

/// What a thread of an owner does with the table; its coroutines have numbers from `first` on.
/// Buckets that were split count as moves, growths met half way as repairs.
async fn own(run: &Run, shape: &Shape, table: &SimTable, first: u32, mut rng: ChaCha8Rng) {
    let _noted = AtEnd(|| run.count(|tally| tally.moves += table.work().buckets_split));
    run.count(|tally| tally.repairs += u64::from(table.unsplit() > 0));
    let coroutines = (0..shape.coroutines).map(|coroutine| {
        let caller = run.caller(table, first + coroutine);
        work(caller, shape, ChaCha8Rng::seed_from_u64(rng.random()))
    });
    window(5, coroutines, |_, ()| {}).await;
}

async fn work(caller: Caller<'_, SimTable>, shape: &Shape, mut rng: ChaCha8Rng) {
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

/// Mostly puts keys, so that the table grows.
async fn work_once(
    caller: &Caller<'_, SimTable>,
    shape: &Shape,
    number: u64,
    rng: &mut ChaCha8Rng,
) {
    let key = rng.random_range(0..shape.keys);
    let value = caller.slot.fitted(number);
    match rng.random_range(0..22) {
        0..5 => caller.run(key, TableOp::Put(value)).await,
        5..8 => caller.run(key, TableOp::FindOrPut(value)).await,
        8..11 => caller.run(key, TableOp::Update(value)).await,
        11..15 => caller.run(key, TableOp::Get).await,
        15..17 => caller.run(key, TableOp::Remove).await,
        17 => caller.get_many(shape.keys).await,
        18 => may_fail(caller.table.sweep().await),
        20..22 => caller.run_many(shape.keys, number, rng).await,
        // Not without end: keys are few.
        _ if caller.table.slots() < 4 * shape.keys => {
            may_fail(
                caller
                    .table
                    .grow(&shape.growth.memory, shape.growth.ratio)
                    .await,
            );
        }
        _ => {}
    }
}

/// Growth fails for want of memory, or because of the fabric.
fn may_fail(grown: Result<(), IndexError>) {
    if let Err(error) = grown {
        let no_memory = matches!(error, IndexError::OutOfMemory { .. });
        assert!(no_memory || error.may_have_taken_effect(), "{error}");
    }
}

fn seeds_of(slot: Slot) {
    RUNS.judge_all(slot, |total| {
        let runs = total.runs;
        assert!(total.returned > 50 * runs, "{total:?}");
        assert!(total.seen > 10 * runs, "{total:?}");
        assert!(total.in_doubt > runs / 2, "{total:?}");
        assert!(total.moves > 10 * runs, "{total:?}");
        assert!(total.repairs > runs / 4, "{total:?}");
        assert!(total.grown > runs * 3 / 4, "{total:?}");
        assert!(total.stopped > runs / 2, "{total:?}");
        assert!(total.read_beside > 5 * runs, "{total:?}");
    });
}

#[test]
fn a_seed_is_one_run() {
    RUNS.are_repeatable(10);
}

#[test]
fn inline_records() {
    seeds_of(INLINE);
}

#[test]
fn records_of_many_lengths() {
    seeds_of(VARIED);
}

#[test]
fn records_in_a_heap() {
    seeds_of(HEAP);
}
