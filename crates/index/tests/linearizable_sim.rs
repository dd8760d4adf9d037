//! Linearizability under simulated faults, for every slot kind, over many seeds.
//!
//! `FARSLOT_SEED=<n> FARSLOT_SLOT=<slot>` replays one run; `FARSLOT_SEEDS=<count>` runs so many
//! seeds of each slot kind.

#![cfg(not(feature = "broken-insert"))]

mod common;

use common::chaos::{Tally, run};
use common::{
    HEAP, HYBRID, HYBRID_SHORT, INLINE, INLINE_SHORT, PAIR, PAIR_SET, PAIR_SHORT, SLOTS, Slot,
    WORD, WORD_SET,
};

/// Seeds of each slot kind.
const SEEDS: u64 = 1_000;

fn env<T: std::str::FromStr>(name: &str) -> Option<T> {
    let value = std::env::var(name).ok()?;
    let parsed = value.parse().ok();
    Some(parsed.unwrap_or_else(|| panic!("{name}={value} is not usable")))
}

fn seeds_of(slot: Slot) {
    let only: Option<String> = env("FARSLOT_SLOT");
    if let Some(only) = only {
        let known = SLOTS.map(|slot| slot.name);
        assert!(known.contains(&&*only), "FARSLOT_SLOT is one of {known:?}");
        if only != slot.name {
            return;
        }
    }
    if let Some(seed) = env("FARSLOT_SEED") {
        let tally = judge(slot, seed);
        println!("{} {seed}: {tally:?}", slot.name);
        return;
    }
    let mut total = Tally::default();
    for seed in 0..env("FARSLOT_SEEDS").unwrap_or(SEEDS) {
        total += judge(slot, seed);
    }
    println!("{}: {total:?}", slot.name);
    if total.runs >= SEEDS {
        assert_was_worth_it(slot, &total);
    }
}

fn judge(slot: Slot, seed: u64) -> Tally {
    match std::panic::catch_unwind(|| run(slot, seed)) {
        Ok(Ok((tally, _))) => tally,
        Ok(Err(failure)) => panic!("{}\n{}", failure.error, replay(slot, seed)),
        Err(panic) => {
            eprintln!("{}", replay(slot, seed));
            std::panic::resume_unwind(panic);
        }
    }
}

fn replay(slot: Slot, seed: u64) -> String {
    format!(
        "seed {seed} of slot kind {slot} failed; this replays it:\n\
         FARSLOT_SEED={seed} FARSLOT_SLOT={slot} cargo test -p farslot-index \
         --test linearizable_sim -- --nocapture",
        slot = slot.name
    )
}

fn assert_was_worth_it(slot: Slot, total: &Tally) {
    let runs = total.runs;
    assert!(total.returned > 20 * runs, "{total:?}");
    assert!(total.seen > 3 * runs, "{total:?}");
    assert!(total.full > runs / 2, "{total:?}");
    assert!(total.heap_full > 0 || !slot.has_heap(), "{total:?}");
    assert!(total.in_doubt > runs / 10, "{total:?}");
    assert!(total.stopped > runs / 10, "{total:?}");
}

/// Else the command that a failure prints would not replay it.
#[test]
fn a_seed_is_one_run() {
    for slot in SLOTS {
        for seed in 0..20 {
            assert_eq!(judge(slot, seed), judge(slot, seed), "{} {seed}", slot.name);
        }
    }
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
