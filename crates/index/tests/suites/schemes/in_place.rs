//! Tables in memory that is mapped, as clients use them by default: their loads, stores and swaps
//! in any order that a seed draws, with words that are torn between any two loads, and clients that
//! stop for good before any access. Histories are judged as those under the simulator's faults.

use crate::common::chaos::{Caller, Tally, rng_of};
use crate::common::run::{AtEnd, Run};
use crate::common::seeds::Runs;
use crate::common::{
    HEAP, PAIR, Reads, SLOTS, Slot, TABLE, WORD, cuckoo, duo, from_shm, race, region_bytes,
};
use farslot_check::{History, RegisterMap, TableOp, TableRet, check};
use farslot_fabric::schedule::{self, Plan};
use farslot_fabric::shm::{Node, RegionSpec};
use farslot_fabric::{Endpoint, Executor, Limits, Rights, window};
use farslot_index::cuckoo::CuckooTable;
use farslot_index::duo::{DuoReader, DuoTable};
use farslot_index::linear::LinearTable;
use farslot_index::race::RaceTable;
use farslot_index::{AnyIndex, Cursor, Index};
use farslot_testbed::AnyEndpoint;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::panic::catch_unwind;
use std::rc::Rc;
use std::sync::Mutex;

const LINEAR: Runs = Runs {
    module: concat!(module_path!(), "::linear"),
    slots: &SLOTS,
    seeds: 60,
    run: |slot, seed| linear(slot, seed, false),
};
const GROWING: Slot = Slot {
    name: "growing",
    ..race::VARIED
};
const RACE_SLOTS: [Slot; 3] = [race::VARIED, race::SHORT, GROWING];
const RACE: Runs = Runs {
    module: concat!(module_path!(), "::race"),
    slots: &RACE_SLOTS,
    seeds: 150,
    run: |slot, seed| race(slot, seed, false),
};
const CUCKOO: Runs = Runs {
    module: concat!(module_path!(), "::cuckoo"),
    slots: &cuckoo::SLOTS,
    seeds: 60,
    run: |slot, seed| cuckoo(slot, seed, false),
};
const DUO_SLOTS: [Slot; 5] = [
    duo::SLOTS[0],
    duo::SLOTS[1],
    duo::SLOTS[2],
    duo::SLOTS[3],
    duo::WORDS,
];
const DUO: Runs = Runs {
    module: concat!(module_path!(), "::duo"),
    slots: &DUO_SLOTS,
    seeds: 60,
    run: |slot, seed| duo(slot, seed, false),
};

/// What all clients of a run have in common.
struct Shape {
    slot: Slot,
    seed: u64,
    keys: u64,
    clients: usize,
    operations: u32,
    /// Whether all write, or the first alone.
    all_write: bool,
    /// Whether those that only read scan as well.
    readers_scan: bool,
    plan: Plan,
}

impl Shape {
    fn of(slot: Slot, seed: u64, keys: u64, rng: &mut ChaCha8Rng) -> Self {
        let clients = rng.random_range(2..=4);
        let mut stops = Vec::new();
        stops.resize_with(clients, || {
            let stops = rng.random_bool(0.3);
            // Words take few accesses, long records many.
            let most = 1 << rng.random_range(5..13);
            stops.then(|| rng.random_range(1..most))
        });
        Self {
            slot,
            seed,
            keys,
            clients,
            operations: rng.random_range(4..=10),
            all_write: true,
            readers_scan: false,
            plan: Plan {
                stops,
                seed: rng.random(),
                begins_at: 0,
                longest_turn: [1, 2, 8, 32, 128][rng.random_range(0..5)],
                longest_jump: 0,
                swaps_blindly: false,
            },
        }
    }

    /// Runs the clients, each by `work` with its number; then one more, that is to look at every
    /// key.
    fn judged(&self, node: &Node, work: impl Fn(&Run, usize, Rc<AnyEndpoint>) + Sync) -> Tally {
        let kept = Mutex::new(Vec::new());
        let client = |number: usize| {
            let run = Run::new(self.slot, self.seed);
            // Also of one that stops.
            let _kept = AtEnd(|| {
                let mut kept = kept.lock().unwrap();
                kept.push((run.record.take(), run.tally.get()));
            });
            work(&run, number, from_shm(node, Limits::default()));
        };
        let ended = schedule::run(&self.plan, self.clients, client);
        let after = Plan {
            begins_at: ended.at + 1,
            stops: Vec::new(),
            ..self.plan.clone()
        };
        schedule::run(&after, 1, |_| client(self.clients));
        let mut total = Tally {
            runs: 1,
            digest: ended.accesses.wrapping_mul(31).wrapping_add(ended.at),
            stopped: ended
                .results
                .iter()
                .filter(|result| result.is_none())
                .count() as u64,
            ..Tally::default()
        };
        let mut histories = Vec::new();
        for (history, tally) in kept.into_inner().unwrap() {
            histories.push(history);
            total += tally;
        }
        let history: History<u64, TableOp<u64>, TableRet<u64>> = History::merge(histories);
        if let Err(error) = check(&history, &RegisterMap::new()) {
            panic!("{} {}: {error}", self.slot.name, self.seed);
        }
        total
    }

