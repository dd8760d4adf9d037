//! How a TCP agent serves: its threads execute the verbs that come over the connections.

use super::serving::Serving;
use crate::Result;
use crate::error::Carrier;
use crate::memory::{AgentClaim, Node};
use crate::net::agent::{Client, Serve, VerbService};

/// The verbs come over the connection, and are executed by the agent's threads.
pub(super) struct Executing {
    _claim: AgentClaim,
}

impl Executing {
    /// On the memory of that node.
    ///
    /// # Errors
    /// [`FabricError::NicAndProcessor`].
    pub(super) fn new(node: &Node) -> Result<Self> {
        let claim = node.claim_for_agent()?;
        Ok(Self { _claim: claim })
    }
}

impl VerbService for Executing {
    fn carrier(&self) -> Carrier {
        Carrier::Tcp
    }

    fn admit(&self, client: Client<'_>) -> Box<dyn Serve> {
        let Client {
            node,
            grant,
            regions,
            receiver_wait,
            asked,
            ..
        } = client;
        Box::new(Serving::new(node, grant, regions, receiver_wait, asked))
    }
}
