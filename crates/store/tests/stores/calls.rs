//! Tables that are used by calls of the owner of their memory: alone, beside clients who use verbs,
//! without the right to, and by callers who say what makes no sense.

use farslot::fabric::counters::Snapshot;
use farslot::fabric::{
    EndpointExt, Executor, FabricError, Limits, NodeId, RegionId, RemoteAddr, Rights, VerbKind,
};
use farslot::index::calls::{Question, RequestWriter, Status, operation_bytes, status_of};
use farslot::index::{FIND_OR_PUT, GET, GET_ALL, IndexError, PUT, REMOVE, UPDATE};
use farslot::{
    Access, CuckooShape, DuoShape, FieldSize, OpenOptions, Operation, Outcome, RaceShape, Rate,
    Secret, Server, ServerOptions, SlotKind, Store, StoreError, Table, TableGrant, TableOptions,
};
use farslot_check::{History, RegisterMap, TableOp, TableRet, check};
use farslot_testbed::PATIENCE;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

fn by(access: Access) -> OpenOptions {
    OpenOptions {
        limits: Limits {
            verb_timeout: PATIENCE,
            ..Limits::default()
        },
        connect_timeout: Duration::from_nanos(PATIENCE),
        access,
        ..OpenOptions::default()
    }
}

/// The store of a server, used so.
fn open(server: &Server, access: Access) -> Store {
    Store::open_with(&server.addresses()[0].to_string(), by(access)).unwrap()
}

fn serve(bytes: u64) -> Server {
    Server::start("tcp://127.0.0.1:0", bytes).unwrap()
}

/// Tables that any number of clients write.
fn written() -> [(&'static str, TableOptions); 5] {
    let small = TableOptions::new(300)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(16));
    let any = TableOptions::new(300)
        .keys(FieldSize::UpTo(24))
        .values(FieldSize::UpTo(700));
    let race = any.clone().race(RaceShape::default());
    [
        ("inline", small.slots(SlotKind::Inline)),
        ("heap", any.clone().slots(SlotKind::Heap)),
        ("hybrid", any.slots(SlotKind::Hybrid)),
        ("race", race.clone()),
        ("race that grows", race.capacity(20).grow_to(400)),
    ]
}

fn value_of(number: u64, inline: bool) -> Vec<u8> {
    let words = if inline { 2 } else { 2 + number as usize % 80 };
    number.to_le_bytes().repeat(words)
}

/// Verbs that were not calls, and operations that took other than one round trip.
fn besides_calls(counted: &Snapshot) -> (u64, u64) {
    let verbs: u64 = counted.verbs.iter().sum();
    let classes =
        [GET, GET_ALL, PUT, FIND_OR_PUT, UPDATE, REMOVE].map(|class| counted.operation(class));
    let longer = classes
        .iter()
        .map(|class| class.round_trips.abs_diff(class.count));
    (verbs - counted.verbs_of(VerbKind::Call), longer.sum())
}

#[derive(Clone, Copy)]
enum Do {
    Get,
    GetAll,
    Put,
    FindOrPut,
    Update,
    Remove,
}

const ALL: [Do; 6] = [
    Do::Get,
    Do::GetAll,
    Do::Put,
    Do::FindOrPut,
    Do::Update,
    Do::Remove,
];

fn operation<'r>(what: Do, key: &'r [u8], value: &'r [u8]) -> Operation<'r> {
    match what {
        Do::Get => Operation::Get(key),
        Do::GetAll => Operation::GetAll(key),
        Do::Put => Operation::Put(key, value),
        Do::FindOrPut => Operation::FindOrPut(key, value),
        Do::Update => Operation::Update(key, value),
        Do::Remove => Operation::Remove(key),
    }
}

/// What a plain map answers.
fn apply(map: &mut BTreeMap<u64, Vec<u8>>, what: Do, key: u64, new: &[u8]) -> Outcome {
    let there = map.get(&key).cloned();
    let value = |value: Option<Vec<u8>>| value.map(|value| farslot::Value::from(&value[..]));
    match what {
        Do::Get => Outcome::Value(value(there)),
        Do::GetAll => Outcome::Values(value(there).into_iter().collect()),
        Do::Put => Outcome::Changed(map.insert(key, new.into()).is_none()),
        Do::FindOrPut => {
            map.entry(key).or_insert_with(|| new.into());
            Outcome::Value(value(there))
        }
        Do::Update => {
            map.entry(key).and_modify(|value| *value = new.into());
            Outcome::Changed(there.is_some())
        }
        Do::Remove => Outcome::Changed(map.remove(&key).is_some()),
    }
}

