//! One client's operations on a cuckoo table against a plain map: every slot kind, tiny and full
//! tables, one operation at a time and many.

mod common;

use common::cuckoo::{ORDERS, SLOTS, ShmTable, Ways, options, shm_table, ways};
use common::{Slot, scan_all};
use farslot_index::cuckoo::LookupOrder;
use farslot_index::{FindOrPut, Index, IndexError};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// More keys than the tables have slots.
const KEYS: u64 = 30;

#[derive(Clone, Debug)]
enum Step {
    Get(u64),
    GetAll(u64),
    GetMany(Vec<u64>),
    Put(u64, u64),
    FindOrPut(u64, u64),
    Update(u64, u64),
    Remove(u64),
    PutMany(BTreeMap<u64, u64>),
    FindOrPutMany(BTreeMap<u64, u64>),
    RemoveMany(BTreeSet<u64>),
    Scan,
    Flush,
}

fn step() -> impl Strategy<Value = Step> {
    let (key, value) = (0..KEYS, any::<u32>().prop_map(u64::from));
    let record = (key.clone(), value.clone());
    let records = btree_map(key.clone(), value, 0..40);
    prop_oneof![
        3 => key.clone().prop_map(Step::Get),
        1 => key.clone().prop_map(Step::GetAll),
        1 => vec(key.clone(), 0..40).prop_map(Step::GetMany),
        8 => record.clone().prop_map(|(key, value)| Step::Put(key, value)),
        3 => record.clone().prop_map(|(key, value)| Step::FindOrPut(key, value)),
        2 => record.prop_map(|(key, value)| Step::Update(key, value)),
        3 => key.clone().prop_map(Step::Remove),
        1 => records.clone().prop_map(Step::PutMany),
        1 => records.prop_map(Step::FindOrPutMany),
        1 => btree_set(key, 0..20).prop_map(Step::RemoveMany),
        1 => Just(Step::Scan),
        1 => Just(Step::Flush),
    ]
}

fn shape() -> impl Strategy<Value = Ways> {
    (2..=4u32, 1..=8u32).prop_map(|(of, slots)| ways(of, slots))
}

/// What the table must be.
struct Model {
    slot: Slot,
    bucket_slots: usize,
    slots: u64,
    records: HashMap<Vec<u8>, Vec<u8>>,
}

type Checked = Result<(), TestCaseError>;
type Got = farslot_index::Result<Option<farslot_index::Value>>;

impl Model {
    async fn step(&mut self, table: &ShmTable, step: &Step) -> Checked {
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
            &Step::Put(key, value) => {
                let (key, value) = (slot.key(key), slot.value(value));
                let put = table.put(&key, &value).await;
                self.has_put(key, value, put)?;
            }
            &Step::FindOrPut(key, value) => {
                let (key, value) = (slot.key(key), slot.value(value));
                let put = table.find_or_put(&key, &value).await;
                self.has_found_or_put(key, value, put)?;
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
            Step::PutMany(records) => self.put_many(table, records).await?,
            Step::FindOrPutMany(records) => self.find_or_put_many(table, records).await?,
            Step::RemoveMany(keys) => self.remove_many(table, keys).await?,
            Step::Scan => self.is_what_a_scan_finds(table).await?,
            Step::Flush => self.is_what_is_counted(table).await?,
        }
        Ok(())
    }

    async fn get_many(&self, table: &ShmTable, numbers: &[u64]) -> Checked {
        let keys: Vec<Vec<u8>> = numbers.iter().map(|key| self.slot.key(*key)).collect();
        let mut got = vec![None; keys.len()];
        let done = |number: usize, value: Got| {
            let value = value.unwrap().map(|value| value.to_vec());
            assert!(got[number].replace(value).is_none(), "answered twice");
        };
        table.get_many(keys.iter().map(|key| &key[..]), done).await;
        let there = keys.iter().map(|key| Some(self.records.get(key).cloned()));
        prop_assert_eq!(got, Vec::from_iter(there));
        Ok(())
    }

    fn bytes_of(&self, records: &BTreeMap<u64, u64>) -> Vec<(Vec<u8>, Vec<u8>)> {
        let records = records.iter();
        records
            .map(|(key, value)| (self.slot.key(*key), self.slot.value(*value)))
            .collect()
    }

    async fn put_many(&mut self, table: &ShmTable, of: &BTreeMap<u64, u64>) -> Checked {
        let records = self.bytes_of(of);
        let mut answers: Vec<_> = records.iter().map(|_| None).collect();
        let pairs = records.iter().map(|(key, value)| (&key[..], &value[..]));
        let done = |number: usize, put| answers[number] = Some(put);
        table.put_many(pairs, done).await;
        let mut answered: Vec<_> = records
            .into_iter()
            .zip(answers.into_iter().flatten())
            .collect();
        prop_assert_eq!(answered.len(), of.len());
        // Those that were refused came after those that were not.
        answered.sort_by_key(|(_, answer)| answer.is_err());
        for ((key, value), answer) in answered {
            self.has_put(key, value, answer)?;
        }
        Ok(())
    }

