//! One client's operations on a table against a plain map: unique keys, one operation at a time and
//! many.

use super::{Slot, piece_limits, scan_in_pieces};
use farslot_index::{Index, IndexError, IndexExt, Occupancy, Operation, Outcome, Value};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};
use std::collections::{BTreeMap, BTreeSet, HashMap};

#[derive(Clone, Debug)]
pub enum Step {
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
    /// By pieces of at most so many slots.
    Scan(Vec<u64>),
    Flush,
}

/// A step on one of so many keys, or on several.
pub fn step(keys: u64) -> impl Strategy<Value = Step> {
    let (key, value) = (0..keys, any::<u32>().prop_map(u64::from));
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
        1 => piece_limits().prop_map(Step::Scan),
        1 => Just(Step::Flush),
    ]
}

pub type Checked = Result<(), TestCaseError>;
pub type Records = HashMap<Vec<u8>, Vec<u8>>;

/// Which keys a table has room for, and what it counts.
pub trait Room {
    type Table: Index;

    /// The table has put or found the key.
    fn takes(&mut self, key: &[u8]) -> Checked;
    /// The table has refused to put the key.
    fn refuses(&self, key: &[u8], records: &Records, error: &IndexError) -> Checked;
    /// The table counts that much, besides its entries.
    fn counts(&self, table: &Self::Table, records: &Records, occupancy: Occupancy) -> Checked;
}

/// What a table of so many keys must be.
pub struct Model<R> {
    slot: Slot,
    keys: u64,
    room: R,
    records: Records,
}

impl<R: Room> Model<R> {
    pub fn new(slot: Slot, keys: u64, room: R) -> Self {
        Self {
            slot,
            keys,
            room,
            records: HashMap::new(),
        }
    }

    /// Takes the steps; then all that the table has must be what it should have. Gives itself back,
    /// to go on.
    pub async fn play(mut self, table: &R::Table, steps: &[Step]) -> Result<Self, TestCaseError> {
        for step in steps {
            self.step(table, step).await?;
        }
        for key in 0..self.keys {
            self.step(table, &Step::Get(key)).await?;
        }
        self.is_what_a_scan_finds(table, &[u64::MAX]).await?;
        self.is_what_is_counted(table).await?;
        Ok(self)
    }

