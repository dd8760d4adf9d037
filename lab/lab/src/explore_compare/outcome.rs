//! What one exploration came to.

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
