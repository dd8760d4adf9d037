//! One client's operations against a plain map: unique keys, every slot kind, full tables.

mod common;

use common::{HEAP, Reads, SLOTS, Slot, scan_all, shm_table};
use farslot_fabric::Endpoint;
use farslot_index::linear::LinearTable;
use farslot_index::{FindOrPut, Index, IndexError};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};
use std::collections::{BTreeSet, HashMap};

#[derive(Clone, Debug)]
enum Step {
    Get(u64),
    GetAll(u64),
    GetMany(Vec<u64>),
    Put(u64, u64),
    FindOrPut(u64, u64),
    Update(u64, u64),
    Remove(u64),
    Scan,
    Flush,
}

fn step() -> impl Strategy<Value = Step> {
    let (key, value) = (0..14u64, any::<u32>().prop_map(u64::from));
    let record = (key.clone(), value);
    prop_oneof![
        3 => key.clone().prop_map(Step::Get),
        1 => key.clone().prop_map(Step::GetAll),
        1 => vec(key.clone(), 0..40).prop_map(Step::GetMany),
        4 => record.clone().prop_map(|(key, value)| Step::Put(key, value)),
        2 => record.clone().prop_map(|(key, value)| Step::FindOrPut(key, value)),
        2 => record.prop_map(|(key, value)| Step::Update(key, value)),
        2 => key.prop_map(Step::Remove),
        1 => Just(Step::Scan),
        1 => Just(Step::Flush),
    ]
}

fn reads() -> impl Strategy<Value = Reads> {
    let fixed = prop_oneof![Just(Some(1)), Just(Some(3)), Just(Some(64)), Just(None)];
    (fixed, any::<bool>()).prop_map(|(fixed, look_ahead)| Reads { fixed, look_ahead })
}

/// What the table must be: the records, and the keys that have a slot, dead or alive.
struct Model {
    slot: Slot,
    slots: usize,
    records: HashMap<Vec<u8>, Vec<u8>>,
    owners: BTreeSet<Vec<u8>>,
}

type Checked = Result<(), TestCaseError>;

impl Model {
    /// Whether a put of the key finds no place; else the key has one from now on.
    fn refuses(&mut self, key: &[u8]) -> bool {
        let full = !self.owners.contains(key) && self.owners.len() == self.slots;
        if !full {
            self.owners.insert(key.to_vec());
        }
        full
    }

    async fn step<E: Endpoint>(&mut self, table: &LinearTable<E>, step: &Step) -> Checked {
        let slot = self.slot;
        match step {
            &Step::Get(key) => {
                let got = table.get(&slot.key(key)).await.unwrap();
                prop_assert_eq!(got.map(|value| value.to_vec()), self.record(key));
            }
            &Step::GetAll(key) => {
                let (there, mut found) = (self.record(key), Vec::new());
                let key = slot.key(key);
                let all = table.get_all(&key, |value| found.push(value.to_vec()));
                prop_assert_eq!(all.await.unwrap(), found.len());
                prop_assert_eq!(found, Vec::from_iter(there));
            }
            Step::GetMany(keys) => self.get_many(table, keys).await?,
            &Step::Put(key, value) => self.put(table, slot.key(key), slot.value(value)).await?,
            &Step::FindOrPut(key, value) => {
                let (key, value) = (slot.key(key), slot.value(value));
                self.find_or_put(table, key, value).await?;
            }
            &Step::Update(key, value) => {
                let (key, value) = (slot.key(key), slot.value(value));
                let updated = table.update(&key, &value).await.unwrap();
                prop_assert_eq!(updated, self.records.contains_key(&key));
                self.records.entry(key).and_modify(|old| *old = value);
            }
            &Step::Remove(key) => {
                let key = slot.key(key);
                let removed = table.remove(&key).await.unwrap();
                prop_assert_eq!(removed, self.records.remove(&key).is_some());
            }
            Step::Scan => self.is_what_a_scan_finds(table).await?,
            Step::Flush => self.is_what_is_counted(table).await?,
        }
        Ok(())
    }

    async fn get_many<E: Endpoint>(&self, table: &LinearTable<E>, numbers: &[u64]) -> Checked {
        let keys: Vec<Vec<u8>> = numbers.iter().map(|key| self.slot.key(*key)).collect();
        let mut got = vec![None; keys.len()];
        let done = |number: usize, value: farslot_index::Result<Option<farslot_index::Value>>| {
            let value = value.unwrap().map(|value| value.to_vec());
            assert!(got[number].replace(value).is_none(), "answered twice");
        };
        table.get_many(keys.iter().map(|key| &key[..]), done).await;
        let there = keys.iter().map(|key| Some(self.records.get(key).cloned()));
        prop_assert_eq!(got, Vec::from_iter(there));
        Ok(())
    }

