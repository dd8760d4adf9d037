//! Doing something one after the other, among the coroutines of a thread.

use farslot_fabric::EndpointCore;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// Lets the coroutines of a thread do something one after the other.
///
/// Those that a callback of a batch runs do not wait for those of the batch, which goes on only
/// behind the callback: they do it beside them.
#[derive(Default)]
pub(super) struct CoroutineTurn {
    /// Within how many calls that block the turn was taken; 0 while it is free.
    taken_within: Cell<u32>,
    waiting: RefCell<Vec<Waker>>,
}

/// A turn; nothing of one whose owner goes on beside that of the turn.
pub(super) struct TurnGuard<'t>(Option<&'t CoroutineTurn>);

impl TurnGuard<'_> {
    /// Whether nobody else has it.
    pub(super) const fn is_alone(&self) -> bool {
        self.0.is_some()
    }
}

impl CoroutineTurn {
    pub(super) async fn take(&self, core: &EndpointCore) -> TurnGuard<'_> {
        poll_fn(|cx| {
            // Whoever drives its futures by itself blocks nobody.
            let (taken, nesting) = (self.taken_within.get(), core.nesting().max(1));
            if taken == 0 {
                self.taken_within.set(nesting);
                return Poll::Ready(TurnGuard(Some(self)));
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
            Poll::Ready(TurnGuard(None))
        })
        .await
    }
}

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        if let Some(turn) = self.0 {
            turn.taken_within.set(0);
            turn.waiting.take().into_iter().for_each(Waker::wake);
        }
    }
}
