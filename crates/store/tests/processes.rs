//! Stores between real processes, with clients and owners that are killed. A test that needs another
//! process starts this file again with a role.

use farslot::fabric::FabricError;
use farslot::index::IndexError;
use farslot::{
    CuckooShape, FieldSize, Server, SlotKind, Store, StoreError, Survey, Table, TableOptions,
};
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

const ROLE: &str = "FARSLOT_TEST_ROLE";
const ADDRESS: &str = "FARSLOT_TEST_ADDRESS";
const TABLE: &str = "FARSLOT_TEST_TABLE";

/// Not a test of its own: what another process does.
#[test]
fn other_process() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let address = std::env::var(ADDRESS).unwrap();
    match role.as_str() {
        "owner" => {
            let server = Server::start(&address, 64 << 20).unwrap();
            println!("serving at {}", server.addresses()[0]);
            let _ = std::io::stdin().read_line(&mut String::new());
        }
        "writer" => write_for_ever(
            &Store::open(&address)
                .unwrap()
                .table(&std::env::var(TABLE).unwrap())
                .unwrap(),
        ),
        "reader" => {
            let table = std::env::var(TABLE).unwrap();
            read_the_lasting(&Store::open(&address).unwrap().table(&table).unwrap());
        }
        "builder" => {
            let table = std::env::var(TABLE).unwrap();
            build_numbers(&Store::open(&address).unwrap(), &table);
        }
        "clean writer" => {
            let table = std::env::var(TABLE).unwrap();
            let table = Store::open(&address).unwrap().table(&table).unwrap();
            table.put(&[7; 8], &value_of(7)).unwrap();
            // Dropped, not closed.
        }
        other => panic!("no role {other:?}"),
    }
}

/// Keys that are never removed while others come and go.
const LASTING: std::ops::Range<u64> = 1_000_000..1_001_000;

/// Looks the lasting keys up until standard input closes: each must be there, whole.
fn read_the_lasting(table: &Table) {
    let (closed, is_closed) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_line(&mut String::new());
        closed.send(()).unwrap();
    });
    println!("under way");
    let mut rounds = 0;
    while is_closed.try_recv().is_err() {
        for number in LASTING {
            let value = table.get(&number.to_le_bytes()).unwrap();
            assert_eq!(
                value.as_deref(),
                Some(&value_of(number)[..]),
                "key {number}"
            );
        }
        rounds += 1;
    }
    println!("looked {rounds} times");
}

fn write_for_ever(table: &Table) {
    for number in 0u64.. {
        let key = (number % 2_000).to_le_bytes();
        match number % 7 {
            6 => drop(table.remove(&key).unwrap()),
            _ => drop(table.put(&key, &value_of(number)).unwrap()),
        }
        if number == 5_000 {
            println!("under way");
        }
    }
}

/// A value that shows whether it is whole: 48 bytes of one number.
fn value_of(number: u64) -> [u8; 48] {
    let mut value = [0; 48];
    value
        .chunks_exact_mut(8)
        .for_each(|word| word.copy_from_slice(&number.to_le_bytes()));
    value
}

fn is_whole(value: &[u8]) -> bool {
    value.len() == 48 && value.chunks_exact(8).all(|word| word == &value[..8])
}

fn start(role: &str, address: &str, table: &str) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "other_process", "--nocapture"])
        .envs([(ROLE, role), (ADDRESS, address), (TABLE, table)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, lines)
}

fn wait_for(lines: &mut Lines<BufReader<ChildStdout>>, word: &str) {
    assert!(
        lines.any(|line| line.unwrap().contains(word)),
        "never said {word:?}"
    );
}

fn address(name: &str) -> String {
    format!("shm://test-{name}-{}", std::process::id())
}

const SHM: &str = "shm";
const TCP: &str = "tcp";

/// Memory of this process, served to others.
fn served(name: &str, fabric: &str) -> Server {
    let address = match fabric {
        TCP => "tcp://127.0.0.1:0".into(),
        _ => address(name),
    };
    Server::start(&address, 64 << 20).unwrap()
}

fn options(kind: SlotKind) -> TableOptions {
    TableOptions::new(4_000)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(48))
        .slots(kind)
        .heap_bytes(8 << 20)
}

