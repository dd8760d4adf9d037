//! Tables over several nodes: every operation of every scheme, in the simulator and over TCP.

mod common;

use farslot::{CuckooShape, FieldSize, SlotKind, Store, StoreError, TableOptions};
use std::collections::{HashMap, HashSet};

const SIMULATED: &str = "sim://cx5-edr?seed=3&memory=64MiB&nodes=3";

fn options(capacity: u64) -> TableOptions {
    TableOptions::new(capacity)
        .keys(FieldSize::UpTo(16))
        .values(FieldSize::UpTo(64))
}

fn cuckoo(capacity: u64) -> TableOptions {
    options(capacity).cuckoo(CuckooShape::default())
}

fn key(number: u64) -> Vec<u8> {
    format!("key {number}").into_bytes()
}

fn value(number: u64) -> Vec<u8> {
    format!("value of {number}").into_bytes()
}

/// Numbered records.
fn records(numbers: std::ops::Range<u64>) -> Vec<(Vec<u8>, Vec<u8>)> {
    numbers.map(|number| (key(number), value(number))).collect()
}

fn borrowed(records: &[(Vec<u8>, Vec<u8>)]) -> Vec<(&[u8], &[u8])> {
    let records = records.iter();
    records.map(|(key, value)| (&key[..], &value[..])).collect()
}

#[test]
fn a_table_does_over_several_nodes_what_it_does_on_one() {
    for options in [
        options(3_000),
        options(3_000).slots(SlotKind::Heap),
        cuckoo(3_000),
    ] {
        let store = Store::open(SIMULATED).unwrap();
        store.create("t", &options).unwrap();
        let table = store.table("t").unwrap();
        let records = records(0..3_000);
        let mut new = 0;
        table.put_many(&borrowed(&records), |_, put| new += u64::from(put.unwrap()));
        assert_eq!(new, 3_000);
        let keys: Vec<Vec<u8>> = (0..4_000).map(key).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let mut answers = HashSet::new();
        table.get_many(&keys, |number, found| {
            assert!(answers.insert(number));
            let expected = (number < 3_000).then(|| value(number as u64));
            assert_eq!(found.unwrap(), expected.as_deref());
        });
        assert_eq!(answers.len(), keys.len());
        assert!(table.update(&key(7), b"other").unwrap());
        assert_eq!(table.get(&key(7)).unwrap().as_deref(), Some(&b"other"[..]));
        assert!(table.remove(&key(8)).unwrap() && !table.remove(&key(8)).unwrap());
        assert_eq!(
            table.find_or_put(&key(8), b"back").unwrap(),
            farslot::Found::Inserted
        );
        let mut met = HashMap::new();
        table
            .for_each(|key, value| assert!(met.insert(key.to_vec(), value.to_vec()).is_none()))
            .unwrap();
        assert_eq!(met.len(), 3_000);
        assert_eq!(met[&key(9)], value(9));
        table.flush().unwrap();
        let occupancy = table.occupancy().unwrap();
        assert_eq!(occupancy.entries, 3_000);
        assert_eq!(table.survey().unwrap().live(), 3_000);
        let parts = table.partitions();
        assert_eq!(parts.len(), 3);
        for part in &parts {
            let here = part.occupancy.clone().unwrap().entries;
            assert!((800..1_200).contains(&here), "{parts:?}");
        }
        let memory = store.memory().unwrap();
        assert!(memory.taken > 0 && memory.total > 3 * (63 << 20));
        table.close().unwrap();
        assert_eq!(store.tables().unwrap().len(), 1);
        assert_eq!(
            store.create("t", &options),
            Err(StoreError::TableExists { name: "t".into() })
        );
    }
}

#[test]
fn tables_are_built_whole_over_several_nodes() {
    for options in [options(1).sealed(), cuckoo(1)] {
        for count in [0, 1, 2, 5_000] {
            let store = Store::open(SIMULATED).unwrap();
            let records = records(0..count);
            let built = store.build("t", &options, &borrowed(&records));
            assert_eq!(built, Ok(count));
            let table = store.table("t").unwrap();
            assert!(table.is_sealed());
            for number in 0..count.min(500) {
                assert_eq!(table.get(&key(number)).unwrap(), Some(value(number)));
            }
            assert_eq!(table.get(&key(count)).unwrap(), None);
            assert_eq!(table.occupancy().unwrap().entries, count);
            assert!(table.put(b"more", b"").is_err());
        }
    }
}
