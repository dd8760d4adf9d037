//! What all peers of an endpoint share.

use super::connect::NicResources;
use crate::net::Slots;
use crate::verbs::memory::FoundWords;
use crate::verbs::work::ScatterGatherEntry;
use crate::{Buffer, Nanos};

/// How many verbs and requests have completed, or failed.
#[derive(Clone, Copy, Default)]
pub(super) struct CompletionCount {
    pub(super) verbs: usize,
    pub(super) requests: usize,
}

impl std::ops::AddAssign for CompletionCount {
    fn add_assign(&mut self, more: Self) {
        self.verbs += more.verbs;
        self.requests += more.requests;
    }
}

/// What all peers of an endpoint share.
pub(super) struct PeerContext<'e> {
    pub(super) slots: &'e Slots,
    pub(super) found: &'e FoundWords,
    pub(super) nic: &'e NicResources,
    pub(super) inline_bytes: u32,
    pub(super) verb_timeout: Nanos,
}

/// The bytes of a buffer from `start` on, for the NIC.
#[inline]
pub(super) fn local(buffer: &Buffer, start: usize, bytes: usize) -> ScatterGatherEntry {
    let (address, key) = buffer.place();
    ScatterGatherEntry {
        address: address + start as u64,
        bytes: bytes as u32,
        key,
    }
}
