//! Lookups as steps: a scheme says its lookup once, and several drivers run it.
//!
//! A [`Lookup`] says which bytes it wants to have read next and, when they are here, what they
//! mean: an answer, or more to read. Between two steps it has its [`Lookup::Search`], plain data;
//! it has no future, no buffer, and books nothing. What cannot be decided by READs alone (a pause
//! before a slot is read again, a directory to be read on, a bucket to be held) is an
//! [aside](Next::Aside), which the scheme does itself as a future, and comes back from.
//!
//! The drivers:
//!
//! * [`drive`]: one lookup as a future over verbs. Whatever else cannot go on, goes on so.
//! * [`lanes`]: many lookups side by side over verbs, each in a lane, without a future.
//! * [`in_place`]: where the memory is mapped, the steps run on the memory itself.
//!
//! They differ in who does the READs, never in which, and book the same: an operation with its
//! verbs, bytes and round trips ([`Storm`](https://arxiv.org/abs/1902.02411) splits its lookups so,
//! `lookup_start` and `lookup_end`, to run them at the client and at the owner).

mod drive;
mod in_place;
mod lanes;
mod lookup;
mod mapped;
mod received;

use crate::client::let_others_run;
use drive::drive;
pub(crate) use drive::drive_while;
use farslot_fabric::Endpoint;
use lookup::Answer;
pub(crate) use lookup::{Found, Lookup, MOST_PIECES, Next, Read, Reads, failed, view};

/// Looks a key up.
#[inline]
pub(crate) async fn find<L: Lookup>(table: &L, bytes: &[u8]) -> Answer {
    let key = table.key(bytes)?;
    let mut search = L::Search::default();
    table.prepare(&key, &mut search);
    let next = table.begin(&key, &mut search);
    let answer = drive(table, &key, &mut search, next).await;
    // In place it has not waited, and who looks up one key after the other shall not keep all
    // others waiting.
    if table.in_place().is_some() && table.endpoint().core().is_turn_over() {
        let_others_run().await;
    }
    answer
}

/// Looks up many keys; `done` gets each answer with the key's number, in the order in which they
/// come.
pub(crate) async fn find_many<'k, L: Lookup>(
    table: &L,
    keys: impl IntoIterator<Item = &'k [u8]>,
    mut done: impl FnMut(usize, Answer),
) {
    let mut keys = keys.into_iter().enumerate();
    in_place::find_many(table, &mut keys, &mut done).await;
    lanes::find_many(table, keys, done).await;
}
