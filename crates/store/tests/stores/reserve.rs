//! Memory that no other table takes.

use crate::no_room::fill;
use farslot::health::RoomLimit;
use farslot::{ErrorKind, OpenOptions, Store, StoreError, Table, TableOptions};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

const MIB: u64 = 1 << 20;
/// Bytes of a record's value, and how many records a mebibyte has room for at least, with their
/// slots and with free pages to move others to.
const VALUE: usize = 4_000;
const A_MIB: u64 = 180;

fn kept(bytes: u64) -> TableOptions {
    TableOptions::default().reserve_bytes(bytes)
}

/// Puts so many records.
fn put_all(table: &Table, records: u64) {
    for number in 0..records {
        table.put(&number.to_le_bytes(), &[3; VALUE]).unwrap();
    }
}

fn remove_all(table: &Table, records: u64) {
    for number in 0..records {
        table.remove(&number.to_le_bytes()).unwrap();
    }
}

fn bytes_of(store: &Store, name: &str) -> u64 {
    let tables = store.tables().unwrap();
    tables.iter().find(|of| of.name == name).unwrap().bytes()
}

/// A table takes what it was promised after another has filled the node, and when it is empty that
/// is not the other's.
fn it_is_the_tables_own(store: &Store, reserve: u64) {
    let before = store.memory().unwrap().taken;
    store.create("kept", &kept(reserve)).unwrap();
    store.create("other", &TableOptions::default()).unwrap();
    let (table, other) = (store.table("kept").unwrap(), store.table("other").unwrap());
    assert_eq!(fill(&other, VALUE).limit, RoomLimit::Node);
    let records = reserve / MIB * A_MIB;
    for _ in 0..2 {
        put_all(&table, records);
        remove_all(&table, records);
        table.flush().unwrap();
        // The other looks for what this one does not need.
        let refused = (1 << 32..(1 << 32) + 2_000_u64)
            .find_map(|key| other.put(&key.to_le_bytes(), &[5; VALUE]).err());
        let refused = refused.expect("the node is full");
        assert_eq!(refused.kind(), ErrorKind::OutOfMemory, "{refused}");
        assert!(bytes_of(store, "kept") >= reserve);
    }
    put_all(&table, records);
    drop((table, other));
    store.clear("kept").unwrap();
    store.rename("kept", "renamed").unwrap();
    assert!(bytes_of(store, "renamed") >= reserve);
    put_all(&store.table("renamed").unwrap(), records);
    for name in ["renamed", "other"] {
        store.drop_table(name).unwrap();
    }
    assert_eq!(store.memory().unwrap().taken, before);
}

#[test]
fn a_table_takes_what_it_was_promised_when_its_node_is_full() {
    let store = Store::open("sim://cx5-edr?seed=3&memory=16MiB").unwrap();
    it_is_the_tables_own(&store, 4 * MIB);
}

#[test]
fn so_it_does_in_memory_of_its_own_process() {
    let store = Store::embedded_with(16 * MIB, OpenOptions::default()).unwrap();
    it_is_the_tables_own(&store, 4 * MIB);
}

#[test]
fn a_node_that_has_less_refuses_the_table_with_figures() {
    let store = Store::open("sim://cx5-edr?seed=4&memory=8MiB").unwrap();
    let all = store.memory().unwrap();
    store.create("first", &kept(4 * MIB)).unwrap();
    let left = store.memory().unwrap();
    let refused = store.create("second", &kept(6 * MIB)).unwrap_err();
    let StoreError::OutOfMemory {
        table,
        requested,
        free,
        total,
    } = refused
    else {
        panic!("{refused}")
    };
    assert_eq!((table.as_str(), requested), ("second", 6 << 20));
    assert!(free < 4 * MIB && free > 2 * MIB, "{free}");
    assert_eq!(total, all.total);
    // Nothing is left of it.
    assert_eq!(store.memory().unwrap(), left);
    assert_eq!(store.tables().unwrap().len(), 1);
    store.drop_table("first").unwrap();
    assert_eq!(store.memory().unwrap(), all);
    store.create("second", &kept(6 * MIB)).unwrap();
}

#[test]
fn each_of_several_nodes_keeps_a_part_and_one_that_cannot_refuses_the_table() {
    let store = Store::open("sim://cx5-edr?seed=5&nodes=3&memory=8MiB").unwrap();
    let refused = store.create("large", &kept(24 * MIB)).unwrap_err();
    assert!(refused.to_string().contains("8388608"), "{refused}");
    assert!(store.tables().unwrap().is_empty());
    store.create("kept", &kept(9 * MIB)).unwrap();
    let free = store.memory().unwrap();
    store.create("other", &TableOptions::default()).unwrap();
    let other = store.table("other").unwrap();
    fill(&other, VALUE);
    put_all(&store.table("kept").unwrap(), 8 * A_MIB);
    drop(other);
    store.drop_table("other").unwrap();
    assert_eq!(store.memory().unwrap(), free);
}

