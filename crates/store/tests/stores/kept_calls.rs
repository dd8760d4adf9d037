//! Calls that do not end in their turn: the owner keeps them, goes on with them, and answers later.

use crate::callers::{call, patient_request};
use crate::calls::{MIB, besides_calls, by};
use crate::grants::{grant, open, secret};
use crate::turns::{attacked, damage, holder_of_a_prefix, keys};
use farslot::calls::request::Question;
use farslot::fabric::{FabricError, VerbKind};
use farslot::layout::{CuckooShape, RaceShape};
use farslot::{Access, FieldSize, Operation, Server, SlotKind, Store, Table, TableOptions};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Longer than a client's `verb_timeout`, in nanoseconds.
const A_MINUTE: u64 = 60_000_000_000;

fn small() -> TableOptions {
    TableOptions::new(1_000)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::UpTo(40))
        .slots(SlotKind::Heap)
}

fn put_each(table: &Table, keys: &[[u8; 8]]) {
    let puts: Vec<_> = keys
        .iter()
        .map(|key| Operation::Put(key, b"first"))
        .collect();
    run_each(table, &puts);
}

/// Runs operations each of which changes something if it is executed once.
fn run_each(table: &Table, operations: &[Operation<'_>]) {
    let mut changed = 0;
    table
        .run_many(operations, |_, outcome| {
            changed += usize::from(outcome.is_changed())
        })
        .unwrap();
    assert_eq!(changed, operations.len());
}

#[test]
fn owners_end_batches_in_every_memory_that_is_mapped() {
    let options = small().capacity(20_000);
    let name = format!("shm://kept-calls-{}", std::process::id());
    let server = Server::start(&name, 64 * MIB).unwrap();
    let within = Store::embedded_with(64 * MIB, by(Access::Calls)).unwrap();
    for store in [Store::open_with(&name, by(Access::Calls)).unwrap(), within] {
        store.create("t", &options).unwrap();
        let table = store.table("t").unwrap();
        let before = table.counters();
        let keys = keys(10_000);
        put_each(&table, &keys);
        let replacing = |key| Operation::Replace(key, b"first", b"second");
        let replacing: Vec<_> = keys.iter().map(|key| replacing(key)).collect();
        run_each(&table, &replacing);
        let counted = table.counters().since(&before);
        assert!(besides_calls(&counted).0 < 20, "{counted:?}");
        // Whoever has executed them has counted them.
        table.flush().unwrap();
        assert_eq!(table.occupancy().unwrap().entries, keys.len() as u64);
        // Each of 256 operations.
        assert_eq!(
            counted.verbs_of(VerbKind::Call),
            2 * 10_000_u64.div_ceil(256)
        );
    }
    drop(server);
}

/// The owner is the one writer of a cuckoo table for a turn, whoever of its threads has it.
#[test]
fn owners_end_batches_of_tables_of_one_writer() {
    let options = small().capacity(20_000).cuckoo(CuckooShape::default());
    let server = Server::start("tcp://127.0.0.1:0", 64 * MIB).unwrap();
    server.store().create("t", &options).unwrap();
    let address = server.addresses()[0].to_string();
    let keys = keys(9_000);
    std::thread::scope(|scope| {
        for keys in keys.chunks(3_000) {
            let address = &address;
            scope.spawn(move || {
                let store = Store::open_with(address, by(Access::Calls)).unwrap();
                let table = store.table("t").unwrap();
                put_each(&table, keys);
                let removals: Vec<_> = keys.iter().map(|key| Operation::Remove(key)).collect();
                run_each(&table, &removals);
            });
        }
    });
}

/// A put that meets a record which cannot be read yet is kept, and done once it can be.
#[test]
fn a_write_that_has_to_wait_is_done_in_the_end() {
    for options in [small(), small().race(RaceShape::default())] {
        let (server, record, store) = attacked(&options);
        let alone = holder_of_a_prefix(&server);
        let table = alone.table("t").unwrap();
        let keys = keys(400);
        put_each(&table, &keys);
        let mend = damage(&store, &record, &keys[7]);
        let waits = Duration::from_millis(300);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(waits);
                mend();
            });
            let since = Instant::now();
            let replaced = table.compare_and_set(&keys[7], Some(b"first"), b"third");
            assert_eq!(replaced, Ok(true));
            assert!(since.elapsed() > waits * 9 / 10);
        });
        assert_eq!(table.get(&keys[7]), Ok(Some(b"third".to_vec())));
    }
}

