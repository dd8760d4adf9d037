//! A call never makes an agent's thread wait, and has a bounded turn there: what clients do to a
//! table that they may write costs the clients of others no more than that. What a turn does not
//! come to the node goes on with beside other calls, and answers later.

use crate::callers::{call, patient_request};
use crate::calls::{MIB, besides_calls};
use crate::grants::{grant, open, secret};
use farslot::admission::TableGrant;
use farslot::calls::reply::{Answered, outcomes};
use farslot::calls::request::{MOST_OPERATIONS, Question, operation_bytes};
use farslot::fabric::{
    BufferPool, Endpoint, EndpointExt, Executor, NodeId, RegionId, RemoteAddr, Rights,
};
use farslot::index::{GET, IndexError};
use farslot::layout::RaceShape;
use farslot::{
    ErrorKind, FieldSize, Operation, Outcome, Server, ServerOptions, SlotKind, Store, StoreError,
    TableOptions, TableRecord,
};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Slots of a table whose probes are as long as probes become.
const SLOTS: u64 = 1 << 17;

/// A node with a table of such options, and a client who may write all of it.
pub fn attacked(options: &TableOptions) -> (Server, TableRecord, Store) {
    let admin = ServerOptions {
        secrets: secret(1).into_iter().collect(),
        ..ServerOptions::default()
    };
    let server = Server::start_with(&["tcp://127.0.0.1:0"], 64 * MIB, &admin).unwrap();
    let record = server.store().create("t", options).unwrap();
    let writer = grant("writer", 2, &["t"], Rights::ALL);
    server.grant(&writer).unwrap();
    let store = open(&server, "writer", secret(2)).unwrap();
    (server, record, store)
}

/// Overwrites words of the node from `first` on, by WRITEs of a client.
fn overwrite(store: &Store, first: u64, words: &[u64]) {
    let executor = Executor::new(store.tcp_endpoint().unwrap().unwrap());
    let endpoint = executor.endpoint();
    executor.block_on(async {
        for (number, some) in words.chunks(1 << 15).enumerate() {
            let at = RemoteAddr {
                node: NodeId(0),
                region: RegionId(0),
                offset: first + (number << 18) as u64,
            };
            let bytes = bytemuck::cast_slice(some);
            let data = endpoint.core().buffers.copy_of(bytes).unwrap();
            endpoint.write(at, data).await.unwrap();
        }
    });
}

/// Changes a byte of a key's record, wherever that is, by a WRITE of a client: its checksum does
/// not fit until what this returns is called.
pub fn damage<'s>(
    store: &'s Store,
    record: &TableRecord,
    key: &'s [u8],
) -> impl FnOnce() + use<'s> {
    let executor = Executor::new(store.tcp_endpoint().unwrap().unwrap());
    let endpoint = executor.endpoint();
    let bytes = record.extent();
    let place = |offset| RemoteAddr {
        node: NodeId(0),
        region: RegionId(0),
        offset,
    };
    executor.block_on(async {
        let mut table = Vec::new();
        for offset in bytes.clone().step_by(1 << 16) {
            let len = (bytes.end - offset).min(1 << 16) as usize;
            table.extend_from_slice(&endpoint.read(place(offset), len).await.unwrap());
        }
        let found = table.windows(key.len()).position(|bytes| bytes == key);
        let at = bytes.start + found.unwrap() as u64;
        let put = move |byte| {
            let executor = Executor::new(store.tcp_endpoint().unwrap().unwrap());
            let endpoint = executor.endpoint();
            let data = endpoint.core().buffers.copy_of(&[byte]).unwrap();
            executor.block_on(endpoint.write(place(at), data)).unwrap();
        };
        put(!key[0]);
        move || put(key[0])
    })
}

/// What one turn comes to: how many operations are done, how many are not or are left to the
/// client, and how many are in doubt.
fn told(store: &Store, table: u64, operations: &[Operation<'_>]) -> [usize; 3] {
    told_within(store, (table, 0), operations)
}

/// What one call comes to whose client waits for so many nanoseconds.
fn told_within(store: &Store, table: (u64, u64), operations: &[Operation<'_>]) -> [usize; 3] {
    let asked = patient_request(Question::Run, table, operations);
    let reply = call(store, &asked, 64 << 10).unwrap();
    let reply = BufferPool::new(1 << 20, 1 << 20).copy_of(&reply).unwrap();
    let mut counts = [0; 3];
    outcomes(reply, |_, answered, _| {
        counts[match answered {
            Answered::Unfinished | Answered::Left => 1,
            Answered::InDoubt => 2,
            Answered::Done(_) | Answered::Refused(_) => 0,
        }] += 1;
    });
    assert_eq!(counts.iter().sum::<usize>(), operations.len());
    counts
}

pub fn keys(count: u64) -> Vec<[u8; 8]> {
    (1..=count)
        .map(|key| (key << 32 | 77).to_le_bytes())
        .collect()
}

fn gets(keys: &[[u8; 8]]) -> Vec<Operation<'_>> {
    keys.iter().map(|key| Operation::Get(key)).collect()
}

/// A linear table whose slots all have one word, so that each lookup of an absent key looks at
/// 65,536.
fn filled() -> (Server, TableRecord, Store) {
    let options = TableOptions::new(SLOTS * 9 / 10)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(8))
        .slots(SlotKind::Pair);
    let (server, record, store) = attacked(&options);
    let bytes = record.extent();
    let words = (bytes.end - bytes.start) / 8;
    // All but what the table's head takes.
    overwrite(
        &store,
        bytes.start + 4096,
        &vec![0x5157; words as usize - 512],
    );
    (server, record, store)
}

