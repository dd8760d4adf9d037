//! Attempts that were cut off go on, and nothing is lost or doubled.

use super::{any, fill, go_on, kinds, nodes, record, sorted, sorted_in, store};
use farslot::layout::Scheme;
use farslot::snapshots::{OnProgress, SnapshotProgress, snapshot_path};
use farslot::{ErrorKind, SlotKind, Store, StoreError, TableOptions};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
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

/// Tables in which insertions move records, how many they have, in more than one piece, and how
/// many more have moved some for sure.
fn moving() -> Vec<(TableOptions, u64, u64)> {
    let large = kinds().into_iter().filter_map(|options| {
        let scheme = options.scheme().unwrap();
        let grown = |options: TableOptions| options.capacity(3_000).grow_to(30_000);
        scheme.one_writer().then(|| match &scheme {
            // It may have grown a moment ago: then it has room for as many again.
            Scheme::Duo(layout) if layout.reserve_bytes > 0 => (grown(options), MOVING, 16_000),
            // A word has the signatures of a bucket.
            Scheme::Cuckoo(layout) if layout.kind == SlotKind::Signatures => {
                (options.capacity(35_000), 34_000, 900)
            }
            _ => (options.capacity(MOVING + 1_000), MOVING, 900),
        })
    });
    large.collect()
}

const MOVING: u64 = 12_000;

/// What tells one snapshot from another, in the head of its file.
fn id_in(path: &Path) -> u64 {
    let bytes = std::fs::read(path).unwrap();
    let length = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    let head: serde_json::Value = serde_json::from_slice(&bytes[24..24 + length]).unwrap();
    head["id"].as_u64().unwrap()
}

/// Has a snapshot stopped after the first piece; what it is.
fn cut_off(store: &Store, directory: &TempDir) -> u64 {
    let stop = |_: SnapshotProgress| ControlFlow::Break(());
    let stopped = store.snapshot("t", directory.path(), &stop).unwrap_err();
    assert_eq!(stopped.kind(), ErrorKind::Closed, "{stopped}");
    assert!(!snapshot_path(directory.path(), "t").exists());
    id_in(&directory.path().join("t.snapshot.part"))
}

/// Takes the snapshot again; whether it is the one that was cut off, which had some records
/// already.
fn goes_on(store: &Store, directory: &TempDir, cut_off: u64) -> bool {
    let first = Mutex::new(None);
    let report = |progress: SnapshotProgress| {
        first.lock().unwrap().get_or_insert(progress.records);
        ControlFlow::Continue(())
    };
    let taken = store.snapshot("t", directory.path(), &report).unwrap();
    let continues = id_in(&taken.path) == cut_off;
    let first = first.into_inner().unwrap().unwrap();
    assert!(
        first < taken.records || continues,
        "it has more than one piece"
    );
    continues
}

fn restored(directory: &TempDir) -> Vec<super::Pair> {
    let other = super::store();
    other.restore("t", directory.path(), &go_on).unwrap();
    sorted_in(&other, "t")
}

#[test]
fn a_table_whose_records_may_move_goes_on_where_none_has() {
    for (options, count, _) in moving() {
        let (store, directory) = (store(), TempDir::new().unwrap());
        let records = filled(&store, &options, count);
        let id = cut_off(&store, &directory);
        let table = store.table("t").unwrap();
        for (key, _) in records.iter().step_by(500) {
            let (_, value) = record(&options, 77);
            assert!(table.update(key, &value).unwrap());
        }
        table.close().unwrap();
        assert!(goes_on(&store, &directory, id), "{options:?}");
        let there = restored(&directory);
        assert_eq!(there.len(), records.len(), "{options:?}");
        for (number, (was, is)) in records.iter().zip(&there).enumerate() {
            // What was changed is as it was before, or after.
            let may_differ = number % 500 == 0;
            assert!(was.0 == is.0 && (may_differ || was.1 == is.1));
        }
    }
}

#[test]
fn a_table_whose_records_have_moved_begins_again() {
    for (options, count, more) in moving() {
        let (store, directory) = (store(), TempDir::new().unwrap());
        filled(&store, &options, count);
        let id = cut_off(&store, &directory);
        let table = store.table("t").unwrap();
        let more: Vec<_> = (count..count + more)
            .map(|number| record(&options, number))
            .collect();
        fill(&table, &more);
        let expected = sorted(&table);
        table.close().unwrap();
        assert!(!goes_on(&store, &directory, id), "{options:?}");
        assert!(restored(&directory) == expected, "{options:?}");
    }
}

