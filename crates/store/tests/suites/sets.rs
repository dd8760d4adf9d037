//! Sets: against a plain map, by several clients, when they are full, and as tables like any other.

use crate::common::TestStore;
use farslot::layout::Scheme;
use farslot::snapshots::RestoreOptions;
use farslot::{
    Cursor, ErrorKind, FieldSize, IndexError, Operation, Outcome, SlotKind, Store, StoreError,
    Survey, Table, TableOptions,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::thread;

/// A kind of set, and the key and the value that a number has in it.
#[derive(Clone)]
struct Kind {
    options: TableOptions,
    key: fn(u64) -> Vec<u8>,
    value: fn(u64) -> Vec<u8>,
}

/// Of every way in which elements lie.
fn kinds(capacity: u64) -> [Kind; 6] {
    let sized = |key, value| TableOptions::new(capacity).keys(key).values(value).set();
    let word = |number: u64| number.to_le_bytes().to_vec();
    let none = |_| Vec::new();
    let long = |number: u64| number.to_le_bytes().repeat(5)[..36].to_vec();
    let varying = |number: u64| {
        number
            .to_string()
            .repeat(1 + number as usize % 7)
            .into_bytes()
    };
    let (fixed, up_to) = (FieldSize::Fixed, FieldSize::UpTo);
    let kind = |options, key, value| Kind {
        options,
        key,
        value,
    };
    [
        kind(sized(fixed(8), fixed(0)), word, none),
        kind(
            sized(fixed(3), fixed(0)),
            |number| number.to_le_bytes()[..3].to_vec(),
            none,
        ),
        kind(sized(fixed(8), fixed(0)).slots(SlotKind::Heap), word, none),
        kind(sized(fixed(36), fixed(0)), long, none),
        kind(sized(fixed(8), fixed(13)), word, |number| {
            number.to_be_bytes().repeat(2)[..13].to_vec()
        }),
        kind(sized(up_to(60), up_to(70)), varying, |number| {
            vec![number as u8; number as usize % 71]
        }),
    ]
}

fn each_kind<S: TestStore>(capacity: u64, test: impl Fn(&Store, &Kind)) {
    for kind in kinds(capacity) {
        let node = S::start(16 << 20);
        let store = node.open();
        store.create("s", &kind.options).unwrap();
        test(&store, &kind);
    }
}

#[derive(Clone, Debug)]
enum Step {
    FindOrPut(u64, u64),
    FindOrPutMany(Vec<(u64, u64)>),
    Put(u64, u64),
    Get(u64),
    GetMany(Vec<u64>),
    Exists(u64),
    Scan(u64),
    Count,
}

/// More keys than values of other numbers, so that some puts have another value than is there.
fn step() -> impl Strategy<Value = Step> {
    let (key, value) = (0..150_u64, 0..150_u64);
    prop_oneof![
        4 => (key.clone(), value.clone()).prop_map(|(key, value)| Step::FindOrPut(key, value)),
        2 => vec((key.clone(), value.clone()), 0..60).prop_map(Step::FindOrPutMany),
        2 => (key.clone(), value).prop_map(|(key, value)| Step::Put(key, value)),
        2 => key.clone().prop_map(Step::Get),
        1 => vec(key.clone(), 0..60).prop_map(Step::GetMany),
        1 => key.prop_map(Step::Exists),
        1 => prop_oneof![1..50_u64, Just(u64::MAX)].prop_map(Step::Scan),
        1 => Just(Step::Count),
    ]
}

/// Does steps to a set and to a plain map, and compares.
fn compare(table: &Table, kind: &Kind, steps: Vec<Step>) {
    let mut model = HashMap::<Vec<u8>, Vec<u8>>::new();
    let record = |(key, value)| ((kind.key)(key), (kind.value)(value));
    for step in steps {
        match step {
            Step::FindOrPut(key, value) => {
                let (key, value) = record((key, value));
                let was = model.get(&key).cloned();
                assert_eq!(table.find_or_put(&key, &value), Ok(was));
                model.entry(key).or_insert(value);
            }
            Step::FindOrPutMany(records) => {
                let records: Vec<_> = records.into_iter().map(record).collect();
                find_or_put_many(table, &mut model, &records);
            }
            Step::Put(key, value) => {
                let (key, value) = record((key, value));
                let put = table.put(&key, &value);
                match model.get(&key) {
                    None => assert_eq!(put, Ok(true)),
                    Some(same) if *same == value => assert_eq!(put, Ok(false)),
                    Some(_) => assert_eq!(put.unwrap_err().kind(), ErrorKind::Unsupported),
                }
                model.entry(key).or_insert(value);
            }
            Step::Get(number) => {
                let key = (kind.key)(number);
                assert_eq!(table.get(&key).unwrap().as_ref(), model.get(&key));
            }
            Step::GetMany(numbers) => {
                let keys: Vec<_> = numbers.into_iter().map(kind.key).collect();
                let borrowed: Vec<_> = keys.iter().map(Vec::as_slice).collect();
                let mut answers = 0;
                let got = table.get_many(&borrowed, |number, value| {
                    assert_eq!(value, model.get(&keys[number]).map(Vec::as_slice));
                    answers += 1;
                });
                assert_eq!((got, answers), (Ok(()), keys.len()));
            }
            Step::Exists(number) => {
                let key = (kind.key)(number);
                assert_eq!(table.contains_key(&key), Ok(model.contains_key(&key)));
            }
            Step::Scan(most) => assert_eq!(scanned(table, most), model),
            Step::Count => {
                table.flush().unwrap();
                assert_eq!(table.occupancy().unwrap().entries, model.len() as u64);
                assert_eq!(table.survey().unwrap().live(), model.len() as u64);
            }
        }
    }
}

fn find_or_put_many(
    table: &Table,
    model: &mut HashMap<Vec<u8>, Vec<u8>>,
    records: &[(Vec<u8>, Vec<u8>)],
) {
    let borrowed: Vec<_> = records.iter().map(|(k, v)| (&k[..], &v[..])).collect();
    let mut found = vec![None; records.len()];
    let put = table.find_or_put_many(&borrowed, |number, value| {
        assert!(found[number].is_none());
        found[number] = Some(value.map(<[u8]>::to_vec));
    });
    put.unwrap();
    // Of several with one key one is put, and all others find it.
    let keys = records.iter().map(|(key, _)| key);
    let mut new = HashMap::<&[u8], u32>::new();
    for (key, found) in keys.zip(&found) {
        let found = found.as_ref().expect("each has an answer").as_ref();
        match model.get(key) {
            Some(was) => assert_eq!(found, Some(was)),
            None => {
                *new.entry(key).or_default() += u32::from(found.is_none());
                let is_of_it = |value| records.iter().any(|(k, v)| k == key && v == value);
                assert!(found.is_none_or(is_of_it));
            }
        }
    }
    assert!(new.values().all(|times| *times == 1), "{new:?}");
    let new: Vec<_> = new.into_keys().collect();
    for key in new {
        let value = table.get(key).unwrap().unwrap();
        model.insert(key.to_vec(), value);
    }
}

/// All that is there, by pieces of at most so many buckets; each once.
fn scanned(table: &Table, most: u64) -> HashMap<Vec<u8>, Vec<u8>> {
    let mut all = HashMap::new();
    let mut cursor = Some(Cursor::default());
    while let Some(from) = cursor {
        let next = table.scan(from, most, |key, value| {
            assert_eq!(all.insert(key.to_vec(), value.to_vec()), None);
        });
        cursor = next.unwrap();
    }
    all
}

pub fn a_set_does_what_a_map_does_that_only_grows<S: TestStore>() {
    let mut runner = TestRunner::deterministic();
    each_kind::<S>(300, |store, kind| {
        let steps = vec(step(), S::repeat(150) as usize);
        let steps = steps.new_tree(&mut runner.clone()).unwrap().current();
        compare(&store.table("s").unwrap(), kind, steps);
    });
    // The same over three nodes.
    if S::FABRIC == farslot_testbed::Fabric::Sim {
        for (number, kind) in kinds(300).into_iter().enumerate() {
            let address = format!("sim://cx5-edr?seed={number}&memory=8MiB&nodes=3");
            let store = Store::open(&address).unwrap();
            store.create("s", &kind.options).unwrap();
            let steps = vec(step(), 150).new_tree(&mut runner).unwrap();
            compare(&store.table("s").unwrap(), &kind, steps.current());
        }
    }
}

/// Clients put overlapping numbers, each in an order of its own: of all who put an element exactly
/// one is told that it is new.
pub fn each_element_is_put_by_exactly_one_client<S: TestStore>() {
    let count = u64::from(S::repeat(2_000));
    for kind in kinds(count) {
        let node = S::start(16 << 20);
        let store = node.open();
        store.create("s", &kind.options).unwrap();
        let work = |store: &Store, client: u64| {
            let table = store.table("s").unwrap();
            let numbers = (0..count).map(|at| (at * 7 + client * count / 3) % count);
            let records: Vec<_> = numbers
                .map(|number| ((kind.key)(number), (kind.value)(number)))
                .collect();
            let mut new = 0;
            for batch in records.chunks(100) {
                let borrowed: Vec<_> = batch.iter().map(|(k, v)| (&k[..], &v[..])).collect();
                let put = table.find_or_put_many(&borrowed, |number, found| match found {
                    None => new += 1,
                    Some(found) => assert_eq!(found, batch[number].1),
                });
                put.unwrap();
            }
            new
        };
        let new: u64 = match node.stranger() {
            // All of one simulated world, which one thread drives.
            None => (0..3).map(|client| work(&store, client)).sum(),
            Some(_) => thread::scope(|scope| {
                let (node, work) = (&node, &work);
                let start = |client| scope.spawn(move || work(&node.open(), client));
                let threads = [0, 1, 2].map(start);
                threads.map(|thread| thread.join().unwrap()).iter().sum()
            }),
        };
        assert_eq!(new, count);
        let table = store.table("s").unwrap();
        assert_eq!(table.occupancy().unwrap().entries, count);
        let all = (0..count).map(|number| ((kind.key)(number), (kind.value)(number)));
        assert_eq!(scanned(&table, u64::MAX), all.collect());
    }
}

/// Until nothing is taken any more: then it says why, by its figures, and has all that it took.
pub fn a_full_set_says_so_and_loses_nothing<S: TestStore>() {
    each_kind::<S>(40, |store, kind| {
        let table = store.table("s").unwrap();
        let Scheme::Set(layout) = table.scheme().clone() else {
            panic!("{:?}", table.scheme());
        };
        let record = |number| ((kind.key)(number), (kind.value)(number));
        let mut put = 0;
        let error = loop {
            let (key, value) = record(put);
            match table.find_or_put(&key, &value) {
                Ok(found) => assert_eq!(found, None),
                Err(error) => break error,
            }
            put += 1;
        };
        assert!(put >= 40, "{put}");
        let StoreError::NoRoom(no_room) = error else {
            panic!("{error}")
        };
        match no_room.cause {
            IndexError::Full { probed, slots } => {
                assert_eq!((probed, slots), (layout.buckets, layout.buckets));
                assert_eq!(put, slots);
            }
            IndexError::HeapFull { heap_bytes, .. } => {
                assert_eq!(heap_bytes, layout.element_words * 8);
            }
            other => panic!("{other}"),
        }
        for number in 0..put {
            let (key, value) = record(number);
            assert_eq!(table.find_or_put(&key, &value), Ok(Some(value)));
        }
        assert_eq!(table.get(&record(put).0), Ok(None));
        assert_eq!(scanned(&table, u64::MAX).len() as u64, put);
        assert_eq!(table.survey().unwrap().live(), put);
    });
}

pub fn sets_of_every_kind_hold_their_capacity<S: TestStore>() {
    for capacity in [1, 30, 1_500] {
        each_kind::<S>(capacity, |store, kind| {
            // By clients that put one each, and one that puts the rest.
            for number in 0..capacity.min(20) {
                let table = store.table("s").unwrap();
                let (key, value) = ((kind.key)(number), (kind.value)(number));
                assert_eq!(table.find_or_put(&key, &value), Ok(None));
                table.close().unwrap();
            }
            let table = store.table("s").unwrap();
            for number in capacity.min(20)..capacity {
                let (key, value) = ((kind.key)(number), (kind.value)(number));
                assert_eq!(table.find_or_put(&key, &value), Ok(None), "{number}");
            }
            assert_eq!(table.survey().unwrap().live(), capacity);
        });
    }
}

pub fn what_a_set_cannot_do_is_refused_by_name<S: TestStore>() {
    let node = S::start(16 << 20);
    let store = node.open();
    let options = TableOptions::new(50)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(4));
    store.create("s", &options.clone().set()).unwrap();
    let table = store.table("s").unwrap();
    let (key, value) = ([1; 8], [2; 4]);
    assert_eq!(table.put(&key, &value), Ok(true));
    let only_grows = |operation| StoreError::Index(IndexError::OnlyGrows { operation });
    let refused = [
        (table.put(&key, &[3; 4]), "a put of another value"),
        (table.update(&key, &[3; 4]), "an update"),
        (table.remove(&key), "a removal"),
    ];
    for (refused, operation) in refused {
        assert_eq!(refused, Err(only_grows(operation)));
    }
    let text = only_grows("a removal").to_string();
    assert!(
        text.contains("a set") && text.contains("linear, cuckoo, duo, race, chained and ordered"),
        "{text}"
    );
    let not_atomic = StoreError::Index(IndexError::NotAtomic { scheme: "set" });
    assert_eq!(
        table.compare_and_set(&key, Some(&value), &[3; 4]),
        Err(not_atomic)
    );
    let others = [
        table.compare_and_remove(&key, &value).map(drop),
        table.increment(&key, 1).map(drop),
        table
            .put_for(&key, &value, std::time::Duration::from_secs(1))
            .map(drop),
        table.build(&[(&key, &value)]).map(drop),
        store.transaction(|t| t.put("s", &key, &value)).map(drop),
        store.queue("s").map(drop),
    ];
    for refused in others {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
    }
    // In a batch, each by itself.
    let operations = [
        Operation::Remove(&key),
        Operation::Get(&key),
        Operation::FindOrPut(&[9; 8], &value),
    ];
    let mut done = Vec::new();
    let ran = table.run_many(&operations, |number, outcome| done.push((number, outcome)));
    assert_eq!(ran.unwrap_err().failures().len(), 1);
    done.sort_by_key(|(number, _)| *number);
    let expected = [
        (1, Outcome::Value(Some(farslot::Value::from(&value[..])))),
        (2, Outcome::Value(None)),
    ];
    assert_eq!(done, expected);
    // 64 bits have room beside the buckets, not in them.
    let words = options.values(FieldSize::Fixed(0)).set();
    store.create("words", &words).unwrap();
    let most = [0xff; 8];
    let refused = store.table("words").unwrap().find_or_put(&most, b"");
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::DoesNotFit);
    store
        .create("beside", &words.slots(SlotKind::Heap))
        .unwrap();
    let beside = store.table("beside").unwrap();
    assert_eq!(beside.find_or_put(&most, b""), Ok(None));
}