/// The store of a client with a grant of a prefix, which has no verbs to fall back on.
pub fn holder_of_a_prefix(server: &Server) -> Store {
    let tenant = TableGrant {
        prefix: Some(Vec::new()),
        ..grant("tenant", 3, &["t"], Rights::ALL)
    };
    server.grant(&tenant).unwrap();
    open(server, "tenant", secret(3)).unwrap()
}

#[test]
fn long_probes_are_cut_at_the_end_of_the_turn() {
    let (_server, record, store) = filled();
    let keys = keys(MOST_OPERATIONS as u64);
    let [done, rest, in_doubt] = told(&store, record.id, &gets(&keys));
    // They are 64 million slots.
    assert!(
        done < keys.len() / 4 && rest > 0,
        "{done} done, {rest} left"
    );
    assert_eq!(in_doubt, 0);
    let removals: Vec<_> = keys.iter().map(|key| Operation::Remove(key)).collect();
    let [done, rest, in_doubt] = told(&store, record.id, &removals);
    assert!(
        done < keys.len() / 4 && rest > 0,
        "{done} done, {rest} left"
    );
    assert_eq!(in_doubt, 0);

    // A client of the library is answered all the same.
    let table = store.table("t").unwrap();
    let mut absent = 0;
    let asked: Vec<&[u8]> = keys[..64].iter().map(|key| &key[..]).collect();
    let got = table.get_many(&asked, |_, got| absent += usize::from(got.is_none()));
    got.unwrap();
    assert_eq!(absent, asked.len());
}

#[test]
fn batches_of_thousands_travel_once() {
    let options = TableOptions::new(40_000)
        .keys(FieldSize::UpTo(16))
        .values(FieldSize::UpTo(64))
        .slots(SlotKind::Heap);
    let (server, _, store) = attacked(&options);
    let alone = holder_of_a_prefix(&server);
    for (store, value) in [(&store, b"first"), (&alone, b"again")] {
        let table = store.table("t").unwrap();
        let keys = keys(20_000);
        let puts: Vec<_> = keys.iter().map(|key| Operation::Put(key, value)).collect();
        let mut put = 0;
        table
            .run_many(&puts, |_, _| {
                put += 1;
            })
            .unwrap();
        assert_eq!(put, puts.len());
        let mut found = vec![0; keys.len()];
        let asked: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        table
            .get_many(&asked, |number, got| {
                assert_eq!(got, Some(&value[..]));
                found[number] += 1;
            })
            .unwrap();
        assert_eq!(found, vec![1; keys.len()]);
        // By calls all of it, but for what opening the table takes.
        let counted = table.counters();
        let (others, longer) = besides_calls(&counted);
        assert!(others < 20 && longer == 0, "{counted:?}");
        assert_eq!(counted.operation(GET).count, keys.len() as u64);
        // What a turn has no room for does not travel again.
        let each = |operation: &Operation<'_>| operation_bytes(operation).unwrap() as u64;
        let once: u64 = puts.iter().chain(&gets(&keys)).map(each).sum();
        let sent = counted.bytes_written;
        assert!(
            sent < once * 11 / 10,
            "{sent} bytes for operations of {once}"
        );
        table.close().unwrap();
    }
}

/// Lines of the log of this process.
struct Lines(Mutex<Vec<String>>);

static LINES: Lines = Lines(Mutex::new(Vec::new()));

impl log::Log for Lines {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        self.0.lock().unwrap().push(record.args().to_string());
    }

    fn flush(&self) {}
}

