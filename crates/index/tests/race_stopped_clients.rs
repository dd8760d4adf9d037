//! A client of a RACE table that stops after any of its verbs, in the middle of a split too, leaves nothing
//! that holds others up: the next client finds the operation done or not done, and finishes what it meets.

#![cfg(not(feature = "broken-insert"))]

mod common;

use common::Slot;
use common::chaos::{Caller, Record, Tally, limits};
use common::race::{Dimensions, SHORT, VARIED, open, world};
use farslot_check::{RegisterMap, TableOp, check};
use farslot_fabric::sim::{ClientStop, FaultPlan, HostId, RunEnd, Simulation, When};
use farslot_fabric::{Endpoint, Executor};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

const KEY: u64 = 3;
/// Keys that may be there besides.
const OTHERS: std::ops::Range<u64> = 10..13;
/// No operation of a client that meets another's half-done one takes more round trips, the split of a subtable
/// of three slots included.
const MOST_ROUND_TRIPS: u32 = 40;

/// What the key has been through when the client comes that stops.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Before {
    Absent,
    Present,
    Replaced,
    Removed,
    /// Other keys have taken its slots: who puts it has to split the subtable.
    Crowded,
}

/// What the client does that stops, and what the next one does.
#[derive(Clone, Debug)]
struct Case {
    slot: Slot,
    before: Before,
    stopping: TableOp<u64>,
    next: Vec<TableOp<u64>>,
    seed: u64,
}

/// What the stops of all cases have left, so that none of it is vacuous.
#[derive(Default)]
struct Left {
    stops: Cell<u64>,
    begun: Cell<u64>,
    behind: Cell<u64>,
    moving: Cell<u64>,
}

fn add(to: &Cell<u64>, more: u64) {
    to.set(to.get() + more);
}

/// Stops the first client with its verb number `last`; returns whether it had one.
fn stops(case: &Case, last: u64, left: &Left) -> bool {
    let slot = case.slot;
    let dimensions = Dimensions {
        bucket_slots: 1,
        groups: 1,
        roots: 1,
        most_subtables: 12,
    };
    let layout = dimensions.layout(slot, 17, None);
    let world = world(case.seed, &layout);
    let record = Record::new();
    let tally = Rc::new(Cell::new(Tally::default()));
    let mut simulation = Simulation::new(world.clone());
    let client = simulation.add_client(HostId(0), limits());

    let table = Rc::new(RefCell::new(None));
    let (place, history, counts) = (Rc::clone(&table), record.clone(), Rc::clone(&tally));
    let before = case.before;
    let of_layout = layout.clone();
    simulation.spawn(client, async move |endpoint| {
        let table = open(endpoint, &of_layout).await;
        let caller = Caller {
            table: &table,
            slot,
            record: &history,
            tally: &counts,
            client: 0,
        };
        let others = if before == Before::Crowded {
            OTHERS
        } else {
            10..11
        };
        for other in others {
            caller
                .run(other, TableOp::Put(slot.fitted(90 + other)))
                .await;
        }
        if !matches!(before, Before::Absent | Before::Crowded) {
            caller.run(KEY, TableOp::Put(slot.fitted(1))).await;
        }
        match before {
            Before::Absent | Before::Present | Before::Crowded => {}
            Before::Replaced => caller.run(KEY, TableOp::Put(slot.fitted(2))).await,
            Before::Removed => caller.run(KEY, TableOp::Remove).await,
        }
        place.replace(Some(table));
    });
    assert_eq!(simulation.run(), RunEnd::Done);

    world.set_faults(FaultPlan {
        client_stops: vec![ClientStop {
            client,
            when: When::AfterVerbs(last),
        }],
        ..FaultPlan::default()
    });
    let (history, counts) = (record.clone(), Rc::clone(&tally));
    let stopping = case.stopping.clone();
    simulation.spawn(client, async move |_| {
        let table = table.take().unwrap();
        let caller = Caller {
            table: &table,
            slot,
            record: &history,
            tally: &counts,
            client: 0,
        };
        caller.run(KEY, stopping).await;
    });
    assert_eq!(simulation.run(), RunEnd::Done);
    let stopped = simulation.endpoint(client).is_stopped();

    // The verbs of the dead are still under way, or have arrived long since.
    world.set_faults(FaultPlan::default());
    if case.seed.is_multiple_of(2) {
        world.advance_to(world.now() + 1_000_000);
    }
    let endpoint = world.endpoint(limits());
    let executor = Executor::new(Rc::clone(&endpoint));
    executor.block_on(async {
        let table = open(Rc::clone(&endpoint), &layout).await;
        let survey = table.survey().await.unwrap();
        add(&left.begun, survey.begun);
        add(&left.behind, survey.behind);
        add(&left.moving, survey.moving);
        let caller = Caller {
            table: &table,
            slot,
            record: &record,
            tally: &tally,
            client: 1,
        };
        for op in &case.next {
            caller.run(KEY, op.clone()).await;
        }
        caller.scan(13).await;
        for other in OTHERS {
            caller.run(other, TableOp::Get).await;
        }
    });
    assert_eq!(tally.get().full, 0, "there is room to grow");
    let counters = endpoint.core().counters.snapshot().operations;
    let most = counters.iter().map(|class| class.most_round_trips).max();
    assert!(most <= Some(MOST_ROUND_TRIPS), "{most:?} round trips");
    if let Err(error) = check(&record.take(), &RegisterMap::new()) {
        panic!("{error}");
    }
    stopped
}

#[test]
fn a_client_may_stop_after_any_verb_of_any_protocol() {
    use TableOp::{FindOrPut, Get, Put, Remove, Update};
    let left = Left::default();
    for slot in [VARIED, SHORT] {
        let [own, other, last] = [5, 6, 7].map(|number| slot.fitted(number));
        let stopping = [Put(own), FindOrPut(own), Update(own), Remove];
        let next = [
            vec![Get, Put(other), Get, Remove, Get],
            vec![Put(other), Get, Update(last), Get],
            vec![FindOrPut(other), Get, Remove, FindOrPut(last), Get],
            vec![Update(other), Get, FindOrPut(last), Get],
            vec![Remove, Get, Put(other), Get],
        ];
        for before in [
            Before::Absent,
            Before::Present,
            Before::Replaced,
            Before::Removed,
            Before::Crowded,
        ] {
            for (stopping, next) in stopping
                .iter()
                .flat_map(|op| next.iter().map(move |next| (op, next)))
            {
                // The last verb takes effect or not, as the seed has it.
                for seed in 0..4 {
                    let case = Case {
                        slot,
                        before,
                        stopping: stopping.clone(),
                        next: next.clone(),
                        seed,
                    };
                    stops_of(&case, &left);
                }
            }
        }
    }
    let Left {
        stops,
        begun,
        behind,
        moving,
    } = &left;
    println!("{stops:?} stops left {begun:?} begun, {behind:?} behind, {moving:?} moving");
    assert!(stops.get() > 3_000);
    assert!(begun.get() > 100 && behind.get() > 1_000 && moving.get() > 100);
}

/// Stops the client after each of its verbs.
fn stops_of(case: &Case, left: &Left) {
    let stopped = |last: &u64| {
        let run = std::panic::AssertUnwindSafe(|| stops(case, *last, left));
        std::panic::catch_unwind(run).unwrap_or_else(|panic| {
            eprintln!("{case:?}, stopped after verb {last}");
            std::panic::resume_unwind(panic)
        })
    };
    add(&left.stops, (0..1_000).take_while(stopped).count() as u64);
}
