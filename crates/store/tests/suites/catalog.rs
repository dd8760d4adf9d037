//! Tables by name: made once, found by everybody, refused with the reason.

use crate::common::TestStore;
use farslot::index::IndexError;
use farslot::layout::{CuckooShape, DuoShape, HashKind, RaceShape};
use farslot::{ErrorKind, FieldSize, SlotKind, StoreError, TableOptions};
use farslot_testbed::Fabric;

const MIB: u64 = 1 << 20;

fn small() -> TableOptions {
    TableOptions::new(100)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(8))
}

pub fn a_name_is_given_once_and_missing_ones_list_the_others<S: TestStore>() {
    let node = S::start(64 * MIB);
    let store = node.open();
    let missing = store.table("files").map(|_| ()).unwrap_err().to_string();
    assert_eq!(missing, "there is no table \"files\"; the store has none");
    store.create("files", &small()).unwrap();
    store.create("dirs", &small()).unwrap();
    assert_eq!(
        store.create("files", &small()),
        Err(StoreError::TableExists {
            name: "files".into()
        })
    );
    let missing = store.table("links").map(|_| ()).unwrap_err().to_string();
    assert!(missing.ends_with("the store has files, dirs"), "{missing}");
    let names: Vec<_> = store
        .tables()
        .unwrap()
        .into_iter()
        .map(|table| table.name)
        .collect();
    assert_eq!(names, ["files", "dirs"]);
}

pub fn bad_names_and_options_are_refused<S: TestStore>() {
    let node = S::start(64 * MIB);
    let store = node.open();
    let long = "n".repeat(129);
    for name in [
        "",
        "a\nb",
        ".",
        "..",
        "a ",
        "a\u{202e}b",
        "a\u{200b}",
        &long,
    ] {
        assert!(matches!(
            store.create(name, &small()),
            Err(StoreError::BadName { .. })
        ));
    }
    let bad = [
        TableOptions::new(0),
        small().load_factor(0.0),
        small().slots(SlotKind::Word),
        TableOptions::new(10).hash(HashKind::Knuth),
        small().values(FieldSize::Fixed(u32::MAX)),
    ];
    for options in bad {
        assert!(matches!(
            store.create("t", &options),
            Err(StoreError::Index(IndexError::BadOption { .. }))
        ));
    }
    assert_eq!(store.tables().unwrap(), []);
}

pub fn the_catalog_takes_no_more_than_it_holds<S: TestStore>() {
    let node = S::start(16 * MIB);
    let store = node.open();
    let limit = farslot::layout::most_tables(16 * MIB);
    for table in 0..limit {
        store.create(&format!("table-{table}"), &small()).unwrap();
    }
    assert_eq!(
        store.create("one-more", &small()),
        Err(StoreError::TooManyTables { limit })
    );
    assert_eq!(store.tables().unwrap().len(), limit);
    store
        .table("table-255")
        .unwrap()
        .put(&[1; 8], &[2; 8])
        .unwrap();
}

pub fn memory_that_is_not_there_is_refused_and_the_rest_stays_usable<S: TestStore>() {
    let node = S::start(64 * MIB);
    let store = node.open();
    let large = TableOptions::new(100 * MIB)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(8));
    match store.create("large", &large) {
        Err(StoreError::OutOfMemory {
            table,
            requested,
            free,
            total,
        }) => {
            assert_eq!(table, "large");
            assert!(requested > u128::from(total) && free == total && total < 64 * MIB);
        }
        other => panic!("{other:?}"),
    }
    store.create("small", &small()).unwrap();
    assert!(store.table("small").unwrap().put(&[1; 8], &[2; 8]).unwrap());
}

