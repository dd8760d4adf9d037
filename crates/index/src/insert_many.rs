//! Inserting keys where the memory is mapped, by the only writer of a table: what is common, without
//! waiting.
//!
//! Writes are done one after the other, some at a time, for which what they probably change is fetched
//! together. Most are of new keys that have room, with nobody in the way: these are done at once, with
//! the words and in the order of the scheme's protocol over verbs, and booked as it does. All others
//! are left to that.

use crate::client::let_others_run;
use crate::{Index, Operation, Outcome, Result, SchemeClient};
use farslot_fabric::Endpoint;

/// Writes whose memory is fetched together.
pub(crate) const RUN: usize = 16;

/// A client that is the only writer of its table, and can insert at once.
pub(crate) trait InsertAtOnce: SchemeClient {
    /// Has fetched what these writes, at most [`RUN`], probably change.
    fn prefetch_writes(&self, writes: &[Operation<'_>]);

    /// Inserts a key that is new into a free slot that it can have; returns whether there is enough to
    /// tell others. Nothing if the write is another one, or has to wait for something, and then nothing
    /// has changed.
    fn insert_at_once(&self, write: &Operation<'_>) -> Option<Result<bool>>;

    /// Does what is left to do when a key was inserted at once.
    async fn inserted(&self, is_report_due: bool);
}

/// Does writes one after the other.
pub(crate) async fn write_in_turn<T: InsertAtOnce>(
    table: &T,
    writes: &[Operation<'_>],
    mut done: impl FnMut(usize, Result<Outcome>),
) {
    for (run, writes) in writes.chunks(RUN).enumerate() {
        table.prefetch_writes(writes);
        for (number, write) in (run * RUN..).zip(writes) {
            let outcome = match table.insert_at_once(write) {
                Some(Ok(is_report_due)) => {
                    table.inserted(is_report_due).await;
                    Ok(write.outcome(None))
                }
                Some(Err(error)) => Err(error),
                None => Index::run(table, *write).await,
            };
            done(number, outcome);
        }
        let mut turns = 0..writes.len().div_ceil(8);
        if turns.any(|_| SchemeClient::endpoint(table).core().is_turn_over()) {
            let_others_run().await;
        }
    }
}
