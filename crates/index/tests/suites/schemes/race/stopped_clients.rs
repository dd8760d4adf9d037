//! A client of a RACE table that stops after any of its verbs, in the middle of a split too, leaves
//! nothing that holds others up: the next client finds the operation done or not done, and finishes
//! what it meets.

use crate::common::chaos::Caller;
use crate::common::race::{Dimensions, SHORT, SimTable, VARIED, open, world};
use crate::common::stopped::{Bed, Before, KEY, cases, stops_of};
use farslot_check::TableOp;
use farslot_fabric::sim::{SimEndpoint, World};
use farslot_fabric::{Endpoint, VerbKind};
use farslot_index::race::RaceLayout;
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

/// What the stops of all cases have left, so that none of it is vacuous.
#[derive(Default)]
struct Left {
    begun: Cell<u64>,
    behind: Cell<u64>,
    moving: Cell<u64>,
}

fn add(to: &Cell<u64>, more: u64) {
    to.set(to.get() + more);
}

/// Tables that begin with one subtable of three slots.
#[derive(Clone)]
struct Race {
    layout: RaceLayout,
    left: Rc<Left>,
}

impl Bed for Race {
    type Table = SimTable;

    const KEYS: u64 = 13;
    /// The split of a subtable of three slots included.
    const MOST_ROUND_TRIPS: u32 = 40;

    fn world(&self, seed: u64) -> World {
        world(seed, &self.layout)
    }

    async fn open(&self, endpoint: Rc<SimEndpoint>) -> SimTable {
        open(endpoint, &self.layout).await
    }

    /// As many as crowd a subtable, or one.
    fn others(&self, before: Before) -> Range<u64> {
        match before {
            Before::Crowded => 10..13,
            _ => 10..11,
        }
    }

    async fn look(&self, caller: &Caller<'_, SimTable>, endpoint: &SimEndpoint) {
        let survey = caller.table.survey().await.unwrap();
        add(&self.left.begun, survey.begun);
        add(&self.left.behind, survey.behind);
        add(&self.left.moving, survey.moving);
        for key in self.others(Before::Crowded).chain([KEY]) {
            caller.run(key, TableOp::Get).await;
        }
        caller.scan(Self::KEYS).await;
        let counters = endpoint.core().counters.snapshot();
        let all = counters.verbs.iter().sum::<u64>();
        assert_eq!(
            counters.verbs_of(VerbKind::Read),
            all,
            "who looks writes nothing"
        );
    }
}

#[test]
fn a_client_may_stop_after_any_verb_of_any_protocol() {
    let dimensions = Dimensions {
        bucket_slots: 1,
        groups: 1,
        roots: 1,
        most_subtables: 12,
    };
    let before = [
        Before::Absent,
        Before::Present,
        Before::Replaced,
        Before::Removed,
        Before::Crowded,
    ];
    let left = Rc::new(Left::default());
    let mut stops = 0;
    for slot in [VARIED, SHORT] {
        let bed = Race {
            layout: dimensions.layout(slot, 17, None),
            left: Rc::clone(&left),
        };
        for case in cases(slot, &before, 4) {
            stops += stops_of(&bed, &case);
        }
    }
    let Left {
        begun,
        behind,
        moving,
    } = &*left;
    println!("{stops} stops left {begun:?} begun, {behind:?} behind, {moving:?} moving");
    assert!(stops > 3_000);
    assert!(begun.get() > 100 && behind.get() > 1_000 && moving.get() > 100);
}
