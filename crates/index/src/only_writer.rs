//! Writes where the memory is mapped, by the only writer of a table: what is common, without
//! waiting.
//!
//! Writes are done one after the other, some at a time, for which what they probably change is
//! fetched together. Most are of new keys that have room, or of keys that are there, with nobody in
//! the way: these are done at once, with the words and in the order of the scheme's protocol over
//! verbs, and booked as it does. All others are left to that.

use crate::at_once::Work;
use crate::client::end_turns;
use crate::heap::Heap;
use crate::{Index, Operation, Outcomes, Result, SchemeClient, Value};
use farslot_fabric::Endpoint;

/// Writes whose memory is fetched together.
pub(crate) const RUN: usize = 16;

/// A client that is the only writer of its table, and does most writes at once.
pub(crate) trait OnlyWriter: SchemeClient {
    /// The heap of a table whose records may lie out of band.
    fn of_heap(&self) -> Option<&Heap<Self::Endpoint>>;

    /// The hash of a key, of whatever length.
    fn hash_of(&self, key: &[u8]) -> u64;

    /// Has fetched what writes of keys with these hashes, at most [`RUN`], probably change.
    fn prefetch_writes(&self, hashes: &[u64]);

    /// Does a write whose key has this hash; returns the value that the key had, as far as that
    /// matters to the write, if it was there. Nothing if it is not a write that can be done at
    /// once, or has to wait for something, and then nothing has changed.
    fn write_at_once(
        &self,
        write: &Operation<'_>,
        hash: u64,
        work: &mut Work,
    ) -> Option<Result<Option<Value>>>;

    /// Does what is left to do behind a write that was done at once.
    async fn after(&self, write: &Operation<'_>, hash: u64, was_there: bool, work: &mut Work);
}

/// Does writes one after the other.
pub(crate) async fn write_in_turn<T: OnlyWriter>(
    table: &T,
    writes: &[Operation<'_>],
    mut done: impl FnMut(Outcomes<'_>),
) {
    let mut work = Work::of(table.of_heap());
    for (run, writes) in writes.chunks(RUN).enumerate() {
        table.of_heap().inspect(|heap| work.look(heap));
        let mut hashes = [0; RUN];
        for (hash, write) in hashes.iter_mut().zip(writes) {
            *hash = table.hash_of(write.key());
        }
        table.prefetch_writes(&hashes[..writes.len()]);
        for ((number, write), hash) in (run * RUN..).zip(writes).zip(hashes) {
            let outcome = match table.write_at_once(write, hash, &mut work) {
                Some(Ok(was)) => {
                    table.after(write, hash, was.is_some(), &mut work).await;
                    Ok(write.outcome(was))
                }
                Some(Err(error)) => Err(error),
                None => {
                    let outcome = Index::run(table, *write).await;
                    table.of_heap().inspect(|heap| work.look(heap));
                    outcome
                }
            };
            done(Outcomes::One(number, outcome));
        }
        end_turns(SchemeClient::endpoint(table).core(), writes.len()).await;
    }
    work.end(table.of_heap());
}
