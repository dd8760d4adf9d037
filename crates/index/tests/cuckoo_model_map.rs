//! One client's operations on a cuckoo table against a plain map: every slot kind, tiny and full
//! tables, one operation at a time and many.

mod common;

use common::Slot;
use common::cuckoo::{ORDERS, SLOTS, ShmTable, Ways, options, shm_table, ways};
use common::model::{Checked, Model, Records, Room, Step, run_cases, step};
use farslot_index::cuckoo::{CuckooLayout, LookupOrder};
use farslot_index::{Index, IndexError, Occupancy};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

/// More keys than the tables have slots.
const KEYS: u64 = 30;

fn shape() -> impl Strategy<Value = Ways> {
    (2..=4u32, 1..=8u32).prop_map(|(of, slots)| ways(of, slots))
}

impl Room for CuckooLayout {
    type Table = ShmTable;

    fn takes(&mut self, _: &[u8]) -> Checked {
        Ok(())
    }

    /// Only a new key is refused, and only where a bucket can be full.
    fn refuses(&self, key: &[u8], records: &Records, error: &IndexError) -> Checked {
        let IndexError::Full { probed, slots } = error else {
            return Err(TestCaseError::fail(error.to_string()));
        };
        prop_assert_eq!(*slots, self.slots());
        prop_assert!(*probed > 0 && *probed <= self.slots());
        prop_assert!(!records.contains_key(key));
        prop_assert!(records.len() >= self.bucket_slots as usize);
        Ok(())
    }

    fn counts(&self, _: &ShmTable, records: &Records, occupancy: Occupancy) -> Checked {
        prop_assert_eq!(occupancy.used_slots, records.len() as u64);
        prop_assert_eq!(occupancy.slots, self.slots());
        Ok(())
    }
}

fn play(
    slot: Slot,
    slots: u64,
    of: Ways,
    seed: u64,
    order: LookupOrder,
    steps: &[Step],
) -> Checked {
    let (executor, table) = shm_table(&options(slot, slots, of, seed), order);
    let model = Model::new(slot, KEYS, table.layout().clone());
    executor.block_on(model.play(&table, steps)).map(drop)
}

#[test]
fn every_shape_is_a_map() {
    for slot in SLOTS {
        for order in ORDERS {
            let name = format!("{} {order:?}", slot.name);
            let runs = (1..=28u64, shape(), any::<u64>(), vec(step(KEYS), 0..120));
            run_cases(60, &name, &runs, |(slots, shape, seed, steps)| {
                play(slot, slots, shape, seed, order, &steps)
            });
        }
    }
}

/// A bulk build looks through every way that there is. Where one insertion after the other says full,
/// no other arrangement of the same records holds the new one either.
#[test]
fn an_insertion_that_says_full_is_right() {
    let mut full = 0;
    for seed in 0..400 {
        let of = ways(2 + seed as u32 % 3, 1 + seed as u32 / 3 % 2);
        let slots = 1 + seed % 6 * u64::from(of.bucket_slots);
        let shape = options(common::WORD, slots, of, seed);
        let (executor, table) = shm_table(&shape, LookupOrder::Parallel);
        let mut held: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for number in 0..KEYS {
            let record = (common::WORD.key(number), common::WORD.value(number));
            let put = executor.block_on(table.put(&record.0, &record.1));
            let mut with = held.clone();
            with.push(record);
            let (builder, other) = shm_table(&shape, LookupOrder::Parallel);
            let records: Vec<_> = with
                .iter()
                .map(|(key, value)| (&key[..], &value[..]))
                .collect();
            let built = builder.block_on(other.build(&records));
            if put.is_ok() {
                assert_eq!(built, Ok(()), "seed {seed}");
                held = with;
            } else {
                assert!(matches!(put, Err(IndexError::Full { .. })), "{put:?}");
                assert!(matches!(built, Err(IndexError::Full { .. })), "{built:?}");
                full += 1;
            }
        }
    }
    assert!(full > 1_000, "{full}");
}
