//! The linearizability check notices a wrong insertion: with the feature `broken-insert`, a slot is
//! claimed by a plain WRITE in place of the compare-and-swap.

#![cfg(feature = "broken-insert")]

mod common;

use common::SLOTS;
use common::chaos::run;
use farslot_check::CheckError;
use std::panic::{catch_unwind, set_hook, take_hook};

/// Seeds within which a violation must show.
const SEEDS: u64 = 100;

#[test]
fn a_write_in_place_of_the_compare_and_swap_is_noticed() {
    // A run may also come to something that no run comes to, and panic: that does not count here.
    let hook = take_hook();
    set_hook(Box::new(|_| {}));
    let first_violations = SLOTS.map(|slot| {
        let violates = |seed: &u64| match catch_unwind(|| run(slot, *seed)) {
            Ok(Err(failure)) => matches!(failure.error, CheckError::NotLinearizable(_)),
            _ => false,
        };
        (slot.name, (0..SEEDS).find(violates))
    });
    set_hook(hook);
    println!("first violations: {first_violations:?}");
    for (slot, seed) in first_violations {
        assert!(seed.is_some(), "{slot}: nothing noticed in {SEEDS} seeds");
    }
}
