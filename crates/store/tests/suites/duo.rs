//! The CuckooDuo scheme behind a store: what it is made with, how full it gets, who reads it, and
//! how it grows.

use crate::common::TestStore;
use farslot::index::IndexError;
use farslot::layout::{DuoShape, HashKind, Scheme};
use farslot::{FieldSize, SlotKind, Store, StoreError, Survey, Table, TableOptions};

fn options(capacity: u64, shape: DuoShape) -> TableOptions {
    TableOptions::new(capacity)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(8))
        .duo(shape)
}

const WITH_READERS: DuoShape = DuoShape {
    bucket_slots: 8,
    fingerprint_bits: 16,
    readers: true,
};
const ALONE: DuoShape = DuoShape {
    readers: false,
    ..WITH_READERS
};

fn put(table: &Table, number: u64) -> farslot::Result<bool> {
    table.put(&number.to_le_bytes(), &(number * 3).to_le_bytes())
}

/// Looks all of these records up in one batch; returns how many are there.
fn found(table: &Table, numbers: std::ops::Range<u64>) -> u64 {
    let keys: Vec<_> = numbers.clone().map(u64::to_le_bytes).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let mut found = 0;
    table
        .get_many(&keys, |at, value| {
            let number = numbers.start + at as u64;
            if let Some(value) = value {
                assert_eq!(value, (number * 3).to_le_bytes(), "{number}");
                found += 1;
            }
        })
        .unwrap();
    found
}

fn is_busy<T: std::fmt::Debug>(result: farslot::Result<T>) {
    match result {
        Err(StoreError::Index(IndexError::WriterBusy { .. })) => {}
        other => panic!("{other:?}"),
    }
}

pub fn the_catalog_keeps_the_scheme_with_its_shape<S: TestStore>() {
    let node = S::start(64 << 20);
    let store = node.open();
    let shape = DuoShape {
        bucket_slots: 4,
        fingerprint_bits: 24,
        readers: false,
    };
    let made = store
        .create("t", &options(1_000, shape).grow_to(9_000))
        .unwrap();
    let found = store.tables().unwrap().remove(0);
    assert_eq!(found, made);
    let Scheme::Duo(layout) = &found.scheme else {
        panic!("{found:?}");
    };
    assert_eq!((layout.bucket_slots, layout.fingerprint_bits), (4, 24));
    assert!(!layout.published && layout.kind == SlotKind::Inline);
    assert!((9_000..12_000).contains(&layout.most_slots()), "{layout:?}");
    assert!(layout.slots() < 2_000);
    assert!(found.scheme.one_writer() && found.scheme.writer_alone());
    assert!(!found.scheme.buildable());
    let table = store.table("t").unwrap();
    assert_eq!(table.read_size(), 1);
    assert_eq!(table.occupancy().unwrap().slots, layout.slots());
    assert_eq!(
        table.build(&[(&[1; 8], &[1; 8])]),
        Err(StoreError::NotBuildable { scheme: "duo" })
    );

    // Records of many lengths are out of band, unless they are short.
    let sized = |key, value| {
        let options = TableOptions::new(10).duo(WITH_READERS);
        let made = options.keys(key).values(value).scheme().unwrap();
        match made {
            Scheme::Duo(layout) => layout.kind,
            other => panic!("{other:?}"),
        }
    };
    let (fixed, up_to) = (FieldSize::Fixed, FieldSize::UpTo);
    assert_eq!(sized(up_to(24), up_to(40)), SlotKind::Inline);
    assert_eq!(sized(up_to(24), up_to(41)), SlotKind::Heap);
    assert_eq!(sized(fixed(56), fixed(200)), SlotKind::Inline);
    assert_eq!(sized(fixed(56), fixed(201)), SlotKind::Heap);
}

