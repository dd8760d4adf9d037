//! Heap memory that killed clients held comes back, and no history is broken, however cleaning,
//! slow verbs and stops coincide.

use crate::common::bed::{Bed, Table, with};
use crate::common::chaos::{Caller, ClientKind, Tally, limits};
use crate::common::run::{Run, look_around_after};
use crate::common::seeds::Runs;
use crate::common::{HEAP, HYBRID, INLINE, Slot, chaos, faults, race};
use farslot_check::TableOp;
use farslot_fabric::sim::{ClientStop, FaultPlan, FaultTime, HostId, Simulation};
use farslot_fabric::{Endpoint, EndpointExt, Executor, Limits, Nanos, window};
use farslot_index::heap::Relocate;
use farslot_index::internals::pages_reused;
use farslot_index::{Admin, FieldSize, Index, IndexError, IndexExt, SlotKind, UPKEEP};
use farslot_testbed::AnyEndpoint;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::Cell;
use std::rc::Rc;

const SECOND: Nanos = 1_000_000_000;
/// A turn in which some verbs of a cleaning take effect, and bytes of a record that it is for.
const TURN: Nanos = 8_000;
const TURN_RECORD: usize = 48;
/// Longer than a claim has to stand before another client takes the run over.
const TAKEN_AFTER: Nanos = 41 * SECOND;

const RUNS: Runs = Runs {
    module: module_path!(),
    slots: &[HEAP, INLINE, HYBRID, race::VARIED],
    seeds: 100,
    run: history,
};

/// Verbs take so long that an operation lasts as long as its client may use a run without another
/// claim; pauses between operations are longer than a claim has to stand.
fn history(slot: Slot, seed: u64) -> Tally {
    const KEYS: u64 = 5;
    let mut rng = chaos::rng_of(slot, seed);
    // Of inline records only those lie there that replace others.
    let part = if slot == INLINE { 2 } else { 1 };
    let heap_bytes = [1 << 10, 2 << 10, 4 << 10][rng.random_range(0..3)] / part;
    let bed = match slot == race::VARIED {
        true => {
            let dimensions = race::Dimensions {
                bucket_slots: 1,
                groups: 2,
                roots: 1,
                most_subtables: 8,
            };
            Bed::race(slot, dimensions, heap_bytes, rng.random())
        }
        false => Bed::linear(slot, 16, heap_bytes, rng.random()),
    };
    let world = bed.world(rng.random());
    let mut plan = faults::chaos(seed, &mut rng);
    plan.latency.probability = rng.random_range(0.0..0.3);
    plan.latency.up_to_ns = [10_000, SECOND, 4 * SECOND][rng.random_range(0..3)];
    let clients: u32 = rng.random_range(2..=4);
    faults::stop(&mut plan, 0..clients - 1, 0.4, 10..100, &mut rng);
    world.set_faults(plan);

    let in_turns = seed % 4 == 3;
    let run = Run::new(slot, seed);
    let mut simulation = Simulation::new(world.clone());
    let patient = Limits {
        verb_timeout: 9 * SECOND,
        ..limits()
    };
    let kind = ClientKind {
        records: [0, 8][rng.random_range(0..2)],
        ..ClientKind::default()
    };
    let clients: Vec<_> = (0..clients)
        .map(|number| {
            let client = simulation.add_client(HostId(0), patient);
            let (bed, run, seeds) = (bed.clone(), run.clone(), [rng.random(), rng.random()]);
            simulation.spawn(client, async move |endpoint| {
                let table = bed.open(endpoint, kind.records).await;
                let coroutines = (0..).zip(seeds).map(async |(coroutine, seed)| {
                    with!(&table, table => {
                        let caller = run.caller(table, number * 10 + coroutine);
                        churn(caller, KEYS, in_turns, ChaCha8Rng::seed_from_u64(seed)).await;
                    });
                });
                // A turn ends for all operations of an endpoint.
                let width = if in_turns { 1 } else { 2 };
                window(width, coroutines, |_, ()| {}).await;
            });
            client
        })
        .collect();
    run.finish_within(10_000 * SECOND, &mut simulation, &clients);
    look_around_after(100 * SECOND, &world, async |endpoint| {
        let table = bed.open(Rc::clone(&endpoint), 0).await;
        with!(&table, table => {
            run.caller(table, 1_000).look_around(KEYS).await;
            let reused = pages_reused(table).await.unwrap();
            run.count(|tally| tally.moves += reused);
        });
    });
    run.judged(&world)
}

