//! Metrics over real sockets: what they say, health, and hostile clients.

#[path = "../../../fabric/tests/common/authority.rs"]
mod authority;
mod clients;
mod common;
mod hostile;
mod node;
mod packaging;
mod tls;
#[path = "../../../fabric/tests/common/tls_stream.rs"]
mod tls_stream;
