//! Linearizability of tables whose records a cleaner moves from block to block, and removes, while
//! others write, under simulated faults: a record that is moved has its value, and one that was
//! written since the cleaner has looked stays as it is.

use crate::common::bed::{Bed, Table, with};
use crate::common::chaos::{Caller, Tally, limits, rng_of};
use crate::common::cuckoo::{self, ways};
use crate::common::duo::Dimensions;
use crate::common::run::{Run, look_around};
use crate::common::seeds::Runs;
use crate::common::{HEAP, HYBRID, INLINE, Slot, faults, race};
use farslot_check::{OpId, TableOp, TableRet};
use farslot_fabric::sim::{ClientId, FaultPlan, HostId, Side, Simulation};
use farslot_fabric::{Endpoint, EndpointExt, window};
use farslot_index::Result;
use farslot_index::internals::{Relocate, Relocation, records_in_pages};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const fn named(name: &'static str, slot: Slot) -> Slot {
    Slot { name, ..slot }
}

const LINEAR: Slot = named("heap", HEAP);
const LINEAR_INLINE: Slot = named("inline", INLINE);
const LINEAR_HYBRID: Slot = named("hybrid", HYBRID);
const RACE: Slot = named("race", race::VARIED);
const CUCKOO: Slot = named("cuckoo", HEAP);
const DUO: Slot = named("duo", HEAP);
const SLOTS: [Slot; 6] = [LINEAR, LINEAR_INLINE, LINEAR_HYBRID, RACE, CUCKOO, DUO];

const RUNS: Runs = Runs {
    module: module_path!(),
    slots: &SLOTS,
    seeds: 150,
    run,
};

/// A table, and how many keys it is to hold: nearly as many as it can where they move to make room.
fn bed(slot: Slot, rng: &mut ChaCha8Rng) -> (Bed, u64) {
    let heap_bytes = [1 << 11, 1 << 12, 1 << 14][rng.random_range(0..3)];
    let seed = rng.random();
    let (few, slots) = (rng.random_range(3..=8), rng.random_range(6..=12));
    let bed = match slot {
        RACE => {
            let dimensions = race::Dimensions {
                bucket_slots: rng.random_range(1..=2),
                groups: rng.random_range(1..=2),
                roots: 1,
                most_subtables: [1, 8][rng.random_range(0..2)],
            };
            Bed::race(slot, dimensions, heap_bytes, seed)
        }
        CUCKOO => {
            let ways = [ways(2, 1), ways(2, 2), ways(3, 1)][rng.random_range(0..3)];
            let mut options = cuckoo::options(slot, slots, ways, seed);
            options.sizing.heap_bytes = Some(heap_bytes);
            Bed::Cuckoo(options.layout().unwrap())
        }
        DUO => {
            let dimensions = Dimensions {
                slots,
                bucket_slots: rng.random_range(1..=2),
                fingerprint_bits: 8,
                longest_path: rng.random_range(1..=6),
                stash: rng.random_range(0..=2),
                readers: rng.random(),
            };
            let mut options = dimensions.options(slot, seed);
            options.sizing.heap_bytes = Some(heap_bytes);
            Bed::Duo(options.layout().unwrap())
        }
        slot => Bed::linear(slot, 16, heap_bytes, seed),
    };
    let keys = if bed.has_one_writer() { slots } else { few };
    (bed, keys)
}

/// What goes wrong: of tables that one client writes, with that one.
fn faults(bed: &Bed, seed: u64, clients: u32, rng: &mut ChaCha8Rng) -> FaultPlan {
    if !bed.has_one_writer() {
        return faults::of_writers(seed, clients, rng);
    }
    let mut plan = faults::chaos(seed, rng);
    faults::slow_down(&mut plan, 0.2, 50.0, rng);
    for _ in 0..rng.random_range(0..3) {
        let side = Side::Client(ClientId(0));
        plan.partitions
            .push(faults::cut_off(side, 200_000, 10_000, rng));
    }
    faults::stop(&mut plan, 0..1, 0.3, 20..400, rng);
    plan
}

/// Runs a seed and judges it.
fn run(slot: Slot, seed: u64) -> Tally {
    let mut rng = rng_of(slot, seed);
    let (bed, keys) = bed(slot, &mut rng);
    let clients = if bed.has_one_writer() {
        1
    } else {
        rng.random_range(2..=4)
    };
    let coroutines = if bed.has_one_writer() { 5 } else { 1 };
    let world = bed.world(rng.random());
    world.set_faults(faults(&bed, seed, clients, &mut rng));
    let run = Run::new(slot, seed);
    let mut simulation = Simulation::new(world.clone());
    let clients: Vec<_> = (0..clients)
        .map(|number| {
            let client = simulation.add_client(HostId(0), limits());
            let (bed, run) = (bed.clone(), run.clone());
            let seeds: Vec<u64> = (0..=coroutines).map(|_| rng.random()).collect();
            simulation.spawn(client, async move |endpoint| {
                let table = bed.open(endpoint, 0).await;
                let each = (0..).zip(seeds).map(async |(coroutine, seed)| {
                    let rng = ChaCha8Rng::seed_from_u64(seed);
                    with!(&table, table => {
                        let caller = run.caller(table, number * 10 + coroutine);
                        match coroutine {
                            0 => clean(caller, keys, rng).await,
                            _ => {
                                if bed.has_one_writer() {
                                    caller.fill(keys, coroutines).await;
                                }
                                work(caller, keys, rng).await;
                            }
                        }
                    });
                });
                window(6, each, |_, ()| {}).await;
                let moved = match &table {
                    Table::Cuckoo(table) => table.displacements().await.unwrap_or(0),
                    Table::Duo(table) => table.work().moved,
                    _ => 0,
                };
                run.count(|tally| tally.moves += moved);
            });
            client
        })
        .collect();
    run.finish(&mut simulation, &clients);
    look_around(&world, async |endpoint| {
        let table = match bed.has_one_writer() {
            true => bed.open_to_write(endpoint).await,
            false => bed.open(endpoint, 0).await,
        };
        with!(&table, table => run.caller(table, 1_000).look_around(keys).await);
    });
    run.judged(&world)
}

