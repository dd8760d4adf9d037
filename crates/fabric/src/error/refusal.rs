//! Why an agent refuses a client, as both sides report it.

use crate::ByteCount;

/// Why an agent refuses a client. The agent logs it, and the client gets it in
/// [`FabricError::NotAdmitted`](crate::FabricError::NotAdmitted).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The two sides speak different versions.
    #[error("the client speaks version {client} of the protocol, the node version {agent}")]
    Version {
        /// The client's.
        client: u8,
        /// The agent's.
        agent: u8,
    },
    /// The client's proof is wrong, or the grant that it asks for is none. A client that does not
    /// know a secret is not told which names there are.
    #[error("the secret is wrong, or there is no such grant")]
    WrongSecret,
    /// The grant has a secret and the client none.
    #[error("the grant needs a secret, or a certificate that opens it, and the client has none")]
    SecretNeeded,
    /// The client has a secret that the node did not prove to know.
    #[error("the node does not know the client's secret")]
    NodeUnproved,
    /// There is no such grant, where no grant has a secret.
    #[error("the node has no such grant")]
    NoSuchGrant,
    /// The grant was revoked.
    #[error("the grant was revoked")]
    GrantRevoked,
    /// The agent has reached its limit of connections.
    #[error("the node has {limit} connections and takes no more")]
    TooManyConnections {
        /// The limit.
        limit: u32,
    },
    /// The client has asked for too much that is refused.
    #[error("{limit} verbs of the client were refused, one after the other")]
    TooManyRefused {
        /// The limit.
        limit: u32,
    },
    /// The clients of the grant, or all clients, keep the agent's memory for unfinished verbs full.
    #[error(
        "the node has room for {} more of unfinished verbs, which the client's verb does not fit into",
        ByteCount(*bytes)
    )]
    NoRoom {
        /// What the connection might have held more.
        bytes: u32,
    },
    /// The handshake took too long.
    #[error("the handshake was not done within {after_ms} ms")]
    TooSlow {
        /// The time it has, in milliseconds.
        after_ms: u32,
    },
    /// The agent serves another fabric.
    #[error("the client wants its verbs carried by {client}, which is not what is served there")]
    OtherCarrier {
        /// What the client wants.
        client: Carrier,
    },
    /// The node's RDMA device has no queue pair left.
    #[error("the node's RDMA device gives no more queue pairs (it says that it has {limit})")]
    NoQueuePair {
        /// How many the device says that it has.
        limit: u32,
    },
    /// The node's RDMA device cannot reach the client's.
    #[error("the node's RDMA device has no way to the client's")]
    NoPath,
    /// No certificate of the client opens the grant, or there is no such grant.
    #[error("the client has no certificate that opens the grant, or there is no such grant")]
    CertificateNeeded,
    /// The grant needs no proof, and only clients of trusted networks may use it.
    #[error("the grant is open to the networks that the node trusts, and the client is of none")]
    NotTrusted,
}

impl Refusal {
    /// The names that counters have for the reasons. The first is of clients with which no TLS
    /// session could be agreed on; of a refusal it stands at its code.
    pub const NAMES: [&'static str; 16] = [
        "no_tls",
        "version",
        "wrong_secret",
        "secret_needed",
        "node_unproved",
        "no_such_grant",
        "grant_revoked",
        "too_many_connections",
        "too_slow",
        "other_carrier",
        "no_queue_pair",
        "no_path",
        "too_many_refused",
        "no_room",
        "certificate_needed",
        "not_trusted",
    ];

    /// Its code in a REFUSED.
    pub(crate) const fn code(self) -> usize {
        self.to_words()[0] as usize
    }

    /// Whether the same client may be admitted later without any change.
    #[must_use]
    pub const fn is_passing(self) -> bool {
        matches!(
            self,
            Self::TooManyConnections { .. } | Self::TooSlow { .. } | Self::NoRoom { .. }
        )
    }

    /// The refusal as the code and the detail of a REFUSED.
    pub(crate) const fn to_words(self) -> [u64; 2] {
        match self {
            Self::Version { client, agent } => [1, client as u64 | (agent as u64) << 8],
            Self::WrongSecret => [2, 0],
            Self::SecretNeeded => [3, 0],
            Self::NodeUnproved => [4, 0],
            Self::NoSuchGrant => [5, 0],
            Self::GrantRevoked => [6, 0],
            Self::TooManyConnections { limit } => [7, limit as u64],
            Self::TooSlow { after_ms } => [8, after_ms as u64],
            Self::OtherCarrier { client } => [9, matches!(client, Carrier::Rdma) as u64],
            Self::NoQueuePair { limit } => [10, limit as u64],
            Self::NoPath => [11, 0],
            Self::TooManyRefused { limit } => [12, limit as u64],
            Self::NoRoom { bytes } => [13, bytes as u64],
            Self::CertificateNeeded => [14, 0],
            Self::NotTrusted => [15, 0],
        }
    }

    pub(crate) const fn from_words([code, detail]: [u64; 2]) -> Option<Self> {
        Some(match code {
            1 => Self::Version {
                client: detail as u8,
                agent: (detail >> 8) as u8,
            },
            2 => Self::WrongSecret,
            3 => Self::SecretNeeded,
            4 => Self::NodeUnproved,
            5 => Self::NoSuchGrant,
            6 => Self::GrantRevoked,
            7 => Self::TooManyConnections {
                limit: detail as u32,
            },
            8 => Self::TooSlow {
                after_ms: detail as u32,
            },
            9 => Self::OtherCarrier {
                client: if detail == 0 {
                    Carrier::Tcp
                } else {
                    Carrier::Rdma
                },
            },
            10 => Self::NoQueuePair {
                limit: detail as u32,
            },
            11 => Self::NoPath,
            12 => Self::TooManyRefused {
                limit: detail as u32,
            },
            13 => Self::NoRoom {
                bytes: detail as u32,
            },
            14 => Self::CertificateNeeded,
            15 => Self::NotTrusted,
            _ => return None,
        })
    }
}

/// What carries the verbs of an admitted client.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Carrier {
    /// The connection itself.
    Tcp,
    /// A queue pair, which the connection sets up.
    Rdma,
}

impl Carrier {
    /// The second word of a HELLO.
    #[must_use]
    pub const fn magic(self) -> u64 {
        u64::from_le_bytes(match self {
            Self::Tcp => *b"FARSLTCP",
            Self::Rdma => *b"FARSLRDM",
        })
    }

    /// The one whose magic the word is.
    #[must_use]
    pub const fn from_magic(word: u64) -> Option<Self> {
        if word == Self::Tcp.magic() {
            Some(Self::Tcp)
        } else if word == Self::Rdma.magic() {
            Some(Self::Rdma)
        } else {
            None
        }
    }
}

impl std::fmt::Display for Carrier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Tcp => "TCP",
            Self::Rdma => "RDMA verbs",
        })
    }
}
