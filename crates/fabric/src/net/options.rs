//! The options that TCP and RDMA verbs share, for agents and for endpoints.

use super::admission::{Grant, Secret};
use super::audit::Audit;
use super::backoff::Backoff;
use super::network::Network;
use super::spin;
use super::tls::{TlsClient, TlsServer};
use crate::{FabricError, Limits, Result, Rights};
use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::time::Duration;

/// How an agent accepts clients.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The TCP address to listen at: `HOST:PORT`, port 0 for any free port.
    pub listen: String,
    /// The grants in force from the start; more can be granted later. Over RDMA verbs each of them
    /// registers its regions with the NIC, which counts against the limit of locked memory.
    pub grants: Vec<Grant>,
    /// How the agent proves itself under TLS; nothing for frames that are not encrypted. Over RDMA
    /// verbs there is no TLS.
    pub tls: Option<TlsServer>,
    /// Networks whose clients may use grants that need no proof. Those of loopback always may.
    pub trusted: Vec<Network>,
    /// Whether all networks are trusted.
    pub insecure: bool,
    /// A client that the network has lost, or that takes no answers for this long, is disconnected.
    pub peer_timeout: Duration,
    /// The most connections, those in their handshake included. An RDMA device has a limit of its
    /// own as well.
    pub connections: usize,
    /// The longest that a client's handshake may take, and that a client stays which is told to
    /// leave.
    pub handshake_timeout: Duration,
    /// The most connections whose clients are not admitted. When another comes, the oldest of these
    /// is closed, so that those who are quick are admitted however many others wait.
    pub unauthenticated: usize,
    /// The most of these from one address: the oldest from there is closed for another from there.
    pub unauthenticated_of_address: usize,
    /// The most bytes that all connections keep together between their turns: of verbs that have
    /// not arrived whole, and of answers that are not taken. The clients of one grant may keep half
    /// of it. Every connection may keep a few KiB besides: see `docs/security.md`.
    pub held_bytes: usize,
    /// The longest that a message waits for room in the node's inbox, whatever its sender asks for.
    pub receiver_wait: Duration,
    /// Where to write down who came and what was refused them.
    pub audit: Option<Arc<Audit>>,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:0".into(),
            grants: vec![Grant::everything(None)],
            tls: None,
            trusted: Vec::new(),
            insecure: false,
            peer_timeout: Duration::from_secs(30),
            connections: 16 << 10,
            handshake_timeout: Duration::from_secs(5),
            unauthenticated: 1024,
            unauthenticated_of_address: 512,
            held_bytes: 128 << 20,
            receiver_wait: Duration::from_secs(10),
            audit: None,
        }
    }
}

/// How an endpoint connects to agents: all that a [`TcpEndpoint`](crate::tcp::TcpEndpoint) needs to
/// know, and most of what a [`VerbsEndpoint`](crate::verbs::VerbsEndpoint) does.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// The name of the grant to ask for.
    pub grant: String,
    /// The grant's secret. With a secret and without TLS, the endpoint connects only to nodes that
    /// know it too.
    pub secret: Option<Secret>,
    /// Which nodes are trusted under TLS, and how the endpoint proves itself; nothing for frames
    /// that are not encrypted.
    pub tls: Option<TlsClient>,
    /// The most rights to ask for in any region.
    pub rights: Rights,
    /// The longest that resolving, connecting, the handshake and (over RDMA verbs) the set-up of
    /// the queue pair may take together.
    pub connect_timeout: Duration,
    /// The longest that the thread polls for completions before it sleeps. Over TCP it sleeps at
    /// once where polling has not paid off lately.
    pub spin: Duration,
    /// A node that the network has lost is detected within about this long, whether or not verbs
    /// are in flight.
    pub peer_timeout: Duration,
    /// The waits between attempts to reconnect, in the background.
    pub reconnect: Backoff,
    /// What the endpoint may hold and how long it waits. A message may wait for its receiver for
    /// half of the verb timeout.
    pub limits: Limits,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            grant: Grant::DEFAULT.into(),
            secret: None,
            tls: None,
            rights: Rights::ALL,
            connect_timeout: Duration::from_secs(10),
            spin: spin::DEFAULT,
            peer_timeout: Duration::from_secs(5),
            reconnect: Backoff::default(),
            limits: Limits::default(),
        }
    }
}

impl ServeOptions {
    /// Refuses what an agent would refuse, as far as that shows without listening: an address that
    /// has no IP address, and one that other machines reach although a grant needs no proof.
    ///
    /// # Errors
    /// [`FabricError::Unresolvable`], [`FabricError::Insecure`].
    pub fn check(&self) -> Result<()> {
        let resolved = self.listen.to_socket_addrs();
        let mut resolved = resolved.map_err(|error| FabricError::Unresolvable {
            address: self.listen.clone(),
            error: error.to_string(),
        })?;
        let reached_by_others = resolved.find(|address| !address.ip().is_loopback());
        let open = self.grants.iter().find(|grant| grant.needs_no_proof());
        match (reached_by_others, open) {
            (Some(address), Some(grant)) if !self.insecure && self.trusted.is_empty() => {
                Err(FabricError::Insecure {
                    address: address.to_string(),
                    grant: grant.name.clone(),
                })
            }
            _ => Ok(()),
        }
    }
}