#[test]
fn a_kept_call_goes_with_its_client_and_with_its_table() {
    let (server, record, store) = attacked(&small());
    let alone = holder_of_a_prefix(&server);
    let keys = keys(400);
    put_each(&alone.table("t").unwrap(), &keys);
    let mend = damage(&store, &record, &keys[7]);
    let replacing = [Operation::Replace(&keys[7], b"first", b"third")];
    let asked = patient_request(Question::Run, (record.id, A_MINUTE), &replacing);
    // Its client leaves: what could not be done is not done afterwards.
    let left = call(&alone, &asked, 1_000);
    assert!(
        matches!(left, Err(FabricError::TimedOut { .. })),
        "{left:?}"
    );
    std::thread::sleep(Duration::from_millis(100));
    mend();
    std::thread::sleep(Duration::from_millis(100));
    let table = alone.table("t").unwrap();
    assert_eq!(table.get(&keys[7]), Ok(Some(b"first".to_vec())));

    // Its table is dropped: the rest is refused at once.
    let _mend = damage(&store, &record, &keys[7]);
    let is_dropped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            is_dropped.store(true, Ordering::Relaxed);
            server.store().drop_table("t").unwrap();
        });
        let refused = table.get(&keys[7]).unwrap_err();
        assert!(is_dropped.load(Ordering::Relaxed), "{refused}");
        let said = "the table is not there any more";
        assert!(refused.to_string().contains(said), "{refused}");
    });
}

/// A node ends beside calls that it keeps: at once, and their clients are told so.
#[test]
fn a_node_ends_beside_what_it_keeps() {
    let (server, record, store) = attacked(&small());
    let reader = grant("reader", 4, &["t"], farslot::fabric::Rights::READ);
    let reader = farslot::admission::TableGrant {
        prefix: Some(Vec::new()),
        ..reader
    };
    server.grant(&reader).unwrap();
    let alone = open(&server, "reader", secret(4)).unwrap();
    let keys = keys(400);
    put_each(&store.table("t").unwrap(), &keys);
    let _mend = damage(&store, &record, &keys[7]);
    let table = alone.table("t").unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            let since = Instant::now();
            drop(server);
            assert!(since.elapsed() < Duration::from_secs(1));
        });
        let since = Instant::now();
        let error = table.get(&keys[7]).unwrap_err();
        assert!(since.elapsed() < Duration::from_millis(1_400), "{error}");
    });
}

#[test]
fn what_a_kept_call_has_changed_is_counted_once_it_is_answered() {
    let (server, record, store) = attacked(&small().capacity(200_000));
    let table = store.table("t").unwrap();
    let keys = keys(2_049);
    assert_eq!(table.put(&keys[2_048], &[1; 32]), Ok(true));
    for keys in keys.chunks_exact(1_024) {
        let puts: Vec<_> = keys
            .iter()
            .map(|key| Operation::Put(key, &[1; 32]))
            .collect();
        let asked = patient_request(Question::Run, (record.id, 1_500_000_000), &puts);
        call(&store, &asked, 64 << 10).unwrap();
    }
    // Of what its owner's threads have counted themselves the client knows nothing.
    table.flush().unwrap();
    let kept: u64 = server.later_calls().map(|(_, calls)| calls).iter().sum();
    assert_eq!(kept, 2);
    assert_eq!(server.occupancy(&record).unwrap().entries, 2_049);
}
