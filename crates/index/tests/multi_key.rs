//! Tables that hold several records of a key.

mod common;

use common::model::run_cases;
use common::{
    HEAP, HYBRID, HYBRID_SHORT, INLINE, PAIR, Reads, Slot, TABLE, WORD, all_reads, region_bytes,
    scan_all, shm_table,
};
use farslot_fabric::sim::{ClientStop, FaultPlan, HostId, NicProfile, Simulation, When, World};
use farslot_fabric::{Endpoint, Executor, Limits, Rights};
use farslot_index::linear::{KeyRule, LinearOptions, LinearTable};
use farslot_index::{FindOrPut, Index, IndexError};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use std::collections::BTreeMap;
use std::rc::Rc;

const SLOTS: [Slot; 6] = [WORD, PAIR, INLINE, HEAP, HYBRID, HYBRID_SHORT];

fn options(slot: Slot, slots: u64, seed: u64) -> LinearOptions {
    LinearOptions {
        keys: KeyRule::Multi,
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

type Checked = Result<(), TestCaseError>;

async fn all_of<E: Endpoint>(table: &LinearTable<E>, key: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let count = table.get_all(key, |value| found.push(value.to_vec()));
    assert_eq!(count.await.unwrap(), found.len());
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

    async fn step<E: Endpoint>(&mut self, table: &LinearTable<E>, step: Step) -> Checked {
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
                    Ok(FindOrPut::Found(found)) => prop_assert!(there.contains(&found.to_vec())),
                    Ok(FindOrPut::Inserted) => {
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

    async fn is<E: Endpoint>(&self, table: &LinearTable<E>) -> Checked {
        let records = self.keys.iter().flat_map(|(key, records)| {
            let values = records.values.iter();
            values.map(|value| (key.clone(), value.clone()))
        });
        let records = Vec::from_iter(records);
        let mut met = scan_all(table).await.unwrap();
        met.sort();
        prop_assert_eq!(&met, &records);
        table.flush().await.unwrap();
        let occupancy = table.occupancy().await.unwrap();
        prop_assert_eq!(occupancy.entries, records.len() as u64);
        let used: usize = self.keys.values().map(|records| records.slots).sum();
        prop_assert_eq!(occupancy.used_slots, used as u64);
        Ok(())
    }
}

#[test]
fn every_slot_kind_is_a_multimap() {
    for slot in SLOTS {
        let runs = (1..16u64, any::<u64>(), all_reads(), vec(step(), 0..60));
        run_cases(150, slot.name, &runs, |(slots, seed, reads, steps)| {
            let (executor, table) = shm_table(&options(slot, slots, seed), reads);
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
        });
    }
}

/// A remover that stops half way leaves a dead slot in front of a live one.
#[test]
fn a_record_behind_a_dead_slot_is_found() {
    for slot in SLOTS {
        let mut dead_in_front = 0;
        for last in 1..8 {
            let layout = options(slot, 16, 3).layout().unwrap();
            let world = World::new(last, NicProfile::connectx5_edr());
            world.add_node(&[(region_bytes(&layout), Rights::ALL)]);
            let open = async |endpoint: Rc<_>| {
                let sizes = Reads::fixed(4).sizes(&layout);
                LinearTable::open(endpoint, TABLE, layout.clone(), sizes)
                    .await
                    .unwrap()
            };
            let key = slot.key(5);
            let [first, second, other] = [1, 2, 3].map(|number| slot.value(number));
            let endpoint = world.endpoint(Limits::default());
            let writer = Executor::new(Rc::clone(&endpoint));
            let table = writer.block_on(open(endpoint));
            writer.block_on(async {
                assert!(table.put(&key, &first).await.unwrap());
                assert!(table.put(&key, &second).await.unwrap());
            });

            let mut simulation = Simulation::new(world.clone());
            let remover = simulation.add_client(HostId(0), Limits::default());
            world.set_faults(FaultPlan {
                client_stops: vec![ClientStop {
                    client: remover,
                    when: When::AfterVerbs(last),
                }],
                ..FaultPlan::default()
            });
            let (of_layout, of_key) = (layout.clone(), key.clone());
            simulation.spawn(remover, async move |endpoint| {
                let sizes = Reads::fixed(4).sizes(&of_layout);
                let opening = LinearTable::open(endpoint, TABLE, of_layout, sizes);
                opening.await.unwrap().remove(&of_key).await.unwrap()
            });
            simulation.run();
            world.advance_to(world.now() + 1_000_000);

            writer.block_on(async {
                let left = all_of(&table, &key).await;
                if left == [second.clone()] {
                    dead_in_front += 1;
                    let got = table.get(&key).await.unwrap();
                    assert_eq!(got.as_deref(), Some(&second[..]));
                    match table.find_or_put(&key, &other).await.unwrap() {
                        FindOrPut::Found(found) => assert_eq!(&*found, &second[..]),
                        FindOrPut::Inserted => panic!("{}: the key is present", slot.name),
                    }
                    assert!(table.put(&key, &other).await.unwrap());
                    assert_eq!(all_of(&table, &key).await.len(), 2);
                    assert!(table.remove(&key).await.unwrap());
                }
                if left.is_empty() {
                    let put = table.find_or_put(&key, &other).await.unwrap();
                    assert!(matches!(put, FindOrPut::Inserted));
                }
            });
        }
        assert!(dead_in_front > 0, "{}", slot.name);
    }
}
