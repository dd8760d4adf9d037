//! What the clients of every scheme do alike: counting together, waiting for what is not whole yet,
//! running verbs side by side, and visiting a table piece by piece.

mod counts;
pub(crate) mod locks;
pub(crate) mod scan;

pub(crate) use counts::Counts;

use crate::Result;
use farslot_fabric::{Endpoint, EndpointExt, NodeId, NodeState, window};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// How often a slot is read before its record is called unreadable, or a lookup begun before it
/// gives up.
pub(crate) const MOST_READS: u32 = 100;

/// Whether a node can be reached and is what it was, as far as the endpoint knows.
pub(crate) fn is_up<E: Endpoint>(endpoint: &E, node: NodeId) -> bool {
    matches!(endpoint.node_state(node), Ok(NodeState::Up))
}

/// Waits before a slot is read again: not the first time, then ever longer.
pub(crate) async fn pause<E: Endpoint>(endpoint: &E, attempt: u32) {
    if attempt > 0 {
        endpoint.sleep(1_000 << attempt.min(10)).await;
    }
}

/// Runs jobs side by side, at most `width` at a time, and gives what each comes to with its number to
/// `done`. All are run to their ends; if some fail, this does.
pub(crate) async fn side_by_side<T, F: Future<Output = Result<T>>>(
    width: usize,
    jobs: impl IntoIterator<Item = F>,
    mut done: impl FnMut(usize, T),
) -> Result<()> {
    let mut outcome = Ok(());
    window(width, jobs, |number, result| match result {
        Ok(result) => done(number, result),
        Err(error) => outcome = Err(error),
    })
    .await;
    outcome
}

/// Runs steps whose verbs take effect in order: they leave in one batch, if the send queue has room. None
/// is posted behind one that has failed.
pub(crate) async fn in_order<F: Future<Output = Result<()>>>(steps: Vec<F>) -> Result<()> {
    let (failed, mut outcome) = (Cell::new(false), Ok(()));
    let (width, failed) = (steps.len(), &failed);
    let steps = steps.into_iter().map(async |step| {
        let mut step = pin!(step);
        poll_fn(|cx| {
            if failed.get() {
                return Poll::Ready(Ok(()));
            }
            let done = step.as_mut().poll(cx);
            failed.set(matches!(done, Poll::Ready(Err(_))));
            done
        })
        .await
    });
    window(width, steps, |_, done| {
        if done.is_err() {
            outcome = done;
        }
    })
    .await;
    outcome
}
