//! TCP, for machines without an RDMA NIC. Verbs travel as batches of frames, and an agent beside
//! the memory checks and executes them.
//!
//! An [`Agent`] serves the memory of a [`Node`](crate::memory::Node), which shared memory can serve
//! at the same time. Atomics are the processor's, so they are atomic against the clients of both. A
//! [`TcpEndpoint`] has its own connection to each node. Such a connection behaves like a reliable
//! queue pair: verbs start and complete in order, and after a lost verb all later ones are lost
//! too. All verbs of a doorbell leave as one frame by one system call, and their answers arrive the
//! same way. If a large batch is posted while nothing is in flight, its first part leaves early, so
//! that the agent executes it while the rest is being posted.
//!
//! Guarantees beyond those of [the verbs](crate):
//!
//! * A completed write is placed: every client of the node sees it from then on.
//! * A message waits at the agent for room in its receiver's queue. Verbs posted behind it on the
//!   same connection wait too, as on a queue pair whose receiver is not ready.
//! * A verb is answered within [`verb_timeout`](crate::Limits::verb_timeout) of the one before it.
//!   Otherwise the connection is closed and its verbs fail with
//!   [`TimedOut`](crate::FabricError::TimedOut).
//! * A connection that ends is re-established in the background. Verbs to its node fail at once
//!   with [`NodeStopped`](crate::FabricError::NodeStopped) until it is, and until the tasks of all
//!   its failed verbs have seen their errors. Verbs that were sent on the old connection but not
//!   executed before the new one is admitted are never executed, so nothing takes effect behind a
//!   lost verb; see [`handshake`](admission::handshake).
//! * The end of a process is detected at once, even while no verbs are in flight. A lost machine or
//!   network is detected within [`peer_timeout`](ConnectOptions::peer_timeout), or within the verb
//!   timeout if verbs are in flight. A process that hangs is detected by verbs alone.
//! * Behind a [fence](crate::Endpoint::fence) the agent looks at the word before each verb that
//!   changes what lies behind the word in its region, and refuses the verb with
//!   [`Deposed`](crate::FabricError::Deposed) if the word has changed: also verbs that the client
//!   had posted before, and that were sent late.
//! * The agent trusts no client. A verb that is not permitted is answered with its error and has no
//!   effect. A malformed frame closes its connection, is logged, and affects no other connection.
//!
//! Before any verb both sides prove that they know the grant's secret (see [`admission`]). Without
//! [TLS](crate::net::tls), traffic is neither encrypted nor protected against modification: whoever
//! can read the network can read the data and the region keys. With it the same frames go through a
//! TLS session, and a certificate may stand in for the secret.
//!
//! # On the wire
//!
//! Everything is words of 8 bytes, little-endian. Each frame starts with one that says what it is:
//!
//! ```text
//! bit 0                      32            48      56        63
//!     +----------------------+-------------+-------+---------+
//!     | words, this included |    count    | kind  | version |
//!     +----------------------+-------------+-------+---------+
//!
//! kind 1, VERBS: client to agent, `count` of these:
//!
//!     bit 0       32       48     56   63
//!     +-----------+--------+------+----+--------+-----+
//!     | bytes     | region | verb | 0  | offset | key |  1 READ
//!     | bytes     | region | 3    | 0  | offset | key | payload, padded to a word     WRITE
//!     | 0         | region | 4    | 0  | offset | key | expected | new                COMPARE_SWAP
//!     | 0         | region | 5    | 0  | offset | key | add                           FETCH_ADD
//!     | bytes     | region | 6    | 0  | offset | key | imm | payload, padded         WRITE_IMM
//!     | 0         | region | 8    | 0  | offset | key | holds                         FENCE
//!     | pieces    | 0      | 2    | 0  | that many READs                            READ_MANY
//!     +-----------+--------+------+----+--------+-----+
//!
//! kind 2, COMPLETIONS: agent to client, of the next `count` verbs in the order of their posting:
//!     the bytes of a READ, padded to a word; of a READ_MANY, each piece padded; the word that an
//!     atomic found; nothing for a WRITE or a WRITE_IMM. A FENCE is not answered.
//!
//! kind 3, FAILURE: agent to client, of the next verb:
//!     +------+--------+---------+---+--------+--------+---+---+
//!     | code | needed | granted | 0 | region | offset | a | b |   a, b: see net/wire/failure.rs
//!     +------+--------+---------+---+--------+--------+---+---+
//!     0      8        16       24  32       48 .. 64     one word each
//!
//! kinds 16 to 20 are the handshake's: see net/admission/handshake.rs.
//! ```

mod agent;
mod answers;
mod calls;
mod conversation;
mod endpoint;
mod executing;
mod fence;
mod in_parts;
mod offences;
mod options;
mod peer;
mod serving;

pub use crate::error::{Refusal, TlsFailure, VerbFailure};
pub use crate::net::admission::{self, Area, Grant, PrefixArea, Secret, TaggedBlocks};
pub use crate::net::tls::{Clients, Fingerprint, TlsClient, TlsServer, Trust};
pub use crate::net::wire;
pub use crate::net::{
    AgentCounters, Audit, AuditEvent, AuditKind, ConnectOptions, LineLimit, Network, NoNetwork,
    Posted, Rate, ServeOptions, UnauthenticatedClients, utc_time,
};
pub use agent::Agent;
pub use conversation::Conversation;
pub use endpoint::TcpEndpoint;
pub use options::AgentOptions;
