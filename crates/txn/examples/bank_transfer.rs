//! A transfer between two accounts, in the simulator: both change or neither does.

use farslot_fabric::sim::{NicProfile, World};
use farslot_fabric::{Executor, Limits, RegionId, Rights};
use farslot_remote::ObjectId;
use farslot_remote::chained::{Shape, Table};
use farslot_rpc::{Client, ClientOptions, Server, ServerOptions};
use farslot_txn::{Database, DatabaseOptions, OwnerOptions, Transaction, TxnError, serve};
use std::{rc::Rc, sync::Arc};

const SHAPE: Shape = Shape {
    at: 0,
    key_bytes: 16,
    value_bytes: 8,
    slots: 2,
    buckets: 64,
    most_buckets: 128,
    overflow: 64,
    split_after: 0,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (accounts, table) = (ObjectId(0), Table::new(SHAPE)?);
    let world = World::new(1, NicProfile::connectx5_edr());
    let node = world.add_node(&[(SHAPE.bytes(), Rights::READ.and(Rights::CALL))]);
    world.node_handle(node).serve_calls(move || {
        let mut server = Server::new(ServerOptions::default());
        serve(
            &mut server,
            &[(accounts, table.into())],
            OwnerOptions::default(),
        );
        Arc::new(server)
    });
    let endpoint = world.endpoint(Limits::default());
    let to = (node, RegionId(0));
    let client = Rc::new(Client::new(endpoint.clone(), to, ClientOptions::default()));
    let mut bank = Database::new(vec![client], DatabaseOptions::default())?;
    let accounts = bank.add_table(0, accounts, table)?;
    let cents = |value: Option<Vec<u8>>| value.map_or(0, |bytes| bytes[0]);
    let balances = Executor::new(endpoint).block_on(async {
        bank.run(async |open: &mut Transaction<'_, _>| open.write(accounts, b"Ann", &[100]).await)
            .await?;
        bank.run(async |transfer: &mut Transaction<'_, _>| {
            let from = cents(transfer.read(accounts, b"Ann").await?);
            let to = cents(transfer.read(accounts, b"Bob").await?);
            transfer.write(accounts, b"Ann", &[from - 15]).await?;
            transfer.write(accounts, b"Bob", &[to + 15]).await?;
            Ok((from - 15, to + 15))
        })
        .await
        .inspect_err(|error: &TxnError| eprintln!("nothing was moved: {error}"))
    })?;
    println!("Ann has {} cents, Bob has {}", balances.0, balances.1);
    Ok(())
}
