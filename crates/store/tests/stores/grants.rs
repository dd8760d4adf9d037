//! Grants of single tables: what their clients can do, and what they cannot.

use farslot::TableOptions;
use farslot::admission::TableGrant;
use farslot::admission::{Rate, Secret};
use farslot::fabric::tcp::Refusal;
use farslot::fabric::{FabricError, Rights};
use farslot::index::IndexError;
use farslot::layout::{CuckooShape, DuoShape, RaceShape};
use farslot::{ErrorKind, FieldSize, OpenOptions, Server, ServerOptions, Store, StoreError};

pub const MIB: u64 = 1 << 20;

pub fn secret(number: u8) -> Option<Secret> {
    Some(Secret::new([number; 16]).unwrap())
}

pub fn server() -> Server {
    let options = ServerOptions {
        secrets: secret(1).into_iter().collect(),
        ..ServerOptions::default()
    };
    let server = Server::start_with(&["tcp://127.0.0.1:0"], 32 * MIB, &options).unwrap();
    let store = server.store();
    let small = TableOptions::new(1_000)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(8));
    let large = TableOptions::new(1_000)
        .keys(FieldSize::UpTo(20))
        .values(FieldSize::UpTo(2_000));
    let cuckoo = large.clone().cuckoo(CuckooShape::default());
    for (name, options) in [("a", &small), ("b", &large), ("c", &cuckoo), ("d", &small)] {
        store.create(name, options).unwrap();
        let table = store.table(name).unwrap();
        assert!(table.put(&[1; 8], &[2; 8]).unwrap());
        table.close().unwrap();
    }
    server
}

/// Two nodes, and the address of both.
pub fn two_nodes() -> ([Server; 2], String) {
    let options = ServerOptions {
        secrets: secret(1).into_iter().collect(),
        ..ServerOptions::default()
    };
    let start = || Server::start_with(&["tcp://127.0.0.1:0"], 32 * MIB, &options).unwrap();
    let servers = [start(), start()];
    let authorities = servers.each_ref().map(|server| {
        let address = server.addresses()[0].to_string();
        address.trim_start_matches("tcp://").to_owned()
    });
    let address = format!("tcp://{}", authorities.join(","));
    (servers, address)
}

pub fn open(server: &Server, grant: &str, secret: Option<Secret>) -> farslot::Result<Store> {
    open_at(&server.addresses()[0].to_string(), grant, secret)
}

pub fn open_at(address: &str, grant: &str, secret: Option<Secret>) -> farslot::Result<Store> {
    let options = OpenOptions {
        grant: grant.into(),
        secret,
        ..OpenOptions::default()
    };
    Store::open_with(address, options)
}

pub fn grant(name: &str, number: u8, tables: &[&str], rights: Rights) -> TableGrant {
    TableGrant {
        name: name.into(),
        secrets: secret(number).into_iter().collect(),
        clients: None,
        tables: tables.iter().map(ToString::to_string).collect(),
        rights,
        prefix: None,
        rate: Rate::UNLIMITED,
    }
}

pub fn error_of<T>(result: farslot::Result<T>) -> FabricError {
    match result.map(drop) {
        Err(StoreError::Fabric(error) | StoreError::Index(IndexError::Fabric(error))) => error,
        other => panic!("{other:?}"),
    }
}

pub fn is_denied<T>(result: farslot::Result<T>) -> bool {
    matches!(error_of(result), FabricError::AccessDenied { .. })
}

#[test]
fn a_grant_opens_its_tables_and_no_other_memory() {
    let server = server();
    let writers = grant("writers", 2, &["b", "c"], Rights::ALL);
    let readers = grant("readers", 3, &["a", "b", "c"], Rights::READ);
    server.grant(&writers).unwrap();
    server.grant(&readers).unwrap();

    let store = open(&server, "writers", secret(2)).unwrap();
    assert_eq!(store.tables().unwrap().len(), 4, "the catalog can be read");
    for name in ["b", "c"] {
        let table = store.table(name).unwrap();
        for number in 0..200u64 {
            let value = vec![number as u8; number as usize * 10];
            assert!(table.put(&number.to_le_bytes(), &value).unwrap());
        }
        let value = table.get(&150u64.to_le_bytes()).unwrap();
        assert_eq!(value, Some(vec![150; 1500]));
        assert!(table.remove(&[1; 8]).unwrap());
        table.close().unwrap();
    }
    for name in ["a", "d"] {
        assert!(is_denied(
            store.table(name).and_then(|table| table.get(&[1; 8]))
        ));
    }
    let options = TableOptions::new(10);
    assert!(is_denied(store.create("e", &options)));

    let store = open(&server, "readers", secret(3)).unwrap();
    for (name, value) in [("a", Some(vec![2; 8])), ("b", None), ("c", None)] {
        let table = store.table(name).unwrap();
        assert_eq!(table.get(&[1; 8]), Ok(value));
        assert!(is_denied(table.put(&[1; 8], &[3; 8])));
    }
    assert!(is_denied(
        store.table("d").and_then(|table| table.get(&[1; 8]))
    ));

    // Nothing came of what was refused.
    let table = server.store().table("d").unwrap();
    assert_eq!(table.get(&[1; 8]), Ok(Some(vec![2; 8])));
    assert_eq!(server.store().tables().unwrap().len(), 4);
}

