//! Tables that are used by calls of the owner of their memory: alone, and beside clients who use
//! verbs.

use farslot::fabric::counters::CounterSnapshot;
use farslot::fabric::{Limits, VerbKind};
use farslot::index::{FIND_OR_PUT, GET, GET_ALL, IndexError, PUT, REMOVE, UPDATE};
use farslot::layout::{CuckooShape, DuoShape, RaceShape};
use farslot::{
    Access, FieldSize, OpenOptions, Operation, Outcome, Server, ServerOptions, SlotKind, Store,
    StoreError, Table, TableOptions,
};
use farslot_check::{History, RegisterMap, TableOp, TableRet, check};
use farslot_testbed::PATIENCE;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

pub const MIB: u64 = 1 << 20;

pub fn by(access: Access) -> OpenOptions {
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
pub fn open(server: &Server, access: Access) -> Store {
    Store::open_with(&server.addresses()[0].to_string(), by(access)).unwrap()
}

pub fn serve(bytes: u64) -> Server {
    Server::start("tcp://127.0.0.1:0", bytes).unwrap()
}

/// Tables that any number of clients write.
pub fn written() -> [(&'static str, TableOptions); 5] {
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

pub fn value_of(number: u64, inline: bool) -> Vec<u8> {
    let words = if inline { 2 } else { 2 + number as usize % 80 };
    number.to_le_bytes().repeat(words)
}

/// Verbs that were not calls, and operations that took other than one round trip.
pub fn besides_calls(counted: &CounterSnapshot) -> (u64, u64) {
    let verbs: u64 = counted.verbs.iter().sum();
    let classes =
        [GET, GET_ALL, PUT, FIND_OR_PUT, UPDATE, REMOVE].map(|class| counted.operation(class));
    let longer = classes
        .iter()
        .map(|class| class.round_trips.abs_diff(class.count));
    (verbs - counted.verbs_of(VerbKind::Call), longer.sum())
}

#[derive(Clone, Copy)]
pub enum Do {
    Get,
    GetAll,
    Put,
    FindOrPut,
    Update,
    Replace,
    Remove,
    RemoveIf,
}

pub const ALL: [Do; 8] = [
    Do::Get,
    Do::GetAll,
    Do::Put,
    Do::FindOrPut,
    Do::Update,
    Do::Replace,
    Do::Remove,
    Do::RemoveIf,
];

pub fn operation<'r>(
    action: Do,
    key: &'r [u8],
    value: &'r [u8],
    expected: &'r [u8],
) -> Operation<'r> {
    match action {
        Do::Get => Operation::Get(key),
        Do::GetAll => Operation::GetAll(key),
        Do::Put => Operation::Put(key, value),
        Do::FindOrPut => Operation::FindOrPut(key, value),
        Do::Update => Operation::Update(key, value),
        Do::Replace => Operation::Replace(key, expected, value),
        Do::Remove => Operation::Remove(key),
        Do::RemoveIf => Operation::RemoveIf(key, expected),
    }
}

/// What a plain map answers.
fn apply(
    map: &mut BTreeMap<u64, Vec<u8>>,
    action: Do,
    key: u64,
    new: &[u8],
    expected: &[u8],
) -> Outcome {
    let there = map.get(&key).cloned();
    let is_expected = there.as_deref() == Some(expected);
    let value = |value: Option<Vec<u8>>| value.map(|value| farslot::Value::from(&value[..]));
    match action {
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
        Do::Replace => {
            if is_expected {
                map.insert(key, new.into());
            }
            Outcome::Changed(is_expected)
        }
        Do::Remove => Outcome::Changed(map.remove(&key).is_some()),
        Do::RemoveIf => {
            if is_expected {
                map.remove(&key);
            }
            Outcome::Changed(is_expected)
        }
    }
}

/// Keys that are in their buckets and in leaves whose places are known.
#[test]
fn tables_that_the_owner_writes_are_looked_up_by_what_was_asked_for() {
    let server = serve(64 * MIB);
    let auto = open(&server, Access::Auto);
    for (name, options) in [
        ("chained", small().chained()),
        ("ordered", small().ordered()),
    ] {
        auto.create(name, &options).unwrap();
        auto.table(name)
            .unwrap()
            .put(b"some key", b"value")
            .unwrap();
        for access in Access::ALL {
            let store = open(&server, access);
            let table = store.table(name).unwrap();
            let get = || table.get(b"some key").unwrap().unwrap();
            assert_eq!(get(), b"value");
            let before = table.counters();
            for _ in 0..20 {
                assert_eq!(get(), b"value");
            }
            let counted = table.counters().since(&before);
            let both = [VerbKind::Call, VerbKind::Read].map(|kind| counted.verbs_of(kind));
            let expected = match access {
                Access::Calls => [20, 0],
                Access::Reads | Access::Auto => [0, 20],
            };
            assert_eq!(both, expected, "{name}, {access}");
            let read = store.transaction(|t| t.get(name, b"some key"));
            assert_eq!(read, Ok(Some(b"value".to_vec())));
        }
    }
}

fn small() -> TableOptions {
    TableOptions::new(300)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::UpTo(16))
}

