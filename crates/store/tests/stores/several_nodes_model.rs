//! Tables over three nodes against a plain map: random operations on tables of every scheme and
//! slot.

use farslot::layout::{CuckooShape, DuoShape, RaceShape};
use farslot::{Cursor, FieldSize, Operation, Outcome, SlotKind, Store, Table, TableOptions, Value};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};
use std::collections::BTreeMap;

const KEYS: u8 = 40;

#[derive(Clone, Debug)]
enum Step {
    Get(u8),
    Put(u8, u8),
    FindOrPut(u8, u8),
    Update(u8, u8),
    Remove(u8),
    GetMany(Vec<u8>),
    PutMany(BTreeMap<u8, u8>),
    FindOrPutMany(BTreeMap<u8, u8>),
    UpdateMany(BTreeMap<u8, u8>),
    RemoveMany(BTreeMap<u8, u8>),
    /// Of each key which operation, and with which value.
    RunMany(BTreeMap<u8, (u8, u8)>),
    /// By pieces of at most so many slots.
    Scan(Vec<u64>),
    Count,
}

fn step() -> impl Strategy<Value = Step> {
    let (key, value) = (0..KEYS, any::<u8>());
    let record = (key.clone(), value);
    let records = || btree_map(0..KEYS, any::<u8>(), 0..40);
    prop_oneof![
        3 => key.clone().prop_map(Step::Get),
        4 => record.clone().prop_map(|(key, value)| Step::Put(key, value)),
        2 => record.clone().prop_map(|(key, value)| Step::FindOrPut(key, value)),
        2 => record.prop_map(|(key, value)| Step::Update(key, value)),
        2 => key.clone().prop_map(Step::Remove),
        2 => vec(key, 0..60).prop_map(Step::GetMany),
        2 => records().prop_map(Step::PutMany),
        1 => records().prop_map(Step::FindOrPutMany),
        1 => records().prop_map(Step::UpdateMany),
        1 => records().prop_map(Step::RemoveMany),
        2 => btree_map(0..KEYS, (0..5u8, any::<u8>()), 0..40).prop_map(Step::RunMany),
        1 => vec(prop_oneof![3 => 0..60_u64, 1 => Just(u64::MAX)], 1..6).prop_map(Step::Scan),
        1 => Just(Step::Count),
    ]
}

/// A kind of table, and what keys and values of numbers are in it.
#[derive(Clone, Debug)]
struct Kind {
    options: TableOptions,
    key: usize,
    value: fn(u8) -> usize,
}

impl Kind {
    fn key(&self, number: u8) -> Vec<u8> {
        // The last byte tells; none has its top bit set, which a word slot has no room for.
        let mut key = vec![7; self.key];
        key[self.key - 1] = number;
        key
    }

    fn value(&self, number: u8) -> Vec<u8> {
        let len = (self.value)(number);
        (0..len)
            .map(|at| number.wrapping_add(at as u8) & 0x7f)
            .collect()
    }

    fn records(&self, of: &BTreeMap<u8, u8>) -> Vec<(Vec<u8>, Vec<u8>)> {
        let records = of.iter();
        records
            .map(|(key, value)| (self.key(*key), self.value(*value)))
            .collect()
    }
}

fn kinds() -> Vec<Kind> {
    let fixed = |slot, key: u32, value: u32| {
        TableOptions::new(200)
            .keys(FieldSize::Fixed(key))
            .values(FieldSize::Fixed(value))
            .slots(slot)
    };
    let any = |slot| {
        TableOptions::new(200)
            .keys(FieldSize::UpTo(20))
            .values(FieldSize::UpTo(60))
            .slots(slot)
            .heap_bytes(4 << 20)
    };
    let cuckoo = |options: TableOptions| options.cuckoo(CuckooShape::default());
    let kind = |options, key, value| Kind {
        options,
        key,
        value,
    };
    let some: fn(u8) -> usize = |number| usize::from(number % 60);
    vec![
        kind(fixed(SlotKind::Word, 4, 3), 4, |_| 3),
        kind(fixed(SlotKind::Pair, 8, 8), 8, |_| 8),
        kind(fixed(SlotKind::Inline, 12, 20), 12, |_| 20),
        kind(any(SlotKind::Heap), 9, some),
        kind(any(SlotKind::Hybrid), 9, some),
        kind(cuckoo(fixed(SlotKind::Word, 4, 3)), 4, |_| 3),
        kind(cuckoo(fixed(SlotKind::Inline, 12, 20)), 12, |_| 20),
        kind(cuckoo(any(SlotKind::Heap)), 9, some),
        kind(cuckoo(fixed(SlotKind::Signatures, 12, 20)), 12, |_| 20),
        kind(any(SlotKind::Heap).race(RaceShape::default()), 9, some),
        kind(any(SlotKind::Inline).duo(DuoShape::default()), 9, some),
        kind(any(SlotKind::Heap).duo(DuoShape::default()), 9, some),
    ]
}

