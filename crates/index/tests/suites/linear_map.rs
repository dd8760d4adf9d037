//! One client's operations against a plain map: unique keys, every slot kind, full tables.

use crate::common::model::{Checked, Model, Records, Room, Step, run_cases, step};
use crate::common::{HEAP, Reads, SLOTS, Slot, all_reads, new_table, scan_all};
use farslot_index::linear::LinearTable;
use farslot_index::{Index, IndexError, IndexExt, Occupancy};
use farslot_testbed::{AnyEndpoint, Fabric};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// More keys than the tables have slots.
const KEYS: u64 = 14;

/// The keys that have a slot, dead or alive: nobody else's from then on.
struct Owners {
    slots: usize,
    keys: BTreeSet<Vec<u8>>,
}

impl Room for Owners {
    type Table = LinearTable<AnyEndpoint>;

    fn takes(&mut self, key: &[u8]) -> Checked {
        self.keys.insert(key.to_vec());
        prop_assert!(self.keys.len() <= self.slots);
        Ok(())
    }

    fn refuses(&self, key: &[u8], _: &Records, error: &IndexError) -> Checked {
        let slots = self.slots as u64;
        let full = IndexError::Full {
            probed: slots,
            slots,
        };
        prop_assert_eq!(error, &full);
        prop_assert_eq!(self.keys.len(), self.slots);
        prop_assert!(!self.keys.contains(key));
        Ok(())
    }

    fn counts(&self, table: &Self::Table, _: &Records, occupancy: Occupancy) -> Checked {
        prop_assert_eq!(occupancy.used_slots, self.keys.len() as u64);
        prop_assert_eq!(table.load_factor(), occupancy.load_factor());
        Ok(())
    }
}

fn play(
    fabric: Fabric,
    slot: Slot,
    slots: u64,
    seed: u64,
    reads: Reads,
    steps: &[Step],
) -> Checked {
    let (_node, executor, table) = new_table(fabric, &slot.options(slots, seed), reads);
    let owners = Owners {
        slots: slots as usize,
        keys: BTreeSet::new(),
    };
    executor
        .block_on(Model::new(slot, KEYS, owners).play(&table, steps))
        .map(drop)
}

pub fn every_slot_kind_is_a_map(fabric: Fabric) {
    for slot in SLOTS {
        let runs = (1..=12u64, any::<u64>(), all_reads(), vec(step(KEYS), 0..80));
        run_cases(
            fabric.cases(150),
            slot.name,
            &runs,
            |(slots, seed, reads, steps)| play(fabric, slot, slots, seed, reads, &steps),
        );
    }
}

pub fn a_full_table_refuses_new_keys_and_serves_the_others(fabric: Fabric) {
    for slot in SLOTS {
        for look_ahead in [false, true] {
            let reads = Reads {
                fixed: Some(3),
                look_ahead,
            };
            let steps = (0..14)
                .map(|key| Step::Put(key, key))
                .chain((0..14).map(|key| Step::Update(key, key + 100)))
                .chain((0..14).map(|key| Step::FindOrPut(key, key + 200)))
                .chain((0..14).step_by(2).map(Step::Remove))
                // A removed key's slot is its own: it comes back, others still find no place.
                .chain((0..14).rev().map(|key| Step::Put(key, key + 300)))
                .chain((0..14).map(Step::Get));
            play(fabric, slot, 8, 5, reads, &Vec::from_iter(steps)).unwrap();
        }
    }
}

pub fn a_full_heap_refuses_records_and_serves_the_others(fabric: Fabric) {
    let mut options = HEAP.options(64, 7);
    options.sizing.heap_bytes = Some(4096);
    let (_node, executor, table) = new_table(fabric, &options, Reads::fixed(4));
    executor.block_on(async {
        let key = |number: u64| format!("key {number:02}").into_bytes();
        let (old, new) = ([1; 100], [2; 100]);
        let mut held = 0;
        let refused = loop {
            match table.put(&key(held), &old).await {
                Ok(_) => held += 1,
                Err(error) => break error,
            }
        };
        let full = IndexError::HeapFull {
            record_bytes: 16 + 6 + 100,
            heap_bytes: 4096,
        };
        assert_eq!(refused, full);
        // These records take 128 bytes, two pages; a page in five has the words of all, and some
        // are left to who moves records.
        assert_eq!(held, 24);
        assert_eq!(table.put(&key(0), &new).await, Err(full));
        for number in 0..held {
            assert_eq!(
                table.get(&key(number)).await.unwrap().as_deref(),
                Some(&old[..])
            );
        }
        assert!(table.get(&key(held)).await.unwrap().is_none());
        assert_eq!(scan_all(&table).await.unwrap().len() as u64, held);
        table.flush().await.unwrap();
        assert_eq!(table.occupancy().await.unwrap().entries, held);
        // What a removed record leaves is used again.
        assert!(table.remove(&key(3)).await.unwrap());
        assert!(table.put(&key(50), &old).await.unwrap());
        assert!(matches!(
            table.put(&key(51), &old).await,
            Err(IndexError::HeapFull { .. })
        ));
        assert!(table.remove(&key(4)).await.unwrap());
        assert!(table.update(&key(5), &old).await.unwrap());
    });
}
