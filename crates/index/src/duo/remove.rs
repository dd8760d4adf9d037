//! Removing a key.
//!
//! A slot's head is the key's hash: so one compare-and-swap both sees whose record it is and makes
//! the slot dead. What stays of the record is behind a head of 0, which is none: nothing brings it
//! back. Where the index is published, the word that publishes the record is swapped out before,
//! and for that the slot is read first.

use super::batch::Batch;
use super::bytes::{SLOT_HEADER, SlotNumber, live_head};
use super::state::DuoTable;
use crate::Result;
use crate::heap::BlockRef;
use farslot_fabric::{Endpoint, EndpointExt, both};

impl<E: Endpoint> DuoTable<E> {
    pub(super) async fn remove_record(&self, key: &[u8]) -> Result<bool> {
        let key = self.key(key)?;
        let held = self.hold(&key).await?;
        for slot in self.matches(&key) {
            let head = live_head(key.hash);
            let (seen, block) = match self.layout.published {
                true => self.kill_published(slot, head).await?,
                false => self.kill(slot, head).await?,
            };
            if seen == head {
                self.change_index(|index| index.vacate(slot));
                let enough = self.note_entry(-1);
                self.free(block).await;
                drop(held);
                self.tell_counts(enough).await;
                for bucket in key.buckets.get() {
                    self.bring_back(bucket).await;
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes a slot with this head dead; returns what its head was, and the block that it names.
    async fn kill(&self, slot: SlotNumber, head: u64) -> Result<(u64, Option<BlockRef>)> {
        let at = self.slot_at(slot);
        let doubt = self.doubt(vec![slot]);
        let killing = self.endpoint.compare_swap(at, head, 0);
        let (seen, block) = match self.heap {
            None => (killing.await?, None),
            Some(_) => {
                let (seen, bytes) = both(killing, self.read_bare(slot)).await;
                // The slot is dead already: if it could not be read, the block is lost.
                let block = bytes.ok().map(|bytes| bytes.words()[1]);
                (seen?, block.and_then(|word| self.layout.block_of(word)))
            }
        };
        doubt.resolve();
        Ok((seen, block))
    }

    /// The same where the index is published.
    async fn kill_published(&self, slot: SlotNumber, head: u64) -> Result<(u64, Option<BlockRef>)> {
        let bytes = self.endpoint.read(self.slot_at(slot), SLOT_HEADER).await?;
        let (seen, second) = (bytes.words()[0], bytes.words()[1]);
        if seen == head {
            let mut batch = self.batch();
            self.take_out(&mut batch, slot, (head, second));
            self.run(batch).await?;
        }
        Ok((seen, self.layout.block_of(second)))
    }

    /// Makes a live slot with these words dead, and takes its entry out of the published index.
    pub(super) fn take_out(
        &self,
        batch: &mut Batch<'_, E>,
        slot: SlotNumber,
        (head, second): (u64, u64),
    ) {
        batch.hide(slot, second);
        // Not behind the last atomic: what another thread of the owner publishes there next must
        // not become visible before this.
        self.unpublish(batch, slot);
        batch.clear_head(slot, head);
    }
}