pub fn options_that_no_duo_table_can_have_are_named<S: TestStore>() {
    let buckets = |bucket_slots| {
        options(
            100,
            DuoShape {
                bucket_slots,
                ..ALONE
            },
        )
    };
    let bits = |fingerprint_bits| {
        let shape = DuoShape {
            fingerprint_bits,
            ..ALONE
        };
        options(100, shape)
    };
    let wrong = [
        ("bucket slots", buckets(3)),
        ("bucket slots", buckets(17)),
        ("fingerprint bits", bits(7)),
        ("fingerprint bits", bits(33)),
        ("slot", options(100, ALONE).slots(SlotKind::Word)),
        ("inline bytes", options(100, ALONE).inline_bytes(8)),
        ("keys", options(100, ALONE).multi_key()),
        ("hash", options(100, ALONE).hash(HashKind::Knuth)),
        ("load factor", options(100, ALONE).load_factor(0.99)),
        ("load factor", buckets(4).load_factor(0.9)),
        ("most capacity", options(100, ALONE).grow_to(99)),
    ];
    let node = S::start(64 << 20);
    let store = node.open();
    for (named, options) in wrong {
        match store.create("t", &options) {
            Err(StoreError::Index(IndexError::BadOption { option, .. })) => {
                assert_eq!(option, named);
            }
            other => panic!("{named}: {other:?}"),
        }
    }
    assert_eq!(store.tables().unwrap(), []);
}

pub fn tables_of_every_shape_hold_their_capacity<S: TestStore>() {
    let node = S::start(64 << 20);
    let store = node.open();
    for (bucket_slots, fingerprint_bits) in [(4, 16), (7, 12), (8, 16), (8, 8), (16, 32)] {
        for (readers, capacity) in [(true, 1), (true, 2_000), (false, 2_000)] {
            let shape = DuoShape {
                bucket_slots,
                fingerprint_bits,
                readers,
            };
            let name = format!("{capacity} in {shape:?}");
            store.create(&name, &options(capacity, shape)).unwrap();
            let table = store.table(&name).unwrap();
            let keys: Vec<_> = (0..capacity)
                .map(|number| (number.to_le_bytes(), (number * 3).to_le_bytes()))
                .collect();
            let records: Vec<(&[u8], &[u8])> = keys.iter().map(|(k, v)| (&k[..], &v[..])).collect();
            let mut new = 0;
            table
                .put_many(&records, |_, put| new += u64::from(put))
                .unwrap();
            assert_eq!(new, capacity, "{name}");
            assert_eq!(table.survey().unwrap().live(), capacity, "{name}");
        }
    }
}

/// All readers have opened the table before anything was in it.
pub fn a_lookup_beside_the_writer_finds_what_it_moves<S: TestStore>() {
    const KEYS: u64 = 2_000;
    for slot in [SlotKind::Inline, SlotKind::Heap] {
        let node = S::start(64 << 20);
        let store = node.open();
        let fuller = options(KEYS, WITH_READERS).load_factor(0.97).slots(slot);
        store.create("t", &fuller).unwrap();
        let stranger = node.stranger();
        let beside = stranger.as_ref().unwrap_or(&store);
        let [writer, reader] = [&store, beside].map(|store| store.table("t").unwrap());
        assert_eq!(found(&reader, 0..100), 0);
        for from in (0..KEYS).step_by(200) {
            for number in from..from + 200 {
                assert!(put(&writer, number).unwrap());
            }
            assert_eq!(found(&reader, 0..from + 300), from + 200);
        }
        assert!(writer.remove(&7_u64.to_le_bytes()).unwrap());
        assert!(writer.update(&8_u64.to_le_bytes(), &[8; 8]).unwrap());
        assert_eq!(reader.get(&7_u64.to_le_bytes()).unwrap(), None);
        assert_eq!(reader.get(&8_u64.to_le_bytes()).unwrap().unwrap(), [8; 8]);
        let mut met = 0;
        reader.for_each(|_, _| met += 1).unwrap();
        assert_eq!(met, KEYS - 1);
        assert_eq!(reader.survey().unwrap().live(), KEYS - 1);
        // A reader that writes becomes the writer, once it may.
        if stranger.is_some() {
            is_busy(put(&reader, 7));
        }
        writer.close().unwrap();
        assert!(put(&reader, 7).unwrap());
        assert_eq!(found(&reader, 0..8), 8);
    }
}