    async fn find_or_put_many(&mut self, table: &ShmTable, of: &BTreeMap<u64, u64>) -> Checked {
        let records = self.bytes_of(of);
        let mut answers: Vec<_> = records.iter().map(|_| None).collect();
        let pairs = records.iter().map(|(key, value)| (&key[..], &value[..]));
        let done = |number: usize, put| answers[number] = Some(put);
        table.find_or_put_many(pairs, done).await;
        let mut answered: Vec<_> = records
            .into_iter()
            .zip(answers.into_iter().flatten())
            .collect();
        prop_assert_eq!(answered.len(), of.len());
        answered.sort_by_key(|(_, answer)| answer.is_err());
        for ((key, value), answer) in answered {
            self.has_found_or_put(key, value, answer)?;
        }
        Ok(())
    }

    async fn remove_many(&mut self, table: &ShmTable, numbers: &BTreeSet<u64>) -> Checked {
        let keys: Vec<Vec<u8>> = numbers.iter().map(|key| self.slot.key(*key)).collect();
        let mut answers = vec![None; keys.len()];
        let done = |number: usize, removed: farslot_index::Result<bool>| {
            answers[number] = Some(removed.unwrap());
        };
        table
            .remove_many(keys.iter().map(|key| &key[..]), done)
            .await;
        for (key, answer) in keys.iter().zip(answers) {
            prop_assert_eq!(answer, Some(self.records.remove(key).is_some()));
        }
        Ok(())
    }

    fn record(&self, key: u64) -> Option<Vec<u8>> {
        self.records.get(&self.slot.key(key)).cloned()
    }

    fn has_put(&mut self, key: Vec<u8>, value: Vec<u8>, put: Result<bool, IndexError>) -> Checked {
        match put {
            Ok(new) => prop_assert_eq!(self.records.insert(key, value).is_none(), new),
            Err(error) => self.is_full(&key, &error)?,
        }
        Ok(())
    }

    fn has_found_or_put(
        &mut self,
        key: Vec<u8>,
        value: Vec<u8>,
        put: Result<FindOrPut, IndexError>,
    ) -> Checked {
        match (put, self.records.get(&key)) {
            (Ok(FindOrPut::Found(found)), Some(there)) => prop_assert_eq!(&*found, &there[..]),
            (Ok(FindOrPut::Inserted), None) => drop(self.records.insert(key, value)),
            (Err(error), _) => self.is_full(&key, &error)?,
            other => prop_assert!(false, "{other:?}"),
        }
        Ok(())
    }

    /// Only a new key is refused, and only where a bucket can be full.
    fn is_full(&self, key: &[u8], error: &IndexError) -> Checked {
        let IndexError::Full { probed, slots } = error else {
            return Err(TestCaseError::fail(error.to_string()));
        };
        prop_assert_eq!(*slots, self.slots);
        prop_assert!(*probed > 0 && *probed <= self.slots);
        prop_assert!(!self.records.contains_key(key));
        prop_assert!(self.records.len() >= self.bucket_slots);
        Ok(())
    }

    async fn is_what_a_scan_finds(&self, table: &ShmTable) -> Checked {
        let met = scan_all(table).await.unwrap();
        prop_assert_eq!(met.len(), self.records.len(), "each record once");
        prop_assert_eq!(&met.into_iter().collect::<HashMap<_, _>>(), &self.records);
        Ok(())
    }

    async fn is_what_is_counted(&self, table: &ShmTable) -> Checked {
        table.flush().await.unwrap();
        let occupancy = table.occupancy().await.unwrap();
        prop_assert_eq!(occupancy.entries, self.records.len() as u64);
        prop_assert_eq!(occupancy.used_slots, self.records.len() as u64);
        prop_assert_eq!(occupancy.slots, self.slots);
        Ok(())
    }

    async fn is_served(&self, table: &ShmTable) -> Checked {
        for number in 0..KEYS {
            let got = table.get(&self.slot.key(number)).await.unwrap();
            prop_assert_eq!(got.map(|value| value.to_vec()), self.record(number));
        }
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
    let mut model = Model {
        slot,
        bucket_slots: table.layout().bucket_slots as usize,
        slots: table.layout().slots(),
        records: HashMap::new(),
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
fn every_shape_is_a_map() {
    for slot in SLOTS {
        for order in ORDERS {
            let config = ProptestConfig {
                cases: 60,
                failure_persistence: None,
                ..ProptestConfig::default()
            };
            let runs = (1..=28u64, shape(), any::<u64>(), vec(step(), 0..120));
            let run = |(slots, shape, seed, steps): (u64, Ways, u64, Vec<Step>)| {
                play(slot, slots, shape, seed, order, &steps)
            };
            if let Err(error) = TestRunner::new(config).run(&runs, run) {
                panic!("{} {order:?}: {error}", slot.name);
            }
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
