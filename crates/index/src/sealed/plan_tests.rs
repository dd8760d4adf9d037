//! Plans against what they promise.

use super::*;
use crate::FieldSize;
use crate::Sizing;
use crate::sealed::SealedOptions;
use proptest::prelude::*;

/// Key number `number` of 4 bytes.
fn keys(numbers: &[u32]) -> Vec<[u8; 4]> {
    numbers.iter().map(|number| number.to_le_bytes()).collect()
}

fn pairs(keys: &[[u8; 4]]) -> Vec<Pair<'_>> {
    keys.iter().map(|key| (&key[..], &[][..])).collect()
}

fn options(order: SlotOrder, keys: KeyRule, load_factor: f64) -> SealedOptions {
    SealedOptions {
        order,
        ..SealedOptions::new(Sizing {
            keys,
            load_factor: Some(load_factor),
            ..Sizing::new(0, FieldSize::Fixed(4), FieldSize::Fixed(0), 3)
        })
    }
}

/// Where plain linear probing without a wrap puts records that come in this order.
fn probed(homes: impl Iterator<Item = usize>, slots: usize) -> Vec<Option<usize>> {
    let mut table = vec![None; slots];
    for (record, home) in homes.enumerate() {
        let free = table[home..].iter().position(Option::is_none).unwrap();
        table[home + free] = Some(record);
    }
    table
}

proptest! {
    #[test]
    fn both_orders_are_those_of_linear_probing(
        numbers in proptest::collection::vec(0u32..50, 0..150),
        load in 0.3f64..=1.0,
    ) {
        let keys = keys(&numbers);
        let records = pairs(&keys);
        for order in [SlotOrder::Arrival, SlotOrder::ByHash] {
            let layout = options(order, KeyRule::Multi, load).layout_for(&records).unwrap();
            let plan = Plan::new(&layout, &records).unwrap();
            let mut coming: Vec<usize> = (0..records.len()).collect();
            if order == SlotOrder::ByHash {
                coming.sort_by_key(|record| (plan.hashes[*record], records[*record].0));
            }
            let homes = coming.iter().map(|record| place(plan.hashes[*record], layout.homes).0 as usize);
            let expected = probed(homes, layout.slots as usize);
            for (slot, record) in plan.slots.iter().enumerate() {
                let expected = expected[slot].map_or(EMPTY, |number| coming[number] as u32);
                prop_assert_eq!(*record, expected, "{:?} at {}", order, slot);
            }
        }
    }

    #[test]
    fn a_key_that_stands_twice_is_named(
        numbers in proptest::collection::vec(0u32..400, 1..40),
        by_hash: bool,
    ) {
        let keys = keys(&numbers);
        let records = pairs(&keys);
        let order = if by_hash { SlotOrder::ByHash } else { SlotOrder::Arrival };
        let layout = options(order, KeyRule::Unique, 0.9).layout_for(&records).unwrap();
        let unique: std::collections::HashSet<_> = numbers.iter().collect();
        match Plan::new(&layout, &records) {
            Ok(_) => prop_assert_eq!(unique.len(), numbers.len()),
            Err(IndexError::DuplicateKey { record, first }) => {
                prop_assert!(first < record);
                prop_assert_eq!(numbers[first as usize], numbers[record as usize]);
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}

#[test]
fn a_layout_that_is_too_small_says_so() {
    let numbers: Vec<u32> = (0..100).collect();
    let keys = keys(&numbers);
    let records = pairs(&keys);
    for order in [SlotOrder::Arrival, SlotOrder::ByHash] {
        let options = options(order, KeyRule::Multi, 1.0);
        for fewer in [1, 50, 99] {
            let layout = options.layout_for(&records[fewer..]).unwrap();
            let refused = Plan::new(&layout, &records).err();
            assert!(
                matches!(refused, Some(IndexError::Full { .. })),
                "{refused:?}"
            );
        }
        // Enough slots, but too few behind the home that all of them have.
        let same = vec![records[0]; 100];
        let layout = options.holding(100, 0).layout().unwrap();
        let crowd = Plan::new(&layout, &same);
        let home = place(layout.hasher.hash(records[0].0), layout.homes).0;
        assert_eq!(crowd.is_ok(), home + 100 <= layout.slots);
        let exact = options.layout_for(&same).unwrap();
        assert!(Plan::new(&exact, &same).is_ok());
        assert_eq!(
            exact.slots,
            (place(exact.hasher.hash(records[0].0), 100).0 + 100).max(100)
        );
    }
}

#[test]
fn the_slots_behind_the_last_home_are_enough_for_records_that_are_not_known_yet() {
    for records in [1, 2, 7, 40, 1000, 50_000] {
        let keys = keys(&(0..records).collect::<Vec<_>>());
        let records = pairs(&keys);
        for load in [0.1, 0.5, 0.9, 0.99, 1.0] {
            for seed in 0..4 {
                let options = SealedOptions {
                    sizing: Sizing {
                        hasher: crate::Hasher::Xxh3 { seed },
                        ..options(SlotOrder::ByHash, KeyRule::Unique, load).sizing
                    },
                    ..options(SlotOrder::ByHash, KeyRule::Unique, load)
                };
                let layout = options.holding(records.len() as u64, 0).layout().unwrap();
                assert!(Plan::new(&layout, &records).is_ok(), "{layout:?}");
                let margin = layout.slots - layout.homes;
                assert!(margin <= 64 + 8 * records.len().isqrt() as u64 + 8);
            }
        }
    }
}

/// Quadratic planning of these would take hours.
#[test]
fn a_million_records_of_one_key_are_planned_at_once() {
    let keys = keys(&vec![7; 1_000_000]);
    let records = pairs(&keys);
    for order in [SlotOrder::Arrival, SlotOrder::ByHash] {
        let layout = options(order, KeyRule::Multi, 0.9)
            .layout_for(&records)
            .unwrap();
        let plan = Plan::new(&layout, &records).unwrap();
        let placed = plan.in_slots(0..layout.slots);
        assert!(placed.map(|(_, record)| record).eq(0..1_000_000));
    }
}
