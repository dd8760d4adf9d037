//! Servers that go on with the memory of one before them.

use farslot::keeper::NodeMemory;
use farslot::layout::{CuckooShape, DuoShape, RaceShape};
use farslot::{ErrorKind, Server, ServerOptions, SlotKind, Store, StoreError, Table, TableOptions};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

const BYTES: u64 = 128 << 20;

/// A file that is kept, and where its memory is served: by a name, and at a port of its own.
struct Kept {
    file: OwnedFd,
    addresses: [String; 2],
}

impl Kept {
    fn start(name: &str) -> (Self, Server) {
        // It is free again behind this.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
        let port = port.unwrap();
        let memory = Server::memory_to_keep(BYTES).unwrap();
        let kept = Self {
            file: memory.file().try_clone_to_owned().unwrap(),
            addresses: [
                format!("shm://stores-kept-{name}-{}", std::process::id()),
                format!("tcp://{port}"),
            ],
        };
        let server = kept.serve(memory, false).unwrap();
        (kept, server)
    }

    fn memory(&self) -> NodeMemory {
        NodeMemory::of_file(self.file.try_clone().unwrap(), "it").unwrap()
    }

    fn serve(&self, memory: NodeMemory, restoring: bool) -> farslot::Result<Server> {
        let addresses = self.addresses.each_ref().map(String::as_str);
        let options = ServerOptions {
            restoring,
            ..ServerOptions::default()
        };
        Server::start_on(&addresses, memory, &options)
    }

    fn open(&self) -> [Store; 2] {
        self.addresses
            .each_ref()
            .map(|address| Store::open(address).unwrap())
    }
}

/// Tables of every scheme that is written record by record.
fn kinds() -> Vec<(&'static str, TableOptions)> {
    let new = || TableOptions::new(500);
    vec![
        (
            "pairs",
            new()
                .keys(farslot::FieldSize::Fixed(8))
                .values(farslot::FieldSize::Fixed(8))
                .slots(SlotKind::Pair),
        ),
        ("heap", new().slots(SlotKind::Heap)),
        (
            "growing",
            new().race(RaceShape::default()).capacity(20).grow_to(2_000),
        ),
        ("cuckoo", new().cuckoo(CuckooShape::default())),
        ("duo", new().duo(DuoShape::default())),
        ("chained", new().chained()),
        ("ordered", new().ordered()),
    ]
}

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

/// Does something until the client knows that the node is gone.
fn until_refused<T>(mut attempt: impl FnMut() -> farslot::Result<T>) -> StoreError {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        match attempt() {
            Err(error) => return error,
            Ok(_) => assert!(Instant::now() < until, "the node is not gone"),
        }
    }
}

/// Does something once the node is there again.
fn patiently<T>(mut attempt: impl FnMut() -> farslot::Result<T>) -> T {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        match attempt() {
            Ok(done) => return done,
            Err(error) => {
                let kind = error.kind();
                assert_eq!(kind, ErrorKind::NodeDown, "{error}");
                assert!(Instant::now() < until, "{error}");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

#[test]
fn tables_of_every_scheme_and_their_clients_go_on() {
    let (kept, server) = Kept::start("all");
    let incarnation = server.store().nodes().unwrap()[0].incarnation;
    let stores = kept.open();
    let mut tables: Vec<Table> = Vec::new();
    for (number, (name, options)) in kinds().iter().enumerate() {
        let store = &stores[number % 2];
        store.create(name, options).unwrap();
        let table = store.table(name).unwrap();
        for number in 0..200 {
            table.put(&key(number), &key(number + 1)).unwrap();
        }
        tables.push(table);
    }
    drop(server);
    for ((name, _), table) in kinds().iter().zip(&tables) {
        let error = until_refused(|| table.put(&key(0), &key(1)));
        assert_eq!(error.kind(), ErrorKind::NodeDown, "{name}: {error}");
    }
    let server = kept.serve(kept.memory(), false).unwrap();
    assert_eq!(server.store().nodes().unwrap()[0].incarnation, incarnation);
    for ((name, _), table) in kinds().iter().zip(&tables) {
        let found = patiently(|| table.get(&key(9)));
        assert_eq!(found.as_deref(), Some(&key(10)[..]), "{name}");
        for number in 200..300 {
            patiently(|| table.put(&key(number), &key(number + 1)));
        }
        let again = server.store().table(name).unwrap();
        for number in 0..300 {
            let found = again.get(&key(number)).unwrap();
            assert_eq!(
                found.as_deref(),
                Some(&key(number + 1)[..]),
                "{name}: {number}"
            );
        }
    }
    assert_eq!(tables.len(), 7);
}

#[test]
fn a_node_that_ended_for_its_last_snapshots_takes_writes_again() {
    let (kept, server) = Kept::start("ended");
    let stores = kept.open();
    stores[0].create("t", &TableOptions::default()).unwrap();
    let tables = stores.each_ref().map(|store| store.table("t").unwrap());
    for table in &tables {
        table.put(b"key", b"1").unwrap();
    }
    server.end_writes().unwrap();
    for table in &tables {
        assert_eq!(
            table.put(b"key", b"2").unwrap_err().kind(),
            ErrorKind::NodeDown
        );
    }
    drop(server);
    let server = kept.serve(kept.memory(), false).unwrap();
    for table in &tables {
        patiently(|| table.put(b"key", b"3"));
        patiently(|| table.remove(b"other"));
    }
    patiently(|| stores[1].create("new", &TableOptions::default()));
    assert_eq!(
        server
            .store()
            .table("t")
            .unwrap()
            .get(b"key")
            .unwrap()
            .as_deref(),
        Some(&b"3"[..])
    );
}

#[test]
fn tables_that_were_being_restored_are_not_gone_on_with() {
    let memory = Server::memory_to_keep(BYTES).unwrap();
    let (kept, server) = Kept::start("restored");
    drop(server);
    let file = memory.file().try_clone_to_owned().unwrap();
    let server = kept.serve(memory, true).unwrap();
    server
        .keeper()
        .create("half", &TableOptions::default())
        .unwrap();
    drop(server);
    let memory = NodeMemory::of_file(file.try_clone().unwrap(), "it").unwrap();
    assert!(!Server::is_whole(&memory).unwrap());
    let refused = kept.serve(memory, true).unwrap_err();
    assert!(matches!(refused, StoreError::HalfRestored), "{refused}");
    let server = kept.serve(kept.memory(), true).unwrap();
    server.open_to_clients().unwrap();
    drop(server);
    assert!(Server::is_whole(&kept.memory()).unwrap());
}

#[test]
fn memory_for_a_nic_is_not_kept() {
    let memory = Server::memory_to_keep(BYTES).unwrap();
    let refused = Server::start_on(&["verbs://127.0.0.1:0"], memory, &ServerOptions::default());
    let error = refused.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadInput, "{error}");
}
