//! What all threads of a gateway share.

use crate::commands::all;
use crate::failure::CODES;
use farslot::fabric::tcp::LineLimit;
use farslot::{LATENCY_BOUNDS, Secret, Sweeper};
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

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
    pub(crate) latencies: Latencies,
    pub(crate) sweeper: Arc<Sweeper>,
    pub(crate) notices: Notices,
}

/// What clients do that its owner wants to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Notice {
    /// A secret was wrong.
    WrongSecret,
    /// A connection began as HTTP.
    Http,
    /// A connection held the buffers that others need.
    Evicted,
}

/// Tells of what clients do, in the log. Anybody can cause these events: of each kind there are at
/// most ten lines a second.
#[derive(Debug, Default)]
pub(crate) struct Notices(Mutex<[LineLimit; 3]>);

impl Notices {
    /// Tells of what one at this address has done.
    pub(crate) fn tell(&self, notice: Notice, peer: Option<SocketAddr>) {
        let mut limits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(left_out) = limits[notice as usize].line() else {
            return;
        };
        drop(limits);
        if left_out > 0 {
            log::warn!("{left_out} more like the next one");
        }
        let peer = peer.map_or_else(|| "a client".into(), |peer| peer.to_string());
        match notice {
            Notice::WrongSecret => log::warn!("{peer} gave the Redis gateway a wrong secret"),
            Notice::Http => log::warn!("{peer} speaks HTTP to the Redis gateway: closed"),
            Notice::Evicted => log::warn!(
                "closing the connection of {peer}: it holds buffers of the Redis gateway that others need"
            ),
        }
    }
}

/// What a gateway has counted.
#[derive(Debug)]
pub(crate) struct Counts {
    /// Connections now.
    pub(crate) connected: AtomicU64,
    /// Connections so far.
    pub(crate) accepted: AtomicU64,
    /// Connections that were one too many.
    pub(crate) turned_away: AtomicU64,
    /// Secrets that were wrong.
    pub(crate) refused: AtomicU64,
    /// Connections that were closed because others needed their buffers.
    pub(crate) evicted: AtomicU64,
    /// Connections that began as HTTP.
    pub(crate) http: AtomicU64,
    pub(crate) commands: AtomicU64,
    /// Those that are known, by their numbers.
    pub(crate) by_command: Vec<AtomicU64>,
    /// Errors that clients were told, by the numbers of their codes.
    pub(crate) errors: [AtomicU64; CODES.len()],
}

impl Default for Counts {
    fn default() -> Self {
        let zero = AtomicU64::default;
        Self {
            connected: zero(),
            accepted: zero(),
            turned_away: zero(),
            refused: zero(),
            evicted: zero(),
            http: zero(),
            commands: zero(),
            by_command: all().map(|_| zero()).collect(),
            errors: Default::default(),
        }
    }
}

/// How often commands have taken how long.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    pub(crate) counts: [AtomicU64; LATENCY_BOUNDS.len() + 1],
    /// Nanoseconds in all.
    pub(crate) sum: AtomicU64,
}

impl Latencies {
    /// Counts commands that were done together.
    pub(crate) fn add(&self, commands: u64, took: Duration) {
        let took = took.as_nanos() as u64;
        let class = LATENCY_BOUNDS.partition_point(|bound| *bound < took);
        self.counts[class].fetch_add(commands, Relaxed);
        self.sum.fetch_add(took.saturating_mul(commands), Relaxed);
    }
}
