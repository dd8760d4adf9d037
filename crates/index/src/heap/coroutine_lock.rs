//! A lock among the coroutines of a thread.

use farslot_fabric::EndpointCore;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// A lock that the coroutines of a thread take one after the other.
///
/// Those that a callback of a batch runs do not wait for those of the batch, which goes on only
/// behind the callback: they do it beside them.
#[derive(Default)]
pub(super) struct CoroutineLock {
    /// Within how many calls that block the lock was taken; 0 while it is free.
    taken_within: Cell<u32>,
    waiting: RefCell<Vec<Waker>>,
}

/// The lock, held; `None` of a coroutine that goes on beside its holder.
pub(super) struct CoroutineLockGuard<'t>(Option<&'t CoroutineLock>);

impl CoroutineLockGuard<'_> {
    /// Whether nobody else has it.
    pub(super) const fn is_alone(&self) -> bool {
        self.0.is_some()
    }
}

impl CoroutineLock {
    pub(super) async fn take(&self, core: &EndpointCore) -> CoroutineLockGuard<'_> {
        poll_fn(|cx| {
            // Whoever drives its futures by itself blocks nobody.
            let (taken, nesting) = (self.taken_within.get(), core.nesting().max(1));
            if taken == 0 {
                self.taken_within.set(nesting);
                return Poll::Ready(CoroutineLockGuard(Some(self)));
            }
            if nesting <= taken {
                let mut waiting = self.waiting.borrow_mut();
                if !waiting
                    .last()
                    .is_some_and(|last| last.will_wake(cx.waker()))
                {
                    waiting.push(cx.waker().clone());
                }
                return Poll::Pending;
            }
            Poll::Ready(CoroutineLockGuard(None))
        })
        .await
    }
}

impl Drop for CoroutineLockGuard<'_> {
    fn drop(&mut self) {
        if let Some(lock) = self.0 {
            lock.taken_within.set(0);
            lock.waiting.take().into_iter().for_each(Waker::wake);
        }
    }
}
