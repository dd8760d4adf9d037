//! The owner's side: threads that check and execute the verbs of clients beside the memory.
//!
//! Every thread has connections of its own and shares only the memory, the grants and the counters. What a
//! client can make it hold is bounded: one unfinished verb, answers up to a limit, and then it is not read
//! from until it has taken them.

mod accept;
mod admit;
mod connection;
mod conversation;
mod counters;
mod dialogue;
mod service;
mod serving;
mod session;
mod worker;

pub use self::conversation::Conversation;
pub use self::counters::AgentCounters;
pub(crate) use self::service::{Client, Serve, Service, Tell};
pub(crate) use self::serving::Pause;

use self::accept::Acceptor;
use self::counters::Tally;
use self::service::Executing;
use self::session::Sessions;
use self::worker::{Newcomer, Worker};
use super::admission::{Grants, Issued};
use super::socket::os;
use super::{AgentLimits, AgentOptions, Grant};
use crate::shm::{Node, raise_file_limit};
use crate::{FabricError, Result};
use rustix::event::EventfdFlags;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Serves a node's memory over TCP for as long as it is held. Dropping it closes every connection.
pub struct Agent {
    shared: Arc<Shared>,
    address: SocketAddr,
    insecure: bool,
    threads: Vec<JoinHandle<()>>,
}

/// What the threads of an agent share.
pub(crate) struct Shared {
    node: Node,
    grants: Grants,
    service: Box<dyn Service>,
    sessions: Arc<Sessions>,
    limits: AgentLimits,
    /// The limit of frames, in words.
    frame_words: u32,
    spin: Duration,
    peer_timeout: Duration,
    stop: AtomicBool,
    tally: Tally,
    /// One a thread.
    doors: Vec<Door>,
}

impl Shared {
    /// Without any grants yet.
    fn new(
        node: Node,
        options: &AgentOptions,
        doors: Vec<Door>,
        service: Box<dyn Service>,
    ) -> Result<Self> {
        Ok(Self {
            node,
            grants: Grants::default(),
            service,
            sessions: Arc::default(),
            limits: options.limits,
            frame_words: check(options)?,
            spin: options.spin,
            peer_timeout: options.peer_timeout,
            stop: AtomicBool::new(false),
            tally: Tally::default(),
            doors,
        })
    }
}

/// How a thread is told of something.
struct Door {
    wake: OwnedFd,
    serve_everybody: AtomicBool,
    newcomers: Mutex<Vec<Newcomer>>,
}

impl Door {
    fn new() -> Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self {
            wake: rustix::event::eventfd(0, flags).map_err(|errno| os("eventfd", errno))?,
            serve_everybody: AtomicBool::new(false),
            newcomers: Mutex::default(),
        })
    }

    fn send(&self, newcomer: Newcomer) {
        let mut newcomers = self
            .newcomers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        newcomers.push(newcomer);
        drop(newcomers);
        self.wake();
    }

    fn wake(&self) {
        // It can only fail where the counter is full, and then the thread is woken anyway.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    fn clear_wake(&self) {
        let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
    }
}

impl Agent {
    /// Serves the memory of a node: one of this process, which may be served over shared memory as well,
    /// or one that this process is attached to. Each client takes an open file of this process, whose limit on
    /// them is raised as far as it goes.
    ///
    /// # Errors
    /// [`FabricError::Unresolvable`], [`FabricError::AddressInUse`], [`FabricError::CannotListen`],
    /// [`FabricError::Insecure`], [`FabricError::BadOption`]; [`FabricError::UnknownRegion`] or [`FabricError::BadName`] of a grant;
    /// what the system says.
    pub fn start(node: Node, options: &AgentOptions) -> Result<Self> {
        let service = Box::new(Executing::new(&node)?);
        Self::start_service(node, options, service, |agent| {
            let mut grants = options.grants.iter();
            grants.try_for_each(|grant| agent.grant(grant))
        })
    }

    /// As [`Agent::start`], with something else that serves the clients that are admitted, and puts the
    /// first grants in force before any client is.
    pub(crate) fn start_service(
        node: Node,
        options: &AgentOptions,
        service: Box<dyn Service>,
        grant: impl FnOnce(&Self) -> Result<()>,
    ) -> Result<Self> {
        check(options)?;
        let doors = (0..options.threads).map(|_| Door::new());
        let doors = doors.collect::<Result<_>>()?;
        let shared = Arc::new(Shared::new(node, options, doors, service)?);
        raise_file_limit();
        let listener = listen(&options.listen)?;
        let address = listener
            .local_addr()
            .map_err(|error| os("getsockname", error))?;
        let mut agent = Self {
            shared,
            address,
            insecure: options.insecure,
            threads: Vec::new(),
        };
        grant(&agent)?;
        let mut acceptor = Some(Acceptor::new(listener));
        for number in 0..options.threads {
            let shared = Arc::clone(&agent.shared);
            let worker = Worker::new(shared, number, acceptor.take())
                .map_err(|errno| os("epoll_ctl", errno))?;
            let thread = std::thread::Builder::new()
                .name(format!("farslot-tcp-{number}"))
                .spawn(move || worker.run())
                .map_err(|error| os("spawning a thread", error))?;
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
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The node that it serves.
    #[must_use]
    pub fn node(&self) -> &Node {
        &self.shared.node
    }

    /// Puts a grant in force, with keys of its own. One of the same name is revoked.
    ///
    /// # Errors
    /// [`FabricError::Insecure`]; [`FabricError::UnknownRegion`]; [`FabricError::BadName`] of more than 64 bytes.
    pub fn grant(&self, grant: &Grant) -> Result<()> {
        self.check_secret(grant)?;
        self.shared.grants.issue(grant, self.shared.node.info())
    }

    /// Ends a grant: its clients' verbs that are begun after this returned are refused. False if there is
    /// none in force by that name.
    pub fn revoke(&self, name: &str) -> bool {
        self.shared.grants.revoke(name)
    }

    /// Puts a grant in force that a service has made ready. One of the same name is revoked.
    pub(crate) fn put_in_force(&self, issued: Arc<Issued>) {
        self.shared.grants.put_in_force(issued);
    }

    /// Has every client served that is admitted, whether or not anything has come from it.
    pub(crate) fn serve_everybody(&self) {
        for door in &self.shared.doors {
            door.serve_everybody.store(true, Ordering::Release);
            door.wake();
        }
    }

    /// What it has seen so far.
    #[must_use]
    pub fn counters(&self) -> AgentCounters {
        self.shared.tally.snapshot()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.doors.iter().for_each(Door::wake);
        for thread in self.threads.drain(..) {
            // A panic of a thread has been printed already.
            let _ = thread.join();
        }
    }
}

/// The limit of frames in words, if all options are possible.
fn check(options: &AgentOptions) -> Result<u32> {
    let bad = |option, value, limit| FabricError::BadOption {
        option,
        value,
        limit,
    };
    if !(1..=1024).contains(&options.threads) {
        return Err(bad("threads", options.threads as u64, "from 1 to 1024"));
    }
    let bytes = options.limits.frame_bytes;
    match u32::try_from(bytes / 8) {
        Ok(words) if bytes >= 4096 => Ok(words),
        _ => Err(bad(
            "frame bytes",
            bytes as u64,
            "at least 4 KiB and less than 32 GiB",
        )),
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
                listener
                    .set_nonblocking(true)
                    .map_err(|error| os("fcntl", error))?;
                return Ok(listener);
            }
            Err(error) => last = failed(error),
        }
    }
    Err(last)
}
