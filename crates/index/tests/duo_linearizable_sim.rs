//! Linearizability of a CuckooDuo table under simulated faults, over several owners one after the other:
//! each has some coroutines that read and write keys of a nearly full table, with short fingerprints; it
//! stops anywhere or resigns, and the next one makes its index from the vault. Readers on other machines look
//! keys up all the while.
//!
//! `FARSLOT_SEED=<n> FARSLOT_SLOT=<slot>` replays one run; `FARSLOT_SEEDS=<count>` runs so many
//! seeds of each slot kind.

mod common;

use common::Slot;
use common::beside::Beside;
use common::chaos::{Caller, Record, Tally, limits, rng_of};
use common::duo::{Dimensions, SLOTS, SimTable, VARIED, open, world};
use common::seeds::Runs;
use common::{HEAP, INLINE, INLINE_SHORT};
use farslot_check::{RegisterMap, TableOp, check};
use farslot_fabric::sim::{
    ClientId, ClientStop, FaultPlan, HostId, Partition, RunEnd, Side, Simulation, SlowNode, When,
    World,
};
use farslot_fabric::{EndpointExt, Executor, Limits, Nanos, NodeId, window};
use farslot_index::duo::{DuoLayout, DuoOptions, Work};
use farslot_index::{IndexError, SlotKind};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::Cell;
use std::rc::Rc;

const RUNS: Runs = Runs {
    test: "duo_linearizable_sim",
    slots: &SLOTS,
    seeds: 300,
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
    /// The longest pause of a coroutine between two operations.
    pause: Nanos,
    /// How often an operation is dropped before it has ended.
    dropped: f64,
    limits: Limits,
    faults: FaultPlan,
}

impl Shape {
    fn of(slot: Slot, seed: u64, rng: &mut ChaCha8Rng) -> Self {
        let slots = rng.random_range(4..=16);
        let dimensions = Dimensions {
            slots,
            bucket_slots: [1, 1, 2, 2][rng.random_range(0..4)],
            fingerprint_bits: 8,
            longest_path: rng.random_range(1..=6),
            stash: rng.random_range(0..=2),
            readers: rng.random_bool(0.7),
        };
        let readers = if dimensions.readers {
            rng.random_range(1..=3)
        } else {
            0
        };
        let owners = rng.random_range(2..=4);
        Self {
            slot,
            // Enough keys to fill it, and now and then too many.
            keys: rng.random_range(slots - 1..=slots + 3),
            owners,
            readers,
            coroutines: rng.random_range(1..=5),
            operations: rng.random_range(12..=36),
            layout: layout(dimensions, slot, rng),
            pause: [0, 0, 3_000][rng.random_range(0..3)],
            dropped: [0.0, 0.0, 0.05][rng.random_range(0..3)],
            limits: Limits {
                // A chain of moves does not always fit.
                send_queue_depth: [4, 16, 64][rng.random_range(0..3)],
                ..limits()
            },
            faults: faults(seed, owners, rng),
        }
    }
}

/// With a heap that is too small, now and then, if there is one.
fn layout(dimensions: Dimensions, slot: Slot, rng: &mut ChaCha8Rng) -> DuoLayout {
    let tight = [Some(1 << 12), Some(1 << 13), Some(1 << 14), Some(1 << 16)];
    let options = DuoOptions {
        heap_bytes: tight[rng.random_range(0..4)],
        ..dimensions.options(slot, rng.random())
    };
    options.layout().unwrap()
}

