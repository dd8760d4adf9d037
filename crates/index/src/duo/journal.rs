//! Slots in which a new record stands while it is written over the old one.
//!
//! A record of more than a word cannot be overwritten at one moment: an owner that died in between would
//! leave neither the old nor the new one. So it is first written whole to a slot of the journal; a live
//! slot of the journal is always the last word on its key.

use super::layout::DuoLayout;
use super::placement::SlotNumber;
use std::cell::RefCell;
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// The journal's slots that are not in use.
pub(super) struct Journal {
    free: RefCell<Vec<SlotNumber>>,
    waiting: RefCell<Vec<Waker>>,
}

impl Journal {
    pub(super) fn new(layout: &DuoLayout) -> Self {
        Self {
            free: RefCell::new(layout.journal().collect()),
            waiting: RefCell::default(),
        }
    }

    /// A slot, once there is one; nothing as soon as `given_up`.
    pub(super) async fn take(&self, given_up: impl Fn() -> bool) -> Option<SlotNumber> {
        poll_fn(|cx| {
            if given_up() {
                return Poll::Ready(None);
            }
            if let Some(slot) = self.free.borrow_mut().pop() {
                return Poll::Ready(Some(slot));
            }
            let mut waiting = self.waiting.borrow_mut();
            if !waiting.iter().any(|known| known.will_wake(cx.waker())) {
                waiting.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await
    }

    /// Gives back a slot that is dead.
    pub(super) fn give_back(&self, slot: SlotNumber) {
        self.free.borrow_mut().push(slot);
        self.wake();
    }

    /// Lets those who wait look again.
    pub(super) fn wake(&self) {
        self.waiting.take().into_iter().for_each(Waker::wake);
    }

    /// All slots are dead, and in nobody's use.
    pub(super) fn reset(&self, layout: &DuoLayout) {
        self.free.replace(layout.journal().collect());
        self.wake();
    }
}
