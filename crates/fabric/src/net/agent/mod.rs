//! The owner's side: threads that accept clients, admit them, and pass them to a [`Service`].
//!
//! Each thread owns its connections; threads share only the memory, the grants and the counters.
//! The memory that one client can tie up is bounded: one unfinished verb, and answers up to a
//! limit. Past that limit the agent stops reading from the client until it has taken its answers.

mod accept;
mod admit;
mod connection;
mod counters;
mod dialogue;
mod server;
mod service;
mod session;
mod shared;
mod worker;

pub use counters::AgentCounters;
pub(crate) use counters::{Warnings, count};
pub(crate) use dialogue::{Dialogue, End, Warn};
pub(crate) use server::Server;
pub(crate) use service::{Client, Pause, Serve, Served, Service, Tell};
pub(crate) use shared::{Shared, Workers};
