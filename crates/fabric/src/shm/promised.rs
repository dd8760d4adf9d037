//! Calls within a process whose handlers have them answered later.

use super::settled::Settled;
use crate::ticket::LaterAnswer;
use crate::{Buffer, FabricError, Nanos, NodeId, RegionId};
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Wake, Waker};
use std::thread::Thread;

/// A call that is answered later.
pub(super) struct PromisedReply {
    pub(super) node: NodeId,
    pub(super) region: RegionId,
    pub(super) later: LaterAnswer,
    pub(super) reply: Buffer,
    /// How long the answer is waited for, and until when.
    pub(super) timeout: Nanos,
    pub(super) deadline: Nanos,
}

/// An endpoint's calls that are answered later. Each ends by itself: nothing travels, so there is
/// no order to keep.
#[derive(Default)]
pub(super) struct PromisedReplies {
    waiting: RefCell<Vec<(PromisedReply, Rc<Settled<Buffer>>)>>,
    /// Ends the sleep of the endpoint's thread.
    bell: OnceCell<Waker>,
}

/// Wakes a thread that is parked.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl PromisedReplies {
    /// How many; they keep their places in the send queue.
    pub(super) fn len(&self) -> usize {
        self.waiting.borrow().len()
    }

    pub(super) fn wait_for(&self, promised: PromisedReply) -> Rc<Settled<Buffer>> {
        let settled = Rc::new(Settled::new());
        let mut waiting = self.waiting.borrow_mut();
        waiting.push((promised, Rc::clone(&settled)));
        settled
    }

    /// Takes the answers that are here, and gives up what has waited too long; returns how many
    /// calls were either.
    pub(super) fn collect(&self, now: Nanos) -> usize {
        let bell = || Waker::from(Arc::new(Unpark(std::thread::current())));
        let bell = self.bell.get_or_init(bell);
        let before = self.len();
        let waiting = self.waiting.take().into_iter();
        let waiting = waiting.filter_map(|(mut promised, settled)| {
            let PromisedReply { node, region, .. } = promised;
            let outcome = match promised.later.poll(bell) {
                Poll::Ready(Some(answer)) => {
                    promised.reply.truncate(answer.len());
                    promised.reply.copy_from_slice(&answer);
                    Ok(promised.reply)
                }
                Poll::Ready(None) => Err(FabricError::Unanswered { node, region }),
                Poll::Pending if now > promised.deadline => {
                    let after = promised.timeout;
                    Err(FabricError::TimedOut { node, after })
                }
                Poll::Pending => return Some((promised, settled)),
            };
            settled.settle(outcome);
            None
        });
        // In place: into the memory that they were in.
        let waiting = waiting.collect();
        self.waiting.replace(waiting);
        before - self.len()
    }
}
