//! A table through the public API: every kind of slot.

use crate::common::TestStore;
use farslot::index::IndexError;
use farslot::layout::{CuckooShape, DuoShape, RaceShape};
use farslot::{
    BatchError, ErrorKind, Expiry, FieldSize, Operation, Outcome, SlotKind, StoreError, Survey,
    Table, TableOptions, Value,
};
use std::collections::HashMap;
use std::time::Duration;

fn kinds() -> [TableOptions; 16] {
    let fixed = |key, value| {
        TableOptions::new(500)
            .keys(FieldSize::Fixed(key))
            .values(FieldSize::Fixed(value))
    };
    let cuckoo = CuckooShape::default();
    let alone = DuoShape {
        readers: false,
        ..DuoShape::default()
    };
    [
        fixed(4, 3).slots(SlotKind::Word),
        fixed(4, 3),
        fixed(4, 3).slots(SlotKind::Inline),
        fixed(4, 3).slots(SlotKind::Heap),
        fixed(4, 3).slots(SlotKind::Hybrid).inline_bytes(8),
        fixed(4, 3).slots(SlotKind::Word).cuckoo(cuckoo),
        fixed(4, 3).cuckoo(cuckoo),
        fixed(4, 3).slots(SlotKind::Heap).cuckoo(cuckoo),
        fixed(4, 3).slots(SlotKind::Signatures).cuckoo(cuckoo),
        fixed(4, 3).race(RaceShape::default()),
        fixed(4, 3).duo(DuoShape::default()),
        fixed(4, 3).slots(SlotKind::Heap).duo(DuoShape::default()),
        // One that grows meanwhile.
        fixed(4, 3).capacity(40).duo(alone).grow_to(1_000),
        fixed(4, 3).chained(),
        fixed(4, 3).capacity(40).chained().grow_to(1_000),
        fixed(4, 3).ordered(),
    ]
}

fn each_table<S: TestStore>(test: impl Fn(&Table)) {
    let node = S::start(64 << 20);
    let store = node.open();
    for (index, options) in kinds().iter().enumerate() {
        let name = format!("kind-{index}");
        store.create(&name, options).unwrap();
        test(&store.table(&name).unwrap());
    }
}

fn key(number: u32) -> [u8; 4] {
    number.to_le_bytes()
}

fn value(number: u32) -> [u8; 3] {
    [number as u8, (number >> 8) as u8, 7]
}

pub fn single_operations<S: TestStore>() {
    each_table::<S>(|table| {
        assert_eq!(table.get(&key(1)).unwrap(), None);
        assert!(table.put(&key(1), &value(1)).unwrap());
        assert!(!table.put(&key(1), &value(2)).unwrap());
        assert_eq!(table.get(&key(1)).unwrap().unwrap(), value(2));
        let found = table.find_or_put(&key(1), &value(3)).unwrap();
        assert_eq!(found.as_deref(), Some(&value(2)[..]));
        assert_eq!(table.find_or_put(&key(2), &value(3)), Ok(None));
        assert!(table.update(&key(2), &value(4)).unwrap());
        assert!(!table.update(&key(3), &value(4)).unwrap());
        assert!(table.remove(&key(2)).unwrap());
        assert!(!table.remove(&key(2)).unwrap());
        assert_eq!(table.get_all(&key(1)).unwrap(), [value(2).to_vec()]);
        table.flush().unwrap();
        assert_eq!(table.occupancy().unwrap().entries, 1);
    });
}

