//! Operations as steps: a scheme says its lookup, or its write, once, and several drivers run it.
//!
//! A [`Lookup`] says which bytes it wants to have read next and, when they are here, what they
//! mean: an answer, more to read, or, of a write, a word to be swapped. Between two steps it has
//! its [`Lookup::Search`], plain data; it has no future, no buffer, and books nothing. What cannot
//! be decided so (a pause before a slot is read again, a directory to be read on, a bucket to be
//! held) is an [aside](Next::Aside), which the scheme does itself as a future, and comes back from.
//!
//! The drivers:
//!
//! * [`drive`]: one operation as a future over verbs. Whatever else cannot go on, goes on so.
//! * [`lanes`]: many lookups side by side over verbs, each in a lane, without a future.
//! * [`in_place`]: where the memory is mapped, the steps run on the memory itself.
//!
//! They differ in who does the verbs, never in which, and book the same: an operation with its
//! verbs, bytes and round trips ([`Storm`](https://arxiv.org/abs/1902.02411) splits its lookups so,
//! `lookup_start` and `lookup_end`, to run them at the client and at the owner).

mod drive;
mod in_place;
mod lanes;
mod lookup;
mod mapped;
mod received;

use crate::client::let_others_run;
use crate::{BATCH_WIDTH, GET};
use drive::drive;
pub(crate) use drive::drive_while;
use farslot_fabric::{Endpoint, EndpointExt, OperationClass, window};
use lookup::Answer;
pub(crate) use lookup::{
    Found, Lookup, MOST_PIECES, Next, Read, Reads, Swap, failed, view, view_for,
};

/// Does one operation. The answer of a lookup is the key's value.
#[inline]
pub(crate) async fn run<L: Lookup>(table: &L, asked: L::Asked<'_>) -> Answer {
    let key = table.key(asked)?;
    let mut search = L::Search::default();
    table.prepare(&key, &mut search);
    let next = table.begin(&key, &mut search);
    let answer = drive(table, &key, &mut search, next).await;
    // In place it has not waited, and who does one operation after the other shall not keep all
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
    keys: impl IntoIterator<Item = L::Asked<'k>>,
    mut done: impl FnMut(usize, Answer),
) {
    let mut keys = keys.into_iter().enumerate();
    in_place::do_many(table, GET, &mut keys, &mut done).await;
    lanes::do_many(table, GET, keys, done).await;
}

/// Does many writes of a class; `done` gets each answer with the write's number, in the order in
/// which they come.
pub(crate) async fn write_many<'k, L: Lookup>(
    table: &L,
    class: OperationClass,
    writes: impl IntoIterator<Item = L::Asked<'k>>,
    mut done: impl FnMut(usize, Answer),
) {
    let mut writes = writes.into_iter().enumerate();
    in_place::do_many(table, class, &mut writes, &mut done).await;
    let endpoint = table.endpoint();
    let rest = writes.map(|(number, write)| async move {
        (number, endpoint.operation(class, run(table, write)).await)
    });
    window(BATCH_WIDTH, rest, |_, (number, answer)| done(number, answer)).await;
}
