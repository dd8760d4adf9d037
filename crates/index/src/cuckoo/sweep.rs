//! Finding heap memory that no slot names, when the heap has refused the writer a record.

use super::client::CuckooTable;
use super::signatures::SignatureWord;
use crate::Result;
use crate::heap::{BlockRef, NamedBlocks};
use crate::slot::{Head, SlotKind};
use farslot_fabric::{Endpoint, EndpointExt};
use std::ops::Range;

/// Bytes of buckets that one READ fetches.
const PIECE: usize = 256 << 10;

impl<E: Endpoint> NamedBlocks for CuckooTable<E> {
    async fn slots(&self) -> Result<u64> {
        Ok(self.layout.slots())
    }

    async fn visit(&self, slots: Range<u64>, mut visit: impl FnMut(BlockRef)) -> Result<()> {
        let bucket_slots = u64::from(self.layout.bucket_slots);
        let end = slots.end.div_ceil(bucket_slots);
        let bucket_bytes = self.layout.bucket_bytes();
        let piece = (PIECE / bucket_bytes).max(1);
        for first in (slots.start / bucket_slots..end).step_by(piece) {
            let count = (end - first).min(piece as u64) as usize;
            let at = self.layout.bucket_at(self.table, first);
            let read = self.endpoint.read(at, count * bucket_bytes).await?;
            for bucket in read.words().chunks_exact(bucket_bytes / 8) {
                if self.layout.kind == SlotKind::Signatures {
                    let word = SignatureWord(bucket[0]);
                    if !word.is_vacant() {
                        visit(self.heap_buckets().block(word));
                    }
                    continue;
                }
                for slot in bucket.chunks_exact(self.layout.slot_words()) {
                    if let Head::Out { block, .. } = self.head(slot[0]) {
                        visit(block);
                    }
                }
            }
        }
        Ok(())
    }

    async fn make_room(&self, refused: usize) -> Result<bool> {
        let before = self.reclaims.get();
        // No other operation holds a block of its own then, or moves a record.
        let _alone = self.locks.take_alone(&[]).await;
        if self.reclaims.get() != before {
            return Ok(true);
        }
        self.become_writer_of_any("writing").await?;
        let heap = self.heap();
        let found = heap.may_reclaim(self, refused).await? && heap.reclaim(self).await?;
        self.reclaims.set(before + u64::from(found));
        Ok(found)
    }
}
