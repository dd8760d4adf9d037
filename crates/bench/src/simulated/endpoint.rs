//! A client's endpoint that tells READs of a table's slots from READs of its heap.

use farslot::fabric::{
    AnyEndpoint, Buffer, Completion, Endpoint, EndpointCore, InPlace, Nanos, NodeId, NodeInfo,
    NodeState, PostError, RemoteAddr, Result, Rights, Verb,
};
use std::cell::Cell;
use std::ops::{AddAssign, Range, Sub};
use std::task::{Context, Poll};

/// Where a table's parts lie, in bytes from its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableAreas {
    /// Its slots.
    pub slots: Range<u64>,
    /// Its records out of band.
    pub heap: Range<u64>,
}

impl TableAreas {
    /// No parts: nothing is counted.
    pub const NONE: Self = Self {
        slots: 0..0,
        heap: 0..0,
    };

    /// Slots, and behind them a heap up to the end of the table.
    #[must_use]
    pub fn ending_with_heap(table_bytes: u128, slot_bytes: u128, heap_bytes: u64) -> Self {
        let end = table_bytes as u64;
        let heap = end - heap_bytes;
        Self {
            slots: heap - (slot_bytes as u64).next_multiple_of(64)..heap,
            heap: heap..end,
        }
    }
}

/// READs that were posted, by what they read. What lies outside of both areas, such as a table's
/// counts, is nothing that a lookup is after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PostedReads {
    /// READs of slots.
    pub to_table: u64,
    /// READs of records out of band.
    pub to_heap: u64,
    /// Payload bytes of both.
    pub bytes: u64,
}

impl AddAssign for PostedReads {
    fn add_assign(&mut self, more: Self) {
        self.to_table += more.to_table;
        self.to_heap += more.to_heap;
        self.bytes += more.bytes;
    }
}

impl Sub for PostedReads {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            to_table: self.to_table - earlier.to_table,
            to_heap: self.to_heap - earlier.to_heap,
            bytes: self.bytes - earlier.bytes,
        }
    }
}

/// An endpoint that counts [`PostedReads`] READs. A gather is one READ, to where its first piece
/// is. What is done in place is not counted.
///
/// Tables are made and measured over endpoints of this one type, so that schemes are compiled once.
pub struct SortingEndpoint {
    inner: AnyEndpoint,
    areas: TableAreas,
    posted: Cell<PostedReads>,
}

impl SortingEndpoint {
    /// Counts what is posted through this endpoint from here on.
    #[must_use]
    pub fn new(inner: AnyEndpoint, areas: TableAreas) -> Self {
        Self {
            inner,
            areas,
            posted: Cell::default(),
        }
    }

    /// What was posted so far.
    #[inline]
    #[must_use]
    pub fn posted(&self) -> PostedReads {
        self.posted.get()
    }

    fn count(&self, first: RemoteAddr, bytes: u64) {
        let mut posted = self.posted.get();
        if self.areas.slots.contains(&first.offset) {
            posted.to_table += 1;
        } else if self.areas.heap.contains(&first.offset) {
            posted.to_heap += 1;
        } else {
            return;
        }
        posted.bytes += bytes;
        self.posted.set(posted);
    }
}

impl Endpoint for SortingEndpoint {
    type Posted = <AnyEndpoint as Endpoint>::Posted;

    fn core(&self) -> &EndpointCore {
        self.inner.core()
    }

    fn node_count(&self) -> usize {
        self.inner.node_count()
    }

    fn node(&self, node: NodeId) -> Result<NodeInfo> {
        self.inner.node(node)
    }

    fn node_state(&self, node: NodeId) -> Result<NodeState> {
        self.inner.node_state(node)
    }

    fn adopt(&self, node: NodeId) -> Result<NodeInfo> {
        self.inner.adopt(node)
    }

    fn post(&self, verb: Verb) -> std::result::Result<Self::Posted, PostError> {
        let read = match &verb {
            Verb::Read { from, .. } => Some(*from),
            Verb::ReadMany { pieces, .. } => pieces.first().map(|piece| piece.from),
            _ => None,
        };
        let bytes = verb.bytes();
        let posted = self.inner.post(verb)?;
        if let Some(first) = read {
            self.count(first, bytes);
        }
        Ok(posted)
    }

    fn in_place(&self, at: RemoteAddr, needed: Rights) -> Option<InPlace<'_>> {
        self.inner.in_place(at, needed)
    }

    fn poll_posted(
        &self,
        posted: &mut Self::Posted,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Completion>> {
        self.inner.poll_posted(posted, cx)
    }

    fn poll_read(&self, posted: &mut Self::Posted, cx: &mut Context<'_>) -> Poll<Result<Buffer>> {
        self.inner.poll_read(posted, cx)
    }

    fn ring_doorbell(&self) {
        self.inner.ring_doorbell();
    }

    fn poll_completions(&self) -> usize {
        self.inner.poll_completions()
    }

    fn now(&self) -> Nanos {
        self.inner.now()
    }

    fn wait(&self, deadline: Option<Nanos>, idle_turns: u32) {
        self.inner.wait(deadline, idle_turns);
    }
}
