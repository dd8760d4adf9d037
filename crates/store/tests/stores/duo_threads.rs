//! Threads of one process that write a CuckooDuo table together, and clients that are none of them.

use farslot::fabric::Limits;
use farslot::index::IndexError;
use farslot::layout::DuoShape;
use farslot::{FieldSize, OpenOptions, Server, SlotKind, Store, StoreError, Table, TableOptions};
use farslot_testbed::PATIENCE;
use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};

const THREADS: u64 = 4;
const KEYS: u64 = 400;
const SHAPES: [(bool, SlotKind); 4] = [
    (true, SlotKind::Inline),
    (true, SlotKind::Heap),
    (false, SlotKind::Inline),
    (false, SlotKind::Heap),
];

/// A table in shared memory, as this process has it and as another would.
struct Bed {
    server: Server,
    store: Store,
}

impl Bed {
    fn new((readers, slot): (bool, SlotKind)) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let address = format!("shm://duo-threads-{}-{number}", std::process::id());
        let server = Server::start(&address, 64 << 20).unwrap();
        let store = open(&server);
        let shape = DuoShape {
            readers,
            ..DuoShape::default()
        };
        let options = TableOptions::new(200)
            .keys(FieldSize::Fixed(8))
            .values(FieldSize::Fixed(16))
            .duo(shape)
            .slots(slot)
            .grow_to(2 * KEYS);
        store.create("t", &options).unwrap();
        Self { server, store }
    }

    /// A client that shares nothing with this process's.
    fn stranger(&self) -> Table {
        open(&self.server).table("t").unwrap()
    }
}

fn open(server: &Server) -> Store {
    let options = OpenOptions {
        limits: Limits {
            verb_timeout: PATIENCE,
            ..Limits::default()
        },
        ..OpenOptions::default()
    };
    Store::open_with(&server.addresses()[0].to_string(), options).unwrap()
}

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

/// A value that says whose it is, and which of its key's.
fn value(number: u64, version: u64) -> [u8; 16] {
    let mut value = [0; 16];
    value[..8].copy_from_slice(&number.to_le_bytes());
    value[8..].copy_from_slice(&version.to_le_bytes());
    value
}

fn version_in(number: u64, value: &[u8]) -> u64 {
    assert_eq!(value[..8], number.to_le_bytes(), "it is another key's");
    u64::from_le_bytes(value[8..].try_into().unwrap())
}

fn is_busy<T: std::fmt::Debug>(result: farslot::Result<T>) {
    match result {
        Err(StoreError::Index(IndexError::WriterBusy { .. })) => {}
        other => panic!("{other:?}"),
    }
}

/// The version of each key that is there.
type Model = BTreeMap<u64, u64>;

/// Writes the keys of this thread, which no other writes, and checks each answer; reads all
/// others', whose versions only grow.
fn work(table: &Table, thread: u64) -> Model {
    let (mut model, mut seen) = (Model::new(), BTreeMap::new());
    let mut state = thread + 1;
    let mut random = |below: u64| {
        // Xorshift: any order will do.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    for version in 1..1_500 {
        let own = random(KEYS / THREADS) * THREADS + thread;
        match random(4) {
            0 => {
                let was_there = table.remove(&key(own)).unwrap();
                assert_eq!(was_there, model.remove(&own).is_some());
            }
            1 => {
                let updated = table.update(&key(own), &value(own, version)).unwrap();
                assert_eq!(updated, model.contains_key(&own));
                if updated {
                    model.insert(own, version);
                }
            }
            _ => {
                let is_new = table.put(&key(own), &value(own, version)).unwrap();
                assert_eq!(is_new, model.insert(own, version).is_none());
            }
        }
        let found = table.get(&key(own)).unwrap();
        let found = found.map(|found| version_in(own, &found));
        assert_eq!(found, model.get(&own).copied());
        let other = random(KEYS);
        if let Some(found) = table.get(&key(other)).unwrap() {
            let newest = version_in(other, &found);
            let before = seen.insert(other, newest).unwrap_or(0);
            assert!(before <= newest, "key {other}: {newest} after {before}");
        }
    }
    model
}

