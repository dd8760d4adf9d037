//! What an agent counts.

use crate::error::{Refusal, VerbFailure};
use crate::{FabricError, VerbKind};
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
    /// The same by reason, in the order of [`Refusal::NAMES`].
    pub refused_by: [u64; Refusal::NAMES.len()],
    /// Connections that were closed because of a malformed frame.
    pub malformed: u64,
    /// Verbs that were answered, those with an error included.
    pub verbs: u64,
    /// The same by [`VerbKind`].
    pub verbs_by: [u64; VerbKind::COUNT],
    /// Payload bytes of reads, gathers, atomics and replies.
    pub bytes_read: u64,
    /// Payload bytes of writes, messages and requests.
    pub bytes_written: u64,
    /// Verbs that were answered with an error.
    pub failed_verbs: u64,
    /// The same by [`VerbFailure`].
    pub failed_by: [u64; VerbFailure::ALL.len()],
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
    /// Grants in force.
    pub grants: usize,
}

/// The counters of all threads of an agent.
#[derive(Default)]
pub(crate) struct AgentTotals {
    pub(crate) connections: AtomicUsize,
    pub(crate) accepted: AtomicU64,
    pub(crate) admitted: AtomicU64,
    refused_by: [AtomicU64; Refusal::NAMES.len()],
    pub(crate) malformed: AtomicU64,
    verbs_by: [AtomicU64; VerbKind::COUNT],
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    failed_by: [AtomicU64; VerbFailure::ALL.len()],
    pub(crate) turned_away: AtomicU64,
    pub(crate) cut_off: AtomicU64,
    pub(crate) no_room: AtomicU64,
    pub(crate) revoked: AtomicU64,
}

impl AgentTotals {
    /// Counts a client that was refused; without a [`Refusal`] where no TLS could be agreed on.
    pub(crate) fn client_refused(&self, refusal: Option<Refusal>) {
        count(&self.refused_by[refusal.map_or(0, Refusal::code)], 1);
    }

    /// Counts a verb that was answered with an error.
    pub(crate) fn verb_failed(&self, error: &FabricError) {
        count(&self.failed_by[VerbFailure::of(error) as usize], 1);
    }

    /// Adds the verbs of a turn.
    #[inline]
    pub(crate) fn add(&self, moved: &TurnTraffic) {
        let add = |counter, more| {
            if more > 0 {
                count(counter, more);
            }
        };
        for (counter, verbs) in self.verbs_by.iter().zip(moved.verbs) {
            add(counter, verbs);
        }
        add(&self.bytes_read, moved.bytes_read);
        add(&self.bytes_written, moved.bytes_written);
    }

    /// What was counted so far, where there are so many grants, and the connections hold so many
    /// bytes.
    pub(crate) fn snapshot(&self, grants: usize, held_bytes: usize) -> AgentCounters {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let refused_by = std::array::from_fn(|reason| get(&self.refused_by[reason]));
        let verbs_by = std::array::from_fn(|kind| get(&self.verbs_by[kind]));
        let failed_by = std::array::from_fn(|reason| get(&self.failed_by[reason]));
        AgentCounters {
            connections: self.connections.load(Ordering::Relaxed),
            accepted: get(&self.accepted),
            admitted: get(&self.admitted),
            refused: refused_by.iter().sum(),
            refused_by,
            malformed: get(&self.malformed),
            verbs: verbs_by.iter().sum(),
            verbs_by,
            bytes_read: get(&self.bytes_read),
            bytes_written: get(&self.bytes_written),
            failed_verbs: failed_by.iter().sum(),
            failed_by,
            turned_away: get(&self.turned_away),
            cut_off: get(&self.cut_off),
            no_room: get(&self.no_room),
            revoked: get(&self.revoked),
            held_bytes,
            grants,
        }
    }
}

/// The verbs of one turn of a connection, added to the [`AgentTotals`] at its end.
#[derive(Default)]
pub(crate) struct TurnTraffic {
    verbs: [u64; VerbKind::COUNT],
    bytes_read: u64,
    bytes_written: u64,
}

impl TurnTraffic {
    /// Counts a verb.
    #[inline]
    pub(crate) fn verb(&mut self, kind: VerbKind) {
        self.verbs[kind as usize] += 1;
    }

    /// Counts bytes that its client is sent.
    #[inline]
    pub(crate) fn read(&mut self, bytes: u64) {
        self.bytes_read += bytes;
    }

    /// Counts bytes that its client has sent.
    #[inline]
    pub(crate) fn written(&mut self, bytes: u32) {
        self.bytes_written += u64::from(bytes);
    }

    /// All verbs that were counted.
    #[inline]
    pub(crate) fn verbs(&self) -> u64 {
        self.verbs.iter().sum()
    }
}

#[inline]
pub(crate) fn count(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}
