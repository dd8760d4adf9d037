//! A writer that stops after any verb of an insertion that displaces other keys: readers go on, and
//! the next writer finds nothing to repair. No key is lost, and none stands twice once it is
//! written.

use crate::common::chaos::{Caller, Record, Tally, limits};
use crate::common::cuckoo::{ORDERS, SLOTS, SimTable, Ways, open, options, ways, world};
use crate::common::{Slot, TABLE};
use farslot_check::{RegisterMap, TableOp, check};
use farslot_fabric::sim::{
    ClientId, ClientStop, FaultPlan, FaultTime, HostId, RunEnd, SimEndpoint, Simulation, World,
};
use farslot_fabric::{EndpointExt, Executor, Nanos};
use farslot_index::cuckoo::{CuckooLayout, LookupOrder};
use farslot_index::{Index, IndexExt};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::{Cell, RefCell};
use std::panic::AssertUnwindSafe;
use std::rc::Rc;

/// Keys that are put, or looked for.
const KEYS: u64 = 24;
const LONGEST_RUN: Nanos = 1_000_000_000;

/// A table, and the key whose insertion displaces others.
#[derive(Clone, Debug)]
struct Case {
    slot: Slot,
    layout: CuckooLayout,
    key: u64,
    /// How many it displaces.
    moves: u64,
    order: LookupOrder,
    /// Of what goes wrong, and of what the next writer does.
    seed: u64,
}

/// Puts one key after the other until one displaces `wanted` others.
fn case(slot: Slot, of: Ways, wanted: u64, seed: u64) -> Option<Case> {
    let layout = options(slot, 14, of, seed).layout().unwrap();
    let order = ORDERS[seed as usize % 3];
    let world = world(seed, &layout);
    let endpoint = world.endpoint(limits());
    let executor = Executor::new(Rc::clone(&endpoint));
    executor
        .block_on(async {
            let table = open(endpoint, &layout, order).await;
            for key in 0..KEYS - 4 {
                let before = table.displacements().await.unwrap();
                let put = table.put(&slot.key(key), &slot.value(key)).await;
                let moves = table.displacements().await.unwrap() - before;
                if put.is_err() {
                    return None;
                }
                if moves >= wanted {
                    return Some((key, moves));
                }
            }
            None
        })
        .map(|(key, moves)| Case {
            slot,
            layout,
            key,
            moves,
            order,
            seed,
        })
}

/// What the clients of a run share.
#[derive(Clone)]
struct Run {
    case: Case,
    record: Record,
    tally: Rc<Cell<Tally>>,
    /// Set when the readers may go.
    over: Rc<Cell<bool>>,
}

impl Run {
    /// A client that writes; half of them predetermine where their insertions go.
    async fn open(&self, endpoint: Rc<SimEndpoint>) -> SimTable {
        let table = open(endpoint, &self.case.layout, self.case.order).await;
        if self.case.seed % 2 == 1 {
            return table.with_predetermination().unwrap();
        }
        table
    }

    fn caller<'t>(&'t self, table: &'t SimTable, client: u32) -> Caller<'t, SimTable> {
        Caller {
            table,
            slot: self.case.slot,
            record: &self.record,
            tally: &self.tally,
            client,
        }
    }
}

/// Stops the writer with its verb number `last` of the insertion; returns whether it had one.
fn stops(case: &Case, last: u64) -> bool {
    let run = Run {
        case: case.clone(),
        record: Record::new(),
        tally: Rc::default(),
        over: Rc::default(),
    };
    let mut rng = ChaCha8Rng::seed_from_u64(case.seed << 16 ^ last);
    let world = world(rng.random(), &case.layout);
    let mut simulation = Simulation::new(world.clone());
    let writer = simulation.add_client(HostId(0), limits());
    let table = fill(&mut simulation, writer, &run);
    let intensity = [0.0, 1.0][rng.random_range(0..2)];
    world.set_faults(FaultPlan {
        client_stops: vec![ClientStop {
            client: writer,
            when: FaultTime::AfterVerbs(last),
        }],
        ..FaultPlan::chaos(rng.random(), intensity)
    });
    let inserting = run.clone();
    let inserted = simulation.spawn(writer, async move |_| {
        let caller = inserting.caller(&table, 0);
        let (key, value) = (inserting.case.key, inserting.case.slot.fitted(100));
        caller.run(key, TableOp::Put(value)).await;
    });
    for number in 1..=3 {
        let reader = simulation.add_client(HostId(0), limits());
        let (run, rng) = (run.clone(), ChaCha8Rng::seed_from_u64(rng.random()));
        simulation.spawn(reader, async move |endpoint| {
            let table = open(endpoint, &run.case.layout, run.case.order).await;
            read(&run, run.caller(&table, number), rng).await;
        });
    }
    let next = simulation.add_client(HostId(0), limits());
    let (successor, dead) = (run.clone(), Rc::clone(simulation.endpoint(writer)));
    simulation.spawn(next, async move |endpoint| {
        let table = successor.open(endpoint).await;
        while !dead.is_stopped() && inserted.try_take().is_none() {
            table.endpoint().sleep(200).await;
        }
        if dead.is_stopped() {
            table.endpoint().sleep(rng.random_range(0..2_000)).await;
            succeed(&successor, &table, &mut rng).await;
        }
        successor.over.set(true);
    });
    assert_eq!(simulation.run_until(LONGEST_RUN), RunEnd::Done);
    if let Err(error) = check(&run.record.take(), &RegisterMap::new()) {
        panic!("{error}");
    }
    simulation.endpoint(writer).is_stopped()
}