pub fn batches_iteration_and_survey<S: TestStore>() {
    each_table::<S>(|table| {
        let records: Vec<_> = (0..300)
            .map(|number| (key(number), value(number)))
            .collect();
        let batch: Vec<(&[u8], &[u8])> = records
            .iter()
            .map(|(key, value)| (&key[..], &value[..]))
            .collect();
        let mut new = 0;
        table
            .put_many(&batch, |_, put| new += u32::from(put))
            .unwrap();
        assert_eq!(new, 300);

        let keys: Vec<_> = (200..400).map(key).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let mut hits = 0;
        table
            .get_many(&keys, |index, found| match found {
                Some(found) => {
                    assert_eq!(found, value(200 + index as u32));
                    hits += 1;
                }
                None => assert!(index >= 100),
            })
            .unwrap();
        assert_eq!(hits, 100);

        let mut removed = 0;
        table
            .remove_many(&keys, |_, was| removed += u32::from(was))
            .unwrap();
        assert_eq!(removed, 100);

        let mut seen = HashMap::new();
        table
            .for_each(|key, value| {
                assert!(seen.insert(key.to_vec(), value.to_vec()).is_none());
            })
            .unwrap();
        let expected: HashMap<_, _> = (0..200)
            .map(|number| (key(number).to_vec(), value(number).to_vec()))
            .collect();
        assert_eq!(seen, expected);

        let survey = table.survey().unwrap();
        assert_eq!(survey.live(), 200);
        if table.scheme().transactional() {
            assert!(matches!(survey, Survey::Counted(_)), "{survey:?}");
            return;
        }
        assert_eq!(survey.parts().len(), 64);
        let load: f64 = survey.parts().iter().sum::<f64>() / 64.0;
        match &survey {
            Survey::Linear(survey) => {
                assert_eq!(survey.dead, 100);
                assert!(survey.cluster_count() > 0);
                assert!((load - survey.load_factor()).abs() < 1e-9, "{load}");
            }
            Survey::Cuckoo(survey) => {
                let counts = &survey.counts;
                let buckets = counts.by_used.iter().sum::<u64>();
                let used = (0..).zip(&counts.by_used).map(|(used, count)| used * count);
                assert_eq!((buckets * 4, used.sum::<u64>()), (counts.slots, 200));
                // The parts are of unequal sizes: a bucket more, or less.
                assert!((load - counts.load_factor()).abs() < 0.1, "{load}");
            }
            Survey::Race(survey) => {
                assert_eq!((survey.begun, survey.moving), (0, 0));
                assert!((load - survey.load_factor()).abs() < 0.1, "{load}");
            }
            Survey::Duo(survey) => {
                // One that grows may not have split all of its buckets yet.
                assert!(survey.stashed < 8, "{survey:?}");
                assert!((load - survey.counts.load_factor()).abs() < 0.1, "{load}");
            }
            other => panic!("{other:?}"),
        }
    });
}

