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

use crate::{BATCH_WIDTH, GET};
pub(crate) use drive::{drive_while, run};
use farslot_fabric::{EndpointExt, OperationClass, window};
use lookup::{Answer, Rest};
pub(crate) use lookup::{
    Found, Lookup, MOST_PIECES, Next, Read, Reads, Swap, failed, view, view_for,
};

/// Looks a key up without a future, where the memory is mapped: its answer, or the rest of the
/// lookup, if that has to wait, be it for other tasks' turn. Nothing where the memory is elsewhere.
#[inline]
pub(crate) fn find_at_once<'s, L: Lookup>(
    table: &'s L,
    asked: L::Asked<'s>,
) -> Option<std::result::Result<Answer, Rest<'s>>> {
    in_place::do_one(table, GET, asked)
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
    window(BATCH_WIDTH, rest, |_, (number, answer)| {
        done(number, answer)
    })
    .await;
}
