//! Nodes that are down, that were cut off, and that come back empty.

use super::{
    borrowed, cuckoo, duo, filled, is_of_node, key, options, race, records, served, simulated,
    value,
};
use farslot::fabric::sim::{FaultPlan, HostId, Partition, Side};
use farslot::fabric::{FabricError, NodeId, Rights};
use farslot::snapshots::SnapshotOptions;
use farslot::{OnRestart, OpenOptions, Operation, Outcome, Server, Store, StoreError};
use std::time::{Duration, Instant};

#[test]
fn a_node_that_is_down_fails_its_keys_by_name_and_no_others() {
    for options in [options(600), cuckoo(600), race(600), duo(600)] {
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
        let mut answers = 0;
        let got = table.get_many(&keys, |number, found| {
            assert_eq!(found, Some(&value(number as u64)[..]));
            answers += 1;
        });
        let records = records(0..300);
        let put = table.put_many(&borrowed(&records), |_, new| {
            assert!(!new);
            answers += 1;
        });
        for failed in [got, put] {
            let failed = failed.unwrap_err().into_iter();
            let failed = failed.map(|(number, error)| {
                is_of_node::<()>(Err(error), 1);
                number as u64
            });
            assert_eq!(failed.collect::<Vec<_>>(), of_node[1]);
        }
        assert_eq!(answers, 2 * (300 - of_node[1].len()));
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
    for options in [options(600), cuckoo(600), race(600), duo(600)] {
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
fn the_keys_that_a_cache_had_on_a_node_that_came_back_empty_are_absent_and_can_be_put_again() {
    for options in [options(600), cuckoo(600), race(600), duo(600)] {
        let options = options.on_restart(OnRestart::Recreate);
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
        table
            .get_many(&keys, |number, found| match found {
                Some(found) => assert_eq!(found, value(number as u64)),
                None => absent.push(number as u64),
            })
            .unwrap();
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

/// Lost is lost, for every client and whatever it does, until the loss is accepted.
#[test]
fn the_keys_of_a_node_that_came_back_empty_fail_until_the_loss_is_accepted() {
    for options in [options(600), cuckoo(600), race(600), duo(600)] {
        let store = simulated(OpenOptions::default());
        let (table, of_node) = filled(&store, &options);
        let world = store.sim_world().unwrap();
        world.stop_node(NodeId(0));
        world.return_node(NodeId(0));
        let is_restarted = |error: &FabricError| matches!(error, FabricError::NodeRestarted { .. });
        let is_lost = |table: &farslot::Table| {
            let number = of_node[1][0];
            assert_eq!(table.get(&key(number)).unwrap(), Some(value(number)));
            for &number in &of_node[0][..5] {
                assert!(is_restarted(&is_of_node(table.get(&key(number)), 0)));
                assert!(is_restarted(&is_of_node(
                    table.put(&key(number), b"new"),
                    0
                )));
            }
            assert!(is_restarted(&is_of_node(table.for_each(|_, _| ()), 0)));
            assert!(is_restarted(&is_of_node(table.occupancy(), 0)));
        };
        // A writer that admits no other is closed before the next may write.
        is_lost(&table);
        table.close().unwrap();
        let late = store.table("t").unwrap();
        is_lost(&late);
        late.close().unwrap();
        let nodes = store.nodes().unwrap();
        assert_eq!((nodes[0].adopted, &*nodes[0].lost), (0, &["t".into()][..]));
        assert_eq!(nodes[0].tables, Some(0));

        let open = store.table("t").unwrap();
        is_lost(&open);
        assert_eq!(store.accept_loss("t").unwrap(), ["node-0"]);
        assert!(store.accept_loss("t").unwrap().is_empty());
        assert!(
            store
                .nodes()
                .unwrap()
                .iter()
                .all(|node| node.lost.is_empty())
        );
        // One that has the table open looks again after a while.
        let absent = &of_node[0];
        world.advance_to(world.now() + 1_000_000_000);
        for &number in absent {
            assert_eq!(open.get(&key(number)).unwrap(), None);
        }
        assert!(open.put(&key(absent[0]), b"new").unwrap());
        open.close().unwrap();
        // A loss that was accepted is one loss: the next is another.
        world.stop_node(NodeId(0));
        world.return_node(NodeId(0));
        let table = store.table("t").unwrap();
        let error = is_of_node(table.get(&key(absent[0])), 0);
        assert!(is_restarted(&error), "{error}");
    }
}

/// Restored on the node, what it had is there again.
#[test]
fn a_part_that_was_lost_is_used_again_when_it_was_restored() {
    let directory = tempfile::tempdir().unwrap();
    let go_on = |_: farslot::snapshots::SnapshotProgress| std::ops::ControlFlow::Continue(());
    let (mut servers, all) = served();
    let store = Store::open(&all).unwrap();
    store.create("t", &options(600)).unwrap();
    let table = store.table("t").unwrap();
    let records = records(0..300);
    table
        .put_many(&borrowed(&records), |_, put| assert!(put))
        .unwrap();
    table.flush().unwrap();
    let address = servers[1].addresses()[0].to_string();
    let alone = Store::open(&address).unwrap();
    let part = alone.tables().unwrap().remove(0);
    let taken =
        alone.snapshot_own_part(&part, directory.path(), &SnapshotOptions::default(), &go_on);
    let taken = taken.unwrap().records;
    assert!((50..150).contains(&taken), "{taken}");
    let other = Server::start("tcp://127.0.0.1:0", 1 << 20).unwrap();
    drop(std::mem::replace(&mut servers[1], other));
    servers[1] = Server::start(&address, 32 << 20).unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let lost = |table: &farslot::Table, number: u64| match table.get(&key(number)) {
        Ok(found) => {
            assert_eq!(found, Some(value(number)));
            false
        }
        Err(StoreError::Node { error, .. }) => {
            assert!(matches!(error, FabricError::NodeRestarted { .. }) || error.is_outage());
            true
        }
        Err(error) => panic!("{error}"),
    };
    for _ in 0..2 {
        let lost = (0..300).filter(|number| lost(&table, *number)).count() as u64;
        assert_eq!(lost, taken);
    }
    // Who opens the table now is told the same, and nobody makes the part anew.
    let late = store.table("t").unwrap();
    assert!((0..300).any(|number| lost(&late, number)));
    let alone = Store::open(&address).unwrap();
    assert_eq!(alone.tables().unwrap(), []);
    let back = alone.restore("t", directory.path(), &go_on).unwrap();
    assert_eq!(back.records, taken);
    for table in [&table, &late, &store.table("t").unwrap()] {
        for number in 0..300 {
            while lost(table, number) {
                assert!(Instant::now() < until, "key {number} is still refused");
                std::thread::yield_now();
            }
        }
        assert!(!table.put(&key(7), &value(7)).unwrap());
    }
    // Lost once more, the error names what the node was then, and not what it was at first.
    let was = store.nodes().unwrap()[1].incarnation;
    let other = Server::start("tcp://127.0.0.1:0", 1 << 20).unwrap();
    drop(std::mem::replace(&mut servers[1], other));
    servers[1] = Server::start(&address, 32 << 20).unwrap();
    let of_it = (0..300).find(|number| lost(&table, *number)).unwrap();
    loop {
        match table.get(&key(of_it)) {
            Err(StoreError::Node {
                error: FabricError::NodeRestarted { expected, .. },
                ..
            }) => {
                assert_eq!(expected, was);
                break;
            }
            Err(error) => assert!(Instant::now() < until, "{error}"),
            Ok(found) => panic!("{found:?}"),
        }
    }
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
        let error = is_of_node(store.accept_loss("t"), 1);
        assert!(
            matches!(error, FabricError::NodeRestarted { .. }),
            "{error}"
        );
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
fn callbacks_may_use_the_table_also_while_a_node_comes_back() {
    let store = simulated(OpenOptions::default());
    let (table, of_node) = filled(&store, &options(600).on_restart(OnRestart::Recreate));
    let world = store.sim_world().unwrap();
    world.stop_node(NodeId(1));
    world.return_node(NodeId(1));
    let keys: Vec<Vec<u8>> = (0..300).map(key).collect();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut answered = 0;
    let got = table.get_many(&keys, |number, found| {
        answered += 1;
        let lost = of_node[1].contains(&(number as u64));
        assert_eq!(found.is_none(), lost);
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
    assert_eq!((got, answered), (Ok(()), 300));
}

/// Its gets and its writes both meet the node's new memory, at once; neither may be told of it.
#[test]
fn a_batch_of_gets_and_writes_survives_the_loss_of_a_node() {
    for first in [0, 150] {
        let store = simulated(OpenOptions::default());
        let (table, of_node) = filled(&store, &options(600).on_restart(OnRestart::Recreate));
        let world = store.sim_world().unwrap();
        world.stop_node(NodeId(1));
        world.return_node(NodeId(1));
        let keys: Vec<Vec<u8>> = (0..300).map(key).collect();
        let values: Vec<Vec<u8>> = (0..300).map(value).collect();
        let is_get = |number: usize| (number + first) % 300 < 150;
        let operations: Vec<_> = (0..300)
            .map(|number| match is_get(number) {
                true => Operation::Get(&keys[number]),
                false => Operation::Put(&keys[number], &values[number]),
            })
            .collect();
        let mut answered = 0;
        table
            .run_many(&operations, |number, outcome| {
                answered += 1;
                let lost = of_node[1].contains(&(number as u64));
                match outcome {
                    Outcome::Value(value) => assert_eq!(value.is_none(), lost, "{number}"),
                    Outcome::Changed(new) => assert_eq!(new, lost, "{number}"),
                    other => panic!("{other:?}"),
                }
            })
            .unwrap();
        assert_eq!(answered, 300);
    }
}

#[test]
fn who_may_only_read_finds_the_keys_of_an_empty_node_absent() {
    let (mut servers, all) = served();
    let store = Store::open(&all).unwrap();
    store
        .create("t", &options(600).on_restart(OnRestart::Recreate))
        .unwrap();
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
fn a_transaction_needs_the_nodes_of_its_keys_alone() {
    for options in [options(2_000).chained(), options(2_000).ordered()] {
        let store = simulated(OpenOptions::default());
        let (_, of_node) = filled(&store, &options);
        let world = store.sim_world().unwrap();
        let read = |number: u64| store.transaction(|t| t.get("t", &key(number)));
        // None was run before: what is known of the table is found while a node is away.
        world.set_faults(FaultPlan {
            partitions: vec![Partition {
                side: Side::Host(HostId(0)),
                node: NodeId(1),
                from: 0,
                until: u64::MAX,
            }],
            ..FaultPlan::default()
        });
        for node in [0, 2] {
            let number = of_node[node][0];
            assert_eq!(read(number), Ok(Some(value(number))));
            let put = store.transaction(|t| t.put("t", &key(number), b"new"));
            assert_eq!(put, Ok(()));
        }
        is_of_node(read(of_node[1][0]), 1);
        let hidden = store.transaction(|t| {
            t.put("t", &key(of_node[0][1]), b"new")?;
            let _ = t.get("t", &key(of_node[1][0]));
            Ok(())
        });
        is_of_node(hidden, 1);
        assert_eq!(read(of_node[0][1]), Ok(Some(value(of_node[0][1]))));
        // Once it is there again, the first that needs it finds it.
        world.set_faults(FaultPlan::default());
        assert_eq!(read(of_node[1][0]), Ok(Some(value(of_node[1][0]))));
        assert_eq!(read(of_node[0][0]), Ok(Some(b"new".to_vec())));
    }
}
