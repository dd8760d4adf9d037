//! A posted verb as a future.

use crate::verb::FromCompletion;
use crate::{Completion, Endpoint, PostError, Result, Verb};
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

impl<E: Endpoint, T: FromCompletion> Future for VerbFuture<'_, E, T> {
    type Output = Result<T>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        let this = &mut *self;
        let is_first = matches!(this.state, State::Unposted(_));
        if let State::Unposted(_) = this.state {
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
