//! Stores between real processes, with clients and owners that are killed. A test that needs another
//! process starts this file again with a role.

use farslot::fabric::FabricError;
use farslot::{FieldSize, Server, SlotKind, Store, StoreError, Table, TableOptions};
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
            let _server = Server::start(&address, 64 << 20).unwrap();
            println!("serving");
            let _ = std::io::stdin().read_line(&mut String::new());
        }
        "writer" => write_for_ever(
            &Store::open(&address)
                .unwrap()
                .table(&std::env::var(TABLE).unwrap())
                .unwrap(),
        ),
        other => panic!("no role {other:?}"),
    }
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

fn options(kind: SlotKind) -> TableOptions {
    TableOptions::new(4_000)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(48))
        .slots(kind)
        .heap_bytes(8 << 20)
}

#[test]
fn a_client_killed_in_the_middle_leaves_whole_records_and_a_table_that_serves() {
    for kind in [SlotKind::Inline, SlotKind::Heap] {
        let address = address(&format!("client-{kind:?}"));
        let server = Server::start(&address, 64 << 20).unwrap();
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
    assert_eq!(table.survey().unwrap().live(), 2_000);
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
