//! An operation as a future over verbs.

use super::ahead::{Ahead, read_ahead};
use super::lookup::{Answer, Lookup, NextStep, Reads, Swap, failed};
use super::mapped;
use super::received::ReceivedPieces;
use crate::client::side_by_side;
use crate::{IndexError, Result};
use farslot_fabric::{Change, Endpoint, EndpointExt, FabricError, Piece, let_others_run};
use std::future::{Future, poll_fn};
use std::pin::pin;

/// Does one operation. The answer of a lookup is the key's value.
#[inline]
pub(crate) async fn run<L: Lookup>(table: &L, asked: L::Asked<'_>) -> Answer {
    let key = table.key(asked)?;
    let mut search = L::Search::default();
    if L::WRITES {
        // What a table knows of its memory, it is to know of this moment.
        table.in_place();
    }
    table.prepare(&key, &mut search);
    let next = table.begin(&key, &mut search);
    let answer = drive(table, &key, &mut search, next).await;
    if L::REPORTS {
        table.report_if_due().await;
    }
    // In place it has not waited, and who does one operation after the other shall not keep all
    // others waiting.
    if table.in_place().is_some() && table.endpoint().core().is_turn_over() {
        let_others_run().await;
    }
    answer
}

/// Goes on with an operation until it ends.
#[inline]
pub(crate) async fn drive<L: Lookup>(
    table: &L,
    key: &L::Key<'_>,
    search: &mut L::Search,
    next: NextStep<L::SlowPath>,
) -> Answer {
    let ended = go_on(table, key, search, next).await;
    if L::WRITES
        && let Err(error) = &ended
    {
        // Boxed, for it is rare: every write would be as large.
        Box::pin(table.give_up(key, search, error)).await;
    }
    ended
}

async fn go_on<L: Lookup>(
    table: &L,
    key: &L::Key<'_>,
    search: &mut L::Search,
    mut next: NextStep<L::SlowPath>,
) -> Answer {
    // What was read, for those that look on, and what is under way behind it.
    let (mut kept, mut under_way) = (KeptReads::Nothing, None);
    loop {
        next = match next {
            NextStep::Read(reads) => match mapped::step(table, key, search, reads, true) {
                Some(Ok(next)) => {
                    if !reads.keeps {
                        kept = KeptReads::InPlace(reads);
                    }
                    next
                }
                Some(Err(answer)) => return answer,
                None => match receive(table, key, search, reads, &mut under_way).await {
                    Ok(mut received) => match table.look(key, search, &mut received) {
                        NextStep::Found(found) => {
                            return Ok(Some(received.into_value(found)));
                        }
                        next => {
                            if L::LOOKS_ON && !reads.keeps {
                                kept = KeptReads::Received(received);
                            }
                            next
                        }
                    },
                    Err(error) => not_read(table, key, search, error),
                },
            },
            NextStep::Change(reads) => match mapped::change(table, key, search, reads) {
                Some(next) => next,
                // Boxed: where memory is mapped, every write would be as large.
                None => Box::pin(change(table, key, search, reads)).await?,
            },
            NextStep::LookOn => match std::mem::replace(&mut kept, KeptReads::Nothing) {
                KeptReads::Received(mut received) => match table.look(key, search, &mut received) {
                    NextStep::Found(found) => return Ok(Some(received.into_value(found))),
                    next => {
                        kept = KeptReads::Received(received);
                        next
                    }
                },
                KeptReads::InPlace(reads) => match mapped::step(table, key, search, reads, false) {
                    Some(Ok(next)) => {
                        kept = KeptReads::InPlace(reads);
                        next
                    }
                    Some(Err(answer)) => return answer,
                    None => table.read_on(key, search),
                },
                KeptReads::Nothing => table.read_on(key, search),
            },
            NextStep::Found(found) => {
                let nothing = ReceivedPieces::Apart(Vec::new());
                return Ok(Some(nothing.into_value(found)));
            }
            NextStep::Absent => return Ok(None),
            NextStep::Failed(error) => return Err(*error),
            NextStep::SlowPath(slow) => table.slow_path(key, search, slow).await?,
        };
    }
}

