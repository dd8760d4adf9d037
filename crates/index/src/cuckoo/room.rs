//! Making room in the heap, when it has refused the writer a record; and what is done with a block,
//! whatever is in it.

use super::client::CuckooTable;
use super::signatures::SignatureWord;
use crate::client::TURN_OVER;
use crate::hash::checksum;
use crate::heap::{BLOCKS_AT_A_TIME, BlockRef, Heap, Relocate, Relocation};
use crate::{Result, step};
use farslot_fabric::{Endpoint, EndpointExt};
use std::ops::Range;

/// Bytes of buckets that one READ fetches.
const PIECE: usize = 256 << 10;

impl<E: Endpoint> Relocate for CuckooTable<E> {
    fn heap_of_records(&self) -> Option<&Heap<E>> {
        self.heap.as_ref()
    }

    async fn relocate(
        &self,
        relocations: &[Relocation<'_>],
        done: &mut dyn FnMut(usize, Result<bool>),
    ) {
        step::relocate(|| self.writes(), relocations, done).await;
    }

    async fn make_room(&self, refused: usize) -> Result<bool> {
        if let Some(heap) = &self.heap {
            let held = self.locks.take(&[]).await;
            self.become_writer_of_any("writing").await?;
            drop(held);
            if self.inherits.get() && heap.inherit().await? {
                self.inherits.set(false);
            }
            return heap.clean(self, refused).await;
        }
        if !self.endpoint.core().may_wait() {
            return Err(TURN_OVER);
        }
        // No other operation holds a block of its own then.
        let _alone = self.locks.take_alone(&[]).await;
        self.become_writer_of_any("writing").await?;
        self.find_heap_buckets().await
    }
}

impl<E: Endpoint> CuckooTable<E> {
    /// Notes that words name these blocks now.
    pub(super) fn are_named(&self, blocks: &[BlockRef]) {
        if let Some(heap) = &self.heap {
            blocks.iter().for_each(|block| heap.is_named(*block));
        }
    }

    /// Gives back blocks that no word has come to name.
    pub(super) fn take_back_blocks(&self, blocks: &[BlockRef]) {
        match (&self.heap, &self.uniform) {
            (Some(heap), _) => blocks.iter().for_each(|block| heap.bury(*block)),
            (_, Some(uniform)) => blocks.iter().for_each(|block| uniform.free(*block)),
            _ => {}
        }
    }

    /// Frees blocks that no word names any more.
    pub(super) fn free_blocks(&self, blocks: &[BlockRef]) {
        match (&self.heap, &self.uniform) {
            (Some(heap), _) => blocks.iter().for_each(|block| heap.free(*block)),
            (_, Some(uniform)) => blocks.iter().for_each(|block| uniform.free(*block)),
            _ => {}
        }
    }

    /// Forgets the heap memory that this client holds: another writer may have it.
    pub(super) fn forget_heap(&self) {
        self.heap.as_ref().inspect(|heap| heap.forget_all());
        self.uniform.as_ref().inspect(|blocks| blocks.forget_all());
    }

    /// Finds the heap buckets that no word names, which a writer before this one has kept; false if
    /// there are none. Called by who is alone.
    async fn find_heap_buckets(&self) -> Result<bool> {
        let uniform = self.uniform();
        // A verb of an operation that failed or was dropped may still name one, or write it.
        let longest = self.endpoint.core().limits.verb_timeout;
        self.endpoint.sleep(longest).await;
        uniform.forget_all();
        uniform.unchain().await?;
        let (taken, now) = (uniform.taken().await?, self.endpoint.now());
        let mut found = false;
        for first in (0..taken).step_by(BLOCKS_AT_A_TIME as usize) {
            let some = first..taken.min(first + BLOCKS_AT_A_TIME);
            let mut named = vec![0_u64; (some.end - some.start).div_ceil(64) as usize];
            let note = |number: u64| {
                if some.contains(&number) {
                    let at = number - some.start;
                    named[at as usize / 64] |= 1 << (at % 64);
                }
            };
            self.named_heap_buckets(note).await?;
            let is_free = |number: &u64| {
                let at = number - some.start;
                named[at as usize / 64] >> (at % 64) & 1 == 0
            };
            let free: Vec<_> = Range::clone(&some).filter(is_free).collect();
            found |= !free.is_empty();
            let draw = |number: u64| u64::from(checksum(&number.to_le_bytes(), now));
            uniform.found(free.into_iter(), draw);
        }
        Ok(found)
    }

    /// Visits the numbers of the heap buckets that words name.
    async fn named_heap_buckets(&self, mut visit: impl FnMut(u64)) -> Result<()> {
        let bucket_bytes = self.layout.bucket_bytes();
        let piece = (PIECE / bucket_bytes).max(1);
        for first in (0..self.layout.buckets).step_by(piece) {
            let count = (self.layout.buckets - first).min(piece as u64) as usize;
            let at = self.layout.bucket_at(self.table, first);
            let read = self.endpoint.read(at, count * bucket_bytes).await?;
            for bucket in read.words().chunks_exact(bucket_bytes / 8) {
                let word = SignatureWord(bucket[0]);
                if !word.is_vacant() {
                    visit(self.uniform().number_of(self.heap_buckets().block(word)));
                }
            }
        }
        Ok(())
    }
}
