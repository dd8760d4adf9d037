//! Attempts that were cut off go on, and nothing is lost or doubled.

use super::{any, fill, go_on, kinds, nodes, record, sorted, sorted_in, store};
use farslot::{
    ErrorKind, OnProgress, SlotKind, SnapshotProgress, Store, StoreError, TableOptions,
    snapshot_path,
};
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;

/// Has `work` done in attempts of a few steps each; how often it was stopped, and how many records
/// were done already when the last attempt reported first.
fn in_attempts(steps: u32, work: impl Fn(OnProgress<'_>) -> Result<(), StoreError>) -> (u32, u64) {
    for attempt in 0.. {
        let left = AtomicU32::new(steps);
        let first = Mutex::new(None);
        let report = |progress: SnapshotProgress| {
            first.lock().unwrap().get_or_insert(progress.records);
            match left.fetch_sub(1, Ordering::Relaxed) {
                0 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        };
        match work(&report) {
            Ok(()) => return (attempt, first.into_inner().unwrap().unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::Closed => assert!(attempt < 10_000),
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!()
}

fn filled(store: &Store, options: &TableOptions, count: u64) -> Vec<super::Pair> {
    store.create("t", options).unwrap();
    let table = store.table("t").unwrap();
    let records: Vec<_> = (0..count).map(|number| record(options, number)).collect();
    fill(&table, &records);
    let there = sorted(&table);
    table.close().unwrap();
    there
}

/// One with more than a block, and more than a piece of the scan.
fn large() -> TableOptions {
    any(SlotKind::Heap).capacity(40_000)
}

#[test]
fn a_snapshot_and_a_restore_go_on_where_they_were_cut_off() {
    let directory = TempDir::new().unwrap();
    let (store, other) = (store(), super::store());
    let records = filled(&store, &large(), 30_000);
    let (stops, first) = in_attempts(1, |progress| {
        store.snapshot("t", directory.path(), progress).map(drop)
    });
    assert!(stops > 1 && first > 10_000, "{stops} stops, {first}");
    let (stops, first) = in_attempts(1, |progress| {
        other.restore("t", directory.path(), progress).map(drop)
    });
    assert!(stops > 1 && first > 10_000, "{stops} stops, {first}");
    assert!(sorted_in(&other, "t") == records);
    assert_eq!(other.tables().unwrap().len(), 1);
    let files = std::fs::read_dir(directory.path()).unwrap();
    assert_eq!(files.count(), 1, "nothing else is left");
}

#[test]
fn attempts_over_several_nodes_go_on() {
    let directory = TempDir::new().unwrap();
    let [(_first, one), (_second, other)] = [nodes(3), nodes(3)];
    let (one, other) = (Store::open(&one).unwrap(), Store::open(&other).unwrap());
    let records = filled(&one, &large(), 20_000);
    in_attempts(4, |progress| {
        one.snapshot("t", directory.path(), progress).map(drop)
    });
    in_attempts(1, |progress| {
        other.restore("t", directory.path(), progress).map(drop)
    });
    assert!(sorted_in(&other, "t") == records);
}

#[test]
fn every_kind_of_table_survives_attempts_that_are_cut_off() {
    for options in kinds() {
        let directory = TempDir::new().unwrap();
        let (store, other) = (store(), super::store());
        let records = filled(&store, &options, 500);
        // Those that begin again need an attempt that is long enough.
        let stopped = |steps| {
            let left = AtomicU32::new(steps);
            move |_: SnapshotProgress| match left.fetch_sub(1, Ordering::Relaxed) {
                0 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        };
        let _ = store.snapshot("t", directory.path(), &stopped(0));
        store.snapshot("t", directory.path(), &go_on).unwrap();
        let _ = other.restore("t", directory.path(), &stopped(0));
        if other
            .tables()
            .unwrap()
            .iter()
            .all(|table| table.name != "t")
        {
            other.restore("t", directory.path(), &go_on).unwrap();
        }
        assert!(sorted_in(&other, "t") == records, "{options:?}");
    }
}

#[test]
fn a_snapshot_that_was_cut_off_anywhere_goes_on() {
    let directory = TempDir::new().unwrap();
    let store = store();
    let options = any(SlotKind::Heap).capacity(40).multi_key();
    let records = filled(&store, &options, 6);
    let path = store.snapshot("t", directory.path(), &go_on).unwrap().path;
    let whole = std::fs::read(&path).unwrap();
    let part = directory.path().join("t.snapshot.part");
    // Each is synced to the disk.
    for length in (0..=whole.len()).step_by(5) {
        std::fs::write(&part, &whole[..length]).unwrap();
        let taken = store.snapshot("t", directory.path(), &go_on).unwrap();
        assert_eq!(taken.records, records.len() as u64, "{length}");
        assert!(!part.exists());
    }
    let other = super::store();
    other.restore("t", directory.path(), &go_on).unwrap();
    assert!(sorted_in(&other, "t") == records);
}

#[test]
fn what_is_left_of_another_table_is_not_continued() {
    let directory = TempDir::new().unwrap();
    let store = store();
    let records = filled(&store, &large(), 10_000);
    let stop = |_: SnapshotProgress| ControlFlow::Break(());
    let stopped = store.snapshot("t", directory.path(), &stop).unwrap_err();
    assert_eq!(stopped.kind(), ErrorKind::Closed);
    assert!(!snapshot_path(directory.path(), "t").exists());
    store.empty("t").unwrap();
    let table = store.table("t").unwrap();
    fill(&table, &records[..1]);
    let taken = store.snapshot("t", directory.path(), &go_on).unwrap();
    assert_eq!(taken.records, 1);
}

#[test]
#[ignore = "ten million records: scripts/test --all"]
fn ten_million_records_come_back() {
    let directory = TempDir::new().unwrap();
    let open = || Store::embedded_with(1 << 30, Default::default()).unwrap();
    let options = super::fixed(SlotKind::Pair, 8, 8).capacity(10_000_000);
    let (store, other) = (open(), open());
    store.create("t", &options).unwrap();
    let table = store.table("t").unwrap();
    for first in (0..10_000_000_u64).step_by(100_000) {
        let records: Vec<_> = (first..first + 100_000)
            .map(|number| record(&options, number))
            .collect();
        fill(&table, &records);
    }
    let since = std::time::Instant::now();
    let taken = store.snapshot("t", directory.path(), &go_on).unwrap();
    println!("{} bytes after {:?}", taken.bytes, since.elapsed());
    other.restore("t", directory.path(), &go_on).unwrap();
    println!("restored after {:?}", since.elapsed());
    assert!(sorted(&table) == sorted_in(&other, "t"));
}
