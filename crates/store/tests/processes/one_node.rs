//! Stores behind TCP: what they need to be opened, and what becomes of them when their node ends.

use crate::common::open;
use crate::roles::Other;
use farslot::admission::Secret;
use farslot::fabric::FabricError;
use farslot::fabric::tcp::Refusal;
use farslot::{ErrorKind, FieldSize, Handle, HandleOptions, OpenOptions, Server};
use farslot::{ServerOptions, Store, StoreError, Survey, TableOptions};
use farslot_testbed::block_on;
use std::net::TcpListener;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

fn small() -> TableOptions {
    TableOptions::new(1_000)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(8))
}

fn error_of<T>(result: farslot::Result<T>) -> FabricError {
    match result.map(|_| ()) {
        Err(StoreError::Fabric(error)) => error,
        other => panic!("{other:?}"),
    }
}

fn with_secret(secret: &str) -> OpenOptions {
    OpenOptions {
        secret: Some(Secret::new(secret).unwrap()),
        ..OpenOptions::default()
    }
}

#[test]
fn an_owner_killed_under_its_clients_is_named_and_one_that_comes_after_it_is_another() {
    let (mut owner, address) = Other::owner("tcp://127.0.0.1:0");
    let store = open(&address).unwrap();
    assert_eq!(store.address().to_string(), address);
    store.create("t", &small()).unwrap();
    let table = store.table("t").unwrap();
    table.put(&[1; 8], &[2; 8]).unwrap();
    let handle = Handle::open(&store, "t", HandleOptions::default()).unwrap();
    let get = || block_on(handle.get(&[1; 8]));
    assert_eq!(get(), Ok(Some(vec![2; 8])));
    owner.kill();
    for _ in 0..2 {
        let error = error_of(table.get(&[1; 8]));
        assert!(matches!(error, FabricError::NodeStopped { .. }), "{error}");
        assert_eq!(error.to_string(), "node 0 has stopped, or is out of reach");
    }
    let refused = error_of(store.table("t"));
    assert!(matches!(refused, FabricError::ConnectionRefused { .. }));

    let (_owner, _) = Other::owner(&address);
    // The store goes on, without the table.
    let absent = store.table("t").map(drop);
    assert_eq!(absent.unwrap_err().kind(), ErrorKind::NoSuchTable);
    // Its table and its handle are told so once they have found the other one there.
    let until_restarted = |get: &dyn Fn() -> farslot::Result<Option<Vec<u8>>>| {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            match error_of(get()) {
                FabricError::NodeStopped { .. } => assert!(Instant::now() < until),
                FabricError::NodeRestarted { .. } => break,
                other => panic!("{other}"),
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    until_restarted(&|| table.get(&[1; 8]));
    until_restarted(&get);
    assert_eq!(store.tables(), Ok(Vec::new()));
    assert_eq!(get().unwrap_err().kind(), ErrorKind::NoSuchTable);
    // What another makes under that name has none of their keys: a handle that knew them is told.
    store.create("t", &small()).unwrap();
    assert_eq!(store.table("t").unwrap().get(&[1; 8]), Ok(None));
    for _ in 0..2 {
        assert!(matches!(error_of(get()), FabricError::NodeRestarted { .. }));
        assert!(matches!(
            error_of(table.get(&[1; 8])),
            FabricError::NodeRestarted { .. }
        ));
    }
    let anew = Handle::open(&store, "t", HandleOptions::default()).unwrap();
    assert_eq!(block_on(anew.get(&[1; 8])), Ok(None));
}

#[test]
fn a_secret_is_proved_by_both_sides() {
    let options = ServerOptions {
        secrets: vec![Secret::new("sixteen bytes or more").unwrap()],
        threads: 2,
        ..ServerOptions::default()
    };
    let server = Server::start_with(&["tcp://127.0.0.1:0"], 16 * MIB, &options).unwrap();
    let address = server.addresses()[0].to_string();
    let store = Store::open_with(&address, with_secret("sixteen bytes or more")).unwrap();
    store.create("t", &small()).unwrap();
    assert!(store.table("t").unwrap().put(&[1; 8], &[2; 8]).unwrap());

    let reason =
        |options: OpenOptions, address: &str| match error_of(Store::open_with(address, options)) {
            FabricError::NotAdmitted { reason, .. } => reason,
            other => panic!("{other:?}"),
        };
    let wrong = with_secret("sixteen bytes of another");
    assert_eq!(reason(wrong.clone(), &address), Refusal::WrongSecret);
    let none = OpenOptions::default();
    assert_eq!(reason(none, &address), Refusal::SecretNeeded);
    let message = error_of(Store::open_with(&address, wrong.clone())).to_string();
    let place = address.strip_prefix("tcp://").unwrap();
    assert_eq!(
        message,
        format!("no admission to {place}: the secret is wrong, or there is no such grant")
    );
    // Who has a secret trusts no node that does not.
    let open = Server::start("tcp://127.0.0.1:0", 16 * MIB).unwrap();
    let open = open.addresses()[0].to_string();
    assert_eq!(reason(wrong, &open), Refusal::NodeUnproved);
}

#[test]
fn what_cannot_be_served_or_opened_is_told_in_time() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = format!("tcp://{}", silent.local_addr().unwrap());
    let start = |address: &str| error_of(Server::start(address, 16 * MIB));
    assert!(matches!(start(&taken), FabricError::AddressInUse { .. }));
    assert!(matches!(
        start("tcp://0.0.0.0:0"),
        FabricError::Insecure { .. }
    ));
    let none = "tcp://no-such-host.invalid:1";
    assert!(matches!(start(none), FabricError::Unresolvable { .. }));

    let since = Instant::now();
    let hurried = OpenOptions {
        connect_timeout: Duration::from_millis(200),
        ..OpenOptions::default()
    };
    let open = |address: &str| error_of(Store::open_with(address, hurried.clone()));
    // Nobody answers there.
    assert!(matches!(open(&taken), FabricError::ConnectTimedOut { .. }));
    assert!(matches!(
        open(none),
        FabricError::Unresolvable { .. } | FabricError::ConnectTimedOut { .. }
    ));
    assert!(since.elapsed() < Duration::from_secs(3));

    let insecure = ServerOptions {
        insecure: true,
        ..ServerOptions::default()
    };
    assert!(Server::start_with(&["tcp://0.0.0.0:0"], 16 * MIB, &insecure).is_ok());
    for addresses in [&[][..], &["embedded"], &["shm://test-a", "shm://test-b"]] {
        let refused = Server::start_with(addresses, 16 * MIB, &insecure).err();
        assert!(
            matches!(
                refused,
                Some(StoreError::NotServable { .. } | StoreError::BadAddress { .. })
            ),
            "{refused:?}"
        );
    }
}

#[test]
fn one_memory_is_served_by_name_and_by_port_at_once() {
    let name = format!("shm://test-both-{}", std::process::id());
    let addresses = [&name, "tcp://127.0.0.1:0", "tcp://127.0.0.1:0"];
    let server = Server::start_with(&addresses, 32 * MIB, &ServerOptions::default()).unwrap();
    server.store().create("t", &small()).unwrap();
    std::thread::scope(|scope| {
        for (thread, address) in server.addresses().iter().enumerate() {
            scope.spawn(move || {
                let table = open(&address.to_string())
                    .and_then(|store| store.table("t"))
                    .unwrap();
                for number in 0..300u64 {
                    let key = (number * 3 + thread as u64).to_le_bytes();
                    assert!(table.put(&key, &key).unwrap());
                    table.put(&[255; 8], &key).unwrap();
                }
            });
        }
    });
    let table = server.store().table("t").unwrap();
    let Survey::Linear(survey) = table.survey().unwrap() else {
        panic!("no survey of a linear table");
    };
    assert_eq!(survey.live, 901);
    assert_eq!(table.occupancy().unwrap().entries, 901);
    let counted: u64 = server.agents().iter().map(|a| a.counters().admitted).sum();
    assert!(counted >= 2, "{counted}");
}
