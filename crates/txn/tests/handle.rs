//! A database that tasks of several threads use.

use farslot_fabric::shm::{Node, RegionSpec, ShmEndpoint};
use farslot_fabric::{Limits, NodeId, RegionId, Rights};
use farslot_remote::ObjectId;
use farslot_remote::chained::{Shape, Table};
use farslot_rpc::{Client, ClientOptions, RpcServerOptions, Server};
use farslot_testbed::block_on;
use farslot_txn::{
    Database, DatabaseOptions, Handle, OwnerOptions, TableId, Transaction, TxnError, serve,
};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;

const TABLE: ObjectId = ObjectId(0);
const SHAPE: Shape = Shape {
    at: 0,
    key_bytes: 4,
    value_bytes: 8,
    slots: 2,
    buckets: 16,
    most_buckets: 16,
    overflow: 16,
    split_after: 0,
    seed: 7,
};

fn open(node: Node) -> Result<Database<ShmEndpoint>, TxnError> {
    let endpoint = Rc::new(ShmEndpoint::new(vec![node], Limits::default()));
    let to = (NodeId(0), RegionId(0));
    let client = Rc::new(Client::new(endpoint, to, ClientOptions::default()));
    let database = Database::new(vec![client], DatabaseOptions::default())?;
    database.add_table(0, TABLE, Table::new(SHAPE)?)?;
    Ok(database)
}

async fn increment(handle: Handle<ShmEndpoint>) -> Result<(), TxnError> {
    let add = async |open: &mut Transaction<'_, ShmEndpoint>| {
        let value = open.read(TableId(0), b"sum").await?.unwrap_or(vec![0; 8]);
        let sum = u64::from_le_bytes(value.try_into().expect("8 bytes")) + 1;
        open.write(TableId(0), b"sum", &sum.to_le_bytes()).await
    };
    handle.run(add).await
}

#[test]
fn tasks_of_several_threads_run_transactions_by_futures_that_are_send() {
    let region = RegionSpec {
        len: SHAPE.bytes(),
        rights: Rights::READ.and(Rights::CALL),
    };
    let node = Node::embedded(&[region]).unwrap();
    let mut server = Server::new(RpcServerOptions::default());
    let table = Table::new(SHAPE).unwrap();
    serve(
        &mut server,
        vec![(TABLE, table.into())],
        OwnerOptions::default(),
    );
    node.serve_calls(Arc::new(server));
    let handle = Handle::start(move || open(node)).unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            let handle = handle.clone();
            scope.spawn(move || {
                for _ in 0..50 {
                    block_on(increment(handle.clone())).unwrap();
                }
            });
        }
    });
    let read = async |open: &mut Transaction<'_, ShmEndpoint>| open.read(TableId(0), b"sum").await;
    let sum = handle.run(read);
    // What was asked for is done, if the handles are gone or not.
    drop(handle);
    assert_eq!(block_on(sum), Ok(Some(200_u64.to_le_bytes().to_vec())));
}

#[test]
fn a_handle_whose_database_cannot_be_opened_says_why() {
    let none =
        Handle::<ShmEndpoint>::start(|| Database::new(Vec::new(), DatabaseOptions::default()));
    assert!(matches!(
        none.map(drop),
        Err(TxnError::BadNodes { nodes: 0, .. })
    ));
}

#[test]
fn what_a_panic_leaves_undone_fails() {
    let node = Node::embedded(&[RegionSpec {
        len: SHAPE.bytes(),
        rights: Rights::ALL,
    }])
    .unwrap();
    let handle = Handle::start(move || open(node)).unwrap();
    let panics = async |_: &mut Transaction<'_, ShmEndpoint>| -> Result<(), TxnError> {
        panic!("a bug of the caller")
    };
    assert_eq!(block_on(handle.run(panics)), Err(TxnError::Closed));
    assert_eq!(block_on(increment(handle)), Err(TxnError::Closed));
}
