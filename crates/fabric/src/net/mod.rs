//! What TCP and RDMA verbs share: connections, admission, and frames.
//!
//! An agent listens for TCP connections and admits clients under its [grants](admission). Each
//! fabric then serves its clients in its own way: TCP with threads that execute verbs, RDMA verbs
//! with the NIC. An endpoint keeps one connection to each of its peers, detects its end, and
//! reconnects in the background.

pub mod admission;
pub(crate) mod agent;
mod audit;
mod backoff;
pub(crate) mod dialer;
mod hangup;
mod network;
mod options;
pub(crate) mod peers;
mod posted;
pub(crate) mod rate;
mod redial;
pub(crate) mod room;
mod secured;
pub(crate) mod socket;
pub(crate) mod spin;
pub(crate) mod stream;
pub mod tls;
pub mod wire;

/// Connections that may wait at a socket to be accepted, where the system allows so many
/// (`net.core.somaxconn`). The standard library asks for 128.
pub const BACKLOG: i32 = 1024;

pub use agent::{AgentCounters, UnauthenticatedClients};
pub(crate) use audit::Reports;
pub use audit::{Audit, AuditEvent, AuditKind, LineLimit, utc_time};
pub use backoff::Backoff;
pub use network::{Network, NoNetwork};
pub use options::{ConnectOptions, ServeOptions};
pub use posted::Posted;
pub(crate) use posted::{Answer, Arrivals, Slots};
pub use rate::Rate;
pub use secured::Socket;
