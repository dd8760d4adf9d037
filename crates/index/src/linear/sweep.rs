//! What a sweep of the heap asks of the table, and when an operation begins one.

use super::client::LinearTable;
use crate::heap::{BlockRef, NamedBlocks};
use crate::slot::Head;
use crate::{IndexError, Result};
use farslot_fabric::{Endpoint, EndpointExt};
use std::ops::Range;

/// Bytes of slots that one READ fetches.
const PIECE: usize = 256 << 10;

impl<E: Endpoint> NamedBlocks for LinearTable<E> {
    async fn slots(&self) -> Result<u64> {
        Ok(self.layout.slots)
    }

    async fn visit(&self, slots: Range<u64>, mut visit: impl FnMut(BlockRef)) -> Result<()> {
        let slot_bytes = self.layout.slot_bytes();
        let piece = (PIECE / slot_bytes).max(1);
        for first in slots.clone().step_by(piece) {
            let count = (slots.end - first).min(piece as u64) as usize;
            let at = self.layout.slot_at(self.table, first);
            let read = self.endpoint.read(at, count * slot_bytes).await?;
            for slot in read.words().chunks_exact(slot_bytes / 8) {
                if let Head::Out { block, .. } = Head::decode(slot[0]) {
                    visit(block);
                }
            }
        }
        Ok(())
    }
}

impl<E: Endpoint> LinearTable<E> {
    /// Whether an operation that has ended so can be tried again: the heap was full, and a sweep
    /// has found free memory.
    pub(super) async fn has_room_again<T>(&self, outcome: &Result<T>) -> bool {
        let (Err(IndexError::HeapFull { record_bytes, .. }), Some(heap)) = (outcome, &self.heap)
        else {
            return false;
        };
        // What the operation says is that the heap is full, whatever has become of the sweep.
        Box::pin(heap.sweep(self, *record_bytes))
            .await
            .unwrap_or(false)
    }
}
