//! Linearizability of RACE tables under simulated faults, over many seeds: of tables that grow,
//! while they do, and of tables that do not. Clients stop between any two verbs, splits half done
//! included.

use crate::common::chaos::{Caller, Tally, limits, rng_of};
use crate::common::race::{Dimensions, SHORT, SimTable, VARIED, open, world};
use crate::common::run::{AtEnd, Run, look_around, within};
use crate::common::seeds::Runs;
use crate::common::{Slot, faults};
use farslot_check::TableOp;
use farslot_fabric::sim::{FaultPlan, HostId, Simulation};
use farslot_fabric::{Endpoint, EndpointExt, Nanos, window};
use farslot_index::race::RaceLayout;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::rc::Rc;

/// A client that comes when all others have stopped needs no more round trips for an operation, the
/// splits that it makes or finishes included.
const MOST_ROUND_TRIPS: u32 = 120;

/// Tables that stay as they are.
const FIXED: Slot = Slot {
    name: "fixed",
    ..VARIED
};
/// Tables that grow.
const GROWING: Slot = Slot {
    name: "growing",
    ..VARIED
};
const GROWING_SHORT: Slot = Slot {
    name: "growing-8",
    ..SHORT
};
const SLOTS: [Slot; 3] = [FIXED, GROWING, GROWING_SHORT];

const RUNS: Runs = Runs {
    module: module_path!(),
    slots: &SLOTS,
    seeds: 350,
    run,
};

/// The dimensions of a run.
#[derive(Clone)]
struct Shape {
    keys: u64,
    clients: u32,
    coroutines: u32,
    operations: u32,
    layout: RaceLayout,
    /// The longest pause of a coroutine between two operations.
    pause: Nanos,
    /// How often a coroutine drops an operation half way and goes on.
    dropped: f64,
    faults: FaultPlan,
}

impl Shape {
    fn of(slot: Slot, seed: u64, rng: &mut ChaCha8Rng) -> Self {
        let grows = slot.name != FIXED.name;
        let roots = [1, 1, 2][rng.random_range(0..3)];
        let more = if grows { rng.random_range(1..=12) } else { 0 };
        let dimensions = Dimensions {
            bucket_slots: rng.random_range(1..=2),
            groups: rng.random_range(1..=2),
            roots,
            most_subtables: roots + more,
        };
        let tight = [None, None, Some(1 << 12), Some(1 << 13)];
        let clients = rng.random_range(3..=5);
        Self {
            keys: if grows {
                rng.random_range(4..=12)
            } else {
                rng.random_range(2..=6)
            },
            clients,
            coroutines: rng.random_range(1..=3),
            operations: rng.random_range(4..=10),
            layout: dimensions.layout(slot, rng.random(), tight[rng.random_range(0..4)]),
            pause: [0, 2_000, 20_000][rng.random_range(0..3)],
            dropped: [0.0, 0.1][rng.random_range(0..2)],
            faults: faults::of_writers(seed, clients, rng),
        }
    }
}

/// Runs a seed and judges it.
fn run(slot: Slot, seed: u64) -> Tally {
    let mut rng = rng_of(slot, seed);
    let shape = Shape::of(slot, seed, &mut rng);
    let world = world(rng.random(), &shape.layout);
    world.set_faults(shape.faults.clone());
    let run = Run::new(slot, seed);
    let mut simulation = Simulation::new(world.clone());
    let clients: Vec<_> = (0..shape.clients)
        .map(|number| {
            let client = simulation.add_client(HostId(0), limits());
            let (run, shape) = (run.clone(), shape.clone());
            let rng = ChaCha8Rng::seed_from_u64(rng.random());
            simulation.spawn(client, async move |endpoint| {
                let table = open(endpoint, &shape.layout).await;
                use_table(&run, &shape, &table, number, rng).await;
            });
            client
        })
        .collect();
    run.finish(&mut simulation, &clients);
    look_around(&world, async |endpoint| {
        let table = open(Rc::clone(&endpoint), &shape.layout).await;
        write_around(&run.caller(&table, 1_000), shape.keys).await;
        note_work(&run, &table);
        let classes = endpoint.core().counters.snapshot().operations;
        let most = classes.iter().map(|class| class.most_round_trips).max();
        assert!(most <= Some(MOST_ROUND_TRIPS), "{most:?} round trips");
    });
    run.judged(&world)
}

/// Adds what a client has moved, and what it has finished or undone for itself and others.
fn note_work(run: &Run, table: &SimTable) {
    let work = table.work();
    run.count(|tally| {
        tally.moves += work.moved;
        tally.repairs += work.undone + work.helped;
    });
}

async fn use_table(run: &Run, shape: &Shape, table: &SimTable, number: u32, mut rng: ChaCha8Rng) {
    let _noted = AtEnd(|| note_work(run, table));
    let coroutines = (0..shape.coroutines).map(|coroutine| {
        let caller = run.caller(table, number * 10 + coroutine);
        work(caller, shape, ChaCha8Rng::seed_from_u64(rng.random()))
    });
    window(3, coroutines, |_, ()| {}).await;
}

/// What a coroutine does: a random operation after the other, on random keys.
async fn work(caller: Caller<'_, SimTable>, shape: &Shape, mut rng: ChaCha8Rng) {
    for turn in 0..shape.operations {
        let endpoint = caller.table.endpoint();
        if shape.pause > 0 {
            endpoint.sleep(rng.random_range(0..=shape.pause)).await;
        }
        let dropped = rng.random_bool(shape.dropped);
        let span = rng.random_range(1_000..20_000);
        let weights = [6, 4, 4, 2, 2, 1, 2, 1];
        let working = caller.run_any(shape.keys, turn, weights, &mut rng);
        if !within(endpoint, dropped.then_some(span), working).await {
            return;
        }
    }
}

/// A client that knows nothing looks at every key, writes each and looks again: whatever others
/// have left, it is held up by nothing.
async fn write_around(caller: &Caller<'_, SimTable>, keys: u64) {
    caller.look_around(keys).await;
    for key in 0..keys {
        let value = caller.slot.fitted(5_000 + key);
        caller.run(key, TableOp::Put(value)).await;
        caller.run(key, TableOp::Get).await;
    }
    caller.scan(keys).await;
    for key in 0..keys {
        caller.run(key, TableOp::Remove).await;
    }
    caller.scan(keys).await;
    let live = caller.table.survey().await.unwrap().live;
    assert_eq!(live, 0, "every key was removed");
}

fn seeds_of(slot: Slot) {
    RUNS.judge_all(slot, |total| {
        let runs = total.runs;
        assert!(total.returned > 40 * runs, "{total:?}");
        assert!(total.batches > 2 * runs, "{total:?}");
        assert!(total.seen > 5 * runs, "{total:?}");
        assert!(total.in_doubt > runs / 10, "{total:?}");
        assert!(total.stopped > runs / 4, "{total:?}");
        assert!(total.repairs > runs / 20, "{total:?}");
        assert!(
            total.heap_full > 0 || slot.name == GROWING_SHORT.name,
            "{total:?}"
        );
        assert!(total.full > 0, "{total:?}");
        assert!(total.moves > runs || slot.name == FIXED.name, "{total:?}");
    });
}

#[test]
fn a_seed_is_one_run() {
    RUNS.are_repeatable(10);
}

#[test]
fn tables_that_stay_as_they_are() {
    seeds_of(FIXED);
}

#[test]
fn tables_that_grow() {
    seeds_of(GROWING);
}

#[test]
fn tables_of_short_records_that_grow() {
    seeds_of(GROWING_SHORT);
}
