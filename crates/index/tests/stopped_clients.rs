//! A client that stops after any of its verbs leaves nothing to be repaired: the next client finds
//! the operation done or not done, and is not held up by it.

#![cfg(not(feature = "broken-insert"))]

mod common;

use common::chaos::{Caller, Record, Tally, limits, open, world};
use common::{HEAP, HYBRID, HYBRID_SHORT, INLINE, PAIR, PAIR_SET, Reads, Slot, WORD, WORD_SET};
use farslot_check::{RegisterMap, TableOp, check};
use farslot_fabric::sim::{ClientStop, FaultPlan, HostId, RunEnd, Simulation, When};
use farslot_fabric::{Endpoint, Executor};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Of the records here, long hybrid slots hold some, and short ones all.
const SLOTS: [Slot; 8] = [
    WORD_SET,
    WORD,
    PAIR,
    PAIR_SET,
    INLINE,
    HEAP,
    HYBRID,
    HYBRID_SHORT,
];
const KEY: u64 = 3;

/// No operation of a client that meets another's half-done one takes more round trips.
const MOST_ROUND_TRIPS: u32 = 6;

/// What the key has been through when the client comes that stops.
#[derive(Clone, Copy, Debug)]
enum Before {
    Absent,
    Present,
    /// Its value was replaced: an inline slot's is out of band now.
    Replaced,
    Removed,
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

/// Stops the first client with its verb number `last`; returns whether it had one.
fn stops(case: &Case, last: u64) -> bool {
    let slot = case.slot;
    let layout = slot.options(8, 17).layout().unwrap();
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
        let table = open(endpoint, &of_layout, Reads::fixed(4)).await;
        let caller = Caller {
            table: &table,
            slot,
            record: &history,
            tally: &counts,
            client: 0,
        };
        caller.run(KEY + 1, TableOp::Put(slot.fitted(99))).await;
        if !matches!(before, Before::Absent) {
            caller.run(KEY, TableOp::Put(slot.fitted(1))).await;
        }
        match before {
            Before::Absent | Before::Present => {}
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
        let table = open(Rc::clone(&endpoint), &layout, Reads::fixed(4)).await;
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
        caller.scan(8).await;
        caller.run(KEY + 1, TableOp::Get).await;
    });
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
    let mut stopped = 0;
    for slot in SLOTS {
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
        ] {
            for (stopping, next) in stopping
                .iter()
                .flat_map(|op| next.iter().map(move |next| (op, next)))
            {
                // The last verb takes effect or not, as the seed has it.
                for seed in 0..8 {
                    let case = Case {
                        slot,
                        before,
                        stopping: stopping.clone(),
                        next: next.clone(),
                        seed,
                    };
                    stopped += stops_of(&case);
                }
            }
        }
    }
    println!("{stopped} stops");
    assert!(stopped > 10_000);
}

/// Stops the client after each of its verbs; returns how many it has.
fn stops_of(case: &Case) -> u64 {
    let stopped = |last: &u64| {
        let run = std::panic::AssertUnwindSafe(|| stops(case, *last));
        std::panic::catch_unwind(run).unwrap_or_else(|panic| {
            eprintln!("{case:?}, stopped after verb {last}");
            std::panic::resume_unwind(panic)
        })
    };
    (0..1_000).take_while(stopped).count() as u64
}
