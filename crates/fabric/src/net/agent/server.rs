//! A server: it listens at an address and starts the threads that serve clients.

use super::accept::Acceptor;
use super::counters::AgentCounters;
use super::service::VerbService;
use super::shared::{AgentCore, WorkerInbox, Workers};
use super::worker::Worker;
use crate::error::os;
use crate::event_loop::{EventLoop, OwnThread};
use crate::memory::{Node, raise_file_limit};
use crate::net::admission::{Credential, Grant, Issued, Secret, credentials};
use crate::net::audit::{AuditEvent, AuditKind};
use crate::net::options::ServeOptions;
use crate::net::tls::{Clients, TlsServer};
use crate::{FabricError, Result};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// Listens at an address and serves a node's memory for as long as it is held. Dropping it closes
/// every connection.
pub(crate) struct Server {
    shared: Arc<AgentCore>,
    address: SocketAddr,
    threads: Vec<OwnThread>,
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
        service: Box<dyn VerbService>,
        grant: impl FnOnce(&Self) -> Result<()>,
    ) -> Result<Self> {
        workers.check()?;
        let inboxes = (0..workers.threads).map(|_| WorkerInbox::new());
        let inboxes = inboxes.collect::<Result<_>>()?;
        let shared = Arc::new(AgentCore::new(node, options, workers, inboxes, service)?);
        raise_file_limit();
        let listener = listen(&options.listen)?;
        let address = listener.local_addr().map_err(os("getsockname"))?;
        let mut agent = Self {
            shared,
            address,
            threads: Vec::new(),
        };
        grant(&agent)?;
        let mut acceptor = Some(Acceptor::new(listener));
        for number in 0..workers.threads {
            let shared = Arc::clone(&agent.shared);
            let worker = Worker::new(shared, number, acceptor.take()).map_err(os("epoll_ctl"))?;
            let to_wake = Arc::clone(&agent.shared);
            let wake = move || to_wake.inboxes[number].wake();
            let thread = OwnThread::start(format!("farslot-tcp-{number}"), worker, wake)?;
            agent.threads.push(thread);
        }
        Ok(agent)
    }

    /// Everybody of a trusted network may use a grant that needs no proof; and certificates are
    /// shown under TLS alone.
    pub(crate) fn check_proof(&self, grant: &Grant) -> Result<()> {
        self.check_clients(&grant.name, grant.clients.as_ref())?;
        let Grant { name, .. } = grant;
        if !grant.needs_no_proof() {
            return Ok(());
        }
        if self.shared.trusts_others() || self.address.ip().is_loopback() {
            log::info!(
                "whoever reaches {} from a trusted network may use the grant {name:?}",
                self.address
            );
            return Ok(());
        }
        Err(FabricError::Insecure {
            address: self.address.to_string(),
            grant: name.clone(),
        })
    }

    fn check_clients(&self, grant: &str, clients: Option<&Clients>) -> Result<()> {
        let tls = self.shared.tls.as_ref();
        let tls = tls.map(|tls| tls.read().unwrap_or_else(PoisonError::into_inner));
        if clients.is_some() && tls.is_none_or(|tls| !tls.admits_certificates()) {
            return Err(FabricError::NotEnforceable {
                grant: grant.into(),
                reason: "certificates of clients need TLS and a client authority",
            });
        }
        Ok(())
    }

    /// The address that it listens at, with its port.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.shared.tls.is_some()
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
        self.check_proof(grant)?;
        let node = self.shared.served.node.info();
        let issued = Issued::all(grant, node, self.room_of_a_grant())?;
        self.put_in_force(issued.into_iter().map(Arc::new).collect());
        Ok(())
    }

    /// What a grant in force is to be issued as so that these secrets and certificates open it:
    /// what stays of it, and what `issue` makes of it for the others. Nothing if there is no such
    /// grant in force.
    ///
    /// # Errors
    /// [`FabricError::NotEnforceable`]; [`FabricError::Insecure`] if nothing is to be proved any
    /// more; those of `issue`.
    pub(crate) fn reissued(
        &self,
        name: &str,
        secrets: &[Secret],
        clients: Option<&Clients>,
        issue: impl Fn(&Issued, Credential) -> Result<Arc<Issued>>,
    ) -> Result<Option<Vec<Arc<Issued>>>> {
        self.check_clients(name, clients)?;
        let before = self.shared.grants.find(name);
        let Some(first) = before.iter().find(|one| !one.is_revoked()) else {
            return Ok(None);
        };
        if secrets.is_empty() && clients.is_none() && first.credential != Credential::Nothing {
            return Err(FabricError::Insecure {
                address: self.address.to_string(),
                grant: name.into(),
            });
        }
        let same = |credential: &Credential| {
            let mut before = before.iter();
            before.find(|one| one.credential == *credential && !one.is_revoked())
        };
        let all = credentials(secrets, clients).into_iter();
        let issued = all.map(|credential| match same(&credential) {
            Some(one) => Ok(Arc::clone(one)),
            None => issue(first, credential),
        });
        issued.collect::<Result<_>>().map(Some)
    }

    /// Has connections that are accepted from now on prove the node so. If other certificates of
    /// clients are trusted, those who were admitted by one have to come again.
    ///
    /// # Errors
    /// [`FabricError::NotEnforceable`] if there was no TLS, or a grant is left without the client
    /// authority that it needs.
    pub(crate) fn change_tls(&self, new: &TlsServer) -> Result<()> {
        let no_tls = |reason| FabricError::NotEnforceable {
            grant: String::new(),
            reason,
        };
        let Some(tls) = &self.shared.tls else {
            return Err(no_tls(
                "the address was not served under TLS from the start",
            ));
        };
        let by_certificates = self.shared.grants.by_certificates();
        if let Some(name) = by_certificates.first()
            && !new.admits_certificates()
        {
            return Err(FabricError::NotEnforceable {
                grant: name.clone(),
                reason: "certificates of clients need a client authority",
            });
        }
        let mut tls = tls.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *tls, new.clone());
        drop(tls);
        if before.same_client_authority(new) {
            return Ok(());
        }
        for name in by_certificates {
            let anew = |one: Arc<Issued>| match &one.credential {
                Credential::Certificate(_) => Arc::new(one.by(one.credential.clone())),
                Credential::Nothing | Credential::Secret(_) => one,
            };
            let issued = self.shared.grants.find(&name).into_iter().map(anew);
            self.put_in_force(issued.collect());
        }
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

    /// Puts a grant in force that a service has made ready, once for each credential. What was in
    /// force by its name and is not among these is revoked.
    pub(crate) fn put_in_force(&self, issued: Vec<Arc<Issued>>) {
        let Some(name) = issued.first().map(|one| one.name.clone()) else {
            return;
        };
        if self.shared.grants.put_in_force(issued) {
            self.tell(AuditKind::Revoked, &name);
        }
        self.tell(AuditKind::Granted, &name);
        self.let_go_of_revoked();
    }

    /// Has the threads let go of clients whose grants were revoked.
    fn let_go_of_revoked(&self) {
        for inbox in &self.shared.inboxes {
            inbox.revoked.store(true, Ordering::Release);
            inbox.wake();
        }
    }

    /// Has every client served that is admitted, whether or not anything has come from it.
    pub(crate) fn serve_everybody(&self) {
        self.shared.serve_everybody();
    }

    /// [Serves everybody](Self::serve_everybody) when it is called, as long as the server is there.
    pub(crate) fn bell(&self) -> impl Fn() + Send + Sync + 'static {
        let shared = Arc::downgrade(&self.shared);
        move || {
            if let Some(shared) = shared.upgrade() {
                shared.serve_everybody();
            }
        }
    }

    /// Whether all of its threads are at work: one that has panicked serves its clients no more.
    pub(crate) fn is_serving(&self) -> bool {
        !self.threads.iter().any(OwnThread::is_finished)
    }

    /// What one of its threads does, for the application to do; nothing if it does all of that.
    pub(crate) fn event_loop(&self) -> Option<EventLoop<'_>> {
        self.threads.iter().find_map(|thread| thread.shift.lend())
    }

    /// What it has seen so far.
    pub(crate) fn counters(&self) -> AgentCounters {
        let served = &self.shared.served;
        let grants = self.shared.grants.in_force();
        served.totals.snapshot(grants, served.room.held())
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
                rustix::net::listen(&listener, crate::net::BACKLOG).map_err(os("listen"))?;
                return Ok(listener);
            }
            Err(error) => last = failed(error),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;
    use std::time::Duration;

    #[test]
    fn many_clients_may_wait_to_be_accepted() {
        let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
        // Twice as many as the standard library asks for, if the system admits that.
        let clients = most.trim().parse::<usize>().unwrap().min(256);
        let listener = listen("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connect = |_| TcpStream::connect_timeout(&address, Duration::from_secs(30));
        let connected: std::io::Result<Vec<_>> = (0..clients).map(connect).collect();
        assert_eq!(connected.unwrap().len(), clients);
    }
}
