//! Tables by name: made once, found by everybody, refused with the reason.

use crate::common::TestStore;
use farslot::index::IndexError;
use farslot::{FieldSize, HashKind, SlotKind, StoreError, TableOptions};

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
    for name in ["", "a\nb", &"n".repeat(129)] {
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
    let node = S::start(64 * MIB);
    let store = node.open();
    for table in 0..farslot::MOST_TABLES {
        store.create(&format!("table-{table}"), &small()).unwrap();
    }
    assert_eq!(
        store.create("one-more", &small()),
        Err(StoreError::TooManyTables {
            limit: farslot::MOST_TABLES
        })
    );
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
            requested,
            free,
            total,
        }) => {
            assert!(requested > u128::from(total) && free == total && total < 64 * MIB);
        }
        other => panic!("{other:?}"),
    }
    store.create("small", &small()).unwrap();
    assert!(store.table("small").unwrap().put(&[1; 8], &[2; 8]).unwrap());
}