/// Batches of operations on distinct keys, and batches of one.
fn as_a_map(table: &Table, inline: bool, seed: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut map = BTreeMap::new();
    let kind = table.record().scheme.kind();
    let is_possible = |action: &Do| match action {
        Do::Get | Do::GetAll | Do::FindOrPut => true,
        Do::Put | Do::Update | Do::Remove => !kind.only_grows(),
        Do::Replace | Do::RemoveIf => kind.replaces_in_one_step(),
    };
    let possible: Vec<_> = ALL.into_iter().filter(is_possible).collect();
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
                let action = possible[rng.random_range(0..possible.len())];
                let mut value = || value_of(rng.random_range(0..1_000), inline);
                let (new, other) = (value(), value());
                let there = map.get(&key).filter(|_| rng.random_bool(0.7)).cloned();
                (action, key, key.to_le_bytes(), new, there.unwrap_or(other))
            })
            .collect();
        let operations: Vec<_> = batch
            .iter()
            .map(|(action, _, key, value, expected)| operation(*action, key, value, expected))
            .collect();
        let mut told = 0;
        table
            .run_many(&operations, |number, outcome| {
                let (action, key, _, value, expected) = &batch[number];
                let applied = apply(&mut map, *action, *key, value, expected);
                assert_eq!(outcome, applied, "seed {seed}, key {key}");
                told += 1;
            })
            .unwrap();
        assert_eq!(told, batch.len());
        let (_, key, bytes, ..) = &batch[0];
        assert_eq!(table.get(bytes), Ok(map.get(key).cloned()), "seed {seed}");
    }
    let mut keys: Vec<_> = (0..220_u64).map(u64::to_le_bytes).collect();
    keys.reverse();
    let asked: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    table
        .get_many(&asked, |number, got| {
            let key = u64::from_le_bytes(keys[number]);
            assert_eq!(got, map.get(&key).map(|value| &value[..]));
        })
        .unwrap();
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
    let shared = format!("shm://calls-map-{}", std::process::id());
    let shared = Server::start(&shared, 64 * MIB).unwrap();
    let stores = [
        open(&server, Access::Calls),
        open(&server, Access::Auto),
        open(&shared, Access::Calls),
        Store::open_with(&sim, by(Access::Calls)).unwrap(),
    ];
    for (number, store) in stores.iter().enumerate() {
        let set = ("set", small().set());
        for (seed, (name, options)) in
            (number as u64 * 100..).zip(written().into_iter().chain([set]))
        {
            let name = format!("{name} {number}");
            store.create(&name, &options).unwrap();
            let table = store.table(&name).unwrap();
            // Who says so is one of any number of writers, and calls on.
            if seed % 2 == 0 {
                table.start_writing().unwrap();
            }
            let short = name.starts_with("inline") || name.starts_with("set");
            as_a_map(&table, short, seed);
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
    let StoreError::NoRoom(no_room) = &full else {
        panic!("{full}")
    };
    assert!(
        matches!(
            no_room.cause,
            IndexError::Full { .. } | IndexError::HeapFull { .. }
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
    let store = open(&server, Access::Auto);
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
        table.put_many(&pairs, |_, put| assert!(put)).unwrap();
        table.close().unwrap();
    }
    for name in ["cuckoo", "duo", "sealed"] {
        let table = store.table(name).unwrap();
        let before = table.counters();
        let keys: Vec<&[u8]> = pairs.iter().map(|(key, _)| *key).collect();
        let mut told = 0;
        table
            .get_many(&keys, |number, got| {
                assert_eq!(got, Some(pairs[number].1));
                told += 1;
            })
            .unwrap();
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
            TableOp::Replace(..) | TableOp::RemoveIf(_) => unreachable!("none is drawn"),
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

/// A table of one writer at a time.
fn of_one_writer() -> TableOptions {
    TableOptions::new(400)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::UpTo(700))
        .cuckoo(CuckooShape::default())
}

#[test]
fn an_owner_writes_to_a_cuckoo_table_for_all_who_ask_it() {
    let server = serve(64 * MIB);
    let sim = format!("sim://tcp-loopback?seed=9&memory={}B", 64 * MIB);
    let stores = [
        open(&server, Access::Calls),
        Store::open_with(&sim, by(Access::Calls)).unwrap(),
    ];
    for (seed, store) in (0..).zip(&stores) {
        store.create("t", &of_one_writer()).unwrap();
        as_a_map(&store.table("t").unwrap(), false, seed);
        assert_eq!(
            store.table("t").unwrap().writer(),
            Ok(None),
            "it has resigned"
        );
    }

    let busy = |end: Result<bool, StoreError>| {
        matches!(end, Err(StoreError::Index(IndexError::WriterBusy { .. })))
    };
    let (one, other) = (stores[0].table("t").unwrap(), stores[0].table("t").unwrap());
    assert!(one.put(b"of one..", b"value").is_ok() && other.put(b"of other", b"value").is_ok());
    // One who writes by verbs stays the writer until it resigns.
    let by_verbs = open(&server, Access::Reads).table("t").unwrap();
    assert_eq!(by_verbs.put(b"by verbs", b"value"), Ok(true));
    assert!(busy(one.put(b"of one..", b"2")));
    by_verbs.close().unwrap();
    assert_eq!(one.put(b"of one..", b"2"), Ok(false));
    // So does one who is told to.
    one.start_writing().unwrap();
    assert_eq!(one.put(b"of one..", b"3"), Ok(false));
    assert!(busy(other.put(b"of other", b"3")));
    one.close().unwrap();
    assert_eq!(other.put(b"of other", b"3"), Ok(false));
    assert_eq!(other.get(b"of one.."), Ok(Some(b"3".to_vec())));
}

#[test]
fn clients_whom_an_owner_writes_for_are_linearizable() {
    let options = ServerOptions {
        threads: 2,
        ..ServerOptions::default()
    };
    let server = Server::start_with(&["tcp://127.0.0.1:0"], 64 * MIB, &options).unwrap();
    let store = open(&server, Access::Calls);
    store.create("t", &of_one_writer()).unwrap();
    let since = Instant::now();
    let histories: Vec<Of> = std::thread::scope(|scope| {
        let clients = (0..4_u32).map(|client| {
            let store = &store;
            scope.spawn(move || record(&store.table("t").unwrap(), client, 1, since))
        });
        let clients: Vec<_> = clients.collect();
        let ends = clients.into_iter().map(|client| client.join().unwrap());
        ends.collect()
    });
    let judged = check(&History::merge(histories), &RegisterMap::new());
    assert_eq!(
        judged.unwrap_or_else(|error| panic!("{error}")).returned,
        1_600
    );
}

#[test]
fn within_a_process_calls_are_for_those_who_ask_for_them() {
    for (access, calls) in [(Access::Auto, 0), (Access::Calls, 2)] {
        let store = Store::embedded_with(8 * MIB, by(access)).unwrap();
        store.create("t", &TableOptions::new(10)).unwrap();
        let table = store.table("t").unwrap();
        assert_eq!(table.put(b"key", b"value"), Ok(true));
        assert_eq!(table.get(b"key"), Ok(Some(b"value".to_vec())));
        let called = table.counters().verbs_of(VerbKind::Call);
        assert!(called == calls || called > calls && calls > 0, "{called}");
    }
}

#[test]
fn over_shared_memory_calls_are_for_those_who_ask_for_them() {
    let name = format!("shm://calls-test-{}", std::process::id());
    let server = Server::start(&name, 8 * MIB).unwrap();
    server.store().create("t", &TableOptions::new(10)).unwrap();
    let table = |access| Store::open_with(&name, by(access)).unwrap().table("t");
    let table = table(Access::Auto).unwrap();
    assert_eq!(table.put(b"key", b"value"), Ok(true));
    assert_eq!(table.counters().verbs_of(VerbKind::Call), 0);
}
