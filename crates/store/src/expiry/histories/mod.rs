//! Histories of tables whose records end, under the simulator's faults: several clients, words that
//! are torn and late, verbs that are lost, and a clock that jumps between any two verbs. One seed
//! fixes all of a run, and it is the clients' one clock.

mod clients;
mod mapped;
mod model;

use super::broken::{self, ExpiryBreach};
use crate::shapes::RaceShape;
use crate::turns::TurnSchedule;
use crate::{FieldSize, SlotKind, Store, TableOptions};
use clients::{Client, KEYS, Record, STEPS};
use farslot_check::{CheckError, RegisterMap, check};
use farslot_fabric::NodeId;
use farslot_fabric::sim::{FaultPlan, HostId, Partition, Side};
use model::EndingMap;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const CLIENTS: usize = 4;

/// What a run has come to.
struct RunOutcome {
    judged: Result<(), CheckError>,
    /// All operations, with what became of each, and when.
    history: String,
}

pub(crate) fn seeds(many: u64) -> std::ops::Range<u64> {
    let number = |name| {
        let text = std::env::var(name).ok()?;
        Some(text.parse::<u64>().expect("a number"))
    };
    match number("FARSLOT_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("FARSLOT_SEEDS").unwrap_or(many),
    }
}

/// Bytes of a heap in which records soon have to go that have ended, for others to have room.
const TIGHT: u64 = 2 << 10;

/// Seeds from here on are of runs in which the heap is full of records that end soon.
const TIGHT_FROM: u64 = 1 << 32;

/// So many of those.
fn tight_seeds(many: u64) -> std::ops::Range<u64> {
    let seeds = seeds(many);
    match seeds.start >= TIGHT_FROM {
        true => seeds,
        false => seeds.start + TIGHT_FROM..seeds.end + TIGHT_FROM,
    }
}

const fn is_tight(seed: u64) -> bool {
    seed >= TIGHT_FROM
}

/// Tables of all kinds whose records can end.
fn options(seed: u64) -> TableOptions {
    let sized = || {
        let sized = TableOptions::new(64).keys(FieldSize::Fixed(8));
        sized.values(FieldSize::Fixed(8)).expiring(true)
    };
    match seed % 4 {
        0 | 1 if is_tight(seed) => sized().slots(SlotKind::Heap).heap_bytes(TIGHT),
        _ if is_tight(seed) => sized().race(RaceShape::default()).heap_bytes(TIGHT),
        0 => TableOptions::default(),
        1 => sized(),
        2 => sized().slots(SlotKind::Heap),
        _ => sized().race(RaceShape::default()),
    }
}

/// What goes wrong; some runs lose verbs, which are given up later.
fn faults(seed: u64, now: u64, rng: &mut ChaCha8Rng) -> FaultPlan {
    let mut plan = FaultPlan::chaos(seed, rng.random_range(0.0..=1.0));
    if rng.random_bool(0.2) {
        let from = now + rng.random_range(0..20_000_000);
        plan.partitions.push(Partition {
            side: Side::Host(HostId(0)),
            node: NodeId(0),
            from,
            until: from + rng.random_range(0..20_000),
        });
    }
    plan
}

fn run(seed: u64, breach: Option<ExpiryBreach>) -> RunOutcome {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let store = Store::open(&format!("sim://cx5-edr?seed={seed}&memory=4MiB")).unwrap();
    store.create("t", &options(seed)).unwrap();
    let world = store.sim_world().unwrap().clone();
    world.set_faults(faults(seed, world.now(), &mut rng));
    let turns = TurnSchedule::new(seed, CLIENTS, world.clone());
    let record = {
        let world = world.clone();
        Record::new(move || world.now())
    };
    std::thread::scope(|scope| {
        for thread in 0..CLIENTS {
            let (turns, record, store) = (&turns, &record, &store);
            scope.spawn(move || {
                turns.run(thread, || {
                    use_table(thread as u64, seed, record, store, breach)
                });
            });
        }
    });
    // When all is over, one that knows nothing looks around.
    world.set_faults(FaultPlan::default());
    look_around(&record, &store);
    judge(record)
}

/// One that knows nothing looks at every key.
fn look_around(record: &Record, store: &Store) {
    let last = Client::open(CLIENTS as u32, record, store);
    (0..KEYS).for_each(|key| last.get(key, false));
}

fn judge(record: Record) -> RunOutcome {
    let history = record.with_ends();
    let judged = check(&history, &EndingMap(RegisterMap::new()));
    RunOutcome {
        judged: judged.map(drop),
        history: format!("{:?}", history.entries()),
    }
}

/// What a client does, broken or not.
fn use_table(number: u64, seed: u64, record: &Record, store: &Store, breach: Option<ExpiryBreach>) {
    broken::set(breach);
    let mut rng = ChaCha8Rng::seed_from_u64(seed << 8 | number);
    let mut client = Client::open(number as u32, record, store);
    for step in 0..STEPS {
        let new = u64::from(step) * CLIENTS as u64 + number;
        if is_tight(seed) {
            client.fill(new);
        }
        client.step(new, &mut rng);
    }
}

#[test]
fn operations_are_linearizable_while_records_end() {
    for seed in seeds(150) {
        if let Err(error) = run(seed, None).judged {
            panic!(
                "FARSLOT_SEED={seed} cargo test -p farslot --lib \
                 operations_are_linearizable_while_records_end\n{error}"
            );
        }
    }
}

#[test]
fn operations_are_linearizable_where_what_has_ended_makes_room() {
    for seed in tight_seeds(60) {
        if let Err(error) = run(seed, None).judged {
            panic!(
                "FARSLOT_SEED={seed} cargo test -p farslot --lib \
                 histories::operations_are_linearizable_where_what_has_ended_makes_room\n{error}"
            );
        }
    }
}

#[test]
fn a_seed_fixes_all_that_happens() {
    for seed in seeds(8) {
        let again = run(seed, None).history;
        assert_eq!(run(seed, None).history, again, "seed {seed}");
    }
}

/// As a violation, and not because it was not decided. Seeds are tried from not far before one that
/// finds it today.
fn is_found(breach: ExpiryBreach, from: u64) -> bool {
    is_found_by(run, breach, from..from + 2_000)
}

fn is_found_by(
    run: fn(u64, Option<ExpiryBreach>) -> RunOutcome,
    breach: ExpiryBreach,
    mut seeds: std::ops::Range<u64>,
) -> bool {
    seeds.any(|seed| {
        let judged = run(seed, Some(breach)).judged;
        judged.is_err_and(|error| error.violation().is_some())
    })
}

#[test]
fn a_clock_that_is_read_after_the_record_is_found() {
    assert!(is_found(ExpiryBreach::LateClock, 740));
}

#[test]
fn a_longer_life_by_one_swap_is_found() {
    assert!(is_found(ExpiryBreach::NoMark, 0));
}

#[test]
fn a_second_swap_without_a_look_at_the_clock_is_found() {
    assert!(is_found(ExpiryBreach::NoSecondLook, 60));
}

#[test]
fn a_mark_that_nobody_cancels_is_found() {
    assert!(is_found(ExpiryBreach::NoCancel, 520));
}
