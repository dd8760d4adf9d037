//! The verbs over TCP, agent and client in one process.

mod common;

use common::{Fabric, at, node, test_verbs_over};
use farslot_fabric::shm::{Node, RegionSpec, ShmEndpoint};
use farslot_fabric::tcp::{Agent, AgentLimits, AgentOptions, TcpEndpoint, TcpOptions};
use farslot_fabric::*;
use std::cell::RefCell;
use std::rc::Rc;

struct Tcp;

thread_local! {
    /// The agents of the test on this thread: they serve until it ends.
    static AGENTS: RefCell<Vec<Agent>> = const { RefCell::new(Vec::new()) };
}

fn serve(node: &Node) -> String {
    let agent = Agent::start(node.clone(), &AgentOptions::default()).unwrap();
    let address = agent.address().to_string();
    AGENTS.with_borrow_mut(|agents| agents.push(agent));
    address
}

fn connect(address: &str, limits: Limits) -> Executor<TcpEndpoint> {
    let options = TcpOptions {
        limits,
        ..TcpOptions::default()
    };
    Executor::new(Rc::new(TcpEndpoint::connect(&[address], &options).unwrap()))
}

impl Fabric for Tcp {
    type Endpoint = TcpEndpoint;

    fn executor(nodes: &[&Node], limits: Limits) -> Executor<TcpEndpoint> {
        let addresses: Vec<_> = nodes.iter().map(|node| serve(node)).collect();
        let options = TcpOptions {
            limits,
            ..TcpOptions::default()
        };
        Executor::new(Rc::new(TcpEndpoint::connect(&addresses, &options).unwrap()))
    }
}

test_verbs_over!(Tcp);
