//! Linearizability under simulated faults, for every slot kind, over many seeds.

use crate::common::chaos::run;
use crate::common::seeds::Runs;
use crate::common::{
    HEAP, HYBRID, HYBRID_SHORT, INLINE, INLINE_SHORT, PAIR, PAIR_SET, PAIR_SHORT, SLOTS, Slot,
    WORD, WORD_SET,
};

const RUNS: Runs = Runs {
    module: module_path!(),
    slots: &SLOTS,
    seeds: 350,
    run: |slot, seed| match run(slot, seed) {
        Ok((tally, _)) => tally,
        Err(failure) => panic!("{}", failure.error),
    },
};

fn seeds_of(slot: Slot) {
    RUNS.judge_all(slot, |total| {
        let runs = total.runs;
        assert!(total.returned > 20 * runs, "{total:?}");
        assert!(total.batches > runs, "{total:?}");
        assert!(total.seen > 3 * runs, "{total:?}");
        assert!(total.full > runs / 2, "{total:?}");
        assert!(total.heap_full > 0 || !slot.has_heap(), "{total:?}");
        assert!(total.in_doubt > runs / 10, "{total:?}");
        assert!(total.stopped > runs / 10, "{total:?}");
    });
}

#[test]
fn a_seed_is_one_run() {
    RUNS.are_repeatable(20);
}

#[test]
fn word_sets() {
    seeds_of(WORD_SET);
}

#[test]
fn words() {
    seeds_of(WORD);
}

#[test]
fn pairs() {
    seeds_of(PAIR);
}

#[test]
fn pair_sets() {
    seeds_of(PAIR_SET);
}

#[test]
fn short_pairs() {
    seeds_of(PAIR_SHORT);
}

#[test]
fn inline_records() {
    seeds_of(INLINE);
}

#[test]
fn short_inline_records() {
    seeds_of(INLINE_SHORT);
}

#[test]
fn records_out_of_band() {
    seeds_of(HEAP);
}

#[test]
fn hybrid_slots() {
    seeds_of(HYBRID);
}

#[test]
fn short_hybrid_slots() {
    seeds_of(HYBRID_SHORT);
}
