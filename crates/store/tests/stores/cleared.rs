//! A table that is cleared over TCP while several clients write: what is acknowledged after the
//! moment stays.

use crate::calls::{MIB, by, open, serve};
use farslot::{Access, ErrorKind, FieldSize, Store, Table, TableOptions};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

const WRITERS: u32 = 4;

/// What a writer has done.
#[derive(Default)]
struct Done {
    /// By record, its key and when it was begun and acknowledged.
    put: Vec<([u8; 8], Instant, Instant)>,
    /// When the writer had the table open again.
    opened: Vec<Instant>,
}

/// Opens the table, which may be gone between the look at the catalog and the first operation.
fn open_again(store: &Store) -> Table {
    loop {
        match store.table("t") {
            Ok(table) => return table,
            Err(error) => assert_eq!(error.kind(), ErrorKind::TableGone, "{error}"),
        }
    }
}

/// Opens the table again whenever it is gone, and puts records of its own.
fn write(store: &Store, writer: u32, acknowledged: &AtomicU32, ends: &AtomicBool) -> Done {
    let mut done = Done::default();
    let mut table = open_again(store);
    for number in 0_u32.. {
        if ends.load(Ordering::Acquire) {
            break;
        }
        let [a, b] = [writer, number].map(u32::to_le_bytes);
        let key: [u8; 8] = [a, b].concat().try_into().unwrap();
        let begun = Instant::now();
        match table.put(&key, &key) {
            Ok(_) => {
                done.put.push((key, begun, Instant::now()));
                acknowledged.fetch_add(1, Ordering::Release);
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::TableGone, "{error}");
                table = open_again(store);
                done.opened.push(Instant::now());
            }
        }
    }
    done
}

/// Empties a table under writers who use it so.
fn empty_under_writers(access: Access) {
    let server = serve(64 * MIB);
    let store = open(&server, access);
    let options = TableOptions::new(400_000)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(8));
    store.create("t", &options).unwrap();
    let address = server.addresses()[0].to_string();
    let (acknowledged, ends) = (AtomicU32::new(0), AtomicBool::new(false));
    let wait_for = |more: u32| {
        let before = acknowledged.load(Ordering::Acquire);
        while acknowledged.load(Ordering::Acquire) < before + more {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let (done, cleared) = std::thread::scope(|threads| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (address, acknowledged, ends) = (&address, &acknowledged, &ends);
                threads.spawn(move || {
                    let store = Store::open_with(address, by(access)).unwrap();
                    write(&store, writer, acknowledged, ends)
                })
            })
            .collect();
        wait_for(500);
        let cleared = Instant::now();
        store.clear("t").unwrap();
        wait_for(500);
        ends.store(true, Ordering::Release);
        let done: Vec<_> = writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .collect();
        (done, cleared)
    });
    let first = done.iter().flat_map(|done| &done.opened).min().unwrap();
    let table = store.table("t").unwrap();
    let (mut before, mut after) = (0, 0);
    for (key, begun, ended) in done.iter().flat_map(|done| &done.put) {
        let is_there = table.contains_key(key).unwrap();
        if *ended < cleared {
            before += 1;
            assert!(!is_there, "{key:?} was there before, and is again");
        } else if begun > first {
            after += 1;
            assert!(is_there, "{key:?} was acknowledged, and is lost");
        }
    }
    assert!(before > 0 && after > 0, "{before} before, {after} after");
}

#[test]
fn what_is_acknowledged_after_a_table_was_emptied_is_there_by_verbs() {
    empty_under_writers(Access::Reads);
}

#[test]
fn what_is_acknowledged_after_a_table_was_emptied_is_there_by_calls() {
    empty_under_writers(Access::Calls);
}
