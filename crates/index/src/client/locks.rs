//! Which buckets the one writer's own coroutines are changing. Nothing of this is remote: where there is
//! one writer, it keeps its coroutines apart by itself.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// The buckets that are held.
#[derive(Default)]
pub(crate) struct BucketLocks {
    held: RefCell<HashSet<u64>>,
    /// Whether one operation is alone, or waits until it is.
    alone: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

/// Buckets that one operation holds, until it is dropped.
pub(crate) struct Held<'l> {
    locks: &'l BucketLocks,
    buckets: RefCell<Vec<u64>>,
    alone: bool,
}

impl BucketLocks {
    /// Takes all of these buckets at once, waiting until none is held: so nobody waits while it
    /// holds, and nobody waits for ever.
    pub(crate) async fn take(&self, buckets: &[u64]) -> Held<'_> {
        let free = |held: &HashSet<u64>| buckets.iter().all(|bucket| !held.contains(bucket));
        self.until(|| !self.alone.get() && free(&self.held.borrow()))
            .await;
        self.hold(buckets, false)
    }

    /// Waits until nobody holds anything, and takes these buckets: no other is in the way then.
    pub(crate) async fn take_alone(&self, buckets: &[u64]) -> Held<'_> {
        self.until(|| !self.alone.replace(true)).await;
        // Given back if this is dropped while it waits.
        let turn = self.hold(&[], true);
        self.until(|| self.held.borrow().is_empty()).await;
        for bucket in buckets {
            turn.try_add(*bucket);
        }
        turn
    }

    fn hold(&self, buckets: &[u64], alone: bool) -> Held<'_> {
        self.held.borrow_mut().extend(buckets);
        Held {
            locks: self,
            buckets: RefCell::new(buckets.to_vec()),
            alone,
        }
    }

    async fn until(&self, reached: impl Fn() -> bool) {
        poll_fn(|cx| {
            if reached() {
                return Poll::Ready(());
            }
            let mut waiting = self.waiting.borrow_mut();
            // The coroutines of a batch have one waker.
            if !waiting.iter().any(|known| known.will_wake(cx.waker())) {
                waiting.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}

impl BucketLocks {
    /// Whether somebody holds this bucket.
    pub(crate) fn is_held(&self, bucket: u64) -> bool {
        self.held.borrow().contains(&bucket)
    }
}

impl Held<'_> {
    /// Takes one bucket more, if it is free; never waits.
    pub(crate) fn try_add(&self, bucket: u64) -> bool {
        let free = self.locks.held.borrow_mut().insert(bucket);
        if free {
            self.buckets.borrow_mut().push(bucket);
        }
        free
    }

    /// Takes one bucket more, waiting until it is free. Who holds it must not wait for this one: it holds no
    /// bucket while it waits, or only such as come before it in an order that all keep. Does not wait for who wants
    /// to be alone, and who waits for this one.
    pub(crate) async fn add(&self, bucket: u64) {
        let locks = self.locks;
        locks.until(|| self.try_add(bucket)).await;
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut held = self.locks.held.borrow_mut();
        for bucket in self.buckets.get_mut() {
            held.remove(bucket);
        }
        drop(held);
        if self.alone {
            self.locks.alone.set(false);
        }
        self.locks.waiting.take().into_iter().for_each(Waker::wake);
    }
}