    fn record(&self, key: u64) -> Option<Vec<u8>> {
        self.records.get(&self.slot.key(key)).cloned()
    }

    async fn put<E: Endpoint>(
        &mut self,
        table: &LinearTable<E>,
        key: Vec<u8>,
        value: Vec<u8>,
    ) -> Checked {
        let put = table.put(&key, &value).await;
        if self.refuses(&key) {
            return self.is_full(put.err());
        }
        let new = self.records.insert(key, value).is_none();
        prop_assert_eq!(put.unwrap(), new);
        Ok(())
    }

    async fn find_or_put<E: Endpoint>(
        &mut self,
        table: &LinearTable<E>,
        key: Vec<u8>,
        value: Vec<u8>,
    ) -> Checked {
        let put = table.find_or_put(&key, &value).await;
        if self.refuses(&key) {
            return self.is_full(put.err());
        }
        match (put.unwrap(), self.records.get(&key)) {
            (FindOrPut::Found(found), Some(there)) => prop_assert_eq!(&*found, &there[..]),
            (FindOrPut::Inserted, None) => drop(self.records.insert(key, value)),
            other => prop_assert!(false, "{other:?}"),
        }
        Ok(())
    }

    fn is_full(&self, error: Option<IndexError>) -> Checked {
        let slots = self.slots as u64;
        let full = IndexError::Full {
            probed: slots,
            slots,
        };
        prop_assert_eq!(error, Some(full));
        Ok(())
    }

    async fn is_what_a_scan_finds<E: Endpoint>(&self, table: &LinearTable<E>) -> Checked {
        let met = scan_all(table).await.unwrap();
        prop_assert_eq!(met.len(), self.records.len(), "each record once");
        prop_assert_eq!(&met.into_iter().collect::<HashMap<_, _>>(), &self.records);
        Ok(())
    }

    async fn is_what_is_counted<E: Endpoint>(&self, table: &LinearTable<E>) -> Checked {
        table.flush().await.unwrap();
        let occupancy = table.occupancy().await.unwrap();
        prop_assert_eq!(occupancy.entries, self.records.len() as u64);
        prop_assert_eq!(occupancy.used_slots, self.owners.len() as u64);
        prop_assert_eq!(table.load_factor(), occupancy.load_factor());
        Ok(())
    }

    async fn is_served<E: Endpoint>(&self, table: &LinearTable<E>) -> Checked {
        for (key, value) in &self.records {
            let got = table.get(key).await.unwrap();
            prop_assert_eq!(got.as_deref(), Some(&value[..]));
        }
        Ok(())
    }
}

fn play(slot: Slot, slots: u64, seed: u64, reads: Reads, steps: &[Step]) -> Checked {
    let (executor, table) = shm_table(&slot.options(slots, seed), reads);
    let mut model = Model {
        slot,
        slots: slots as usize,
        records: HashMap::new(),
        owners: BTreeSet::new(),
    };
    executor.block_on(async {
        for step in steps {
            model.step(&table, step).await?;
        }
        model.is_served(&table).await?;
        model.is_what_a_scan_finds(&table).await?;
        model.is_what_is_counted(&table).await
    })
}

#[test]
fn every_slot_kind_is_a_map() {
    for slot in SLOTS {
        let config = ProptestConfig {
            cases: 150,
            failure_persistence: None,
            ..ProptestConfig::default()
        };
        let runs = (1..=12u64, any::<u64>(), reads(), vec(step(), 0..80));
        let run = |(slots, seed, reads, steps): (u64, u64, Reads, Vec<Step>)| {
            play(slot, slots, seed, reads, &steps)
        };
        if let Err(error) = TestRunner::new(config).run(&runs, run) {
            panic!("{}: {error}", slot.name);
        }
    }
}

#[test]
fn a_full_table_refuses_new_keys_and_serves_the_others() {
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
            play(slot, 8, 5, reads, &Vec::from_iter(steps)).unwrap();
        }
    }
}

#[test]
fn a_full_heap_refuses_records_and_serves_the_others() {
    let mut options = HEAP.options(64, 7);
    options.heap_bytes = Some(2048);
    let (executor, table) = shm_table(&options, Reads::fixed(4));
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
            heap_bytes: 2048,
        };
        assert_eq!(refused, full);
        // The first granule of 16 bytes is not used, and these records take 128.
        assert_eq!(held, (2048 - 16) / 128);
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
