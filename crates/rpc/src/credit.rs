//! A client's slots: lent to one request each, and waited for in order.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// The slots of a session.
pub(crate) struct Credit {
    /// Of each slot the number of its newest request.
    numbers: RefCell<Vec<u32>>,
    free: RefCell<Vec<u16>>,
    waiting: RefCell<VecDeque<Rc<CreditWaiter>>>,
}

#[derive(Default)]
struct CreditWaiter {
    given: Cell<Option<u16>>,
    waker: RefCell<Option<Waker>>,
}

/// A slot, until it is dropped.
pub(crate) struct Slot<'c> {
    credit: &'c Credit,
    pub(crate) slot: u16,
    /// The request's.
    pub(crate) number: u32,
}

impl Credit {
    pub(crate) fn new(slots: u16) -> Self {
        Self {
            numbers: RefCell::new(vec![0; usize::from(slots)]),
            free: RefCell::new((0..slots).rev().collect()),
            waiting: RefCell::default(),
        }
    }

    /// A slot for the next request, once there is one.
    pub(crate) async fn slot(&self) -> Slot<'_> {
        if self.waiting.borrow().is_empty()
            && let Some(slot) = self.take_free()
        {
            return self.lend(slot);
        }
        let place = WaiterGuard {
            credit: self,
            waiting: Rc::default(),
        };
        self.waiting
            .borrow_mut()
            .push_back(Rc::clone(&place.waiting));
        let slot = poll_fn(|cx| match place.waiting.given.take() {
            Some(slot) => Poll::Ready(slot),
            None => {
                *place.waiting.waker.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            }
        });
        self.lend(slot.await)
    }

    fn take_free(&self) -> Option<u16> {
        self.free.borrow_mut().pop()
    }

    fn lend(&self, slot: u16) -> Slot<'_> {
        let number = &mut self.numbers.borrow_mut()[usize::from(slot)];
        *number = number.wrapping_add(1);
        Slot {
            credit: self,
            slot,
            number: *number,
        }
    }

    /// Gives a slot to the one that has waited longest.
    fn give_back(&self, slot: u16) {
        let Some(first) = self.waiting.borrow_mut().pop_front() else {
            return self.free.borrow_mut().push(slot);
        };
        first.given.set(Some(slot));
        if let Some(waker) = first.waker.take() {
            waker.wake();
        }
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.credit.give_back(self.slot);
    }
}

/// A place in the queue, until the wait has ended or was given up.
struct WaiterGuard<'c> {
    credit: &'c Credit,
    waiting: Rc<CreditWaiter>,
}

impl Drop for WaiterGuard<'_> {
    fn drop(&mut self) {
        match self.waiting.given.take() {
            Some(slot) => self.credit.give_back(slot),
            None => {
                let mut waiting = self.credit.waiting.borrow_mut();
                waiting.retain(|other| !Rc::ptr_eq(other, &self.waiting));
            }
        }
    }
}