/// Batches of operations on distinct keys, and batches of one.
fn as_a_map(table: &Table, inline: bool, seed: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut map = BTreeMap::new();
    let before = table.counters();
    for _ in 0..60 {
        let first = rng.random_range(0..120_u64);
        let count = if rng.random_bool(0.5) {
            1
        } else {
            rng.random_range(1..100)
        };
        let batch: Vec<_> = (first..first + count)
            .map(|key| {
                let what = ALL[rng.random_range(0..ALL.len())];
                (
                    what,
                    key,
                    key.to_le_bytes(),
                    value_of(rng.random_range(0..1_000), inline),
                )
            })
            .collect();
        let operations: Vec<_> = batch
            .iter()
            .map(|(what, _, key, value)| operation(*what, key, value))
            .collect();
        let mut told = 0;
        table.run_many(&operations, |number, outcome| {
            let (what, key, _, value) = &batch[number];
            let expected = apply(&mut map, *what, *key, value);
            assert_eq!(outcome, Ok(expected), "seed {seed}, key {key}");
            told += 1;
        });
        assert_eq!(told, batch.len());
        let (_, key, bytes, _) = &batch[0];
        assert_eq!(table.get(bytes), Ok(map.get(key).cloned()), "seed {seed}");
    }
    let mut keys: Vec<_> = (0..220_u64).map(u64::to_le_bytes).collect();
    keys.reverse();
    let asked: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    table.get_many(&asked, |number, got| {
        let key = u64::from_le_bytes(keys[number]);
        assert_eq!(got, Ok(map.get(&key).map(|value| &value[..])));
    });
    let counted = table.counters().since(&before);
    assert_eq!(besides_calls(&counted), (0, 0), "seed {seed}: {counted:?}");
    let calls = counted.verbs_of(VerbKind::Call);
    assert!(
        calls < counted.operation(GET).count,
        "{calls} calls: {counted:?}"
    );
    // What the owner has counted is reported with what the client has.
    table.flush().unwrap();
    assert_eq!(table.occupancy().unwrap().entries, map.len() as u64);
    let mut seen = BTreeMap::new();
    table
        .for_each(|key, value| {
            let key = u64::from_le_bytes(key.try_into().unwrap());
            assert_eq!(seen.insert(key, value.to_vec()), None);
        })
        .unwrap();
    assert_eq!(seen, map);
}

#[test]
fn what_calls_do_a_plain_map_does_and_each_takes_one_round_trip() {
    let server = serve(64 * MIB);
    let sim = format!("sim://tcp-loopback?seed=4&memory={}B", 64 * MIB);
    let stores = [
        open(&server, Access::Calls),
        open(&server, Access::Auto),
        Store::open_with(&sim, by(Access::Calls)).unwrap(),
    ];
    for (number, store) in stores.iter().enumerate() {
        for (seed, (name, options)) in (number as u64 * 100..).zip(written()) {
            let name = format!("{name} {number}");
            store.create(&name, &options).unwrap();
            as_a_map(
                &store.table(&name).unwrap(),
                name.starts_with("inline"),
                seed,
            );
        }
    }
}

#[test]
fn what_an_owner_cannot_do_its_clients_do_and_say_why_it_failed() {
    let server = serve(32 * MIB);
    let store = open(&server, Access::Calls);
    let options = TableOptions::new(4)
        .keys(FieldSize::UpTo(8))
        .values(FieldSize::UpTo(16))
        .load_factor(1.0);
    store.create("t", &options).unwrap();
    let table = store.table("t").unwrap();
    let put = |number: u64| table.put(&number.to_le_bytes(), b"value");
    let full = (0..).find_map(|number| put(number).err()).unwrap();
    assert!(
        matches!(
            full,
            StoreError::Index(IndexError::Full { .. } | IndexError::HeapFull { .. })
        ),
        "{full}"
    );
    let error = table.put(b"key", &[0; 17]).unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::Index(IndexError::ValueLength { len: 17, .. })
        ),
        "{error}"
    );
    let error = table.get(&[0; 9]).unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::Index(IndexError::KeyLength { len: 9, .. })
        ),
        "{error}"
    );
    assert_eq!(table.get(&[]), Err(StoreError::Index(IndexError::EmptyKey)));
    assert_eq!(table.get(&0_u64.to_le_bytes()), Ok(Some(b"value".to_vec())));

    // More values than there is room for are fetched by their client.
    let many = TableOptions::new(400)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::UpTo(40))
        .multi_key();
    store.create("many", &many).unwrap();
    let table = store.table("many").unwrap();
    let mut expected = Vec::new();
    for number in 0..40_u8 {
        let value = vec![number; usize::from(number) + 1];
        assert_eq!(table.put(&[1; 8], &value), Ok(true));
        expected.push(value);
        let mut got = table.get_all(&[1; 8]).unwrap();
        got.sort();
        assert_eq!(got, expected);
    }
}

