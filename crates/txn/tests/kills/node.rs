//! A node's process.

use crate::layout::{LEASE, MAP, SHARED, TABLE, bytes, map, table};
use farslot_fabric::Rights;
use farslot_fabric::shm::{Node, RegionSpec};
use farslot_fabric::tcp::{Agent, AgentOptions};
use farslot_rpc::{RpcServerOptions, Server};
use farslot_txn::{OwnerOptions, serve};
use std::io::Read;
use std::sync::Arc;

/// Serves until standard input is closed; tells its address first, under which `client` connects.
pub fn run(number: u8, fabric: &str) {
    let region = RegionSpec {
        len: bytes(),
        rights: Rights::READ.and(Rights::CALL),
    };
    let name = format!("kills-{}-{number}", std::process::id());
    let is_shared = fabric == "shm";
    let node = match is_shared {
        true => Node::serve(&name, &[region]),
        false => Node::embedded(&[region]),
    };
    let node = node.expect("memory");
    let mut server = Server::new(RpcServerOptions::default());
    let options = OwnerOptions {
        lease: LEASE.as_nanos() as u64,
        ..OwnerOptions::default()
    };
    serve(
        &mut server,
        vec![(TABLE, table().into()), (MAP, map().into())],
        options,
    );
    node.serve_calls(Arc::new(server));
    let agent = Agent::start(node, &AgentOptions::default()).expect("an agent");
    match is_shared {
        true => println!("{SHARED}{name}"),
        false => println!("{}", agent.address()),
    }
    let mut ignored = Vec::new();
    let _ = std::io::stdin().read_to_end(&mut ignored);
}
