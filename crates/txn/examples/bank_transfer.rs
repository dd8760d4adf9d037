//! Transfers between accounts on two nodes, in the simulator: no cent is lost, and no balance becomes negative.

use farslot_fabric::sim::{NicProfile, World};
use farslot_fabric::{Executor, Limits, RegionId, Rights};
use farslot_remote::ObjectId;
use farslot_remote::chained::{Shape, Table};
use farslot_rpc::{Client, ClientOptions, Server, ServerOptions};
use farslot_txn::{Database, DatabaseOptions, OwnerOptions, Transaction, TxnError, serve};
use std::{rc::Rc, sync::Arc};

const ACCOUNTS: ObjectId = ObjectId(0);

fn cents(value: Option<Vec<u8>>) -> i64 {
    value
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, i64::from_le_bytes)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let shape = Shape {
        at: 0,
        key_bytes: 16,
        value_bytes: 8,
        slots: 2,
        buckets: 64,
        most_buckets: 128,
        overflow: 64,
        split_after: 0,
    };
    let table = Table::new(shape)?;
    let world = World::new(1, NicProfile::connectx5_edr());
    let nodes = [0, 1].map(|node| {
        let id = world.add_node(&[(shape.bytes(), Rights::READ.and(Rights::CALL))]);
        world.node_handle(id).serve_calls(move || {
            let mut server = Server::new(ServerOptions::default());
            serve(
                &mut server,
                &[(ACCOUNTS, table)],
                OwnerOptions {
                    node,
                    ..OwnerOptions::default()
                },
            );
            Arc::new(server)
        });
        id
    });
    let endpoint = world.endpoint(Limits::default());
    let clients = nodes.map(|id| {
        Rc::new(Client::new(
            Rc::clone(&endpoint),
            (id, RegionId(0)),
            ClientOptions::default(),
        ))
    });
    let mut bank = Database::new(clients.to_vec(), DatabaseOptions::default())?;
    let (east, west) = (
        bank.add_table(0, ACCOUNTS, table)?,
        bank.add_table(1, ACCOUNTS, table)?,
    );
    Executor::new(endpoint).block_on(async {
        bank.run(async |t: &mut Transaction<'_, _>| {
            t.write(east, b"Ann", &100i64.to_le_bytes()).await
        })
        .await?;
        for _ in 0..7 {
            let moved = bank.run(async |t: &mut Transaction<'_, _>| {
                let (from, to) = (
                    cents(t.read(east, b"Ann").await?),
                    cents(t.read(west, b"Bob").await?),
                );
                if from < 15 {
                    t.abort().await;
                    return Ok(0);
                }
                t.write(east, b"Ann", &(from - 15).to_le_bytes()).await?;
                t.write(west, b"Bob", &(to + 15).to_le_bytes()).await?;
                Ok(15)
            });
            println!("moved {} cents", moved.await?);
        }
        let mut t = bank.begin();
        let balances = (
            cents(t.read(east, b"Ann").await?),
            cents(t.read(west, b"Bob").await?),
        );
        t.commit().await?;
        assert_eq!(balances, (10, 90));
        println!("Ann has {} cents, Bob has {}", balances.0, balances.1);
        Ok::<_, TxnError>(())
    })?;
    Ok(())
}
