//! What all threads of a gateway share.

use farslot::{Secret, Sweeper};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;

/// What all threads of a gateway share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) address: SocketAddr,
    pub(crate) secret: Option<Secret>,
    /// The most connections.
    pub(crate) connections: u64,
    /// Bytes that the buffers of one thread's connections may have together.
    pub(crate) buffers: usize,
    pub(crate) started: Instant,
    pub(crate) is_ending: AtomicBool,
    pub(crate) counts: Counts,
    pub(crate) sweeper: Arc<Sweeper>,
}

/// What a gateway has counted.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Connections now.
    pub(crate) connected: AtomicU64,
    /// Connections so far.
    pub(crate) accepted: AtomicU64,
    /// Connections that were one too many.
    pub(crate) turned_away: AtomicU64,
    /// Secrets that were wrong.
    pub(crate) refused: AtomicU64,
    pub(crate) commands: AtomicU64,
}