pub fn options_that_no_set_can_have_are_named<S: TestStore>() {
    let node = S::start(16 << 20);
    let store = node.open();
    let words = || {
        TableOptions::new(100)
            .keys(FieldSize::Fixed(8))
            .values(FieldSize::Fixed(0))
            .set()
    };
    let long = || words().keys(FieldSize::UpTo(100));
    let wrong = [
        ("load factor", words().load_factor(0.81)),
        ("load factor", words().load_factor(0.0)),
        ("capacity", words().capacity(0)),
        ("heap bytes", words().heap_bytes(1_000)),
        ("slot", words().slots(SlotKind::Inline)),
        ("slot", long().slots(SlotKind::Word)),
        ("inline bytes", words().inline_bytes(8)),
        ("several records of a key", words().multi_key()),
        ("capacity to grow to", words().grow_to(200)),
        ("records that expire", words().expiring(true)),
        ("evict", words().evicting(farslot::Evicting::All)),
        (
            "the longest element",
            long().values(FieldSize::UpTo(17 << 10)),
        ),
        ("the longest element", words().keys(FieldSize::UpTo(0))),
        ("heap bytes", long().capacity(1 << 40)),
        ("the layout", words().capacity(u64::MAX)),
    ];
    for (option, options) in wrong {
        match store.create("s", &options) {
            Err(StoreError::Index(IndexError::BadOption { option: named, .. })) => {
                assert_eq!(named, option);
            }
            other => panic!("{option}: {other:?}"),
        }
    }
    assert_eq!(store.tables().unwrap(), []);
}