    /// What client `number` does with its table.
    async fn use_table(&self, run: &Run, number: usize, table: AnyIndex) {
        let table = &*table;
        let caller = |coroutine| run.caller(table, number as u32 * 10 + coroutine);
        if number == self.clients {
            return caller(0).look_around(self.keys).await;
        }
        // Mostly one: a second is there for what coroutines of one client share.
        let count = 1 + (self.seed as usize + number) % 3 / 2;
        let coroutines = (0..count as u32).map(|coroutine| {
            let salt = 1 + u64::from(coroutine) + number as u64 * 10;
            let rng = ChaCha8Rng::seed_from_u64(self.plan.seed ^ salt);
            self.work(caller(coroutine), number, rng)
        });
        window(count, coroutines, |_, ()| {}).await;
    }

    /// What a coroutine does: a random operation after the other, on random keys.
    async fn work(&self, caller: Caller<'_, dyn Index>, number: usize, mut rng: ChaCha8Rng) {
        // Who may not write looks.
        let weights = match self.all_write || number == 0 {
            true => [4, 4, 3, 2, 2, 2, 6, 1],
            false => [12, 0, 0, 0, 0, 8, 0, 4],
        };
        for turn in 0..self.operations {
            caller.run_any(self.keys, turn, weights, &mut rng).await;
        }
    }
}

fn node_of(bytes: u64) -> Node {
    let region = RegionSpec {
        len: bytes,
        rights: Rights::ALL,
    };
    Node::embedded(&[region]).unwrap()
}

fn linear(slot: Slot, seed: u64, swaps_blindly: bool) -> Tally {
    let mut rng = rng_of(slot, seed);
    let keys = rng.random_range(2..=6);
    let mut shape = Shape::of(slot, seed, keys, &mut rng);
    shape.plan.swaps_blindly = swaps_blindly;
    let slots = [2, 4, 8, 16][rng.random_range(0..4)];
    let layout = slot.options(slots, rng.random()).layout().unwrap();
    let fixed = [None, Some(1), Some(3), Some(64)][rng.random_range(0..4)];
    let reads = Reads {
        fixed,
        look_ahead: rng.random_bool(0.3),
    };
    shape.judged(&node_of(region_bytes(&layout)), |run, number, endpoint| {
        Executor::new(Rc::clone(&endpoint)).block_on(async {
            let sizes = reads.sizes(&layout);
            let opening = LinearTable::open(endpoint, TABLE, layout.clone(), sizes);
            let table = Rc::new(opening.await.unwrap());
            shape.use_table(run, number, table).await;
        });
    })
}

fn race(slot: Slot, seed: u64, swaps_blindly: bool) -> Tally {
    let mut rng = rng_of(slot, seed);
    let grows = slot.name == GROWING.name;
    let keys = if grows {
        rng.random_range(4..=12)
    } else {
        rng.random_range(2..=6)
    };
    let mut shape = Shape::of(slot, seed, keys, &mut rng);
    shape.plan.swaps_blindly = swaps_blindly;
    let dimensions = race::Dimensions {
        bucket_slots: rng.random_range(1..=2),
        groups: rng.random_range(1..=2),
        roots: 1,
        most_subtables: if grows { rng.random_range(2..=13) } else { 1 },
    };
    let layout = dimensions.layout(slot, rng.random(), None);
    shape.judged(&race::shm_node(&layout), |run, number, endpoint| {
        Executor::new(Rc::clone(&endpoint)).block_on(async {
            let table = RaceTable::open(endpoint, TABLE, layout.clone())
                .await
                .unwrap();
            let has_grown = table.subtables() > 1;
            run.count(|tally| tally.grown += u64::from(has_grown));
            shape.use_table(run, number, Rc::new(table)).await;
        });
    })
}

fn cuckoo(slot: Slot, seed: u64, swaps_blindly: bool) -> Tally {
    let mut rng = rng_of(slot, seed);
    let keys = rng.random_range(2..=6);
    let mut shape = Shape::of(slot, seed, keys, &mut rng);
    shape.plan.swaps_blindly = swaps_blindly;
    shape.all_write = false;
    let ways = cuckoo::ways(rng.random_range(2..=4), rng.random_range(1..=4));
    let layout = cuckoo::options(slot, 6, ways, rng.random())
        .layout()
        .unwrap();
    let order = cuckoo::ORDERS[rng.random_range(0..3)];
    let node = node_of(cuckoo::region_bytes(&layout));
    shape.judged(&node, |run, number, endpoint| {
        Executor::new(Rc::clone(&endpoint)).block_on(async {
            let opening = CuckooTable::open(endpoint, TABLE, layout.clone(), order);
            let table = Rc::new(opening.await.unwrap());
            shape.use_table(run, number, table).await;
        });
    })
}

