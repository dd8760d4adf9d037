//! The cuckoo scheme behind a store: what only the simulator's clock shows, and what older stores
//! hold.

use farslot::layout::{CuckooShape, Scheme};
use farslot::{FieldSize, LookupOrder, OpenOptions, Store, Table, TableOptions, TableRecord};

fn options(capacity: u64) -> TableOptions {
    TableOptions::new(capacity)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(8))
        .cuckoo(CuckooShape::default())
}

fn put(table: &Table, number: u64) -> farslot::Result<bool> {
    table.put(&number.to_le_bytes(), &(number * 3).to_le_bytes())
}

#[test]
fn entries_of_older_stores_keep_opening() {
    let entry = r#"{"name":"users","offset":266240,"scheme":{"Linear":{"kind":"heap","slots":134,
        "key":{"UpTo":256},"value":{"UpTo":1024},"keys":"Unique",
        "hasher":{"Xxh3":{"seed":7}},"mask_seed":7,"longest_probe":134,"heap_bytes":1192896}}}"#;
    let record: TableRecord = serde_json::from_str(entry).unwrap();
    assert!(matches!(record.scheme, Scheme::Linear(layout) if layout.slots == 134));
}

#[test]
fn a_writer_that_is_deposed_notices_where_it_matters() {
    let store = Store::open("sim://cx5-edr?seed=5&memory=16MiB").unwrap();
    store.create("t", &options(100)).unwrap();
    let (old, new) = (store.table("t").unwrap(), store.table("t").unwrap());
    put(&old, 1).unwrap();
    let before = new.now();
    new.take_over().unwrap();
    assert!(
        new.now() - before >= 1_000_000_000,
        "late verbs may still come"
    );
    assert!(!put(&new, 1).unwrap());
    new.close().unwrap();
    let next = store.table("t").unwrap();
    next.start_writing().unwrap();
    // The old one knows nothing yet; what it gives up is not the new one's.
    drop(old);
    assert!(next.writer().unwrap().is_some());
}

#[test]
fn the_order_of_a_lookup_is_the_clients_choice() {
    let reads_of_a_miss = |lookup_order| {
        let options_of_store = OpenOptions {
            lookup_order,
            ..OpenOptions::default()
        };
        let store =
            Store::open_with("sim://cx5-edr?seed=1&memory=16MiB", options_of_store).unwrap();
        store.create("t", &options(1_000)).unwrap();
        let table = store.table("t").unwrap();
        put(&table, 1).unwrap();
        let began = table.now();
        assert_eq!(table.get(&[9; 8]).unwrap(), None);
        table.now() - began
    };
    // Three dependent READs and the look at the count, against one round of READs and the look.
    let sequential = reads_of_a_miss(LookupOrder::Sequential);
    let parallel = reads_of_a_miss(LookupOrder::Parallel);
    assert!(
        sequential as f64 > 1.5 * parallel as f64,
        "{sequential} {parallel}"
    );
}

/// Over one node and over several: an insertion without a place takes no time, and a new writer
/// knows so too.
#[test]
fn a_writer_may_know_beforehand_what_has_no_place() {
    for address in [
        "sim://cx5-edr?seed=1&memory=16MiB",
        "sim://cx5-edr?seed=1&memory=16MiB&nodes=3",
    ] {
        let options_of_store = OpenOptions {
            predetermination: true,
            ..OpenOptions::default()
        };
        let store = Store::open_with(address, options_of_store).unwrap();
        let shape = CuckooShape {
            ways: 2,
            bucket_slots: 1,
        };
        let options = options(400).cuckoo(shape);
        store.create("t", &options).unwrap();
        for writer in 0..2 {
            let table = store.table("t").unwrap();
            table.start_writing().unwrap();
            let mut full = 0;
            for number in writer * 4_000..(writer + 1) * 4_000 {
                let began = table.now();
                match put(&table, number) {
                    Ok(is_new) => assert!(is_new),
                    Err(error) => {
                        assert!(error.to_string().contains("full"), "{error}");
                        full += u64::from(table.now() == began);
                    }
                }
            }
            assert!(full > 2_000, "{address}: {full}");
            table.close().unwrap();
        }
    }
}
