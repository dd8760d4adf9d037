//! Snapshots of tables: round trips of every scheme and slot, full tables, attempts that are cut
//! off, files that are damaged, and writers beside them.

mod beside;
mod copies;
mod damaged;
mod resumed;

use farslot::layout::{CuckooShape, DuoShape, RaceShape};
use farslot::snapshots::{SnapshotError, SnapshotProgress, check_snapshot, list_snapshots};
use farslot::{ErrorKind, FieldSize, Server, SlotKind, Store, StoreError, Table, TableOptions};
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::TempDir;

fn go_on(_: SnapshotProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn store() -> Store {
    Store::embedded_with(256 << 20, Default::default()).unwrap()
}

fn fixed(slot: SlotKind, key: u32, value: u32) -> TableOptions {
    TableOptions::new(2_000)
        .keys(FieldSize::Fixed(key))
        .values(FieldSize::Fixed(value))
        .slots(slot)
}

fn any(slot: SlotKind) -> TableOptions {
    TableOptions::new(2_000)
        .keys(FieldSize::UpTo(40))
        .values(FieldSize::UpTo(300))
        .slots(slot)
}

/// Tables that are written record by record.
fn kinds() -> Vec<TableOptions> {
    let cuckoo = |options: TableOptions| options.cuckoo(CuckooShape::default());
    let duo = |options: TableOptions| options.duo(DuoShape::default());
    let alone = DuoShape {
        readers: false,
        ..DuoShape::default()
    };
    vec![
        fixed(SlotKind::Word, 4, 3),
        fixed(SlotKind::Pair, 8, 8),
        fixed(SlotKind::Inline, 12, 20),
        any(SlotKind::Heap),
        any(SlotKind::Hybrid).inline_bytes(32),
        any(SlotKind::Heap).multi_key(),
        cuckoo(fixed(SlotKind::Word, 4, 3)),
        cuckoo(fixed(SlotKind::Inline, 12, 20)),
        cuckoo(any(SlotKind::Heap)),
        cuckoo(any(SlotKind::Signatures)),
        duo(fixed(SlotKind::Inline, 12, 20)),
        duo(any(SlotKind::Heap)),
        // This and the second one grow.
        fixed(SlotKind::Inline, 12, 20)
            .duo(alone)
            .capacity(300)
            .grow_to(4_000),
        any(SlotKind::Heap)
            .race(RaceShape::default())
            .capacity(300)
            .grow_to(4_000),
        TableOptions::default(),
    ]
}

/// The bytes of a number in a field of this size.
fn field(size: FieldSize, number: u64) -> Vec<u8> {
    let length = match size {
        FieldSize::Fixed(length) => length as usize,
        FieldSize::UpTo(most) => 8 + number as usize % (most as usize - 8).min(200),
    };
    let mut bytes = number.to_le_bytes().repeat(length.div_ceil(8));
    bytes.truncate(length);
    bytes
}

type Pair = (Vec<u8>, Vec<u8>);

fn record(options: &TableOptions, number: u64) -> Pair {
    let (key, value) = options.scheme().unwrap().record_sizes();
    let mut value = field(value, number * 7 + 1);
    // The top bit of a word is not the record's.
    if let Some(last) = value.last_mut() {
        *last &= 0x7f;
    }
    (field(key, number), value)
}

fn fill(table: &Table, records: &[Pair]) {
    let borrowed: Vec<_> = records
        .iter()
        .map(|(key, value)| (&key[..], &value[..]))
        .collect();
    table.put_many(&borrowed, |_, _| ()).unwrap();
}

fn sorted(table: &Table) -> Vec<Pair> {
    let mut records = Vec::new();
    table
        .for_each(|key, value| records.push((key.to_vec(), value.to_vec())))
        .unwrap();
    records.sort();
    records
}

fn sorted_in(store: &Store, name: &str) -> Vec<Pair> {
    sorted(&store.table(name).unwrap())
}

/// Takes a snapshot and restores it to another store; what is there then.
fn there_and_back(store: &Store, directory: &Path) -> Vec<Pair> {
    let taken = store.snapshot("t", directory, &go_on).unwrap();
    assert_eq!(check_snapshot(&taken.path).unwrap(), taken);
    assert_eq!(
        *list_snapshots(directory, 0).unwrap(),
        *std::slice::from_ref(&taken)
    );
    let mode = std::fs::metadata(&taken.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "nobody else's");
    let other = self::store();
    assert_eq!(other.restore("t", directory, &go_on).unwrap(), taken);
    let files: Vec<_> = std::fs::read_dir(directory).unwrap().collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let again = other.restore("t", directory, &go_on).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::TableExists);
    assert_eq!(other.tables().unwrap().len(), 1);
    let (before, after) = (&store.tables().unwrap()[0], &other.tables().unwrap()[0]);
    assert_eq!(before.scheme.table_bytes(), after.scheme.table_bytes());
    sorted_in(&other, "t")
}

