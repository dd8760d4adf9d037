//! The RACE scheme behind a store: what it is made with, how full it gets, and how it grows.

use crate::common::TestStore;
use farslot::index::IndexError;
use farslot::layout::{CuckooShape, DuoShape, HashKind, RaceShape, Scheme};
use farslot::{FieldSize, SlotKind, StoreError, Survey, Table, TableOptions};

fn options(capacity: u64) -> TableOptions {
    TableOptions::new(capacity)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(8))
        .race(RaceShape::default())
}

/// Puts as many numbered records in one batch; returns how many were new.
fn put_all(table: &Table, numbers: std::ops::Range<u64>) -> u64 {
    let keys: Vec<_> = numbers.map(u64::to_le_bytes).collect();
    let records: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (&key[..], &key[..])).collect();
    let mut new = 0;
    let put = table.put_many(&records, |_, is_new| new += u64::from(is_new));
    put.unwrap();
    new
}

fn is_there(table: &Table, number: u64) -> bool {
    let key = number.to_le_bytes();
    match table.get(&key).unwrap() {
        Some(value) => {
            assert_eq!(value, key);
            true
        }
        None => false,
    }
}

fn refused(made: farslot::Result<farslot::TableRecord>) -> &'static str {
    match made {
        Err(StoreError::Index(IndexError::BadOption { option, .. })) => option,
        other => panic!("{other:?}"),
    }
}

pub fn the_catalog_keeps_the_scheme_with_its_shape<S: TestStore>() {
    let node = S::start(64 << 20);
    let store = node.open();
    let shape = RaceShape { bucket_slots: 16 };
    let growing = options(1_000).race(shape).grow_to(10_000);
    let made = store.create("t", &growing).unwrap();
    let found = store.tables().unwrap().remove(0);
    assert_eq!(found, made);
    let Scheme::Race(layout) = &found.scheme else {
        panic!("{found:?}");
    };
    assert_eq!(layout.bucket_slots, 16);
    assert!(
        layout.slots() >= 1_250 && layout.most_slots() >= 12_500,
        "{layout:?}"
    );
    assert!(!found.scheme.one_writer() && !found.scheme.buildable());
    let table = store.table("t").unwrap();
    assert_eq!(table.read_size(), 32);
    assert_eq!(table.occupancy().unwrap().slots, layout.slots());
    assert_eq!(
        table.build(&[(&[1; 8], &[1; 8])]),
        Err(StoreError::NotBuildable { scheme: "race" })
    );
    assert_eq!(table.writer().unwrap(), None);
}

pub fn options_that_no_race_table_can_have_are_named<S: TestStore>() {
    let shape = |bucket_slots| options(100).race(RaceShape { bucket_slots });
    let wrong = [
        ("bucket slots", shape(3)),
        ("bucket slots", shape(33)),
        ("slot", options(100).slots(SlotKind::Pair)),
        ("inline bytes", options(100).inline_bytes(8)),
        ("keys", options(100).multi_key()),
        ("hash", options(100).hash(HashKind::Knuth)),
        ("load factor", options(100).load_factor(0.95)),
        ("load factor", shape(4).load_factor(0.8)),
        ("most capacity", options(100).grow_to(99)),
        // Other schemes do not grow.
        ("capacity to grow to", TableOptions::new(100).grow_to(200)),
        (
            "capacity to grow to",
            options(100).cuckoo(CuckooShape::default()).grow_to(200),
        ),
        ("capacity to grow to", options(100).sealed().grow_to(200)),
    ];
    let node = S::start(64 << 20);
    let store = node.open();
    for (option, options) in wrong {
        assert_eq!(refused(store.create("t", &options)), option);
    }
    assert_eq!(store.tables().unwrap(), []);
}

pub fn tables_of_every_bucket_hold_their_capacity<S: TestStore>() {
    let node = S::start(64 << 20);
    let store = node.open();
    for bucket_slots in [4, 7, 8, 16, 32] {
        for capacity in [1, 30, 2_000] {
            let name = format!("{capacity} in buckets of {bucket_slots}");
            let options = options(capacity).race(RaceShape { bucket_slots });
            store.create(&name, &options).unwrap();
            let table = store.table(&name).unwrap();
            assert_eq!(put_all(&table, 0..capacity), capacity, "{name}");
            assert_eq!(table.survey().unwrap().live(), capacity, "{name}");
        }
    }
}

