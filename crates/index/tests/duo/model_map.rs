//! One client's operations on a CuckooDuo table against a plain map: tiny and full tables, short
//! fingerprints that collide all the time, one operation at a time and many.

use crate::common::Slot;
use crate::common::duo::{Dimensions, SLOTS, ShmTable, shm_client, shm_node};
use crate::common::model::{Checked, Model, Records, Room, Step, run_cases, step};
use farslot_index::duo::DuoLayout;
use farslot_index::{IndexError, Occupancy};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

/// More keys than the tables have slots.
const KEYS: u64 = 30;

fn dimensions() -> impl Strategy<Value = Dimensions> {
    let fingerprint_bits = prop_oneof![4 => Just(8), 1 => 8..=32u32];
    (
        1..=28u64,
        1..=16u32,
        fingerprint_bits,
        0..=6u32,
        0..=4u32,
        any::<bool>(),
    )
        .prop_map(
            |(slots, bucket_slots, fingerprint_bits, longest_path, stash, readers)| Dimensions {
                slots,
                bucket_slots,
                fingerprint_bits,
                longest_path,
                stash,
                readers,
            },
        )
}

impl Room for DuoLayout {
    type Table = ShmTable;

    fn takes(&mut self, _: &[u8]) -> Checked {
        Ok(())
    }

    /// Only a new key is refused, and only where a bucket and the stash can be full, or fingerprints of 8 bits
    /// collide.
    fn refuses(&self, key: &[u8], records: &Records, error: &IndexError) -> Checked {
        let IndexError::Full { probed, slots } = error else {
            return Err(TestCaseError::fail(error.to_string()));
        };
        prop_assert_eq!(*slots, self.slots());
        prop_assert!(*probed > 0 && *probed <= self.slots());
        prop_assert!(!records.contains_key(key));
        prop_assert!(records.len() >= self.bucket_slots.min(2) as usize);
        Ok(())
    }

    fn counts(&self, _: &ShmTable, records: &Records, occupancy: Occupancy) -> Checked {
        prop_assert!(records.len() as u64 <= self.slots() + u64::from(self.stash));
        prop_assert_eq!(occupancy.used_slots, self.slots().min(records.len() as u64));
        prop_assert_eq!(occupancy.slots, self.slots());
        Ok(())
    }
}

/// Plays the steps; then the next owner finds the same.
fn play(slot: Slot, dimensions: Dimensions, seed: u64, steps: &[Step], more: &[Step]) -> Checked {
    let layout = dimensions.layout(slot, seed);
    let node = shm_node(&layout);
    let (executor, table) = shm_client(&node, &layout);
    let model = Model::new(slot, KEYS, layout.clone());
    let model = executor.block_on(model.play(&table, steps))?;
    executor.block_on(table.resign()).unwrap();
    let (executor, table) = shm_client(&node, &layout);
    executor.block_on(model.play(&table, more)).map(drop)
}

#[test]
fn every_shape_is_a_map_also_to_the_next_owner() {
    for slot in SLOTS {
        let steps = || vec(step(KEYS), 0..100);
        let runs = (dimensions(), any::<u64>(), steps(), steps());
        run_cases(150, slot.name, &runs, |(dimensions, seed, steps, more)| {
            play(slot, dimensions, seed, &steps, &more)
        });
    }
}