#[test]
fn calls_that_are_answered_later_are_counted_and_long_ones_are_told_of() {
    log::set_logger(&LINES).unwrap();
    log::set_max_level(log::LevelFilter::Warn);
    let (server, record, _store) = filled();
    // To a holder of a prefix nothing is left, so that what is not done is asked for again.
    let watched = TableGrant {
        prefix: Some(Vec::new()),
        ..grant("watched", 3, &["t"], Rights::ALL)
    };
    server.grant(&watched).unwrap();
    let alone = open(&server, "watched", secret(3)).unwrap();
    let count = || server.later_calls().map(|(_, calls)| calls);
    assert_eq!(count(), [0; 3]);
    let keys = keys(MOST_OPERATIONS as u64);
    let mut later = 0;
    for operations in [1, 2, 64, MOST_OPERATIONS].repeat(5) {
        let [_, rest, in_doubt] = told(&alone, record.id, &gets(&keys[..operations]));
        assert_eq!(in_doubt, 0);
        later += u64::from(rest > 0);
    }
    let [_, long, _] = count();
    assert_eq!(count().iter().sum::<u64>(), later);
    // Each operation looks at 65,536 slots.
    assert!(long > 0 && later >= 10, "{long} of {later}");
    let lines = LINES.0.lock().unwrap().clone();
    let told_of = |line: &&String| {
        line.contains("under the grant \"watched\"") && line.contains("in table \"t\"")
    };
    let told_of = lines.iter().filter(told_of).count();
    // Of ten a second there is not a line for each on a fast machine.
    assert!((1..=long as usize).contains(&told_of), "{lines:?}");
}

/// Many calls for records that never become readable: each would make the thread wait for more than
/// a tenth of a second.
fn none_waits(store: &Store, table: u64, operations: &[Operation<'_>]) {
    const CALLS: u32 = 300;
    let since = Instant::now();
    for _ in 0..CALLS {
        let [_, rest, in_doubt] = told(store, table, operations);
        assert!(
            rest > 0 && in_doubt == 0,
            "{rest} left, {in_doubt} in doubt"
        );
    }
    // On any machine that does anything at all: it would be 30 seconds, and takes milliseconds.
    let took = since.elapsed();
    assert!(took < Duration::from_millis(50) * CALLS, "{took:?}");
}

#[test]
fn writes_to_a_damaged_race_table_do_not_wait() {
    let options = TableOptions::new(1_000)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::UpTo(40))
        .race(RaceShape::default());
    let (_server, record, store) = attacked(&options);
    let table = store.table("t").unwrap();
    let keys = keys(400);
    for key in &keys {
        table.put(key, b"value").unwrap();
    }
    table.close().unwrap();
    let _mend = damage(&store, &record, &keys[7]);
    none_waits(&store, record.id, &[Operation::Put(&keys[7], b"other")]);
    none_waits(&store, record.id, &[Operation::Get(&keys[7])]);
}

#[test]
fn unreadable_records_of_a_linear_table_do_not_make_a_call_wait() {
    let options = TableOptions::new(1_000)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::UpTo(40))
        .slots(SlotKind::Heap);
    let (server, record, store) = attacked(&options);
    let tenant = TableGrant {
        prefix: Some(Vec::new()),
        ..grant("tenant", 3, &["t"], Rights::READ)
    };
    server.grant(&tenant).unwrap();
    let table = store.table("t").unwrap();
    let keys = keys(400);
    for key in &keys {
        table.put(key, b"value").unwrap();
    }
    table.close().unwrap();
    let mend = damage(&store, &record, &keys[7]);
    none_waits(&store, record.id, &[Operation::Get(&keys[7])]);
    none_waits(&store, record.id, &[Operation::GetAll(&keys[7])]);

    // A client with verbs reads it by itself. A writer that is stopped leaves the same, so it is
    // not said to be damage.
    let error = store.table("t").unwrap().get(&keys[7]).unwrap_err();
    let unreadable = matches!(error, StoreError::Index(IndexError::Unreadable { .. }));
    assert!(unreadable, "{error:?}");
    assert_eq!(error.kind(), ErrorKind::Contended);

    // For a client that has calls alone the node waits, and then says so.
    let alone = open(&server, "tenant", secret(3)).unwrap();
    let table = alone.table("t").unwrap();
    let error = table.get(&keys[7]).unwrap_err();
    let cut = StoreError::Index(IndexError::TurnOver { in_doubt: false });
    assert_eq!(error, cut);
    assert!(!error.may_have_taken_effect());
    let mut values = 0;
    let got = table.run_many(&gets(&keys[4..12]), |_, outcome| match outcome {
        Outcome::Value(Some(_)) => values += 1,
        outcome => panic!("{outcome:?}"),
    });
    // Only that one.
    assert_eq!((got.unwrap_err().failures(), values), (&[(3, cut)][..], 7));
    // One that becomes readable meanwhile is read, and written.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            mend();
        });
        let since = Instant::now();
        assert_eq!(table.get(&keys[7]), Ok(Some(b"value".to_vec())));
        assert!(since.elapsed() > Duration::from_millis(250));
    });
}

