//! Reading with what follows on its way (paper 002, section 3: a chunk is requested ahead).

use super::lookup::{Lookup, Reads};
use super::received::ReceivedPieces;
use crate::Result;
use farslot_fabric::{Buffer, Endpoint, EndpointExt, Pieces, VerbFuture, posting_many};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

/// What was asked for before that in front of it had come.
pub(super) struct Ahead<'t, E: Endpoint> {
    pieces: Pieces,
    answer: Answer<'t, E>,
}

enum Answer<'t, E: Endpoint> {
    Awaited(VerbFuture<'t, E, Buffer>),
    Here(Buffer),
}

/// Reads the pieces of a step, unless they are under way, and leaves the READ of those behind them
/// under way. In boxes: it is the rarer way, and would make all futures larger.
pub(super) async fn read_ahead<'t, L: Lookup>(
    table: &'t L,
    key: &L::Key<'_>,
    search: &mut L::Search,
    reads: Reads,
    under_way: &mut Option<Box<Ahead<'t, L::Endpoint>>>,
) -> Result<ReceivedPieces> {
    let numbers = reads.numbers();
    let pieces: Pieces = numbers
        .map(|number| table.piece(key, search, number))
        .collect();
    let endpoint = table.endpoint();
    let mut asked = match under_way.take() {
        Some(ahead) if ahead.pieces == pieces => ahead,
        _ => Ahead::ask(endpoint, pieces),
    };
    let behind = table.pieces_ahead(key, search);
    *under_way = (!behind.is_empty()).then(|| Ahead::ask(endpoint, behind));
    let both = poll_fn(|cx| {
        let polled = posting_many(|| poll_first(&mut asked, under_way, cx));
        table.while_waiting();
        polled
    });
    both.await?;
    let Ahead { pieces, answer } = *asked;
    let Answer::Here(buffer) = answer else {
        unreachable!("what was waited for is here")
    };
    Ok(match pieces.len() {
        1 => ReceivedPieces::One(buffer),
        _ => ReceivedPieces::gathered(buffer, pieces.into_iter()),
    })
}

/// Polls the READ of what is wanted; that of what lies behind it leaves in the same batch.
fn poll_first<E: Endpoint>(
    asked: &mut Ahead<'_, E>,
    behind: &mut Option<Box<Ahead<'_, E>>>,
    cx: &mut Context<'_>,
) -> Poll<Result<()>> {
    let first = asked.poll(cx);
    if let Some(next) = behind
        && let Poll::Ready(Err(_)) = next.poll(cx)
    {
        // It is asked for again, and its error reported, if it is ever needed.
        *behind = None;
    }
    first
}

impl<'t, E: Endpoint> Ahead<'t, E> {
    fn ask(endpoint: &'t E, pieces: Pieces) -> Box<Self> {
        let read = match pieces[..] {
            [piece] => endpoint.read(piece.from, piece.len),
            _ => endpoint.read_many(pieces.clone()),
        };
        let answer = Answer::Awaited(read);
        Box::new(Self { pieces, answer })
    }

    /// Gets the answer here; ready when it is.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if let Answer::Awaited(read) = &mut self.answer {
            match Pin::new(read).poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(bytes) => self.answer = Answer::Here(bytes?),
            }
        }
        Poll::Ready(Ok(()))
    }
}
