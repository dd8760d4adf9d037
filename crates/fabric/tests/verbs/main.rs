//! What only RDMA devices do. `scripts/test-verbs` runs these, in a machine that has one; a plain
//! `cargo test` does not. What they do as other fabrics is in `tests/suites`.

mod admission;
mod calls;
mod lab;
mod limits;
mod one_process;

use farslot_fabric::shm::{Node, RegionSpec};
use farslot_fabric::tcp::Grant;
use farslot_fabric::verbs::{
    Agent, ConnectOptions, ServeOptions, VerbsAgentOptions, VerbsEndpoint, VerbsOptions,
};
use farslot_fabric::*;
use std::rc::Rc;

/// Long enough for machines that have other things to do.
const PATIENT: Limits = Limits {
    send_queue_depth: 1024,
    largest_buffer: 4 << 20,
    buffer_budget: 1 << 30,
    verb_timeout: 20_000_000_000,
};

fn node(len: u64, rights: Rights) -> Node {
    Node::embedded(&[RegionSpec { len, rights }]).unwrap()
}

fn at(offset: u64) -> RemoteAddr {
    RemoteAddr {
        node: NodeId(0),
        region: RegionId(0),
        offset,
    }
}

fn served_with(len: u64, grants: Vec<Grant>) -> (Node, Agent) {
    let node = node(len, Rights::ALL);
    let options = VerbsAgentOptions::from(ServeOptions {
        grants,
        ..ServeOptions::default()
    });
    let agent = Agent::start(node.clone(), &options).unwrap();
    (node, agent)
}

/// A node of this process that is served by its device until the test ends.
fn served(len: u64) -> (Node, Agent) {
    served_with(len, vec![Grant::everything(None)])
}

fn patient() -> VerbsOptions {
    VerbsOptions::from(ConnectOptions {
        limits: PATIENT,
        // The virtual machine has its processors beside other tests.
        connect_timeout: std::time::Duration::from_secs(60),
        ..ConnectOptions::default()
    })
}

fn client_with(agent: &Agent, options: &VerbsOptions) -> Executor<VerbsEndpoint> {
    let address = agent.address().to_string();
    Executor::new(Rc::new(
        VerbsEndpoint::connect(&[address], options).unwrap(),
    ))
}

fn client(agent: &Agent) -> Executor<VerbsEndpoint> {
    client_with(agent, &patient())
}

/// Waits until it is so.
fn wait_until(condition: &str, mut is_so: impl FnMut() -> bool) {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !is_so() {
        assert!(std::time::Instant::now() < until, "never: {condition}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
