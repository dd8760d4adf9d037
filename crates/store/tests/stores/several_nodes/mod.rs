//! Tables over several nodes, most of them simulated: every operation of every scheme, and nodes that stop and come
//! back.

use farslot::fabric::sim::{FaultPlan, HostId, Partition, Side};
use farslot::fabric::{FabricError, NodeId, Rights};
use farslot::index::IndexError;
use farslot::{
    CuckooShape, FieldSize, OnRestart, OpenOptions, Server, SlotKind, Store, StoreError,
    TableOptions,
};
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

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

fn simulated(options: OpenOptions) -> Store {
    Store::open_with(SIMULATED, options).unwrap()
}

/// A table of numbered records over three nodes, and by number of the node, the keys on each.
fn filled(store: &Store, options: &TableOptions) -> (farslot::Table, [Vec<u64>; 3]) {
    store.create("t", options).unwrap();
    let table = store.table("t").unwrap();
    for number in 0..300 {
        assert!(table.put(&key(number), &value(number)).unwrap());
    }
    // Nothing but the failure of a node tells where a key is: that is the store's business.
    let world = store.sim_world().unwrap();
    let mut of_node = [const { Vec::new() }; 3];
    for (node, numbers) in (0..).map(NodeId).zip(&mut of_node) {
        let probe = world.clone();
        probe.set_faults(FaultPlan {
            partitions: vec![Partition {
                side: Side::Host(HostId(0)),
                node,
                from: 0,
                until: u64::MAX,
            }],
            ..FaultPlan::default()
        });
        numbers.extend((0..300).filter(|number| table.get(&key(*number)).is_err()));
    }
    world.set_faults(FaultPlan::default());
    for number in 0..300 {
        assert_eq!(table.get(&key(number)).unwrap(), Some(value(number)));
    }
    assert_eq!(of_node.iter().map(Vec::len).sum::<usize>(), 300);
    (table, of_node)
}