fn duo(slot: Slot, seed: u64, swaps_blindly: bool) -> Tally {
    let mut rng = rng_of(slot, seed);
    let keys = rng.random_range(4..=10);
    let mut shape = Shape::of(slot, seed, keys, &mut rng);
    shape.plan.swaps_blindly = swaps_blindly;
    shape.all_write = false;
    shape.readers_scan = seed % 2 == 1;
    let dimensions = duo::Dimensions {
        slots: 16,
        bucket_slots: rng.random_range(1..=2),
        fingerprint_bits: 8,
        longest_path: 3,
        stash: 2,
        readers: true,
    };
    let layout = dimensions.layout(slot, rng.random());
    shape.judged(&duo::shm_node(&layout), |run, number, endpoint| {
        Executor::new(Rc::clone(&endpoint)).block_on(async {
            if number == 0 {
                let owner = DuoTable::open(endpoint, TABLE, layout.clone()).unwrap();
                return shape.use_table(run, number, Rc::new(owner)).await;
            }
            let reader = DuoReader::open(endpoint, TABLE, layout.clone()).unwrap();
            let rounds = if number == shape.clients {
                1
            } else {
                shape.operations
            };
            for _ in 0..rounds {
                for key in 0..shape.keys {
                    look(run, &reader, number, key).await;
                }
                if shape.readers_scan {
                    scan(run, &reader, number, shape.keys).await;
                }
            }
        });
    })
}

/// A reader's lookup beside the owner, as an operation of the history.
async fn look(run: &Run, reader: &DuoReader<AnyEndpoint>, number: usize, key: u64) {
    let now = || reader.endpoint().now();
    let started = run
        .record
        .invoke(number as u32 * 10, key, TableOp::Get, now());
    let value = reader.get(&run.slot.key(key)).await.unwrap();
    let value = value.map(|value| run.slot.number(&value));
    run.count(|tally| tally.read_beside += u64::from(value.is_some()));
    run.record.complete(started, TableRet::Got(value), now());
}

/// A reader's scan beside the owner: each record that it meets is a lookup of the history. What it
/// does not meet may have been moved.
async fn scan(run: &Run, reader: &DuoReader<AnyEndpoint>, number: usize, keys: u64) {
    let now = || reader.endpoint().now();
    let (start, mut met) = (now(), Vec::new());
    let mut next = Some(Cursor::default());
    while let Some(cursor) = next {
        let visit = |key: &[u8], value: &[u8]| met.push((key.to_vec(), value.to_vec()));
        next = reader.scan(cursor, u64::MAX, visit).await.unwrap();
    }
    let end = now();
    for (key, value) in met {
        let key = (0..keys).find(|number| run.slot.key(*number) == key);
        let key = key.expect("a scan meets keys that were put");
        let client = number as u32 * 10;
        let lookup = run.record.invoke(client, key, TableOp::Get, start);
        let value = Some(run.slot.number(&value));
        run.record.complete(lookup, TableRet::Got(value), end);
    }
}

/// Whether these many seeds of a slot kind were worth it.
fn worth_it(total: &Tally) {
    let runs = total.runs;
    assert!(total.returned > 10 * runs, "{total:?}");
    assert!(total.batches > runs / 2, "{total:?}");
    assert!(total.seen + total.read_beside > runs, "{total:?}");
    assert!(total.stopped > runs / 10, "{total:?}");
}

#[test]
fn linear_tables() {
    for slot in SLOTS {
        LINEAR.judge_all(slot, worth_it);
    }
}

#[test]
fn race_tables() {
    for slot in RACE_SLOTS {
        RACE.judge_all(slot, |total| {
            worth_it(total);
            assert!(total.grown > 0 || slot.name != GROWING.name, "{total:?}");
        });
    }
}

#[test]
fn cuckoo_tables_and_readers_beside_their_writer() {
    for slot in cuckoo::SLOTS {
        CUCKOO.judge_all(slot, worth_it);
    }
}

#[test]
fn duo_tables_and_readers_beside_their_owner() {
    for slot in DUO_SLOTS {
        DUO.judge_all(slot, worth_it);
    }
}

/// A reader had loaded the head of a slot when the key was removed and put into the slot again: the
/// record that it then loaded was whole, and had no head yet.
#[test]
fn a_record_that_is_put_into_its_slot_again_is_not_seen_before_its_head() {
    duo(DUO_SLOTS[0], 2140, false);
}

#[test]
fn a_seed_is_one_run() {
    LINEAR.are_repeatable(3);
    RACE.are_repeatable(3);
    CUCKOO.are_repeatable(3);
    DUO.are_repeatable(3);
}

/// What goes wrong where swaps now and then replace a word that they should not is found.
#[test]
fn swaps_that_do_not_look_are_found() {
    let found = |run: fn(Slot, u64, bool) -> Tally, slot| {
        let mut seeds = 0..200;
        seeds.any(|seed| catch_unwind(|| run(slot, seed, true)).is_err())
    };
    for slot in [WORD, PAIR, HEAP] {
        assert!(found(linear, slot), "{}", slot.name);
    }
    assert!(found(race, race::VARIED));
}
