//! The gateway over a real socket.

#[path = "../../../fabric/tests/common/authority.rs"]
mod authority;
mod beside_redis;
mod client;
mod commands;
mod floods;
mod hostile;
mod limits;
mod metrics;
mod scans;
mod slow_log;
mod tls;
#[path = "../../../fabric/tests/common/tls_stream.rs"]
mod tls_stream;
mod together;
mod transactions;
mod users;