    async fn step(&mut self, table: &R::Table, step: &Step) -> Checked {
        let slot = self.slot;
        match step {
            &Step::Get(key) => {
                let key = slot.key(key);
                let got = table.get(&key).await.unwrap();
                let there = self.records.get(&key);
                prop_assert_eq!(got.as_deref(), there.map(|value| &value[..]));
            }
            &Step::GetAll(key) => {
                let key = slot.key(key);
                let found = table.get_all(&key).await.unwrap();
                let found: Vec<_> = found.iter().map(|value| value.to_vec()).collect();
                prop_assert_eq!(found, Vec::from_iter(self.records.get(&key).cloned()));
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
            Step::PutMany(of) => {
                let (records, mut answers) = (self.bytes_of(of), Vec::new());
                let pairs = records.iter().map(|(key, value)| (&key[..], &value[..]));
                let done = |number: usize, put| answers.push((number, put));
                table.put_many(pairs, done).await;
                for (key, value, put) in answered(records, answers) {
                    self.has_put(key, value, put)?;
                }
            }
            Step::FindOrPutMany(of) => {
                let (records, mut answers) = (self.bytes_of(of), Vec::new());
                let puts = records.iter();
                let puts = puts.map(|(key, value)| Operation::FindOrPut(key, value));
                let done = |number: usize, put: farslot_index::Result<Outcome>| {
                    answers.push((number, put.map(Outcome::into_value)));
                };
                table.run_each(&Vec::from_iter(puts), done).await;
                for (key, value, put) in answered(records, answers) {
                    self.has_found_or_put(key, value, put)?;
                }
            }
            Step::RemoveMany(keys) => self.remove_many(table, keys).await?,
            Step::Scan(limits) => self.is_what_a_scan_finds(table, limits).await?,
            Step::Flush => self.is_what_is_counted(table).await?,
        }
        Ok(())
    }

    async fn get_many(&self, table: &R::Table, numbers: &[u64]) -> Checked {
        let keys: Vec<Vec<u8>> = numbers.iter().map(|key| self.slot.key(*key)).collect();
        let mut got = vec![None; keys.len()];
        let done = |number: usize, value: farslot_index::Result<Option<Value>>| {
            let value = value.unwrap().map(|value| value.to_vec());
            assert!(got[number].replace(value).is_none(), "answered twice");
        };
        table.get_many(keys.iter().map(|key| &key[..]), done).await;
        let there = keys.iter().map(|key| Some(self.records.get(key).cloned()));
        prop_assert_eq!(got, Vec::from_iter(there));
        Ok(())
    }

    async fn remove_many(&mut self, table: &R::Table, numbers: &BTreeSet<u64>) -> Checked {
        let keys: Vec<Vec<u8>> = numbers.iter().map(|key| self.slot.key(*key)).collect();
        let mut answers = vec![None; keys.len()];
        let done = |number: usize, removed: farslot_index::Result<Outcome>| {
            answers[number] = Some(removed.unwrap().is_changed());
        };
        let removals = keys.iter().map(|key| Operation::Remove(key));
        table.run_each(&Vec::from_iter(removals), done).await;
        for (key, answer) in keys.iter().zip(answers) {
            prop_assert_eq!(answer, Some(self.records.remove(key).is_some()));
        }
        Ok(())
    }

    fn bytes_of(&self, records: &BTreeMap<u64, u64>) -> Vec<(Vec<u8>, Vec<u8>)> {
        let records = records.iter();
        records
            .map(|(key, value)| (self.slot.key(*key), self.slot.value(*value)))
            .collect()
    }

    fn has_put(
        &mut self,
        key: Vec<u8>,
        value: Vec<u8>,
        put: farslot_index::Result<bool>,
    ) -> Checked {
        match put {
            Ok(new) => {
                self.room.takes(&key)?;
                prop_assert_eq!(self.records.insert(key, value).is_none(), new);
                Ok(())
            }
            Err(error) => self.room.refuses(&key, &self.records, &error),
        }
    }

    fn has_found_or_put(
        &mut self,
        key: Vec<u8>,
        value: Vec<u8>,
        put: farslot_index::Result<Option<Value>>,
    ) -> Checked {
        match (put, self.records.get(&key)) {
            (Ok(Some(found)), Some(there)) => prop_assert_eq!(&*found, &there[..]),
            (Ok(None), None) => {
                self.room.takes(&key)?;
                self.records.insert(key, value);
            }
            (Err(error), _) => self.room.refuses(&key, &self.records, &error)?,
            other => prop_assert!(false, "{other:?}"),
        }
        Ok(())
    }

    async fn is_what_a_scan_finds(&self, table: &R::Table, limits: &[u64]) -> Checked {
        let met = scan_in_pieces(table, limits).await.unwrap();
        prop_assert_eq!(met.len(), self.records.len(), "each record once");
        prop_assert_eq!(&met.into_iter().collect::<Records>(), &self.records);
        Ok(())
    }

    async fn is_what_is_counted(&self, table: &R::Table) -> Checked {
        table.flush().await.unwrap();
        let occupancy = table.occupancy().await.unwrap();
        prop_assert_eq!(occupancy.entries, self.records.len() as u64);
        self.room.counts(table, &self.records, occupancy)
    }
}

/// The records with their answers: those that were refused came after those that were not.
fn answered<A>(
    records: Vec<(Vec<u8>, Vec<u8>)>,
    mut answers: Vec<(usize, farslot_index::Result<A>)>,
) -> Vec<(Vec<u8>, Vec<u8>, farslot_index::Result<A>)> {
    answers.sort_by_key(|(number, _)| *number);
    let numbers = answers.iter().map(|(number, _)| *number);
    assert!(numbers.eq(0..records.len()), "each is answered once");
    let mut all: Vec<_> = records
        .into_iter()
        .zip(answers)
        .map(|((key, value), (_, answer))| (key, value, answer))
        .collect();
    all.sort_by_key(|(_, _, answer)| answer.is_err());
    all
}

/// Runs so many cases.
pub fn run_cases<S: Strategy>(cases: u32, name: &str, runs: &S, run: impl Fn(S::Value) -> Checked) {
    let config = ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    if let Err(error) = TestRunner::new(config).run(runs, run) {
        panic!("{name}: {error}");
    }
}
