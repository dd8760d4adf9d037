//! Linearizability of a CuckooDuo table that grows under simulated faults: it starts tiny, several owners one after
//! the other fill it with coroutines side by side, some of which grow and sweep it; each owner stops anywhere or
//! resigns, and the next one makes its index from the vault, wherever the growth stands. Readers on other machines look
//! keys up all the while.
//!
//! `FARSLOT_SEED=<n> FARSLOT_SLOT=<slot>` replays one run; `FARSLOT_SEEDS=<count>` runs so many
//! seeds of each slot kind.

mod common;

use common::Slot;
use common::beside::Beside;
use common::chaos::{Caller, Record, Tally, limits, rng_of};
use common::duo::{Dimensions, GROWING, SimTable, VARIED, growing, growing_world, memory_behind};
use common::seeds::Runs;
use common::{HEAP, INLINE};
use farslot_check::{RegisterMap, TableOp, check};
use farslot_fabric::sim::{
    ClientId, ClientStop, FaultPlan, HostId, Partition, RunEnd, Side, Simulation, When, World,
};
use farslot_fabric::{EndpointExt, Executor, Limits, Nanos, NodeId, window};
use farslot_index::IndexError;
use farslot_index::duo::{DuoGrowth, DuoLayout};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::Cell;
use std::rc::Rc;

const RUNS: Runs = Runs {
    test: "duo_growth_linearizable",
    slots: &GROWING,
    seeds: 400,
    run,
};
/// No client of a run needs longer, in virtual time.
const LONGEST_RUN: Nanos = 10_000_000_000;

/// The dimensions of a run.
#[derive(Clone)]
struct Shape {
    slot: Slot,
    keys: u64,
    owners: u32,
    /// Readers beside them.
    readers: u32,
    /// Of each owner.
    coroutines: u32,
    /// Of each coroutine.
    operations: u32,
    layout: DuoLayout,
    growth: DuoGrowth,
    /// How often an operation is dropped before it has ended.
    dropped: f64,
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
        Self {
            slot,
            keys: rng.random_range(8..=40),
            owners,
            readers,
            coroutines: rng.random_range(1..=5),
            operations: rng.random_range(12..=30),
            growth: DuoGrowth {
                // Now and then too little.
                memory: memory_behind(&layout, [8 << 10, 1 << 20, 1 << 20][rng.random_range(0..3)]),
                ratio: [2, 2, 3, 7][rng.random_range(0..4)],
                at_load: rng.random_range(0.4..=1.0),
            },
            layout,
            dropped: [0.0, 0.05][rng.random_range(0..2)],
            limits: Limits {
                // A batch does not always fit.
                send_queue_depth: [4, 16, 64][rng.random_range(0..3)],
                ..limits()
            },
            faults: faults(seed, owners, rng),
        }
    }
}

fn faults(seed: u64, owners: u32, rng: &mut ChaCha8Rng) -> FaultPlan {
    let mut plan = FaultPlan::chaos(seed, rng.random_range(0.0..=1.0));
    for _ in 0..rng.random_range(0..4) {
        let from = rng.random_range(0..600_000);
        plan.partitions.push(Partition {
            side: Side::Host(HostId(0)),
            node: NodeId(0),
            from,
            until: from + rng.random_range(0..=10_000),
        });
    }
    for owner in 0..owners {
        if rng.random_bool(0.6) {
            plan.client_stops.push(ClientStop {
                client: ClientId(owner),
                when: When::AfterVerbs(rng.random_range(1..400)),
            });
        }
    }
    plan
}

/// What the owners of a run share.
#[derive(Clone)]
struct Run {
    shape: Shape,
    record: Record,
    tally: Rc<Cell<Tally>>,
    /// The owner whose turn it is.
    turn: Rc<Cell<u32>>,
    /// Buckets that were split, in-flight ones not counted, and owners that met a growth half way.
    split: Rc<Cell<u64>>,
    half_way: Rc<Cell<u64>>,
}

/// Runs a seed and judges it.
fn run(slot: Slot, seed: u64) -> Tally {
    let mut rng = rng_of(slot, seed);
    let shape = Shape::of(slot, seed, &mut rng);
    let world = growing_world(rng.random(), &shape.growth.memory);
    world.set_faults(shape.faults.clone());
    let run = Run {
        shape,
        record: Record::new(),
        tally: Rc::default(),
        turn: Rc::default(),
        split: Rc::default(),
        half_way: Rc::default(),
    };
    let mut simulation = Simulation::new(world.clone());
    let owners: Vec<_> = (0..run.shape.owners)
        .map(|number| {
            let client = simulation.add_client(HostId(0), run.shape.limits);
            let (run, rng) = (run.clone(), ChaCha8Rng::seed_from_u64(rng.random()));
            simulation.spawn(client, async move |endpoint| {
                let table = growing(&run.shape.layout, endpoint, run.shape.growth);
                // Also where the owner is stopped.
                let over = Over(run.turn.clone(), number);
                while run.turn.get() < number {
                    table.endpoint().sleep(500).await;
                }
                own(&run, &table, number, rng).await;
                drop(over);
            });
            client
        })
        .collect();
    for number in 0..run.shape.readers {
        let client = simulation.add_client(HostId(number % 2), run.shape.limits);
        let (run, rng) = (run.clone(), ChaCha8Rng::seed_from_u64(rng.random()));
        simulation.spawn(client, async move |endpoint| {
            let beside = Beside {
                slot: run.shape.slot,
                keys: run.shape.keys,
                pause: 4_000,
                record: &run.record,
                tally: &run.tally,
                client: 500 + number,
            };
            // Until the last owner is gone.
            let over = || run.turn.get() >= run.shape.owners;
            beside.look_up(endpoint, &run.shape.layout, rng, over).await;
        });
    }
    let end = simulation.run_until(LONGEST_RUN);
    assert_eq!(end, RunEnd::Done, "{} {seed}: a client waits", slot.name);
    let mut tally = run.tally.get();
    let stopped = owners
        .iter()
        .filter(|owner| simulation.endpoint(**owner).is_stopped());
    tally.stopped = stopped.count() as u64;
    run.tally.set(tally);
    look_around(&world, &run);
    let mut tally = run.tally.get();
    (tally.runs, tally.digest) = (1, world.digest());
    (tally.moves, tally.repairs) = (run.split.get(), run.half_way.get());
    if let Err(error) = check(&run.record.take(), &RegisterMap::new()) {
        panic!("{error}");
    }
    tally
}