/// Of one node alone, too: its table over several nodes begins again.
#[test]
fn a_table_over_several_nodes_begins_again_when_the_records_of_one_have_moved() {
    let options = any(SlotKind::Heap)
        .capacity(40_000)
        .cuckoo(farslot::layout::CuckooShape::default());
    for moves in [false, true] {
        let directory = TempDir::new().unwrap();
        let [(_first, one), (_second, other)] = [nodes(3), nodes(3)];
        let (one, other) = (Store::open(&one).unwrap(), Store::open(&other).unwrap());
        let count = 38_000;
        let before = filled(&one, &options, count);
        let id = cut_off(&one, &directory);
        let table = one.table("t").unwrap();
        if moves {
            let new = (count..count + 1_000).map(|number| record(&options, number));
            fill(&table, &new.collect::<Vec<_>>());
        }
        let expected = sorted(&table);
        table.close().unwrap();
        assert_ne!(moves, goes_on(&one, &directory, id));
        assert!(moves || expected == before);
        other.restore("t", directory.path(), &go_on).unwrap();
        assert!(sorted_in(&other, "t") == expected);
    }
}

#[test]
fn a_thread_of_the_same_store_that_moves_records_meanwhile_ends_a_snapshot() {
    let options = any(SlotKind::Heap).capacity(MOVING + 1_000);
    let options = options.duo(farslot::layout::DuoShape::default());
    let (store, directory) = (store(), TempDir::new().unwrap());
    filled(&store, &options, MOVING);
    // It writes as the same writer.
    let table = store.table("t").unwrap();
    let more = AtomicU64::new(MOVING);
    let refused = store.snapshot("t", directory.path(), &|_| {
        let from = more.fetch_add(100, Ordering::Relaxed);
        let new = (from..from + 100).map(|number| record(&options, number));
        fill(&store.table("t").unwrap(), &new.collect::<Vec<_>>());
        ControlFlow::Continue(())
    });
    let refused = refused.unwrap_err();
    assert!(refused.to_string().contains("moved"), "{refused}");
    assert_eq!(refused.kind(), ErrorKind::WriterBusy);
    assert!(!snapshot_path(directory.path(), "t").exists());
    let expected = sorted(&table);
    store.snapshot("t", directory.path(), &go_on).unwrap();
    assert!(restored(&directory) == expected);
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
    store.clear("t").unwrap();
    let table = store.table("t").unwrap();
    fill(&table, &records[..1]);
    let taken = store.snapshot("t", directory.path(), &go_on).unwrap();
    assert_eq!(taken.records, 1);
}

#[test]
fn of_a_queue_a_snapshot_goes_on_and_a_restore_begins_again() {
    let directory = TempDir::new().unwrap();
    let (store, other) = (store(), super::store());
    let options = TableOptions::new(20_000).queue();
    store.create("q", &options).unwrap();
    let queue = store.queue("q").unwrap();
    let item = |number: u32| number.to_le_bytes().repeat(40);
    let numbers: Vec<_> = (0..20_000).collect();
    for numbers in numbers.chunks(200) {
        let items: Vec<_> = numbers.iter().map(|number| item(*number)).collect();
        let items: Vec<_> = items.iter().map(|item| &item[..]).collect();
        queue.push_all(&items).unwrap();
    }
    let (stops, first) = in_attempts(3, |progress| {
        let taken = store.snapshot("q", directory.path(), progress);
        // What is popped and pushed meanwhile takes none of the others' places.
        let popped = u32::from_le_bytes(queue.pop().unwrap().unwrap()[..4].try_into().unwrap());
        queue.push(&item(20_000 + popped)).unwrap();
        taken.map(drop)
    });
    assert!(stops > 1 && first > 1_000, "{stops} stops, {first}");
    let stopped = |_: SnapshotProgress| ControlFlow::Break(());
    let cut_off = other.restore("q", directory.path(), &stopped).unwrap_err();
    assert_eq!(cut_off.kind(), ErrorKind::Closed);
    other.restore("q", directory.path(), &go_on).unwrap();
    let mut found = Vec::new();
    let restored = other.queue("q").unwrap();
    restored
        .for_each(|item| found.push(u32::from_le_bytes(item[..4].try_into().unwrap())))
        .unwrap();
    // One was popped after each attempt, the last one included.
    let left = found.iter().position(|number| *number > stops).unwrap();
    assert!(found[left..].iter().copied().eq(stops + 1..20_000));
    assert!(found.is_sorted_by(|one, other| one < other));
    assert_eq!(other.tables().unwrap().len(), 1);
}
