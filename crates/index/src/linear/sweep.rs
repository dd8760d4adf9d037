//! What a sweep of the heap asks of the table.

use super::client::LinearTable;
use crate::Result;
use crate::heap::{BlockRef, NamedBlocks};
use crate::slot::Head;
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

    async fn make_room(&self, refused: usize) -> Result<bool> {
        match &self.heap {
            Some(heap) => heap.sweep(self, refused).await,
            None => Ok(false),
        }
    }
}
