//! Answers in their calls' order, where some come later than those behind them.
//!
//! A connection matches answers to calls by their order. So an answer that comes later holds back
//! those behind it on its connection, and nothing else. What is held back is bounded: whoever
//! serves the connection begins no more of its calls where there are [`MOST_HELD`] of them, or as
//! many bytes as it may hold.

use crate::ticket::LaterAnswer;
use crate::{FabricError, NodeId, RegionId, Result};
use std::collections::VecDeque;
use std::task::{Poll, Waker};

/// Calls of a connection that may wait for their answers before no more of them is begun.
pub(crate) const MOST_HELD: usize = 64;

/// The answers of a connection that are held back, the oldest first; with each what its fabric
/// knows of the call.
pub(crate) struct HeldAnswers<T> {
    held: VecDeque<HeldAnswer<T>>,
    bytes: usize,
}

struct HeldAnswer<T> {
    of: T,
    /// The bytes that it is counted with.
    bytes: usize,
    answer: AwaitedAnswer,
}

enum AwaitedAnswer {
    Here(Result<Box<[u8]>>),
    /// It comes later, from this region.
    Later(RegionId, LaterAnswer),
}

impl<T> Default for HeldAnswers<T> {
    fn default() -> Self {
        Self {
            held: VecDeque::new(),
            bytes: 0,
        }
    }
}

impl<T> HeldAnswers<T> {
    /// Whether the next answer may go at once.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Bytes of the answers that are here, and of the calls that wait: requests and room for
    /// replies.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether no more calls may be begun, where they may take so many bytes.
    pub(crate) fn is_full(&self, most_bytes: usize) -> bool {
        !self.is_empty() && (self.held.len() >= MOST_HELD || self.bytes >= most_bytes)
    }

    /// Has a call to a region, with a request of so many bytes, wait for its answer.
    pub(crate) fn wait(&mut self, of: T, region: RegionId, request: usize, later: LaterAnswer) {
        let bytes = request + later.room();
        self.put(of, bytes, AwaitedAnswer::Later(region, later));
    }

    /// Puts an answer behind those before it.
    pub(crate) fn put_answer(&mut self, of: T, answer: Result<Box<[u8]>>) {
        let bytes = answer.as_ref().map_or(0, |reply| reply.len());
        self.put(of, bytes, AwaitedAnswer::Here(answer));
    }

    fn put(&mut self, of: T, bytes: usize, answer: AwaitedAnswer) {
        self.bytes += bytes;
        self.held.push_back(HeldAnswer { of, bytes, answer });
    }

    /// The oldest answer, if it is here; else `waker` is woken once it is.
    ///
    /// # Errors
    /// Within: those of the call; [`FabricError::Unanswered`] where the ticket was dropped.
    pub(crate) fn next(&mut self, waker: &Waker) -> Option<(T, Result<Box<[u8]>>)> {
        let dropped = match &self.held.front()?.answer {
            AwaitedAnswer::Here(_) => None,
            AwaitedAnswer::Later(region, later) => match later.poll(waker) {
                Poll::Pending => return None,
                Poll::Ready(answer) => Some(answer.ok_or(FabricError::Unanswered {
                    node: NodeId(0),
                    region: *region,
                })),
            },
        };
        let HeldAnswer { of, bytes, answer } = self.held.pop_front()?;
        self.bytes -= bytes;
        if self.held.is_empty() {
            // A connection that waits for nothing holds nothing.
            self.held = VecDeque::new();
        }
        let answer = match (answer, dropped) {
            (AwaitedAnswer::Here(answer), _) | (_, Some(answer)) => answer,
            (AwaitedAnswer::Later(..), None) => return None,
        };
        Some((of, answer))
    }

    /// Waits no more for the calls of which that is so; returns what was known of each.
    pub(crate) fn give_up(&mut self, mut is_over: impl FnMut(&T) -> bool) -> Vec<T> {
        let mut over = Vec::new();
        for held in std::mem::take(&mut self.held) {
            if is_over(&held.of) {
                self.bytes -= held.bytes;
                over.push(held.of);
            } else {
                self.held.push_back(held);
            }
        }
        over
    }
}
