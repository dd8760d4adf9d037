//! A node's process.

use crate::layout::{LEASE, MAP, TABLE, bytes, map, table};
use farslot_fabric::Rights;
use farslot_fabric::shm::{Node, RegionSpec};
use farslot_fabric::tcp::{Agent, AgentOptions};
use farslot_rpc::{Server, ServerOptions};
use farslot_txn::{OwnerOptions, serve};
use std::io::Read;
use std::sync::Arc;

/// Serves until standard input is closed; tells its address first.
pub fn run(number: u8) {
    let region = RegionSpec {
        len: bytes(),
        rights: Rights::READ.and(Rights::CALL),
    };
    let node = Node::embedded(&[region]).expect("memory");
    let mut server = Server::new(ServerOptions::default());
    let options = OwnerOptions {
        node: number,
        lease: LEASE.as_nanos() as u64,
        ..OwnerOptions::default()
    };
    serve(
        &mut server,
        &[(TABLE, table().into()), (MAP, map().into())],
        options,
    );
    node.serve_calls(Arc::new(server));
    let agent = Agent::start(node, &AgentOptions::default()).expect("an agent");
    println!("{}", agent.address());
    let mut ignored = Vec::new();
    let _ = std::io::stdin().read_to_end(&mut ignored);
}