#[test]
fn grants_end_when_they_are_revoked_and_name_tables_that_there_are() {
    let server = server();
    let unknown = server.grant(&grant("some", 2, &["a", "z"], Rights::ALL));
    let tables = "a, b, c, d".into();
    let name = "z".into();
    assert_eq!(unknown, Err(StoreError::NoSuchTable { name, tables }));
    assert!(!server.revoke("some"));

    server
        .grant(&grant("some", 2, &["a"], Rights::ALL))
        .unwrap();
    let store = open(&server, "some", secret(2)).unwrap();
    let table = store.table("a").unwrap();
    assert_eq!(table.get(&[1; 8]), Ok(Some(vec![2; 8])));
    assert!(server.revoke("some"));
    let ended = error_of(table.get(&[1; 8]));
    assert!(matches!(ended, FabricError::GrantRevoked { .. }));
    let refused = error_of(open(&server, "some", secret(2)));
    let reason = Refusal::GrantRevoked;
    assert!(matches!(refused, FabricError::NotAdmitted { reason: is, .. } if is == reason));

    // Granted anew, with another table, to those who connect anew.
    server
        .grant(&grant("some", 2, &["a", "d"], Rights::READ))
        .unwrap();
    let store = open(&server, "some", secret(2)).unwrap();
    let table = store.table("d").unwrap();
    assert_eq!(table.get(&[1; 8]), Ok(Some(vec![2; 8])));
}

/// Whoever makes a grant: the program, the library, or another language's.
#[test]
fn names_that_nobody_could_use_are_refused() {
    let server = server();
    let with = |name: &str, table: &str| server.grant(&grant(name, 2, &[table], Rights::READ));
    let long = "x".repeat(129);
    for name in ["", ".", " a", "a\n", "a\u{202e}b", "a\u{200b}", &long] {
        let of_grant = with(name, "a").unwrap_err();
        assert!(
            matches!(of_grant, StoreError::BadGrant { .. }),
            "{of_grant}"
        );
        let of_table = with("some", name).unwrap_err();
        assert!(matches!(of_table, StoreError::BadName { .. }), "{of_table}");
        for error in [of_grant, of_table] {
            assert_eq!(error.kind(), ErrorKind::BadInput);
        }
    }
    let too_long = with(&long[..65], "a").unwrap_err();
    assert!(
        matches!(too_long, StoreError::BadGrant { .. }),
        "{too_long}"
    );
    with(&long[..64], "a").unwrap();
    // No key of 8 bytes begins with nine.
    let prefix = |bytes: usize| {
        let of_prefix = TableGrant {
            prefix: Some(vec![1; bytes]),
            ..grant("some", 2, &["a"], Rights::READ)
        };
        server.grant(&of_prefix)
    };
    let too_long = prefix(9).unwrap_err();
    assert!(
        matches!(too_long, StoreError::BadGrant { .. }),
        "{too_long}"
    );
    assert!(!server.revoke("some"));
    prefix(8).unwrap();
}

/// Behind a partition lies the map of its table, without which nobody knows whose a key is.
#[test]
fn a_grant_of_a_table_over_several_nodes_opens_its_map() {
    let (servers, address) = two_nodes();
    let open = |grant, secret| open_at(&address, grant, secret).unwrap();
    let store = open("default", secret(1));
    let sizes = TableOptions::new(1_000)
        .keys(FieldSize::Fixed(9))
        .values(FieldSize::Fixed(11));
    store.create("t", &sizes).unwrap();
    let key = |number: u64| [&number.to_le_bytes()[..], &[0]].concat();
    let table = store.table("t").unwrap();
    for number in 0..100 {
        assert!(table.put(&key(number), &[number as u8; 11]).unwrap());
    }
    for server in &servers {
        let readers = grant("readers", 2, &["t"], Rights::READ);
        server.grant(&readers).unwrap();
    }
    let table = open("readers", secret(2)).table("t").unwrap();
    for number in 0..100 {
        let value = table.get(&key(number)).unwrap();
        assert_eq!(value, Some(vec![number as u8; 11]));
    }
    assert!(table.put(&key(0), &[1; 11]).is_err());
}

/// The memory that a table grows into is its own, and granted with it.
#[test]
fn a_grant_of_a_table_covers_what_it_grows_into() {
    const MOST: u64 = 3_000;
    let server = server();
    let options = TableOptions::new(100)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(8))
        .grow_to(MOST);
    let alone = DuoShape {
        readers: false,
        ..DuoShape::default()
    };
    let tables = [
        ("race", options.clone().race(RaceShape::default())),
        ("duo", options.duo(alone)),
    ];
    for (name, options) in &tables {
        server.store().create(name, options).unwrap();
    }
    let names = tables.each_ref().map(|(name, _)| *name);
    server
        .grant(&grant("growers", 4, &names, Rights::ALL))
        .unwrap();
    let store = open(&server, "growers", secret(4)).unwrap();
    for name in names {
        let table = store.table(name).unwrap();
        let before = table.occupancy().unwrap().slots;
        for number in 0..MOST {
            assert!(table.put(&number.to_le_bytes(), &[1; 8]).unwrap());
        }
        assert!(table.occupancy().unwrap().slots >= 2 * before, "{name}");
        assert!((0..MOST).all(|number| table.get(&number.to_le_bytes()).unwrap().is_some()));
        table.close().unwrap();
    }
}