/// Keys whose homes are among the first slots of a table, by the seed that its record tells.
fn colliding(record: &TableRecord, count: usize) -> Vec<[u8; 8]> {
    let farslot::layout::Scheme::Linear(layout) = &record.scheme else {
        panic!("{:?}", record.scheme);
    };
    let is_among_first = |key: &[u8; 8]| layout.hasher.hash(key) < u64::MAX / 100;
    let all = (0..u64::MAX).map(u64::to_le_bytes).filter(is_among_first);
    all.take(count).collect()
}

#[test]
fn keys_that_collide_cost_the_holder_of_a_prefix_alone() {
    let options = TableOptions::new(50_000)
        .keys(FieldSize::UpTo(16))
        .values(FieldSize::UpTo(16))
        .slots(SlotKind::Hybrid);
    let (server, record, _) = attacked(&options);
    let alone = holder_of_a_prefix(&server);
    let table = alone.table("t").unwrap();
    let keys = colliding(&record, 4_000 + MOST_OPERATIONS);
    let (present, absent) = keys.split_at(4_000);
    let puts: Vec<_> = present.iter().map(|key| Operation::Put(key, key)).collect();
    let mut put = 0;
    // The run of slots in use becomes too long for a turn.
    table.run_many(&puts, |_, _| put += 1).unwrap();
    assert_eq!(put, puts.len());
    // Each of them looks at thousands of slots.
    let [done, rest, in_doubt] = told(&alone, record.id, &gets(absent));
    assert!(
        done < absent.len() / 2 && rest > 0,
        "{done} done, {rest} left"
    );
    assert_eq!(in_doubt, 0);
    // Who waits for them has them all, each once.
    let within = (record.id, 1_500_000_000);
    assert_eq!(
        told_within(&alone, within, &gets(absent)),
        [absent.len(), 0, 0]
    );
    let asked: Vec<&[u8]> = absent.iter().map(|key| &key[..]).collect();
    let mut answers = 0;
    let got = table.get_many(&asked, |_, found| {
        assert_eq!(found, None);
        answers += 1;
    });
    got.unwrap();
    assert_eq!(answers, absent.len());
    let replacing = present
        .iter()
        .map(|key| Operation::Replace(key, key, b"new"));
    let replacing: Vec<_> = replacing.collect();
    let mut replaced = 0;
    // One that was executed twice would have found the other value.
    let ran = table.run_many(&replacing, |_, outcome| {
        replaced += usize::from(outcome.is_changed());
    });
    ran.unwrap();
    assert_eq!(replaced, present.len());
}

/// What a client of another grant waits for a get, at the 99th percentile, while 30 connections
/// make calls as fast as they can.
fn p99_beside(server: &Server, of: &str, number: u8, asked: &(dyn Fn(&Store) + Sync)) -> Duration {
    const OTHERS: usize = 30;
    let good = open(server, "good", secret(9)).unwrap();
    let table = good.table("good").unwrap();
    let others: Vec<_> = (0..OTHERS)
        .map(|_| open(server, of, secret(number)).unwrap())
        .collect();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for store in others {
            let ends = &ends;
            scope.spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    asked(&store);
                }
            });
        }
        let begun = Instant::now();
        let mut waits = Vec::new();
        while begun.elapsed() < Duration::from_secs(10) {
            let since = Instant::now();
            assert_eq!(table.get(&[1; 8]), Ok(Some(vec![2; 8])));
            waits.push(since.elapsed());
        }
        ends.store(true, Ordering::Relaxed);
        waits.sort_unstable();
        waits[waits.len() * 99 / 100]
    })
}

#[test]
#[ignore = "takes a minute, and compares times"]
fn floods_of_calls_cost_a_client_of_another_grant_a_turn() {
    let (server, record, store) = filled();
    let small = FieldSize::Fixed(8);
    let options = TableOptions::new(1_000).keys(small).values(small);
    server.store().create("good", &options).unwrap();
    let admin = open(&server, "default", secret(1)).unwrap();
    admin.table("good").unwrap().put(&[1; 8], &[2; 8]).unwrap();
    server
        .grant(&grant("good", 9, &["good"], Rights::ALL))
        .unwrap();
    server
        .grant(&grant("quiet", 8, &["good"], Rights::ALL))
        .unwrap();
    let id = admin
        .tables()
        .unwrap()
        .into_iter()
        .find(|of| of.name == "good")
        .unwrap()
        .id;
    drop(store);
    let keys = keys(MOST_OPERATIONS as u64);
    let quiet = p99_beside(&server, "quiet", 8, &|store| {
        told(store, id, &[Operation::Get(&[1; 8])]);
    });
    let long = p99_beside(&server, "writer", 2, &|store| {
        told_within(store, (record.id, 1_000_000_000), &gets(&keys));
    });
    println!("p99 beside 30 quiet connections {quiet:?}, beside 30 with long probes {long:?}");
    assert!(
        long < 3 * quiet + Duration::from_millis(1),
        "{quiet:?}, {long:?}"
    );
}
