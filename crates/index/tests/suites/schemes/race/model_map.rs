//! RACE tables of all shapes are maps to one client after the other, whether they grow or not.

use crate::common::Slot;
use crate::common::model::{Checked, Model, Records, Room, Step, run_cases, step};
use crate::common::race::{Dimensions, SHORT, ShmTable, VARIED, shm_client, shm_node};
use farslot_index::race::RaceLayout;
use farslot_index::{IndexError, Occupancy};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

/// More keys than the smaller tables have slots.
const KEYS: u64 = 40;

fn dimensions() -> impl Strategy<Value = Dimensions> {
    (1..=5u32, 1..=3u64, 0..=2u32, 0..=20u64).prop_map(|(bucket_slots, groups, roots, more)| {
        let roots = 1 << roots;
        Dimensions {
            bucket_slots,
            groups,
            roots,
            most_subtables: roots + more,
        }
    })
}

impl Room for RaceLayout {
    type Table = ShmTable;

    fn takes(&mut self, _: &[u8]) -> Checked {
        Ok(())
    }

    /// Only a new key is refused, and only where its buckets can be full in a table that has grown.
    fn refuses(&self, key: &[u8], records: &Records, error: &IndexError) -> Checked {
        let IndexError::Full { probed, slots } = error else {
            return Err(TestCaseError::fail(error.to_string()));
        };
        let bucket = u64::from(self.bucket_slots);
        prop_assert!([3 * bucket, 4 * bucket].contains(probed));
        prop_assert_eq!(*slots, self.most_subtables * self.subtable_slots());
        prop_assert!(!records.contains_key(key));
        prop_assert!(records.len() as u64 >= 3 * bucket);
        Ok(())
    }

    fn counts(&self, table: &ShmTable, records: &Records, occupancy: Occupancy) -> Checked {
        prop_assert_eq!(occupancy.used_slots, records.len() as u64);
        prop_assert_eq!(occupancy.slots, table.subtables() * self.subtable_slots());
        prop_assert!((self.roots..=self.most_subtables).contains(&table.subtables()));
        Ok(())
    }
}

/// Plays the steps with a client, and others with the next.
fn play(slot: Slot, dimensions: Dimensions, seed: u64, steps: [&[Step]; 2]) -> Checked {
    let layout = dimensions.layout(slot, seed, None);
    let node = shm_node(&layout);
    let mut model = Model::new(slot, KEYS, layout.clone());
    for steps in steps {
        let (executor, table) = shm_client(&node, &layout);
        model = executor.block_on(model.play(&table, steps))?;
        let survey = executor.block_on(table.survey()).unwrap();
        prop_assert_eq!((survey.begun, survey.moving, survey.behind), (0, 0, 0));
        prop_assert_eq!(survey.subtables(), table.subtables());
    }
    Ok(())
}

#[test]
fn every_shape_is_a_map() {
    for slot in [VARIED, SHORT] {
        let steps = || vec(step(KEYS), 0..100);
        let runs = (dimensions(), any::<u64>(), steps(), steps());
        run_cases(150, slot.name, &runs, |(dimensions, seed, steps, more)| {
            play(slot, dimensions, seed, [&steps, &more])
        });
    }
}