pub fn tables_are_dropped_renamed_and_emptied_under_their_users<S: TestStore>() {
    let node = S::start(64 * MIB);
    let (store, others) = (node.open(), node.open());
    let of_each = [
        ("linear", small()),
        ("race", small().race(RaceShape::default()).grow_to(10_000)),
        ("cuckoo", small().cuckoo(CuckooShape::default())),
        ("duo", small().duo(DuoShape::default())),
    ];
    for (name, options) in &of_each {
        store.create(name, options).unwrap();
    }
    let of_others: Vec<_> = of_each
        .iter()
        .map(|(name, _)| {
            let table = others.table(name).unwrap();
            for key in 0..50_u64 {
                table.put(&key.to_le_bytes(), &[7; 8]).unwrap();
            }
            table
        })
        .collect();
    let taken = store.memory().unwrap().taken;
    for (table, (name, _)) in of_others.iter().zip(&of_each) {
        let gone = |change: &str| {
            let read = table.get(&[0; 8]).unwrap_err();
            assert_eq!(read.kind(), ErrorKind::TableGone, "{name} {change}: {read}");
            let written = table.put(&[0; 8], &[1; 8]).unwrap_err();
            assert_eq!(
                written.kind(),
                ErrorKind::TableGone,
                "{name} {change}: {written}"
            );
        };
        assert_eq!(table.get(&[0; 8]).unwrap().unwrap(), [7; 8]);
        store.rename(name, "renamed").unwrap();
        gone("renamed");
        let missing = store.table(name).map(drop).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NoSuchTable);
        let renamed = others.table("renamed").unwrap();
        assert_eq!(renamed.get(&[0; 8]).unwrap().unwrap(), [7; 8]);
        store.clear("renamed").unwrap();
        let read = renamed.get(&[0; 8]).unwrap_err();
        assert_eq!(read.kind(), ErrorKind::TableGone, "{read}");
        let cleared = others.table("renamed").unwrap();
        assert_eq!(cleared.get(&[0; 8]).unwrap(), None);
        assert_eq!(cleared.survey().unwrap().live(), 0);
        store.rename("renamed", name).unwrap();
        gone("named as before");
    }
    assert_eq!(store.memory().unwrap().taken, taken);
    let taken_name = store.rename("linear", "race").unwrap_err();
    assert_eq!(taken_name.kind(), ErrorKind::TableExists);
    assert_eq!(
        store.rename("linear", "").unwrap_err().kind(),
        ErrorKind::BadInput
    );
    for change in [
        store.drop_table("none"),
        store.rename("none", "some"),
        store.clear("none"),
    ] {
        assert_eq!(change.unwrap_err().kind(), ErrorKind::NoSuchTable);
    }
    for (name, _) in &of_each {
        store.drop_table(name).unwrap();
    }
    assert_eq!(
        (store.tables().unwrap().len(), store.memory().unwrap().taken),
        (0, 0)
    );
}

pub fn the_entries_and_the_memory_of_dropped_tables_are_used_again<S: TestStore>() {
    let node = S::start(8 * MIB);
    let store = node.open();
    // Larger than half of the memory, so that it is at the same place each time.
    let options = TableOptions::new(1_000)
        .values(FieldSize::UpTo(100))
        .heap_bytes(4 * MIB)
        .race(RaceShape::default());
    // Each takes more than a second, but in virtual time.
    let rounds: u32 = match S::FABRIC {
        Fabric::Sim => 100,
        _ => 2,
    };
    for round in 0..rounds {
        let made = store.create("t", &options).unwrap();
        let table = store.table("t").unwrap();
        let refused = store.create("u", &options).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::OutOfMemory, "{refused}");
        for key in 0..200_u32 {
            assert_eq!(table.get(&key.to_le_bytes()).unwrap(), None, "{round}");
            assert!(table.put(&key.to_le_bytes(), &round.to_le_bytes()).unwrap());
        }
        assert_eq!(table.survey().unwrap().live(), 200);
        drop(table);
        if round % 2 == 0 {
            // There is no room for two of them.
            store.clear("t").unwrap();
            let table = store.table("t").unwrap();
            assert_eq!(table.survey().unwrap().live(), 0);
            assert_eq!(table.record().offset, made.offset);
        }
        store.drop_table("t").unwrap();
        assert_eq!(store.memory().unwrap().taken, 0);
    }
}
