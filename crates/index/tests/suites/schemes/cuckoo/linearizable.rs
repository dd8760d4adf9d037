//! Linearizability of a cuckoo table's readers beside its one writer, under simulated faults:
//! tables that are nearly full, so that keys are on the move all the time.

use crate::common::chaos::{Caller, Tally, limits, rng_of};
use crate::common::cuckoo::{ORDERS, SIGNATURES, SLOTS, SimTable, open, options, ways, world};
use crate::common::run::{AtEnd, Run, look_around};
use crate::common::seeds::Runs;
use crate::common::{HEAP, INLINE, INLINE_SHORT, Slot, WORD, WORD_SET, faults};
use farslot_check::TableOp;
use farslot_fabric::sim::{ClientId, FaultPlan, HostId, Side, Simulation};
use farslot_fabric::{EndpointExt, Limits, Nanos, window};
use farslot_index::SlotKind;
use farslot_index::cuckoo::{CuckooLayout, LookupOrder};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::Cell;
use std::rc::Rc;

const RUNS: Runs = Runs {
    module: module_path!(),
    slots: &SLOTS,
    seeds: 200,
    run,
};

/// The dimensions of a run. Client 0 writes, the others read.
#[derive(Clone)]
struct Shape {
    keys: u64,
    clients: u32,
    /// Of the writer.
    coroutines: u32,
    operations: u32,
    layout: CuckooLayout,
    order: LookupOrder,
    /// Whether the writer predetermines where its insertions go.
    predetermines: bool,
    /// The longest pause of the writer between two operations.
    pause: Nanos,
    limits: Limits,
    faults: FaultPlan,
}

impl Shape {
    fn of(slot: Slot, seed: u64, rng: &mut ChaCha8Rng) -> Self {
        let (of, slots, rounds) = match slot.kind {
            // Buckets are of 4: with more ways hardly a key is ever displaced.
            SlotKind::Signatures => ([ways(2, 4); 5], 4 * rng.random_range(3..=7), 2),
            _ => (
                [ways(2, 1), ways(2, 2), ways(3, 1), ways(3, 2), ways(4, 1)],
                rng.random_range(6..=16),
                1,
            ),
        };
        let mut options = options(slot, slots, of[rng.random_range(0..5)], rng.random());
        if slot.has_heap() && rng.random_bool(0.5) {
            options.sizing.heap_bytes = Some(1 << 14);
        }
        let clients = rng.random_range(3..=5);
        Self {
            // Enough keys to fill it, and now and then too many.
            keys: rng.random_range(slots - 1..=slots + 2),
            clients,
            coroutines: rng.random_range(1..=4),
            operations: rounds * rng.random_range(16..=60),
            layout: options.layout().unwrap(),
            order: ORDERS[rng.random_range(0..3)],
            predetermines: seed % 2 == 1,
            pause: [0, 0, 3_000][rng.random_range(0..3)],
            limits: Limits {
                // A chain of displacements does not always fit.
                send_queue_depth: [4, 16, 64][rng.random_range(0..3)],
                ..limits()
            },
            faults: faults(seed, clients, rng),
        }
    }
}

fn faults(seed: u64, clients: u32, rng: &mut ChaCha8Rng) -> FaultPlan {
    let mut plan = faults::chaos(seed, rng);
    faults::slow_down(&mut plan, 0.2, 50.0, rng);
    for _ in 0..rng.random_range(0..3) {
        let client = ClientId(rng.random_range(0..clients) * rng.random_range(0..=1));
        let part = faults::cut_off(Side::Client(client), 200_000, 10_000, rng);
        plan.partitions.push(part);
    }
    faults::stop(&mut plan, 0..1, 0.3, 20..1_000, rng);
    plan
}

