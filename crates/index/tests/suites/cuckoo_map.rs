//! One client's operations on a cuckoo table against a plain map: every slot kind, tiny and full
//! tables, one operation at a time and many.

use crate::common::Slot;
use crate::common::cuckoo::{ORDERS, SLOTS, Ways, new_table, options, ways};
use crate::common::model::{Checked, Model, Records, Room, Step, run_cases, step};
use farslot_index::cuckoo::{CuckooLayout, CuckooOptions, CuckooTable, LookupOrder};
use farslot_index::{IndexError, Occupancy};
use farslot_testbed::{AnyEndpoint, Fabric};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

/// More keys than the tables have slots.
const KEYS: u64 = 30;

fn shape() -> impl Strategy<Value = Ways> {
    (2..=4u32, 1..=8u32).prop_map(|(of, slots)| ways(of, slots))
}

/// Where a table's keys may be.
struct Places {
    layout: CuckooLayout,
    predetermines: bool,
}

impl Room for Places {
    type Table = CuckooTable<AnyEndpoint>;

    fn takes(&mut self, _: &[u8]) -> Checked {
        Ok(())
    }

    /// Only a new key is refused, and only where a bucket can be full.
    fn refuses(&self, key: &[u8], records: &Records, error: &IndexError) -> Checked {
        let IndexError::Full { probed, slots } = error else {
            return Err(TestCaseError::fail(error.to_string()));
        };
        prop_assert_eq!(*slots, self.layout.slots());
        // Nothing need be looked at by who knows it beforehand.
        prop_assert!(*probed > 0 || self.predetermines);
        prop_assert!(*probed <= self.layout.slots());
        prop_assert!(!records.contains_key(key));
        prop_assert!(records.len() >= self.layout.bucket_slots as usize);
        Ok(())
    }

    fn counts(
        &self,
        _: &CuckooTable<AnyEndpoint>,
        records: &Records,
        occupancy: Occupancy,
    ) -> Checked {
        prop_assert_eq!(occupancy.used_slots, records.len() as u64);
        prop_assert_eq!(occupancy.slots, self.layout.slots());
        Ok(())
    }
}

fn play(
    fabric: Fabric,
    slot: Slot,
    options: &CuckooOptions,
    order: LookupOrder,
    predetermines: bool,
    steps: &[Step],
) -> Checked {
    let (_node, executor, mut table) = new_table(fabric, options, order);
    if predetermines {
        table = table.with_predetermination().unwrap();
    }
    let places = Places {
        layout: table.layout().clone(),
        predetermines,
    };
    executor
        .block_on(Model::new(slot, KEYS, places).play(&table, steps))
        .map(drop)
}

pub fn every_shape_is_a_map(fabric: Fabric) {
    for slot in SLOTS {
        for order in ORDERS {
            let name = format!("{} {order:?}", slot.name);
            let steps = vec(step(KEYS), 0..120);
            let runs = (1..=28u64, shape(), any::<u64>(), any::<bool>(), steps);
            run_cases(
                fabric.cases(80),
                &name,
                &runs,
                |(slots, shape, seed, predetermines, steps)| {
                    let options = options(slot, slots, shape, seed);
                    play(fabric, slot, &options, order, predetermines, &steps)
                },
            );
        }
    }
}
