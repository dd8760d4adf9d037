//! What becomes of a client once it is admitted: its verbs are executed here, or by a NIC.

use super::Shared;
use super::serving::{Pause, Serving};
use crate::shm::Node;
use crate::shm::node::AgentClaim;
use crate::tcp::admission::{Issued, handshake::Carrier};
use crate::tcp::stream::{Inbound, Outbound};
use crate::tcp::wire::Malformed;
use crate::{FabricError, RegionInfo};
use std::sync::Arc;
use std::time::Duration;

/// How an agent serves the clients that it admits.
pub(crate) trait Service: Send + Sync {
    /// What carries the verbs.
    fn carrier(&self) -> Carrier;

    /// Begins to serve a client.
    fn admit(&self, client: Client<'_>) -> Box<dyn Serve>;
}

/// A client that was just admitted.
pub(crate) struct Client<'a> {
    pub(crate) node: &'a Node,
    pub(crate) grant: Arc<Issued>,
    /// The node's regions, with the rights that this client has.
    pub(crate) regions: &'a [RegionInfo],
    /// How long its messages may wait for room.
    pub(crate) receiver_wait: Duration,
    /// The number of its session.
    pub(crate) session: u64,
    /// The session in whose place it came, or 0: no verb of that may be executed once this client is told
    /// that it is admitted.
    pub(crate) last_session: u64,
}

/// Where to tell of verbs that are refused, with the name of the grant.
pub(crate) type Tell<'t> = dyn FnMut(&str, &FabricError) + 't;

/// One client that is served.
pub(crate) trait Serve: Send {
    /// Takes what has come and answers it; tells of verbs that are refused.
    fn run(
        &mut self,
        input: &mut Inbound,
        out: &mut Outbound,
        shared: &Shared,
        tell: &mut Tell<'_>,
    ) -> Result<Pause, Malformed>;
}

/// The verbs come over the connection, and are executed by the agent's threads.
pub(super) struct Executing {
    _claim: AgentClaim,
}

impl Executing {
    /// On the memory of that node.
    ///
    /// # Errors
    /// [`FabricError::NicAndProcessor`].
    pub(super) fn new(node: &Node) -> crate::Result<Self> {
        let claim = node.claim_for_agent()?;
        Ok(Self { _claim: claim })
    }
}

impl Service for Executing {
    fn carrier(&self) -> Carrier {
        Carrier::Tcp
    }

    fn admit(&self, client: Client<'_>) -> Box<dyn Serve> {
        let Client {
            node,
            grant,
            regions,
            receiver_wait,
            ..
        } = client;
        Box::new(Serving::new(node, grant, regions, receiver_wait))
    }
}