pub fn a_set_is_listed_renamed_cleared_and_dropped<S: TestStore>() {
    each_kind::<S>(100, |store, kind| {
        assert_eq!(store.tables().unwrap()[0].scheme.name(), "set");
        let old = store.table("s").unwrap();
        let (key, value) = ((kind.key)(7), (kind.value)(7));
        assert_eq!(old.find_or_put(&key, &value), Ok(None));
        let survey = old.survey().unwrap();
        assert_eq!((survey.live(), survey.dead()), (1, 0));
        assert!(matches!(survey, Survey::Linear(_)));
        store.rename("s", "r").unwrap();
        let renamed = store.table("r").unwrap();
        assert_eq!(renamed.get(&key), Ok(Some(value.clone())));
        assert_eq!(old.get(&key).unwrap_err().kind(), ErrorKind::TableGone);
        store.clear("r").unwrap();
        let cleared = store.table("r").unwrap();
        assert_eq!(cleared.occupancy().unwrap().entries, 0);
        assert_eq!(cleared.find_or_put(&key, &value), Ok(None));
        store.drop_table("r").unwrap();
        let put = cleared.find_or_put(&(kind.key)(8), &value);
        assert_eq!(put.unwrap_err().kind(), ErrorKind::TableGone);
        assert_eq!(store.memory().unwrap().taken, 0);
        // Where it was there is another, empty.
        store.create("s", &kind.options).unwrap();
        assert_eq!(scanned(&store.table("s").unwrap(), u64::MAX).len(), 0);
    });
}

pub fn a_set_is_snapshotted_restored_and_copied<S: TestStore>() {
    let go_on = |_| ControlFlow::Continue(());
    let count = u64::from(S::repeat(1_000));
    each_kind::<S>(count, |store, kind| {
        let directory = tempfile::tempdir().unwrap();
        let all: HashMap<_, _> = (0..count)
            .map(|number| ((kind.key)(number), (kind.value)(number)))
            .collect();
        let records: Vec<_> = all.iter().map(|(k, v)| (&k[..], &v[..])).collect();
        let table = store.table("s").unwrap();
        table.put_many(&records, |_, new| assert!(new)).unwrap();
        let taken = store.snapshot("s", directory.path(), &go_on).unwrap();
        assert_eq!(taken.records, count);
        assert_eq!(store.copy_table("s", "copy", &go_on), Ok(count));
        store.drop_table("s").unwrap();
        let options = RestoreOptions::default();
        store
            .restore_with("s", directory.path(), &options, &go_on)
            .unwrap();
        for name in ["s", "copy"] {
            let table = store.table(name).unwrap();
            assert_eq!(scanned(&table, u64::MAX), all);
            assert_eq!(table.occupancy().unwrap().entries, count);
        }
    });
}
