//! A server: it listens at an address and starts the threads that serve clients.

use super::accept::Acceptor;
use super::counters::AgentCounters;
use super::service::Service;
use super::shared::{Door, Shared, Workers};
use super::worker::Worker;
use crate::error::os;
use crate::memory::{Node, raise_file_limit};
use crate::net::admission::{Grant, Issued};
use crate::net::audit::{AuditEvent, AuditKind};
use crate::net::options::ServeOptions;
use crate::{FabricError, Result};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

/// Listens at an address and serves a node's memory for as long as it is held. Dropping it closes
/// every connection.
pub(crate) struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    insecure: bool,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    /// Has `service` serve the clients that are admitted. `grant` puts the first grants in force,
    /// before any client is admitted. Each client takes an open file; the process's limit on open
    /// files is raised to its maximum.
    ///
    /// # Errors
    /// [`FabricError::Unresolvable`], [`FabricError::AddressInUse`], [`FabricError::CannotListen`],
    /// [`FabricError::BadOption`]; those of `grant`; what the system says.
    pub(crate) fn start(
        node: Node,
        options: &ServeOptions,
        workers: &Workers,
        service: Box<dyn Service>,
        grant: impl FnOnce(&Self) -> Result<()>,
    ) -> Result<Self> {
        workers.check()?;
        let doors = (0..workers.threads).map(|_| Door::new());
        let doors = doors.collect::<Result<_>>()?;
        let shared = Arc::new(Shared::new(node, options, workers, doors, service)?);
        raise_file_limit();
        let listener = listen(&options.listen)?;
        let address = listener.local_addr().map_err(os("getsockname"))?;
        let mut agent = Self {
            shared,
            address,
            insecure: options.insecure,
            threads: Vec::new(),
        };
        grant(&agent)?;
        let mut acceptor = Some(Acceptor::new(listener));
        for number in 0..workers.threads {
            let shared = Arc::clone(&agent.shared);
            let worker = Worker::new(shared, number, acceptor.take()).map_err(os("epoll_ctl"))?;
            let thread = std::thread::Builder::new()
                .name(format!("farslot-tcp-{number}"))
                .spawn(move || worker.run())
                .map_err(os("spawning a thread"))?;
            agent.threads.push(thread);
        }
        Ok(agent)
    }

    /// Everybody who reaches an address may use a grant without a secret.
    pub(crate) fn check_secret(&self, grant: &Grant) -> Result<()> {
        let Grant { name, secret, .. } = grant;
        if secret.is_some() {
            return Ok(());
        }
        if self.insecure || self.address.ip().is_loopback() {
            log::info!(
                "whoever reaches {} may use the grant {name:?}",
                self.address
            );
            return Ok(());
        }
        Err(FabricError::Insecure {
            address: self.address.to_string(),
            grant: name.clone(),
        })
    }

    /// The address that it listens at, with its port.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The node that it serves.
    pub(crate) fn node(&self) -> &Node {
        &self.shared.served.node
    }

    /// Puts a grant in force, with keys of its own. One of the same name is revoked.
    ///
    /// # Errors
    /// [`FabricError::Insecure`]; [`FabricError::UnknownRegion`]; [`FabricError::BadName`] of more
    /// than 64 bytes.
    pub(crate) fn grant(&self, grant: &Grant) -> Result<()> {
        self.check_secret(grant)?;
        let node = self.shared.served.node.info();
        self.put_in_force(Arc::new(Issued::new(grant, node, self.room_of_a_grant())?));
        Ok(())
    }

    /// What the connections of one grant's clients may hold, in bytes.
    pub(crate) fn room_of_a_grant(&self) -> usize {
        self.shared.room_of_a_grant
    }

    /// Ends a grant: its clients' verbs that are begun after this returned are refused, and their
    /// connections are closed a while later. False if there is none in force by that name.
    pub(crate) fn revoke(&self, name: &str) -> bool {
        let revoked = self.shared.grants.revoke(name);
        if revoked {
            self.tell(AuditKind::Revoked, name);
            self.let_go_of_revoked();
        }
        revoked
    }

    fn tell(&self, kind: AuditKind, grant: &str) {
        if let Some(audit) = &self.shared.audit {
            audit.record(&AuditEvent {
                kind,
                peer: None,
                grant: Some(grant),
                detail: None,
            });
        }
    }

    /// Puts a grant in force that a service has made ready. One of the same name is revoked.
    pub(crate) fn put_in_force(&self, issued: Arc<Issued>) {
        let name = issued.name.clone();
        if self.shared.grants.put_in_force(issued) {
            self.tell(AuditKind::Revoked, &name);
        }
        self.tell(AuditKind::Granted, &name);
        self.let_go_of_revoked();
    }

    /// Has the threads let go of clients whose grants were revoked.
    fn let_go_of_revoked(&self) {
        for door in &self.shared.doors {
            door.revoked.store(true, Ordering::Release);
            door.wake();
        }
    }

    /// Has every client served that is admitted, whether or not anything has come from it.
    pub(crate) fn serve_everybody(&self) {
        for door in &self.shared.doors {
            door.serve_everybody.store(true, Ordering::Release);
            door.wake();
        }
    }

    /// What it has seen so far.
    pub(crate) fn counters(&self) -> AgentCounters {
        let served = &self.shared.served;
        served.tally.snapshot(served.room.held())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.doors.iter().for_each(Door::wake);
        for thread in self.threads.drain(..) {
            // A panic of a thread has been printed already.
            let _ = thread.join();
        }
    }
}

/// Listens at the first address of the name that can be had.
fn listen(address: &str) -> Result<TcpListener> {
    let unresolvable = |error: std::io::Error| FabricError::Unresolvable {
        address: address.into(),
        error: error.to_string(),
    };
    let mut last = unresolvable(ErrorKind::NotFound.into());
    for resolved in address.to_socket_addrs().map_err(unresolvable)? {
        let failed = |error: std::io::Error| match error.kind() {
            ErrorKind::AddrInUse => FabricError::AddressInUse {
                address: address.into(),
            },
            _ => FabricError::CannotListen {
                address: address.into(),
                error: error.to_string(),
            },
        };
        match TcpListener::bind(resolved) {
            Ok(listener) => {
                listener.set_nonblocking(true).map_err(os("fcntl"))?;
                return Ok(listener);
            }
            Err(error) => last = failed(error),
        }
    }
    Err(last)
}
