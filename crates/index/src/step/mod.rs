//! Operations as steps: a scheme says its lookup, or its write, once, and several drivers run it.
//!
//! A [`Lookup`] says which bytes it wants to have read next and, when they are here, what they
//! mean: an answer, more to read, or, of a write, a [change](NextStep::Change). Between two steps
//! it has its [`Lookup::Search`], plain data; it has no future, no buffer, and books nothing. What
//! cannot be decided so (a pause before a slot is read again, a directory to be read on, a bucket
//! to be held) is a [slow path](NextStep::SlowPath), which the scheme does itself as a future, and
//! comes back from.
//!
//! The drivers:
//!
//! * [`drive`]: one operation as a future over verbs. Whatever else cannot go on, goes on so.
//! * [`lanes`]: many lookups side by side over verbs, each in a lane, without a future.
//! * [`in_place`]: where the memory is mapped, the steps of many operations run on the memory
//!   itself.
//! * [`alone`]: those of one, without a future until it has to wait.
//!
//! The last two take the usual steps [by the fast path](fast_path) where keys and values are words,
//! or [slots name records](record_path).
//!
//! They differ in who does the verbs, never in which, and book the same: an operation with its
//! verbs, bytes and round trips ([`Storm`](https://arxiv.org/abs/1902.02411) splits its lookups so,
//! `lookup_start` and `lookup_end`, to run them at the client and at the owner).

mod ahead;
mod alone;
mod drive;
mod fast_path;
mod fast_paths;
mod in_place;
mod lanes;
mod lookup;
mod mapped;
mod received;
mod record_path;
mod records;
mod scratch;

use crate::heap::{Relocation, TableWrite};
use crate::index::AtOnce;
use crate::scheme::{SchemeClient, run_side_by_side};
use crate::{Answers, BATCH_WIDTH, GET, Operation, Outcome, Outcomes, Result, UPKEEP};
pub(crate) use drive::{drive, run};
use farslot_fabric::{EndpointExt, OperationClass, window};
pub(crate) use fast_path::{FastPath, FastPathResult, More, slots_near};
use lookup::Answer;
pub(crate) use lookup::{
    Change, Counted, LIKELY, Lookup, NextStep, ReadPieces, Reads, Swap, ValueLocation, failed,
    view, view_for, view_to_write,
};
pub(crate) use record_path::{NamingSlot, RecordPath, RecordSlots};
pub(crate) use records::{has_key, record_in};
pub(crate) use scratch::MOST_PIECES;

/// Has the processor fetch what a lookup looks at first, where the memory is mapped; else false.
#[inline]
pub(crate) fn prefetch<'s, L: Lookup>(table: &'s L, asked: L::Asked<'s>) -> bool {
    alone::prefetch(table, asked).is_some()
}

/// Looks a key up without a future, where the memory is mapped; the rest of the lookup, if that has
/// to wait, be it for other tasks' turn.
#[inline]
pub(crate) fn find_at_once<'s, L: Lookup>(table: &'s L, asked: L::Asked<'s>) -> AtOnce<'s, Answer> {
    alone::do_one::<L>(table, GET, asked)
}

/// Does a write without a future, where the memory is mapped; the rest of the write, if that has to
/// wait.
#[inline]
pub(crate) fn write_at_once<'s, L>(table: L, write: Operation<'s>) -> AtOnce<'s, Result<Outcome>>
where
    L: Lookup<Asked<'s> = TableWrite<'s>> + 's,
{
    let told = alone::do_one::<L>(table, write.class(), write.into())?;
    Some(match told {
        Ok(was) => Ok(was.map(|was| write.outcome(was))),
        Err(rest) => Err(Box::pin(async move { Ok(write.outcome(rest.await?)) })),
    })
}

/// Looks up many keys; `done` gets the answers with the keys' numbers, in the order in which they
/// come.
pub(crate) async fn find_many<'k, L: Lookup>(
    table: &L,
    keys: &[L::Asked<'k>],
    done: &mut dyn FnMut(Answers<'_>),
) {
    let taken = in_place::do_many(table, GET, keys, done).await;
    if taken < keys.len() {
        let rest = (taken..).zip(keys[taken..].iter().copied());
        let done = |number, answer| done(Answers::One(number, answer));
        lanes::do_many(table, GET, rest, done).await;
        if L::REPORTS {
            table.report_if_due().await;
        }
    }
}

/// Does many operations, writes in steps and lookups among them as the client does them, each
/// booked to its class; `done` gets the outcomes with the operations' numbers, in the order in
/// which they come.
pub(crate) async fn write_many<L>(
    client: &impl SchemeClient,
    writes: impl Fn() -> L,
    operations: &[Operation<'_>],
    done: &mut dyn FnMut(Outcomes<'_>),
) where
    L: for<'k> Lookup<Asked<'k> = TableWrite<'k>>,
{
    let mut taken = 0;
    for some in operations.chunk_by(|one, other| one.class() == other.class()) {
        let mut done = |told: Outcomes<'_>| done(told.behind(taken));
        let ended = match some[0].is_lookup() {
            true => {
                run_side_by_side(client, some, &mut done).await;
                some.len()
            }
            false => {
                let mut done = |was: Answers<'_>| done(was.of_writes(some));
                write_in_place(&writes, some[0].class(), some, &mut done).await
            }
        };
        taken += ended;
        if ended < some.len() {
            break;
        }
    }
    // Where the memory is elsewhere, all leave side by side, of whichever class they are.
    let rest = &operations[taken..];
    if !rest.is_empty() {
        run_side_by_side(client, rest, &mut |told| done(told.behind(taken))).await;
    }
}

/// Does [relocations](Relocation), each booked to [`UPKEEP`]; `done` gets their numbers, each with
/// whether its key's slot named the block.
pub(crate) async fn relocate<L>(
    writes: impl Fn() -> L,
    relocations: &[Relocation<'_>],
    done: &mut dyn FnMut(usize, Result<bool>),
) where
    L: for<'k> Lookup<Asked<'k> = TableWrite<'k>>,
{
    let mut done = |number, was: Answer| done(number, was.map(|was| was.is_some()));
    let mut told = |was: Answers<'_>| was.each(&mut done);
    let taken = write_in_place(&writes, UPKEEP, relocations, &mut told).await;
    let table = &writes();
    let rest = relocations[taken..].iter().map(|relocation| {
        let relocating = run(table, (*relocation).into());
        table.endpoint().operation(UPKEEP, relocating)
    });
    window(BATCH_WIDTH, rest, |number, was| done(taken + number, was)).await;
}

/// Does writes of a class for as long as the memory is mapped; returns how many of them.
async fn write_in_place<'s, L: Lookup + 's>(
    writes: impl Fn() -> L,
    class: OperationClass,
    asked: &[impl Copy + Into<L::Asked<'s>>],
    done: &mut dyn FnMut(Answers<'_>),
) -> usize {
    let [write] = asked else {
        return in_place::do_many(&writes(), class, asked, done).await;
    };
    // Alone, it has no other to fetch memory beside.
    let answer = match alone::do_one::<L>(writes(), class, (*write).into()) {
        Some(Ok(answer)) => answer,
        Some(Err(rest)) => rest.await,
        None => return 0,
    };
    done(Answers::One(0, answer));
    1
}
