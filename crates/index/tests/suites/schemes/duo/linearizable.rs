//! Linearizability of a CuckooDuo table under simulated faults, over several owners one after the
//! other: each has some threads, and these some coroutines that read and write keys of a nearly
//! full table, with short fingerprints; its threads stop anywhere or are cut off, the last one
//! resigns, and the next owner makes its index from the vault. Readers on other machines look keys
//! up all the while.

use crate::common::beside::Beside;
use crate::common::chaos::{Caller, Tally, limits, rng_of};
use crate::common::duo::{Dimensions, SLOTS, SimTable, VARIED, open, world};
use crate::common::from_sim;
use crate::common::owners::Owners;
use crate::common::run::{AtEnd, Run, Turns, look_around};
use crate::common::seeds::Runs;
use crate::common::{HEAP, INLINE, INLINE_SHORT, Slot, TABLE, faults};
use farslot_check::TableOp;
use farslot_fabric::sim::{FaultPlan, Simulation};
use farslot_fabric::{Limits, Nanos, window};
use farslot_index::Sizing;
use farslot_index::SlotKind;
use farslot_index::duo::{DuoLayout, DuoOptions, DuoOwner};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const RUNS: Runs = Runs {
    module: module_path!(),
    slots: &SLOTS,
    seeds: 120,
    run,
};

/// The dimensions of a run.
#[derive(Clone)]
struct Shape {
    keys: u64,
    owners: u32,
    /// Of each owner.
    threads: u32,
    /// Readers beside them.
    readers: u32,
    /// Of each thread.
    coroutines: u32,
    /// Of each coroutine.
    operations: u32,
    layout: DuoLayout,
    /// The longest pause of a coroutine between two operations.
    pause: Nanos,
    /// Whether some operations are dropped before they have ended.
    some_are_dropped: bool,
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
        let threads = rng.random_range(1..=3);
        Self {
            // Enough keys to fill it, and now and then too many.
            keys: rng.random_range(slots - 1..=slots + 3),
            owners,
            threads,
            readers,
            coroutines: rng.random_range(1..=5),
            // What there is to be checked grows with the operations of all.
            operations: rng.random_range(12..=36) / threads,
            layout: layout(dimensions, slot, rng),
            pause: [0, 0, 3_000][rng.random_range(0..3)],
            some_are_dropped: rng.random_ratio(1, 3),
            limits: Limits {
                // A chain of moves does not always fit.
                send_queue_depth: [4, 16, 64][rng.random_range(0..3)],
                ..limits()
            },
            faults: faults::of_threads(seed, (owners, threads), 250, rng),
        }
    }
}

/// With a heap that is too small, now and then, if there is one.
fn layout(dimensions: Dimensions, slot: Slot, rng: &mut ChaCha8Rng) -> DuoLayout {
    let tight = [Some(1 << 12), Some(1 << 13), Some(1 << 14), Some(1 << 16)];
    let options = DuoOptions {
        sizing: Sizing {
            heap_bytes: tight[rng.random_range(0..4)],
            ..dimensions.options(slot, rng.random()).sizing
        },
        ..dimensions.options(slot, rng.random())
    };
    options.layout().unwrap()
}

/// Runs a seed and judges it.
fn run(slot: Slot, seed: u64) -> Tally {
    let mut rng = rng_of(slot, seed);
    let shape = Shape::of(slot, seed, &mut rng);
    let world = world(rng.random(), &shape.layout);
    world.set_faults(shape.faults.clone());
    let run = Run::new(slot, seed);
    let mut simulation = Simulation::new(world.clone());
    let owners = Owners::new(shape.owners).of_threads(shape.threads);
    let (of_owner, owned, layout) = (shape.clone(), run.clone(), shape.layout.clone());
    let clients = owners.spawn_threads(
        &mut simulation,
        shape.limits,
        &mut rng,
        || DuoOwner::new(TABLE, layout.clone()).unwrap(),
        |owner, endpoint| owner.table(from_sim(endpoint)),
        async move |table: &SimTable, number, thread, rng| {
            own(&owned, &of_owner, table, number * 100 + thread * 10, rng).await;
        },
    );
    let beside = Beside {
        run: run.clone(),
        owners,
        layout: shape.layout.clone(),
        keys: shape.keys,
        pause: shape.pause + 4_000,
    };
    beside.spawn(&mut simulation, shape.readers, shape.limits, &mut rng);
    run.finish(&mut simulation, &clients);
    look_around(&world, async |endpoint| {
        let table = open(endpoint, &shape.layout);
        table.take_over().await.unwrap();
        run.caller(&table, 1_000).look_around(shape.keys).await;
        note_work(&run, &table);
    });
    run.judged(&world)
}

/// Adds what an owner has moved, and what it has found begun and not finished.
fn note_work(run: &Run, table: &SimTable) {
    let work = table.work();
    run.count(|tally| {
        tally.moves += work.moved;
        tally.repairs += work.copies_removed + work.updates_finished;
    });
}

/// What a thread of an owner does with the table; its coroutines have numbers from `first` on.
async fn own(run: &Run, shape: &Shape, table: &SimTable, first: u32, mut rng: ChaCha8Rng) {
    let _noted = AtEnd(|| note_work(run, table));
    let coroutines = (0..shape.coroutines).map(|coroutine| {
        let caller = run.caller(table, first + coroutine);
        work(caller, shape, ChaCha8Rng::seed_from_u64(rng.random()))
    });
    window(5, coroutines, |_, ()| {}).await;
}

async fn work(caller: Caller<'_, SimTable>, shape: &Shape, mut rng: ChaCha8Rng) {
    // The first owner fills the table.
    caller.fill(shape.keys, shape.coroutines).await;
    let mut removed = Vec::new();
    let turns = Turns {
        operations: shape.operations,
        pause: shape.pause,
        some_are_dropped: shape.some_are_dropped,
    };
    let operation = async |number, rng: &mut ChaCha8Rng| {
        work_once(&caller, shape, number, &mut removed, rng).await;
    };
    let endpoint = caller.table.endpoint();
    turns.take(&caller, endpoint, &mut rng, operation).await;
}

/// Mostly changes a key; removes one now and then and puts it again: the table is nearly full.
async fn work_once(
    caller: &Caller<'_, SimTable>,
    shape: &Shape,
    number: u64,
    removed: &mut Vec<u64>,
    rng: &mut ChaCha8Rng,
) {
    let key = rng.random_range(0..shape.keys);
    let value = caller.slot.fitted(number);
    match rng.random_range(0..18) {
        0..3 => caller.run(key, TableOp::Put(value)).await,
        3..5 => caller.run(key, TableOp::FindOrPut(value)).await,
        5..8 => caller.run(key, TableOp::Update(value)).await,
        8..11 => caller.run(key, TableOp::Get).await,
        11 => caller.get_many(shape.keys).await,
        12..14 => caller.run_many(shape.keys, number, rng).await,
        14..17 if !removed.is_empty() => {
            let key = removed.swap_remove(rng.random_range(0..removed.len()));
            caller.run(key, TableOp::Put(value)).await;
        }
        _ => {
            caller.run(key, TableOp::Remove).await;
            removed.push(key);
        }
    }
}

fn seeds_of(slot: Slot) {
    RUNS.judge_all(slot, |total| {
        let runs = total.runs;
        let has_heap = slot.kind == SlotKind::Heap;
        assert!(total.returned > 60 * runs, "{total:?}");
        assert!(total.batches > 2 * runs, "{total:?}");
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
