//! Transactions over every fabric that carries calls: their clients read one-sidedly, and the owner
//! alone writes.

use farslot_fabric::{AnyEndpoint, NodeId, RegionId, Rights, window};
use farslot_remote::ObjectId;
use farslot_remote::chained::{Shape, Table};
use farslot_rpc::{Client, ClientOptions, RpcServerOptions, Server};
use farslot_testbed::{Fabric, TestNode};
use farslot_txn::{
    Database, DatabaseOptions, Locking, OwnerOptions, TableId, Transaction, TxnError, serve,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::rc::Rc;
use std::sync::Arc;

const ACCOUNTS: u64 = 12;
const CENTS: u64 = 1000;
const CLIENTS: u32 = 3;
const SHAPE: Shape = Shape {
    at: 0,
    key_bytes: 8,
    value_bytes: 8,
    slots: 2,
    buckets: 8,
    most_buckets: 8,
    overflow: 32,
    split_after: 0,
    seed: 7,
};

farslot_testbed::suites! {
    every fabric
    {
        transfers {
            keep_the_sum_whoever_looks
        }
    }
}

fn served(fabric: Fabric) -> TestNode {
    let node = fabric.start(&[(SHAPE.bytes(), Rights::READ.and(Rights::CALL))]);
    node.serve_calls(|| {
        let mut server = Server::new(RpcServerOptions::default());
        let tables = vec![(ObjectId(0), Table::new(SHAPE).unwrap().into())];
        serve(&mut server, tables, OwnerOptions::default());
        Arc::new(server)
    });
    node
}

fn database(endpoint: &Rc<AnyEndpoint>, locking: Locking) -> (Database<AnyEndpoint>, TableId) {
    let to = (NodeId(0), RegionId(0));
    let client = Client::new(Rc::clone(endpoint), to, ClientOptions::default());
    let options = DatabaseOptions {
        locking,
        attempts: 10_000,
        ..DatabaseOptions::default()
    };
    let database = Database::new(vec![Rc::new(client)], options).unwrap();
    let table = Table::new(SHAPE).unwrap();
    let table = database.add_table(0, ObjectId(0), table).unwrap();
    (database, table)
}

type Open<'o, 'd> = &'o mut Transaction<'d, AnyEndpoint>;

async fn cents(open: Open<'_, '_>, table: TableId, account: u64) -> Result<u64, TxnError> {
    let value = open.read(table, &account.to_be_bytes()).await?;
    Ok(value.map_or(CENTS, |value| {
        u64::from_le_bytes(value.try_into().expect("8 bytes"))
    }))
}

async fn transfer(
    open: Open<'_, '_>,
    table: TableId,
    [from, to]: [u64; 2],
    most: u64,
) -> Result<(), TxnError> {
    let (has, had) = (
        cents(open, table, from).await?,
        cents(open, table, to).await?,
    );
    let moved = most.min(has);
    for (account, now) in [(from, has - moved), (to, had + moved)] {
        let (key, value) = (account.to_be_bytes(), now.to_le_bytes());
        open.write(table, &key, &value).await?;
    }
    Ok(())
}

mod transfers {
    use super::*;

    pub fn keep_the_sum_whoever_looks(fabric: Fabric) {
        let node = served(fabric);
        let each = u64::from(fabric.cases(400));
        node.run_clients(CLIENTS, Fabric::limits(), async move |number, endpoint| {
            let locking = [Locking::Execution, Locking::Commit][number as usize % 2];
            let (database, table) = database(&endpoint, locking);
            let database = &database;
            let transfers = (0..each).map(async |turn| {
                let mut rng = ChaCha8Rng::seed_from_u64(u64::from(number) << 32 | turn);
                let from = rng.random_range(0..ACCOUNTS);
                let to = (from + rng.random_range(1..ACCOUNTS)) % ACCOUNTS;
                let most = rng.random_range(0..300);
                let run = async |open: Open<'_, '_>| transfer(open, table, [from, to], most).await;
                database.run(run).await.unwrap();
                let all = async |open: Open<'_, '_>| {
                    let mut sum = 0;
                    for account in 0..ACCOUNTS {
                        sum += cents(open, table, account).await?;
                    }
                    Ok(sum)
                };
                let sum = database.run(all).await.unwrap();
                assert_eq!(sum, ACCOUNTS * CENTS, "turn {turn} of {number}");
            });
            window(3, transfers, |_, ()| ()).await;
        });
    }
}
