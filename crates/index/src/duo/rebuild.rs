//! Making the index from the vault: what a new owner does.
//!
//! Every live slot says whose it is. An owner that died may have left a record twice, which it was moving, or
//! a new record in the journal with its old one in any state: both are set right here. Nothing writes
//! meanwhile: the verbs of the owner before are over, and this one's have not begun.

use super::batch::Batch;
use super::client::DuoTable;
use super::layout::{hash_in, head_in};
use super::placement::SlotNumber;
use crate::Result;
use crate::client::scan;
use farslot_fabric::{Buffer, Endpoint, EndpointExt};
use std::collections::HashMap;

/// Live slots whose records are not whole, by their heads: overwritten in part.
type Torn = HashMap<u64, SlotNumber>;

impl<E: Endpoint> DuoTable<E> {
    /// Makes the index anew. Called by the owner, alone.
    pub(super) async fn rebuild(&self) -> Result<()> {
        self.forget();
        self.learn_growths().await?;
        let mut torn = Torn::new();
        // The second array first, and the stash: its keys stand by primary fingerprints and by no others, so that
        // those of the first that collide with them are known to stand by backup ones.
        self.take_array(1, &mut torn).await?;
        let stash: Vec<SlotNumber> = self.layout.stash_slots().collect();
        for (slot, bytes) in self.read_live(&stash).await? {
            self.take_slot(slot, &bytes, &mut torn).await?;
        }
        self.take_array(0, &mut torn).await?;
        let journal: Vec<SlotNumber> = self.layout.journal().collect();
        for (slot, bytes) in self.read_live(&journal).await? {
            self.recover_update(slot, bytes, &mut torn).await?;
        }
        if let Some(slot) = torn.values().next() {
            return Err(self.unreadable(*slot));
        }
        self.doubts.clear();
        self.journal.reset(&self.layout);
        Ok(())
    }

    /// Takes the keys of an array into the index, a piece at a time.
    async fn take_array(&self, array: u64, torn: &mut Torn) -> Result<()> {
        let (bucket_bytes, slots) = (self.layout.bucket_bytes(), self.layout.bucket_slots);
        for run in self.vault.runs(array) {
            let (mut next, end) = (run.first, run.first + run.buckets);
            while next < end {
                let buckets = scan::piece(next, end, bucket_bytes);
                let from = self.vault.bucket_at(&self.layout, 2 * next + array);
                let len = buckets as usize * bucket_bytes;
                let piece = self.endpoint.read(from, len).await?;
                for (bucket, bytes) in (next..).zip(piece.chunks_exact(bucket_bytes)) {
                    let bucket = 2 * bucket + array;
                    // What is in the others was written by a split that did not come about, and may be much.
                    if self.index.borrow().is_in_use(bucket) {
                        let first = bucket * u64::from(slots);
                        let each = bytes.chunks_exact(self.layout.slot_bytes());
                        for (slot, bytes) in (first..).map(SlotNumber).zip(each) {
                            self.take_slot(slot, bytes, torn).await?;
                        }
                    }
                }
                next += buckets;
            }
        }
        Ok(())
    }

    /// Takes the key of a slot into the index, if it has one.
    async fn take_slot(&self, slot: SlotNumber, bytes: &[u8], torn: &mut Torn) -> Result<()> {
        let head = head_in(bytes);
        if head == 0 {
            return Ok(());
        }
        let hash = hash_in(head);
        if !self.index.borrow().belongs(slot, hash) {
            // Left behind when its bucket was split.
            return self.remove_copy(slot, head).await;
        }
        let Some(record) = self.layout.record_in(bytes) else {
            torn.insert(head, slot);
            return Ok(());
        };
        if self.copy_of(record.key, hash).await?.is_some() {
            // Moved, and the original not removed: both are alike.
            self.remove_copy(slot, head).await?;
        } else {
            self.change_index(|index| index.assign(slot, hash));
        }
        Ok(())
    }

    async fn remove_copy(&self, slot: SlotNumber, head: u64) -> Result<()> {
        let mut batch = Batch::default();
        batch.kill(slot, head);
        self.run(batch).await?;
        self.worked(|work| work.copies_removed += 1);
        Ok(())
    }

    /// The slot in which the index has this key.
    async fn copy_of(&self, key: &[u8], hash: u64) -> Result<Option<SlotNumber>> {
        let matches: Vec<SlotNumber> = self.index.borrow().matches(hash).collect();
        for slot in matches {
            let bytes = self.read_slot(slot).await?;
            let record = self.layout.record_in(&bytes);
            if record.is_some_and(|record| record.key == key) {
                return Ok(Some(slot));
            }
        }
        Ok(None)
    }

    /// Finishes the update that a slot of the journal was for.
    async fn recover_update(
        &self,
        journal: SlotNumber,
        newest: Buffer,
        torn: &mut Torn,
    ) -> Result<()> {
        let record = self.layout.record_in(&newest);
        let record = record.ok_or_else(|| self.unreadable(journal))?;
        let hash = self.layout.hash_of(record.key);
        let torn = torn.remove(&head_in(&newest));
        let place = match torn {
            Some(slot) => slot,
            None => {
                let copy = self.copy_of(record.key, hash).await?;
                copy.ok_or_else(|| self.unreadable(journal))?
            }
        };
        self.finish_update(journal, place, &newest).await?;
        if torn.is_some() {
            self.change_index(|index| index.assign(place, hash));
        }
        Ok(())
    }
}
