//! A client that stops after any of its verbs in the middle of an operation, and the next one: it
//! finds the operation done or not done, and is not held up by it.

use super::Slot;
use super::chaos::{Caller, limits};
use super::faults::stopped;
use super::run::{Run, look_around_after};
use farslot_check::TableOp;
use farslot_fabric::Endpoint;
use farslot_fabric::sim::{FaultPlan, HostId, RunEnd, SimEndpoint, Simulation, World};
use farslot_index::Index;
use std::cell::RefCell;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;

/// The key of the operation that is cut short.
pub const KEY: u64 = 3;

/// What the key has been through when the client comes that stops.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Before {
    Absent,
    Present,
    /// Its value was replaced: an inline slot's is out of band now.
    Replaced,
    Removed,
    /// Other keys have taken its places: whoever puts it has to make room.
    Crowded,
}

/// What the client does that stops, and what the next one does.
#[derive(Clone, Debug)]
pub struct Case {
    pub slot: Slot,
    pub before: Before,
    stopping: TableOp<u64>,
    next: Vec<TableOp<u64>>,
    seed: u64,
}

/// The tables of a test.
pub trait Bed: Clone + 'static {
    type Table: Index + 'static;

    /// A scan meets keys below this one.
    const KEYS: u64;
    /// No operation of the next client takes more.
    const MOST_ROUND_TRIPS: u32;

    /// A world with an empty table.
    fn world(&self, seed: u64) -> World;

    async fn open(&self, endpoint: Rc<SimEndpoint>) -> Self::Table;

    /// Other keys that are there before.
    fn others(&self, before: Before) -> Range<u64>;

    /// What the next client does first.
    async fn look(&self, caller: &Caller<'_, Self::Table>, endpoint: &SimEndpoint);
}

/// Every operation that writes, cut short, with all that may come after it; the last verb takes
/// effect or not, as the seed has it.
pub fn cases(slot: Slot, before: &[Before], seeds: u64) -> impl Iterator<Item = Case> {
    use TableOp::{FindOrPut, Get, Put, Remove, Update};
    let [own, other, last] = [5, 6, 7].map(|number| slot.fitted(number));
    let stopping = [Put(own), FindOrPut(own), Update(own), Remove];
    let next = [
        vec![Get, Put(other), Get, Remove, Get],
        vec![Put(other), Get, Update(last), Get],
        vec![FindOrPut(other), Get, Remove, FindOrPut(last), Get],
        vec![Update(other), Get, FindOrPut(last), Get],
        vec![Remove, Get, Put(other), Get],
    ];
    let mut cases = Vec::new();
    for &before in before {
        for stopping in &stopping {
            for next in &next {
                cases.extend((0..seeds).map(|seed| Case {
                    slot,
                    before,
                    stopping: stopping.clone(),
                    next: next.clone(),
                    seed,
                }));
            }
        }
    }
    cases.into_iter()
}

/// Stops the client after each of its verbs; returns how many it has.
pub fn stops_of<B: Bed>(bed: &B, case: &Case) -> u64 {
    let stopped = |last: &u64| {
        let run = AssertUnwindSafe(|| stops(bed, case, *last));
        std::panic::catch_unwind(run).unwrap_or_else(|panic| {
            eprintln!("{case:?}, stopped after verb {last}");
            std::panic::resume_unwind(panic)
        })
    };
    (0..1_000).take_while(stopped).count() as u64
}

/// Stops the first client with its verb number `last`; returns whether it had one.
fn stops<B: Bed>(bed: &B, case: &Case, last: u64) -> bool {
    let world = bed.world(case.seed);
    let run = Run::new(case.slot, case.seed);
    let mut simulation = Simulation::new(world.clone());
    let client = simulation.add_client(HostId(0), limits());
    let table = Rc::new(RefCell::new(None));

    let (to_fill, its, before) = (bed.clone(), run.clone(), case.before);
    let place = Rc::clone(&table);
    simulation.spawn(client, async move |endpoint| {
        let table = to_fill.open(endpoint).await;
        fill(&its.caller(&table, 0), to_fill.others(before), before).await;
        place.replace(Some(table));
    });
    assert_eq!(simulation.run(), RunEnd::Done);

    world.set_faults(FaultPlan {
        client_stops: vec![stopped(client, last)],
        ..FaultPlan::default()
    });
    let (its, stopping) = (run.clone(), case.stopping.clone());
    simulation.spawn(client, async move |_| {
        let table = table.take().unwrap();
        its.caller(&table, 0).run(KEY, stopping).await;
    });
    assert_eq!(simulation.run(), RunEnd::Done);

    // The verbs of the dead are still under way, or have arrived long since.
    let waits = if case.seed.is_multiple_of(2) {
        1_000_000
    } else {
        0
    };
    look_around_after(waits, &world, async |endpoint| {
        let table = bed.open(Rc::clone(&endpoint)).await;
        let caller = run.caller(&table, 1);
        bed.look(&caller, &endpoint).await;
        for op in &case.next {
            caller.run(KEY, op.clone()).await;
        }
        caller.scan(B::KEYS).await;
        for other in bed.others(Before::Crowded) {
            caller.run(other, TableOp::Get).await;
        }
        let classes = endpoint.core().counters.snapshot().operations;
        let most = classes.iter().map(|class| class.most_round_trips).max();
        assert!(most <= Some(B::MOST_ROUND_TRIPS), "{most:?} round trips");
    });
    assert_eq!(run.tally.get().full, 0, "there is room");
    run.judged(&world);
    simulation.endpoint(client).is_stopped()
}

/// Puts the other keys, and brings the key into its state.
async fn fill<T: Index>(caller: &Caller<'_, T>, others: Range<u64>, before: Before) {
    let value = |number| caller.slot.fitted(number);
    for other in others {
        caller.run(other, TableOp::Put(value(90 + other))).await;
    }
    if !matches!(before, Before::Absent | Before::Crowded) {
        caller.run(KEY, TableOp::Put(value(1))).await;
    }
    match before {
        Before::Absent | Before::Present | Before::Crowded => {}
        Before::Replaced => caller.run(KEY, TableOp::Put(value(2))).await,
        Before::Removed => caller.run(KEY, TableOp::Remove).await,
    }
}