type Checked = Result<(), TestCaseError>;

fn borrowed(records: &[(Vec<u8>, Vec<u8>)]) -> Vec<(&[u8], &[u8])> {
    let records = records.iter();
    records.map(|(key, value)| (&key[..], &value[..])).collect()
}

/// The answers to a batch, in the order of its items: each has one.
fn answers<T: Clone>(items: usize, batch: impl FnOnce(&mut dyn FnMut(usize, T))) -> Vec<T> {
    let mut answers = vec![None; items];
    batch(&mut |number, answer| {
        assert!(answers[number].replace(answer).is_none(), "answered twice");
    });
    answers
        .into_iter()
        .map(|answer| answer.expect("answered"))
        .collect()
}

fn take(kind: &Kind, table: &Table, there: &mut BTreeMap<u8, u8>, step: &Step) -> Checked {
    let value_of = |there: &BTreeMap<u8, u8>, key: u8| there.get(&key).map(|of| kind.value(*of));
    match step {
        &Step::Get(key) => {
            prop_assert_eq!(table.get(&kind.key(key)).unwrap(), value_of(there, key));
        }
        &Step::Put(key, value) => {
            let new = table.put(&kind.key(key), &kind.value(value)).unwrap();
            prop_assert_eq!(there.insert(key, value).is_none(), new);
        }
        &Step::FindOrPut(key, value) => {
            let found = table.find_or_put(&kind.key(key), &kind.value(value));
            prop_assert_eq!(found.unwrap(), value_of(there, key));
            there.entry(key).or_insert(value);
        }
        &Step::Update(key, value) => {
            let updated = table.update(&kind.key(key), &kind.value(value)).unwrap();
            prop_assert_eq!(updated, there.contains_key(&key));
            there.entry(key).and_modify(|old| *old = value);
        }
        &Step::Remove(key) => {
            let removed = table.remove(&kind.key(key)).unwrap();
            prop_assert_eq!(removed, there.remove(&key).is_some());
        }
        Step::GetMany(numbers) => {
            let keys: Vec<_> = numbers.iter().map(|key| kind.key(*key)).collect();
            let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
            let found = answers(keys.len(), |done| {
                table
                    .get_many(&keys, |number, found| {
                        done(number, found.map(<[u8]>::to_vec));
                    })
                    .unwrap();
            });
            let expected = numbers.iter().map(|key| value_of(there, *key));
            prop_assert_eq!(found, expected.collect::<Vec<_>>());
        }
        Step::PutMany(of) => {
            let records = kind.records(of);
            let new = answers(of.len(), |done| {
                table.put_many(&borrowed(&records), done).unwrap();
            });
            for ((key, value), new) in of.iter().zip(new) {
                prop_assert_eq!(there.insert(*key, *value).is_none(), new);
            }
        }
        Step::FindOrPutMany(of) => {
            let records = kind.records(of);
            let found = answers(of.len(), |done| {
                table
                    .find_or_put_many(&borrowed(&records), |number, found| {
                        done(number, found.map(<[u8]>::to_vec));
                    })
                    .unwrap();
            });
            for ((key, value), found) in of.iter().zip(found) {
                prop_assert_eq!(found, value_of(there, *key));
                there.entry(*key).or_insert(*value);
            }
        }
        Step::UpdateMany(of) => {
            let records = kind.records(of);
            let updated = answers(of.len(), |done| {
                table.update_many(&borrowed(&records), done).unwrap();
            });
            for ((key, value), updated) in of.iter().zip(updated) {
                prop_assert_eq!(updated, there.contains_key(key));
                there.entry(*key).and_modify(|old| *old = *value);
            }
        }
        Step::RemoveMany(of) => {
            let keys: Vec<_> = of.keys().map(|key| kind.key(*key)).collect();
            let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
            let removed = answers(of.len(), |done| {
                table.remove_many(&keys, done).unwrap();
            });
            for (key, removed) in of.keys().zip(removed) {
                prop_assert_eq!(removed, there.remove(key).is_some());
            }
        }
        Step::RunMany(of) => run_many(kind, table, there, of)?,
        Step::Scan(limits) => {
            let mut met = BTreeMap::new();
            let mut twice = false;
            let mut visit = |key: &[u8], value: &[u8]| {
                twice |= met.insert(key.to_vec(), value.to_vec()).is_some();
            };
            let (mut next, mut limits) = (Some(Cursor::default()), limits.iter().cycle());
            while let Some(cursor) = next {
                next = table
                    .scan(cursor, *limits.next().unwrap(), &mut visit)
                    .unwrap();
            }
            prop_assert!(!twice);
            prop_assert_eq!(met, kind.records(there).into_iter().collect());
        }
        Step::Count => {
            table.flush().unwrap();
            let counted = table.occupancy().unwrap().entries;
            prop_assert_eq!(counted, there.len() as u64);
            prop_assert_eq!(table.survey().unwrap().live(), there.len() as u64);
        }
    }
    Ok(())
}