#[test]
fn threads_put_get_and_remove_beside_each_other() {
    for shape in SHAPES {
        let bed = Bed::new(shape);
        let stranger = bed.stranger();
        let all_write = Barrier::new(THREADS as usize + 1);
        let models: Vec<Model> = std::thread::scope(|scope| {
            let worker = |thread| {
                let (store, all_write) = (bed.store.clone(), &all_write);
                scope.spawn(move || {
                    let table = store.table("t").unwrap();
                    table.start_writing().unwrap();
                    all_write.wait();
                    work(&table, thread)
                })
            };
            let workers: Vec<_> = (0..THREADS).map(worker).collect();
            all_write.wait();
            is_busy(stranger.put(&key(0), &[0; 16]));
            let models = workers.into_iter().map(|worker| worker.join().unwrap());
            models.collect()
        });
        let model: Model = models.into_iter().flatten().collect();
        assert!(model.len() > 100, "{} keys", model.len());
        // All of them have ended: another may write.
        assert_eq!(stranger.writer().unwrap(), None);
        stranger.start_writing().unwrap();
        let mut met = Model::new();
        let visit = |key: &[u8], value: &[u8]| {
            let number = u64::from_le_bytes(key.try_into().unwrap());
            assert!(met.insert(number, version_in(number, value)).is_none());
        };
        stranger.for_each(visit).unwrap();
        assert_eq!(met, model);
        assert_eq!(stranger.occupancy().unwrap().entries, model.len() as u64);
    }
}

#[test]
fn the_last_of_a_stores_tables_that_write_resigns_in_whatever_order_they_end() {
    for shape in SHAPES {
        for closed in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let bed = Bed::new(shape);
            let stranger = bed.stranger();
            let mut tables: Vec<_> = (0..3)
                .map(|_| Some(bed.store.table("t").unwrap()))
                .collect();
            for (number, table) in (0..).zip(tables.iter().flatten()) {
                assert!(table.put(&key(number), &value(number, 1)).unwrap());
            }
            let writer = stranger.writer().unwrap();
            assert!(writer.is_some());
            for (nth, which) in closed.into_iter().enumerate() {
                is_busy(stranger.put(&key(9), &value(9, 1)));
                assert_eq!(stranger.writer().unwrap(), writer);
                let table = tables[which].take().unwrap();
                match nth {
                    0 => table.resign().unwrap(),
                    1 => table.close().unwrap(),
                    _ => drop(table),
                }
                for table in tables.iter().flatten() {
                    for number in 0..3 {
                        let found = table.get(&key(number)).unwrap().unwrap();
                        assert_eq!(version_in(number, &found), 1);
                    }
                }
            }
            assert_eq!(stranger.writer().unwrap(), None);
            assert!(stranger.put(&key(9), &value(9, 1)).unwrap());
            // Now these are the others.
            let late = bed.store.table("t").unwrap();
            is_busy(late.put(&key(1), &value(1, 2)));
            stranger.close().unwrap();
            assert!(!late.put(&key(1), &value(1, 2)).unwrap());
        }
    }
}

#[test]
fn a_table_that_only_reads_does_not_keep_the_writer() {
    let bed = Bed::new((true, SlotKind::Inline));
    let [writer, reader] = [(); 2].map(|()| bed.store.table("t").unwrap());
    assert!(writer.put(&key(1), &value(1, 1)).unwrap());
    assert!(reader.get(&key(1)).unwrap().is_some());
    assert_eq!(reader.survey().unwrap().live(), 1);
    writer.close().unwrap();
    assert_eq!(reader.writer().unwrap(), None);
    let stranger = bed.stranger();
    assert!(stranger.put(&key(2), &value(2, 1)).unwrap());
    assert!(reader.get(&key(2)).unwrap().is_some());
}

#[test]
fn a_thread_that_panics_takes_nothing_from_the_others() {
    for shape in SHAPES {
        let bed = Bed::new(shape);
        let other = bed.store.table("t").unwrap();
        assert!(other.put(&key(1), &value(1, 1)).unwrap());
        let store = bed.store.clone();
        let panicked = std::thread::spawn(move || {
            let table = store.table("t").unwrap();
            assert!(table.put(&key(2), &value(2, 1)).unwrap());
            // In the middle of a visit.
            table.for_each(|_, _| panic!("as it should")).unwrap();
        });
        assert!(panicked.join().is_err());
        for number in 1..3 {
            let found = other.get(&key(number)).unwrap().unwrap();
            assert_eq!(version_in(number, &found), 1);
        }
        assert!(other.put(&key(3), &value(3, 1)).unwrap());
        assert!(other.remove(&key(2)).unwrap());
        let stranger = bed.stranger();
        is_busy(stranger.put(&key(4), &value(4, 1)));
        other.close().unwrap();
        assert!(stranger.put(&key(4), &value(4, 1)).unwrap());
        assert_eq!(stranger.survey().unwrap().live(), 3);
    }
}