/// Adds the buckets that an owner has split when it ends.
struct Noted<'r>(&'r Cell<u64>, &'r SimTable);

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() + self.1.work().buckets_split);
    }
}

/// Gives the turn to the next owner.
struct Over(Rc<Cell<u32>>, u32);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.set(self.0.get().max(self.1 + 1));
    }
}

/// Takes the table, works on it, and gives it up.
async fn own(run: &Run, table: &SimTable, number: u32, mut rng: ChaCha8Rng) {
    // The one before is dead, or has resigned.
    while let Err(error) = table.take_over().await {
        // Its claim may have been under way when it was stopped.
        let late_claim = matches!(error, IndexError::WriterBusy { .. });
        assert!(
            late_claim || error.may_have_taken_effect(),
            "take over: {error}"
        );
    }
    let _noted = Noted(&run.split, table);
    let half_way = u64::from(table.unsplit() > 0);
    run.half_way.set(run.half_way.get() + half_way);
    let coroutines = (0..run.shape.coroutines).map(|coroutine| {
        let caller = Caller {
            table,
            slot: run.shape.slot,
            record: &run.record,
            tally: &run.tally,
            client: number * 10 + coroutine,
        };
        work(caller, &run.shape, ChaCha8Rng::seed_from_u64(rng.random()))
    });
    window(5, coroutines, |_, ()| {}).await;
    while let Err(error) = table.resign().await {
        assert!(error.may_have_taken_effect(), "resign: {error}");
    }
}

async fn work(caller: Caller<'_, SimTable>, shape: &Shape, mut rng: ChaCha8Rng) {
    for turn in 0..shape.operations {
        let unique = u64::from(caller.client * 64 + turn);
        let working = work_once(&caller, shape, unique, &mut rng);
        if caller.client % 2 == 1 && shape.dropped > 0.0 {
            // Such an operation stays in the history without an end.
            let span = if turn % 8 == 7 { 4_000 } else { 1_000_000_000 };
            let endpoint = caller.table.endpoint();
            if endpoint.timeout(span, working).await.is_err() {
                return;
            }
        } else {
            working.await;
        }
    }
}

/// Mostly puts keys, so that the table grows.
async fn work_once(
    caller: &Caller<'_, SimTable>,
    shape: &Shape,
    unique: u64,
    rng: &mut ChaCha8Rng,
) {
    let key = rng.random_range(0..shape.keys);
    let value = caller.slot.fitted(unique + 1);
    match rng.random_range(0..20) {
        0..5 => caller.run(key, TableOp::Put(value)).await,
        5..8 => caller.run(key, TableOp::FindOrPut(value)).await,
        8..11 => caller.run(key, TableOp::Update(value)).await,
        11..15 => caller.run(key, TableOp::Get).await,
        15..17 => caller.run(key, TableOp::Remove).await,
        17 => caller.get_many(shape.keys).await,
        18 => may_fail(caller.table.sweep().await),
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

/// When all faults are over, a new owner looks at every key, and meets each once; then again when the growth is
/// over.
fn look_around(world: &World, run: &Run) {
    world.set_faults(FaultPlan::default());
    world.advance_to(world.now() + 1_000_000);
    let endpoint = world.endpoint(limits());
    let executor = Executor::new(Rc::clone(&endpoint));
    executor.block_on(async {
        let table = growing(&run.shape.layout, endpoint, run.shape.growth);
        table.take_over().await.unwrap();
        let caller = Caller {
            table: &table,
            slot: run.shape.slot,
            record: &run.record,
            tally: &run.tally,
            client: 1_000,
        };
        caller.scan(run.shape.keys).await;
        table.sweep().await.unwrap();
        for key in 0..run.shape.keys {
            caller.run(key, TableOp::Get).await;
        }
        caller.scan(run.shape.keys).await;
    });
}

fn seeds_of(slot: Slot) {
    RUNS.judge_all(slot, |total| {
        let runs = total.runs;
        assert!(total.returned > 50 * runs, "{total:?}");
        assert!(total.seen > 10 * runs, "{total:?}");
        assert!(total.in_doubt > runs / 2, "{total:?}");
        assert!(total.moves > 10 * runs, "{total:?}");
        assert!(total.repairs > runs / 4, "{total:?}");
        assert!(total.stopped > runs / 2, "{total:?}");
        assert!(total.read_beside > 10 * runs, "{total:?}");
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