/// The writer puts all keys before the one that is to be cut short.
fn fill(simulation: &mut Simulation, writer: ClientId, run: &Run) -> SimTable {
    let place = Rc::new(RefCell::new(None));
    let (run, table) = (run.clone(), Rc::clone(&place));
    simulation.spawn(writer, async move |endpoint| {
        let opened = run.open(endpoint).await;
        for key in 0..run.case.key {
            let value = run.case.slot.fitted(key + 1);
            run.caller(&opened, 0).run(key, TableOp::Put(value)).await;
        }
        table.replace(Some(opened));
    });
    assert_eq!(simulation.run(), RunEnd::Done);
    place.take().unwrap()
}

async fn read(run: &Run, caller: Caller<'_, SimTable>, mut rng: ChaCha8Rng) {
    while !run.over.get() {
        let key = rng.random_range(0..=run.case.key);
        caller.run(key, TableOp::Get).await;
        let pause = rng.random_range(0..1_000);
        caller.table.endpoint().sleep(pause).await;
    }
}

/// Becomes the writer, displaces more keys, and writes every key there is.
async fn succeed(run: &Run, table: &SimTable, rng: &mut ChaCha8Rng) {
    table.take_over().await.unwrap();
    let caller = run.caller(table, 9);
    let mut number = 120;
    let mut value = || {
        number += 1;
        run.case.slot.fitted(number)
    };
    for key in run.case.key + 1..KEYS {
        caller.run(key, TableOp::Put(value())).await;
    }
    for key in 0..KEYS {
        let written = match rng.random_range(0..4) {
            0 => TableOp::Update(value()),
            1 => TableOp::FindOrPut(value()),
            2 => TableOp::Put(value()),
            _ => TableOp::Remove,
        };
        caller.run(key, written).await;
        caller.run(key, TableOp::Get).await;
    }
    // Meets no key twice.
    caller.scan(KEYS).await;
}

/// Stops the writer after each verb; returns how many it has.
fn stops_of(case: &Case) -> u64 {
    let stopped = |last: &u64| {
        let run = AssertUnwindSafe(|| stops(case, *last));
        std::panic::catch_unwind(run).unwrap_or_else(|panic| {
            eprintln!(
                "{case:?}, stopped after verb {last}; this replays it:\n\
                 cargo test -p farslot-index --test suites schemes::cuckoo::stopped_writer -- --nocapture"
            );
            std::panic::resume_unwind(panic)
        })
    };
    (0..1_000).take_while(stopped).count() as u64
}

#[test]
fn a_writer_may_stop_after_any_verb_of_an_insertion() {
    let (mut cases, mut stopped, mut moves) = (0, 0, 0);
    for slot in SLOTS {
        for (of, wanted) in [
            (ways(2, 1), 1),
            (ways(3, 1), 2),
            (ways(2, 2), 1),
            (ways(3, 2), 1),
        ] {
            for case in (0..6).filter_map(|seed| case(slot, of, wanted, seed)) {
                cases += 1;
                moves += case.moves;
                stopped += stops_of(&case);
            }
        }
    }
    println!("{cases} insertions, {moves} moves, {stopped} stops");
    assert!(cases > 55 && moves > 90 && stopped > 750);
}

/// A key that stands twice may be displaced to where its other copy is.
#[test]
fn both_copies_of_a_key_may_come_into_one_bucket() {
    let slot = crate::common::WORD;
    let mut met = 0;
    for seed in 0..400 {
        let Some(case) = case(slot, ways(2, 2), 1, seed) else {
            continue;
        };
        let world = world(seed, &case.layout);
        let endpoint = world.endpoint(limits());
        let executor = Executor::new(Rc::clone(&endpoint));
        executor.block_on(async {
            let table = open(endpoint, &case.layout, case.order).await;
            for key in 0..case.key {
                table.put(&slot.key(key), &slot.value(1)).await.unwrap();
            }
            for key in 0..case.key {
                met += u64::from(copy_within_bucket(&world, &case.layout, &table, key).await);
                assert!(table.update(&slot.key(key), &slot.value(2)).await.unwrap());
                assert!(table.remove(&slot.key(key)).await.unwrap());
                assert!(table.get(&slot.key(key)).await.unwrap().is_none());
            }
        });
    }
    assert!(met > 100, "{met}");
}

/// Copies a key's slot to a free one of its bucket, as two insertions cut short would.
async fn copy_within_bucket(
    world: &World,
    layout: &CuckooLayout,
    table: &SimTable,
    key: u64,
) -> bool {
    let slots = TABLE.offset + (layout.table_bytes() as u64 - layout.heap_bytes)
        - (layout.slots() * 8).next_multiple_of(64);
    let node = world.node_handle(TABLE.node);
    let word = |index: u64| node.peek(TABLE.region, slots + index * 8);
    let before: Vec<u64> = (0..layout.slots()).map(word).collect();
    let key = crate::common::WORD.key(key);
    // The slot that an update changes is the key's.
    table
        .update(&key, &crate::common::WORD.value(3))
        .await
        .unwrap();
    let mine = (0..layout.slots()).find(|index| word(*index) != before[*index as usize]);
    let mine = mine.unwrap();
    let bucket = mine / u64::from(layout.bucket_slots) * u64::from(layout.bucket_slots);
    let free = (bucket..bucket + u64::from(layout.bucket_slots)).find(|index| word(*index) == 0);
    if let Some(free) = free {
        node.poke(TABLE.region, slots + free * 8, word(mine));
    }
    free.is_some()
}
