//! Splitting the stash of a sub-table, with the buckets of the first array.
//!
//! A key of the stash is guarded by its bucket of the first array, as it is in every operation: who splits that bucket takes
//! it along, to the slot of the same number of the new sub-table's stash, where nobody has put another
//! ([`Placement::stash_of_split`](super::super::placement::Placement::stash_of_split)).
//!
//! Invariant: as of the bucket's other keys. The new slot, and its entry in the published index, are written before the bit
//! that says that the bucket is split, and the old ones after it, in one batch. A slot of the stash with a key whose bucket is
//! another sub-table's is dead.

use super::super::client::DuoTable;
use super::super::growth::Step;
use super::super::layout::{head_in, live_head};
use super::super::placement::{SlotNumber, Stashed};
use super::super::published::stash_entry;
use crate::client::side_by_side;
use crate::{BATCH_WIDTH, Result};
use farslot_fabric::{Buffer, Endpoint, EndpointExt};

/// What a batch that splits buckets does with keys of the stash.
#[derive(Default)]
pub(in super::super) struct StashSplit {
    /// Steps before the bits that say that the buckets are split.
    pub(in super::super) new: Vec<Step>,
    /// Steps after them.
    pub(in super::super) old: Vec<Step>,
    /// The slots that these steps change.
    pub(in super::super) slots: Vec<SlotNumber>,
}

impl<E: Endpoint> DuoTable<E> {
    /// Reads the keys of the stash that go to another sub-table when these buckets, which are held, are split; gives what
    /// is to be done with them.
    pub(in super::super) async fn split_of_stash(&self, origins: &[u64]) -> Result<StashSplit> {
        if !self.layout.extendible {
            return Ok(StashSplit::default());
        }
        let keys: Vec<Stashed> = {
            let index = self.index.borrow();
            let of_each = origins.iter().map(|origin| index.stash_of_split(*origin));
            of_each.flatten().collect()
        };
        let mut split = StashSplit::default();
        let mut images = Vec::with_capacity(keys.len());
        let reads = keys.iter().map(async |key| {
            let at = self.slot_at(key.from);
            Ok(self.endpoint.read(at, self.layout.slot_bytes()).await?)
        });
        side_by_side(BATCH_WIDTH, reads, |number, bytes| {
            images.push((keys[number], bytes));
        })
        .await?;
        for (key, image) in images {
            if head_in(&image) != live_head(key.hash) {
                return Err(self.lost(key.from));
            }
            self.split_stashed(key, image, &mut split)?;
        }
        Ok(split)
    }

    fn split_stashed(&self, key: Stashed, image: Buffer, split: &mut StashSplit) -> Result<()> {
        let mut nothing = self.endpoint.core().buffers.take(image.len())?;
        // All of it: a dead slot that readers may look at holds no whole record.
        nothing.words_mut().fill(0);
        if self.layout.published {
            split
                .new
                .push(self.page_of_stash(key.to, stash_entry(key.hash))?);
            let (page, _) = self.layout.page_of(key.to);
            let segment = self.vault.segment_of(&self.layout, page);
            let count_at = self.vault.count_at(&self.layout, segment);
            split.new.push(Step::Add(count_at, 1));
            split.old.push(self.page_of_stash(key.from, 0)?);
        }
        split.new.push(Step::Write(self.slot_at(key.to), image));
        split.old.push(Step::Write(self.slot_at(key.from), nothing));
        split.slots.extend([key.from, key.to]);
        Ok(())
    }

    /// Writes the page of a slot of the stash.
    fn page_of_stash(&self, slot: SlotNumber, entry: u64) -> Result<Step> {
        let (page, _) = self.layout.page_of(slot);
        let word = self.word_of_stash(page, entry);
        let bytes = self.endpoint.core().buffers.copy_of(&word.to_le_bytes())?;
        Ok(Step::Write(self.vault.page_at(&self.layout, page), bytes))
    }
}
