//! How long a client may use what it holds: as long as it keeps looking at the heap's epoch.

use super::allocator::Heap;
use super::layout::{BlockRef, block_bytes};
use super::mark::{Epoch, HeapMark, Held, bytes_of};
use crate::Result;
use farslot_fabric::{Endpoint, EndpointExt, Nanos};
use std::ops::Range;

/// How long a client may use what it has without another look at the epoch.
pub(super) const LOOK_AFTER: Nanos = 10_000_000_000;

impl<E: Endpoint> Heap<E> {
    /// The epoch, as this client knows it.
    pub(crate) fn epoch(&self) -> Epoch {
        self.mark.get().epoch
    }

    /// A block that was allocated this moment: nothing was awaited since.
    pub(crate) fn held(&self, block: BlockRef) -> Held {
        let since = self.epoch();
        Held { block, since }
    }

    /// Whether a slot may be made to name the block, by a verb that is posted at once.
    ///
    /// # Errors
    /// What the fabric says.
    pub(crate) async fn still_holds(&self, held: Held) -> Result<bool> {
        self.look_if_due().await?;
        Ok(!self.is_revoked(held.block, held.since))
    }

    /// Gives back a block that was allocated and that no slot has come to name.
    pub(crate) async fn give_up(&self, held: Held) {
        self.free_since(held.block, held.since).await;
    }

    /// Whether a block that was allocated is still this client's, as far as it knows: to be asked
    /// only while no [look](Heap::is_look_due) is due.
    pub(crate) fn holds(&self, held: Held) -> bool {
        !self.is_revoked(held.block, held.since)
    }

    pub(super) fn is_revoked(&self, block: BlockRef, since: Epoch) -> bool {
        self.revokes(&bytes_of(block), since)
    }

    pub(super) fn revokes(&self, bytes: &Range<u64>, since: Epoch) -> bool {
        self.epoch().revokes(since, bytes, self.place.bytes)
    }

    /// Looks at the mark and the epoch, if the last look was long ago.
    pub(super) async fn look_if_due(&self) -> Result<()> {
        if self.is_look_due() {
            self.look().await?;
        }
        Ok(())
    }

    /// Whether the last look at the mark and the epoch was long ago.
    pub(crate) fn is_look_due(&self) -> bool {
        let now = self.endpoint.now();
        (self.looked_at.get()).is_none_or(|at| now.saturating_sub(at) >= LOOK_AFTER)
    }

    /// Whether blocks of a table's heap, if it has one, may be used without a look at it: asked
    /// once where the memory is mapped, and for certain elsewhere.
    #[inline]
    pub(crate) fn may_use_blocks(heap: Option<&Self>, is_mapped: bool) -> bool {
        is_mapped && heap.is_some_and(|heap| !heap.is_look_due())
    }

    /// Looks at the mark and the epoch.
    pub(super) async fn look(&self) -> Result<HeapMark> {
        let began = self.endpoint.now();
        let word = self.endpoint.read(self.place.header, 8).await?.words()[0];
        Ok(self.saw(word, began))
    }

    /// Swaps the mark and the epoch; returns what they were, which this client then knows.
    pub(super) async fn swap_mark(&self, from: HeapMark, to: HeapMark) -> Result<HeapMark> {
        let began = self.endpoint.now();
        let swap = (self.endpoint).compare_swap(self.place.header, from.word(), to.word());
        let seen = swap.await?;
        let is_done = seen == from.word();
        self.saw(if is_done { to.word() } else { seen }, began);
        Ok(HeapMark::of_word(seen))
    }

    /// Notes what a look showed that began at that time, and forgets what is no longer this
    /// client's.
    fn saw(&self, word: u64, began: Nanos) -> HeapMark {
        let seen = HeapMark::of_word(word);
        // A look that began earlier shows an older state, although its answer came later.
        if self.looked_at.get().is_some_and(|at| began < at) {
            return self.mark.get();
        }
        let known = self.mark.replace(seen).epoch;
        self.looked_at.set(Some(began));
        if known != seen.epoch {
            self.epoch_since.set(self.endpoint.now());
            self.forget_revoked(known);
        }
        seen
    }

    /// Forgets all that the epoch revokes of what this client had at another one.
    fn forget_revoked(&self, since: Epoch) {
        let (next, end) = self.extent.get();
        if next < end && self.revokes(&(next..end), since) {
            self.extent.set((0, 0));
        }
        let mut kept = 0;
        for (class, blocks) in self.freed.borrow_mut().iter_mut().enumerate() {
            blocks.retain(|block| !self.is_revoked(*block, since));
            kept += (blocks.len() * block_bytes(class)) as u64;
        }
        self.kept_bytes.set(kept);
    }
}
