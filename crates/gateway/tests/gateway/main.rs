//! The gateway over a real socket.

mod beside_redis;
mod client;
mod commands;
mod floods;
mod hostile;
mod limits;
mod metrics;
mod scans;
mod together;
