//! One operation on the memory itself, where that is mapped: without a future until it has to
//! wait.

use super::drive::{drive, run};
use super::fast_paths::take_fast_path;
use super::lookup::{Answer, Lookup, NextStep};
use super::mapped::{book, locate, locate_and_prefetch};
use super::scratch::{Mapped, Scratch};
use crate::index::{AtOnce, BoxFuture};
use farslot_fabric::{Endpoint, EndpointExt, OperationClass, Steps, let_others_run};
use std::borrow::Borrow;

/// Prefetches what an operation looks at first, if it begins with READs. (A slow path that is due
/// is left to one that comes later.) Nothing where the memory is elsewhere, or the operation is
/// refused.
#[inline]
pub(super) fn prefetch<'s, L: Lookup>(table: &'s L, asked: L::Asked<'s>) -> Option<()> {
    let view = table.in_place()?;
    let key = table.key(asked).ok()?;
    let mut search = L::Search::default();
    table.prepare(&key, &mut search);
    if let NextStep::Read(reads) = table.begin(&key, &mut search) {
        for number in reads.numbers() {
            let piece = table.piece(&key, &search, number);
            if let Some(start) = view.offset_of(piece) {
                view.prefetch(start, table.likely_bytes(&search, piece.len));
            }
        }
    }
    Some(())
}

/// Does one operation of a table, or of its writer, if the memory is mapped.
#[inline]
pub(super) fn do_one<'s, L: Lookup + 's>(
    by: impl Borrow<L> + 's,
    class: OperationClass,
    asked: L::Asked<'s>,
) -> AtOnce<'s, Answer> {
    let table = by.borrow();
    let view = table.in_place()?;
    let core = table.endpoint().core();
    if core.is_turn_over() {
        return Some(Err(Box::pin(async move {
            let table = by.borrow();
            let rest = async {
                let_others_run().await;
                run(table, asked).await
            };
            table.endpoint().operation(class, rest).await
        })));
    }
    let mut read = Mapped::new(view, Scratch::of(core));
    if let Some(answer) = take_fast_path(table, (&view, &mut read), asked) {
        core.counters.add(class, &read.tally);
        read.into_parts().1.give_back(core);
        return Some(reported(by, answer));
    }
    let mut steps = Steps::default();
    let key = match table.key(asked) {
        Ok(key) => key,
        Err(error) => {
            read.tally.operation_ended(steps);
            core.counters.add(class, &read.tally);
            return Some(Ok(Err(error)));
        }
    };
    let mut search = L::Search::default();
    table.prepare(&key, &mut search);
    let mut next = table.begin(&key, &mut search);
    // What was read, for those that look on.
    let mut kept = None;
    let answer = loop {
        let done = match next {
            NextStep::Read(reads) => {
                if !reads.keeps {
                    kept = Some(reads);
                }
                let located = locate_and_prefetch(table, &key, &search, reads, &mut read);
                located.map(|bytes| {
                    book(&mut read.tally, &mut steps, reads, bytes);
                    let next = table.look(&key, &mut search, &mut read);
                    view.acquire();
                    next
                })
            }
            NextStep::Change(reads) => {
                let located = locate_and_prefetch(table, &key, &search, reads, &mut read);
                located.and_then(|bytes| {
                    read.change_and_look(table, &key, &mut search, (reads, bytes), &mut steps)
                })
            }
            NextStep::LookOn => match kept {
                Some(reads) => locate(table, &key, &search, reads, &mut read).map(|_| {
                    let next = table.look(&key, &mut search, &mut read);
                    view.acquire();
                    next
                }),
                None => Some(table.read_on(&key, &mut search)),
            },
            NextStep::Found(found) => break Ok(Some(read.value(found))),
            NextStep::Absent => break Ok(None),
            // What a write has begun is put right as it is over verbs.
            NextStep::Failed(error) if !L::WRITES => break Err(*error),
            _ => None,
        };
        next = match done {
            Some(next) => next,
            None => {
                read.tally.goes_on(steps);
                core.counters.add(class, &read.tally);
                return Some(Err(Box::pin(async move {
                    let table = by.borrow();
                    let rest = drive(table, &key, &mut search, next);
                    let begun = steps.into();
                    let answer = table.endpoint().operation_begun(class, begun, rest).await;
                    if L::WRITES {
                        table.report_if_due().await;
                    }
                    answer
                })));
            }
        };
    };
    read.tally.operation_ended(steps);
    core.counters.add(class, &read.tally);
    read.into_parts().1.give_back(core);
    Some(reported(by, answer))
}

/// An answer, behind the report that is due of a write, if one is.
#[inline(always)]
fn reported<'s, L: Lookup + 's>(
    by: impl Borrow<L> + 's,
    answer: Answer,
) -> std::result::Result<Answer, BoxFuture<'s, Answer>> {
    if L::WRITES && by.borrow().has_to_report() {
        return Err(Box::pin(async move {
            by.borrow().report().await;
            answer
        }));
    }
    Ok(answer)
}
