//! What tables over several nodes do that are all there.

use super::{
    SIMULATED, borrowed, cuckoo, duo, key, options, race, records, served, simulated, value,
};
use farslot::fabric::NodeId;
use farslot::index::IndexError;
use farslot::layout::{CuckooShape, DuoShape, RaceShape};
use farslot::{KeyRange, OpenOptions, Server, SlotKind, Store, StoreError, Table, TableOptions};
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// A CuckooDuo table for its writer alone.
fn alone(capacity: u64) -> TableOptions {
    options(capacity).duo(DuoShape {
        readers: false,
        ..DuoShape::default()
    })
}

#[test]
fn a_table_does_over_several_nodes_what_it_does_on_one() {
    for options in [
        options(3_000),
        options(3_000).slots(SlotKind::Heap),
        cuckoo(3_000),
        race(3_000),
        duo(3_000),
        duo(3_000).slots(SlotKind::Inline),
        alone(1_000).grow_to(3_000),
    ] {
        let store = Store::open(SIMULATED).unwrap();
        store.create("t", &options).unwrap();
        let table = store.table("t").unwrap();
        let records = records(0..3_000);
        let mut new = 0;
        table
            .put_many(&borrowed(&records), |_, put| new += u64::from(put))
            .unwrap();
        assert_eq!(new, 3_000);
        let keys: Vec<Vec<u8>> = (0..4_000).map(key).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let mut answers = HashSet::new();
        table
            .get_many(&keys, |number, found| {
                assert!(answers.insert(number));
                let expected = (number < 3_000).then(|| value(number as u64));
                assert_eq!(found, expected.as_deref());
            })
            .unwrap();
        assert_eq!(answers.len(), keys.len());
        assert!(table.update(&key(7), b"other").unwrap());
        assert_eq!(table.get(&key(7)).unwrap().as_deref(), Some(&b"other"[..]));
        assert!(table.remove(&key(8)).unwrap() && !table.remove(&key(8)).unwrap());
        assert_eq!(table.find_or_put(&key(8), b"back"), Ok(None));
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
        // A node of 64 MiB has 1,024 entries of 1 KiB, and 36 KiB of other words.
        assert!(memory.taken > 0 && memory.total == 3 * ((63 << 20) - (36 << 10)));
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
    let perfect = options(1).perfect_with_filter();
    for options in [options(1).sealed(), perfect, cuckoo(1)] {
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

#[test]
fn a_batch_goes_to_three_nodes_at_once() {
    let measured: Vec<_> = ["", "&nodes=3"]
        .map(|nodes| {
            let address = format!("sim://cx5-edr?seed=3&memory=64MiB{nodes}");
            let store = Store::open(&address).unwrap();
            store.create("t", &options(3_000)).unwrap();
            let table = store.table("t").unwrap();
            let records = records(0..2_000);
            table
                .put_many(&borrowed(&records), |_, put| assert!(put))
                .unwrap();
            let keys: Vec<Vec<u8>> = (0..96).map(key).collect();
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let before = (table.counters().doorbells, table.now());
            for _ in 0..20 {
                table
                    .get_many(&keys, |_, found| assert!(found.is_some()))
                    .unwrap();
            }
            (
                table.counters().doorbells - before.0,
                table.now() - before.1,
            )
        })
        .into_iter()
        .collect();
    let [(doorbells, time), (doorbells_of_3, time_of_3)] = measured[..] else {
        panic!("two were measured");
    };
    // The simulator counts a doorbell for each queue pair that has something to send. 96 keys are
    // three windows of 32 for one node, and one window for each of three.
    assert!(
        doorbells_of_3 <= 2 * doorbells,
        "{doorbells_of_3}, {doorbells}"
    );
    assert!(time_of_3 <= time, "{time_of_3}, {time}");
    println!("20 batches of 96 keys: {time} ns on one node, {time_of_3} ns on three");
}

#[test]
fn writers_of_a_table_that_admits_one_have_all_of_it_or_nothing() {
    let store = simulated(OpenOptions::default());
    store.create("t", &cuckoo(600)).unwrap();
    let stop = || store.sim_world().unwrap().stop_node(NodeId(2));
    take_turns(|| store.table("t").unwrap(), stop);
    // A CuckooDuo table's are of stores that share nothing: else they would write together.
    let ([first, second, third], address) = served();
    let open = || Store::open(&address).unwrap();
    open().create("t", &duo(600)).unwrap();
    take_turns(|| open().table("t").unwrap(), || drop(third));
    drop((first, second));
}

fn take_turns(open: impl Fn() -> Table, stop_node: impl FnOnce()) {
    let [one, other] = [open(), open()];
    one.start_writing().unwrap();
    let busy = |result: farslot::Result<()>| {
        let error = result.unwrap_err();
        let is_busy = matches!(error, StoreError::Index(IndexError::WriterBusy { .. }));
        assert!(is_busy, "{error}");
    };
    busy(other.start_writing());
    for number in 0..30 {
        assert!(one.put(&key(number), &value(number)).unwrap());
        busy(other.put(&key(number), b"").map(drop));
    }
    one.resign().unwrap();
    assert_eq!(one.writer().unwrap(), None);
    other.start_writing().unwrap();
    assert!(!other.put(&key(1), b"").unwrap());
    one.take_over().unwrap();
    assert!(!one.put(&key(1), b"mine").unwrap());
    // A node that is down is not what makes a writer.
    stop_node();
    let third = open();
    busy(third.start_writing());
    one.resign().ok();
    third.start_writing().unwrap();
}

#[test]
fn several_names_of_shared_memory_are_one_store() {
    let names = ["a", "b"].map(|name| format!("several-nodes-{}-{name}", std::process::id()));
    let mut servers: Vec<_> = names
        .iter()
        .map(|name| Server::start(&format!("shm://{name}"), 16 << 20).unwrap())
        .collect();
    let all = format!("shm://{}", names.join(","));
    let store = Store::open(&all).unwrap();
    assert_eq!(store.address().to_string(), all);
    store.create("t", &options(600)).unwrap();
    let table = store.table("t").unwrap();
    for number in 0..300 {
        table.put(&key(number), &value(number)).unwrap();
    }
    assert_eq!(store.nodes().unwrap().len(), 2);
    assert_eq!(table.partitions().len(), 2);
    let gone = format!("shm://{}", names[1]);
    drop(servers.pop());
    let fails = |number: u64| match table.get(&key(number)) {
        Ok(found) => {
            assert_eq!(found, Some(value(number)));
            false
        }
        Err(error) => {
            assert!(matches!(&error, StoreError::Node { address, .. } if *address == gone));
            true
        }
    };
    // The end of a process is noticed a moment later.
    let until = Instant::now() + Duration::from_secs(30);
    while !(0..300).any(fails) {
        assert!(Instant::now() < until);
    }
    let failed = (0..300).filter(|number| fails(*number)).count();
    assert!((100..200).contains(&failed), "{failed}");
}

#[test]
fn one_table_of_one_node_is_found_among_several() {
    let (servers, all) = served();
    let alone = servers[2].store();
    alone.create("own", &options(100)).unwrap();
    alone.table("own").unwrap().put(b"key", b"value").unwrap();
    let store = Store::open(&all).unwrap();
    let table = store.table("own").unwrap();
    assert_eq!(table.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    assert!(table.partitions().is_empty() && table.record().partition.is_none());
    assert_eq!(
        store.create("own", &options(100)),
        Err(StoreError::TableExists { name: "own".into() })
    );
    // Two that have nothing to do with each other.
    servers[0].store().create("own", &options(100)).unwrap();
    let conflict = store.table("own").map(drop);
    assert!(
        matches!(conflict, Err(StoreError::ConflictingTables { .. })),
        "{conflict:?}"
    );
    assert_eq!(store.tables().unwrap().len(), 1);
}

#[test]
fn the_longest_name_and_many_nodes_fit_the_catalog() {
    let store = Store::open("sim://cx5-edr?seed=3&memory=4MiB&nodes=100").unwrap();
    let name = "n".repeat(128);
    let small = || options(400).heap_bytes(1 << 20);
    let cuckoo = small().cuckoo(CuckooShape::default());
    let race = small().race(RaceShape::default()).grow_to(4_000);
    let growing = alone(400).heap_bytes(1 << 20).grow_to(1_000);
    let perfect = options(400).perfect_with_filter();
    let tables = [small(), cuckoo, small().sealed(), perfect, race, growing];
    for (number, options) in tables.iter().enumerate() {
        let name = format!("{number}{}", &name[1..]);
        let made = store.create(&name, options).unwrap();
        assert_eq!(made.name, name);
        assert_eq!(store.table(&name).unwrap().partitions().len(), 100);
    }
}

#[test]
fn an_ordered_table_over_several_nodes_is_scanned_in_order() {
    let store = Store::open(SIMULATED).unwrap();
    store.create("t", &options(1_000).ordered()).unwrap();
    let mut records = records(0..400);
    let table = store.table("t").unwrap();
    table
        .put_many(&borrowed(&records), |_, put| assert!(put))
        .unwrap();
    records.sort_unstable();
    let range = KeyRange::from(b"key 2").to(b"key 39 and longer than any key is");
    records.retain(|(key, _)| range.has(key));
    for most in [10, 1_000] {
        let some = &records[..most.min(records.len())];
        assert_eq!(
            store.transaction(|t| t.scan("t", range, most)).unwrap(),
            some
        );
        let down = store.transaction(|t| t.scan("t", range.reversed(), most));
        let from = records.len().saturating_sub(most);
        let expected: Vec<_> = records[from..].iter().rev().cloned().collect();
        assert_eq!(down.unwrap(), expected);
    }
}
