//! Grants of keys with a prefix: what their clients can do, and that they reach nothing else.

use crate::callers::request;
use crate::grants::{MIB, error_of, grant, is_denied, open, open_at, secret, server, two_nodes};
use farslot::admission::TableGrant;
use farslot::calls::request::Question;
use farslot::fabric::tcp::{ConnectOptions, TcpEndpoint};
use farslot::fabric::{Endpoint, EndpointExt, Executor, FabricError, NodeId, RegionId, Rights};
use farslot::index::IndexError;
use farslot::layout::{CuckooShape, DuoShape, RaceShape};
use farslot::{
    Access, ErrorKind, FieldSize, OpenOptions, Operation, Outcome, Server, ServerOptions, Store,
    StoreError, TableOptions,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::rc::Rc;

pub fn of_prefix(name: &str, number: u8, table: &str, rights: Rights, prefix: &[u8]) -> TableGrant {
    TableGrant {
        prefix: Some(prefix.to_vec()),
        ..grant(name, number, &[table], rights)
    }
}

/// Tables of each scheme whose owner executes lookups, with keys of two tenants.
pub fn tenants() -> (Server, [(&'static str, bool); 4]) {
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
        ("cuckoo", true),
        ("sealed", false),
    ];
    let records = (0..100u64).flat_map(|number| ["a:", "b:"].map(|of| record(of, number)));
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

pub fn record(of: &str, number: u64) -> (Vec<u8>, Vec<u8>) {
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
        let failed = table
            .get_many(&keys, |number, value| {
                got[number] = Some(Ok(value.map(<[u8]>::to_vec)));
            })
            .unwrap_err();
        for (number, error) in failed {
            assert!(got[number].replace(Err(error.kind())).is_none(), "{name}");
        }
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
        let got = by_verbs.table(name).and_then(|table| table.get(b"a:1"));
        assert!(is_denied(got), "{name}");
        let others = tables.iter().find(|(other, _)| *other != name).unwrap();
        let hidden = store.table(others.0).map(drop).unwrap_err();
        assert_eq!(hidden.kind(), ErrorKind::NoSuchTable, "{name}: {hidden}");
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
        let replaced = table.compare_and_set(b"b:2", Some(b"x"), b"y");
        if name == "cuckoo" {
            assert!(
                matches!(
                    replaced,
                    Err(StoreError::Index(IndexError::NotAtomic { .. }))
                ),
                "{replaced:?}"
            );
        } else {
            let there = record("b:", 2).1;
            assert_eq!(replaced, Ok(false));
            assert_eq!(table.compare_and_set(b"b:2", Some(&there), b"y"), Ok(true));
            assert_eq!(table.get(b"b:2"), Ok(Some(b"y".to_vec())));
            assert_eq!(table.compare_and_set(b"b:2", Some(b"y"), &there), Ok(true));
            let counted = (0..3).map(|_| table.increment(b"b:hits", 2).unwrap());
            assert_eq!(counted.collect::<Vec<_>>(), [2, 4, 6]);
            assert_eq!(table.remove(b"b:hits"), Ok(true));
            let other = table.compare_and_set(b"a:2", Some(b"x"), b"y");
            assert!(is_key_refused(other), "{name}");
        }
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
        let failed = table
            .run_many(&operations, |number, outcome| {
                outcomes[number] = Some(Ok(outcome))
            })
            .unwrap_err();
        for (number, error) in failed {
            assert!(
                outcomes[number].replace(Err(error.kind())).is_none(),
                "{name}"
            );
        }
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
    for (table, rights) in [("duo", Rights::READ), ("sealed", Rights::ALL)] {
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
    let (servers, address) = two_nodes();
    let open = |grant, secret| open_at(&address, grant, secret).unwrap();
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

/// Whatever bytes a client calls the owner with, it learns and changes nothing of other keys.
#[test]
fn mutated_calls_under_a_prefix_reach_no_other_key() {
    /// What other keys' values are full of, and no request.
    const HIDDEN: u8 = 0xe5;
    let (server, tables) = tenants();
    let address = [server.addresses()[0].to_string().replace("tcp://", "")];
    for (name, _) in tables.into_iter().filter(|(_, writes)| *writes) {
        let all = server.store().table(name).unwrap();
        for number in 0..100 {
            all.put(&record("b:", number).0, &[HIDDEN; 40]).unwrap();
        }
        server
            .grant(&of_prefix("tenant", 2, name, Rights::ALL, b"a:"))
            .unwrap();
        let options = ConnectOptions {
            grant: "tenant".into(),
            secret: secret(2),
            ..ConnectOptions::default()
        };
        let endpoint = TcpEndpoint::connect(&address, &options).unwrap();
        let executor = Executor::new(Rc::new(endpoint));
        let endpoint = executor.endpoint();
        let id = all.record().id;
        let mut answered = 0;
        for seed in 0..500 {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let mut below = |end: usize| (random.next_u64() % end as u64) as usize;
            let keys: [&[u8]; 5] = [b"a:1", b"a:2", b"b:1", b"b:2", b"a:new"];
            let operations: Vec<_> = (0..1 + below(4))
                .map(|_| {
                    let key = keys[below(keys.len())];
                    match below(6) {
                        0 => Operation::Get(key),
                        1 => Operation::GetAll(key),
                        2 => Operation::Put(key, b"0123456789"),
                        3 => Operation::FindOrPut(key, b"01234567"),
                        4 => Operation::Update(key, b"0123456789abcdef"),
                        _ => Operation::Remove(key),
                    }
                })
                .collect();
            let question = [
                Question::Run,
                Question::Run,
                Question::Flush,
                Question::Opened,
                Question::Tables,
                Question::Map,
            ];
            let question = question[below(question.len())];
            let mut request = request(question, id, &operations);
            for _ in 0..below(3) {
                let at = below(request.len());
                match below(3) {
                    0 => request[at] ^= 1 << below(8),
                    // Lengths and kinds, mostly.
                    1 => request[at / 8 * 8] = below(16) as u8,
                    _ => request.truncate(at.max(1)),
                }
            }
            let sent = endpoint.core().buffers.copy_of(&request).unwrap();
            let room = below(2_000);
            let reply = executor.block_on(endpoint.call((NodeId(0), RegionId(0)), sent, room));
            if let Ok(reply) = reply {
                let shows = reply.windows(8).any(|bytes| bytes == [HIDDEN; 8]);
                assert!(!shows, "seed {seed} of {name}: {request:02x?}");
                answered += 1;
            }
        }
        assert!(answered > 100, "{answered}");
        all.for_each(|key, value| {
            assert!(key.starts_with(b"a:") || value == [HIDDEN; 40], "{key:?}");
        })
        .unwrap();
        for number in 0..100 {
            let value = all.get(&record("b:", number).0).unwrap();
            assert_eq!(value.as_deref(), Some(&[HIDDEN; 40][..]), "{name} {number}");
        }
    }
}
