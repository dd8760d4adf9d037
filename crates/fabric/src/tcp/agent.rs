//! The owner's side: an agent whose threads check and execute the verbs of clients.

use super::executing::Executing;
use super::options::AgentOptions;
use crate::Result;
use crate::event_loop::EventLoop;
use crate::memory::Node;
use crate::net::AgentCounters;
use crate::net::admission::{Grant, Issued, Secret};
use crate::net::agent::Server;
use crate::net::tls::{Clients, TlsServer};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

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

    /// Whether it serves under TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.server.is_tls()
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

    /// Has these secrets and certificates open a grant in force from now on, instead of those that
    /// did. Clients that came by one that stays notice nothing; those that came by another are
    /// refused, and disconnected a while later. Returns `false` if no grant of that name is in
    /// force.
    ///
    /// # Errors
    /// [`NotEnforceable`](crate::FabricError::NotEnforceable) of certificates without TLS;
    /// [`Insecure`](crate::FabricError::Insecure) if nothing is to be proved any more.
    pub fn change_proof(
        &self,
        name: &str,
        secrets: &[Secret],
        clients: Option<&Clients>,
    ) -> Result<bool> {
        let issue = |first: &Issued, by| Ok(Arc::new(first.by(by)));
        let issued = self.server.reissued(name, secrets, clients, issue)?;
        let is_there = issued.is_some();
        self.server.put_in_force(issued.unwrap_or_default());
        Ok(is_there)
    }

    /// Has the agent prove itself so to those who connect from now on. If another client authority
    /// is trusted, those who were admitted by certificates are refused, and have to come again.
    ///
    /// # Errors
    /// [`NotEnforceable`](crate::FabricError::NotEnforceable) if there was no TLS, or a grant is
    /// left without the client authority that it needs.
    pub fn change_tls(&self, tls: &TlsServer) -> Result<()> {
        self.server.change_tls(tls)
    }

    /// Ends a grant: verbs of its clients that begin after this returned are refused. Returns
    /// `false` if no grant of that name is in force.
    pub fn revoke(&self, name: &str) -> bool {
        self.server.revoke(name)
    }

    /// Whether all of its threads are at work.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        self.server.is_serving()
    }

    /// The event loop of one of its threads, for a thread of the application: the clients of that
    /// thread are served by its turns while it is held. Nothing if the application has those of all
    /// threads already.
    #[must_use]
    pub fn event_loop(&self) -> Option<EventLoop<'_>> {
        self.server.event_loop()
    }

    /// What it has counted so far.
    #[must_use]
    pub fn counters(&self) -> AgentCounters {
        self.server.counters()
    }
}
