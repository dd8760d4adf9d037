//! How a search runs, and what it tells while it does.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};

/// How to explore.
#[derive(Debug, Clone)]
pub struct Options {
    /// Threads.
    pub threads: NonZeroUsize,
    /// Bytes that the set of states and the levels may take.
    pub memory: u64,
    /// Whether to look for a state that violates the model's invariant, and to stop there. All
    /// levels are kept for that, 8 bytes a state.
    pub check_invariant: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            memory: u64::MAX,
            check_invariant: false,
        }
    }
}

/// Where an exploration is, to be read by other threads.
#[derive(Debug, Default)]
pub struct Progress {
    pub(super) states: AtomicU64,
    pub(super) transitions: AtomicU64,
    pub(super) depth: AtomicU64,
    pub(super) bytes: AtomicU64,
}

impl Progress {
    /// States found so far.
    #[must_use]
    pub fn states(&self) -> u64 {
        self.states.load(Ordering::Relaxed)
    }

    /// Transitions taken so far.
    #[must_use]
    pub fn transitions(&self) -> u64 {
        self.transitions.load(Ordering::Relaxed)
    }

    /// The level that is being expanded.
    #[must_use]
    pub fn depth(&self) -> u64 {
        self.depth.load(Ordering::Relaxed)
    }

    /// Bytes of the set of states.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Tells that a level was reached, with so many bytes in use.
    pub(crate) fn at_level(&self, depth: u64, bytes: u64) {
        self.depth.store(depth, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
    }
}
