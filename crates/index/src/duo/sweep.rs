//! Finding heap memory that no slot names, when the heap has refused the owner a record.
//!
//! Each thread of the owner holds free blocks of its own. When one of them reclaims, alone, the
//! others forget theirs with the next that they allocate or free: they do either with buckets held,
//! so never while one is alone.

use super::bytes::head_in;
use super::state::DuoTable;
use crate::Result;
use crate::client::scan;
use crate::heap::{BlockRef, Heap, NamedBlocks};
use farslot_fabric::{Endpoint, EndpointExt};
use std::ops::Range;
use std::sync::atomic::Ordering;

impl<E: Endpoint> NamedBlocks for DuoTable<E> {
    /// Those of one array after the other, and then the stash.
    async fn slots(&self) -> Result<u64> {
        let of_buckets = 2 * self.vault.buckets() * u64::from(self.layout.bucket_slots);
        Ok(of_buckets + u64::from(self.layout.stash))
    }

    async fn visit(&self, slots: Range<u64>, mut visit: impl FnMut(BlockRef)) -> Result<()> {
        let slot_bytes = self.layout.slot_bytes();
        let mut look = |bytes: &[u8]| {
            for slot in bytes.chunks_exact(slot_bytes) {
                let reference = u64::from_le_bytes(slot[8..16].try_into().expect("8 bytes"));
                if let (true, Some(block)) = (head_in(slot) != 0, self.layout.block_of(reference)) {
                    visit(block);
                }
            }
        };
        let (buckets, bucket_slots) = (self.vault.buckets(), u64::from(self.layout.bucket_slots));
        let wanted = slots.start / bucket_slots..slots.end.div_ceil(bucket_slots);
        let bucket_bytes = self.layout.bucket_bytes();
        for array in 0..2 {
            for run in self.vault.runs(array) {
                let number = array * buckets + run.first;
                let first = wanted.start.max(number) - number;
                let end = wanted.end.min(number + run.buckets).max(number) - number;
                let (mut next, end) = (run.first + first.min(end), run.first + end);
                while next < end {
                    let piece = scan::piece(next, end, bucket_bytes);
                    let from = self.vault.bucket_at(&self.layout, 2 * next + array);
                    let read = self.endpoint.read(from, piece as usize * bucket_bytes);
                    read.await?.chunks_exact(bucket_bytes).for_each(&mut look);
                    next += piece;
                }
            }
        }
        if self.layout.stash > 0 && slots.end > 2 * buckets * bucket_slots {
            let from = self.slot_at(super::bytes::SlotNumber::STASH);
            let len = self.layout.stash as usize * slot_bytes;
            look(&self.endpoint.read(from, len).await?);
        }
        Ok(())
    }

    async fn make_room(&self, refused: usize) -> Result<bool> {
        let before = self.reclaims.load(Ordering::Acquire);
        let _alone = self.hold_alone().await?;
        if self.reclaims.load(Ordering::Acquire) != before {
            return Ok(true);
        }
        let Some(heap) = self.current_heap() else {
            return Ok(false);
        };
        if !heap.may_reclaim(self, refused).await? {
            return Ok(false);
        }
        // Before anything is found: this may be given up half way.
        self.reclaims.store(before + 1, Ordering::Release);
        self.reclaims_seen.set(before + 1);
        heap.reclaim(self).await
    }
}

impl<E: Endpoint> DuoTable<E> {
    /// The heap, for who holds buckets: without what another thread of the owner has reclaimed.
    pub(super) fn current_heap(&self) -> Option<&Heap<E>> {
        let heap = self.heap.as_ref()?;
        let now = self.reclaims.load(Ordering::Acquire);
        if self.reclaims_seen.replace(now) != now {
            heap.forget_all();
        }
        Some(heap)
    }

    /// Gives back what this thread holds of the heap. Called by who holds something, or is alone.
    pub(super) async fn flush_heap(&self) -> Result<()> {
        match self.current_heap() {
            Some(heap) => heap.flush().await,
            None => Ok(()),
        }
    }
}
