//! Clients that list other nodes than those whose locks they meet, or in another order.

use super::world::{LEASE, OBJECT, SHAPE};
use super::{decide_and_stop, two_clients};
use crate::database::Database;
use crate::{DatabaseOptions, TableId, TxnError};
use farslot_fabric::sim::SimEndpoint;
use farslot_fabric::{EndpointExt, NodeId, RegionId};
use farslot_remote::chained::Table;
use farslot_rpc::{Client, ClientOptions};
use std::rc::Rc;

/// A client that lists these nodes; its tables have the nodes' places.
fn listing(endpoint: &Rc<SimEndpoint>, nodes: &[u16]) -> Database<SimEndpoint> {
    let clients = nodes.iter().map(|node| {
        let to = (NodeId(*node), RegionId(0));
        let client = Client::new(Rc::clone(endpoint), to, ClientOptions::default());
        Rc::new(client)
    });
    let options = DatabaseOptions {
        attempts: 4,
        ..DatabaseOptions::default()
    };
    let database = Database::new(clients.collect(), options).unwrap();
    for place in 0..nodes.len() {
        let table = Table::new(SHAPE).unwrap();
        database.add_table(place as u8, OBJECT, table).unwrap();
    }
    database
}

#[test]
fn who_does_not_list_a_home_releases_nothing_of_it() {
    for nodes in [&[1][..], &[1, 2], &[2, 1]] {
        two_clients(async |_, endpoint, [one, other]| {
            decide_and_stop(&one).await;
            endpoint.sleep(2 * LEASE).await;
            let short = listing(endpoint, nodes);
            let end = short.get(TableId(0), b"key").await;
            assert!(matches!(end, Err(TxnError::Conflict { .. })), "{end:?}");
            // Those who list it find what was decided.
            for table in [0, 1, 2] {
                let value = other.get(TableId(table), b"key").await;
                assert_eq!(value, Ok(Some(b"1".to_vec())), "{nodes:?}");
            }
            let value = short.get(TableId(0), b"key").await;
            assert_eq!(value, Ok(Some(b"1".to_vec())), "{nodes:?}");
        });
    }
}

#[test]
fn who_lists_the_nodes_in_another_order_finds_a_home_and_its_parts() {
    for nodes in [[0, 2, 1], [1, 0, 2], [2, 1, 0]] {
        two_clients(async |_, endpoint, [one, _]| {
            decide_and_stop(&one).await;
            endpoint.sleep(2 * LEASE).await;
            let turned = listing(endpoint, &nodes);
            for table in [0, 1, 2] {
                let value = turned.get(TableId(table), b"key").await;
                assert_eq!(value, Ok(Some(b"1".to_vec())), "{nodes:?}");
            }
        });
    }
}

#[test]
fn a_node_has_one_place_while_transactions_are_under_way() {
    two_clients(async |_, _, [one, _]| {
        let mut open = one.begin();
        open.write(TableId(0), b"key", b"1").await.unwrap();
        let turned = listing(&one.shared_endpoint(), &[1, 0, 2]);
        let mut other = turned.begin();
        let end = other.write(TableId(1), b"another", b"1").await;
        assert_eq!(end, Err(TxnError::OtherPlace { node: 1 }));
        open.commit().await.unwrap();
        // From then on its place may be another, and names of before are none.
        let mut other = turned.begin();
        other.write(TableId(1), b"another", b"1").await.unwrap();
        other.commit().await.unwrap();
        let mut open = one.begin();
        let end = open.write(TableId(0), b"key", b"2").await;
        assert!(matches!(end, Err(TxnError::LeaseOver { .. })), "{end:?}");
        let write =
            async |open: &mut crate::Transaction<'_, _>| open.write(TableId(0), b"key", b"3").await;
        one.run(write).await.unwrap();
        assert_eq!(
            turned.get(TableId(1), b"key").await,
            Ok(Some(b"3".to_vec()))
        );
    });
}
