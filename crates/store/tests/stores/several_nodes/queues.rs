//! Queues of a store of several nodes: each lies on one.

use super::{SIMULATED, options, served};
use farslot::fabric::NodeId;
use farslot::fabric::sim::{FaultPlan, HostId, Partition, Side};
use farslot::{ErrorKind, OpenOptions, Store};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Which of three nodes a queue lies on: the one without which it does not answer.
fn node_of(store: &Store, name: &str) -> u16 {
    let queue = store.queue(name).unwrap();
    let world = store.sim_world().unwrap();
    let without = |node: u16| {
        world.set_faults(FaultPlan {
            partitions: vec![Partition {
                side: Side::Host(HostId(0)),
                node: NodeId(node),
                from: 0,
                until: u64::MAX,
            }],
            ..FaultPlan::default()
        });
        queue.len().is_err()
    };
    let nodes: Vec<_> = (0..3).filter(|node| without(*node)).collect();
    world.set_faults(FaultPlan::default());
    let [node] = nodes[..] else {
        panic!("{name} lies on {nodes:?}");
    };
    node
}

#[test]
fn queues_lie_on_one_node_each_and_all_nodes_have_some() {
    let store = Store::open(SIMULATED).unwrap();
    let mut nodes = BTreeSet::new();
    for number in 0..12 {
        let name = format!("q{number}");
        let record = store.create(&name, &options(20).queue()).unwrap();
        assert!(record.partition.is_none());
        nodes.insert(node_of(&store, &name));
        // With room for as many items as was said, on that node alone.
        let queue = store.queue(&name).unwrap();
        for item in 0..20_u8 {
            queue.push(&[item]).unwrap();
        }
        assert_eq!(queue.push(b"more").unwrap_err().kind(), ErrorKind::Full);
        let again = store.create(&name, &options(20));
        assert_eq!(again.unwrap_err().kind(), ErrorKind::TableExists);
    }
    assert_eq!(nodes, BTreeSet::from([0, 1, 2]));
    let over_all = store.create("t", &options(100)).unwrap();
    assert!(over_all.partition.is_some());
    let refused = store.create("t", &options(20).queue()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TableExists);
    store.rename("q0", "r").unwrap();
    store.clear("r").unwrap();
    assert_eq!(store.queue("r").unwrap().pop(), Ok(None));
    store.drop_table("q1").unwrap();
    let names = store.tables().unwrap().into_iter().map(|table| table.name);
    assert_eq!(names.filter(|name| name.starts_with('q')).count(), 10);
}

#[test]
fn a_queue_is_the_same_whatever_order_the_nodes_are_named_in() {
    let (_servers, address) = served();
    let nodes: Vec<_> = address["tcp://".len()..].split(',').collect();
    let turned = format!("tcp://{},{},{}", nodes[2], nodes[0], nodes[1]);
    let [one, other] = [&address, &turned].map(|address| Store::open(address).unwrap());
    one.create("q", &options(20).queue()).unwrap();
    other
        .queue("q")
        .unwrap()
        .push_all(&[b"one", b"two"])
        .unwrap();
    let refused = other.create("q", &options(20).queue()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TableExists);
    let queue = one.queue("q").unwrap();
    assert_eq!(queue.pop().unwrap().as_deref(), Some(&b"one"[..]));

    let directory = tempfile::tempdir().unwrap();
    let go_on = |_| ControlFlow::Continue(());
    one.snapshot("q", directory.path(), &go_on).unwrap();
    other.drop_table("q").unwrap();
    // On another number of nodes too it lies on one.
    for store in [
        other,
        Store::open_with("embedded", OpenOptions::default()).unwrap(),
    ] {
        store.restore("q", directory.path(), &go_on).unwrap();
        let queue = store.queue("q").unwrap();
        assert!(queue.record().partition.is_none());
        assert_eq!(queue.pop().unwrap().as_deref(), Some(&b"two"[..]));
    }
}
