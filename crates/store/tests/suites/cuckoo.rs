//! The cuckoo scheme behind a store: what it is made with, who may write, and what it holds.

use crate::common::TestStore;
use farslot::index::IndexError;
use farslot::layout::{CuckooShape, HashKind, Scheme};
use farslot::{FieldSize, SlotKind, StoreError, Survey, Table, TableOptions};

fn options(capacity: u64) -> TableOptions {
    TableOptions::new(capacity)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(8))
        .cuckoo(CuckooShape::default())
}

fn put(table: &Table, number: u64) -> farslot::Result<bool> {
    table.put(&number.to_le_bytes(), &(number * 3).to_le_bytes())
}

/// Keys and values of so many records.
fn records(numbers: std::ops::Range<u64>) -> Vec<([u8; 8], [u8; 8])> {
    numbers
        .map(|number| (number.to_le_bytes(), (number * 3).to_le_bytes()))
        .collect()
}

fn borrowed(records: &[([u8; 8], [u8; 8])]) -> Vec<(&[u8], &[u8])> {
    let both = records.iter();
    both.map(|(key, value)| (&key[..], &value[..])).collect()
}

pub fn the_catalog_keeps_the_scheme_with_its_shape<S: TestStore>() {
    let node = S::start(64 << 20);
    let store = node.open();
    let shape = CuckooShape {
        ways: 4,
        bucket_slots: 2,
    };
    let made = store.create("t", &options(1_000).cuckoo(shape)).unwrap();
    let found = store.tables().unwrap().remove(0);
    assert_eq!(found, made);
    let Scheme::Cuckoo(layout) = found.scheme else {
        panic!("{found:?}");
    };
    assert_eq!((layout.ways, layout.bucket_slots), (4, 2));
    assert_eq!(layout.kind, SlotKind::Inline);
    // 1000 keys of which 0.9 fill the table.
    assert_eq!(layout.slots(), 1_112);
    assert_eq!(store.table("t").unwrap().read_size(), 2);
}

pub fn options_that_no_cuckoo_table_can_have_are_named<S: TestStore>() {
    let shape = |ways, bucket_slots| options(100).cuckoo(CuckooShape { ways, bucket_slots });
    let refused = [
        ("ways", shape(1, 4)),
        ("ways", shape(5, 4)),
        ("bucket slots", shape(3, 0)),
        ("bucket slots", shape(3, 9)),
        ("slot", options(100).slots(SlotKind::Pair)),
        ("load factor", shape(2, 1).load_factor(0.6)),
        ("load factor", options(100).load_factor(1.1)),
        (
            "hash",
            options(100).keys(FieldSize::Fixed(9)).hash(HashKind::Knuth),
        ),
    ];
    let node = S::start(64 << 20);
    let store = node.open();
    for (named, options) in refused {
        match store.create("t", &options) {
            Err(StoreError::Index(IndexError::BadOption { option, .. })) => {
                assert_eq!(option, named);
            }
            other => panic!("{named}: {other:?}"),
        }
    }
    assert_eq!(store.tables().unwrap(), []);
}

/// The smaller a table and its buckets, the likelier it is that one of its keys finds no place: of
/// tables for 2000 keys with two ways and buckets of one slot, one in 300. All other shapes hold so
/// many.
pub fn nearly_every_shape_holds_its_capacity<S: TestStore>() {
    const CAPACITY: u64 = 2_000;
    let node = S::start(64 << 20);
    let store = node.open();
    for ways in 2..=4 {
        for bucket_slots in (1..=8).filter(|slots| (ways, *slots) != (2, 1)) {
            let shape = CuckooShape { ways, bucket_slots };
            let name = format!("{ways} ways, {bucket_slots} slots");
            let options = options(CAPACITY).cuckoo(shape);
            store.create(&name, &options).unwrap();
            let table = store.table(&name).unwrap();
            let records = records(0..CAPACITY);
            let mut held = 0;
            table
                .put_many(&borrowed(&records), |number, put| {
                    assert!(put, "{name}, key {number}");
                    held += 1;
                })
                .unwrap();
            assert_eq!(held, CAPACITY);
            assert_eq!(table.survey().unwrap().live(), CAPACITY);
        }
    }
}

