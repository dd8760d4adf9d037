//! The owner's side: threads that accept clients, admit them, and pass them to a [`VerbService`].
//!
//! Each thread owns its connections; threads share only the memory, the grants and the counters.
//!
//! What a client can tie up is bounded. Its rights are checked when a verb's first words are here;
//! memory is taken for bytes that have arrived, never for bytes that are announced; large READs and
//! WRITEs are moved in pieces. What all connections keep between their turns is
//! [counted](super::room) and limited. Connections have their [turns](turns) by grants, and a turn
//! is bounded.

mod accept;
mod admit;
mod connection;
mod counters;
mod dialogue;
mod places;
mod server;
mod service;
mod session;
mod shared;
mod turns;
mod unauthenticated;
mod worker;

pub use counters::AgentCounters;
pub(crate) use counters::{AgentTotals, TurnTraffic, count};
pub(crate) use dialogue::{Dialogue, DisconnectReason, Warn};
pub(crate) use server::Server;
pub(crate) use service::{Client, ExecutionPause, Quota, Serve, ServedNode, Tell, VerbService};
pub(crate) use shared::{AgentCore, Workers};
pub use unauthenticated::UnauthenticatedClients;