/// Random operations on random keys.
async fn work<T: Relocate>(caller: Caller<'_, T>, keys: u64, mut rng: ChaCha8Rng) {
    for turn in 0..16 {
        let pause = rng.random_range(0..=10_000);
        caller.table.endpoint().sleep(pause).await;
        let weights = [4, 6, 3, 3, 2, 1, 2, 0];
        caller.run_any(keys, turn, weights, &mut rng).await;
    }
}

/// Looks at what the slots name, and moves or removes some of that a little later.
async fn clean<T: Relocate>(caller: Caller<'_, T>, keys: u64, mut rng: ChaCha8Rng) {
    for _ in 0..8 {
        let endpoint = caller.table.endpoint();
        endpoint.sleep(rng.random_range(0..=10_000)).await;
        let named = match records_in_pages(caller.table).await {
            Ok(named) => named,
            Err(error) => {
                assert!(error.may_have_taken_effect(), "{error}");
                continue;
            }
        };
        endpoint.sleep(rng.random_range(0..=10_000)).await;
        let mut some = Vec::new();
        for (block, record) in &named {
            if rng.random_bool(0.6) {
                let (key, block) = (record.key(), *block);
                let value = rng.random_bool(0.8).then_some(record.value());
                let number = (0..keys).find(|number| caller.slot.key(*number) == key);
                let was = caller.slot.number(record.value());
                let op = match value {
                    Some(_) => TableOp::Replace(was, was),
                    None => TableOp::RemoveIf(was),
                };
                let number = number.expect("slots name records that were put");
                some.push((number, op, Relocation { key, value, block }));
            }
        }
        relocate(&caller, &some).await;
    }
}

/// Does some relocations, each an operation of the history that is on the value that was there. One
/// that finds another block does not say which value is there.
async fn relocate<T: Relocate>(
    caller: &Caller<'_, T>,
    some: &[(u64, TableOp<u64>, Relocation<'_>)],
) {
    let start = caller.table.endpoint().now();
    let invoke = |(key, op, _): &(u64, TableOp<u64>, Relocation<'_>)| {
        caller.record.invoke(caller.client, *key, op.clone(), start)
    };
    let invoked: Vec<OpId> = some.iter().map(invoke).collect();
    let relocations: Vec<_> = some.iter().map(|(.., relocation)| *relocation).collect();
    let mut answered = 0;
    let mut done = |number: usize, outcome: Result<bool>| {
        answered += 1;
        let mut tally = caller.tally.get();
        match outcome {
            Ok(true) => tally.relocated += 1,
            Ok(false) => tally.stale += 1,
            Err(_) => {}
        }
        caller.tally.set(tally);
        let id = invoked[number];
        let ret = match &some[number].1 {
            TableOp::RemoveIf(_) => TableRet::Removed(true),
            _ => TableRet::Updated(true),
        };
        match outcome {
            Ok(false) => caller.record.no_effect(id, caller.table.endpoint().now()),
            outcome => caller.ended(id, outcome.map(|_| ret)),
        }
    };
    caller.table.relocate(&relocations, &mut done).await;
    assert_eq!(answered, some.len(), "each relocation has one outcome");
}

fn seeds_of(slot: Slot) {
    RUNS.judge_all(slot, |total| {
        let runs = total.runs;
        assert!(total.returned > 20 * runs, "{total:?}");
        assert!(total.relocated > 5 * runs, "{total:?}");
        assert!(total.stale > runs, "{total:?}");
        assert!(total.in_doubt > runs / 10, "{total:?}");
        let moves_others = slot == CUCKOO || slot == DUO;
        assert!(total.moves > runs / 2 || !moves_others, "{total:?}");
        assert!(total.heap_full > 0 || slot == LINEAR_INLINE, "{total:?}");
        assert!(total.stopped > runs / 20, "{total:?}");
    });
}

#[test]
fn a_seed_is_one_run() {
    RUNS.are_repeatable(5);
}

#[test]
fn in_linear_tables() {
    seeds_of(LINEAR);
}

#[test]
fn in_linear_tables_of_inline_records() {
    seeds_of(LINEAR_INLINE);
}

#[test]
fn in_linear_tables_of_hybrid_slots() {
    seeds_of(LINEAR_HYBRID);
}

#[test]
fn in_race_tables() {
    seeds_of(RACE);
}

#[test]
fn in_cuckoo_tables() {
    seeds_of(CUCKOO);
}

#[test]
fn in_duo_tables() {
    seeds_of(DUO);
}
