//! The sealed scheme behind a store: built from its records, read by all, written by none.

use crate::common::TestStore;
use farslot::index::IndexError;
use farslot::layout::{CuckooShape, HashKind, Scheme, SealedForm};
use farslot::{BatchError, FieldSize, SlotKind, StoreError, Survey, TableOptions};

fn records(numbers: std::ops::Range<u32>) -> Vec<(Vec<u8>, Vec<u8>)> {
    numbers
        .map(|number| {
            let value = format!("{number:x}").repeat(1 + number as usize % 20);
            (format!("key {number}").into_bytes(), value.into_bytes())
        })
        .collect()
}

fn borrowed(records: &[(Vec<u8>, Vec<u8>)]) -> Vec<(&[u8], &[u8])> {
    let both = records.iter();
    both.map(|(key, value)| (&key[..], &value[..])).collect()
}

fn refused(result: farslot::Result<impl std::fmt::Debug>) -> &'static str {
    match result {
        Err(StoreError::Index(IndexError::Sealed { operation })) => operation,
        other => panic!("{other:?}"),
    }
}

pub fn what_was_built_is_found_by_everybody_and_nothing_else_is<S: TestStore>() {
    let node = S::start(64 << 20);
    let store = node.open();
    let all = records(0..3_000);
    let options = TableOptions::new(1).sealed();
    assert_eq!(store.build("t", &options, &borrowed(&all)), Ok(3_000));
    let found = store.tables().unwrap().remove(0);
    let Scheme::Sealed(layout) = &found.scheme else {
        panic!("{found:?}");
    };
    assert_eq!(layout.form, SealedForm::OutOfBand);
    assert_eq!(layout.homes, 3_334, "0.9 full");

    let table = store.table("t").unwrap();
    for (key, value) in &all {
        assert_eq!(table.get(key).unwrap().as_ref(), Some(value));
    }
    let absent: Vec<_> = records(3_000..3_500);
    let keys: Vec<&[u8]> = absent.iter().map(|(key, _)| &key[..]).collect();
    let mut misses = 0;
    table
        .get_many(&keys, |_, found| {
            assert_eq!(found, None);
            misses += 1;
        })
        .unwrap();
    assert_eq!(misses, 500);
    let mut seen = Vec::new();
    table
        .for_each(|key, value| seen.push((key.to_vec(), value.to_vec())))
        .unwrap();
    seen.sort();
    let mut expected = all.clone();
    expected.sort();
    assert_eq!(seen, expected);
    let survey = table.survey().unwrap();
    assert!(matches!(survey, Survey::Counted(_)));
    assert_eq!((survey.live(), survey.dead()), (3_000, 0));
    assert!(table.read_size() > 0);
}

/// Whatever the sizes of the records, with a filter or without, and for a client that had the table
/// open before it was built.
pub fn each_key_has_one_slot_of_a_table_with_a_perfect_hash_function<S: TestStore>() {
    let node = S::start(64 << 20);
    let store = node.open();
    let fixed = TableOptions::new(3_000)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(8));
    let numbered: Vec<_> = (0..3_000u64)
        .map(|number| {
            (
                number.to_le_bytes().to_vec(),
                (!number).to_be_bytes().to_vec(),
            )
        })
        .collect();
    // One that is far longer than the others, and those of which none is twice the average.
    let mut mixed = records(0..3_000);
    mixed[5].1 = vec![7; 1_000];
    let alike: Vec<_> = (0..3_000)
        .map(|number| {
            (
                format!("{number:x}").into_bytes(),
                b"value"[..3 + number % 3].to_vec(),
            )
        })
        .collect();
    let any = TableOptions::new(3_000);
    for (name, options, records, form) in [
        ("fixed", &fixed, &numbered, SealedForm::Inline),
        ("mixed", &any, &mixed, SealedForm::OutOfBand),
        ("alike", &any, &alike, SealedForm::Inline),
    ] {
        for options in [
            options.clone().perfect(),
            options.clone().perfect_with_filter(),
        ] {
            let borrowed = borrowed(records);
            assert_eq!(store.build(name, &options, &borrowed), Ok(3_000));
            let table = store.table(name).unwrap();
            let Scheme::Sealed(layout) = &table.record().scheme else {
                panic!("{:?}", table.record());
            };
            assert_eq!((layout.form, layout.slots), (form, 3_031), "0.99 full");
            for (key, value) in records {
                assert_eq!(table.get(key).unwrap().as_ref(), Some(value));
            }
            let absent: Vec<_> = (5_000..5_500u64).map(u64::to_be_bytes).collect();
            let keys: Vec<&[u8]> = absent.iter().map(|key| &key[..]).collect();
            table
                .get_many(&keys, |_, found| assert_eq!(found, None))
                .unwrap();
            let mut seen = Vec::new();
            table
                .for_each(|key, value| seen.push((key.to_vec(), value.to_vec())))
                .unwrap();
            seen.sort();
            let mut expected = records.clone();
            expected.sort();
            assert_eq!(seen, expected);
            assert_eq!(refused(table.remove(&records[7].0)), "remove");
            store.drop_table(name).unwrap();
        }
    }
    store.create("early", &fixed.perfect()).unwrap();
    let early = store.table("early").unwrap();
    let (key, value) = &numbered[9];
    assert_eq!(early.get(key), Err(StoreError::Index(IndexError::NotBuilt)));
    let built = store.table("early").unwrap().build(&borrowed(&numbered));
    assert_eq!(built, Ok(3_000));
    assert_eq!(early.get(key).unwrap().as_ref(), Some(value));
}

