//! Tables that admit one writer at a time: who that is, and what the others can do.

use crate::common::TestStore;
use farslot::index::IndexError;
use farslot::layout::{CuckooShape, DuoShape, Scheme};
use farslot::{FieldSize, SlotKind, Store, StoreError, Table, TableOptions};

fn options(capacity: u64) -> TableOptions {
    TableOptions::new(capacity)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(8))
}

fn of_one_writer() -> [TableOptions; 3] {
    let duo = options(1_000).duo(DuoShape::default());
    [
        options(1_000).cuckoo(CuckooShape::default()),
        duo.clone(),
        duo.slots(SlotKind::Heap),
    ]
}

fn put(table: &Table, number: u64) -> farslot::Result<bool> {
    table.put(&number.to_le_bytes(), &(number * 3).to_le_bytes())
}

fn busy(result: farslot::Result<bool>) -> u64 {
    match result {
        Err(StoreError::Index(IndexError::WriterBusy { writer })) => writer,
        other => panic!("{other:?}"),
    }
}

pub fn one_table_writes_until_it_is_closed_or_dropped_and_all_read<S: TestStore>() {
    for options in of_one_writer() {
        let node = S::start(64 << 20);
        let store = node.open();
        let scheme = store.create("t", &options).unwrap().scheme;
        assert!(scheme.one_writer());
        match (scheme, node.stranger()) {
            (Scheme::Duo(_), Some(other)) => all_read_beside_one(&store, &other),
            (Scheme::Duo(_), None) => tables_of_a_store_write_together(&store),
            _ => all_read_beside_one(&store, &store),
        }
    }
}

fn tables_of_a_store_write_together(store: &Store) {
    let [first, second, third] = [(); 3].map(|()| store.table("t").unwrap());
    assert!(put(&first, 1).unwrap());
    let writer = first.writer().unwrap();
    assert!(put(&second, 2).unwrap());
    first.close().unwrap();
    assert_eq!(second.writer().unwrap(), writer);
    assert!(third.get(&1_u64.to_le_bytes()).unwrap().is_some());
    drop(second);
    assert_eq!(third.writer().unwrap(), None);
    assert!(!put(&third, 2).unwrap());
}

fn all_read_beside_one(store: &Store, other: &Store) {
    let open = || store.table("t").unwrap();
    let (first, second) = (open(), other.table("t").unwrap());
    assert_eq!(first.writer().unwrap(), None);
    assert!(put(&first, 1).unwrap());
    let writer = first.writer().unwrap().unwrap();
    assert_eq!(busy(put(&second, 2)), writer);
    assert_eq!(busy(second.remove(&[1; 8])), writer);
    assert_eq!(busy(second.start_writing().map(|()| true)), writer);
    assert!(second.get(&1_u64.to_le_bytes()).unwrap().is_some());
    // A key that does not fit is refused before anybody becomes the writer.
    assert!(second.put(&[1; 9], &[0; 8]).is_err());

    first.close().unwrap();
    assert_eq!(second.writer().unwrap(), None);
    assert!(put(&second, 2).unwrap());
    drop(second);
    let third = open();
    third.start_writing().unwrap();
    assert!(third.writer().unwrap().is_some());
    assert_eq!(third.occupancy().unwrap().entries, 2);
    third.resign().unwrap();
    assert_eq!(third.writer().unwrap(), None);
    assert!(put(&third, 3).unwrap());
    // A table that has not written gives nothing up that is another's.
    open().close().unwrap();
    drop(open());
    assert!(third.writer().unwrap().is_some());
}

pub fn a_linear_table_needs_no_writer<S: TestStore>() {
    let node = S::start(64 << 20);
    let store = node.open();
    store.create("t", &TableOptions::new(100)).unwrap();
    let (first, second) = (store.table("t").unwrap(), store.table("t").unwrap());
    first.start_writing().unwrap();
    first.put(b"a", b"1").unwrap();
    second.take_over().unwrap();
    second.put(b"b", b"2").unwrap();
    first.resign().unwrap();
    assert_eq!(first.writer().unwrap(), None);
    assert!(!store.tables().unwrap()[0].scheme.one_writer());
    first.close().unwrap();
    assert_eq!(second.survey().unwrap().live(), 2);
}