pub fn a_table_for_its_writer_alone_grows_and_is_nobody_elses<S: TestStore>() {
    const MOST: u64 = 4_000;
    for slot in [SlotKind::Inline, SlotKind::Heap] {
        let node = S::start(64 << 20);
        let store = node.open();
        let growing = options(100, ALONE).grow_to(MOST).slots(slot);
        let made = store.create("t", &growing).unwrap();
        let before = store.memory().unwrap();
        grow(&store, node.stranger(), MOST);
        // What it has grown into was its own from the start.
        assert_eq!(store.memory().unwrap(), before);
        let late = store.table("t").unwrap();
        let Survey::Duo(survey) = late.survey().unwrap() else {
            panic!("no survey of buckets");
        };
        let counts = &survey.counts;
        assert_eq!(counts.live, MOST);
        assert!(counts.slots > 10 * 100);
        assert_eq!(late.occupancy().unwrap().slots, counts.slots);
        let Scheme::Duo(layout) = &made.scheme else {
            panic!("{made:?}");
        };
        assert_eq!(counts.slots, layout.most_slots());
        assert_eq!(
            late.writer().unwrap(),
            None,
            "it was only looked at from outside"
        );
        assert_eq!(found(&late, 0..MOST + 100), MOST);
        let mut met = 0;
        late.for_each(|_, _| met += 1).unwrap();
        assert_eq!(met, MOST);
        let full = (MOST..2 * MOST)
            .find(|number| put(&late, *number).is_err())
            .unwrap();
        let Err(StoreError::NoRoom(no_room)) = put(&late, full) else {
            panic!("it cannot grow")
        };
        assert!(matches!(no_room.cause, IndexError::Full { .. }));
        assert_eq!(found(&late, 0..full + 100), full);
    }
}

pub fn a_table_grows_under_its_readers<S: TestStore>() {
    const MOST: u64 = 2_000;
    for slot in [SlotKind::Inline, SlotKind::Heap] {
        let node = S::start(64 << 20);
        let store = node.open();
        let growing = options(100, WITH_READERS).grow_to(MOST).slots(slot);
        store.create("t", &growing).unwrap();
        let stranger = node.stranger();
        let beside = stranger.as_ref().unwrap_or(&store);
        let [writer, reader] = [&store, beside].map(|store| store.table("t").unwrap());
        for number in 0..MOST {
            assert!(put(&writer, number).unwrap());
            if number % 97 == 0 {
                assert_eq!(found(&reader, 0..number + 2), number + 1);
            }
        }
        let survey = reader.survey().unwrap();
        assert!(survey.slots() > 10 * 100, "{survey:?}");
        assert_eq!(found(&reader, 0..MOST + 100), MOST);
        let mut met = 0;
        reader.for_each(|_, _| met += 1).unwrap();
        assert_eq!(met, MOST);
        if stranger.is_some() {
            is_busy(put(&reader, 1));
        }
    }
}

/// Fills a table by two clients, one after the other; a stranger is told that there is one.
fn grow(store: &Store, stranger: Option<Store>, most: u64) {
    let [first, second] = [(); 2].map(|()| store.table("t").unwrap());
    // Whoever looks a key up is the writer, too.
    assert_eq!(first.get(&[1; 8]).unwrap(), None);
    if let Some(stranger) = stranger {
        let table = stranger.table("t").unwrap();
        is_busy(table.get(&[1; 8]));
        is_busy(table.for_each(|_, _| ()));
        is_busy(put(&table, 1));
    }
    for number in 0..most / 2 {
        assert!(put(&first, number).unwrap());
    }
    first.close().unwrap();
    for number in most / 2..most {
        assert!(put(&second, number).unwrap());
    }
    second.close().unwrap();
}
