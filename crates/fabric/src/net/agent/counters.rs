//! What an agent counts.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What an agent has counted so far.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct AgentCounters {
    /// Connections now, those in their handshake included.
    pub connections: usize,
    /// Connections that were ever accepted.
    pub accepted: u64,
    /// Clients that were admitted.
    pub admitted: u64,
    /// Clients that were refused.
    pub refused: u64,
    /// Connections that were closed because of a malformed frame.
    pub malformed: u64,
    /// Verbs that were answered, those with an error included.
    pub verbs: u64,
    /// Verbs that were answered with an error.
    pub failed_verbs: u64,
    /// Connections that were closed before their clients were admitted, because there were too many
    /// such connections, or too many in all.
    pub turned_away: u64,
    /// Clients that were cut off because of verbs that were refused again and again.
    pub cut_off: u64,
    /// Clients that were cut off because there was no room for their unfinished verbs.
    pub no_room: u64,
    /// Connections that were closed because their grants were revoked.
    pub revoked: u64,
    /// Bytes that all connections hold now: of verbs that have not arrived whole, and of answers
    /// that are not taken.
    pub held_bytes: usize,
}

/// The counters of all threads of an agent.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) connections: AtomicUsize,
    pub(crate) accepted: AtomicU64,
    pub(crate) admitted: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) malformed: AtomicU64,
    pub(crate) verbs: AtomicU64,
    pub(crate) failed_verbs: AtomicU64,
    pub(crate) turned_away: AtomicU64,
    pub(crate) cut_off: AtomicU64,
    pub(crate) no_room: AtomicU64,
    pub(crate) revoked: AtomicU64,
}

impl Tally {
    /// What was counted so far, where the connections hold so many bytes.
    pub(crate) fn snapshot(&self, held_bytes: usize) -> AgentCounters {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        AgentCounters {
            connections: self.connections.load(Ordering::Relaxed),
            accepted: get(&self.accepted),
            admitted: get(&self.admitted),
            refused: get(&self.refused),
            malformed: get(&self.malformed),
            verbs: get(&self.verbs),
            failed_verbs: get(&self.failed_verbs),
            turned_away: get(&self.turned_away),
            cut_off: get(&self.cut_off),
            no_room: get(&self.no_room),
            revoked: get(&self.revoked),
            held_bytes,
        }
    }
}

#[inline]
pub(crate) fn count(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}
