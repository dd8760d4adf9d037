//! The owner's side: threads that check and execute the verbs of clients beside the memory.

use super::options::AgentOptions;
use super::serving::Executing;
use crate::Result;
use crate::memory::Node;
use crate::net::AgentCounters;
use crate::net::admission::Grant;
use crate::net::agent::Server;
use std::net::SocketAddr;

/// Serves a node's memory over TCP for as long as it is held. Dropping it closes every connection.
pub struct Agent {
    server: Server,
}

impl Agent {
    /// Serves the memory of a node: one of this process, which may be served over shared memory as well,
    /// or one that this process is attached to. Each client takes an open file of this process, whose limit on
    /// them is raised as far as it goes.
    ///
    /// # Errors
    /// [`Unresolvable`](crate::FabricError::Unresolvable), [`AddressInUse`](crate::FabricError::AddressInUse),
    /// [`CannotListen`](crate::FabricError::CannotListen), [`Insecure`](crate::FabricError::Insecure),
    /// [`BadOption`](crate::FabricError::BadOption); [`UnknownRegion`](crate::FabricError::UnknownRegion) or
    /// [`BadName`](crate::FabricError::BadName) of a grant; what the system says.
    pub fn start(node: Node, options: &AgentOptions) -> Result<Self> {
        let service = Box::new(Executing::new(&node)?);
        let workers = options.workers();
        let server = Server::start(node, &options.serve, &workers, service, |server| {
            let mut grants = options.serve.grants.iter();
            grants.try_for_each(|grant| server.grant(grant))
        })?;
        Ok(Self { server })
    }

    /// The address that it listens at, with its port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// The node that it serves.
    #[must_use]
    pub fn node(&self) -> &Node {
        self.server.node()
    }

    /// Puts a grant in force, with keys of its own. A grant of the same name is revoked.
    ///
    /// # Errors
    /// [`Insecure`](crate::FabricError::Insecure); [`UnknownRegion`](crate::FabricError::UnknownRegion);
    /// [`BadName`](crate::FabricError::BadName) of more than 64 bytes.
    pub fn grant(&self, grant: &Grant) -> Result<()> {
        self.server.grant(grant)
    }

    /// Ends a grant: verbs of its clients that begin after this returned are refused. Returns `false` if no
    /// grant of that name is in force.
    pub fn revoke(&self, name: &str) -> bool {
        self.server.revoke(name)
    }

    /// What it has counted so far.
    #[must_use]
    pub fn counters(&self) -> AgentCounters {
        self.server.counters()
    }
}
