//! What the clients of every scheme do alike: counting together, waiting for what is not whole yet,
//! running verbs side by side, and visiting a table piece by piece.

mod buckets;
mod counts;
pub mod locks;
#[cfg(test)]
mod locks_models;
#[cfg(test)]
mod locks_tests;
mod parts;
pub(crate) mod scan;
mod sync;

pub(crate) use buckets::BucketCounter;
pub use buckets::BucketCounts;
pub(crate) use counts::Counts;
pub(crate) use parts::Parts;

use crate::{IndexError, Result};
use farslot_fabric::{Endpoint, EndpointCore, EndpointExt, let_others_run, window};

/// How often a slot is read before its record is called unreadable, or a lookup begun before it
/// gives up.
pub(crate) const MOST_READS: u32 = 100;

/// READs, one after the other, that are many for a lookup.
pub(crate) const MANY_READS: u32 = 4;

/// Waits before a slot is read again: not the first time, then ever longer.
///
/// # Errors
/// [`IndexError::TurnOver`] where the operation is a call's, and so may not wait, or has worked for
/// long enough.
pub(crate) async fn pause<E: Endpoint>(endpoint: &E, attempt: u32) -> Result<()> {
    if attempt == 0 {
        return check_turn(endpoint);
    }
    if !endpoint.core().may_wait() {
        return Err(TURN_OVER);
    }
    endpoint.sleep(1_000 << attempt.min(10)).await;
    Ok(())
}

/// The error of an operation of a call that has changed nothing.
pub(crate) const TURN_OVER: IndexError = IndexError::TurnOver { in_doubt: false };

/// Refuses to go on with an operation of a call that has worked for long enough: to be asked before
/// each step of what may have many.
///
/// # Errors
/// [`IndexError::TurnOver`].
#[inline]
pub(crate) fn check_turn<E: Endpoint>(endpoint: &E) -> Result<()> {
    match endpoint.core().may_work(|| endpoint.now()) {
        true => Ok(()),
        false => Err(TURN_OVER),
    }
}

/// Runs jobs side by side, at most `width` at a time, and gives what each comes to with its number
/// to `done`. All are run to their ends; if some fail, this does.
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

/// Lets the other tasks run, if so many operations of a batch that were done at once have ended
/// this one's turn: several of a batch count as one operation that is run by itself.
pub(crate) async fn end_turns(core: &EndpointCore, operations: usize) {
    let mut turns = 0..operations.div_ceil(8);
    if turns.any(|_| core.is_turn_over()) {
        let_others_run().await;
    }
}