#[test]
fn every_scheme_and_slot_comes_back() {
    for options in kinds() {
        let (store, directory) = (store(), TempDir::new().unwrap());
        store.create("t", &options).unwrap();
        let table = store.table("t").unwrap();
        // Twice the same key where it may have two records.
        let records: Vec<_> = (0..1_000)
            .map(|number| record(&options, number / 2 * 2))
            .collect();
        fill(&table, &records);
        fill(&table, &[record(&options, 77_777)]);
        let expected = sorted(&table);
        table.close().unwrap();
        assert!(expected.len() > 500);
        assert!(
            there_and_back(&store, directory.path()) == expected,
            "{options:?}"
        );
    }
}

#[test]
fn an_empty_table_and_one_that_is_built_come_back() {
    let cuckoo = CuckooShape::default();
    for options in [
        fixed(SlotKind::Inline, 12, 20).sealed(),
        any(SlotKind::Heap).sealed(),
        any(SlotKind::Heap).sealed().multi_key(),
        any(SlotKind::Heap).perfect_with_filter(),
        fixed(SlotKind::Inline, 12, 20).perfect(),
        fixed(SlotKind::Word, 4, 3).cuckoo(cuckoo).multi_key(),
    ] {
        for count in [0, 1, 1_000] {
            let (store, directory) = (store(), TempDir::new().unwrap());
            let records: Vec<_> = (0..count).map(|number| record(&options, number)).collect();
            let borrowed = records.iter().map(|(key, value)| (&key[..], &value[..]));
            let built = store.build("t", &options, &borrowed.collect::<Vec<_>>());
            assert_eq!(built.unwrap(), count);
            let expected = sorted_in(&store, "t");
            assert!(
                there_and_back(&store, directory.path()) == expected,
                "{options:?}"
            );
        }
    }
    let (store, directory) = (store(), TempDir::new().unwrap());
    store.create("t", &TableOptions::new(10)).unwrap();
    assert_eq!(there_and_back(&store, directory.path()), []);
}

/// Puts keys until one finds no place; what is in the table then.
fn fill_up(table: &Table, options: &TableOptions) -> Vec<Pair> {
    let mut refused = 0;
    for number in 0.. {
        let (key, value) = record(options, number);
        match table.put(&key, &value) {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::Full | ErrorKind::OutOfMemory) => {
                refused += 1;
                if refused == 30 {
                    break;
                }
            }
            Err(error) => panic!("{error}"),
        }
    }
    sorted(table)
}

#[test]
fn a_table_that_is_full_comes_back_as_full() {
    for options in kinds() {
        if options.is_by_memory() {
            continue;
        }
        let options = options.capacity(500);
        let linear = options.scheme().unwrap().name() == "linear";
        let (store, directory) = (store(), TempDir::new().unwrap());
        store.create("t", &options).unwrap();
        let table = store.table("t").unwrap();
        let expected = fill_up(&table, &options);
        let survey = table.survey().unwrap();
        table.close().unwrap();
        store.snapshot("t", directory.path(), &go_on).unwrap();
        let other = self::store();
        other.restore("t", directory.path(), &go_on).unwrap();
        assert!(sorted_in(&other, "t") == expected, "{options:?}");
        if linear {
            // The last slot is taken, and the table is no larger.
            let (before, after) = (&store.tables().unwrap()[0], &other.tables().unwrap()[0]);
            assert_eq!(before.scheme, after.scheme, "{survey:?}");
        }
    }
}