pub fn a_full_table_says_so_and_serves_on<S: TestStore>() {
    let node = S::start(64 << 20);
    let store = node.open();
    // So many that some key finds both of its buckets full before the table is, whatever the seed.
    store.create("t", &options(256).load_factor(1.0)).unwrap();
    let table = store.table("t").unwrap();
    let mut held = Vec::new();
    for number in 0..800 {
        match put(&table, number) {
            Ok(true) => held.push(number),
            Err(StoreError::NoRoom(no_room)) => {
                let why = &no_room.cause;
                assert!(matches!(why, IndexError::Full { slots: 256, .. }), "{why}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(held.len() >= 244 && held.len() <= 256, "{}", held.len());
    for number in &held {
        assert_eq!(put(&table, *number), Ok(false));
        let value = table.get(&number.to_le_bytes()).unwrap().unwrap();
        assert_eq!(value, (number * 3).to_le_bytes());
    }
    let Survey::Cuckoo(survey) = table.survey().unwrap() else {
        panic!("no survey of buckets");
    };
    assert_eq!(survey.counts.live, held.len() as u64);
    assert!(survey.counts.full_buckets() >= 52 && survey.displacements > 0);
    // Removing one makes room: no slot stays dead.
    assert!(table.remove(&held[0].to_le_bytes()).unwrap());
    assert!(put(&table, held[0]).unwrap());
}

pub fn a_table_that_is_built_holds_every_record_and_never_changes<S: TestStore>() {
    for kind in [SlotKind::Inline, SlotKind::Heap] {
        let node = S::start(64 << 20);
        let store = node.open();
        let fuller = options(5_000).load_factor(0.97).slots(kind);
        store.create("t", &fuller).unwrap();
        let table = store.table("t").unwrap();
        let mut all = records(0..5_000);
        all.insert(0, (7_u64.to_le_bytes(), [9; 8]));
        assert_eq!(table.build(&borrowed(&all)), Ok(5_000));
        assert!(table.is_sealed());
        table.close().unwrap();

        let table = store.table("t").unwrap();
        assert!(table.is_sealed());
        for (key, value) in records(0..5_000) {
            assert_eq!(table.get(&key).unwrap().unwrap(), value);
        }
        assert_eq!(table.get(&5_000_u64.to_le_bytes()).unwrap(), None);
        assert_eq!(table.survey().unwrap().live(), 5_000);
        assert_eq!(table.occupancy().unwrap().entries, 5_000);
        for refused in [
            put(&table, 1).map(drop),
            table.remove(&[0; 8]).map(drop),
            table.start_writing(),
            table.build(&[]).map(drop),
        ] {
            assert!(
                matches!(refused, Err(StoreError::Index(IndexError::Sealed { .. }))),
                "{refused:?}"
            );
        }
    }
}

pub fn several_records_a_key_are_built_and_not_put<S: TestStore>() {
    let node = S::start(64 << 20);
    let store = node.open();
    store.create("t", &options(100).multi_key()).unwrap();
    let table = store.table("t").unwrap();
    assert!(matches!(
        put(&table, 1),
        Err(StoreError::Index(IndexError::MultiKey { .. }))
    ));
    let pairs: [(&[u8], &[u8]); 3] = [(&[1; 8], &[1; 8]), (&[2; 8], &[2; 8]), (&[1; 8], &[3; 8])];
    assert_eq!(table.build(&pairs), Ok(3));
    let mut values = table.get_all(&[1; 8]).unwrap();
    values.sort();
    assert_eq!(values, [vec![1; 8], vec![3; 8]]);
}

pub fn a_build_that_fails_leaves_the_table_empty_and_to_others<S: TestStore>() {
    let node = S::start(64 << 20);
    let store = node.open();
    store.create("t", &options(100)).unwrap();
    store.create("l", &TableOptions::new(10)).unwrap();
    let table = store.table("t").unwrap();
    let too_many = records(0..200);
    assert!(matches!(
        table.build(&borrowed(&too_many)),
        Err(StoreError::Index(IndexError::Full { .. }))
    ));
    assert!(matches!(
        table.build(&[(&[1; 9], &[1; 8])]),
        Err(StoreError::Index(IndexError::KeyLength { len: 9, .. }))
    ));
    assert_eq!(table.survey().unwrap().live(), 0);
    drop(table);
    let table = store.table("t").unwrap();
    put(&table, 1).unwrap();
    assert!(matches!(
        table.build(&borrowed(&records(0..9))),
        Err(StoreError::Index(IndexError::NotEmpty { slots: 1 }))
    ));
    assert!(put(&table, 2).unwrap());
    assert_eq!(
        store.table("l").unwrap().build(&[(b"a", b"b")]),
        Err(StoreError::NotBuildable { scheme: "linear" })
    );
}
