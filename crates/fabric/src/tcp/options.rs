//! What agents and endpoints may be told.

use super::{Grant, Secret};
use crate::{Backoff, Limits, Rights};
use std::time::Duration;

/// How an [`Agent`](super::Agent) serves.
#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// Where it listens: `HOST:PORT`, port 0 for any that is free.
    pub listen: String,
    /// Threads; connections are spread over them.
    pub threads: usize,
    /// The longest that a thread goes on looking for verbs after the last one before it sleeps. It uses a whole
    /// core meanwhile; where that has not paid of late, for verbs came later or others wanted the core, it sleeps at
    /// once.
    pub spin: Duration,
    /// What is granted. More can be granted later.
    pub grants: Vec<Grant>,
    /// Whether an address that other machines can reach may be served to anybody: without it, every grant
    /// there must have a secret.
    pub insecure: bool,
    /// A client that the network has lost, or that takes no answers for this long, is let go.
    pub peer_timeout: Duration,
    /// What one client, or all, may take.
    pub limits: AgentLimits,
}

/// What the clients of an agent may take of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AgentLimits {
    /// Connections, those in their handshake included.
    pub connections: usize,
    /// The most bytes of a frame, and of the answer to one verb; at least 4 KiB and less than 32 GiB. An
    /// endpoint's largest buffer with a few words around it should fit. A connection's unfinished verb
    /// takes up to this much memory.
    pub frame_bytes: usize,
    /// Once so many bytes of answers wait for a client to take them no more of its verbs are executed, and
    /// nothing is read from it; one verb's answer may come on top.
    pub unsent_bytes: usize,
    /// How long the handshake of a client may take.
    pub handshake_timeout: Duration,
    /// The longest that a message waits for room in the node's inbox, whatever its sender asks for.
    pub receiver_wait: Duration,
}

impl Default for AgentOptions {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:0".into(),
            threads: 1,
            spin: Duration::from_micros(50),
            grants: vec![Grant::everything(None)],
            insecure: false,
            peer_timeout: Duration::from_secs(30),
            limits: AgentLimits::default(),
        }
    }
}

impl Default for AgentLimits {
    fn default() -> Self {
        Self {
            connections: 16 << 10,
            frame_bytes: (4 << 20) + 4096,
            unsent_bytes: 256 << 10,
            handshake_timeout: Duration::from_secs(5),
            receiver_wait: Duration::from_secs(10),
        }
    }
}

/// How a [`TcpEndpoint`](super::TcpEndpoint) connects.
#[derive(Clone, Debug)]
pub struct TcpOptions {
    /// The name of the grant to ask for.
    pub grant: String,
    /// What the grant needs to be known. With a secret, only nodes that know it too are connected to.
    pub secret: Option<Secret>,
    /// The most rights to have to any region.
    pub rights: Rights,
    /// How long resolving, connecting and the handshake may take together.
    pub connect_timeout: Duration,
    /// The longest that the thread goes on looking for completions before it sleeps; where that has not paid of late,
    /// it sleeps at once.
    pub spin: Duration,
    /// A node that the network has lost is noticed within about this long, whether or not verbs are on
    /// their way.
    pub peer_timeout: Duration,
    /// How a lost connection is made anew, in the background.
    pub reconnect: Backoff,
    /// What the endpoint may hold and how long it waits. A message may wait for its receiver for half of
    /// the verb timeout.
    pub limits: Limits,
}

impl Default for TcpOptions {
    fn default() -> Self {
        Self {
            grant: Grant::DEFAULT.into(),
            secret: None,
            rights: Rights::ALL,
            connect_timeout: Duration::from_secs(5),
            spin: Duration::from_micros(50),
            peer_timeout: Duration::from_secs(5),
            reconnect: Backoff::default(),
            limits: Limits::default(),
        }
    }
}