pub fn slots_of_removed_keys_serve_others<S: TestStore>() {
    let node = S::start(16 << 20);
    let store = node.open();
    store.create("t", &options(300)).unwrap();
    let table = store.table("t").unwrap();
    // Ten times as many keys as it has room for, one after the other.
    for from in (0..3_000).step_by(300) {
        assert_eq!(put_all(&table, from..from + 300), 300);
        let keys: Vec<_> = (from..from + 300).map(u64::to_le_bytes).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let mut removed = 0;
        table
            .remove_many(&keys, |_, was| removed += u64::from(was))
            .unwrap();
        assert_eq!(removed, 300);
    }
    let survey = table.survey().unwrap();
    assert_eq!((survey.live(), survey.dead()), (0, 0));
    assert_eq!(survey.load_factor(), 0.0);
}

pub fn a_table_grows_under_all_its_writers_and_then_is_full<S: TestStore>() {
    const AT_FIRST: u64 = 200;
    const MOST: u64 = 4_000;
    let node = S::start(64 << 20);
    let store = node.open();
    store.create("t", &options(AT_FIRST).grow_to(MOST)).unwrap();
    let tables = [store.table("t").unwrap(), store.table("t").unwrap()];
    let before = tables[0].occupancy().unwrap().slots;
    // Each opened the table before any of its splits, and does its share of the keys.
    for from in (0..MOST).step_by(500) {
        let number = (from / 500 % 2) as usize;
        assert_eq!(put_all(&tables[number], from..from + 500), 500);
        assert!(is_there(&tables[1 - number], from + 250));
    }
    for table in &tables {
        assert!((0..MOST).all(|number| is_there(table, number)));
        table.flush().unwrap();
    }
    assert_eq!(tables[0].occupancy().unwrap().entries, MOST);
    let late = store.table("t").unwrap();
    let slots = late.occupancy().unwrap().slots;
    assert!(slots > 4 * before, "{slots} of {before} at first");
    let mut met = 0;
    late.for_each(|_, _| met += 1).unwrap();
    assert_eq!(met, MOST);
    let survey = late.survey().unwrap();
    assert_eq!((survey.live(), survey.slots()), (MOST, slots));
    let Survey::Race(survey) = survey else {
        panic!("no survey of subtables");
    };
    assert!(survey.subtables() > 4 && survey.depths.len() > 2);
    assert_eq!((survey.begun, survey.moving, survey.behind), (0, 0, 0));
    // It cannot grow for ever: then it says so, and serves on.
    let full = (MOST..10 * MOST).find(|number| match late.put(&number.to_le_bytes(), &[0; 8]) {
        Ok(new) => {
            assert!(new);
            false
        }
        Err(StoreError::NoRoom(no_room)) => {
            let why = &no_room.cause;
            assert!(matches!(
                why,
                IndexError::Full { .. } | IndexError::HeapFull { .. }
            ));
            true
        }
        Err(error) => panic!("{error}"),
    });
    assert!(full.is_some());
    assert!(is_there(&late, 7) && late.remove(&7_u64.to_le_bytes()).unwrap());
}

/// What died is told apart from what lives, of every scheme whose records lie in a heap.
pub fn dead_records_are_counted_apart<S: TestStore>() {
    const RECORDS: u64 = 400;
    let node = S::start(64 << 20);
    let store = node.open();
    let sized = || {
        TableOptions::new(RECORDS)
            .keys(FieldSize::Fixed(8))
            .values(FieldSize::UpTo(1_000))
    };
    let schemes = [
        ("race", sized().race(RaceShape::default())),
        ("linear", sized().slots(SlotKind::Heap)),
        (
            "cuckoo",
            sized().slots(SlotKind::Heap).cuckoo(CuckooShape::default()),
        ),
        ("duo", sized().duo(DuoShape::default())),
    ];
    for (name, options) in schemes {
        // Room for all of them twice, so that nothing has to be cleaned.
        store.create(name, &options.heap_bytes(4 << 20)).unwrap();
        let table = store.table(name).unwrap();
        let used_and_dead = || {
            table.flush().unwrap();
            let counts = table.occupancy().unwrap();
            assert!(counts.heap_dead <= counts.heap_used && counts.heap_used <= counts.heap_bytes);
            (counts.heap_used, counts.heap_dead)
        };
        let all = RECORDS * 1_008;
        let put = |byte: u8| {
            for number in 0..RECORDS {
                table.put(&number.to_le_bytes(), &[byte; 1_000]).unwrap();
            }
        };
        put(1);
        let (used, dead) = used_and_dead();
        assert!(used >= all && dead == 0, "{name}: {dead} of {used}");
        put(2);
        let (used, dead) = used_and_dead();
        assert!(
            (all..all * 5 / 4).contains(&dead),
            "{name}: {dead} of {all}"
        );
        assert!(used >= dead + all, "{name}: {dead} of {used}");
        for number in 0..RECORDS {
            assert!(table.remove(&number.to_le_bytes()).unwrap());
        }
        let (used, dead) = used_and_dead();
        // What is left of the pages is unused, at the ends of runs.
        assert!(used - dead < all / 2, "{name}: {dead} of {used}");
    }
}
