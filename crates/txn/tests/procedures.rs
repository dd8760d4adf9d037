//! Transactions that the owner of their keys runs.

use farslot_fabric::sim::{NicProfile, SimEndpoint, World};
use farslot_fabric::{Endpoint, EndpointExt, Executor, Limits, NodeId, RegionId, Rights, VerbKind};
use farslot_remote::chained::{Shape, Table};
use farslot_remote::{ObjectId, RemoteError};
use farslot_rpc::{Client, ClientOptions, RpcError, RpcServerOptions, Server};
use farslot_txn::{
    Database, DatabaseOptions, Local, OwnerOptions, Procedures, Reply, Steps, TableId, TxnError,
    serve_with,
};
use std::rc::Rc;
use std::sync::Arc;

const TABLE: ObjectId = ObjectId(0);
const LEASE: u64 = 200_000;
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

/// Moves the input's cents from Ann to Bob; fails on less than nothing.
const MOVE: u16 = 1;
const WAIT: u16 = 2;
const LONG: u16 = 3;

fn procedures() -> Procedures {
    let here = TableId(TABLE.0);
    let cents = |value: Option<Vec<u8>>| value.map_or(0, |value| i64::from(value[0]));
    let mut procedures = Procedures::default();
    procedures.register(MOVE, async move |open: &mut Local<'_>, input: &[u8]| {
        let ann = cents(open.read(here, b"Ann").await?) - i64::from(input[0]);
        // Before it is known whether it may be.
        open.write(here, b"Ann", &[ann as u8]).await?;
        let bob = cents(open.read(here, b"Bob").await?) + i64::from(input[0]);
        open.write(here, b"Bob", &[bob as u8]).await?;
        if ann < 0 {
            return Err(TxnError::Failed);
        }
        assert_eq!(cents(open.read(here, b"Ann").await?), ann, "its own change");
        Ok(vec![ann as u8, bob as u8])
    });
    procedures.register(WAIT, async move |open: &mut Local<'_>, _: &[u8]| {
        open.write(here, b"Ann", &[0]).await?;
        std::future::pending().await
    });
    procedures.register(LONG, async move |open: &mut Local<'_>, input: &[u8]| {
        open.write(here, b"Bob", &[0]).await?;
        match open.write(here, b"Bob", &[0; 9]).await {
            // It may not go on as if nothing had happened.
            Err(TxnError::Remote(RemoteError::TooLong { limit: 8, .. })) if input == b"x" => {}
            _ => panic!("a value that is too long"),
        }
        Ok(vec![0; 1000])
    });
    procedures
}

fn database(endpoint: &Rc<SimEndpoint>) -> Database<SimEndpoint> {
    let to = (NodeId(0), RegionId(0));
    let client = Client::new(Rc::clone(endpoint), to, ClientOptions::default());
    let options = DatabaseOptions {
        attempts: 3,
        longest_pause: 10_000,
        ..DatabaseOptions::default()
    };
    let database = Database::new(vec![Rc::new(client)], options).unwrap();
    database
        .add_table(0, TABLE, Table::new(SHAPE).unwrap())
        .unwrap();
    database
}

#[test]
fn a_procedure_is_one_transaction_or_nothing() {
    let world = World::new(1, NicProfile::connectx5_edr());
    let node = world.add_node(&[(SHAPE.bytes(), Rights::READ.and(Rights::CALL))]);
    world.node_handle(node).serve_calls(|| {
        let mut server = Server::new(RpcServerOptions::default());
        let tables = vec![(TABLE, Table::new(SHAPE).unwrap().into())];
        let options = OwnerOptions {
            lease: LEASE,
            ..OwnerOptions::default()
        };
        serve_with(&mut server, tables, procedures(), options);
        Arc::new(server)
    });
    let endpoint = world.endpoint(Limits::default());
    let (one, other) = (database(&endpoint), database(&endpoint));
    let table = TableId(0);
    Executor::new(Rc::clone(&endpoint)).block_on(async {
        let mut open = one.begin();
        open.write(table, b"Ann", &[100]).await.unwrap();
        open.commit().await.unwrap();
        let both = async || {
            let mut open = other.begin();
            let values = open.read_many(&[(table, b"Ann"), (table, b"Bob")]).await;
            values
                .unwrap()
                .into_iter()
                .map(|value| value.map(|value| value[0]))
                .collect::<Vec<_>>()
        };
        // The client has a name and a session now.
        let calls = || endpoint.core().counters.snapshot().verbs_of(VerbKind::Call);
        let before = calls();
        assert_eq!(&*one.execute(0, MOVE, &[30], 2).await.unwrap(), [70, 30]);
        assert_eq!(calls() - before, 1, "one call in all");
        assert_eq!(both().await, [Some(70), Some(30)]);

        let refused = |end: Result<Reply, TxnError>| {
            let error = end.unwrap_err();
            assert!(!error.is_retryable());
            matches!(
                error,
                TxnError::Remote(RemoteError::Rpc(RpcError::Refused { .. }))
            )
        };
        assert!(
            refused(one.execute(0, MOVE, &[71], 2).await),
            "an error of its own"
        );
        assert!(
            refused(one.execute(0, WAIT, &[], 2).await),
            "one that waits"
        );
        assert!(
            refused(one.execute(0, LONG, b"x", 2000).await),
            "a step that failed"
        );
        assert!(
            refused(one.execute(0, 9, &[], 2).await),
            "none of that number"
        );
        assert!(matches!(
            one.execute(1, MOVE, &[], 2).await.unwrap_err(),
            TxnError::BadNodes { nodes: 2, limit: 1 }
        ));
        assert_eq!(both().await, [Some(70), Some(30)]);

        // A key that another transaction holds.
        let mut slow = other.begin();
        slow.write(table, b"Bob", &[1]).await.unwrap();
        let conflict = one.execute(0, MOVE, &[1], 2).await.unwrap_err();
        let TxnError::Conflict {
            table: TableId(0),
            key,
            ..
        } = &conflict
        else {
            panic!("{conflict}");
        };
        assert_eq!(key, b"Bob");
        endpoint.sleep(2 * LEASE).await;
        assert_eq!(&*one.execute(0, MOVE, &[1], 2).await.unwrap(), [69, 31]);
        assert!(matches!(
            slow.commit().await.unwrap_err(),
            TxnError::LeaseOver { .. }
        ));
        assert_eq!(both().await, [Some(69), Some(31)]);
    });
}
