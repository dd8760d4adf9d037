//! TCP on loopback: an agent with a thread of its own beside the memory.

use crate::shm::embedded;
use crate::{PATIENCE, TestFabric};
use farslot_fabric::tcp::{Agent, AgentOptions, TcpEndpoint, TcpOptions};
use farslot_fabric::{Limits, Rights};
use std::rc::Rc;
use std::time::Duration;

/// A node that an agent serves.
pub struct Tcp {
    agent: Agent,
}

/// Tests run side by side on few cores: who spins for long keeps another from its turn.
const SPIN: Duration = Duration::from_micros(10);

impl TestFabric for Tcp {
    type Endpoint = TcpEndpoint;

    const NAME: &'static str = "tcp";
    const SLOWNESS: u32 = 10;
    const PUNCTUAL: bool = false;

    fn start(regions: &[(u64, Rights)]) -> Self {
        let options = AgentOptions {
            spin: SPIN,
            ..AgentOptions::default()
        };
        let agent = Agent::start(embedded(regions), &options).expect("an agent on loopback");
        Self { agent }
    }

    fn connect(&self, limits: Limits) -> Rc<TcpEndpoint> {
        let options = TcpOptions {
            spin: SPIN,
            connect_timeout: Duration::from_nanos(PATIENCE),
            limits,
            ..TcpOptions::default()
        };
        let address = self.agent.address().to_string();
        Rc::new(TcpEndpoint::connect(&[address], &options).expect("the agent of this process"))
    }
}
