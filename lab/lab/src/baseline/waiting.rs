//! Waiting for what is not whole yet, and running verbs side by side.

use farslot::fabric::{Endpoint, EndpointExt, window};
use farslot::index::Result;
use std::future::Future;

/// How often a slot is read before its record is called unreadable.
pub(super) const MOST_READS: u32 = 100;

/// Waits before a slot is read again: not the first time, then ever longer.
pub(super) async fn pause<E: Endpoint>(endpoint: &E, attempt: u32) {
    if attempt > 0 {
        endpoint.sleep(1_000 << attempt.min(10)).await;
    }
}

/// Runs jobs side by side, at most `width` at a time, all to their ends, and gives what each comes
/// to with its number to `done`; if some fail, this does.
pub(super) async fn side_by_side<T, F: Future<Output = Result<T>>>(
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
