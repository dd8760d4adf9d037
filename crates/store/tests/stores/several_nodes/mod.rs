//! Tables over several nodes, most of them simulated: every operation of every scheme, and nodes
//! that stop and come back.

mod dropping;
mod lost;
mod phases;
mod queues;
mod tables;

use farslot::fabric::sim::{FaultPlan, HostId, Partition, Side};
use farslot::fabric::{FabricError, NodeId};
use farslot::layout::{CuckooShape, DuoShape, RaceShape};
use farslot::{FieldSize, OpenOptions, Server, Store, StoreError, TableOptions};

const SIMULATED: &str = "sim://cx5-edr?seed=3&memory=64MiB&nodes=3";

fn options(capacity: u64) -> TableOptions {
    TableOptions::new(capacity)
        .keys(FieldSize::UpTo(16))
        .values(FieldSize::UpTo(64))
}

fn cuckoo(capacity: u64) -> TableOptions {
    options(capacity).cuckoo(CuckooShape::default())
}

fn duo(capacity: u64) -> TableOptions {
    options(capacity).duo(DuoShape::default())
}

/// One that grows to that.
fn race(capacity: u64) -> TableOptions {
    options(capacity / 4)
        .race(RaceShape::default())
        .grow_to(capacity)
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

/// Three nodes of this process, and the address of all.
fn served() -> ([Server; 3], String) {
    let servers = [(); 3].map(|()| Server::start("tcp://127.0.0.1:0", 32 << 20).unwrap());
    let ports = servers.each_ref().map(|server| {
        let address = server.addresses()[0].to_string();
        address["tcp://".len()..].to_owned()
    });
    (servers, format!("tcp://{}", ports.join(",")))
}
