//! A posted verb as a future.
//!
//! Where the memory is mapped, a verb that is alone in its task is done when the future is first
//! polled, and nothing is posted: it has no other to fetch memory for meanwhile. Every now and then
//! one is posted all the same, so that other tasks have a turn.

use crate::verb::{FromCompletion, check_gathered};
use crate::window::is_one_of_many;
use crate::{Buffer, Completion, Endpoint, Piece, PostError, RemoteAddr, Result, Rights, Verb};
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A verb on its way: posted when it is first polled, resolved at its completion.
///
/// Dropping it is safe at any time: a verb that was posted still takes effect, its buffer stays
/// with the fabric until then, and its completion is thrown away.
pub struct VerbFuture<'e, E: Endpoint, T> {
    endpoint: &'e E,
    state: State<E::Posted>,
    /// Place in the operation's chain of completions.
    depth: u32,
    resolves_to: PhantomData<fn() -> T>,
}

impl<E: Endpoint, T> fmt::Debug for VerbFuture<'_, E, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Unposted(_) => "unposted",
            State::Posted(_) => "posted",
            State::Resolved => "resolved",
        };
        f.debug_struct("VerbFuture")
            .field("state", &state)
            .finish_non_exhaustive()
    }
}

enum State<P> {
    Unposted(Result<Verb>),
    Posted(P),
    Resolved,
}

impl<'e, E: Endpoint, T> VerbFuture<'e, E, T> {
    /// A future for `verb`, or for the error that prevented its making.
    #[inline]
    pub(crate) fn new(endpoint: &'e E, verb: Result<Verb>) -> Self {
        Self {
            endpoint,
            state: State::Unposted(verb),
            depth: 0,
            resolves_to: PhantomData,
        }
    }
}

impl<E: Endpoint, T: FromCompletion> VerbFuture<'_, E, T> {
    /// Does the verb in memory that is mapped, if that has all that it reaches.
    #[inline]
    fn do_in_place(&mut self) -> Option<T> {
        let State::Unposted(Ok(verb)) = &mut self.state else {
            return None;
        };
        let endpoint = self.endpoint;
        let core = endpoint.core();
        if is_one_of_many() || core.is_turn_over() {
            return None;
        }
        let place = |from: RemoteAddr, len: usize, needed: Rights| {
            let view = endpoint.in_place(from, needed)?;
            Some((view, view.offset_of(Piece { from, len })?))
        };
        let word = |at: RemoteAddr| {
            let is_aligned = at.offset.is_multiple_of(8);
            is_aligned.then(|| place(at, 8, Rights::ATOMIC)).flatten()
        };
        let (kind, bytes) = (verb.kind(), verb.bytes());
        let completion = match verb {
            Verb::CompareSwap { at, expected, new } => {
                let (view, offset) = word(*at)?;
                Completion::Word(view.compare_swap(offset, *expected, *new))
            }
            Verb::FetchAdd { at, add } => {
                let (view, offset) = word(*at)?;
                Completion::Word(view.fetch_add(offset, *add))
            }
            Verb::Write { to, data } => {
                let (view, offset) = place(*to, data.len(), Rights::WRITE)?;
                view.write(offset, data.len(), data.words());
                Completion::Placed
            }
            Verb::Read { from, into } => {
                let (view, offset) = place(*from, into.len(), Rights::READ)?;
                let len = into.len();
                view.copy_out(offset, len, into.words_mut());
                Completion::Filled(self.take_buffer()?)
            }
            Verb::ReadMany { pieces, into } => {
                check_gathered(pieces, into).ok()?;
                let mut words = into.words_mut();
                for Piece { from, len } in pieces {
                    let (view, offset) = place(*from, *len, Rights::READ)?;
                    view.copy_out(offset, *len, words);
                    words = &mut words[len.div_ceil(8)..];
                }
                Completion::Filled(self.take_buffer()?)
            }
            Verb::WriteImm { .. } | Verb::Call { .. } => return None,
        };
        self.state = State::Resolved;
        core.counters.done_side_by_side(kind, 1, bytes);
        Some(T::from_completion(completion))
    }

    /// Takes the buffer of a READ that was not posted.
    #[inline]
    fn take_buffer(&mut self) -> Option<Buffer> {
        match std::mem::replace(&mut self.state, State::Resolved) {
            State::Unposted(Ok(Verb::Read { into, .. } | Verb::ReadMany { into, .. })) => {
                Some(into)
            }
            _ => None,
        }
    }
}

impl<E: Endpoint, T: FromCompletion> Future for VerbFuture<'_, E, T> {
    type Output = Result<T>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        let this = &mut *self;
        let is_first = matches!(this.state, State::Unposted(_));
        if is_first {
            if let Some(done) = this.do_in_place() {
                return Poll::Ready(Ok(done));
            }
            let State::Unposted(verb) = std::mem::replace(&mut this.state, State::Resolved) else {
                unreachable!("matched above")
            };
            let verb = match verb {
                Ok(verb) => verb,
                Err(error) => return Poll::Ready(Err(error)),
            };
            let (kind, bytes) = (verb.kind(), verb.bytes());
            match this.endpoint.post(verb) {
                Ok(posted) => {
                    this.depth = this.endpoint.core().counters.verb_posted(kind, bytes);
                    this.state = State::Posted(posted);
                }
                Err(PostError::QueueFull(verb)) => {
                    this.endpoint.core().wait_for_queue(cx.waker());
                    this.state = State::Unposted(Ok(verb));
                    return Poll::Pending;
                }
                Err(PostError::Rejected(error)) => {
                    let counters = &this.endpoint.core().counters;
                    return Poll::Ready(Err(error.of_unsent(counters.has_sent())));
                }
            }
        }
        let State::Posted(posted) = &mut this.state else {
            panic!("a verb future was polled after it had resolved")
        };
        let counters = &this.endpoint.core().counters;
        let Poll::Ready(outcome) = this.endpoint.poll_posted(posted, cx) else {
            if is_first {
                counters.verb_sent(this.depth);
            }
            return Poll::Pending;
        };
        this.state = State::Resolved;
        match is_first {
            true => counters.verb_done(this.depth),
            false => counters.verb_completed(this.depth),
        }
        if let Ok(Completion::Replied(reply)) = &outcome {
            counters.reply_arrived(reply.len() as u64);
        }
        Poll::Ready(outcome.map(T::from_completion))
    }
}