/// Runs a seed and judges it.
fn run(slot: Slot, seed: u64) -> Tally {
    let mut rng = rng_of(slot, seed);
    let shape = Shape::of(slot, seed, &mut rng);
    let world = world(rng.random(), &shape.layout);
    world.set_faults(shape.faults.clone());
    let run = Run::new(slot, seed);
    let mut simulation = Simulation::new(world.clone());
    let writing = Rc::new(Cell::new(true));
    let clients: Vec<_> = (0..shape.clients)
        .map(|number| {
            let client = simulation.add_client(HostId(0), shape.limits);
            let (shape, run) = (shape.clone(), run.clone());
            let (rng, writing) = (ChaCha8Rng::seed_from_u64(rng.random()), Rc::clone(&writing));
            simulation.spawn(client, async move |endpoint| {
                // The readers are told that nobody writes any more, also where the writer is
                // stopped.
                let _ended = AtEnd(|| writing.set(writing.get() && number > 0));
                let mut table = open(endpoint, &shape.layout, shape.order).await;
                if shape.predetermines {
                    table = table.with_predetermination().unwrap();
                }
                let caller = |coroutine| run.caller(&table, number * 10 + coroutine);
                if number == 0 {
                    write(caller, &shape, rng).await;
                } else {
                    read(caller(0), &shape, rng, &writing).await;
                }
            });
            client
        })
        .collect();
    run.finish(&mut simulation, &clients[..1]);
    look_around(&world, async |endpoint| {
        let table = open(endpoint, &shape.layout, shape.order).await;
        let caller = run.caller(&table, 1_000);
        for key in 0..shape.keys {
            caller.run(key, TableOp::Get).await;
        }
        let counts = run.tally.get();
        // Else a key may stand twice.
        if counts.in_doubt == 0 && counts.stopped == 0 {
            caller.scan(shape.keys).await;
        }
        let moves = table.displacements().await.unwrap();
        run.count(|tally| tally.moves = moves);
    });
    run.judged(&world)
}

/// Fills the table, then puts and removes at random.
async fn write<'t>(
    caller: impl Fn(u32) -> Caller<'t, SimTable>,
    shape: &Shape,
    mut rng: ChaCha8Rng,
) {
    let per_coroutine = (0..shape.coroutines).map(|coroutine| {
        let caller = caller(coroutine);
        let mut rng = ChaCha8Rng::seed_from_u64(rng.random());
        async move {
            caller.fill(shape.keys, shape.coroutines).await;
            let mut removed = Vec::new();
            for turn in 0..shape.operations {
                if shape.pause > 0 {
                    let pause = rng.random_range(0..=shape.pause);
                    caller.table.endpoint().sleep(pause).await;
                }
                write_one(&caller, shape, turn, &mut removed, &mut rng).await;
            }
        }
    });
    window(4, per_coroutine, |_, ()| {}).await;
}

/// Mostly removes a key, and puts one again that was removed before: into a table that is nearly
/// full.
async fn write_one(
    caller: &Caller<'_, SimTable>,
    shape: &Shape,
    turn: u32,
    removed: &mut Vec<u64>,
    rng: &mut ChaCha8Rng,
) {
    let key = rng.random_range(0..shape.keys);
    let number = u64::from(caller.client * 128 + 32 + turn);
    let value = caller.slot.fitted(number);
    match rng.random_range(0..11) {
        0 => caller.run(key, TableOp::Put(value)).await,
        1 => caller.run(key, TableOp::FindOrPut(value)).await,
        2 => caller.run(key, TableOp::Update(value)).await,
        3 => caller.run(key, TableOp::Get).await,
        4 => caller.run_many(shape.keys, number, rng).await,
        _ if removed.len() > 1 => {
            let key = removed.swap_remove(rng.random_range(0..removed.len()));
            caller.run(key, TableOp::Put(value)).await;
        }
        _ => {
            caller.run(key, TableOp::Remove).await;
            removed.push(key);
        }
    }
}

/// Looks keys up for as long as there is a writer.
async fn read(
    caller: Caller<'_, SimTable>,
    shape: &Shape,
    mut rng: ChaCha8Rng,
    writing: &Cell<bool>,
) {
    while writing.get() {
        let pause = rng.random_range(0..=5_000);
        caller.table.endpoint().sleep(pause).await;
        if rng.random_bool(0.1) {
            caller.get_many(shape.keys).await;
        } else {
            let key = rng.random_range(0..shape.keys);
            caller.run(key, TableOp::Get).await;
        }
    }
}

fn seeds_of(slot: Slot) {
    RUNS.judge_all(slot, |total| {
        let runs = total.runs;
        assert!(total.moves > 4 * runs, "{total:?}");
        assert!(total.returned > 60 * runs, "{total:?}");
        assert!(total.batches > 2 * runs, "{total:?}");
        assert!(total.seen > 20 * runs, "{total:?}");
        assert!(total.full > runs / 2, "{total:?}");
        assert!(total.in_doubt > runs / 10, "{total:?}");
        assert!(total.stopped > runs / 20, "{total:?}");
    });
}

#[test]
fn a_seed_is_one_run() {
    RUNS.are_repeatable(10);
}

#[test]
fn word_sets() {
    seeds_of(WORD_SET);
}

#[test]
fn words() {
    seeds_of(WORD);
}

#[test]
fn inline_records() {
    seeds_of(INLINE);
}

#[test]
fn short_inline_records() {
    seeds_of(INLINE_SHORT);
}

#[test]
fn records_out_of_band() {
    seeds_of(HEAP);
}

#[test]
fn records_in_heap_buckets() {
    seeds_of(SIGNATURES);
}
