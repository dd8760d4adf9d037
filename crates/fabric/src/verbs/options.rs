//! What agents and endpoints may be told.

use super::DeviceOptions;
use crate::tcp::{AgentLimits, AgentOptions, Grant, Secret, TcpOptions};
use crate::{Backoff, Limits, Rights};
use std::time::Duration;

/// How an [`Agent`](super::Agent) serves.
#[derive(Clone, Debug)]
pub struct VerbsAgentOptions {
    /// Where it listens for the set-up connections of clients: `HOST:PORT` of TCP, port 0 for any that is
    /// free.
    pub listen: String,
    /// What is granted. More can be granted later. Each registers all of its regions with the NIC, and so
    /// counts against the limit of locked memory.
    pub grants: Vec<Grant>,
    /// Whether an address that other machines can reach may be served to anybody: without it, every grant
    /// there must have a secret.
    pub insecure: bool,
    /// A client that the network has lost is let go after about this long.
    pub peer_timeout: Duration,
    /// Which device to serve by.
    pub device: DeviceOptions,
    /// Clients, those in their handshake included. A device has a limit of its own as well.
    pub connections: usize,
    /// How long the handshake of a client may take.
    pub handshake_timeout: Duration,
    /// The longest that a message waits for room in the node's inbox, whatever its sender asks for.
    pub receiver_wait: Duration,
}

impl Default for VerbsAgentOptions {
    fn default() -> Self {
        let of_tcp = AgentOptions::default();
        Self {
            listen: of_tcp.listen,
            grants: of_tcp.grants,
            insecure: of_tcp.insecure,
            peer_timeout: of_tcp.peer_timeout,
            device: DeviceOptions::default(),
            connections: of_tcp.limits.connections,
            handshake_timeout: of_tcp.limits.handshake_timeout,
            receiver_wait: of_tcp.limits.receiver_wait,
        }
    }
}

impl VerbsAgentOptions {
    /// How the set-up connections are served; the grants are put in force by whoever registers them.
    pub(super) fn of_setup(&self) -> AgentOptions {
        AgentOptions {
            listen: self.listen.clone(),
            threads: 1,
            spin: Duration::ZERO,
            grants: Vec::new(),
            insecure: self.insecure,
            peer_timeout: self.peer_timeout,
            limits: AgentLimits {
                connections: self.connections,
                // No frame of the set-up is longer.
                frame_bytes: 4096,
                handshake_timeout: self.handshake_timeout,
                receiver_wait: self.receiver_wait,
                ..AgentLimits::default()
            },
        }
    }
}

/// How a [`VerbsEndpoint`](super::VerbsEndpoint) connects.
#[derive(Clone, Debug)]
pub struct VerbsOptions {
    /// The name of the grant to ask for.
    pub grant: String,
    /// What the grant needs to be known. With a secret, only nodes that know it too are connected to.
    pub secret: Option<Secret>,
    /// The most rights to have to any region.
    pub rights: Rights,
    /// How long resolving, connecting, the handshake and the pairing may take together.
    pub connect_timeout: Duration,
    /// How long to go on looking for completions before the thread sleeps.
    pub spin: Duration,
    /// A node that the network has lost is noticed within about this long, whether or not verbs are on
    /// their way.
    pub peer_timeout: Duration,
    /// How a lost connection is made anew, in the background.
    pub reconnect: Backoff,
    /// Which device to connect by; the same for all nodes.
    pub device: DeviceOptions,
    /// Payloads of writes up to so many bytes travel in the request itself, where the device can do that.
    pub inline_bytes: u32,
    /// What the endpoint may hold and how long it waits. A message may wait for its receiver for half of
    /// the verb timeout.
    pub limits: Limits,
}

impl Default for VerbsOptions {
    fn default() -> Self {
        let of_tcp = TcpOptions::default();
        Self {
            grant: of_tcp.grant,
            secret: of_tcp.secret,
            rights: of_tcp.rights,
            connect_timeout: of_tcp.connect_timeout,
            spin: of_tcp.spin,
            peer_timeout: of_tcp.peer_timeout,
            reconnect: of_tcp.reconnect,
            device: DeviceOptions::default(),
            inline_bytes: 128,
            limits: of_tcp.limits,
        }
    }
}

impl VerbsOptions {
    /// How the set-up connections are made.
    pub(super) fn of_setup(&self) -> TcpOptions {
        TcpOptions {
            grant: self.grant.clone(),
            secret: self.secret.clone(),
            rights: self.rights,
            connect_timeout: self.connect_timeout,
            spin: self.spin,
            peer_timeout: self.peer_timeout,
            reconnect: self.reconnect,
            limits: self.limits,
        }
    }
}
