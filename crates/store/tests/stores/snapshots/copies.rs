//! Copies of tables.

use super::{fill, go_on, kinds, record, sorted_in, store};
use farslot::layout::{CuckooShape, DuoShape, RaceShape};
use farslot::snapshots::{SnapshotError, is_unfinished};
use farslot::{ErrorKind, FieldSize, Store, StoreError, TableOptions};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[test]
fn a_table_of_every_scheme_and_slot_is_copied_whole_and_used_apart_from_its_copy() {
    for options in kinds() {
        let store = store();
        store.create("t", &options).unwrap();
        let records: Vec<_> = (0..1_500).map(|number| record(&options, number)).collect();
        let table = store.table("t").unwrap();
        fill(&table, &records);
        table.close().unwrap();
        assert_eq!(
            store.copy_table("t", "copy", &go_on).unwrap(),
            1_500,
            "{options:?}"
        );
        let before = sorted_in(&store, "t");
        assert_eq!(sorted_in(&store, "copy"), before);
        store.drop_table("t").unwrap();
        let table = store.table("copy").unwrap();
        let (key, value) = record(&options, 1_500);
        table.put(&key, &value).unwrap();
        assert_eq!(table.get(&key).unwrap(), Some(value));
        table.close().unwrap();
        assert_eq!(sorted_in(&store, "copy").len(), before.len() + 1);
        assert_eq!(store.tables().unwrap().len(), 1);
    }
}

/// The keys of one partition go to all of the copy, each with one writer.
#[test]
fn a_table_over_several_nodes_is_copied_to_one_of_one_writer() {
    let store = Store::open("sim://cx5-edr?seed=7&memory=64MiB&nodes=3").unwrap();
    let options = TableOptions::new(6_000).values(FieldSize::UpTo(1_000));
    store.create("t", &options).unwrap();
    let table = store.table("t").unwrap();
    for number in 0_u32..3_000 {
        table.put(&number.to_be_bytes(), &[7; 1_000]).unwrap();
    }
    table.close().unwrap();
    let cuckoo = options.cuckoo(CuckooShape::default());
    let copied = store.copy_table_as("t", "copy", &cuckoo, &go_on);
    assert_eq!(copied, Ok(3_000));
    assert_eq!(sorted_in(&store, "copy"), sorted_in(&store, "t"));
}

/// What is read of a chained table that grows may have a key twice: as values of one key they would
/// stay so.
#[test]
fn a_chained_table_is_not_copied_to_one_with_several_records_of_a_key() {
    let store = store();
    let options = TableOptions::new(100).values(FieldSize::UpTo(40));
    store.create("t", &options.clone().chained()).unwrap();
    let refused = store.copy_table_as("t", "copy", &options.multi_key(), &go_on);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::BadInput);
}

#[test]
fn a_table_is_copied_to_one_of_any_other_scheme() {
    let store = store();
    let small = TableOptions::new(2_000).values(FieldSize::UpTo(40));
    let key = |number: u32| number.to_be_bytes();
    let records = |number| (number..number + 500).map(|number| (key(number), key(number)));
    let kinds = [
        small.clone(),
        small.clone().cuckoo(CuckooShape::default()),
        small.clone().duo(DuoShape::default()),
        small.clone().race(RaceShape::default()).expiring(true),
        small.clone().sealed(),
        small.clone().chained(),
        small.clone().ordered(),
    ];
    store.create("t", &kinds[0]).unwrap();
    let table = store.table("t").unwrap();
    for (key, value) in records(0) {
        table.put(&key, &value).unwrap();
    }
    table.close().unwrap();
    // Each from the one before.
    let mut last = "t".to_owned();
    for options in kinds.iter().cycle().skip(1).take(2 * kinds.len()) {
        let (from, to) = (last, format!("copy of {}", store.tables().unwrap().len()));
        let copied = store.copy_table_as(&from, &to, options, &go_on).unwrap();
        assert_eq!(copied, 500, "{options:?}");
        let table = store.table(&to).unwrap();
        assert_eq!(table.scheme().name(), options.scheme().unwrap().name());
        assert_eq!(sorted_in(&store, &to), sorted_in(&store, "t"));
        last = to;
    }
    let short = small.values(FieldSize::UpTo(3)).chained();
    let refused = store.copy_table_as("t", "short", &short, &go_on);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::DoesNotFit);
    let several = TableOptions::new(100).multi_key();
    store.create("several", &several).unwrap();
    let refused = store.copy_table_as("several", "one", &short, &go_on);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::BadInput);
    for name in ["short", "one"] {
        let missing = store.table(name).err().unwrap();
        assert_eq!(missing.kind(), ErrorKind::NoSuchTable);
    }
    assert!(
        !store
            .tables()
            .unwrap()
            .iter()
            .any(|table| is_unfinished(&table.name))
    );
}

#[test]
fn records_go_on_to_expire_in_copies_where_they_may() {
    let store = store();
    store
        .create("t", &TableOptions::new(100).expiring(true))
        .unwrap();
    let table = store.table("t").unwrap();
    let span = Duration::from_secs(3_600);
    table.put_for(b"an hour", b"1", span).unwrap();
    table.put_for(b"gone", b"2", Duration::ZERO).unwrap();
    table.put(b"stays", b"3").unwrap();
    let plain = TableOptions::new(100).chained();
    assert_eq!(store.copy_table_as("t", "plain", &plain, &go_on), Ok(2));
    let plain = store.table("plain").unwrap();
    assert_eq!(plain.get(b"an hour"), Ok(Some(b"1".to_vec())));
    assert_eq!(plain.get(b"gone"), Ok(None));
    let race = TableOptions::new(100)
        .race(RaceShape::default())
        .expiring(true);
    store.copy_table_as("t", "race", &race, &go_on).unwrap();
    let race = store.table("race").unwrap();
    let (value, left) = race.get_with_time_to_live(b"an hour").unwrap().unwrap();
    assert!(value == b"1" && left.unwrap() > span / 2 && left.unwrap() <= span);
    assert_eq!(race.get(b"gone"), Ok(None));
    // What never expired may.
    let again = TableOptions::new(100).expiring(true);
    assert_eq!(store.copy_table_as("plain", "again", &again, &go_on), Ok(2));
    let again = store.table("again").unwrap();
    let stays = again.get_with_time_to_live(b"an hour").unwrap();
    assert_eq!(stays, Some((b"1".to_vec(), None)));
}

