//! What one exploration came to, and how much memory a process has.

use serde::{Deserialize, Serialize};

/// What one exploration came to: one line of JSON.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct OneExplored {
    /// Reachable states.
    pub states: u64,
    /// Seconds of the search.
    pub seconds: f64,
    /// Bytes of the set of states, where the system accounts for them.
    pub set_bytes: Option<u64>,
    /// The most memory that the process had beyond what it began with, where it is one process.
    pub peak_bytes: Option<u64>,
}

/// A field of a process's memory in `/proc/PID/status` (proc(5)), in bytes.
pub(super) fn memory_of(process: &str, field: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}
