//! Writes where the memory is mapped, by the only writer of a table: what is common, without
//! waiting.
//!
//! Writes are done one after the other, some at a time, for which what they probably change is fetched
//! together. Most are of new keys that have room, or of keys that are there, with nobody in the way: these
//! are done at once, with the words and in the order of the scheme's protocol over verbs, and booked as
//! it does. All others are left to that.

use crate::client::end_turns;
use crate::{Index, Operation, Outcomes, Result, SchemeClient, Value};
use farslot_fabric::Endpoint;

/// Writes whose memory is fetched together.
pub(crate) const RUN: usize = 16;

/// What a write has come to that was done at once.
pub(crate) enum AtOnce {
    /// The key is new. Whether there is enough to tell others.
    Inserted { is_report_due: bool },
    /// The key was there: with this value, as far as that matters to the write.
    WasThere(Value),
}

/// A client that is the only writer of its table, and does most writes at once.
pub(crate) trait OnlyWriter: SchemeClient {
    /// The hash of a key, of whatever length.
    fn hash_of(&self, key: &[u8]) -> u64;

    /// Has fetched what writes of keys with these hashes, at most [`RUN`], probably change.
    fn prefetch_writes(&self, hashes: &[u64]);

    /// Does a write whose key has this hash. Nothing if it is not one that can be done at once, or has
    /// to wait for something, and then nothing has changed.
    fn write_at_once(&self, write: &Operation<'_>, hash: u64) -> Option<Result<AtOnce>>;

    /// Does what is left to do when a key was inserted at once.
    async fn inserted(&self, is_report_due: bool);
}

/// Does writes one after the other.
pub(crate) async fn write_in_turn<T: OnlyWriter>(
    table: &T,
    writes: &[Operation<'_>],
    mut done: impl FnMut(Outcomes<'_>),
) {
    for (run, writes) in writes.chunks(RUN).enumerate() {
        let mut hashes = [0; RUN];
        for (hash, write) in hashes.iter_mut().zip(writes) {
            *hash = table.hash_of(write.key());
        }
        table.prefetch_writes(&hashes[..writes.len()]);
        for ((number, write), hash) in (run * RUN..).zip(writes).zip(hashes) {
            let outcome = match table.write_at_once(write, hash) {
                Some(Ok(AtOnce::Inserted { is_report_due })) => {
                    table.inserted(is_report_due).await;
                    Ok(write.outcome(None))
                }
                Some(Ok(AtOnce::WasThere(value))) => Ok(write.outcome(Some(value))),
                Some(Err(error)) => Err(error),
                None => Index::run(table, *write).await,
            };
            done(Outcomes::One(number, outcome));
        }
        end_turns(SchemeClient::endpoint(table).core(), writes.len()).await;
    }
}
