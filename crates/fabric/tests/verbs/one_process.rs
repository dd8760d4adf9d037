//! Agent and client in one process.

use crate::common::{self, Fabric};
use farslot_fabric::shm::Node;
use farslot_fabric::verbs::{Agent, VerbsAgentOptions, VerbsEndpoint, VerbsOptions};
use farslot_fabric::*;
use std::cell::RefCell;
use std::rc::Rc;

struct Verbs;

thread_local! {
    /// The agents of the test on this thread: they serve until it ends.
    static AGENTS: RefCell<Vec<Agent>> = const { RefCell::new(Vec::new()) };
}

fn serve(node: &Node) -> String {
    let agent = Agent::start(node.clone(), &VerbsAgentOptions::default()).unwrap();
    let address = agent.address().to_string();
    AGENTS.with_borrow_mut(|agents| agents.push(agent));
    address
}

impl Fabric for Verbs {
    type Endpoint = VerbsEndpoint;

    fn executor(nodes: &[&Node], limits: Limits) -> Executor<VerbsEndpoint> {
        let addresses: Vec<_> = nodes.iter().map(|node| serve(node)).collect();
        let options = VerbsOptions {
            limits,
            ..VerbsOptions::default()
        };
        Executor::new(Rc::new(
            VerbsEndpoint::connect(&addresses, &options).unwrap(),
        ))
    }
}

common::test_verbs_over!(Verbs);
