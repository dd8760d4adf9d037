//! A client that stops after any of its verbs leaves nothing to be repaired: the next client finds
//! the operation done or not done, and is not held up by it.

use crate::common::chaos::{Caller, open, world};
use crate::common::from_sim;
use crate::common::stopped::{Bed, Before, KEY, cases, stops_of};
use crate::common::{
    HEAP, HYBRID, HYBRID_SHORT, INLINE, PAIR, PAIR_SET, Reads, Slot, WORD, WORD_SET,
};
use farslot_fabric::sim::{SimEndpoint, World};
use farslot_index::linear::{LinearLayout, LinearTable};
use farslot_testbed::AnyEndpoint;
use std::ops::Range;
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

/// Tables of 8 slots.
#[derive(Clone)]
struct Linear(LinearLayout);

impl Bed for Linear {
    type Table = LinearTable<AnyEndpoint>;

    const KEYS: u64 = 8;
    const MOST_ROUND_TRIPS: u32 = 10;

    fn world(&self, seed: u64) -> World {
        world(seed, &self.0)
    }

    async fn open(&self, endpoint: Rc<SimEndpoint>) -> Self::Table {
        open(from_sim(endpoint), &self.0, Reads::fixed(4)).await
    }

    fn others(&self, _: Before) -> Range<u64> {
        KEY + 1..KEY + 2
    }

    async fn look(&self, _: &Caller<'_, Self::Table>, _: &SimEndpoint) {}
}

#[test]
fn a_client_may_stop_after_any_verb_of_any_protocol() {
    let before = [
        Before::Absent,
        Before::Present,
        Before::Replaced,
        Before::Removed,
    ];
    let mut stopped = 0;
    for slot in SLOTS {
        let bed = Linear(slot.options(8, 17).layout().unwrap());
        for case in cases(slot, &before, 8) {
            stopped += stops_of(&bed, &case);
        }
    }
    println!("{stopped} stops");
    assert!(stopped > 10_000);
}
