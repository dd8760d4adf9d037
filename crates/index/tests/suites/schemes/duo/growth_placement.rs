//! Growth of CuckooDuo's index, without a fabric: wherever a growth stands, every key is found
//! where the index says, and nowhere else.

use farslot_index::duo::placement::counting::Vault;
use farslot_index::duo::placement::{Placement, Shape, SlotNumber};
use proptest::collection::vec;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeSet;

fn shape(buckets: u64, bucket_slots: u32, fingerprint_bits: u32) -> Shape {
    Shape {
        buckets,
        bucket_slots,
        fingerprint_bits,
        longest_path: 3,
        stash: 4,
        backups: true,
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u64),
    Remove(usize),
    /// By a ratio.
    Grow(u64),
    /// Splits that of the buckets that are left, if any is.
    Split(usize),
    SplitAll,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => any::<u64>().prop_map(Step::Insert),
        2 => any::<usize>().prop_map(Step::Remove),
        1 => (2..=5u64).prop_map(Step::Grow),
        8 => any::<usize>().prop_map(Step::Split),
        1 => Just(Step::SplitAll),
    ]
}

/// Splits the buckets that a key with this hash would enter.
fn split_for(vault: &mut Vault, hash: u64) {
    let buckets = vault.index.buckets_of(&vault.index.candidates(hash));
    for bucket in buckets {
        if let Some(origin) = vault.index.to_split(bucket) {
            assert_eq!(origin, bucket, "a key's bucket is one in use");
            vault.split(origin);
        }
    }
}

/// Every key is where it belongs, once, and no slot that is live is nobody's.
fn judge(vault: &Vault, keys: &BTreeSet<u64>) -> Result<(), TestCaseError> {
    let mut slots = BTreeSet::new();
    for hash in keys {
        let (found, _) = vault.find(*hash);
        let slot = found.ok_or_else(|| TestCaseError::fail(format!("{hash:#x} is lost")))?;
        prop_assert!(vault.index.belongs(slot, *hash));
        prop_assert!(slots.insert(slot));
    }
    prop_assert_eq!(vault.index.live(), keys.len() as u64);
    let shape = vault.index.shape();
    let live: u64 = (0..2 * shape.buckets)
        .map(|bucket| vault.index.live_in(bucket).count() as u64)
        .sum();
    prop_assert_eq!(live + vault.index.stashed() as u64, keys.len() as u64);
    for bucket in (0..2 * shape.buckets).filter(|bucket| !vault.index.is_in_use(*bucket)) {
        prop_assert_eq!(vault.index.live_in(bucket).count(), 0);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn every_key_is_found_wherever_a_growth_stands(
        buckets in 1..40u64,
        bucket_slots in 1..=8u32,
        bits in 8..=17u32,
        steps in vec(step(), 1..300),
    ) {
        let mut vault = Vault::new(shape(buckets, bucket_slots, bits));
        let mut keys = BTreeSet::new();
        for step in steps {
            match step {
                Step::Insert(hash) => {
                    split_for(&mut vault, hash);
                    if !keys.contains(&hash) && vault.insert(hash).is_some() {
                        keys.insert(hash);
                    }
                }
                Step::Remove(any) if !keys.is_empty() => {
                    let hash = *keys.iter().nth(any % keys.len()).unwrap();
                    prop_assert!(vault.remove(hash));
                    keys.remove(&hash);
                }
                Step::Grow(ratio) if vault.index.unsplit() == 0
                    && vault.index.shape().slots() < 20_000 => vault.grow(ratio),
                Step::Split(any) if vault.index.unsplit() > 0 => {
                    let left: Vec<u64> = vault.index.unsplit_from(0).collect();
                    prop_assert_eq!(left.len() as u64, vault.index.unsplit());
                    vault.split(left[any % left.len()]);
                }
                Step::SplitAll => {
                    let left: Vec<u64> = vault.index.unsplit_from(0).collect();
                    left.into_iter().for_each(|origin| vault.split(origin));
                }
                _ => {}
            }
            judge(&vault, &keys)?;
        }
    }

    /// What a bucket's split leaves behind in it belongs nowhere, now and after any later growth.
    #[test]
    fn what_is_left_behind_is_nobodys_for_ever(
        buckets in 1..1_000u64,
        ratios in vec(2..=9u64, 1..5),
        hash in any::<u64>(),
    ) {
        let mut index = Placement::new(shape(buckets, 4, 16));
        let (mut places, mut left_behind) = (BTreeSet::new(), BTreeSet::new());
        let note = |index: &Placement, places: &mut BTreeSet<u64>| {
            let now = index.buckets_of(&index.candidates(hash));
            let left: Vec<u64> = places.iter().copied().filter(|b| !now.contains(b)).collect();
            places.extend(now);
            left
        };
        for ratio in ratios {
            note(&index, &mut places);
            index.grow(ratio);
            let unchanged = note(&index, &mut places);
            prop_assert_eq!(unchanged, left_behind.iter().copied().collect::<Vec<_>>());
            let all: Vec<u64> = index.unsplit_from(0).collect();
            all.into_iter().for_each(|origin| index.note_split(origin));
            left_behind.extend(note(&index, &mut places));
            for bucket in &left_behind {
                prop_assert!(!index.belongs(SlotNumber(bucket * 4), hash));
            }
        }
    }
}

#[test]
fn a_table_that_has_grown_is_as_full_as_one_that_was_made_so_large() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut fill = |vault: &mut Vault| {
        loop {
            let hash = rng.random();
            split_for(vault, hash);
            if vault.insert(hash).is_none() {
                return vault.index.live() as f64 / vault.index.shape().slots() as f64;
            }
        }
    };
    let with_stash = |buckets| Shape {
        stash: 32,
        ..shape(buckets, 8, 16)
    };
    let mut made = Vault::new(with_stash(6_144));
    let mut grown = Vault::new(with_stash(512));
    let before = fill(&mut grown);
    grown.grow(3);
    fill(&mut grown);
    let left: Vec<u64> = grown.index.unsplit_from(0).collect();
    left.into_iter().for_each(|origin| grown.split(origin));
    grown.grow(4);
    let (made, grown) = (fill(&mut made), fill(&mut grown));
    println!("{before} before, {grown} grown, {made} made so large");
    assert!(before > 0.97 && made > 0.97);
    assert!((made - grown).abs() < 0.01);
}