#[test]
fn tables_of_one_writer_are_looked_up_by_call_and_written_by_verbs() {
    let server = serve(32 * MIB);
    let store = open(&server, Access::Calls);
    let options = TableOptions::new(500)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::UpTo(90));
    let cuckoo = options.clone().cuckoo(CuckooShape::default());
    store.create("cuckoo", &cuckoo).unwrap();
    let duo = options.clone().duo(DuoShape::default());
    store.create("duo", &duo).unwrap();
    let records: Vec<_> = (0..400_u64)
        .map(|number| (number.to_le_bytes(), value_of(number, true)))
        .collect();
    let pairs: Vec<(&[u8], &[u8])> = records
        .iter()
        .map(|(key, value)| (&key[..], &value[..]))
        .collect();
    store.build("sealed", &options.sealed(), &pairs).unwrap();
    for name in ["cuckoo", "duo"] {
        let table = store.table(name).unwrap();
        table.put_many(&pairs, |_, put| assert_eq!(put, Ok(true)));
        table.close().unwrap();
    }
    for name in ["cuckoo", "duo", "sealed"] {
        let table = store.table(name).unwrap();
        let before = table.counters();
        let keys: Vec<&[u8]> = pairs.iter().map(|(key, _)| *key).collect();
        let mut told = 0;
        table.get_many(&keys, |number, got| {
            assert_eq!(got, Ok(Some(pairs[number].1)));
            told += 1;
        });
        assert_eq!(told, keys.len());
        assert_eq!(table.get(&[0xff; 8]), Ok(None));
        let counted = table.counters().since(&before);
        if name == "duo" {
            assert_eq!(counted.verbs_of(VerbKind::Call), 0);
        } else {
            assert_eq!(besides_calls(&counted), (0, 0), "{name}: {counted:?}");
        }
    }
    let error = store
        .table("sealed")
        .unwrap()
        .put(&[1; 8], b"new")
        .unwrap_err();
    assert!(
        matches!(error, StoreError::Index(IndexError::Sealed { .. })),
        "{error}"
    );
}

type Of = History<u64, TableOp<u64>, TableRet<u64>>;

/// Random operations on few keys, recorded against the clock.
fn record(table: &Table, client: u32, seed: u64, since: Instant) -> Of {
    let mut rng = ChaCha8Rng::seed_from_u64(seed * 64 + u64::from(client));
    let mut history = Of::new();
    let now = || since.elapsed().as_nanos() as u64;
    for turn in 0..400_u64 {
        let key = rng.random_range(0..5_u64);
        let new = u64::from(client) * 1_000 + turn + 1;
        let op = match rng.random_range(0..10) {
            0..4 => TableOp::Get,
            4..6 => TableOp::Put(new),
            6 => TableOp::FindOrPut(new),
            7 => TableOp::Update(new),
            _ => TableOp::Remove,
        };
        let id = history.invoke(client, key, op.clone(), now());
        let (bytes, value) = (key.to_le_bytes(), value_of(new, true));
        let number = |value: Vec<u8>| {
            assert_eq!(value[..8], value[8..], "a torn value");
            u64::from_le_bytes(value[..8].try_into().unwrap())
        };
        let ret = match op {
            TableOp::Get => TableRet::Got(table.get(&bytes).unwrap().map(number)),
            TableOp::Put(_) => {
                let inserted = Some(table.put(&bytes, &value).unwrap());
                TableRet::Put { inserted }
            }
            TableOp::FindOrPut(_) => match table.find_or_put(&bytes, &value).unwrap() {
                Some(found) => TableRet::Found(number(found)),
                None => TableRet::Inserted,
            },
            TableOp::Update(_) => TableRet::Updated(table.update(&bytes, &value).unwrap()),
            TableOp::Remove => TableRet::Removed(table.remove(&bytes).unwrap()),
        };
        history.complete(id, ret, now());
    }
    history
}