#[test]
fn another_writer_keeps_a_snapshot_out_where_it_may_move_records() {
    let node = Server::start("tcp://127.0.0.1:0", 64 << 20).unwrap();
    let open = || Store::open(&node.addresses()[0].to_string()).unwrap();
    let (one, other, directory) = (open(), open(), TempDir::new().unwrap());
    for (name, options) in [
        (
            "c",
            fixed(SlotKind::Inline, 12, 20).cuckoo(CuckooShape::default()),
        ),
        (
            "d",
            fixed(SlotKind::Inline, 12, 20).duo(DuoShape::default()),
        ),
    ] {
        one.create(name, &options).unwrap();
        let writer = one.table(name).unwrap();
        fill(&writer, &[record(&options, 1)]);
        let refused = other.snapshot(name, directory.path(), &go_on).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::WriterBusy, "{refused}");
        writer.close().unwrap();
        let taken = other.snapshot(name, directory.path(), &go_on).unwrap();
        assert_eq!(taken.records, 1);
        // It has left the table to others.
        fill(&one.table(name).unwrap(), &[record(&options, 2)]);
    }
}

/// So many nodes of this process, and the address of all.
fn nodes(count: usize) -> (Vec<Server>, String) {
    let servers: Vec<_> = (0..count)
        .map(|_| Server::start("tcp://127.0.0.1:0", 64 << 20).unwrap())
        .collect();
    let ports = servers.iter().map(|server| {
        let address = server.addresses()[0].to_string();
        address["tcp://".len()..].to_owned()
    });
    let address = format!("tcp://{}", ports.collect::<Vec<_>>().join(","));
    (servers, address)
}

#[test]
fn tables_over_several_nodes_come_back_on_as_many() {
    let directory = TempDir::new().unwrap();
    let [(_first, one), (_second, other)] = [nodes(3), nodes(3)];
    let (one, other) = (Store::open(&one).unwrap(), Store::open(&other).unwrap());
    let tables = [
        ("pair", fixed(SlotKind::Pair, 8, 8)),
        ("heap", any(SlotKind::Heap)),
        ("cuckoo", any(SlotKind::Heap).cuckoo(CuckooShape::default())),
        (
            "duo",
            fixed(SlotKind::Inline, 12, 20).duo(DuoShape::default()),
        ),
        ("race", any(SlotKind::Heap).race(RaceShape::default())),
        ("sealed", any(SlotKind::Heap).sealed()),
    ];
    for (name, options) in &tables {
        let records: Vec<_> = (0..1_500).map(|number| record(options, number)).collect();
        let borrowed: Vec<_> = records
            .iter()
            .map(|(key, value)| (&key[..], &value[..]))
            .collect();
        match options.buildable() && *name == "sealed" {
            true => drop(one.build(name, options, &borrowed).unwrap()),
            false => {
                one.create(name, options).unwrap();
                let table = one.table(name).unwrap();
                fill(&table, &records);
                table.close().unwrap();
            }
        }
        let taken = one.snapshot(name, directory.path(), &go_on).unwrap();
        assert_eq!((taken.records, taken.partitions), (1_500, 3));
        other.restore(name, directory.path(), &go_on).unwrap();
        assert!(sorted_in(&one, name) == sorted_in(&other, name), "{name}");
        // They lie where they lay.
        let parts = |store: &Store| {
            let parts = store.table(name).unwrap().partitions();
            parts
                .into_iter()
                .map(|part| part.occupancy.unwrap().entries)
                .collect::<Vec<_>>()
        };
        assert_eq!(parts(&one), parts(&other), "{name}");
    }
    let refused = store()
        .restore("heap", directory.path(), &go_on)
        .unwrap_err();
    let StoreError::Snapshot(refused) = refused else {
        panic!("{refused}");
    };
    let SnapshotError::NodeCount {
        partitions, nodes, ..
    } = *refused
    else {
        panic!("{refused}");
    };
    assert_eq!((partitions, nodes), (3, 1));
}
