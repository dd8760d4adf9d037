//! TCP, for machines without an RDMA NIC: the verbs as batches of frames, and a small agent beside the
//! memory that checks and executes them.
//!
//! An [`Agent`] serves the memory of a [`Node`](crate::memory::Node), the same that shared memory serves: one
//! process can lend its memory by both at once, and atomics are the processor's, so that they are atomic
//! against every client of either. A [`TcpEndpoint`] has one connection to each of its nodes, shared with
//! nobody, so that a connection is what a reliable queue pair is: its verbs start in order, complete in
//! order, and where one is lost every later one is. All verbs of a doorbell leave as one frame by one
//! system call, and are answered so. Of a large batch that is posted while none is on its way the first part leaves
//! before: the agent executes it while the rest is posted.
//!
//! What is promised beyond [the verbs](crate):
//!
//! * The completion of a write means that it is placed: every client of the node sees it from then on.
//! * A message waits at the agent for room in its receiver's queue, and the verbs posted behind it on the
//!   same connection wait with it, as on a queue pair whose receiver is not ready.
//! * A verb is answered within [`verb_timeout`](crate::Limits::verb_timeout) of the one before it, or its
//!   connection is given up: its verbs fail with [`TimedOut`](crate::FabricError::TimedOut).
//! * A connection that ends is made anew in the background. Until it is, and until the tasks of all verbs
//!   that failed with it have seen that, verbs to its node fail with
//!   [`NodeStopped`](crate::FabricError::NodeStopped), at once. What was sent over it and not executed when
//!   the next one is admitted never is, so that nothing takes effect behind what was lost: see
//!   [`handshake`](admission::handshake).
//! * A process that ends is noticed at once, also while no verbs are on their way. A machine or a network
//!   that is lost is noticed within [`peer_timeout`](ConnectOptions::peer_timeout), or within the verb timeout if
//!   verbs are on their way. A process that hangs is noticed by those alone: nobody else asks it anything.
//! * The agent trusts no client. A verb that may not be is answered with its error and has no effect; a
//!   frame that is none closes its connection, with a line in the log, and touches no other.
//!
//! Before any verb both sides prove that they know the grant's secret (see [`admission`]). There is no
//! encryption and nothing protects a frame from being changed on its way: TLS is out of scope. Whoever can
//! read the network can read the data and the region keys; keep such networks out by other means.
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
//!     | bytes     | region | 3    | 0  | offset | key | payload, padded to a word       WRITE
//!     | 0         | region | 4    | 0  | offset | key | expected | new                  COMPARE_SWAP
//!     | 0         | region | 5    | 0  | offset | key | add                             FETCH_ADD
//!     | bytes     | region | 6    | 0  | offset | key | imm | payload, padded           WRITE_IMM
//!     | pieces    | 0      | 2    | 0  | that many READs                              READ_MANY
//!     +-----------+--------+------+----+--------+-----+
//!
//! kind 2, COMPLETIONS: agent to client, of the next `count` verbs in the order of their posting:
//!     the bytes of a READ, padded to a word; of a READ_MANY, each piece padded; the word that an
//!     atomic found; nothing for a WRITE or a WRITE_IMM.
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
mod conversation;
mod endpoint;
mod options;
mod peer;
mod serving;

pub use crate::error::Refusal;
pub use crate::net::admission::{self, Area, Grant, Secret};
pub use crate::net::wire;
pub use crate::net::{AgentCounters, ConnectOptions, Posted, ServeOptions};
pub use agent::Agent;
pub use conversation::Conversation;
pub use endpoint::TcpEndpoint;
pub use options::AgentOptions;