/// More of each than are under way at once; callbacks write as well.
pub fn a_batch_of_all_kinds_of_operations_does_each_of_them<S: TestStore>() {
    each_table::<S>(|table| {
        // Of five keys in a row one each is got, put, found or put, updated and removed; the first
        // half is there.
        let keys: Vec<_> = (0..400).map(key).collect();
        for key in &keys[..200] {
            table.put(key, &[1, 1, 1]).unwrap();
        }
        let new = [2, 2, 2];
        let operations: Vec<_> = keys
            .iter()
            .enumerate()
            .map(|(number, key)| match number % 5 {
                0 => Operation::Get(key),
                1 => Operation::Put(key, &new),
                2 => Operation::FindOrPut(key, &new),
                3 => Operation::Update(key, &new),
                _ => Operation::Remove(key),
            })
            .collect();
        let mut answered = [0; 400];
        let ran = table.run_many(&operations, |number, outcome| {
            let was = number < 200;
            let old = was.then_some(&[1, 1, 1][..]);
            let expected = match number % 5 {
                0 | 2 => Outcome::Value(old.map(Value::from)),
                1 => Outcome::Changed(!was),
                _ => Outcome::Changed(was),
            };
            assert_eq!(outcome, expected, "{number}");
            answered[number] += 1;
            if number < 100 {
                assert_eq!(table.put(&key(400 + number as u32), &new), Ok(true));
            }
        });
        assert_eq!((ran, answered), (Ok(()), [1; 400]));
        for (number, key) in keys.iter().enumerate() {
            let left = match (number % 5, number < 200) {
                (0 | 2, true) => Some(vec![1, 1, 1]),
                (1, _) | (2, false) | (3, true) => Some(new.to_vec()),
                _ => None,
            };
            assert_eq!(table.get(key).unwrap(), left, "{number}");
        }

        // Of several on one key each is what it is alone, in some order.
        let values: Vec<_> = (0..50).map(|number| [number, 0, 0]).collect();
        let first = values
            .iter()
            .map(|value| Operation::FindOrPut(&[9; 4], value));
        let mut found = Vec::new();
        let ran = table.run_many(&first.collect::<Vec<_>>(), |_, outcome| match outcome {
            Outcome::Value(value) => found.push(value.map(|value| value.to_vec())),
            other => panic!("{other:?}"),
        });
        ran.unwrap();
        let kept = table.get(&[9; 4]).unwrap().unwrap();
        let inserted = found.iter().filter(|found| found.is_none());
        assert_eq!(inserted.count(), 1);
        let same = found.iter().filter(|found| found.as_ref() == Some(&kept));
        assert_eq!(same.count(), 49);

        // Puts of one key, and gets beside them: one put is new, and every get has a value that was
        // there or was put.
        let beside: Vec<_> = values
            .iter()
            .flat_map(|value| [Operation::Put(&[8; 4], value), Operation::Get(&[8; 4])])
            .collect();
        let mut came = 0;
        let ran = table.run_many(&beside, |_, outcome| match outcome {
            Outcome::Changed(new) => came += usize::from(new),
            Outcome::Value(None) => {}
            Outcome::Value(Some(value)) => assert!(values.iter().any(|put| put[..] == *value)),
            other => panic!("{other:?}"),
        });
        ran.unwrap();
        assert_eq!(came, 1);
        let left = table.get(&[8; 4]).unwrap().unwrap();
        assert!(values.iter().any(|put| put[..] == left));
    });
}

pub fn a_full_table_says_so_and_serves_on<S: TestStore>() {
    let node = S::start(16 << 20);
    let store = node.open();
    let options = TableOptions::new(50)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(8))
        .load_factor(1.0);
    store.create("full", &options).unwrap();
    let table = store.table("full").unwrap();
    let key = |number: u64| number.to_le_bytes();
    for number in 0..50 {
        assert!(table.put(&key(number), &key(number)).unwrap());
    }
    for number in 50..60 {
        let Err(StoreError::NoRoom(no_room)) = table.put(&key(number), &key(0)) else {
            panic!("there is no slot left")
        };
        let full = IndexError::Full {
            probed: 50,
            slots: 50,
        };
        assert_eq!(no_room.cause, full);
        assert_eq!(table.get(&key(number)).unwrap(), None);
    }
    for number in 0..50 {
        assert!(!table.put(&key(number), &key(number + 1)).unwrap());
        assert_eq!(table.get(&key(number)).unwrap().unwrap(), key(number + 1));
    }
    // Of a batch the keys that are there get their new values, and the others are those that fail.
    let keys: Vec<_> = (40..60).map(key).collect();
    let records: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (&key[..], &key[..])).collect();
    let failed = table.put_many(&records, |number, is_new| assert!(number < 10 && !is_new));
    let failed = failed.unwrap_err();
    assert_eq!((failed.operations(), failed.failures().len()), (20, 10));
    for ((number, error), expected) in failed.failures().iter().zip(10..) {
        assert_eq!((*number, error.kind()), (expected, ErrorKind::Full));
    }
    for (number, key) in keys.iter().enumerate() {
        let there = (number < 10).then(|| key.to_vec());
        assert_eq!(table.get(key).unwrap(), there);
    }
}

