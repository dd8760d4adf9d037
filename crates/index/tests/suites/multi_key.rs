//! Tables that hold several records of a key.

use crate::common::model::{Checked, run_cases};
use crate::common::{
    HEAP, HYBRID, HYBRID_SHORT, INLINE, PAIR, Slot, WORD, all_reads, new_table, scan_in_pieces,
};
use farslot_index::Sizing;
use farslot_index::linear::{KeyRule, LinearOptions, LinearTable};
use farslot_index::{Index, IndexError, IndexExt};
use farslot_testbed::{AnyEndpoint, Fabric};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;

const SLOTS: [Slot; 6] = [WORD, PAIR, INLINE, HEAP, HYBRID, HYBRID_SHORT];

fn options(slot: Slot, slots: u64, seed: u64) -> LinearOptions {
    LinearOptions {
        sizing: Sizing {
            keys: KeyRule::Multi,
            ..slot.options(slots, seed).sizing
        },
        ..slot.options(slots, seed)
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Put(u64, u64),
    FindOrPut(u64, u64),
    Get(u64),
    Remove(u64),
    Update(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let record = (0..5u64, 0..20u64);
    prop_oneof![
        5 => record.clone().prop_map(|(key, value)| Step::Put(key, value)),
        1 => record.prop_map(|(key, value)| Step::FindOrPut(key, value)),
        3 => (0..5u64).prop_map(Step::Get),
        2 => (0..5u64).prop_map(Step::Remove),
        1 => (0..5u64).prop_map(Step::Update),
    ]
}

/// A key's records, sorted, and how many slots are its own.
#[derive(Default)]
struct Records {
    values: Vec<Vec<u8>>,
    slots: usize,
}

struct Model {
    slot: Slot,
    slots: usize,
    keys: BTreeMap<Vec<u8>, Records>,
}

async fn all_of(table: &LinearTable<AnyEndpoint>, key: &[u8]) -> Vec<Vec<u8>> {
    let found = table.get_all(key).await.unwrap();
    let mut found: Vec<_> = found.iter().map(|value| value.to_vec()).collect();
    found.sort();
    found
}

impl Model {
    /// Adds a record if there is a slot for it.
    fn insert(&mut self, key: &[u8], value: Vec<u8>) -> bool {
        let used: usize = self.keys.values().map(|records| records.slots).sum();
        let records = self.keys.entry(key.to_vec()).or_default();
        if records.values.len() == records.slots {
            if used == self.slots {
                return false;
            }
            records.slots += 1;
        }
        records.values.push(value);
        records.values.sort();
        true
    }

    async fn step(&mut self, table: &LinearTable<AnyEndpoint>, step: Step) -> Checked {
        let slot = self.slot;
        let full = |error| matches!(error, IndexError::Full { .. });
        match step {
            Step::Put(key, value) => {
                let (key, value) = (slot.key(key), slot.value(value));
                match table.put(&key, &value).await {
                    Ok(new) => prop_assert!(new && self.insert(&key, value)),
                    Err(error) => prop_assert!(full(error) && !self.insert(&key, value)),
                }
            }
            Step::FindOrPut(key, value) => {
                let (key, value) = (slot.key(key), slot.value(value));
                let there = self.values(&key);
                match table.find_or_put(&key, &value).await {
                    Ok(Some(found)) => prop_assert!(there.contains(&found.to_vec())),
                    Ok(None) => {
                        prop_assert!(there.is_empty() && self.insert(&key, value));
                    }
                    Err(error) => {
                        prop_assert!(there.is_empty());
                        prop_assert!(full(error) && !self.insert(&key, value));
                    }
                }
            }
            Step::Get(key) => {
                let key = slot.key(key);
                let there = self.values(&key);
                match table.get(&key).await.unwrap() {
                    Some(value) => prop_assert!(there.contains(&value.to_vec())),
                    None => prop_assert!(there.is_empty()),
                }
                prop_assert_eq!(all_of(table, &key).await, there);
            }
            Step::Remove(key) => {
                let key = slot.key(key);
                let removed = table.remove(&key).await.unwrap();
                let records = self.keys.entry(key).or_default();
                prop_assert_eq!(removed, !std::mem::take(&mut records.values).is_empty());
            }
            Step::Update(key) => {
                let refused = table.update(&slot.key(key), &slot.value(1)).await;
                let operation = "update";
                prop_assert_eq!(refused, Err(IndexError::MultiKey { operation }));
            }
        }
        Ok(())
    }

    fn values(&self, key: &[u8]) -> Vec<Vec<u8>> {
        let records = self.keys.get(key);
        records.map_or_else(Vec::new, |records| records.values.clone())
    }

    async fn is(&self, table: &LinearTable<AnyEndpoint>) -> Checked {
        let records = self.keys.iter().flat_map(|(key, records)| {
            let values = records.values.iter();
            values.map(|value| (key.clone(), value.clone()))
        });
        let records = Vec::from_iter(records);
        for limits in [&[u64::MAX][..], &[self.slots as u64 % 5, 1, 3]] {
            let mut met = scan_in_pieces(table, limits).await.unwrap();
            met.sort();
            prop_assert_eq!(&met, &records);
        }
        table.flush().await.unwrap();
        let occupancy = table.occupancy().await.unwrap();
        prop_assert_eq!(occupancy.entries, records.len() as u64);
        let used: usize = self.keys.values().map(|records| records.slots).sum();
        prop_assert_eq!(occupancy.used_slots, used as u64);
        Ok(())
    }
}

pub fn every_slot_kind_is_a_multimap(fabric: Fabric) {
    for slot in SLOTS {
        let runs = (1..16u64, any::<u64>(), all_reads(), vec(step(), 0..60));
        run_cases(
            fabric.cases(150),
            slot.name,
            &runs,
            |(slots, seed, reads, steps)| {
                let (_node, executor, table) =
                    new_table(fabric, &options(slot, slots, seed), reads);
                let mut model = Model {
                    slot,
                    slots: slots as usize,
                    keys: BTreeMap::new(),
                };
                executor.block_on(async {
                    for step in steps {
                        model.step(&table, step).await?;
                    }
                    model.is(&table).await
                })
            },
        );
    }
}
