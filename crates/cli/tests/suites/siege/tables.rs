//! What tables that come and go leave in the memory of the process that served them.

use super::bed::{Bed, MIB, Size, request};
use super::callers::words;
use crate::raw::{RawClient, bytes_of, frame};
use farslot::fabric::tcp::wire::{FrameKind, Header, put_call, put_read, put_write};
use farslot::layout::{CuckooShape, RaceShape};
use farslot::{FieldSize, Operation, Store, TableOptions};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const TABLES: usize = 5_000;
/// From so many on its memory does not grow.
const FIRST: usize = 500;
/// Tables that there are at a time.
const AT_ONCE: usize = 10;
/// What the node lends.
const MEMORY: u64 = 256 * MIB;
/// Where the words of the catalog's entries are, and how many bytes each has of these and of its
/// record.
const WORDS_AT: usize = 4096;
const WORDS: usize = 32;
const RECORD: usize = 992;
const VALUE: &[u8] = &[7; 100];

/// Options of one of the schemes whose owner executes calls. An owner that finds another table in
/// the place of one leaves the run of its heap that it had open, whose claim lasts for seconds:
/// there are pages for as many runs.
fn options(number: usize) -> TableOptions {
    let any = TableOptions::new(40_000)
        .keys(FieldSize::UpTo(16))
        .values(FieldSize::UpTo(200));
    match number % 3 {
        0 => any,
        1 => any.race(RaceShape::default()),
        _ => any.cuckoo(CuckooShape::default()),
    }
}

/// One that calls the owner, and sees by shared memory what came of it.
struct User {
    store: Store,
    caller: RawClient,
}

impl User {
    fn new(bed: &Bed) -> Self {
        Self {
            store: bed.by_shared_memory(),
            caller: RawClient(bed.admitted(&Bed::admin_asks()).unwrap()),
        }
    }

    /// Sends verbs in one frame, and waits until all are executed.
    fn exchange(&mut self, count: usize, verbs: &[u64]) {
        self.caller.send(&frame(count as u16, verbs));
        let mut answered = 0;
        while answered < count {
            let header = Header::decode(self.caller.words(1)[0]).unwrap();
            assert_eq!(header.kind, FrameKind::Completions);
            self.caller.words(header.words as usize - 1);
            answered += usize::from(header.count);
        }
    }

    /// Has the owner put into tables and get from them, in one round trip. The last has this name.
    fn call(&mut self, ids: &[u64], last: &str) {
        let mut verbs = Vec::new();
        for id in ids {
            let put = [Operation::Put(b"key", VALUE)];
            let gets = [Operation::Get(b"key"); 20];
            let asked = request(*id, &[&put[..], &gets].concat());
            let span = self.caller.span(0, 8 << 10, asked.len() as u32);
            put_call(&mut verbs, span, &words(&asked));
        }
        self.exchange(ids.len(), &verbs);
        let table = self.store.table(last).unwrap();
        assert_eq!(table.get(b"key").unwrap().as_deref(), Some(VALUE));
        assert!(table.remove(b"key").unwrap());
    }
}

impl User {
    /// Gives tables other ids in the catalog, as if others were made in their places.
    fn change_ids(&mut self, ids: &mut [u64]) {
        let entries = farslot::layout::most_tables(MEMORY);
        let records_at = WORDS_AT + entries * WORDS;
        let span = self
            .caller
            .span(0, WORDS_AT as u64, (entries * WORDS) as u32);
        let all = self.caller.ask(|verbs| put_read(verbs, span)).unwrap();
        let (count, mut verbs) = (ids.len(), Vec::new());
        for id in ids {
            let of_entry = |at: &usize| all[at * WORDS / 8 + 1] == *id;
            let entry = (0..entries).find(of_entry).unwrap();
            // The state, whose lower half is a checksum of the record, and the id.
            let state = all[entry * WORDS / 8];
            let at = (records_at + entry * RECORD) as u64;
            let span = self.caller.span(0, at, RECORD as u32);
            let record = self.caller.ask(|verbs| put_read(verbs, span)).unwrap();
            let len = (state >> 32 & ((1 << 26) - 1)) as usize;
            let record = String::from_utf8(bytes_of(&record)[..len].to_vec()).unwrap();
            let record = record.replace(&id.to_string(), &(*id + 1).to_string());
            assert_eq!(record.len(), len);
            let sum = xxhash_rust::xxh3::xxh3_64(record.as_bytes()) & 0xffff_ffff;
            let record = words(record.as_bytes());
            let span = self.caller.span(0, at, record.len() as u32 * 8);
            put_write(&mut verbs, span, &record);
            let at = (WORDS_AT + entry * WORDS) as u64;
            put_write(
                &mut verbs,
                self.caller.span(0, at, 16),
                &[state >> 32 << 32 | sum, *id + 1],
            );
            *id += 1;
        }
        self.exchange(2 * count, &verbs);
    }
}

fn bed() -> Bed {
    Bed::new(Size {
        callers: 0,
        unauthenticated: 0,
        redis: 0,
    })
}

/// What it may have more at the end: the thread that goes on with calls whose turn is over begins
/// whenever one was cut off by the machine, and takes 2 MiB with the tables that it opens.
const MORE: u64 = 4 * MIB;

fn assert_no_growth(bed: &Bed, first: u64) {
    let last = bed.memory("RssAnon");
    println!("{first} bytes after {FIRST} tables, {last} after {TABLES}");
    assert!(last < first + MORE, "{} bytes more", last - first);
}

/// To its owner a table with another id is another, and the one before is gone: as when one is
/// dropped and another made, but without the seconds for which its memory rests.
#[test]
fn thousands_of_tables_that_become_others_leave_nothing_with_their_owner() {
    let bed = bed();
    let mut user = User::new(&bed);
    let made = (0..AT_ONCE).map(|number| {
        let made = user.store.create(&format!("t{number}"), &options(number));
        made.unwrap().id
    });
    let mut ids: Vec<_> = made.collect();
    let last = format!("t{}", AT_ONCE - 1);
    let mut first = 0;
    for number in (0..TABLES).step_by(AT_ONCE) {
        user.call(&ids, &last);
        user.change_ids(&mut ids);
        if number == FIRST {
            first = bed.memory("RssAnon");
        }
    }
    assert_no_growth(&bed, first);
}

#[test]
#[ignore = "takes two minutes: the memory of a table that was dropped rests for seconds"]
fn thousands_of_tables_made_and_dropped_leave_nothing_with_their_owner() {
    /// Who drop at a time.
    const DROPS: usize = 200;
    let bed = bed();
    let user = Mutex::new(User::new(&bed));
    let (next, first) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..DROPS {
            scope.spawn(|| {
                let store = bed.by_shared_memory();
                loop {
                    let number = next.fetch_add(1, Ordering::AcqRel);
                    if number >= TABLES {
                        return;
                    }
                    let name = format!("t{number}");
                    let id = store.create(&name, &options(number)).unwrap().id;
                    user.lock().unwrap().call(&[id], &name);
                    store.drop_table(&name).unwrap();
                    if number == FIRST {
                        first.store(bed.memory("RssAnon") as usize, Ordering::Release);
                    }
                }
            });
        }
    });
    assert_no_growth(&bed, first.load(Ordering::Acquire) as u64);
}
