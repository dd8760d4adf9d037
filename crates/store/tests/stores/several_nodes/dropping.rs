//! Tables over several nodes, dropped, renamed and cleared.

use farslot::{ErrorKind, FieldSize, Store, TableOptions};

#[test]
fn all_parts_of_a_table_go_together() {
    let store = Store::open("sim://cx5-edr?seed=5&nodes=3&memory=32MiB").unwrap();
    let options = TableOptions::new(300).values(FieldSize::UpTo(8));
    let (before, keys) = (store.memory().unwrap(), 0..60_u32);
    store.create("t", &options).unwrap();
    let table = store.table("t").unwrap();
    for key in keys.clone() {
        table.put(&key.to_le_bytes(), b"value").unwrap();
    }
    store.rename("t", "u").unwrap();
    assert_eq!(
        store.table("t").map(drop).unwrap_err().kind(),
        ErrorKind::NoSuchTable
    );
    let renamed = store.table("u").unwrap();
    assert_eq!(renamed.survey().unwrap().live(), 60);
    for key in keys.clone() {
        let gone = table.get(&key.to_le_bytes()).unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::TableGone, "{gone}");
    }
    store.clear("u").unwrap();
    let cleared = store.table("u").unwrap();
    for key in keys.clone() {
        let gone = renamed.put(&key.to_le_bytes(), b"late").unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::TableGone, "{gone}");
        assert_eq!(cleared.get(&key.to_le_bytes()).unwrap(), None);
        cleared.put(&key.to_le_bytes(), b"again").unwrap();
    }
    store.drop_table("u").unwrap();
    assert_eq!(
        cleared.get(&[0; 4]).unwrap_err().kind(),
        ErrorKind::TableGone
    );
    assert_eq!(store.memory().unwrap(), before);
    assert_eq!(store.tables().unwrap(), []);
    store.create("u", &options).unwrap();
    assert_eq!(store.table("u").unwrap().survey().unwrap().live(), 0);
}
