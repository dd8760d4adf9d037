//! Metrics over real sockets: what they say, health, and hostile clients.

mod clients;
mod common;
mod hostile;
mod node;
mod packaging;
