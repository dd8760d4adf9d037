//! CuckooDuo's placement against a plain set of keys: any dimensions, insertions and removals in
//! any order, and fingerprints so short that they collide all the time.

use crate::common::model::run_cases;
use farslot_index::duo::placement::counting::Vault;
use farslot_index::duo::placement::{Shape, SlotNumber};
use farslot_index::hash::derive;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use std::collections::HashSet;

/// A step with a key's number: insert it if it is not there, else remove it; or only insert.
#[derive(Clone, Copy, Debug)]
enum Step {
    Toggle(u64),
    Insert(u64),
}

const KEYS: u64 = 80;

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (0..KEYS).prop_map(Step::Toggle),
        2 => (0..KEYS).prop_map(Step::Insert),
    ]
}

fn shape() -> impl Strategy<Value = Shape> {
    let bits = prop_oneof![4 => Just(8), 1 => 8..=32_u32];
    (
        1..=20_u64,
        1..=16_u32,
        bits,
        0..=6_u32,
        0..=8_u32,
        any::<bool>(),
    )
        .prop_map(
            |(buckets, bucket_slots, fingerprint_bits, longest_path, stash, backups)| Shape {
                buckets,
                bucket_slots,
                fingerprint_bits,
                longest_path,
                stash,
                backups,
            },
        )
}

/// What must be true of an index with these keys.
fn check(vault: &Vault, keys: &HashSet<u64>) -> Result<(), TestCaseError> {
    let shape = vault.index.shape();
    prop_assert_eq!(vault.index.live(), keys.len() as u64);
    prop_assert!(vault.index.stashed() <= shape.stash as usize);
    // Every key has a slot of its own, in one of its buckets or the stash, and a lookup meets it.
    let mut taken = HashSet::new();
    for key in keys {
        let (found, read) = vault.find(*key);
        let slot = found.ok_or_else(|| TestCaseError::fail(format!("{key:#x} is not found")))?;
        prop_assert_eq!(vault.hash_in(slot), *key);
        prop_assert!(vault.index.is_live(slot));
        prop_assert!(read >= 1 && read <= 1 + 2 * u64::from(shape.bucket_slots));
        prop_assert!(taken.insert(slot), "{:?} is two keys'", slot);
        let of = vault.index.candidates(*key);
        let buckets = vault.index.buckets_of(&of);
        let bucket = vault.index.bucket_of(slot);
        prop_assert!(bucket.is_none_or(|bucket| buckets.contains(&bucket)));
        let mut matches = vault.index.matches(*key);
        let first = matches.find(|slot| slot.in_stash().is_none());
        let first_in_arrays = vault.index.first_in_arrays(&of);
        let slot_of = |(bucket, slot)| bucket * u64::from(shape.bucket_slots) + u64::from(slot);
        prop_assert_eq!(
            first_in_arrays.map(slot_of),
            first.map(|SlotNumber(slot)| slot)
        );
    }
    // And no other slot is in use.
    let stash = SlotNumber::STASH.0;
    let slots = (0..shape.slots()).chain(stash..stash + u64::from(shape.stash));
    let live = slots
        .map(SlotNumber)
        .filter(|slot| vault.index.is_live(*slot));
    prop_assert_eq!(live.collect::<HashSet<_>>(), taken);
    Ok(())
}

#[test]
fn an_index_of_any_shape_is_a_set() {
    let runs = (shape(), any::<u64>(), vec(step(), 0..150));
    run_cases(400, "placement", &runs, |(shape, seed, steps)| {
        let (mut vault, mut keys) = (Vault::new(shape), HashSet::new());
        for step in steps {
            let (Step::Toggle(number) | Step::Insert(number)) = step;
            let key = derive(seed, number);
            match step {
                Step::Toggle(_) if keys.contains(&key) => {
                    prop_assert!(vault.remove(key));
                    keys.remove(&key);
                }
                _ if keys.contains(&key) => {}
                _ => {
                    match vault.insert(key) {
                        Some(cost) => {
                            prop_assert!(cost.moved <= u64::from(shape.longest_path));
                            prop_assert!((1..=2).contains(&cost.round_trips));
                            keys.insert(key);
                        }
                        // Only with the stash full, which is where every key may go.
                        None => prop_assert_eq!(vault.index.stashed(), shape.stash as usize),
                    }
                }
            }
            prop_assert_eq!(vault.find(key).0.is_some(), keys.contains(&key));
        }
        check(&vault, &keys)
    });
}