pub fn every_write_says_that_the_table_is_sealed<S: TestStore>() {
    let node = S::start(64 << 20);
    let store = node.open();
    let options = TableOptions::new(1).sealed();
    store.build("t", &options, &[(b"a", b"1")]).unwrap();
    let table = store.table("t").unwrap();
    assert!(table.is_sealed() && !table.scheme().one_writer());
    assert_eq!(refused(table.put(b"a", b"2")), "put");
    assert_eq!(refused(table.find_or_put(b"a", b"2")), "find_or_put");
    assert_eq!(refused(table.update(b"a", b"2")), "update");
    assert_eq!(refused(table.remove(b"a")), "remove");
    assert_eq!(refused(table.start_writing()), "writing");
    assert_eq!(refused(table.build(&[(b"a", b"2")])), "build");
    let put = table.put_many(&[(b"a", b"2")], |_, _| ());
    assert_eq!(refused(put.map_err(BatchError::into_first)), "put");
    let removed = table.remove_many(&[b"a"], |_, _| ());
    assert_eq!(refused(removed.map_err(BatchError::into_first)), "remove");
    assert_eq!(table.get(b"a").unwrap().unwrap(), b"1");
    table.close().unwrap();
}

pub fn a_table_that_is_not_built_says_so_until_it_is<S: TestStore>() {
    let node = S::start(64 << 20);
    let store = node.open();
    let options = TableOptions::new(100).sealed();
    store.create("t", &options).unwrap();
    let reader = store.table("t").unwrap();
    let not_built = Err(StoreError::Index(IndexError::NotBuilt));
    assert_eq!(reader.get(b"key 1"), not_built);
    assert_eq!(reader.survey().map(|_| None), not_built);
    assert_eq!(reader.occupancy().map(|_| None), not_built);

    let builder = store.table("t").unwrap();
    let too_many = records(0..400);
    assert!(matches!(
        builder.build(&borrowed(&too_many)),
        Err(StoreError::Index(IndexError::Full { .. }))
    ));
    // What was refused has changed nothing.
    assert_eq!(reader.get(b"key 1"), not_built);
    let records = records(0..100);
    assert_eq!(builder.build(&borrowed(&records)), Ok(100));
    assert_eq!(reader.get(b"key 1").unwrap().unwrap(), b"11");
}

pub fn of_two_records_of_a_key_the_last_stays_unless_it_may_have_several<S: TestStore>() {
    let pairs: [(&[u8], &[u8]); 3] = [(b"a", b"1"), (b"b", b"2"), (b"a", b"3")];
    let node = S::start(64 << 20);
    let store = node.open();
    let options = TableOptions::new(1).sealed();
    assert_eq!(store.build("unique", &options, &pairs), Ok(2));
    let unique = store.table("unique").unwrap();
    assert_eq!(unique.get_all(b"a").unwrap(), [b"3".to_vec()]);
    let options = options.multi_key();
    assert_eq!(store.build("several", &options, &pairs), Ok(3));
    let mut values = store.table("several").unwrap().get_all(b"a").unwrap();
    values.sort();
    assert_eq!(values, [b"1".to_vec(), b"3".to_vec()]);
}

pub fn options_that_are_not_for_sealed_tables_are_named<S: TestStore>() {
    let fixed = TableOptions::new(1)
        .keys(FieldSize::Fixed(1))
        .values(FieldSize::Fixed(1));
    let pair: [(&[u8], &[u8]); 1] = [(b"a", b"1")];
    let node = S::start(64 << 20);
    let store = node.open();
    let refused = [
        ("slot", fixed.clone().sealed().slots(SlotKind::Word)),
        ("slot", fixed.clone().sealed().slots(SlotKind::Pair)),
        ("heap bytes", fixed.clone().sealed().heap_bytes(1 << 20)),
        ("load factor", fixed.clone().sealed().load_factor(1.5)),
        ("load factor", fixed.clone().perfect().load_factor(0.999)),
        ("keys", fixed.clone().perfect().multi_key()),
        ("hash", fixed.clone().perfect().hash(HashKind::Knuth)),
    ];
    for (named, options) in refused {
        match store.build("t", &options, &pair) {
            Err(StoreError::Index(IndexError::BadOption { option, .. })) => {
                assert_eq!(option, named);
            }
            other => panic!("{named}: {other:?}"),
        }
    }
    assert_eq!(
        store.build("t", &fixed, &pair),
        Err(StoreError::NotBuildable { scheme: "linear" })
    );
    let long = [(&b"aa"[..], &b"1"[..])];
    assert!(matches!(
        store.build("t", &fixed.clone().sealed(), &long),
        Err(StoreError::Index(IndexError::KeyLength { len: 2, .. }))
    ));
    assert_eq!(store.tables().unwrap(), [], "refused before it was made");
    let inline = fixed.sealed();
    store.build("inline", &inline, &pair).unwrap();
    let out = inline.slots(SlotKind::Heap);
    store.build("out", &out, &pair).unwrap();
    for (name, form) in [
        ("inline", SealedForm::Inline),
        ("out", SealedForm::OutOfBand),
    ] {
        let table = store.table(name).unwrap();
        assert!(matches!(table.scheme(), Scheme::Sealed(layout) if layout.form == form));
        assert_eq!(table.get(b"a").unwrap().unwrap(), b"1");
    }
}

pub fn no_records_make_an_empty_table<S: TestStore>() {
    let node = S::start(64 << 20);
    let store = node.open();
    let cuckoo = TableOptions::new(7).cuckoo(CuckooShape::default());
    for (name, options) in [("s", TableOptions::new(1).sealed()), ("c", cuckoo)] {
        assert_eq!(store.build(name, &options, &[]), Ok(0));
        let table = store.table(name).unwrap();
        assert_eq!(table.get(b"a").unwrap(), None);
        assert_eq!(table.survey().unwrap().live(), 0);
    }
}
