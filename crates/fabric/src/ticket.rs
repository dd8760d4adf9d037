//! Answers to calls that come after the calls' handlers have returned, from whatever thread.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// The right and the duty to answer one call later, from any thread. Where it is dropped without an
/// answer, the call fails with [`FabricError::Unanswered`](crate::FabricError::Unanswered).
///
/// ```
/// use farslot_fabric::shm::{Node, RegionSpec, ShmEndpoint};
/// use farslot_fabric::{
///     Call, CallAnswer, Endpoint, EndpointExt, Executor, Handler, Limits, NodeId, RegionId,
///     Rights, Ticket,
/// };
/// use std::rc::Rc;
/// use std::sync::mpsc::{Sender, channel};
/// use std::sync::{Arc, Mutex};
///
/// /// Leaves all calls to another thread.
/// struct Leaves(Mutex<Sender<(Vec<u8>, Ticket)>>);
///
/// impl Handler for Leaves {
///     fn handle(&self, call: Call<'_>) -> CallAnswer {
///         let (ticket, later) = call.later();
///         // If the thread has ended, the ticket is dropped, and the caller is told.
///         let _ = self.0.lock().unwrap().send((call.request.to_vec(), ticket));
///         CallAnswer::Later(later)
///     }
/// }
///
/// let (sender, calls) = channel();
/// let node = Node::embedded(&[RegionSpec { len: 64, rights: Rights::CALL }])?;
/// node.serve_calls(Arc::new(Leaves(Mutex::new(sender))));
/// std::thread::spawn(move || {
///     for (mut request, ticket) in calls {
///         request.reverse();
///         ticket.answer(request);
///     }
/// });
/// let executor = Executor::new(Rc::new(ShmEndpoint::new(vec![node], Limits::default())));
/// let request = executor.endpoint().core().buffers.copy_of(b"later")?;
/// let call = executor.endpoint().call((NodeId(0), RegionId(0)), request, 64);
/// assert_eq!(&*executor.block_on(call)?, b"retal");
/// # Ok::<(), farslot_fabric::FabricError>(())
/// ```
pub struct Ticket {
    slot: Arc<AnswerSlot>,
    room: usize,
}

/// What a handler returns in place of an answer that the call's [`Ticket`] will bring.
pub struct LaterAnswer {
    slot: Arc<AnswerSlot>,
    room: usize,
}

type AnswerSlot = Mutex<AnswerState>;

enum AnswerState {
    /// Nobody has answered; who is to be woken when somebody does.
    Awaited(Option<Waker>),
    Answered(Box<[u8]>),
    /// The ticket was dropped.
    Dropped,
    /// The fabric waits no more: it has the answer, or the caller is gone.
    Over,
}

impl Ticket {
    /// A ticket of a call with room for so many bytes of reply, and what stands for its answer.
    pub(crate) fn open(room: usize) -> (Self, LaterAnswer) {
        let slot = Arc::new(Mutex::new(AnswerState::Awaited(None)));
        let later = LaterAnswer {
            slot: Arc::clone(&slot),
            room,
        };
        (Self { slot, room }, later)
    }

    /// The most bytes of the answer: as much as the caller gave.
    #[must_use]
    pub fn room(&self) -> usize {
        self.room
    }

    /// Answers the call. What there is no room for is cut off. If the caller is gone, nothing
    /// happens.
    pub fn answer(self, mut reply: Vec<u8>) {
        reply.truncate(self.room);
        self.end(AnswerState::Answered(reply.into_boxed_slice()));
    }

    /// Whether somebody waits for the answer still: the caller's connection has not ended.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        matches!(*state_of(&self.slot), AnswerState::Awaited(_))
    }

    fn end(&self, end: AnswerState) {
        let mut state = state_of(&self.slot);
        if !matches!(*state, AnswerState::Awaited(_)) {
            return;
        }
        let before = std::mem::replace(&mut *state, end);
        // The woken may look at once.
        drop(state);
        if let AnswerState::Awaited(Some(waker)) = before {
            waker.wake();
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.end(AnswerState::Dropped);
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("room", &self.room)
            .field("is_awaited", &self.is_awaited())
            .finish_non_exhaustive()
    }
}

impl LaterAnswer {
    /// The same, of which no more than so many bytes are taken.
    pub(crate) fn within(mut self, room: usize) -> Self {
        self.room = self.room.min(room);
        self
    }

    /// The most bytes of the answer.
    pub(crate) fn room(&self) -> usize {
        self.room
    }

    /// Takes the answer, or nothing where the ticket was dropped; if there is neither yet, `waker`
    /// is woken once there is.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<Option<Box<[u8]>>> {
        let mut state = state_of(&self.slot);
        if let AnswerState::Awaited(known) = &mut *state {
            if !known.as_ref().is_some_and(|known| known.will_wake(waker)) {
                *known = Some(waker.clone());
            }
            return Poll::Pending;
        }
        match std::mem::replace(&mut *state, AnswerState::Over) {
            AnswerState::Answered(mut reply) => {
                if reply.len() > self.room {
                    reply = reply[..self.room].into();
                }
                Poll::Ready(Some(reply))
            }
            _ => Poll::Ready(None),
        }
    }
}

impl Drop for LaterAnswer {
    fn drop(&mut self) {
        let before = std::mem::replace(&mut *state_of(&self.slot), AnswerState::Over);
        // A waker may hold anything.
        drop(before);
    }
}

impl fmt::Debug for LaterAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaterAnswer")
            .field("room", &self.room)
            .finish_non_exhaustive()
    }
}

fn state_of(slot: &AnswerSlot) -> MutexGuard<'_, AnswerState> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::task::Wake;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    #[test]
    fn an_answer_is_taken_once_and_wakes_once() {
        let woken = Arc::<Woken>::default();
        let waker = Waker::from(Arc::clone(&woken));
        let (ticket, later) = Ticket::open(5);
        assert!(later.poll(&waker).is_pending() && later.poll(&waker).is_pending());
        assert!(ticket.is_awaited() && ticket.room() == 5);
        std::thread::spawn(|| ticket.answer(b"too long".to_vec()))
            .join()
            .unwrap();
        assert_eq!(woken.0.load(SeqCst), 1);
        assert_eq!(later.poll(&waker), Poll::Ready(Some((*b"too l").into())));

        let (ticket, later) = Ticket::open(5);
        ticket.answer(vec![1; 5]);
        let answer = Poll::Ready(Some([1; 3].into()));
        assert_eq!(later.within(3).poll(&waker), answer);
        assert_eq!(woken.0.load(SeqCst), 1, "nobody waited");
    }

    #[test]
    fn a_ticket_that_is_dropped_tells_and_one_that_nobody_waits_for_does_nothing() {
        let woken = Arc::<Woken>::default();
        let waker = Waker::from(Arc::clone(&woken));
        let (ticket, later) = Ticket::open(8);
        assert!(later.poll(&waker).is_pending());
        drop(ticket);
        assert_eq!(woken.0.load(SeqCst), 1);
        assert_eq!(later.poll(&waker), Poll::Ready(None));

        let (ticket, later) = Ticket::open(8);
        assert!(later.poll(&waker).is_pending());
        drop(later);
        assert!(!ticket.is_awaited());
        drop(waker);
        assert_eq!(Arc::strong_count(&woken), 1, "nothing holds the waker");
        ticket.answer(vec![1; 8]);
        assert_eq!(woken.0.load(SeqCst), 1);
    }
}