fn run_many(
    kind: &Kind,
    table: &Table,
    there: &mut BTreeMap<u8, u8>,
    of: &BTreeMap<u8, (u8, u8)>,
) -> Checked {
    let records: Vec<_> = of
        .iter()
        .map(|(key, (_, value))| (kind.key(*key), kind.value(*value)))
        .collect();
    let operations: Vec<_> = of
        .values()
        .zip(borrowed(&records))
        .map(|((which, _), (key, value))| match which {
            0 => Operation::Get(key),
            1 => Operation::Put(key, value),
            2 => Operation::FindOrPut(key, value),
            3 => Operation::Update(key, value),
            _ => Operation::Remove(key),
        })
        .collect();
    let outcomes = answers(of.len(), |done| {
        table
            .run_many(&operations, |number, outcome| {
                done(number, outcome.detached());
            })
            .unwrap();
    });
    for ((key, (which, value)), outcome) in of.iter().zip(outcomes) {
        let before = there.get(key).map(|of| kind.value(*of));
        let was = before.is_some();
        let expected = match which {
            0 | 2 => Outcome::Value(before.as_deref().map(Value::from)),
            1 => Outcome::Changed(!was),
            _ => Outcome::Changed(was),
        };
        prop_assert_eq!(outcome, expected);
        match which {
            0 => {}
            1 => drop(there.insert(*key, *value)),
            2 => drop(there.entry(*key).or_insert(*value)),
            3 => drop(there.entry(*key).and_modify(|old| *old = *value)),
            _ => drop(there.remove(key)),
        }
    }
    Ok(())
}

fn run_cases<S: Strategy>(cases: u32, runs: &S, run: impl Fn(S::Value) -> Checked) {
    let config = ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    if let Err(error) = TestRunner::new(config).run(runs, run) {
        panic!("{error}");
    }
}

const ADDRESS: &str = "sim://cx5-edr?seed=5&memory=16MiB&nodes=3";

#[test]
fn tables_of_every_scheme_over_three_nodes_are_as_a_map() {
    for kind in kinds() {
        run_cases(16, &vec(step(), 1..60), |steps| {
            let store = Store::open(ADDRESS).unwrap();
            store.create("t", &kind.options).unwrap();
            let table = store.table("t").unwrap();
            let mut there = BTreeMap::new();
            for step in &steps {
                take(&kind, &table, &mut there, step)?;
            }
            // Another client finds the same.
            table.close().unwrap();
            let other = store.table("t").unwrap();
            for key in 0..KEYS {
                take(&kind, &other, &mut there, &Step::Get(key))?;
            }
            take(&kind, &other, &mut there, &Step::Scan(vec![3]))
        });
    }
}

#[test]
fn sealed_tables_over_three_nodes_are_as_the_map_that_they_are_of() {
    let options = TableOptions::new(1)
        .keys(FieldSize::UpTo(20))
        .values(FieldSize::UpTo(60))
        .sealed();
    let kind = Kind {
        options,
        key: 9,
        value: |number| usize::from(number % 60),
    };
    run_cases(40, &btree_map(0..KEYS, any::<u8>(), 0..40), |mut of| {
        let store = Store::open(ADDRESS).unwrap();
        let records = kind.records(&of);
        let built = store.build("t", &kind.options, &borrowed(&records));
        prop_assert_eq!(built, Ok(of.len() as u64));
        let table = store.table("t").unwrap();
        for step in [
            Step::GetMany((0..KEYS).collect()),
            Step::Scan(vec![u64::MAX, 1]),
            Step::Count,
        ] {
            take(&kind, &table, &mut of, &step)?;
        }
        Ok(())
    });
}
