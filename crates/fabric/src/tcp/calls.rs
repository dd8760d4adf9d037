//! The calls of a client: what it may do by them, as the handler that answers them asks, and their
//! answers, now or later.

use super::answers::{end_reply, open_reply, put_reply};
use super::serving::Serving;
use crate::net::admission::Issued;
use crate::net::agent::{Quota, ServedNode, TurnTraffic};
use crate::net::stream::Outbound;
use crate::net::wire::{FrameKind, Span, encode_failure, is_call};
use crate::{CallAnswer, Caller, FabricError, RegionId, Result, Rights};
use std::cell::Cell;
use std::ops::Range;
use std::task::Waker;
use std::time::Instant;

/// A client while a handler answers one of its calls.
struct CallingClient<'s> {
    grant: &'s Issued,
    /// The most rights that the client asked for.
    asked: Rights,
    /// What it calls.
    to: Span,
    /// Checks an access by verbs.
    locate: &'s dyn Fn(Span, u64, Rights) -> Result<u64>,
    /// Whether it was refused a key.
    refused: Cell<bool>,
}

impl Caller for CallingClient<'_> {
    fn check(&self, bytes: Range<u64>, needed: Rights) -> Result<()> {
        let offset = bytes.start;
        let len = bytes.end.saturating_sub(offset);
        (self.locate)(Span { offset, ..self.to }, len, needed).map(drop)
    }

    fn keys(&self, bytes: Range<u64>) -> Option<(&[u8], Rights)> {
        let (prefix, rights) = self.grant.keys(RegionId(self.to.region), &bytes)?;
        (!self.grant.is_revoked()).then(|| (prefix, rights.masked_by(self.asked)))
    }

    fn refused(&self) {
        self.refused.set(true);
    }

    fn grant(&self) -> Option<&str> {
        Some(&self.grant.name)
    }
}

impl Serving {
    /// Has the handler answer a call. If that comes later, or others' answers do before it, it is
    /// held back.
    pub(super) fn call(
        &mut self,
        to: Span,
        request: &[u64],
        out: &mut Outbound,
        served: &ServedNode,
        quota: &mut Quota,
        moved: &mut TurnTraffic,
    ) -> Result<()> {
        let region = RegionId(to.region);
        let handler = self.handler_of(to, served)?;
        let room = usize::try_from(to.offset).unwrap_or(usize::MAX);
        let reply = open_reply(room, out, served, quota)?;
        let words = reply.len();
        let reply = &mut bytemuck::cast_slice_mut(&mut reply[1..])[..room];
        let request = &bytemuck::cast_slice(request)[..to.len as usize];
        let caller = CallingClient {
            grant: &self.grant,
            asked: self.asked,
            to,
            locate: &|span, len, needed| self.locate(span, len, needed),
            refused: Cell::default(),
        };
        let since = Instant::now();
        let answered = served
            .node
            .answer_call(&*handler, region, request, reply, &caller);
        quota.spend_time(since.elapsed());
        self.refused = caller.refused.get();
        quota.spend(words * 8);
        moved.written(to.len);
        match answered {
            CallAnswer::Now(bytes) if self.held.is_empty() => {
                end_reply(bytes, words, out);
                moved.read(bytes as u64);
            }
            CallAnswer::Now(bytes) => {
                self.held.put_answer((), Ok(reply[..bytes].into()));
                out.take_back(words);
            }
            CallAnswer::Later(later) => {
                out.take_back(words);
                self.held.wait((), region, request.len(), later);
            }
        }
        Ok(())
    }

    /// Whether the verb that begins so may be begun while others wait for their answers. Only calls
    /// are: whatever else comes behind a call begins when that has ended.
    pub(super) fn may_call(&self, first: u64, out: &Outbound, quota: &Quota) -> bool {
        is_call(first) && !self.held.is_full(quota.unsent.saturating_sub(out.unsent()))
    }

    /// Sends the oldest answer that was held back; returns whether it was there.
    #[cold]
    pub(super) fn send_held(
        &mut self,
        out: &mut Outbound,
        served: &ServedNode,
        quota: &mut Quota,
        moved: &mut TurnTraffic,
        bell: &Waker,
    ) -> bool {
        match self.held.next(bell) {
            None => return false,
            Some(((), Err(error))) => {
                out.frame(FrameKind::Completions, &encode_failure(&error));
                if let FabricError::Unanswered { .. } = error {
                    // The owner's fault, not the client's; it was told of others already.
                    served.totals.verb_failed(&error);
                }
            }
            Some(((), Ok(reply))) => {
                put_reply(&reply, out, served);
                quota.spend(reply.len());
                moved.read(reply.len() as u64);
            }
        }
        true
    }
}