#[test]
fn a_client_killed_in_the_middle_leaves_whole_records_and_a_table_that_serves() {
    for (kind, fabric) in [
        (SlotKind::Inline, SHM),
        (SlotKind::Heap, SHM),
        (SlotKind::Inline, TCP),
        (SlotKind::Heap, TCP),
    ] {
        let server = served(&format!("client-{kind:?}"), fabric);
        let address = server.addresses()[0].to_string();
        server.store().create("t", &options(kind)).unwrap();
        for _ in 0..5 {
            let (mut writer, mut lines) = start("writer", &address, "t");
            wait_for(&mut lines, "under way");
            writer.kill().unwrap();
            writer.wait().unwrap();
            check_table(&server.store().table("t").unwrap());
        }
    }
}

fn check_table(table: &Table) {
    check_records(table, 2_000);
}

/// Checks what a killed writer has left, and that all can be written: so many records are there then.
fn check_records(table: &Table, records: u64) {
    let mut found = 0;
    table
        .for_each(|key, value| {
            assert!(is_whole(value), "{key:?} has {value:?}");
            found += 1;
        })
        .unwrap();
    assert!(found > 1_000);
    for number in 0u64..2_000 {
        let key = number.to_le_bytes();
        let before = table.get(&key).unwrap();
        assert!(before.as_deref().is_none_or(is_whole));
        assert_eq!(
            table.put(&key, &value_of(number)).unwrap(),
            before.is_none()
        );
        assert_eq!(table.get(&key).unwrap().unwrap(), value_of(number));
    }
    assert_eq!(table.survey().unwrap().live(), records);
}

#[test]
fn an_owner_killed_under_its_clients_is_named_and_its_name_is_free() {
    let address = address("owner");
    let (mut owner, mut lines) = start("owner", &address, "");
    wait_for(&mut lines, "serving");
    let store = Store::open(&address).unwrap();
    store.create("t", &options(SlotKind::Heap)).unwrap();
    let table = store.table("t").unwrap();
    table.put(&[1; 8], &value_of(1)).unwrap();
    owner.kill().unwrap();
    owner.wait().unwrap();
    let error = loop {
        if let Err(error) = table.get(&[1; 8]) {
            break error;
        }
    };
    assert!(matches!(
        error,
        StoreError::Fabric(FabricError::NodeStopped { .. })
    ));
    assert!(store.table("t").is_err() && store.create("u", &options(SlotKind::Heap)).is_err());
    assert!(matches!(
        Store::open(&address).map(|_| ()),
        Err(StoreError::Fabric(FabricError::NoSuchRegion { .. }))
    ));
    let again = Server::start(&address, 16 << 20).unwrap();
    assert_eq!(again.store().tables().unwrap(), []);
}

#[test]
fn an_owner_that_ends_by_itself_frees_its_name_too() {
    let address = address("ends");
    let (mut owner, mut lines) = start("owner", &address, "");
    wait_for(&mut lines, "serving");
    drop(owner.stdin.take());
    assert!(owner.wait().unwrap().success());
    assert!(Store::open(&address).is_err());
}

fn cuckoo(kind: SlotKind) -> TableOptions {
    options(kind).cuckoo(CuckooShape {
        ways: 2,
        bucket_slots: 4,
    })
}

fn is_busy(result: farslot::Result<bool>) -> bool {
    matches!(
        result,
        Err(StoreError::Index(IndexError::WriterBusy { .. }))
    )
}

#[test]
fn a_cuckoo_writer_killed_in_the_middle_is_replaced_and_nothing_is_lost() {
    for (kind, fabric) in [(SlotKind::Inline, SHM), (SlotKind::Heap, TCP)] {
        let server = served(&format!("cuckoo-{kind:?}"), fabric);
        let address = server.addresses()[0].to_string();
        server.store().create("t", &cuckoo(kind)).unwrap();
        let last = |table: &Table| {
            for number in LASTING {
                table.put(&number.to_le_bytes(), &value_of(number)).unwrap();
            }
        };
        last(&server.store().table("t").unwrap());
        for _ in 0..3 {
            let (mut writer, mut lines) = start("writer", &address, "t");
            wait_for(&mut lines, "under way");
            writer.kill().unwrap();
            writer.wait().unwrap();
            let table = server.store().table("t").unwrap();
            assert!(is_busy(table.put(&[1; 8], &value_of(1))));
            for number in LASTING {
                let value = table.get(&number.to_le_bytes()).unwrap();
                assert_eq!(value.as_deref(), Some(&value_of(number)[..]));
            }
            table.take_over().unwrap();
            // What stood twice stands once when it has been written.
            last(&table);
            check_records(&table, 2_000 + LASTING.count() as u64);
            for number in 0u64..2_000 {
                assert!(table.remove(&number.to_le_bytes()).unwrap());
            }
            assert_eq!(table.survey().unwrap().live(), LASTING.count() as u64);
        }
    }
}

