//! Grants of single tables: what their clients can do, and what they cannot.

use farslot::fabric::tcp::Refusal;
use farslot::fabric::{FabricError, Rights};
use farslot::index::IndexError;
use farslot::{
    Access, CuckooShape, DuoShape, ErrorKind, FieldSize, OpenOptions, Operation, Outcome,
    RaceShape, Rate, Secret, Server, ServerOptions, Store, StoreError,
};
use farslot::{TableGrant, TableOptions};

const MIB: u64 = 1 << 20;

fn secret(number: u8) -> Option<Secret> {
    Some(Secret::new([number; 16]).unwrap())
}

fn server() -> Server {
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

fn open(server: &Server, grant: &str, secret: Option<Secret>) -> farslot::Result<Store> {
    let options = OpenOptions {
        grant: grant.into(),
        secret,
        ..OpenOptions::default()
    };
    Store::open_with(&server.addresses()[0].to_string(), options)
}

fn grant(name: &str, number: u8, tables: &[&str], rights: Rights) -> TableGrant {
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

fn error_of<T>(result: farslot::Result<T>) -> FabricError {
    match result.map(drop) {
        Err(StoreError::Fabric(error) | StoreError::Index(IndexError::Fabric(error))) => error,
        other => panic!("{other:?}"),
    }
}

fn is_denied<T>(result: farslot::Result<T>) -> bool {
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

/// Behind a partition lies the map of its table, without which nobody knows whose a key is.
#[test]
fn a_grant_of_a_table_over_several_nodes_opens_its_map() {
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
    let open = |grant: &str, secret| {
        let grant = grant.into();
        let options = OpenOptions {
            grant,
            secret,
            ..OpenOptions::default()
        };
        Store::open_with(&address, options).unwrap()
    };
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

fn of_prefix(name: &str, number: u8, table: &str, rights: Rights, prefix: &[u8]) -> TableGrant {
    TableGrant {
        prefix: Some(prefix.to_vec()),
        ..grant(name, number, &[table], rights)
    }
}

/// Tables of each scheme whose owner executes lookups, with keys of two tenants.
fn tenants() -> (Server, [(&'static str, bool); 4]) {
    let options = ServerOptions {
        secrets: secret(1).into_iter().collect(),
        ..ServerOptions::default()
    };
    let server = Server::start_with(&["tcp://127.0.0.1:0"], 64 * MIB, &options).unwrap();
    let store = server.store();
    let any = TableOptions::new(400)
        .keys(FieldSize::UpTo(20))
        .values(FieldSize::UpTo(300));
    let tables = [
        ("linear", true),
        ("race", true),
        ("cuckoo", false),
        ("sealed", false),
    ];
    let records: Vec<_> = (0..100u64).flat_map(|number| ["a:", "b:"].map(|of| record(of, number)));
    let records: Vec<_> = records.collect();
    for (name, _) in tables {
        let options = match name {
            "race" => any.clone().race(RaceShape::default()),
            "cuckoo" => any.clone().cuckoo(CuckooShape::default()),
            "sealed" => any.clone().sealed(),
            _ => any.clone(),
        };
        if name == "sealed" {
            let records: Vec<_> = records.iter().map(|(k, v)| (&k[..], &v[..])).collect();
            store.build(name, &options, &records).unwrap();
            continue;
        }
        store.create(name, &options).unwrap();
        let table = store.table(name).unwrap();
        for (key, value) in &records {
            assert!(table.put(key, value).unwrap());
        }
        table.close().unwrap();
    }
    (server, tables)
}

fn record(of: &str, number: u64) -> (Vec<u8>, Vec<u8>) {
    let key = format!("{of}{number}");
    let value = key.repeat(number as usize % 20 + 1);
    (key.into_bytes(), value.into_bytes())
}

fn is_key_refused<T>(result: farslot::Result<T>) -> bool {
    matches!(error_of(result), FabricError::KeyRefused { .. })
}

/// The reason of an operation that calls cannot do.
fn names_no_key<T>(result: farslot::Result<T>) -> bool {
    match result.map(drop) {
        Err(error @ StoreError::Index(IndexError::SingleKeys { .. })) => {
            error.kind() == ErrorKind::AccessDenied
        }
        Err(error) => panic!("{error}"),
        Ok(()) => false,
    }
}

#[test]
fn a_grant_of_a_prefix_opens_its_keys_to_calls_and_no_memory() {
    let (server, tables) = tenants();
    for (name, writes) in tables {
        let rights = if writes { Rights::ALL } else { Rights::READ };
        let tenant = of_prefix("tenant", 2, name, rights, b"a:");
        server.grant(&tenant).unwrap();
        let store = open(&server, "tenant", secret(2)).unwrap();
        let table = store.table(name).unwrap();
        for number in 0..100 {
            let (own, value) = record("a:", number);
            assert_eq!(table.get(&own), Ok(Some(value)), "{name}");
            let (other, _) = record("b:", number);
            assert!(is_key_refused(table.get(&other)), "{name}");
        }
        // One key's refusal is not another's, in batches too.
        let keys = [&b"a:1"[..], b"b:1", b"a:none", b"a", b"", b"a:99"];
        let mut got = vec![None; keys.len()];
        table.get_many(&keys, |number, answer| {
            got[number] = Some(
                answer
                    .map(|value| value.map(<[u8]>::to_vec))
                    .map_err(|e| e.kind()),
            );
        });
        let denied = Some(Err(ErrorKind::AccessDenied));
        let of = |number| Some(Ok(Some(record("a:", number).1)));
        assert_eq!(
            got,
            [
                of(1),
                denied.clone(),
                Some(Ok(None)),
                denied.clone(),
                denied,
                of(99)
            ],
            "{name}"
        );

        for (refused, is_refused) in [
            ("occupancy", names_no_key(table.occupancy())),
            ("scan", names_no_key(table.for_each(|_, _| ()))),
            ("survey", names_no_key(table.survey())),
            (
                "replace",
                !writes || names_no_key(table.compare_and_set(b"a:1", Some(b"x"), b"y")),
            ),
        ] {
            assert!(is_refused, "{name}: {refused}");
        }

        // By verbs there is nothing: the memory is not opened, to this client or to another.
        let by_verbs = OpenOptions {
            grant: "tenant".into(),
            secret: secret(2),
            access: Access::Reads,
            ..OpenOptions::default()
        };
        let by_verbs = Store::open_with(&server.addresses()[0].to_string(), by_verbs).unwrap();
        assert!(is_denied(by_verbs.table(name)), "{name}");
        let others = tables.iter().find(|(other, _)| *other != name).unwrap();
        assert!(is_denied(store.table(others.0)), "{name}");
        table.close().unwrap();
    }
}

#[test]
fn a_grant_of_a_prefix_writes_its_own_keys_and_is_told_why_not() {
    let (server, tables) = tenants();
    for (name, _) in tables.into_iter().filter(|(_, writes)| *writes) {
        let tenant = of_prefix("tenant", 2, name, Rights::ALL, b"b:");
        server.grant(&tenant).unwrap();
        let store = open(&server, "tenant", secret(2)).unwrap();
        let table = store.table(name).unwrap();
        assert_eq!(table.put(b"b:new", b"1"), Ok(true));
        assert_eq!(table.update(b"b:new", b"2"), Ok(true));
        assert_eq!(table.find_or_put(b"b:new", b"3"), Ok(Some(b"2".to_vec())));
        assert_eq!(table.remove(b"b:new"), Ok(true));
        assert_eq!(table.get_all(b"b:7").unwrap(), [record("b:", 7).1]);
        assert!(is_key_refused(table.put(b"a:new", b"1")));
        assert!(is_key_refused(table.remove(b"a:1")));
        let long = vec![0; 301];
        assert!(matches!(
            table.put(b"b:long", &long),
            Err(StoreError::Index(IndexError::ValueLength { len: 301, .. }))
        ));
        let operations = [
            Operation::Put(b"b:x", b"x"),
            Operation::Put(b"a:x", b"x"),
            Operation::Get(b"b:1"),
            Operation::Remove(b"a:2"),
        ];
        let mut outcomes = vec![None; operations.len()];
        table.run_many(&operations, |number, outcome| {
            outcomes[number] = Some(outcome.map_err(|error| error.kind()));
        });
        let denied = || Some(Err(ErrorKind::AccessDenied));
        assert_eq!(outcomes[0], Some(Ok(Outcome::Changed(true))));
        assert_eq!((&outcomes[1], &outcomes[3]), (&denied(), &denied()));
        assert!(matches!(outcomes[2], Some(Ok(Outcome::Value(Some(_))))));
        // Its refusals are counted as those of verbs are.
        let (_, counters) = server.counters()[0];
        assert!(counters.failed_verbs > 0);
        table.close().unwrap();

        // The reader of a prefix writes nothing of it either.
        let reader = of_prefix("reader", 3, name, Rights::READ, b"b:");
        server.grant(&reader).unwrap();
        let store = open(&server, "reader", secret(3)).unwrap();
        let table = store.table(name).unwrap();
        assert!(table.get(b"b:1").unwrap().is_some());
        assert!(is_key_refused(table.put(b"b:1", b"x")));

        // All that others have is as it was.
        let all = server.store().table(name).unwrap();
        for number in 0..100 {
            let (key, value) = record("a:", number);
            assert_eq!(all.get(&key), Ok(Some(value)));
        }
        assert_eq!(all.get(b"a:x"), Ok(None));
        assert!(server.revoke("reader"));
        let ended = error_of(table.get(b"b:1"));
        assert!(matches!(ended, FabricError::GrantRevoked { .. }), "{ended}");
    }
}

#[test]
fn a_full_table_says_so_to_the_clients_of_a_prefix() {
    let server = server();
    let tiny = TableOptions::new(8)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(8));
    server.store().create("tiny", &tiny).unwrap();
    server
        .grant(&of_prefix("tenant", 2, "tiny", Rights::ALL, &[7]))
        .unwrap();
    let store = open(&server, "tenant", secret(2)).unwrap();
    let table = store.table("tiny").unwrap();
    let full = (0..1_000u64).find_map(|number| {
        let key = (number << 8 | 7).to_le_bytes();
        table.put(&key, &[1; 8]).err()
    });
    let full = full.expect("it has few slots");
    assert_eq!(full.kind(), ErrorKind::Full, "{full}");
}

#[test]
fn what_nobody_could_hold_to_a_prefix_is_refused() {
    let (server, _) = tenants();
    let duo = TableOptions::new(100)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(8))
        .duo(DuoShape::default());
    server.store().create("duo", &duo).unwrap();
    for (table, rights) in [
        ("duo", Rights::READ),
        ("cuckoo", Rights::ALL),
        ("sealed", Rights::ALL),
    ] {
        let refused = server.grant(&of_prefix("tenant", 2, table, rights, b"a:"));
        let error = error_of(refused);
        assert!(
            matches!(error, FabricError::NotEnforceable { .. }),
            "{error}"
        );
        assert!(open(&server, "tenant", secret(2)).is_err());
    }
    let alone = format!("shm://farslot-prefix-{}", std::process::id());
    let server = Server::start(&alone, 16 * MIB).unwrap();
    let table = TableOptions::new(100);
    server.store().create("t", &table).unwrap();
    let refused = server.grant(&of_prefix("tenant", 2, "t", Rights::READ, b"a:"));
    assert!(matches!(
        error_of(refused),
        FabricError::NotEnforceable { .. }
    ));
}

#[test]
fn a_grant_of_a_prefix_of_a_table_over_several_nodes_opens_its_keys() {
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
    let open = |grant: &str, secret| {
        let options = OpenOptions {
            grant: grant.into(),
            secret,
            ..OpenOptions::default()
        };
        Store::open_with(&address, options).unwrap()
    };
    let store = open("default", secret(1));
    let sizes = TableOptions::new(1_000)
        .keys(FieldSize::UpTo(20))
        .values(FieldSize::UpTo(300));
    store.create("t", &sizes).unwrap();
    let table = store.table("t").unwrap();
    for number in 0..100 {
        for of in ["a:", "b:"] {
            let (key, value) = record(of, number);
            assert!(table.put(&key, &value).unwrap());
        }
    }
    for server in &servers {
        let tenant = of_prefix("tenant", 2, "t", Rights::ALL, b"a:");
        server.grant(&tenant).unwrap();
    }
    let table = open("tenant", secret(2)).table("t").unwrap();
    for number in 0..100 {
        let (key, value) = record("a:", number);
        assert_eq!(table.get(&key), Ok(Some(value)));
        assert_eq!(table.update(&key, b"new"), Ok(true));
        assert!(table.get(&record("b:", number).0).is_err());
    }
    assert!(table.occupancy().is_err());
}
