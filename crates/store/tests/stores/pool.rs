//! Tables that share the memory of their node: each takes what it needs, and gives back what it
//! does not.

use farslot::{ErrorKind, Server, Store, Table, TableOptions};

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
    for number in 0..records {
        assert!(table.remove(&key_of(number)).unwrap(), "{number}");
    }
}

fn check(table: &Table, sizes: &[usize], records: u64) {
    for number in 0..records {
        let value = table.get(&key_of(number)).unwrap();
        let value = value.unwrap_or_else(|| panic!("record {number} is gone"));
        let len = sizes[number as usize % sizes.len()];
        assert!(value.len() == len && value.iter().all(|byte| *byte == number as u8));
    }
}

/// One table holds most of the memory, whatever the sizes, one after the other. `tiny` ones come
/// last: the slots that they have taken do not come back.
fn a_table_has_all_of_its_node(store: &Store, tiny: usize) {
    store.create("t", &TableOptions::default()).unwrap();
    let table = store.table("t").unwrap();
    let lent = store.memory().unwrap().total;
    for sizes in [
        &[1_000][..],
        &[100_000],
        &[300_000],
        &[1_000, 60_000, 100],
        &[tiny],
    ] {
        let (records, bytes) = fill(&table, sizes);
        println!(
            "{sizes:?}: {records} records, {:.3}",
            bytes as f64 / lent as f64
        );
        check(&table, sizes, records);
        assert!(bytes * 10 >= lent * 8, "{sizes:?}: {bytes} of {lent}");
        remove(&table, records);
    }
}

/// What one table does not need any more another has.
fn tables_share_their_node(store: &Store, tiny: usize) {
    let lent = store.memory().unwrap().total;
    let names = ["a", "b", "c"];
    for name in names {
        store.create(name, &TableOptions::default()).unwrap();
    }
    for (name, sizes) in names.into_iter().zip([&[1_000][..], &[20_000], &[tiny]]) {
        let table = store.table(name).unwrap();
        let (records, bytes) = fill(&table, sizes);
        println!(
            "{name}: {records} records, {:.3}",
            bytes as f64 / lent as f64
        );
        check(&table, sizes, records);
        assert!(bytes * 4 >= lent * 3, "{name}: {bytes} of {lent}");
        remove(&table, records);
        table.close().unwrap();
    }
}

/// What is dropped is free.
fn dropped_tables_leave_nothing(store: &Store) {
    let before = store.memory().unwrap();
    for round in 0..4 {
        let table = |store: &Store, name: &str| {
            store.create(name, &TableOptions::default()).unwrap();
            store.table(name).unwrap()
        };
        let tables = [table(store, "a"), table(store, "b"), table(store, "c")];
        for (number, table) in tables.iter().enumerate() {
            for key in 0..500 * number as u64 {
                table.put(&key_of(key), &vec![7; 1_000]).unwrap();
            }
        }
        drop(tables);
        if round == 2 {
            store.empty("b").unwrap();
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

fn simulated(memory: &str) -> Store {
    Store::open(&format!("sim://cx5-edr?seed=3&memory={memory}")).unwrap()
}

fn over_tcp(memory: u64) -> (Server, Store) {
    let server = Server::start("tcp://127.0.0.1:0", memory).unwrap();
    let store = Store::open(&server.addresses()[0].to_string()).unwrap();
    (server, store)
}

fn over_shm(name: &str, memory: u64) -> (Server, Store) {
    let address = format!("shm://farslot-pool-{name}-{}", std::process::id());
    let server = Server::start(&address, memory).unwrap();
    let store = Store::open(&address).unwrap();
    (server, store)
}

#[test]
fn a_table_has_all_of_its_node_over_shared_memory() {
    a_table_has_all_of_its_node(&over_shm("all", 16 << 20).1, 10);
}

#[test]
fn a_table_has_all_of_its_node_over_tcp() {
    a_table_has_all_of_its_node(&over_tcp(16 << 20).1, 300);
}

#[test]
fn a_table_has_all_of_its_node_in_the_simulation() {
    a_table_has_all_of_its_node(&simulated("12MiB"), 300);
}

#[test]
fn tables_share_their_node_over_shared_memory() {
    tables_share_their_node(&over_shm("share", 16 << 20).1, 30);
}

#[test]
fn tables_share_their_node_over_tcp() {
    tables_share_their_node(&over_tcp(16 << 20).1, 300);
}

#[test]
fn tables_share_their_node_in_the_simulation() {
    tables_share_their_node(&simulated("12MiB"), 300);
}

#[test]
fn dropped_tables_leave_nothing_over_shared_memory() {
    dropped_tables_leave_nothing(&over_shm("dropped", 32 << 20).1);
}

#[test]
fn dropped_tables_leave_nothing_in_the_simulation() {
    dropped_tables_leave_nothing(&simulated("16MiB"));
}