/// The numbers of what failed, each because it does not fit.
fn misfits(batch: farslot::Result<(), BatchError>) -> Vec<usize> {
    let failures = batch.unwrap_err().into_iter();
    let numbers = failures.map(|(number, error)| {
        assert_eq!(error.kind(), ErrorKind::DoesNotFit, "{number}: {error}");
        number
    });
    numbers.collect()
}

pub fn a_batch_names_what_failed_and_does_the_rest<S: TestStore>() {
    fn put_all(table: &Table, records: &[(&[u8], &[u8])]) -> farslot::Result<()> {
        Ok(table.put_many(records, |_, _| ())?)
    }
    each_table::<S>(|table| {
        let keys: Vec<_> = (0..40).map(key).collect();
        let is_long = |number: usize| number % 10 == 3;
        let long: Vec<_> = (0..40).filter(|number| is_long(*number)).collect();
        let values = |value: &'static [u8]| {
            let value = move |number| if is_long(number) { &b"long"[..] } else { value };
            let records = keys.iter().enumerate();
            let records = records.map(|(number, key)| (&key[..], value(number)));
            records.collect::<Vec<(&[u8], &[u8])>>()
        };
        let mut told = Vec::new();
        let put = table.put_many(&values(b"one"), |number, new| told.push((number, new)));
        assert_eq!(misfits(put), long);
        told.sort_unstable();
        let others: Vec<_> = (0..40).filter(|number| !is_long(*number)).collect();
        let new: Vec<_> = others.iter().map(|number| (*number, true)).collect();
        assert_eq!(told, new);

        told.clear();
        let updated = table.update_many(&values(b"two"), |number, was| told.push((number, was)));
        assert_eq!(misfits(updated), long);
        told.sort_unstable();
        assert_eq!(told, new);
        let found = table.find_or_put_many(&values(b"six"), |_, was| {
            assert_eq!(was, Some(&b"two"[..]));
        });
        assert_eq!(misfits(found), long);

        // `?` makes it an error of the store, of the first one's kind.
        let error = put_all(table, &values(b"two")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DoesNotFit);
        assert!(error.may_have_taken_effect(), "others have");
        let said = error.to_string();
        let begins = "4 of 40 operations failed, the first of them number 3: a value of 4 bytes";
        assert!(said.starts_with(begins), "{said}");

        // Keys that no key of the table can be.
        let mut slices: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        for number in &long {
            slices[*number] = b"longer than any";
        }
        let mut found = 0;
        let got = table.get_many(&slices, |number, value| {
            assert_eq!(value, Some(&b"two"[..]), "{number}");
            found += 1;
        });
        assert_eq!(misfits(got), long);
        let got = table.get_all_many(&slices, |_, values| found += values.len());
        assert_eq!((misfits(got), found), (long.clone(), 2 * others.len()));
        let operations: Vec<_> = slices.iter().map(|key| Operation::Get(key)).collect();
        let ran = table.run_many(&operations, |number, outcome| {
            assert!(!is_long(number) && outcome.into_value().is_some());
        });
        assert_eq!(misfits(ran), long);
        let removed = table.remove_many(&slices, |_, was| assert!(was));
        assert_eq!(misfits(removed), long);
        assert_eq!(table.survey().unwrap().live(), 0);
    });
}

/// Long batches are made ready a part at a time.
pub fn what_fails_in_a_long_batch_has_its_own_number<S: TestStore>() {
    const RECORDS: usize = 9_000;
    let node = S::start(64 << 20);
    let store = node.open();
    let options = TableOptions::default().keys(FieldSize::UpTo(8));
    store
        .create("t", &options.values(FieldSize::UpTo(8)))
        .unwrap();
    let table = store.table("t").unwrap();
    let keys: Vec<_> = (0..RECORDS as u32).map(key).collect();
    let long = [4_095, 4_096, 8_192, 8_999];
    let record = |number: usize| match long.contains(&number) {
        true => (&keys[number][..], &[0; 9][..]),
        false => (&keys[number][..], &[0; 8][..]),
    };
    let records: Vec<_> = (0..RECORDS).map(record).collect();
    let mut new = 0;
    let mut note = |number: usize, is_new| {
        assert!(!long.contains(&number));
        new += u32::from(is_new);
    };
    let hour = Duration::from_secs(3_600);
    assert_eq!(misfits(table.put_many(&records, &mut note)), long);
    assert_eq!(misfits(table.put_many_for(&records, hour, &mut note)), long);
    let records: Vec<_> = records
        .into_iter()
        .map(|record| (record, Expiry::NEVER))
        .collect();
    assert_eq!(misfits(table.put_many_until(&records, &mut note)), long);
    assert_eq!(new as usize, RECORDS - long.len());
    assert_eq!(table.survey().unwrap().live(), u64::from(new));
}

