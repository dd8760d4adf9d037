//! What is in doubt: slots whose batch failed or was given up, and threads whose verbs may still be
//! under way.

use super::journal::JournalSlots;
use crate::duo::bytes::SlotNumber;
use farslot_fabric::Nanos;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is in doubt.
#[derive(Default)]
pub(in super::super) struct Doubts {
    /// Whether anything is: read without the lock by every operation.
    any: AtomicBool,
    open: Mutex<DoubtSet>,
}

#[derive(Default)]
struct DoubtSet {
    slots: BTreeSet<SlotNumber>,
    /// The threads whose verbs it was, and how long these may still be under way, which the others
    /// wait for.
    threads: BTreeMap<u32, Nanos>,
}

/// Slots that will be in doubt when this is dropped, unless it is resolved. To be dropped before
/// what is held of them: who holds them next sees then that they are in doubt.
pub(in super::super) struct Doubt<'d> {
    doubts: &'d Doubts,
    slots: Option<Vec<SlotNumber>>,
    thread: (u32, Nanos),
    journal: &'d JournalSlots,
}

impl Doubts {
    #[inline]
    pub(in super::super) fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Acquire)
    }

    /// Forgets all, as they were seen to.
    pub(in super::super) fn clear(&self) {
        let mut open = self.open();
        *open = DoubtSet::default();
        self.any.store(false, Ordering::Release);
    }

    fn add(&self, slots: Vec<SlotNumber>, (thread, longest): (u32, Nanos)) {
        let mut open = self.open();
        open.slots.extend(slots);
        open.threads.insert(thread, longest);
        self.any.store(true, Ordering::Release);
    }

    /// The slots that are in doubt.
    pub(in super::super) fn slots(&self) -> Vec<SlotNumber> {
        self.open().slots.iter().copied().collect()
    }

    /// How long verbs of threads other than this one may still be under way; 0 if none can be.
    pub(in super::super) fn longest_of_others(&self, this: u32) -> Nanos {
        let open = self.open();
        let threads = open.threads.iter().filter(|(thread, _)| **thread != this);
        threads.map(|(_, longest)| *longest).max().unwrap_or(0)
    }

    /// No verb of threads other than this one is under way any more.
    pub(in super::super) fn outlived_others(&self, this: u32) {
        let mut open = self.open();
        let threads = open
            .threads
            .iter_mut()
            .filter(|(thread, _)| **thread != this);
        threads.for_each(|(_, longest)| *longest = 0);
    }

    fn open(&self) -> MutexGuard<'_, DoubtSet> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'d> Doubt<'d> {
    /// Of these slots, and of verbs that this thread is about to post, which may take so long.
    pub(in super::super) const fn new(
        doubts: &'d Doubts,
        journal: &'d JournalSlots,
        slots: Vec<SlotNumber>,
        thread: (u32, Nanos),
    ) -> Self {
        Self {
            doubts,
            slots: Some(slots),
            thread,
            journal,
        }
    }

    /// All has taken effect.
    pub(in super::super) fn resolve(mut self) {
        self.slots = None;
    }
}

impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        if let Some(slots) = self.slots.take() {
            self.doubts.add(slots, self.thread);
            // Who waits for a slot of the journal holds what the doubts must have.
            self.journal.wake();
        }
    }
}
