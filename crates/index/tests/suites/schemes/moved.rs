//! A scan that is cut off and goes on later, by another client, in a table in which insertions move
//! records: [`Admin::Moves`] tells whether it may go on. Where it may, each record that was there
//! all along is met, whatever the writers in between have done and wherever they have died; once,
//! unless one died that had copied it to another place.

use crate::common::chaos::limits;
use crate::common::faults;
use crate::common::{INLINE, Slot, TABLE, from_sim};
use farslot_fabric::sim::{FaultPlan, HostId, NicProfile, RunEnd, SimEndpoint, Simulation, World};
use farslot_fabric::{Nanos, Rights};
use farslot_index::cuckoo::{CuckooLayout, CuckooOptions, CuckooTable, LookupOrder};
use farslot_index::duo::{DuoLayout, DuoOptions, DuoTable};
use farslot_index::{
    AnyIndex, Cursor, FieldSize, IndexError, IndexExt, Result, Sizing, SlotKind, WriterChange,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeSet;
use std::rc::Rc;

/// So long that a piece of a scan has few of them.
const LONG: Slot = Slot {
    name: "long",
    value: FieldSize::Fixed(1_000),
    ..INLINE
};
const SLOTS: u64 = 256;
/// Keys that are there at first, and all that there ever are.
const FIRST: u64 = 215;
const ALL: u64 = 245;
const LONGEST_RUN: Nanos = 60_000_000_000;

/// A table in which records move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Cuckoo,
    Duo,
    /// CuckooDuo, which grows when it is a little fuller than at first.
    Growing,
}

#[derive(Clone)]
enum Layout {
    Cuckoo(CuckooLayout),
    Duo(DuoLayout),
}

impl Layout {
    fn new(kind: Kind, seed: u64) -> Self {
        let sizing = |capacity| Sizing {
            load_factor: Some(1.0),
            ..Sizing::new(capacity, LONG.key, LONG.value, seed)
        };
        match kind {
            Kind::Cuckoo => {
                let options = CuckooOptions {
                    slot: Some(SlotKind::Inline),
                    ways: 2,
                    ..CuckooOptions::new(sizing(SLOTS))
                };
                Self::Cuckoo(options.layout().unwrap())
            }
            Kind::Duo | Kind::Growing => {
                let grows = kind == Kind::Growing;
                let options = DuoOptions {
                    slot: SlotKind::Inline,
                    bucket_slots: 4,
                    stash: 8,
                    most_capacity: grows.then_some(2 * SLOTS),
                    ..DuoOptions::new(sizing(SLOTS))
                };
                Self::Duo(options.layout().unwrap())
            }
        }
    }

    fn world(&self, seed: u64) -> World {
        let bytes = match self {
            Self::Cuckoo(layout) => layout.table_bytes(),
            Self::Duo(layout) => layout.table_bytes(),
        };
        let world = World::new(seed, NicProfile::connectx5_edr());
        let bytes = TABLE.offset + u64::try_from(bytes).unwrap();
        world.add_node(&[(bytes, Rights::ALL)]);
        world
    }

    async fn open(&self, endpoint: Rc<SimEndpoint>) -> Result<AnyIndex> {
        let endpoint = from_sim(endpoint);
        match self.clone() {
            Self::Cuckoo(layout) => {
                let order = LookupOrder::Parallel;
                let table = CuckooTable::open(endpoint, TABLE, layout, order).await?;
                Ok(Rc::new(table))
            }
            Self::Duo(layout) => Ok(Rc::new(DuoTable::open(endpoint, TABLE, layout)?)),
        }
    }
}

/// A scan that was cut off.
struct CutOff {
    moves: u64,
    /// The numbers of the keys that were met.
    met: Vec<u64>,
    cursor: Option<Cursor>,
}

fn number_of(key: &[u8], value: &[u8]) -> u64 {
    let number = u64::from(*key.last().unwrap());
    assert_eq!(key, LONG.key(number));
    assert_eq!(value, LONG.value(LONG.number(value)), "torn");
    number
}

/// Fills the table, and begins to scan it.
async fn begin(layout: Layout, endpoint: Rc<SimEndpoint>, seed: u64) -> CutOff {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let table = layout.open(endpoint).await.unwrap();
    for number in 0..FIRST {
        let put = table.put(&LONG.key(number), &LONG.value(number)).await;
        put.unwrap();
    }
    let moves = table.moves().await.unwrap();
    let (mut met, mut cursor) = (Vec::new(), Some(Cursor(0)));
    for _ in 0..rng.random_range(1..4) {
        let mut visit = |key: &[u8], value: &[u8]| met.push(number_of(key, value));
        let most = rng.random_range(1..80);
        cursor = table.scan(cursor.unwrap(), most, &mut visit).await.unwrap();
    }
    assert!(cursor.is_some(), "it has more pieces");
    // Else as one that was killed.
    if seed.is_multiple_of(2) {
        table.change_writer(WriterChange::Resign).await.unwrap();
    }
    CutOff { moves, met, cursor }
}

