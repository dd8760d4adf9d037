//! What a client may do by a call, as the handler that answers it asks.

use crate::net::admission::Issued;
use crate::net::wire::Span;
use crate::{Caller, RegionId, Result, Rights};
use std::cell::Cell;
use std::ops::Range;

/// A client while a handler answers one of its calls.
pub(super) struct CallingClient<'s> {
    pub(super) grant: &'s Issued,
    /// The most rights that the client asked for.
    pub(super) asked: Rights,
    /// What it calls.
    pub(super) to: Span,
    /// Checks an access by verbs.
    pub(super) locate: &'s dyn Fn(Span, u64, Rights) -> Result<u64>,
    /// Whether it was refused a key.
    pub(super) refused: Cell<bool>,
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
