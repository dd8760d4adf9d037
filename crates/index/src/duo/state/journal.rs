//! Slots in which a new record stands while it is written over the old one.
//!
//! A record of more than a word cannot be overwritten at one moment: an owner that died in between
//! would leave neither the old nor the new one. So it is first written whole to a slot of the
//! journal; a live slot of the journal is always the last word on its key.

use crate::client::locks::WaitQueue;
use crate::duo::bytes::{DuoLayout, SlotNumber};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The journal's slots that are not in use.
pub(in super::super) struct JournalSlots {
    free: Mutex<Vec<SlotNumber>>,
    waiting: WaitQueue,
}

impl JournalSlots {
    pub(in super::super) fn new(layout: &DuoLayout) -> Self {
        Self {
            free: Mutex::new(layout.journal().collect()),
            waiting: WaitQueue::default(),
        }
    }

    /// A slot, once there is one; nothing as soon as `given_up`.
    pub(in super::super) async fn take(&self, given_up: impl Fn() -> bool) -> Option<SlotNumber> {
        let attempt = || {
            if given_up() {
                return Some(None);
            }
            self.free().pop().map(Some)
        };
        self.waiting.until(attempt).await
    }

    /// A slot, if there is one now.
    pub(in super::super) fn try_take(&self) -> Option<SlotNumber> {
        self.free().pop()
    }

    /// Gives back a slot that is dead.
    pub(in super::super) fn give_back(&self, slot: SlotNumber) {
        self.free().push(slot);
        self.wake();
    }

    /// Lets those who wait look again.
    pub(in super::super) fn wake(&self) {
        self.waiting.wake();
    }

    /// All slots are dead, and in nobody's use.
    pub(in super::super) fn reset(&self, layout: &DuoLayout) {
        *self.free() = layout.journal().collect();
        self.wake();
    }

    fn free(&self) -> MutexGuard<'_, Vec<SlotNumber>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
