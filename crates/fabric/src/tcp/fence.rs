//! A fence as the agent sees to it: see [`Endpoint::fence`](crate::Endpoint::fence).

use crate::net::wire::Span;
use crate::words::SharedWords;
use crate::{FabricError, NodeId, RegionId, RemoteAddr, Result};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// What verbs are held back by that change memory behind a word in its region.
pub(super) struct Fence {
    word: Span,
    holds: u64,
    /// The bytes of the node's memory from the word to the region's end.
    area: Range<u64>,
}

impl Fence {
    /// A fence by a word that starts at the first of these bytes of the node's memory, a multiple
    /// of 8; the last is the region's last.
    pub(super) const fn new(word: Span, holds: u64, area: Range<u64>) -> Self {
        Self { word, holds, area }
    }

    /// Refuses to change this byte of the node's memory, if it is fenced off and the word is
    /// another.
    #[inline]
    pub(super) fn check(&self, byte: u64, memory: SharedWords<'_>) -> Result<()> {
        let start = self.area.start;
        if byte == start
            || !self.area.contains(&byte)
            || memory.word(start).load(Ordering::Acquire) == self.holds
        {
            return Ok(());
        }
        let at = RemoteAddr {
            offset: self.word.offset + (byte - start),
            ..address(self.word)
        };
        Err(FabricError::Deposed { at, sent: true })
    }
}

/// Where a verb goes in the node's memory.
pub(super) const fn address(span: Span) -> RemoteAddr {
    RemoteAddr {
        node: NodeId(0),
        region: RegionId(span.region),
        offset: span.offset,
    }
}
