//! The owner's side: an agent whose threads check and execute the verbs of clients.

use super::executing::Executing;
use super::options::AgentOptions;
use crate::Result;
use crate::memory::Node;
use crate::net::AgentCounters;
use crate::net::admission::Grant;
use crate::net::agent::Server;
use std::fmt;
use std::net::SocketAddr;

/// Serves a node's memory over TCP for as long as it is held. Dropping it closes every connection.
pub struct Agent {
    server: Server,
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent")
            .field("address", &self.address())
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}

impl Agent {
    /// Serves the memory of a node. The node may be of this process, and served over shared memory
    /// too, or one that this process is attached to. Each client takes an open file; the process's
    /// limit on open files is raised to its maximum.
    ///
    /// # Errors
    /// [`Unresolvable`](crate::FabricError::Unresolvable),
    /// [`AddressInUse`](crate::FabricError::AddressInUse),
    /// [`CannotListen`](crate::FabricError::CannotListen),
    /// [`Insecure`](crate::FabricError::Insecure), [`BadOption`](crate::FabricError::BadOption);
    /// [`UnknownRegion`](crate::FabricError::UnknownRegion) or
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
    /// [`Insecure`](crate::FabricError::Insecure);
    /// [`UnknownRegion`](crate::FabricError::UnknownRegion);
    /// [`BadName`](crate::FabricError::BadName) of more than 64 bytes.
    pub fn grant(&self, grant: &Grant) -> Result<()> {
        self.server.grant(grant)
    }

    /// Ends a grant: verbs of its clients that begin after this returned are refused. Returns
    /// `false` if no grant of that name is in force.
    pub fn revoke(&self, name: &str) -> bool {
        self.server.revoke(name)
    }

    /// What it has counted so far.
    #[must_use]
    pub fn counters(&self) -> AgentCounters {
        self.server.counters()
    }
}