fn faults(seed: u64, owners: u32, rng: &mut ChaCha8Rng) -> FaultPlan {
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
    for owner in 0..owners {
        if rng.random_bool(0.6) {
            plan.client_stops.push(ClientStop {
                client: ClientId(owner),
                when: When::AfterVerbs(rng.random_range(1..250)),
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
    /// Of all owners together, those that were stopped too.
    work: Rc<Cell<Work>>,
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
        turn: Rc::default(),
        work: Rc::default(),
    };
    let mut simulation = Simulation::new(world.clone());
    let owners: Vec<_> = (0..run.shape.owners)
        .map(|number| {
            let client = simulation.add_client(HostId(0), run.shape.limits);
            let (run, rng) = (run.clone(), ChaCha8Rng::seed_from_u64(rng.random()));
            simulation.spawn(client, async move |endpoint| {
                let table = open(endpoint, &run.shape.layout);
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
                pause: run.shape.pause + 4_000,
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
    let mut counts = run.tally.get();
    let stopped = owners
        .iter()
        .filter(|owner| simulation.endpoint(**owner).is_stopped());
    counts.stopped = stopped.count() as u64;
    run.tally.set(counts);
    look_around(&world, &run);
    let mut tally = run.tally.get();
    (tally.runs, tally.digest) = (1, world.digest());
    let work = run.work.get();
    tally.moves = work.moved;
    tally.repairs = work.copies_removed + work.updates_finished;
    if let Err(error) = check(&run.record.take(), &RegisterMap::new()) {
        panic!("{error}");
    }
    tally
}

/// Adds an owner's work to that of all when it ends.
struct Noted<'r>(&'r Cell<Work>, &'r SimTable);

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        let (mut all, work) = (self.0.get(), self.1.work());
        all.moved += work.moved;
        all.copies_removed += work.copies_removed;
        all.updates_finished += work.updates_finished;
        self.0.set(all);
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
        // The claim of one that is dead may have come in between.
        let late = matches!(error, IndexError::WriterBusy { .. });
        assert!(late || error.may_have_taken_effect(), "take over: {error}");
    }
    let _noted = Noted(&run.work, table);
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
    let (first, step) = (u64::from(caller.client), shape.coroutines as usize);
    for key in (first..shape.keys).step_by(step) {
        // The first owner fills the table.
        let value = caller.slot.fitted(2_000 + key);
        caller.run(key, TableOp::Put(value)).await;
    }
    let mut removed = Vec::new();
    for turn in 0..shape.operations {
        if shape.pause > 0 {
            let pause = rng.random_range(0..=shape.pause);
            caller.table.endpoint().sleep(pause).await;
        }
        let unique = u64::from(caller.client * 64 + turn);
        let working = work_once(&caller, shape, unique, &mut removed, &mut rng);
        if caller.client % 2 == 1 && shape.dropped > 0.0 {
            // Such an operation stays in the history without an end.
            let span = if turn % 8 == 7 { 4_000 } else { 1_000_000_000 };
            if caller
                .table
                .endpoint()
                .timeout(span, working)
                .await
                .is_err()
            {
                return;
            }
        } else {
            working.await;
        }
    }
}

/// Mostly changes a key; removes one now and then and puts it again: the table is nearly full.
async fn work_once(
    caller: &Caller<'_, SimTable>,
    shape: &Shape,
    unique: u64,
    removed: &mut Vec<u64>,
    rng: &mut ChaCha8Rng,
) {
    let key = rng.random_range(0..shape.keys);
    let value = caller.slot.fitted(unique + 1);
    match rng.random_range(0..16) {
        0..3 => caller.run(key, TableOp::Put(value)).await,
        3..5 => caller.run(key, TableOp::FindOrPut(value)).await,
        5..8 => caller.run(key, TableOp::Update(value)).await,
        8..11 => caller.run(key, TableOp::Get).await,
        11 => caller.get_many(shape.keys).await,
        12..15 if !removed.is_empty() => {
            let key = removed.swap_remove(rng.random_range(0..removed.len()));
            caller.run(key, TableOp::Put(value)).await;
        }
        _ => {
            caller.run(key, TableOp::Remove).await;
            removed.push(key);
        }
    }
}

/// When all faults are over, a new owner looks at every key, and meets each once.
fn look_around(world: &World, run: &Run) {
    world.set_faults(FaultPlan::default());
    world.advance_to(world.now() + 1_000_000);
    let endpoint = world.endpoint(limits());
    let executor = Executor::new(Rc::clone(&endpoint));
    executor.block_on(async {
        let table = open(endpoint, &run.shape.layout);
        table.take_over().await.unwrap();
        let _noted = Noted(&run.work, &table);
        let caller = Caller {
            table: &table,
            slot: run.shape.slot,
            record: &run.record,
            tally: &run.tally,
            client: 1_000,
        };
        for key in 0..run.shape.keys {
            caller.run(key, TableOp::Get).await;
        }
        caller.scan(run.shape.keys).await;
    });
}

fn seeds_of(slot: Slot) {
    RUNS.judge_all(slot, |total| {
        let runs = total.runs;
        let has_heap = slot.kind == SlotKind::Heap;
        assert!(total.returned > 60 * runs, "{total:?}");
        assert!(total.seen > 10 * runs, "{total:?}");
        assert!(total.full > runs / 8, "{total:?}");
        assert!(total.in_doubt > runs / 2, "{total:?}");
        assert_eq!(total.heap_full > 0, has_heap, "{total:?}");
        assert!(total.moves > runs, "{total:?}");
        // Records in a heap are not replaced in steps.
        let repairs = if has_heap { runs / 400 } else { runs / 8 };
        assert!(total.repairs > repairs, "{total:?}");
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
fn short_records() {
    seeds_of(INLINE_SHORT);
}

#[test]
fn records_of_many_lengths() {
    seeds_of(VARIED);
}

#[test]
fn records_in_a_heap() {
    seeds_of(HEAP);
}
