//! The same in memory that is mapped, where no verb is posted: a seed says before each access which
//! client goes on, and the clock jumps between any two, as for one that is off its processor.

use super::*;
use crate::OpenOptions;
use farslot_fabric::schedule::{self, Plan};

fn run(seed: u64, breach: Option<ExpiryBreach>) -> RunOutcome {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let store = Store::embedded_by_its_clock(4 << 20, OpenOptions::default()).unwrap();
    store.create("t", &options(seed)).unwrap();
    let plan = Plan {
        seed: rng.random(),
        begins_at: 0,
        longest_turn: [1, 8, 64][rng.random_range(0..3)],
        stops: Vec::new(),
        longest_jump: 3_000_000,
        swaps_blindly: false,
    };
    let record = Record::new(|| schedule::now().expect("a thread of the schedule"));
    let ended = schedule::run(&plan, CLIENTS, |number| {
        use_table(number as u64, seed, &record, &store, breach);
    });
    let after = Plan {
        begins_at: ended.at + 1,
        ..plan
    };
    schedule::run(&after, 1, |_| look_around(&record, &store));
    judge(record)
}

#[test]
fn operations_in_mapped_memory_are_linearizable_while_records_end() {
    for seed in seeds(150) {
        if let Err(error) = run(seed, None).judged {
            panic!(
                "FARSLOT_SEED={seed} cargo test -p farslot --lib \
                 operations_in_mapped_memory_are_linearizable_while_records_end\n{error}"
            );
        }
    }
}

#[test]
fn operations_in_mapped_memory_are_linearizable_where_what_has_ended_makes_room() {
    for seed in tight_seeds(30) {
        if let Err(error) = run(seed, None).judged {
            panic!(
                "FARSLOT_SEED={seed} cargo test -p farslot --lib \
                 operations_in_mapped_memory_are_linearizable_where_what_has_ended_makes_room\n{error}"
            );
        }
    }
}

#[test]
fn a_seed_fixes_all_that_happens_in_mapped_memory() {
    for seed in seeds(8) {
        let again = run(seed, None).history;
        assert_eq!(run(seed, None).history, again, "seed {seed}");
    }
}

#[test]
fn a_clock_that_is_read_after_the_record_is_found_in_mapped_memory() {
    assert!(is_found_by(run, ExpiryBreach::LateClock, 60..2_000));
}

#[test]
fn a_second_swap_without_a_look_at_the_clock_is_found_in_mapped_memory() {
    assert!(is_found_by(run, ExpiryBreach::NoSecondLook, 80..2_000));
}

#[test]
fn a_record_that_goes_for_others_before_it_ends_is_found_in_mapped_memory() {
    assert!(is_found_by(
        run,
        ExpiryBreach::EarlyRoom,
        tight_seeds(2_000)
    ));
}
