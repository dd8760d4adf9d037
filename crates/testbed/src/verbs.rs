//! RDMA verbs, where this machine has a device for them.

use crate::shm::embedded;
use crate::{PATIENCE, TestFabric};
use farslot_fabric::verbs::{Agent, VerbsAgentOptions, VerbsEndpoint, VerbsOptions};
use farslot_fabric::{Limits, Rights};
use std::rc::Rc;
use std::time::Duration;

/// A node whose memory is registered with the first device of this machine.
pub struct Verbs {
    agent: Agent,
}

impl TestFabric for Verbs {
    type Endpoint = VerbsEndpoint;

    const NAME: &'static str = "verbs";
    /// By the emulated device of an emulated machine, as where `scripts/test-verbs` runs.
    const SLOWNESS: u32 = 50;
    const PUNCTUAL: bool = false;

    fn start(regions: &[(u64, Rights)]) -> Self {
        let options = VerbsAgentOptions::default();
        let agent = Agent::start(embedded(regions), &options).expect("a verbs device");
        Self { agent }
    }

    fn connect(&self, limits: Limits) -> Rc<VerbsEndpoint> {
        let options = VerbsOptions {
            connect_timeout: Duration::from_nanos(PATIENCE),
            limits,
            ..VerbsOptions::default()
        };
        let address = self.agent.address().to_string();
        Rc::new(VerbsEndpoint::connect(&[address], &options).expect("the agent of this process"))
    }
}
