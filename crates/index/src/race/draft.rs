//! The record of a write, and its block.
//!
//! A block is this client's until a slot names it, by the heap's rules of epochs.

use super::write::{Draft, Write, Writes, Writing};
use crate::Result;
use crate::heap::{Held, NamedBlocks, record_bytes};
use farslot_fabric::{Endpoint, EndpointExt};

impl<E: Endpoint> Writes<'_, E> {
    /// The block of the write's record, if this client has one and may use it.
    #[inline]
    pub(super) fn hold(&self, write: &Write<'_>, of: &mut Writing) -> Option<Held> {
        let (table, heap) = (self.table, &self.table.heap);
        let may_use = self.may_use_blocks.get();
        if !may_use && heap.is_look_due() {
            return None;
        }
        if let Draft::Unwritten(held) | Draft::Written(held) = of.record
            && heap.holds(held)
        {
            return Some(held);
        }
        // What is written to a node that is down fails, and a block that a failed WRITE was for is
        // not used again: who tries on and on would use up the heap.
        if !may_use && table.endpoint.check_not_down(table.table.node).is_err() {
            return None;
        }
        let held = heap.allocate_own(write.record_bytes())?;
        of.record = Draft::Unwritten(held);
        Some(held)
    }

    /// Gets a block for the write's record, of those that others have too.
    pub(super) async fn get_block(&self, write: &Write<'_>, of: &mut Writing) -> Result<()> {
        let heap = &self.table.heap;
        if let Draft::Unwritten(held) | Draft::Written(held) = of.record {
            if heap.still_holds(held).await? {
                return Ok(());
            }
            of.record = Draft::None;
        }
        loop {
            let block = heap.allocate(write.record_bytes()).await;
            if let Ok(block) = block {
                of.record = Draft::Unwritten(heap.held(block));
            }
            if !self.table.has_room_again(&block).await {
                return block.map(drop);
            }
        }
    }

    /// Keeps the block of a record that no slot has come to name.
    #[inline]
    pub(super) fn keep_record(&self, of: &mut Writing) {
        if let Draft::Unwritten(held) | Draft::Written(held) = of.record {
            of.gives |= self.table.heap.keep_held(held);
            of.record = Draft::None;
        }
    }
}

impl Write<'_> {
    fn record_bytes(&self) -> usize {
        let value = self.operation.value().unwrap_or_default();
        record_bytes(self.key.bytes.len(), value.len())
    }
}