/// Writes, until something goes wrong or the client is stopped. A quiet writer puts no new keys.
/// Notes which keys may have been removed before it removes them.
async fn write(
    layout: Layout,
    endpoint: Rc<SimEndpoint>,
    seed: u64,
    gone: Rc<std::cell::RefCell<BTreeSet<u64>>>,
) -> Result<()> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let is_quiet = rng.random_bool(0.4);
    let table = layout.open(endpoint).await?;
    table.change_writer(WriterChange::TakeOver).await?;
    for turn in 0..rng.random_range(1..30) {
        let number = rng.random_range(0..FIRST);
        let written = match rng.random_range(0..4) {
            0 => {
                gone.borrow_mut().insert(number);
                table.remove(&LONG.key(number)).await.map(drop)
            }
            1 | 2 if !is_quiet => {
                let number = rng.random_range(FIRST..ALL);
                let put = table.put(&LONG.key(number), &LONG.value(number)).await;
                put.map(drop)
            }
            _ => {
                let (key, value) = (LONG.key(number), LONG.value(1_000 + turn));
                table.update(&key, &value).await.map(drop)
            }
        };
        match written {
            Err(IndexError::Full { .. } | IndexError::HeapFull { .. }) => {}
            other => other?,
        }
    }
    table.change_writer(WriterChange::Resign).await
}

/// Goes on from where the scan was cut off; returns whether it may, and the keys that it has met.
async fn go_on(layout: Layout, endpoint: Rc<SimEndpoint>, cut_off: CutOff) -> (bool, Vec<u64>) {
    let table = layout.open(endpoint).await.unwrap();
    table.change_writer(WriterChange::TakeOver).await.unwrap();
    let CutOff {
        moves,
        mut met,
        mut cursor,
    } = cut_off;
    let may = table.moves().await.unwrap() == moves;
    while let Some(from) = cursor {
        let mut visit = |key: &[u8], value: &[u8]| met.push(number_of(key, value));
        cursor = table.scan(from, 40, &mut visit).await.unwrap();
    }
    (may, met)
}

#[derive(Default, Debug)]
struct Tally {
    /// Scans that went on, and those of them behind a writer that failed or died.
    continued: u64,
    behind_failures: u64,
    /// Scans that must not go on, and those of them that would have missed a key, or met one twice.
    moved: u64,
    wrong: u64,
}

fn run(simulation: &mut Simulation, seed: u64) {
    let end = simulation.run_until(LONGEST_RUN);
    assert_eq!(end, RunEnd::Done, "seed {seed}: a client waits");
}

fn judge(kind: Kind, seed: u64, tally: &mut Tally) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let layout = Layout::new(kind, seed);
    let world = layout.world(seed);
    let mut simulation = Simulation::new(world.clone());
    let of = layout.clone();
    let begun = simulation.spawn_client(async move |endpoint| begin(of, endpoint, seed).await);
    run(&mut simulation, seed);
    let cut_off = begun.try_take().unwrap();
    let gone = Rc::new(std::cell::RefCell::new(BTreeSet::new()));
    let mut failed = false;
    for _ in 0..rng.random_range(1..3) {
        let writer = simulation.add_client(HostId(0), limits());
        let mut plan = FaultPlan::chaos(rng.random(), rng.random_range(0.0..=1.0));
        if rng.random_bool(0.6) {
            plan.client_stops
                .push(faults::stopped(writer, rng.random_range(1..120)));
        }
        world.set_faults(plan);
        let (of, noted, seed) = (layout.clone(), Rc::clone(&gone), rng.random());
        let written = simulation.spawn(writer, async move |endpoint| {
            write(of, endpoint, seed, noted).await
        });
        run(&mut simulation, seed);
        match written.try_take() {
            Some(Ok(())) => {}
            // The next one takes over from it.
            None => failed = true,
            Some(Err(error)) => {
                assert!(error.may_have_taken_effect(), "{kind:?} {seed}: {error}");
                failed = true;
            }
        }
    }
    world.set_faults(FaultPlan::default());
    let scanned =
        simulation.spawn_client(async move |endpoint| go_on(layout, endpoint, cut_off).await);
    run(&mut simulation, seed);
    let (may, met) = scanned.try_take().unwrap();
    let stayed = (0..FIRST).filter(|number| !gone.borrow().contains(number));
    // A cuckoo writer that died may have left a record in two places.
    let most = if failed && kind == Kind::Cuckoo { 2 } else { 1 };
    let is_right = stayed
        .map(|number| met.iter().filter(|met| **met == number).count())
        .all(|times| (1..=most).contains(&times));
    if may {
        assert!(
            is_right,
            "{kind:?} {seed}: a key was missed, or met too often"
        );
        tally.continued += 1;
        tally.behind_failures += u64::from(failed);
    } else {
        tally.moved += 1;
        tally.wrong += u64::from(!is_right);
    }
}

#[test]
fn a_scan_that_was_cut_off_goes_on_where_no_record_has_moved() {
    for kind in [Kind::Cuckoo, Kind::Duo, Kind::Growing] {
        let mut tally = Tally::default();
        for seed in 0..60 {
            judge(kind, seed, &mut tally);
        }
        println!("{kind:?}: {tally:?}");
        assert!(
            tally.continued > 5 && tally.behind_failures > 1,
            "{kind:?}: {tally:?}"
        );
        assert!(tally.moved > 10, "{kind:?}: {tally:?}");
        // What it is for.
        assert!(tally.wrong > 0, "{kind:?}: {tally:?}");
    }
}