/// What was read for a step, while the next may look at it again.
enum KeptReads {
    Nothing,
    Received(ReceivedPieces),
    /// Nothing was: the memory is mapped.
    InPlace(Reads),
}

/// What follows from a READ that has failed, or could not be posted.
#[cold]
pub(super) fn not_read<L: Lookup>(
    table: &L,
    key: &L::Key<'_>,
    search: &mut L::Search,
    error: IndexError,
) -> NextStep<L::SlowPath> {
    let is_too_much_at_once = matches!(
        &error,
        IndexError::Fabric(FabricError::BufferTooLarge { .. } | FabricError::TooManyPieces { .. })
    );
    let less = is_too_much_at_once.then(|| table.gather_less(key, search));
    less.flatten().unwrap_or_else(|| failed(error))
}

/// Makes a change by verbs, and looks at what came of it.
async fn change<L: Lookup>(
    table: &L,
    key: &L::Key<'_>,
    search: &mut L::Search,
    reads: Reads,
) -> Result<NextStep<L::SlowPath>> {
    let pieces = reads
        .numbers()
        .map(|number| table.piece(key, search, number))
        .collect();
    if L::MAKES_CHANGES {
        let read = while_waiting(table, table.post(search, pieces)).await?;
        return Ok(table.changed(key, search, 0, &mut ReceivedPieces::Apart(read)));
    }
    let endpoint = table.endpoint();
    let wanted = table.change(key, search);
    let write = match wanted.record {
        Some(record) => Some((
            record.piece().from,
            record.encode(&endpoint.core().buffers)?,
        )),
        None => None,
    };
    let swap = wanted.swap;
    let swap = swap.map(|Swap { at, expected, new }| (at, expected, new));
    let posted = endpoint.change_and_read(Change { write, swap }, pieces);
    let (seen, read) = while_waiting(table, posted).await?;
    Ok(table.changed(key, search, seen, &mut ReceivedPieces::Apart(read?)))
}

/// Reads the pieces of a step.
async fn receive<'t, L: Lookup>(
    table: &'t L,
    key: &L::Key<'_>,
    search: &mut L::Search,
    reads: Reads,
    under_way: &mut Option<Box<Ahead<'t, L::Endpoint>>>,
) -> Result<ReceivedPieces> {
    if reads.ahead {
        return Box::pin(read_ahead(table, key, search, reads, under_way)).await;
    }
    let search = &*search;
    let endpoint = table.endpoint();
    let piece = |number| table.piece(key, search, number);
    let read = |number| {
        let Piece { from, len } = piece(number);
        let read = endpoint.read(from, len);
        async { Ok::<_, IndexError>(read.await?) }
    };
    if reads.gathered {
        let all = endpoint.read_many(reads.numbers().map(piece).collect());
        let all = while_waiting(table, all).await?;
        return Ok(ReceivedPieces::gathered(all, reads.numbers().map(piece)));
    }
    if reads.pieces == 1 {
        return Ok(ReceivedPieces::One(while_waiting(table, read(0)).await?));
    }
    let mut buffers: Vec<_> = reads.numbers().map(|_| None).collect();
    let all = side_by_side(reads.pieces, reads.numbers().map(read), |number, buffer| {
        buffers[number] = Some(buffer);
    });
    while_waiting(table, all).await?;
    Ok(ReceivedPieces::Apart(
        buffers.into_iter().flatten().collect(),
    ))
}

/// Lets the table do its housekeeping while READs are under way.
async fn while_waiting<L: Lookup, F: Future>(table: &L, reads: F) -> F::Output {
    let mut reads = pin!(reads);
    poll_fn(|cx| {
        let polled = reads.as_mut().poll(cx);
        if polled.is_pending() {
            table.while_waiting();
        }
        polled
    })
    .await
}