#[test]
fn clients_by_calls_and_by_verbs_at_once_are_linearizable() {
    let options = ServerOptions {
        threads: 2,
        ..ServerOptions::default()
    };
    let server = Server::start_with(&["tcp://127.0.0.1:0"], 64 * MIB, &options).unwrap();
    let stores = [Access::Calls, Access::Reads].map(|access| open(&server, access));
    for (seed, (name, options)) in (1_u64..).zip(written()) {
        stores[0].create(name, &options).unwrap();
        let since = Instant::now();
        let histories: Vec<Of> = std::thread::scope(|scope| {
            let clients = (0..4_u32).map(|client| {
                let store = &stores[client as usize % 2];
                scope.spawn(move || record(&store.table(name).unwrap(), client, seed, since))
            });
            let clients: Vec<_> = clients.collect();
            clients
                .into_iter()
                .map(|client| client.join().unwrap())
                .collect()
        });
        let judged = check(&History::merge(histories), &RegisterMap::new());
        let judged = judged.unwrap_or_else(|error| panic!("{name}, seed {seed}: {error}"));
        assert_eq!(judged.returned, 1_600);
    }
}

fn secret(number: u8) -> Option<Secret> {
    Some(Secret::new([number; 16]).unwrap())
}

/// A request as any caller could make it.
fn request(question: Question, table: u64, operations: &[Operation<'_>]) -> Vec<u8> {
    let bytes = operations
        .iter()
        .map(|operation| operation_bytes(operation).unwrap());
    let mut request = vec![0; RequestWriter::bytes(bytes.sum())];
    let mut writer = RequestWriter::new(&mut request, question, table, operations.len());
    operations
        .iter()
        .for_each(|operation| writer.put(operation));
    request
}

/// Calls the owner with these bytes, by verbs alone.
fn call(store: &Store, request: &[u8], room: usize) -> Result<Vec<u8>, FabricError> {
    let executor = Executor::new(store.tcp_endpoint().unwrap().unwrap());
    let endpoint = executor.endpoint();
    let request = endpoint.core_copy(request);
    let called = endpoint.call((NodeId(0), RegionId(0)), request, room);
    executor.block_on(called).map(|reply| reply.to_vec())
}

trait CoreCopy {
    fn core_copy(&self, bytes: &[u8]) -> farslot::fabric::Buffer;
}

impl<E: farslot::fabric::Endpoint> CoreCopy for E {
    fn core_copy(&self, bytes: &[u8]) -> farslot::fabric::Buffer {
        self.core().buffers.copy_of(bytes).unwrap()
    }
}

fn status(store: &Store, request: &[u8]) -> Status {
    let reply = call(store, request, 4096).unwrap();
    status_of(&reply).unwrap().0
}

#[test]
fn a_caller_may_do_what_it_may_do_by_verbs() {
    let options = ServerOptions {
        secrets: secret(1).into_iter().collect(),
        read_only_secrets: secret(2).into_iter().collect(),
        ..ServerOptions::default()
    };
    let server = Server::start_with(&["tcp://127.0.0.1:0"], 32 * MIB, &options).unwrap();
    let options = TableOptions::new(100)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::UpTo(100));
    let places = ["a", "b"].map(|name| {
        let record = server.store().create(name, &options).unwrap();
        let table = server.store().table(name).unwrap();
        table.put(&[1; 8], b"first").unwrap();
        record.id
    });
    let grant = |name: &str, number, tables: &[&str], rights| TableGrant {
        name: name.into(),
        secrets: secret(number).into_iter().collect(),
        clients: None,
        tables: tables.iter().map(ToString::to_string).collect(),
        rights,
        prefix: None,
        rate: Rate::UNLIMITED,
    };
    server
        .grant(&grant("writer of a", 3, &["a"], Rights::ALL))
        .unwrap();
    server
        .grant(&grant("reader of a", 4, &["a"], Rights::READ))
        .unwrap();
    let without_calls = Rights::READ.and(Rights::WRITE).and(Rights::ATOMIC);
    server
        .grant(&grant("both", 5, &["a", "b"], without_calls))
        .unwrap();
    let admitted = |grant: &str, number| {
        let options = OpenOptions {
            grant: grant.into(),
            secret: secret(number),
            ..by(Access::Auto)
        };
        Store::open_with(&server.addresses()[0].to_string(), options).unwrap()
    };
    let get = |place| request(Question::Run, place, &[Operation::Get(&[1; 8])]);
    let put = |place| request(Question::Run, place, &[Operation::Put(&[1; 8], b"second")]);
    let flush = |place| request(Question::Flush, place, &[]);
    let denied = |store: &Store, table: &str| {
        let put = store.table(table).unwrap().put(&[1; 8], b"third");
        matches!(
            put,
            Err(StoreError::Fabric(FabricError::AccessDenied { .. })
                | StoreError::Index(IndexError::Fabric(FabricError::AccessDenied { .. })))
        )
    };

    for (name, number) in [("read-only", 2), ("reader of a", 4)] {
        let reader = admitted(name, number);
        assert_eq!(status(&reader, &get(places[0])), Status::Done, "{name}");
        for request in [put(places[0]), flush(places[0])] {
            assert_eq!(status(&reader, &request), Status::Denied, "{name}");
        }
        // What is refused by call is refused by verbs too, which say why.
        assert!(denied(&reader, "a"), "{name}");
        let table = reader.table("a").unwrap();
        let before = table.counters();
        assert_eq!(table.get(&[1; 8]), Ok(Some(b"first".to_vec())));
        assert_eq!(besides_calls(&table.counters().since(&before)), (0, 0));
    }
    for (name, number) in [("writer of a", 3), ("reader of a", 4)] {
        let other = admitted(name, number);
        for request in [get(places[1]), put(places[1]), flush(places[1])] {
            assert_eq!(status(&other, &request), Status::Denied, "{name}");
        }
    }
    let writer = admitted("writer of a", 3);
    assert_eq!(status(&writer, &put(places[0])), Status::Done);
    // So long a request reaches the agent in pieces.
    let values = vec![vec![7; 100]; 1_000];
    let keys: Vec<_> = (0..1_000_u64).map(|key| (key % 50).to_le_bytes()).collect();
    let updates: Vec<_> = keys
        .iter()
        .zip(&values)
        .map(|(key, value)| Operation::Update(key, value))
        .collect();
    let long = request(Question::Run, places[0], &updates);
    let reply = call(&writer, &long, 100_000).unwrap();
    assert_eq!(status_of(&reply), Some((Status::Done, 1_000)));
    let both = admitted("both", 5);
    assert_eq!(status(&both, &put(places[1])), Status::Done);
    let all = admitted("default", 1);
    let table = all.table("a").unwrap();
    assert_eq!(table.get(&[1; 8]), Ok(Some(b"second".to_vec())));
    assert_eq!(
        all.table("b").unwrap().get(&[1; 8]),
        Ok(Some(b"second".to_vec()))
    );

    // A grant that is revoked ends calls too.
    let table = both.table("b").unwrap();
    assert_eq!(table.get(&[1; 8]), Ok(Some(b"second".to_vec())));
    assert!(server.revoke("both"));
    let revoked = table.put(&[1; 8], b"third");
    assert!(revoked.is_err(), "{revoked:?}");
}

