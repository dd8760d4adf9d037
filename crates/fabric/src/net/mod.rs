//! What TCP and RDMA verbs share: connections between endpoints and agents, how clients are admitted, and the
//! frames of both.
//!
//! An agent listens for TCP connections and admits clients under its [grants](admission); what then serves a
//! client (threads that execute verbs, or a NIC) is the fabric's. On the other side an endpoint has a connection
//! to each of its peers, watches for its end, and reconnects in the background.

pub mod admission;
pub(crate) mod agent;
mod backoff;
pub(crate) mod dialer;
mod hangup;
mod options;
pub(crate) mod peers;
mod posted;
mod redial;
pub(crate) mod socket;
pub(crate) mod spin;
pub(crate) mod stream;
pub mod wire;

pub use agent::AgentCounters;
pub use backoff::Backoff;
pub use options::{ConnectOptions, ServeOptions};
pub use posted::Posted;
pub(crate) use posted::{Answer, Arrivals, Slots};
