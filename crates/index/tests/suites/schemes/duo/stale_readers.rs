//! What [`ReaderPromise::BoundedStaleness`] promises, under simulated faults: a reader answers
//! "absent" for no key that has been there for longer than it may lag behind, however often the
//! owner moves it, and however the table grows.

use crate::common::chaos::{Tally, limits, rng_of};
use crate::common::duo::{
    Dimensions, SimTable, VARIED, growing, growing_world, memory_behind, open,
};
use crate::common::from_sim;
use crate::common::seeds::Runs;
use crate::common::{INLINE, Slot, TABLE};
use farslot_fabric::sim::{FaultPlan, HostId, RunEnd, Simulation};
use farslot_fabric::{Endpoint, EndpointExt, Nanos, window};
use farslot_index::duo::{DuoGrowth, DuoLayout, DuoReader, ReaderPromise};
use farslot_index::{Index, IndexError, IndexExt};
use farslot_testbed::AnyEndpoint;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

const RUNS: Runs = Runs {
    module: module_path!(),
    slots: &[INLINE, VARIED],
    seeds: 120,
    run,
};
const LONGEST_RUN: Nanos = 10_000_000_000;

/// What is known of a key besides the table: since when it is certainly there, and not being
/// removed.
type Known = Option<Nanos>;

/// What the clients of a run share.
#[derive(Clone)]
struct Run {
    slot: Slot,
    layout: DuoLayout,
    keys: u64,
    /// How far readers may lag behind.
    most: Nanos,
    known: Rc<RefCell<Vec<Known>>>,
    owner_done: Rc<Cell<bool>>,
    tally: Rc<Cell<Tally>>,
    /// Lookups that needed no round trip.
    for_nothing: Rc<Cell<u64>>,
}

fn run(slot: Slot, seed: u64) -> Tally {
    let mut rng = rng_of(slot, seed);
    let slots = rng.random_range(8..=32);
    let dimensions = Dimensions {
        slots,
        bucket_slots: rng.random_range(1..=2),
        fingerprint_bits: 8,
        longest_path: rng.random_range(2..=6),
        stash: rng.random_range(0..=2),
        readers: true,
    };
    let layout = dimensions.layout(slot, rng.random());
    let growth = DuoGrowth {
        ratio: rng.random_range(2..=3),
        at_load: rng.random_range(0.4..=1.0),
        ..DuoGrowth::from(memory_behind(&layout, 1 << 20))
    };
    let world = growing_world(rng.random(), &growth.memory);
    let growth = rng.random_bool(0.5).then_some(growth);
    world.set_faults(FaultPlan::chaos(seed, rng.random_range(0.0..=1.0)));
    let run = Run {
        slot,
        keys: slots + 2,
        layout,
        most: [5_000, 50_000, 500_000][rng.random_range(0..3)],
        known: Rc::new(RefCell::new(vec![None; slots as usize + 2])),
        owner_done: Rc::default(),
        tally: Rc::default(),
        for_nothing: Rc::default(),
    };
    let mut simulation = Simulation::new(world.clone());
    let owner = simulation.add_client(HostId(0), limits());
    let (own_run, own_seed) = (run.clone(), rng.random::<u64>());
    simulation.spawn(owner, async move |endpoint| {
        let table = match growth {
            Some(growth) => growing(&own_run.layout, endpoint, growth),
            None => open(endpoint, &own_run.layout),
        };
        let coroutines = (0..3).map(|number| {
            own(
                &own_run,
                &table,
                number,
                ChaCha8Rng::seed_from_u64(own_seed ^ number),
            )
        });
        window(3, coroutines, |_, ()| {}).await;
        own_run.owner_done.set(true);
        let mut tally = own_run.tally.get();
        tally.moves += table.work().moved;
        tally.repairs += table.work().buckets_split;
        own_run.tally.set(tally);
    });
    for _ in 0..2 {
        let client = simulation.add_client(HostId(1), limits());
        let (run, rng) = (run.clone(), ChaCha8Rng::seed_from_u64(rng.random()));
        simulation.spawn(client, async move |endpoint| {
            let reader = DuoReader::open(from_sim(endpoint), TABLE, run.layout.clone()).unwrap();
            let most = run.most;
            let reader = reader.promising(ReaderPromise::BoundedStaleness { most });
            read(&run, &reader, rng).await;
        });
    }
    let end = simulation.run_until(LONGEST_RUN);
    assert_eq!(end, RunEnd::Done, "{} {seed}: a client waits", slot.name);
    let mut tally = run.tally.get();
    (tally.runs, tally.digest) = (1, world.digest());
    tally.laborious = run.for_nothing.get();
    tally
}

/// Puts, updates and removes keys that no other coroutine changes; the table is nearly full.
async fn own(run: &Run, table: &SimTable, number: u64, mut rng: ChaCha8Rng) {
    for turn in 0..80 {
        let key = rng.random_range(0..run.keys) / 3 * 3 + number;
        if key >= run.keys {
            continue;
        }
        let bytes = run.slot.key(key);
        let known = |since: Known| run.known.borrow_mut()[key as usize] = since;
        let was_there = run.known.borrow()[key as usize];
        if rng.random_bool(0.2) {
            known(None);
            table.remove(&bytes).await.unwrap();
            continue;
        }
        match table.put(&bytes, &run.slot.value(turn)).await {
            Ok(_) => known(was_there.or(Some(table.now()))),
            Err(IndexError::Full { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Looks keys up until the owner is done, and refreshes the copy of the index now and then.
async fn read(run: &Run, reader: &DuoReader<AnyEndpoint>, mut rng: ChaCha8Rng) {
    let refresh_every = rng.random_range(1..=20);
    while !run.owner_done.get() {
        let endpoint = reader.endpoint();
        endpoint.sleep(rng.random_range(0..3_000)).await;
        if rng.random_range(0..refresh_every) == 0 {
            reader.refresh().await.unwrap();
        }
        let key = rng.random_range(0..run.keys);
        let (started, since) = (endpoint.now(), run.known.borrow()[key as usize]);
        let found = reader.get(&run.slot.key(key)).await.unwrap();
        let mut tally = run.tally.get();
        tally.returned += 1;
        tally.read_beside += u64::from(found.is_some());
        run.tally.set(tally);
        let at_once = endpoint.now() == started;
        run.for_nothing
            .set(run.for_nothing.get() + u64::from(at_once));
        let still = run.known.borrow()[key as usize] == since;
        let long_there = since.is_some_and(|since| since + run.most < started);
        if long_there && still {
            assert!(
                found.is_some(),
                "key {key} is there since {since:?}: {started}"
            );
        }
    }
}

fn seeds_of(slot: Slot) {
    RUNS.judge_all(slot, |total| {
        let runs = total.runs;
        assert!(total.returned > 50 * runs, "{total:?}");
        assert!(total.read_beside > 20 * runs, "{total:?}");
        assert!(total.moves > runs / 2, "{total:?}");
        assert!(total.repairs > runs, "{total:?}");
        assert!(total.laborious > 2 * runs, "{total:?}");
    });
}

#[test]
fn a_seed_is_one_run() {
    RUNS.are_repeatable(5);
}

#[test]
fn inline_records() {
    seeds_of(INLINE);
}

#[test]
fn records_of_many_lengths() {
    seeds_of(VARIED);
}
