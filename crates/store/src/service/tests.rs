//! What a thread keeps of the tables that it was called for. The owner of a simulated node answers
//! on the thread of the test.

use super::{MOST_OPEN, OPEN};
use crate::{Access, FieldSize, OpenOptions, Store, TableOptions};

const KEY: &[u8] = b"some key";

fn open_here() -> usize {
    OPEN.with_borrow(|open| open.iter().map(|of| of.tables.len()).sum())
}

#[test]
fn a_thread_keeps_no_table_that_is_gone_and_no_more_than_a_limit() {
    let options = OpenOptions {
        access: Access::Calls,
        ..OpenOptions::default()
    };
    let store = Store::open_with("sim://tcp-loopback?seed=4&memory=64MiB", options).unwrap();
    let size = FieldSize::Fixed(8);
    let small = TableOptions::new(64).keys(size).values(size);
    let names: Vec<_> = (0..MOST_OPEN + 20)
        .map(|number| format!("t{number}"))
        .collect();
    let mut tables = Vec::new();
    for (number, name) in names.iter().enumerate() {
        store.create(name, &small).unwrap();
        let table = store.table(name).unwrap();
        assert!(table.put(KEY, &number.to_le_bytes()).unwrap());
        assert_eq!(open_here(), MOST_OPEN.min(number + 1));
        tables.push(table);
    }
    // One that was closed is opened again, with what was counted before.
    assert_eq!(tables[0].get(KEY), Ok(Some(vec![0; 8])));
    tables[0].flush().unwrap();
    assert_eq!(tables[0].occupancy().unwrap().entries, 1);
    assert_eq!(open_here(), MOST_OPEN);
    drop(tables);
    // Those of tables that are gone are closed when the next is opened.
    for name in &names {
        store.drop_table(name).unwrap();
    }
    store.create("another", &small).unwrap();
    let another = store.table("another").unwrap();
    assert!(another.put(KEY, KEY).unwrap());
    assert_eq!(open_here(), 1);
    // An id that no table has leaves nothing.
    store.drop_table("another").unwrap();
    assert!(another.get(KEY).is_err());
    assert_eq!(open_here(), 0);
}