#[test]
fn a_cuckoo_writer_that_ends_by_itself_leaves_the_table_to_the_next() {
    let address = address("cuckoo-ends");
    let server = Server::start(&address, 64 << 20).unwrap();
    let options = cuckoo(SlotKind::Heap);
    server.store().create("t", &options).unwrap();
    for _ in 0..2 {
        let (mut writer, _lines) = start("clean writer", &address, "t");
        assert!(writer.wait().unwrap().success());
    }
    let table = server.store().table("t").unwrap();
    assert_eq!(table.writer().unwrap(), None);
    assert!(!table.put(&[7; 8], &value_of(8)).unwrap());
}

#[test]
fn readers_beside_a_cuckoo_writer_never_miss_what_it_moves() {
    let address = address("cuckoo-readers");
    let server = Server::start(&address, 64 << 20).unwrap();
    // So full that new keys displace others.
    let options = cuckoo(SlotKind::Inline).load_factor(0.95);
    server.store().create("t", &options).unwrap();
    let table = server.store().table("t").unwrap();
    for number in LASTING {
        table.put(&number.to_le_bytes(), &value_of(number)).unwrap();
    }
    let mut readers: Vec<_> = (0..2).map(|_| start("reader", &address, "t")).collect();
    for (_, lines) in &mut readers {
        wait_for(lines, "under way");
    }
    for round in 0..15 {
        for number in 0..3_000u64 {
            let key = (round * 10_000 + number).to_le_bytes();
            table.put(&key, &value_of(number)).unwrap();
        }
        for number in 0..3_000u64 {
            assert!(
                table
                    .remove(&(round * 10_000 + number).to_le_bytes())
                    .unwrap()
            );
        }
    }
    for (mut reader, mut lines) in readers {
        drop(reader.stdin.take());
        wait_for(&mut lines, "looked");
        assert!(reader.wait().unwrap().success());
    }
    let Survey::Cuckoo(survey) = table.survey().unwrap() else {
        panic!("no survey of buckets");
    };
    assert!(survey.displacements > 1_000, "{}", survey.displacements);
}

const BUILT: u64 = 100_000;

/// Builds a sealed table of numbered records.
fn build_numbers(store: &Store, table: &str) {
    let records: Vec<_> = (0..BUILT)
        .map(|number| (number.to_le_bytes(), value_of(number)))
        .collect();
    let records: Vec<(&[u8], &[u8])> = records
        .iter()
        .map(|(key, value)| (&key[..], &value[..]))
        .collect();
    let options = TableOptions::new(1)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(48))
        .sealed();
    assert_eq!(store.build(table, &options, &records), Ok(BUILT));
}

/// Checks that every record of a table that [`build_numbers`] has built is there.
fn check_numbers(table: &Table) {
    for number in 0..BUILT {
        let value = table.get(&number.to_le_bytes()).unwrap();
        assert_eq!(value.as_deref(), Some(&value_of(number)[..]));
    }
    assert_eq!(table.survey().unwrap().live(), BUILT);
}

#[test]
fn a_builder_killed_in_the_middle_leaves_a_table_that_says_so() {
    let address = address("builder");
    let server = Server::start(&address, 256 << 20).unwrap();
    let store = server.store();
    let mut finished = 0;
    for round in 0..4 {
        let name = format!("t{round}");
        let (mut builder, _lines) = start("builder", &address, &name);
        while store.table(&name).is_err() {
            std::thread::yield_now();
        }
        builder.kill().unwrap();
        builder.wait().unwrap();
        let table = store.table(&name).unwrap();
        match table.get(&[1; 8]) {
            Err(StoreError::Index(IndexError::NotBuilt)) => {
                assert!(table.survey().is_err() && table.for_each(|_, _| ()).is_err());
            }
            // It was faster than the kill: then all of it is there.
            Ok(None) => {
                check_numbers(&table);
                finished += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(finished < 4, "never killed in time");
    // What a builder that ends by itself has built in another process is found here.
    let (mut builder, _lines) = start("builder", &address, "whole");
    assert!(builder.wait().unwrap().success());
    check_numbers(&store.table("whole").unwrap());
}
