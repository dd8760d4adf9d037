//! The options of a TCP agent beyond those that all agents share.

use crate::Result;
use crate::net::ServeOptions;
use crate::net::agent::Workers;
use crate::net::spin;
use std::time::Duration;

/// How an [`Agent`](super::Agent) serves.
#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// Where it listens, and which clients it accepts.
    pub serve: ServeOptions,
    /// Threads; connections are spread over them.
    pub threads: usize,
    /// The longest that a thread polls for verbs after the last one before it sleeps. Polling takes
    /// a whole core; where it has not paid off lately, because verbs came later or others wanted
    /// the core, the thread sleeps at once.
    pub spin: Duration,
    /// The most bytes of a frame, and of the answer to one verb; at least 4 KiB and less than 32
    /// GiB. An endpoint's largest buffer with a few words around it should fit. A connection's
    /// unfinished verb takes up to this much memory.
    pub frame_bytes: usize,
    /// While this many bytes of answers wait for a client to take them, none of its verbs is
    /// executed and nothing is read from it; the answer to one verb may exceed it.
    pub unsent_bytes: usize,
}

impl Default for AgentOptions {
    fn default() -> Self {
        Self {
            serve: ServeOptions::default(),
            threads: 1,
            spin: spin::DEFAULT,
            frame_bytes: (4 << 20) + 4096,
            unsent_bytes: 256 << 10,
        }
    }
}

impl AgentOptions {
    /// Refuses what [`Agent::start`](super::Agent::start) would refuse, as far as that shows
    /// without listening.
    ///
    /// # Errors
    /// [`BadOption`](crate::FabricError::BadOption); as [`ServeOptions::check`].
    pub fn check(&self) -> Result<()> {
        self.workers().check()?;
        self.serve.check()
    }

    pub(super) fn workers(&self) -> Workers {
        Workers {
            threads: self.threads,
            spin: self.spin,
            frame_bytes: self.frame_bytes,
            unsent_bytes: self.unsent_bytes,
        }
    }
}

impl From<ServeOptions> for AgentOptions {
    fn from(serve: ServeOptions) -> Self {
        Self {
            serve,
            ..Self::default()
        }
    }
}
