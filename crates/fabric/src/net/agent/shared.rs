//! The state that the threads of an agent share.

use super::service::{ServedNode, VerbService};
use super::session::SessionRegistry;
use crate::error::{Refusal, os};
use crate::memory::Node;
use crate::net::Network;
use crate::net::admission::GrantRegistry;
use crate::net::audit::Audit;
use crate::net::options::ServeOptions;
use crate::net::room::ByteBudget;
use crate::net::secured::Socket;
use crate::net::tls::TlsServer;
use crate::{FabricError, Result};
use rustix::event::EventfdFlags;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::task::Wake;
use std::time::Duration;

/// How many threads an agent has, how long they poll, and what they may hold for a client.
pub(crate) struct Workers {
    pub(crate) threads: usize,
    /// The longest that a thread polls for frames before it sleeps.
    pub(crate) spin: Duration,
    pub(crate) frame_bytes: usize,
    pub(crate) unsent_bytes: usize,
}

impl Workers {
    /// The limit of frames in words, if all of these are possible.
    ///
    /// # Errors
    /// [`FabricError::BadOption`].
    pub(crate) fn check(&self) -> Result<u32> {
        let bad = |option, value, limit| FabricError::BadOption {
            option,
            value,
            limit,
        };
        if !(1..=1024).contains(&self.threads) {
            return Err(bad("threads", self.threads as u64, "from 1 to 1024"));
        }
        let bytes = self.frame_bytes;
        match u32::try_from(bytes / 8) {
            Ok(words) if bytes >= 4096 => Ok(words),
            _ => Err(bad(
                "frame bytes",
                bytes as u64,
                "at least 4 KiB and less than 32 GiB",
            )),
        }
    }
}

/// What the threads of an agent share.
pub(crate) struct AgentCore {
    pub(crate) served: ServedNode,
    pub(crate) audit: Option<Arc<Audit>>,
    pub(crate) grants: GrantRegistry,
    pub(crate) service: Box<dyn VerbService>,
    pub(crate) sessions: Arc<SessionRegistry>,
    /// The most connections.
    pub(crate) connections: usize,
    pub(crate) handshake_timeout: Duration,
    /// The most connections whose clients are not admitted, in all and of one address, of a thread.
    pub(crate) unauthenticated: [usize; 2],
    /// The most bytes that the connections of one grant's clients may hold.
    pub(crate) room_of_a_grant: usize,
    pub(crate) receiver_wait: Duration,
    pub(crate) peer_timeout: Duration,
    /// How connections that are accepted from now on are under TLS.
    pub(crate) tls: Option<RwLock<TlsServer>>,
    trusted: Vec<Network>,
    insecure: bool,
    pub(crate) spin: Duration,
    /// One a thread.
    pub(crate) inboxes: Vec<WorkerInbox>,
}

impl AgentCore {
    /// Without any grants yet.
    ///
    /// # Errors
    /// [`FabricError::BadOption`].
    pub(crate) fn new(
        node: Node,
        options: &ServeOptions,
        workers: &Workers,
        inboxes: Vec<WorkerInbox>,
        service: Box<dyn VerbService>,
    ) -> Result<Self> {
        Ok(Self {
            served: ServedNode {
                node,
                frame_words: workers.check()?,
                unsent_bytes: workers.unsent_bytes,
                room: ByteBudget::new(options.held_bytes),
                totals: Arc::default(),
            },
            audit: options.audit.clone(),
            grants: GrantRegistry::default(),
            service,
            sessions: Arc::default(),
            connections: options.connections,
            handshake_timeout: options.handshake_timeout,
            unauthenticated: [options.unauthenticated, options.unauthenticated_of_address]
                .map(|most| most.div_ceil(workers.threads).max(1)),
            room_of_a_grant: options.held_bytes / 2,
            receiver_wait: options.receiver_wait,
            peer_timeout: options.peer_timeout,
            tls: options.tls.clone().map(RwLock::new),
            trusted: options.trusted.clone(),
            insecure: options.insecure,
            spin: workers.spin,
            inboxes,
        })
    }

    /// Whether any network beyond loopback is trusted.
    pub(crate) fn trusts_others(&self) -> bool {
        self.insecure || !self.trusted.is_empty()
    }

    /// Has every client served that is admitted, whether or not anything has come from it.
    pub(crate) fn serve_everybody(&self) {
        for inbox in &self.inboxes {
            inbox.serve_everybody.store(true, Ordering::Release);
            inbox.wake();
        }
    }

    /// Whether clients at an address may use grants that need no proof.
    pub(crate) fn trusts(&self, address: IpAddr) -> bool {
        self.insecure
            || address.to_canonical().is_loopback()
            || self.trusted.iter().any(|network| network.contains(address))
    }

    /// A connection that was accepted, under TLS if it is to be; nothing if it cannot be now.
    pub(crate) fn secure(&self, stream: TcpStream) -> Option<Socket> {
        let session = match &self.tls {
            None => None,
            Some(tls) => {
                let tls = tls.read().unwrap_or_else(PoisonError::into_inner);
                Some(tls.session()?)
            }
        };
        Some(Socket::new(stream, session))
    }
}

/// A connection that was accepted.
pub(crate) struct Newcomer {
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    /// Why it will be refused, whoever it is.
    pub(crate) refusal: Option<Refusal>,
}

/// How a thread is told of something.
pub(crate) struct WorkerInbox {
    pub(crate) wake: OwnedFd,
    pub(crate) serve_everybody: AtomicBool,
    /// Grants were revoked.
    pub(crate) revoked: AtomicBool,
    pub(crate) newcomers: Mutex<Vec<Newcomer>>,
    /// Connections whose oldest call is answered by now, by their tokens. The thread is woken for
    /// the first.
    answered: Mutex<Vec<u64>>,
}

/// Has a connection's thread look at the connection's answers.
pub(crate) struct AnswerBell {
    pub(crate) shared: Arc<AgentCore>,
    /// The number of the thread.
    pub(crate) worker: usize,
    pub(crate) token: u64,
}

impl Wake for AnswerBell {
    fn wake(self: Arc<Self>) {
        let inbox = &self.shared.inboxes[self.worker];
        let mut answered = inbox
            .answered
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        answered.push(self.token);
        let is_first = answered.len() == 1;
        drop(answered);
        if is_first {
            inbox.wake();
        }
    }
}

impl WorkerInbox {
    pub(crate) fn new() -> Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self {
            wake: rustix::event::eventfd(0, flags).map_err(os("eventfd"))?,
            serve_everybody: AtomicBool::new(false),
            revoked: AtomicBool::new(false),
            newcomers: Mutex::default(),
            answered: Mutex::default(),
        })
    }

    pub(crate) fn send(&self, newcomer: Newcomer) {
        let mut newcomers = self
            .newcomers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        newcomers.push(newcomer);
        drop(newcomers);
        self.wake();
    }

    pub(crate) fn wake(&self) {
        // It can only fail where the counter is full, and then the thread is woken anyway.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Connections whose oldest call is answered by now.
    pub(crate) fn take_answered(&self) -> Vec<u64> {
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *answered)
    }

    pub(crate) fn clear_wake(&self) {
        let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
    }
}
