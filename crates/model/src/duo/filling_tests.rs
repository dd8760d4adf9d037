//! The limit against tables that are filled.

use super::filling::FillTrajectory;
use super::{FillOrder, without_path};
use crate::ModelError;

const ORDERS: [FillOrder; 2] = [FillOrder::RoomierBucket, FillOrder::FirstArray];

/// Chance enough for a table: SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, range: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        ((u128::from(mixed) * range as u128) >> 64) as usize
    }
}

/// A table of two arrays whose records are known by their other buckets alone.
struct Table {
    d: usize,
    order: FillOrder,
    /// Of each array, and of each of its buckets, the other buckets of its records.
    arrays: [Vec<Vec<usize>>; 2],
    random: Random,
}

impl Table {
    fn new(buckets: usize, d: usize, order: FillOrder) -> Self {
        let array = || vec![Vec::new(); buckets];
        Self {
            d,
            order,
            arrays: [array(), array()],
            random: Random(d as u64),
        }
    }

    /// Puts a key in; false if it has no path of at most one move.
    fn insert(&mut self) -> bool {
        let buckets = self.arrays[0].len();
        let homes = [self.random.below(buckets), self.random.below(buckets)];
        let [first, second] = [0, 1].map(|array| self.arrays[array][homes[array]].len());
        let goes_second = match self.order {
            FillOrder::RoomierBucket => second <= first,
            FillOrder::FirstArray => first == self.d,
        };
        let array = usize::from(goes_second);
        if [first, second][array] < self.d {
            self.arrays[array][homes[array]].push(homes[1 - array]);
            return true;
        }
        for array in [1, 0] {
            for slot in 0..self.d {
                let other = self.arrays[array][homes[array]][slot];
                if self.arrays[1 - array][other].len() < self.d {
                    self.arrays[1 - array][other].push(homes[array]);
                    self.arrays[array][homes[array]][slot] = homes[1 - array];
                    return true;
                }
            }
        }
        false
    }
}

#[test]
fn tables_lose_as_many_keys() {
    for (d, loads) in [(4, [0.85, 0.9]), (8, [0.93, 0.95])] {
        for order in ORDERS {
            let mut table = Table::new(1 << 14, d, order);
            let (mut lost, mut keys) = (0, 0);
            let foretold = without_path(d as u32, order, &loads).unwrap();
            let slots = 2.0 * (1 << 14) as f64 * d as f64;
            for (load, foretold) in loads.into_iter().zip(foretold) {
                while f64::from(keys) < load * slots {
                    keys += 1;
                    lost += u32::from(!table.insert());
                }
                let (lost, foretold) = (f64::from(lost), foretold * slots);
                println!("d = {d}, {order:?}, {load}: {lost}, foretold {foretold:.1}");
                let chance = 4.0 * foretold.sqrt();
                assert!(
                    (lost - foretold).abs() < 0.05 * foretold + chance,
                    "{lost} {foretold}"
                );
            }
        }
    }
}

#[test]
fn buckets_and_records_are_conserved() {
    for order in ORDERS {
        let mut filling = FillTrajectory::new(8, order);
        filling.offer(0.97);
        let records: f64 = filling
            .state
            .arrays
            .iter()
            .flat_map(|array| array.records.iter().flatten())
            .sum();
        assert!(
            (records + filling.state.lost - 16.0 * 0.97).abs() < 1e-6,
            "{records}"
        );
        for array in &filling.state.arrays {
            assert!((array.with.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            for (load, (buckets, records)) in array.with.iter().zip(&array.records).enumerate() {
                let all = load as f64 * buckets;
                assert!((records.iter().sum::<f64>() - all).abs() < 1e-6, "{load}");
            }
            let full: f64 = array.loose.iter().sum();
            assert!((full - array.with[8]).abs() < 1e-6, "{full}");
            let loose: f64 = array
                .loose
                .iter()
                .enumerate()
                .map(|(u, share)| u as f64 * share)
                .sum();
            let unpinned: f64 = array.records[8][..8].iter().sum();
            assert!((loose - unpinned).abs() < 1e-3, "{loose} {unpinned}");
        }
    }
}

#[test]
fn more_keys_have_more_without_a_path() {
    for order in ORDERS {
        let lost = without_path(8, order, &[0.0, 0.5, 0.9, 0.95, 1.0]).unwrap();
        assert_eq!(lost[0], 0.0);
        assert!(lost[1] < 1e-12 && lost.is_sorted(), "{lost:?}");
    }
    // A key more than slots fit has none.
    assert!(without_path(1, FillOrder::FirstArray, &[1.0]).unwrap()[0] > 0.1);
}

#[test]
fn what_is_no_table_is_named() {
    let load = without_path(8, FillOrder::FirstArray, &[0.5, 0.4]);
    assert_eq!(load, Err(ModelError::LoadFactor(0.4)));
    let slots = without_path(17, FillOrder::FirstArray, &[0.5]);
    assert_eq!(
        slots,
        Err(ModelError::BucketSlots {
            slots: 17,
            limit: 16
        })
    );
    assert!(without_path(0, FillOrder::FirstArray, &[]).is_err());
}