#[test]
fn what_makes_no_sense_is_refused_and_harms_nobody() {
    let server = serve(32 * MIB);
    let store = open(&server, Access::Calls);
    let options = TableOptions::new(100)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::UpTo(100));
    let place = store.create("t", &options).unwrap().id;
    let duo = options.duo(DuoShape::default());
    let of_duo = store.create("duo", &duo).unwrap().id;
    let table = store.table("t").unwrap();
    table.put(&[1; 8], b"value").unwrap();
    let get = |place| request(Question::Run, place, &[Operation::Get(&[1; 8])]);
    assert_eq!(status(&store, &get(place)), Status::Done);
    for wrong in [0, place ^ 8, !place] {
        assert_eq!(status(&store, &get(wrong)), Status::NoTable, "{wrong}");
    }
    assert_eq!(status(&store, &get(of_duo)), Status::NotServed);
    assert_eq!(status(&store, &[]), Status::Malformed);
    let other_region = {
        let executor = Executor::new(store.tcp_endpoint().unwrap().unwrap());
        let endpoint = executor.endpoint();
        let called = endpoint.call(
            (NodeId(0), RegionId(1)),
            endpoint.core_copy(&get(place)),
            64,
        );
        executor.block_on(called).map(drop)
    };
    assert!(matches!(
        other_region,
        Err(FabricError::UnknownRegion { .. })
    ));
    for room in 0..24 {
        let reply = call(&store, &get(place), room).unwrap();
        let known = status_of(&reply).map(|(status, _)| status);
        // There is no room for its one outcome.
        let expected = [None, Some(Status::Malformed), Some(Status::Done)];
        assert_eq!(known, expected[room / 8], "{room}");
    }
    let valid = request(
        Question::Run,
        place,
        &[
            Operation::Get(&[1; 8]),
            Operation::FindOrPut(&[1; 8], b"other"),
            Operation::GetAll(&[2; 8]),
        ],
    );
    for seed in 0..2_000 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut bytes = match seed % 3 {
            0 => vec![0; rng.random_range(0..200)],
            _ => valid.clone(),
        };
        if seed % 3 == 0 {
            rng.fill_bytes(&mut bytes);
        }
        for _ in 0..rng.random_range(0..4) {
            if let Some(at) = (!bytes.is_empty()).then(|| rng.random_range(0..bytes.len())) {
                bytes[at] = rng.random();
            }
        }
        bytes.truncate(rng.random_range(0..=bytes.len()));
        call(&store, &bytes, rng.random_range(0..300)).unwrap();
    }
    assert_eq!(table.get(&[1; 8]), Ok(Some(b"value".to_vec())));
}

