//! Tables that share the memory of their node: each takes what it needs, and gives back what it
//! does not.

use crate::common::TestStore;
use farslot::{ErrorKind, Table, TableOptions};
use farslot_testbed::Fabric;

const BYTES: u64 = 16 << 20;

/// Bytes of the smallest values of a test, of which there are many: fewer where a verb takes long.
fn tiny<S: TestStore>(bytes: usize) -> usize {
    if S::FABRIC == Fabric::Shm { bytes } else { 300 }
}

/// Bytes that a record of a key and a value of so many counts for.
const fn counted(key: usize, value: usize) -> u64 {
    (key + value + 32) as u64
}

fn key_of(number: u64) -> Vec<u8> {
    format!("key:{number:08}").into_bytes()
}

/// Puts values of these sizes, one after the other, until one is refused; the records.
fn fill(table: &Table, sizes: &[usize]) -> (u64, u64) {
    let mut bytes = 0;
    for number in 0.. {
        let key = key_of(number);
        let value = vec![number as u8; sizes[number as usize % sizes.len()]];
        match table.put(&key, &value) {
            Ok(is_new) => assert!(is_new),
            Err(error) => {
                let is_full = matches!(error.kind(), ErrorKind::OutOfMemory | ErrorKind::Full);
                assert!(is_full, "{error}");
                return (number, bytes);
            }
        }
        bytes += counted(key.len(), value.len());
    }
    unreachable!()
}

fn remove(table: &Table, records: u64) {
    let keys: Vec<_> = (0..records).map(key_of).collect();
    let keys: Vec<_> = keys.iter().map(Vec::as_slice).collect();
    table
        .remove_many(&keys, |number, was_there| assert!(was_there, "{number}"))
        .unwrap();
}

fn check(table: &Table, sizes: &[usize], records: u64) {
    let keys: Vec<_> = (0..records).map(key_of).collect();
    let keys: Vec<_> = keys.iter().map(Vec::as_slice).collect();
    let got = table.get_many(&keys, |number, value| {
        let value = value.unwrap_or_else(|| panic!("record {number} is gone"));
        assert_eq!(value.len(), sizes[number % sizes.len()], "{number}");
        assert!(value.iter().all(|byte| *byte == number as u8), "{number}");
    });
    got.unwrap();
}

/// Fills a table, checks every record, and removes all of them. They must have taken at least
/// `hundredths` of the memory that is lent.
fn holds(table: &Table, sizes: &[usize], hundredths: u64, lent: u64) {
    let (records, bytes) = fill(table, sizes);
    println!(
        "{} of {sizes:?}: {records} records, {:.3}",
        table.name(),
        bytes as f64 / lent as f64
    );
    check(table, sizes, records);
    assert!(
        bytes * 100 >= lent * hundredths,
        "{sizes:?}: {bytes} of {lent}"
    );
    remove(table, records);
}

/// One table holds most of the memory, whatever the sizes, one after the other. Tiny ones come
/// last: the slots that they have taken do not come back.
pub fn a_table_has_all_of_its_node<S: TestStore>() {
    let node = S::start(BYTES);
    let store = node.open();
    store.create("t", &TableOptions::default()).unwrap();
    let table = store.table("t").unwrap();
    let lent = store.memory().unwrap().total;
    for sizes in [
        &[1_000][..],
        &[100_000],
        &[300_000],
        &[1_000, 60_000, 100],
        &[tiny::<S>(10)],
    ] {
        holds(&table, sizes, 80, lent);
    }
}

/// What one table does not need any more another has.
pub fn tables_share_their_node<S: TestStore>() {
    let node = S::start(BYTES);
    let store = node.open();
    let lent = store.memory().unwrap().total;
    let names = ["a", "b", "c"];
    for name in names {
        store.create(name, &TableOptions::default()).unwrap();
    }
    let sizes = [&[1_000][..], &[20_000], &[tiny::<S>(60)]];
    for (name, sizes) in names.into_iter().zip(sizes) {
        let table = store.table(name).unwrap();
        holds(&table, sizes, 75, lent);
        table.close().unwrap();
    }
}

/// What is dropped is free.
pub fn dropped_tables_leave_nothing<S: TestStore>() {
    let node = S::start(2 * BYTES);
    let store = node.open();
    let before = store.memory().unwrap();
    for round in 0..2 {
        let tables = ["a", "b", "c"].map(|name| {
            store.create(name, &TableOptions::default()).unwrap();
            store.table(name).unwrap()
        });
        for (number, table) in tables.iter().enumerate() {
            for key in 0..500 * number as u64 {
                table.put(&key_of(key), &vec![7; 1_000]).unwrap();
            }
        }
        drop(tables);
        if round == 1 {
            store.clear("b").unwrap();
            let table = store.table("b").unwrap();
            assert_eq!(table.get(&key_of(0)), Ok(None));
            assert_eq!(table.put(&key_of(0), b"again"), Ok(true));
        }
        for name in ["a", "b", "c"] {
            store.drop_table(name).unwrap();
        }
        assert_eq!(store.memory().unwrap(), before);
    }
}
