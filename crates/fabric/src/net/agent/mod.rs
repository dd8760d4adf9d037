//! The owner's side: threads that accept clients, admit them and let a [`Service`] serve them.
//!
//! Every thread has connections of its own and shares only the memory, the grants and the counters. What a
//! client can make it hold is bounded: one unfinished verb, answers up to a limit, and then it is not read
//! from until it has taken them.

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