pub fn keys_and_values_that_do_not_fit_are_named<S: TestStore>() {
    let node = S::start(16 << 20);
    let store = node.open();
    let options = TableOptions::new(50)
        .keys(FieldSize::UpTo(10))
        .values(FieldSize::UpTo(20));
    store.create("sized", &options).unwrap();
    let table = store.table("sized").unwrap();
    let message = |result: farslot::Result<bool>| result.unwrap_err().to_string();
    assert_eq!(
        message(table.put(b"", b"v")),
        "a key must have at least 1 byte"
    );
    assert_eq!(
        message(table.put(&[1; 11], b"v")),
        "a key of 11 bytes does not fit: the table's keys have at most 10 bytes"
    );
    assert_eq!(
        message(table.put(b"k", &[1; 21])),
        "a value of 21 bytes does not fit: the table's values have at most 20 bytes"
    );
    assert!(table.get(b"").is_err() && table.remove(&[0; 11]).is_err());
    assert_eq!(table.survey().unwrap().live(), 0);
}

pub fn callbacks_may_use_the_table<S: TestStore>() {
    each_table::<S>(|table| {
        for number in 0..40 {
            table.put(&key(number), &value(number)).unwrap();
        }
        table
            .for_each(|key, _| assert!(table.remove(key).unwrap()))
            .unwrap();
        assert_eq!(table.survey().unwrap().live(), 0);
        for number in 0..40 {
            table.put(&key(number), &value(number)).unwrap();
        }
        let keys: Vec<_> = (0..40).map(key).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        table
            .get_many(&keys, |index, found| {
                assert!(found.is_some());
                assert!(table.update(keys[index], &value(7)).unwrap());
            })
            .unwrap();
        table
            .get_all_many(&keys, |_, values| {
                assert_eq!(values, [value(7).to_vec()]);
            })
            .unwrap();
        let records: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (*key, &[1, 2, 3][..])).collect();
        table.update_many(&records, |_, was| assert!(was)).unwrap();
        assert_eq!(table.get(keys[5]).unwrap().unwrap(), [1, 2, 3]);
    });
}

pub fn callbacks_of_writes_may_write<S: TestStore>() {
    each_table::<S>(|table| {
        let keys: Vec<_> = (0..400).map(key).collect();
        let (first, second) = keys.split_at(200);
        let records: Vec<(&[u8], &[u8])> =
            first.iter().map(|key| (&key[..], &b"one"[..])).collect();
        // Blocks are taken by batch and callbacks in turns: now the batch takes some of those that
        // need a new extent.
        assert!(table.put(&key(400), b"odd").unwrap());
        table
            .put_many(&records, |index, put| {
                assert!(put);
                assert!(table.put(&second[index], b"two").unwrap());
            })
            .unwrap();
        let firsts: Vec<&[u8]> = first.iter().map(|key| &key[..]).collect();
        table
            .remove_many(&firsts, |index, was| {
                assert!(was);
                assert!(table.update(&second[index], b"six").unwrap());
            })
            .unwrap();
        assert_eq!(table.survey().unwrap().live(), 201);
        assert_eq!(table.get(&second[199]).unwrap().unwrap(), b"six");
    });
}