#[test]
fn copies_are_refused_stopped_and_begun_again() {
    let store = store();
    store.create("t", &TableOptions::new(5_000)).unwrap();
    let options = TableOptions::new(10).sealed();
    store
        .build("sealed", &options, &[(b"a", b"1"), (b"b", b"2")])
        .unwrap();
    let table = store.table("t").unwrap();
    for key in 0..5_000_u32 {
        table.put(&key.to_le_bytes(), &[1; 500]).unwrap();
    }
    let kind = |copied: farslot::Result<u64>| copied.unwrap_err().kind();
    assert_eq!(
        kind(store.copy_table("t", "sealed", &go_on)),
        ErrorKind::TableExists
    );
    assert_eq!(
        kind(store.copy_table("none", "new", &go_on)),
        ErrorKind::NoSuchTable
    );
    assert_eq!(kind(store.copy_table("t", "", &go_on)), ErrorKind::BadInput);
    let stopped = store.copy_table("t", "new", &|_| ControlFlow::Break(()));
    assert!(
        matches!(stopped, Err(StoreError::Snapshot(error)) if *error == SnapshotError::Stopped)
    );
    let names = |store: &Store| -> Vec<String> {
        let tables = store.tables().unwrap();
        tables.into_iter().map(|table| table.name).collect()
    };
    assert_eq!(names(&store), ["t", "sealed"], "nothing is left of it");
    assert_eq!(store.copy_table("sealed", "whole", &go_on).unwrap(), 2);
    let whole = store.table("whole").unwrap();
    assert!(whole.is_sealed() && whole.get(b"b").unwrap().as_deref() == Some(b"2"));
    assert_eq!(store.copy_table("t", "new", &go_on).unwrap(), 5_000);
    assert!(!names(&store).iter().any(|name| is_unfinished(name)));
}

#[test]
fn copies_of_a_table_by_memory_leave_room_for_others() {
    let store = Store::embedded_with(64 << 20, Default::default()).unwrap();
    let options = TableOptions::default();
    store.create("t", &options).unwrap();
    let table = store.table("t").unwrap();
    let records: Vec<_> = (0..2_000).map(|number| record(&options, number)).collect();
    fill(&table, &records);
    table.close().unwrap();
    let before = sorted_in(&store, "t");
    for number in 0..4 {
        let (from, to) = (format!("copy-{number}"), format!("copy-{}", number + 1));
        let from = if number == 0 { "t" } else { &from };
        assert_eq!(store.copy_table(from, &to, &go_on).unwrap(), 2_000);
        assert!(sorted_in(&store, &to) == before);
    }
    assert!(store.memory().unwrap().largest_free > 1 << 20);
    // One whose records need more than half of what is free.
    let table = store.table("t").unwrap();
    for key in 1..31_u64 {
        table.put(&key.to_be_bytes(), &[7; 600 << 10]).unwrap();
    }
    table.close().unwrap();
    for number in 1..5 {
        store.drop_table(&format!("copy-{number}")).unwrap();
    }
    assert_eq!(store.copy_table("t", "large", &go_on).unwrap(), 2_030);
    assert!(sorted_in(&store, "large") == sorted_in(&store, "t"));
}

#[test]
fn what_a_killed_copy_has_left_is_dropped_by_the_next() {
    let store = store();
    let options = TableOptions::new(1_000);
    for name in ["t", "copying-0123456789abcdef"] {
        store.create(name, &options).unwrap();
    }
    let left = store.table("copying-0123456789abcdef").unwrap();
    left.put(b"some", b"record").unwrap();
    left.close().unwrap();
    store.copy_table("t", "new", &go_on).unwrap();
    let names = store.tables().unwrap().into_iter().map(|table| table.name);
    assert_eq!(names.collect::<Vec<_>>(), ["t", "new"]);
}

#[test]
fn a_copy_over_several_nodes_beside_writers_has_every_key_that_stays() {
    let store = Store::open("sim://cx5-edr?seed=1&nodes=3&memory=64MiB").unwrap();
    store.create("t", &TableOptions::default()).unwrap();
    let table = store.table("t").unwrap();
    for key in 0..2_000_u32 {
        let span = Duration::from_secs(1_000_000);
        table.put_for(&key.to_le_bytes(), b"stays", span).unwrap();
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let table = store.table("t").unwrap();
            for key in (10_000..).take_while(|_| !done.load(Ordering::Relaxed)) {
                let key: u32 = key;
                table.put(&key.to_le_bytes(), b"comes").unwrap();
                table.remove(&(key - 20).to_le_bytes()).unwrap();
            }
        });
        let copied = store.copy_table("t", "copy", &go_on);
        done.store(true, Ordering::Relaxed);
        assert!(copied.unwrap() >= 2_000);
    });
    let copy = store.table("copy").unwrap();
    for key in 0..2_000_u32 {
        let (value, left) = copy
            .get_with_time_to_live(&key.to_le_bytes())
            .unwrap()
            .unwrap();
        assert!(value == b"stays" && left.is_some());
    }
}
