//! Linearizability of RACE tables under simulated faults, over many seeds: of tables that grow, while they
//! do, and of tables that do not. Clients stop between any two verbs, splits half done included.
//!
//! `FARSLOT_SEED=<n> FARSLOT_SLOT=<shape>` replays one run; `FARSLOT_SEEDS=<count>` runs so many seeds of each
//! shape.

#![cfg(not(feature = "broken-insert"))]

mod common;

use common::Slot;
use common::chaos::{Caller, Record, Tally, faults, limits, rng_of};
use common::race::{Dimensions, SHORT, SimTable, VARIED, open, world};
use common::seeds::Runs;
use farslot_check::{RegisterMap, TableOp, check};
use farslot_fabric::sim::{FaultPlan, HostId, RunEnd, Simulation, World};
use farslot_fabric::{Endpoint, EndpointExt, Executor, Nanos, window};
use farslot_index::race::{RaceLayout, Work};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::Cell;
use std::rc::Rc;

/// No client of a run needs longer, in virtual time.
const LONGEST_RUN: Nanos = 10_000_000_000;
/// A client that comes when all others have stopped needs no more round trips for an operation, the splits
/// that it makes or finishes included.
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
    test: "race_linearizable_sim",
    slots: &SLOTS,
    seeds: 1_000,
    run,
};

/// The dimensions of a run.
#[derive(Clone)]
struct Shape {
    slot: Slot,
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
        let tight = [None, None, None, Some(1 << 14)];
        let clients = rng.random_range(3..=5);
        Self {
            slot,
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
            faults: faults(seed, clients, rng),
        }
    }
}

/// What the clients of a run share.
#[derive(Clone)]
struct Run {
    shape: Shape,
    record: Record,
    tally: Rc<Cell<Tally>>,
    /// Of all clients together, those that were stopped too.
    work: Rc<Cell<Work>>,
}

/// Adds a client's work to that of all when it ends.
struct Noted<'r>(&'r Cell<Work>, &'r SimTable);

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        let (mut all, work) = (self.0.get(), self.1.work());
        all.splits += work.splits;
        all.moved += work.moved;
        all.helped += work.helped;
        all.yielded += work.yielded;
        all.undone += work.undone;
        self.0.set(all);
    }
}

/// Runs a seed and judges it.
fn run(slot: Slot, seed: u64) -> Tally {
    let mut rng = rng_of(slot, seed);
    let shape = Shape::of(slot, seed, &mut rng);
    let world = world(rng.random(), &shape.layout);
    world.set_faults(shape.faults.clone());
    let run = Run {
        shape,
        record: Record::new(),
        tally: Rc::default(),
        work: Rc::default(),
    };
    let mut simulation = Simulation::new(world.clone());
    let clients: Vec<_> = (0..run.shape.clients)
        .map(|number| {
            let client = simulation.add_client(HostId(0), limits());
            let (run, rng) = (run.clone(), ChaCha8Rng::seed_from_u64(rng.random()));
            simulation.spawn(client, async move |endpoint| {
                let table = open(endpoint, &run.shape.layout).await;
                use_table(&run, &table, number, rng).await;
            });
            client
        })
        .collect();
    let end = simulation.run_until(LONGEST_RUN);
    assert_eq!(end, RunEnd::Done, "{} {seed}: a client waits", slot.name);
    let mut counts = run.tally.get();
    for client in clients {
        let endpoint = simulation.endpoint(client);
        counts.stopped += u64::from(endpoint.is_stopped());
        let classes = endpoint.core().counters.snapshot().operations;
        counts.laborious += u64::from(classes.iter().any(|class| class.most_round_trips > 12));
    }
    run.tally.set(counts);
    look_around(&world, &run);
    let mut tally = run.tally.get();
    let work = run.work.get();
    (tally.runs, tally.digest) = (1, world.digest());
    (tally.moves, tally.repairs) = (work.moved, work.undone + work.helped);
    if let Err(error) = check(&run.record.take(), &RegisterMap::new()) {
        panic!("{error}");
    }
    tally
}

async fn use_table(run: &Run, table: &SimTable, number: u32, mut rng: ChaCha8Rng) {
    let _noted = Noted(&run.work, table);
    let coroutines = (0..run.shape.coroutines).map(|coroutine| {
        let caller = caller(run, table, number * 10 + coroutine);
        work(caller, &run.shape, ChaCha8Rng::seed_from_u64(rng.random()))
    });
    window(3, coroutines, |_, ()| {}).await;
}

fn caller<'t>(run: &'t Run, table: &'t SimTable, client: u32) -> Caller<'t, SimTable> {
    Caller {
        table,
        slot: run.shape.slot,
        record: &run.record,
        tally: &run.tally,
        client,
    }
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
        let working = work_once(&caller, shape, turn, &mut rng);
        if !dropped {
            working.await;
        } else if endpoint.timeout(span, working).await.is_err() {
            // The operation stays in the history without an end: the next one is another client's.
            return;
        }
    }
}

async fn work_once(caller: &Caller<'_, SimTable>, shape: &Shape, turn: u32, rng: &mut ChaCha8Rng) {
    let key = rng.random_range(0..shape.keys);
    // No two operations of a run write the same value.
    let value = caller.slot.fitted(u64::from(caller.client * 16 + turn + 1));
    match rng.random_range(0..20) {
        0..6 => caller.run(key, TableOp::Get).await,
        6..10 => caller.run(key, TableOp::Put(value)).await,
        10..14 => caller.run(key, TableOp::FindOrPut(value)).await,
        14..16 => caller.run(key, TableOp::Update(value)).await,
        16..18 => caller.run(key, TableOp::Remove).await,
        18 => caller.get_many(shape.keys).await,
        _ => caller.scan(shape.keys).await,
    }
}

/// When all faults are over, a client that knows nothing looks at every key, writes each and looks again:
/// whatever others have left, it is held up by nothing.
fn look_around(world: &World, run: &Run) {
    world.set_faults(FaultPlan::default());
    world.advance_to(world.now() + 1_000_000);
    let endpoint = world.endpoint(limits());
    let executor = Executor::new(Rc::clone(&endpoint));
    executor.block_on(async {
        let table = open(Rc::clone(&endpoint), &run.shape.layout).await;
        let _noted = Noted(&run.work, &table);
        let caller = caller(run, &table, 1_000);
        for key in 0..run.shape.keys {
            caller.run(key, TableOp::Get).await;
        }
        caller.scan(run.shape.keys).await;
        for key in 0..run.shape.keys {
            let value = caller.slot.fitted(5_000 + key);
            caller.run(key, TableOp::Put(value)).await;
            caller.run(key, TableOp::Get).await;
        }
        caller.scan(run.shape.keys).await;
        for key in 0..run.shape.keys {
            caller.run(key, TableOp::Remove).await;
        }
        caller.scan(run.shape.keys).await;
        assert_eq!(
            table.survey().await.unwrap().live,
            0,
            "every key was removed"
        );
    });
    let classes = endpoint.core().counters.snapshot().operations;
    let most = classes.iter().map(|class| class.most_round_trips).max();
    assert!(most <= Some(MOST_ROUND_TRIPS), "{most:?} round trips");
}

fn seeds_of(slot: Slot) {
    RUNS.judge_all(slot, |total| {
        let runs = total.runs;
        assert!(total.returned > 40 * runs, "{total:?}");
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