#[test]
fn a_table_of_noise_leads_the_owner_nowhere() {
    for (seed, (name, options)) in (0_u64..).zip(written()) {
        let server = serve(32 * MIB);
        let store = open(&server, Access::Calls);
        let record = store.create(name, &options).unwrap();
        let other = store.create("other", &options).unwrap();
        let kept = store.table("other").unwrap();
        for number in 0..20_u64 {
            kept.put(&number.to_le_bytes(), &value_of(7, true)).unwrap();
        }
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let executor = Executor::new(store.tcp_endpoint().unwrap().unwrap());
        let endpoint = executor.endpoint();
        for round in 0..6 {
            // Words of any kind, or such as point somewhere near.
            let noise: Vec<u8> = (0..(other.offset - record.offset).min(1 << 16) / 8)
                .flat_map(|_| match round % 2 {
                    0 => rng.random::<u64>().to_le_bytes(),
                    _ => (rng.random::<u64>() >> rng.random_range(0..64)).to_le_bytes(),
                })
                .collect();
            let at = RemoteAddr {
                node: NodeId(0),
                region: RegionId(0),
                offset: record.offset,
            };
            executor
                .block_on(endpoint.write(at, endpoint.core_copy(&noise)))
                .unwrap();
            let keys: Vec<_> = (0..20_u64).map(u64::to_le_bytes).collect();
            for key in &keys {
                let value = value_of(8, true);
                let operations = ALL.map(|what| operation(what, key, &value));
                let request = request(Question::Run, record.id, &operations);
                call(&store, &request, 4096).unwrap();
            }
        }
        for number in 0..20_u64 {
            let got = kept.get(&number.to_le_bytes());
            assert_eq!(got, Ok(Some(value_of(7, true))), "{name}");
        }
    }
}

#[test]
fn where_nobody_answers_calls_they_can_be_asked_for_in_vain() {
    let name = format!("shm://calls-test-{}", std::process::id());
    let server = Server::start(&name, 8 * MIB).unwrap();
    server.store().create("t", &TableOptions::new(10)).unwrap();
    let table = |access| Store::open_with(&name, by(access)).unwrap().table("t");
    let refused = table(Access::Calls).map(drop).unwrap_err();
    assert!(
        matches!(
            refused,
            StoreError::Fabric(FabricError::NoHandler { .. })
                | StoreError::Index(IndexError::Fabric(FabricError::NoHandler { .. }))
        ),
        "{refused}"
    );
    let table = table(Access::Auto).unwrap();
    assert_eq!(table.put(b"key", b"value"), Ok(true));
    assert_eq!(table.counters().verbs_of(VerbKind::Call), 0);
}
