//! Removing a key.
//!
//! A slot's head is the key's hash: so one compare-and-swap both sees whose record it is and makes
//! the slot dead. What stays of the record is behind a head of 0, which is none: nothing brings it
//! back. Where the index is published, a second round trip spoils it.

use super::bytes::{SlotNumber, live_head};
use super::state::DuoTable;
use crate::Result;
use crate::heap::BlockRef;
use farslot_fabric::{Endpoint, EndpointExt, both};

impl<E: Endpoint> DuoTable<E> {
    pub(super) async fn remove_record(&self, key: &[u8]) -> Result<bool> {
        let key = self.key(key)?;
        let held = self.hold(&key).await?;
        for slot in self.matches(&key) {
            let doubt = self.doubt(vec![slot]);
            let head = live_head(key.hash);
            let (seen, block) = self.kill(slot, head).await?;
            doubt.resolve();
            if seen == head {
                if self.layout.published {
                    let mut batch = self.batch();
                    self.unpublish(&mut batch, slot);
                    batch.spoil(slot);
                    self.run(batch).await?;
                }
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
        let killing = self.endpoint.compare_swap(at, head, 0);
        if self.heap.is_none() {
            return Ok((killing.await?, None));
        }
        let (seen, bytes) = both(killing, self.read_bare(slot)).await;
        // The slot is dead already: if it could not be read, the block is lost.
        let block = bytes.ok().map(|bytes| bytes.words()[1]);
        Ok((seen?, block.and_then(|word| self.layout.block_of(word))))
    }
}