/// Random operations on random keys, with pauses as long as claims have to stand. In between, room
/// is made ahead, or in a turn that is too short for it, so that operations find it half done.
async fn churn<T>(caller: Caller<'_, T>, keys: u64, in_turns: bool, mut rng: ChaCha8Rng)
where
    T: Index + Relocate<Endpoint = AnyEndpoint>,
{
    for turn in 0..24 {
        if in_turns {
            let endpoint = caller.table.endpoint();
            let _limit = endpoint.core().limit_work(endpoint.now() + TURN);
            // Another client may be at it, or a verb fail.
            let _ = match turn % 2 {
                0 => caller.table.admin(Admin::CleanAhead).await.map(drop),
                _ => caller.table.make_room(TURN_RECORD).await.map(drop),
            };
        } else if turn % 8 == 7 {
            let _ = caller.table.admin(Admin::CleanAhead).await;
        }
        let pause = [0, SECOND, 9 * SECOND, TAKEN_AFTER][rng.random_range(0..4)];
        caller.table.endpoint().sleep(pause).await;
        let key = rng.random_range(0..keys);
        let value = caller.slot.fitted(u64::from(caller.client * 32 + turn + 1));
        let op = match rng.random_range(0..10) {
            0..4 => TableOp::Put(value),
            4..5 => TableOp::FindOrPut(value),
            5..6 => TableOp::Update(value),
            6..8 => TableOp::Remove,
            _ => TableOp::Get,
        };
        caller.run(key, op).await;
    }
}

fn seeds_of(slot: Slot) {
    RUNS.judge_all(slot, |total| {
        println!("{} pages used again", total.moves);
        assert!(
            total.moves > total.runs / 2,
            "hardly any cleaning: {total:?}"
        );
        assert!(total.heap_full > total.runs, "{total:?}");
        assert!(total.stopped > total.runs / 4, "{total:?}");
        assert!(total.seen > total.runs, "{total:?}");
    });
}

#[test]
fn histories_of_records_out_of_band() {
    seeds_of(HEAP);
}

#[test]
fn histories_of_inline_records() {
    seeds_of(INLINE);
}

#[test]
fn histories_of_hybrid_slots() {
    seeds_of(HYBRID);
}

#[test]
fn histories_of_race_tables() {
    seeds_of(race::VARIED);
}

/// Records of up to 1,000 bytes.
const LARGE: Slot = Slot {
    value: FieldSize::UpTo(1_000),
    ..HEAP
};
const HEAP_BYTES: u64 = 512 << 10;
/// Keys that the killed clients put and remove.
const CHURNED: u64 = 200;

/// Two clients at a time, or one where a table admits no more, put and remove records in a heap of
/// 512 KiB, and are killed by their verbs; in the end at least 95 % of it can be used, and the
/// counts are right.
fn kills(bed: &Bed, kills: u64) {
    let slot = LARGE;
    let width = if bed.has_one_writer() { 1 } else { 2 };
    // A writer's first verbs find out what there is.
    let most_verbs = if bed.has_one_writer() { 1_000 } else { 300 };
    let key = |number: u64| format!("key {number:06}").into_bytes();
    // How many records of one size a client can put, waiting for claims to be taken over until that
    // brings no more.
    let fill = async |table: &Table| {
        with!(table, table => {
            let (mut put, mut in_vain) = (0, 0);
            while in_vain < 12 {
                match table.put(&key(10_000 + put), &[7; 400]).await {
                    Ok(_) => (put, in_vain) = (put + 1, 0),
                    // Of a table with buckets in the heap, a bucket may be full first.
                    Err(IndexError::HeapFull { .. } | IndexError::Full { .. }) => {
                        in_vain += 1;
                        table.endpoint().sleep(TAKEN_AFTER).await;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            put
        })
    };
    let of_new = Cell::new(0);
    look_around_after(0, &bed.world(1), async |endpoint| {
        of_new.set(fill(&bed.open_to_write(endpoint).await).await);
    });

    let world = bed.world(2);
    let mut simulation = Simulation::new(world.clone());
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let refused = Rc::new(Cell::new(0));
    for _ in 0..kills / width {
        let clients = (0..width).map(|_| simulation.add_client(HostId(0), limits()));
        let clients: Vec<_> = clients.collect();
        let stop = |client: &_| ClientStop {
            client: *client,
            when: FaultTime::AfterVerbs(rng.random_range(10..most_verbs)),
        };
        world.set_faults(FaultPlan {
            client_stops: clients.iter().map(stop).collect(),
            ..FaultPlan::default()
        });
        for client in clients.clone() {
            let (bed, refused, seed) = (bed.clone(), Rc::clone(&refused), rng.random());
            simulation.spawn(client, async move |endpoint| {
                let table = bed.open_to_write(endpoint).await;
                let mut rng = ChaCha8Rng::seed_from_u64(seed);
                loop {
                    let (key, value) = (key(rng.random_range(0..CHURNED)), rng.random());
                    with!(&table, table => match rng.random_bool(0.5) {
                        true => match table.put(&key, &slot.value(value)).await {
                            Err(IndexError::HeapFull { .. } | IndexError::Full { .. }) => {
                                refused.set(refused.get() + 1);
                            }
                            put => drop(put.unwrap()),
                        },
                        false => drop(table.remove(&key).await.unwrap()),
                    });
                }
            });
        }
        simulation.run();
        for client in clients {
            assert!(simulation.endpoint(client).is_stopped(), "it was killed");
        }
    }
    let left = Cell::new((0, 0));
    look_around_after(SECOND, &world, async |endpoint| {
        let table = bed.open_to_write(Rc::clone(&endpoint)).await;
        with!(&table, table => {
            let counted = table.occupancy().await.unwrap();
            let live = IndexExt::survey(table).await.unwrap().live();
            println!("{} entries counted, {live} seen", counted.entries);
            let corrected = table.occupancy().await.unwrap();
            assert_eq!(corrected.entries, live);
            assert!(corrected.used_slots >= live);
        });
        for number in 0..CHURNED {
            with!(&table, table => {
                table.remove(&key(number)).await.unwrap();
            });
        }
        let filled = fill(&table).await;
        let reused = with!(&table, table => pages_reused(table).await.unwrap());
        left.set((filled, reused));
    });
    let (of_new, (again, reused)) = (of_new.get(), left.get());
    println!(
        "{kills} kills: {again} of {of_new} records, {reused} pages used again, {} puts refused",
        refused.get()
    );
    assert!(again * 100 >= of_new * 95, "{again} of {of_new} records");
    assert!(
        reused > 0 || bed.has_one_writer(),
        "without cleaning the heap would not be whole"
    );
}

fn linear() -> Bed {
    Bed::linear(LARGE, 4_096, HEAP_BYTES, 1)
}

fn of_race() -> Bed {
    Bed::race(LARGE, race::Dimensions::fixed(4_096, 8), HEAP_BYTES, 1)
}

/// The bytes of a slot are written once, so a key that comes back goes out of band; where the heap
/// has no room for it, into another slot.
#[test]
fn a_removed_key_of_an_inline_table_comes_back_although_the_heap_is_full() {
    let bed = Bed::linear(INLINE, 64, 512, 1);
    look_around_after(0, &bed.world(1), async |endpoint| {
        let Table::Linear(table) = bed.open(endpoint, 0).await else {
            unreachable!("a linear table");
        };
        let (key, value) = (|number| INLINE.key(number), |number| INLINE.value(number));
        for number in 0..8 {
            assert!(table.put(&key(number), &value(number)).await.unwrap());
        }
        let mut updated = 0;
        while table.update(&key(updated), &value(50)).await.is_ok() {
            updated += 1;
        }
        assert!(updated < 7, "the heap is full");
        for round in 100..105 {
            assert!(table.remove(&key(7)).await.unwrap());
            assert!(table.get(&key(7)).await.unwrap().is_none());
            let new = value(round);
            if round % 2 == 0 {
                assert!(table.put(&key(7), &new).await.unwrap());
            } else {
                assert!(table.find_or_put(&key(7), &new).await.unwrap().is_none());
            }
            let found = table.get(&key(7)).await.unwrap();
            assert_eq!(found.as_deref(), Some(&new[..]));
        }
        let seen = table.survey().await.unwrap();
        assert_eq!((seen.live, seen.dead), (8, 5), "a slot for each time");
        // A key that is there has no other place.
        let full = table.update(&key(7), &value(50)).await;
        assert!(matches!(full, Err(IndexError::HeapFull { .. })), "{full:?}");
    });
}

#[test]
fn what_a_thousand_killed_clients_held_comes_back_in_linear_tables() {
    kills(&linear(), 1_000);
}

#[test]
fn what_a_thousand_killed_clients_held_comes_back_in_race_tables() {
    kills(&of_race(), 1_000);
}

#[test]
fn what_killed_writers_held_comes_back_in_cuckoo_tables() {
    kills(&Bed::cuckoo(LARGE, 4_096, HEAP_BYTES, 1), 100);
    let signatures = Slot {
        kind: SlotKind::Signatures,
        ..LARGE
    };
    kills(&Bed::cuckoo(signatures, 1_024, HEAP_BYTES, 1), 100);
}

#[test]
fn what_killed_writers_held_comes_back_in_duo_tables() {
    kills(&Bed::duo(LARGE, 4_096, HEAP_BYTES, 1), 100);
}

#[test]
#[ignore = "a minute"]
fn what_a_thousand_killed_writers_held_comes_back() {
    kills(&Bed::cuckoo(LARGE, 4_096, HEAP_BYTES, 1), 1_000);
    kills(&Bed::duo(LARGE, 4_096, HEAP_BYTES, 1), 1_000);
}

/// What killed clients held comes back though no client lives for as long as a claim may stand:
/// they count together.
#[test]
fn clients_that_live_for_two_seconds_take_over_together() {
    let bed = Bed::linear(HEAP, 512, 16 << 10, 3);
    let world = bed.world(3);
    // Each leaves a run with one record; a client that ends so gives nothing back.
    let leave_one = |number| {
        let endpoint = world.endpoint(limits());
        Executor::new(Rc::clone(&endpoint)).block_on(async {
            let table = bed.open(endpoint, 0).await;
            with!(&table, table => table.put(&HEAP.key(number), b"a").await.is_ok())
        })
    };
    let filled = (0..200).position(|number| !leave_one(number));
    assert!(filled.is_some(), "the heap is never full");
    let mut lived = 0;
    loop {
        let endpoint = world.endpoint(limits());
        let has_room = Executor::new(Rc::clone(&endpoint)).block_on(async {
            let table = bed.open(Rc::clone(&endpoint), 0).await;
            with!(&table, table => {
                let key = HEAP.key(1_000);
                if table.put(&key, b"b").await.is_ok() {
                    return true;
                }
                endpoint.sleep(SECOND + SECOND / 10).await;
                table.put(&key, b"b").await.is_ok()
            })
        });
        lived += 1;
        if has_room {
            break;
        }
        assert!(lived < 45, "nobody takes over what killed clients held");
    }
    assert!(lived > 25, "{lived}: a claim stands for 30 s");
}

/// Pages that are free beforehand take the next records: none of these has to make room.
fn makes_room_ahead(bed: &Bed) {
    const RECORDS: u64 = 7_000;
    look_around_after(0, &bed.world(1), async |endpoint| {
        let table = bed.open_to_write(endpoint).await;
        with!(&table, table => {
            let mut rng = ChaCha8Rng::seed_from_u64(5);
            let key = |number: u64| format!("key {number:06}").into_bytes();
            for number in 0..RECORDS {
                assert!(table.put(&key(number), &[1; 400]).await.unwrap());
            }
            let counted = || table.endpoint().core().counters.snapshot();
            let mut upkeep_of = async |updates: u32| {
                let before = counted();
                for _ in 0..updates {
                    let key = key(rng.random_range(0..RECORDS));
                    assert!(table.update(&key, &[2; 400]).await.unwrap());
                }
                counted().since(&before).operation(UPKEEP).verbs
            };
            let usual = upkeep_of(15_000).await / 150;
            table.admin(Admin::CleanAhead).await.unwrap();
            let ahead = upkeep_of(100).await;
            println!("verbs of 100 updates: {usual} on average, {ahead} with room made ahead");
            assert!(ahead < usual / 4, "{ahead} of {usual}");
            for number in 0..RECORDS {
                assert!(table.get(&key(number)).await.unwrap().is_some(), "{number}");
            }
        });
    });
}

#[test]
fn room_is_made_ahead_in_linear_tables() {
    makes_room_ahead(&Bed::linear(LARGE, 32_768, 4 << 20, 1));
}

#[test]
fn room_is_made_ahead_in_race_tables() {
    makes_room_ahead(&Bed::race(
        LARGE,
        race::Dimensions::fixed(32_768, 8),
        4 << 20,
        1,
    ));
}