#[test]
fn copies_and_snapshots_have_the_same_reserve() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open("sim://cx5-edr?seed=6&memory=16MiB").unwrap();
    store.create("kept", &kept(4 * MIB)).unwrap();
    store.table("kept").unwrap().put(b"a", b"b").unwrap();
    let go_on = |_| ControlFlow::Continue(());
    store.copy_table("kept", "copy", &go_on).unwrap();
    store.snapshot("kept", directory.path(), &go_on).unwrap();
    store.drop_table("kept").unwrap();
    store.restore("kept", directory.path(), &go_on).unwrap();
    for name in ["kept", "copy"] {
        assert!(bytes_of(&store, name) >= 4 * MIB);
        assert!(bytes_of(&store, name) < 5 * MIB);
    }
    // On two nodes each keeps half of it.
    let two = Store::open("sim://cx5-edr?seed=7&nodes=2&memory=8MiB").unwrap();
    let before = two.memory().unwrap().taken;
    two.restore("kept", directory.path(), &go_on).unwrap();
    let taken = two.memory().unwrap().taken - before;
    assert!((4 * MIB..5 * MIB).contains(&taken), "{taken}");
}

#[test]
fn tables_with_all_of_their_memory_have_no_reserve() {
    let store = Store::embedded_with(8 * MIB, OpenOptions::default()).unwrap();
    for options in [
        TableOptions::new(100),
        TableOptions::new(100).race(Default::default()),
        TableOptions::new(100).chained(),
    ] {
        let refused = store.create("t", &options.reserve_bytes(1)).unwrap_err();
        assert!(refused.to_string().contains("reserve bytes"), "{refused}");
    }
}

/// What is done to one of the tables.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// It is made, with so many segments that are its own.
    Create(u64),
    Drop,
    /// Records are put until one is refused.
    Fill,
    Clear,
    /// It is given another name, and that is its name.
    Rename,
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let step = prop_oneof![
        4 => (0..120_u64).prop_map(Step::Create),
        1 => Just(Step::Drop),
        3 => Just(Step::Fill),
        1 => Just(Step::Clear),
        1 => Just(Step::Rename),
    ];
    proptest::collection::vec((0..3_usize, step), 1..20)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// By a plain map from tables to what is their own: each has that, whatever the others do, and
    /// a new one is refused only where less is free.
    #[test]
    fn each_table_has_what_is_its_own_whatever_others_do(steps in steps(), seed in 0..1_000_u64) {
        const SEGMENT: u64 = 64 << 10;
        let store = Store::open(&format!("sim://cx5-edr?seed={seed}&memory=8MiB")).unwrap();
        let all = store.memory().unwrap();
        let mut reserves = BTreeMap::new();
        for (first, (number, step)) in (0..).step_by(1 << 20).zip(steps) {
            let name = format!("t{number}");
            match (step, reserves.contains_key(&name)) {
                (Step::Create(segments), false) => {
                    let bytes = segments * SEGMENT;
                    match store.create(&name, &kept(bytes)) {
                        Ok(_) => drop(reserves.insert(name, bytes)),
                        Err(StoreError::OutOfMemory { requested, free, .. }) => {
                            prop_assert!(requested > u128::from(free), "{requested} of {free}");
                            prop_assert!(requested >= u128::from(bytes));
                        }
                        Err(error) => return Err(TestCaseError::fail(error.to_string())),
                    }
                }
                (Step::Create(_), true) | (_, false) => {}
                (Step::Drop, true) => {
                    store.drop_table(&name).unwrap();
                    reserves.remove(&name);
                }
                (Step::Fill, true) => {
                    let table = store.table(&name).unwrap();
                    let refused = (first..).find_map(|key: u64| {
                        table.put(&key.to_le_bytes(), &[7; 30_000]).err()
                    });
                    prop_assert_eq!(refused.unwrap().kind(), ErrorKind::OutOfMemory);
                }
                (Step::Clear, true) => store.clear(&name).unwrap(),
                (Step::Rename, true) => {
                    store.rename(&name, "other").unwrap();
                    store.rename("other", &name).unwrap();
                }
            }
            for (name, bytes) in &reserves {
                let has = bytes_of(&store, name);
                prop_assert!(has >= *bytes, "{name} has {has} of {bytes}");
            }
        }
        for name in reserves.into_keys() {
            store.drop_table(&name).unwrap();
        }
        prop_assert_eq!(store.memory().unwrap(), all);
    }
}
