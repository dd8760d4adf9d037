//! What is said of a record for which there is no room: of which table, what that has of memory,
//! what its node has, and what it would need more of.

use crate::grants::{MIB, open_at, secret};
use crate::prefixes::of_prefix;
use farslot::health::{NoRoom, RoomLimit};
use farslot::index::IndexError;
use farslot::layout::RaceShape;
use farslot::{
    Expiry, FieldSize, OpenOptions, Rights, Server, ServerOptions, Store, StoreError, Table,
    TableOptions,
};
use std::ops::ControlFlow;
use std::time::Duration;
use tempfile::TempDir;

pub fn by_value() -> TableOptions {
    TableOptions::new(50)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(8))
        .load_factor(1.0)
}

/// Puts values of so many bytes until one is refused.
pub fn fill(table: &Table, bytes: usize) -> NoRoom {
    let value = vec![7; bytes];
    for number in 0..1_000_000u64 {
        match table.put(&number.to_le_bytes(), &value) {
            Ok(is_new) => assert!(is_new),
            Err(StoreError::NoRoom(no_room)) => return *no_room,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("nothing was refused")
}

fn filled(store: &Store, name: &str, options: &TableOptions, bytes: usize) -> NoRoom {
    store.create(name, options).unwrap();
    filled_of(store, name, bytes)
}

fn filled_of(store: &Store, name: &str, bytes: usize) -> NoRoom {
    let table = store.table(name).unwrap();
    let no_room = fill(&table, bytes);
    assert_eq!(no_room.table, name);
    // It goes on serving.
    let (mut held, mut read) = (0, 0);
    table.for_each(|_, _| held += 1).unwrap();
    let keys: Vec<_> = (0..held).map(u64::to_le_bytes).collect();
    let keys: Vec<_> = keys.iter().map(|key| &key[..]).collect();
    let seen = table.get_many(&keys, |_, value| read += u64::from(value.is_some()));
    assert_eq!((seen, read), (Ok(()), held));
    let memory = no_room.memory.unwrap();
    let (all, listed) = (store.memory().unwrap(), store.tables().unwrap());
    let listed = listed.into_iter().find(|table| table.name == name).unwrap();
    assert_eq!((memory.table, memory.total), (listed.bytes(), all.total));
    // Of the memory that no segment has, tables in one piece may have a part.
    assert!(memory.free <= all.free(), "{no_room:?} of {all:?}");
    assert!(all.free() - memory.free < MIB, "{no_room:?} of {all:?}");
    let said = StoreError::NoRoom(Box::new(no_room.clone())).to_string();
    for part in [
        format!("table {name:?} has no room: {}", no_room.cause),
        format!("it has {} bytes of memory", memory.table),
        format!("node's {}, {} are free", memory.total, memory.free),
    ] {
        assert!(said.contains(&part), "{said}");
    }
    no_room
}

fn each_limit_is_told(store: &Store) {
    let full = filled(store, "full", &by_value(), 8);
    assert_eq!((full.limit, full.node), (RoomLimit::Table, None));
    assert!(matches!(full.cause, IndexError::Full { slots: 50, .. }));

    let small = TableOptions::new(1_000_000)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::UpTo(4096))
        .heap_bytes(MIB)
        .race(RaceShape::default());
    let small = filled(store, "small", &small.capacity(1000), 4096);
    assert_eq!(small.limit, RoomLimit::Table);
    assert!(matches!(small.cause, IndexError::HeapFull { .. }));

    let limited = TableOptions::default().heap_bytes(2 * MIB);
    let limited = filled(store, "limited", &limited, 4096);
    assert_eq!(limited.limit, RoomLimit::Heap);
    let memory = limited.memory.unwrap();
    assert!(memory.table > 2 * MIB && memory.free > MIB, "{limited:?}");

    store.create("last", &TableOptions::default()).unwrap();
    let all = filled(store, "all", &TableOptions::default(), 4096);
    assert_eq!(all.limit, RoomLimit::Node);
    assert!(all.memory.unwrap().free < MIB, "{all:?}");
    // Another that wants memory then says what it has.
    let last = filled_of(store, "last", 4096);
    assert!(last.memory.unwrap().table < all.memory.unwrap().table);
    // None is left for a table in one piece, which is named.
    let large = TableOptions::new(1_000_000);
    let refused = store.create("large", &large).unwrap_err();
    let StoreError::OutOfMemory { table, .. } = &refused else {
        panic!("{refused}")
    };
    assert_eq!(table, "large");
    assert!(refused.to_string().contains("\"large\" needs"), "{refused}");
}

#[test]
fn a_refused_record_says_what_its_embedded_table_and_its_node_have() {
    each_limit_is_told(&Store::embedded_with(16 * MIB, OpenOptions::default()).unwrap());
}

fn open(server: &Server) -> Store {
    let options = OpenOptions {
        secret: secret(1),
        ..OpenOptions::default()
    };
    Store::open_with(&server.addresses()[0].to_string(), options).unwrap()
}

fn server(bytes: u64) -> Server {
    let options = ServerOptions {
        secrets: secret(1).into_iter().collect(),
        ..ServerOptions::default()
    };
    Server::start_with(&["tcp://127.0.0.1:0"], bytes, &options).unwrap()
}

#[test]
fn a_refused_record_says_over_tcp_what_its_table_and_its_node_have() {
    let server = server(16 * MIB);
    each_limit_is_told(&open(&server));
}

/// All of a batch that are refused are told of. (How seldom the memory is looked at for it, a test
/// over a slow link counts.)
#[test]
fn each_refused_record_of_a_batch_is_told_of() {
    let server = server(16 * MIB);
    let store = open(&server);
    store.create("t", &by_value()).unwrap();
    let table = store.table("t").unwrap();
    fill(&table, 8);
    let keys: Vec<_> = (1_000_000..1_000_500u64).map(u64::to_le_bytes).collect();
    let records: Vec<_> = keys.iter().map(|key| (&key[..], &key[..])).collect();
    let failed = table.put_many(&records, |_, _| ()).unwrap_err();
    assert_eq!(failed.failures().len(), records.len());
    for (number, error) in failed.failures() {
        let StoreError::NoRoom(no_room) = error else {
            panic!("{number}: {error}")
        };
        assert!(no_room.table == "t" && no_room.memory.is_some());
    }
}

/// Those that shall expire are told of likewise.
#[test]
fn records_with_a_time_to_live_are_refused_likewise() {
    let store = Store::embedded_with(16 * MIB, OpenOptions::default()).unwrap();
    store.create("t", &TableOptions::default()).unwrap();
    let table = store.table("t").unwrap();
    fill(&table, 1024);
    let value = [7; 1024];
    let keys: Vec<_> = (1_000_000..1_000_400u64).map(u64::to_le_bytes).collect();
    let records: Vec<_> = keys.iter().map(|key| (&key[..], &value[..])).collect();
    let hour = Duration::from_secs(3600);
    let ending = records.iter().map(|record| (*record, Expiry::NEVER));
    let ending: Vec<_> = ending.collect();
    for failed in [
        table.put_many_for(&records, hour, |_, _| ()),
        table.put_many_until(&ending, |_, _| ()),
    ] {
        for (number, error) in failed.unwrap_err().failures() {
            let StoreError::NoRoom(no_room) = error else {
                panic!("{number}: {error}")
            };
            assert_eq!((&*no_room.table, no_room.limit), ("t", RoomLimit::Node));
            assert!(no_room.memory.is_some());
        }
    }
}

#[test]
fn the_node_that_has_no_room_is_named() {
    let store = Store::open("sim://cx5-edr?seed=1&memory=16MiB&nodes=3").unwrap();
    store.create("t", &by_value()).unwrap();
    let no_room = fill(&store.table("t").unwrap(), 8);
    let addresses: Vec<_> = store
        .nodes()
        .unwrap()
        .into_iter()
        .map(|of| of.address)
        .collect();
    assert!(addresses.contains(no_room.node.as_ref().unwrap()));
    assert_eq!(
        no_room.memory.unwrap().total,
        store.memory().unwrap().total / 3
    );
}

#[test]
fn a_client_that_may_not_read_the_memory_is_told_without_it() {
    let server = server(16 * MIB);
    server.store().create("t", &by_value()).unwrap();
    let grant = of_prefix("tenant", 2, "t", Rights::ALL, &[]);
    server.grant(&grant).unwrap();
    let address = server.addresses()[0].to_string();
    let store = open_at(&address, "tenant", secret(2)).unwrap();
    let no_room = fill(&store.table("t").unwrap(), 8);
    assert_eq!((no_room.table.as_str(), no_room.memory), ("t", None));
    assert_eq!(no_room.limit, RoomLimit::Table);
}

/// A table that is copied or restored has a name of its own until it is whole, which nobody knows.
#[test]
fn a_copy_and_a_restore_for_which_there_is_no_room_have_the_name_that_was_asked_for() {
    let embedded = |bytes| Store::embedded_with(bytes, OpenOptions::default()).unwrap();
    let go_on = |_| ControlFlow::Continue(());
    let refused = |outcome: Result<u64, StoreError>| match outcome.unwrap_err() {
        StoreError::OutOfMemory { table, .. } => table,
        error => panic!("{error}"),
    };
    let store = embedded(32 * MIB);
    store.create("t", &by_value().capacity(500_000)).unwrap();
    let larger = by_value().capacity(10_000_000);
    let copied = store.copy_table_as("t", "larger", &larger, &go_on);
    assert_eq!(refused(copied), "larger");
    let directory = TempDir::new().unwrap();
    store.snapshot("t", directory.path(), &go_on).unwrap();
    let restored = embedded(4 * MIB).restore("t", directory.path(), &go_on);
    assert_eq!(refused(restored.map(|taken| taken.records)), "t");
}