fn is_of_node<T: std::fmt::Debug>(result: farslot::Result<T>, node: u16) -> FabricError {
    match result {
        Err(StoreError::Node { address, error }) => {
            assert_eq!(address, format!("node-{node}"));
            error
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_node_that_is_down_fails_its_keys_by_name_and_no_others() {
    for options in [options(600), cuckoo(600)] {
        let store = simulated(OpenOptions::default());
        let (table, of_node) = filled(&store, &options);
        let world = store.sim_world().unwrap();
        world.stop_node(NodeId(1));
        for (node, numbers) in (0..).zip(&of_node) {
            for &number in &numbers[..20] {
                let found = table.get(&key(number));
                match node {
                    1 => assert!(is_of_node(found, 1).is_outage()),
                    _ => assert_eq!(found.unwrap(), Some(value(number))),
                }
            }
        }
        let keys: Vec<Vec<u8>> = (0..300).map(key).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let mut failed = Vec::new();
        table.get_many(&keys, |number, found| match found {
            Ok(found) => assert_eq!(found, Some(&value(number as u64)[..])),
            Err(error) => {
                is_of_node::<()>(Err(error), 1);
                failed.push(number as u64);
            }
        });
        failed.sort_unstable();
        assert_eq!(failed, of_node[1]);
        let records = records(0..300);
        let mut failed = 0;
        table.put_many(&borrowed(&records), |_, put| match put {
            Ok(new) => assert!(!new),
            Err(error) => {
                is_of_node::<()>(Err(error), 1);
                failed += 1;
            }
        });
        assert_eq!(failed, of_node[1].len());
        is_of_node(table.for_each(|_, _| ()), 1);
        is_of_node(table.occupancy(), 1);
        let states: Vec<_> = table.partitions();
        let down: Vec<_> = states.iter().map(|part| part.occupancy.is_err()).collect();
        assert_eq!(down, [false, true, false]);
        // A table is made on all nodes or on none.
        is_of_node(store.create("u", &options), 1);
        let reports = store.nodes().unwrap();
        assert!(reports[1].error.is_some() && reports[1].memory.is_none());
        assert!(reports[2].error.is_none() && reports[2].tables == Some(1));
        // A client that comes now gets what there is.
        let late = store.table("t").unwrap();
        assert_eq!(
            late.get(&key(of_node[0][0])).unwrap(),
            Some(value(of_node[0][0]))
        );
        is_of_node(late.get(&key(of_node[1][0])), 1);
    }
}

#[test]
fn a_node_cut_off_for_a_while_has_lost_nothing() {
    for options in [options(600), cuckoo(600)] {
        let store = simulated(OpenOptions::default());
        let (table, of_node) = filled(&store, &options);
        // It was cut off while `filled` looked for its keys; it is written to again here.
        for &number in &of_node[1] {
            assert!(!table.put(&key(number), b"new").unwrap());
        }
        let late = store.table("t").unwrap();
        assert_eq!(
            late.get(&key(of_node[1][0])).unwrap().as_deref(),
            Some(&b"new"[..])
        );
    }
}

#[test]
fn the_keys_of_a_node_that_came_back_empty_are_absent_and_can_be_put_again() {
    for options in [options(600), cuckoo(600)] {
        let store = simulated(OpenOptions::default());
        let (table, of_node) = filled(&store, &options);
        let world = store.sim_world().unwrap();
        // Another table of its own shifts what is made anew on the node.
        world.stop_node(NodeId(2));
        world.return_node(NodeId(2));
        let other = Store::clone(&store);
        let created = other.create("before", &options);
        assert!(created.is_ok(), "{created:?}");
        let keys: Vec<Vec<u8>> = (0..300).map(key).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let mut absent = Vec::new();
        table.get_many(&keys, |number, found| match found.unwrap() {
            Some(found) => assert_eq!(found, value(number as u64)),
            None => absent.push(number as u64),
        });
        absent.sort_unstable();
        assert_eq!(absent, of_node[2]);
        assert!(table.put(&key(absent[0]), b"new").unwrap());
        let late = store.table("t").unwrap();
        assert_eq!(
            late.get(&key(absent[0])).unwrap().as_deref(),
            Some(&b"new"[..])
        );
        assert_eq!(late.get(&key(absent[1])).unwrap(), None);
        let nodes = store.nodes().unwrap();
        assert_eq!(
            nodes.iter().map(|node| node.adopted).collect::<Vec<_>>(),
            [0, 0, 1]
        );
        assert!(nodes[2].restarted && !nodes[1].restarted);
        // Once more, found by a client that opens the table only then.
        drop(late);
        world.stop_node(NodeId(2));
        world.return_node(NodeId(2));
        let late = store.table("t").unwrap();
        assert_eq!(late.get(&key(absent[0])).unwrap(), None);
        assert!(table.remove(&key(of_node[0][0])).unwrap());
        assert!(late.get(&key(of_node[0][0])).unwrap().is_none());
        late.close().unwrap();
        assert_eq!(table.get(&key(absent[0])).unwrap(), None);
        assert_eq!(store.nodes().unwrap()[2].adopted, 2);
        table.close().unwrap();
    }
}

#[test]
fn a_client_that_does_not_want_empty_nodes_is_told_of_them() {
    let store = simulated(OpenOptions {
        on_restart: OnRestart::Refuse,
        ..OpenOptions::default()
    });
    let (table, of_node) = filled(&store, &options(600));
    let world = store.sim_world().unwrap();
    world.stop_node(NodeId(0));
    world.return_node(NodeId(0));
    let is_restarted = |table: &farslot::Table| {
        for &number in &of_node[0][..5] {
            let error = is_of_node(table.get(&key(number)), 0);
            assert!(
                matches!(error, FabricError::NodeRestarted { .. }),
                "{error}"
            );
        }
        let number = of_node[1][0];
        assert_eq!(table.get(&key(number)).unwrap(), Some(value(number)));
    };
    is_restarted(&table);
    is_restarted(&store.table("t").unwrap());
    assert_eq!(store.nodes().unwrap()[0].adopted, 0);
}

#[test]
fn what_was_built_whole_is_never_taken_for_empty() {
    for options in [options(1).sealed(), cuckoo(1)] {
        let store = simulated(OpenOptions::default());
        let records = records(0..300);
        store.build("t", &options, &borrowed(&records)).unwrap();
        let table = store.table("t").unwrap();
        let world = store.sim_world().unwrap();
        world.stop_node(NodeId(1));
        world.return_node(NodeId(1));
        for table in [table, store.table("t").unwrap()] {
            let (mut there, mut gone) = (0, 0);
            for number in 0..300 {
                match table.get(&key(number)) {
                    Ok(found) => {
                        assert_eq!(found, Some(value(number)));
                        there += 1;
                    }
                    Err(error) => {
                        let error = is_of_node::<()>(Err(error), 1);
                        assert!(
                            matches!(error, FabricError::NodeRestarted { .. }),
                            "{error}"
                        );
                        gone += 1;
                    }
                }
            }
            assert!(there > 150 && gone > 50, "{there}, {gone}");
        }
    }
    // One that was filled first and sealed then is not taken for empty either.
    let store = simulated(OpenOptions::default());
    store.create("t", &cuckoo(600)).unwrap();
    let records = records(0..300);
    store
        .table("t")
        .unwrap()
        .build(&borrowed(&records))
        .unwrap();
    let world = store.sim_world().unwrap();
    world.stop_node(NodeId(1));
    world.return_node(NodeId(1));
    let table = store.table("t").unwrap();
    let failed = (0..300).filter(|number| table.get(&key(*number)).is_err());
    assert!(failed.count() > 50);
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
            table.put_many(&borrowed(&records), |_, put| assert!(put.unwrap()));
            let keys: Vec<Vec<u8>> = (0..96).map(key).collect();
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let before = (table.counters().doorbells, table.now());
            for _ in 0..20 {
                table.get_many(&keys, |_, found| assert!(found.unwrap().is_some()));
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
    // The simulator counts a doorbell for each queue pair that has something to send. 96 keys are three windows of 32
    // for one node, and one window for each of three.
    assert!(
        doorbells_of_3 <= 2 * doorbells,
        "{doorbells_of_3}, {doorbells}"
    );
    assert!(time_of_3 <= time, "{time_of_3}, {time}");
    println!("20 batches of 96 keys: {time} ns on one node, {time_of_3} ns on three");
}

#[test]
fn callbacks_may_use_the_table_also_while_a_node_comes_back() {
    let store = simulated(OpenOptions::default());
    let (table, of_node) = filled(&store, &options(600));
    let world = store.sim_world().unwrap();
    world.stop_node(NodeId(1));
    world.return_node(NodeId(1));
    let keys: Vec<Vec<u8>> = (0..300).map(key).collect();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut answered = 0;
    table.get_many(&keys, |number, found| {
        answered += 1;
        let lost = of_node[1].contains(&(number as u64));
        assert_eq!(found.unwrap().is_none(), lost);
        match table.get(keys[299 - number]) {
            Ok(_) => {}
            // It cannot wait for the batch that it is called by.
            Err(error) => {
                let error = is_of_node::<()>(Err(error), 1);
                assert!(
                    matches!(error, FabricError::NodeRestarted { .. }),
                    "{error}"
                );
            }
        }
    });
    assert_eq!(answered, 300);
}

#[test]
fn writers_of_a_cuckoo_table_have_all_of_it_or_nothing() {
    let store = simulated(OpenOptions::default());
    store.create("t", &cuckoo(600)).unwrap();
    let [one, other] = [store.table("t").unwrap(), store.table("t").unwrap()];
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
    store.sim_world().unwrap().stop_node(NodeId(2));
    let third = store.table("t").unwrap();
    busy(third.start_writing());
    one.resign().ok();
    third.start_writing().unwrap();
}

/// Three nodes of this process, and the address of all.
fn served() -> ([Server; 3], String) {
    let servers = [(); 3].map(|()| Server::start("tcp://127.0.0.1:0", 32 << 20).unwrap());
    let ports = servers.each_ref().map(|server| {
        let address = server.addresses()[0].to_string();
        address["tcp://".len()..].to_owned()
    });
    (servers, format!("tcp://{}", ports.join(",")))
}

#[test]
fn who_may_only_read_finds_the_keys_of_an_empty_node_absent() {
    let (mut servers, all) = served();
    let store = Store::open(&all).unwrap();
    store.create("t", &options(600)).unwrap();
    let writer = store.table("t").unwrap();
    for number in 0..300 {
        writer.put(&key(number), &value(number)).unwrap();
    }
    let reading = OpenOptions {
        rights: Rights::READ,
        ..OpenOptions::default()
    };
    let reading = Store::open_with(&all, reading).unwrap();
    let reader = reading.table("t").unwrap();
    let address = servers[1].addresses()[0].to_string();
    drop(std::mem::replace(
        &mut servers[1],
        Server::start("tcp://127.0.0.1:0", 1 << 20).unwrap(),
    ));
    servers[1] = Server::start(&address, 32 << 20).unwrap();
    let until = Instant::now() + Duration::from_secs(30);
    let mut absent = Vec::new();
    for number in 0..300 {
        let found = loop {
            match reader.get(&key(number)) {
                Ok(found) => break found,
                Err(error) => assert!(Instant::now() < until, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        match found {
            Some(found) => assert_eq!(found, value(number)),
            None => absent.push(number),
        }
    }
    assert!((50..150).contains(&absent.len()), "{}", absent.len());
    // Nobody has made it anew: the catalog is empty.
    assert_eq!(reading.nodes().unwrap()[1].tables, Some(0));
    let mut met = 0;
    reader.for_each(|_, _| met += 1).unwrap();
    assert_eq!(
        (met, reader.get_all(&key(absent[0])).unwrap()),
        (300 - absent.len(), vec![])
    );
    match reader.put(&key(absent[0]), b"") {
        Err(StoreError::Node { error, .. }) => {
            assert!(matches!(error, FabricError::AccessDenied { .. }), "{error}");
        }
        other => panic!("{other:?}"),
    }
    // Once somebody has, the reader finds what is put there.
    while writer.put(&key(absent[0]), b"new").is_err() {
        assert!(Instant::now() < until);
    }
    let found = reader.get(&key(absent[0])).unwrap();
    assert_eq!(found.as_deref(), Some(&b"new"[..]));
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
    let tables = [small(), cuckoo, small().sealed()];
    for (number, options) in tables.iter().enumerate() {
        let name = format!("{number}{}", &name[1..]);
        let made = store.create(&name, options).unwrap();
        assert_eq!(made.name, name);
        assert_eq!(store.table(&name).unwrap().partitions().len(), 100);
    }
}
