//! Making the index from the vault: what a new owner does.
//!
//! Every live slot says whose it is. An owner that died may have left a record twice, which it was
//! moving, or a new record in the journal with its old one in any state: both are set right here.
//! Nothing writes meanwhile: the verbs of the owner before are over, and this one's have not begun.

use super::bytes::{SlotNumber, hash_in, head_in, is_dead, second_in};
use super::changes::Batch;
use super::records::SlotRead;
use super::state::DuoTable;
use crate::client::{scan, side_by_side};
use crate::{BATCH_WIDTH, Result};
use farslot_fabric::{Endpoint, EndpointExt};
use std::collections::HashMap;

/// Slots whose keys' part of the index is fetched together.
const RUN: usize = 16;

/// Live slots whose records are not whole, by their heads: overwritten in part.
type Torn = HashMap<u64, SlotNumber>;

impl<E: Endpoint> DuoTable<E> {
    /// Makes the index anew. Called by the owner, alone.
    pub(super) async fn rebuild(&self) -> Result<()> {
        self.forget();
        self.learn_growths().await?;
        self.vault.set_touched(self.unsplit() > 0);
        let mut torn = Torn::new();
        // The second array first, and the stash: its keys stand by primary fingerprints and by no
        // others, so that those of the first that collide with them are known to stand by backup
        // ones.
        self.take_array(1, &mut torn).await?;
        self.take_stash(&mut torn).await?;
        self.take_array(0, &mut torn).await?;
        let journal: Vec<SlotNumber> = self.layout.journal().collect();
        let live = self.read_live(&journal).await?;
        for (slot, bytes) in live {
            self.recover_update(slot, bytes, &mut torn).await?;
        }
        if let Some(slot) = torn.values().next() {
            return Err(self.unreadable(*slot));
        }
        self.publish_all().await?;
        self.doubts.clear();
        self.journal.reset(&self.layout);
        Ok(())
    }

    /// Takes the keys of an array into the index, a piece at a time.
    async fn take_array(&self, array: u64, torn: &mut Torn) -> Result<()> {
        let bucket_bytes = self.layout.bucket_bytes();
        for run in self.vault.runs(array) {
            let (mut next, end) = (run.first, run.first + run.buckets);
            while next < end {
                let buckets = scan::piece(next, end, self.layout.bytes_in_piece());
                let from = self.vault.bucket_at(&self.layout, 2 * next + array);
                let len = buckets as usize * bucket_bytes;
                let piece = self.endpoint.read(from, len).await?;
                let numbers = (next..).map(|bucket| 2 * bucket + array);
                self.take_buckets(numbers.zip(piece.chunks_exact(bucket_bytes)), torn)
                    .await?;
                next += buckets;
            }
        }
        Ok(())
    }

    /// Takes the keys of the stash into the index.
    async fn take_stash(&self, torn: &mut Torn) -> Result<()> {
        if self.layout.stash == 0 {
            return Ok(());
        }
        let slot_bytes = self.layout.slot_bytes();
        let len = self.layout.stash as usize * slot_bytes;
        let from = self.slot_at(SlotNumber::STASH);
        let stash = self.endpoint.read(from, len).await?;
        let slots = (SlotNumber::STASH.0..).map(SlotNumber);
        self.take_slots(slots.zip(stash.chunks_exact(slot_bytes)), torn)
            .await
    }

    /// Takes the keys of buckets that were read into the index.
    async fn take_buckets<'b>(
        &self,
        buckets: impl Iterator<Item = (u64, &'b [u8])>,
        torn: &mut Torn,
    ) -> Result<()> {
        // What is in the others was written by a split that did not come about, and may be much.
        let in_use = buckets.filter(|(bucket, _)| self.index.borrow().is_in_use(*bucket));
        let slots = in_use.flat_map(|(bucket, bytes)| {
            let first = bucket * u64::from(self.layout.bucket_slots);
            let each = bytes.chunks_exact(self.layout.slot_bytes());
            (first..).map(SlotNumber).zip(each)
        });
        self.take_slots(slots, torn).await
    }

    /// Takes the keys of slots that were read into the index.
    async fn take_slots<'b>(
        &self,
        slots: impl Iterator<Item = (SlotNumber, &'b [u8])>,
        torn: &mut Torn,
    ) -> Result<()> {
        let (mut live, mut dead) = (Vec::new(), Batch::default());
        for (slot, bytes) in slots {
            if is_dead(bytes) {
                self.clear_dead(&mut dead, slot, bytes);
            } else {
                live.push((slot, bytes));
            }
        }
        self.run(dead).await?;
        if self.heap.is_none() {
            for run in live.chunks(RUN) {
                let mut left = self.take_new(run);
                while left != 0 {
                    let (slot, bytes) = run[left.trailing_zeros() as usize];
                    left &= left - 1;
                    let words = (bytes, second_in(bytes));
                    self.take_slot(slot, words, torn).await?;
                }
            }
            return Ok(());
        }
        let mut read = Vec::with_capacity(live.len());
        let reads = live.iter().map(|(_, bytes)| self.resolved_of(bytes));
        let keep = |number: usize, bytes| read.push((live[number].0, bytes));
        side_by_side(BATCH_WIDTH, reads, keep).await?;
        for (slot, bytes) in read {
            self.take_slot(slot, (&bytes, bytes.second), torn).await?;
        }
        Ok(())
    }

    /// Takes the keys of these live slots into the index whose records are whole and that match
    /// none: nearly all. Of the others it says which they are, a bit each.
    fn take_new(&self, run: &[(SlotNumber, &[u8])]) -> u32 {
        {
            let index = self.index.borrow();
            for (_, bytes) in run {
                index.prefetch(&index.candidates(hash_in(head_in(bytes))));
            }
        }
        self.change_index(|index| {
            let mut left = 0;
            for (number, (slot, bytes)) in run.iter().enumerate() {
                let is_whole = self.layout.record_in(bytes).is_some();
                let taken = is_whole && index.assign_new(*slot, hash_in(head_in(bytes)));
                left |= u32::from(!taken) << number;
            }
            left
        })
    }

    /// Takes the key of a live slot, with its record and its second word, into the index.
    async fn take_slot(
        &self,
        slot: SlotNumber,
        (bytes, second): (&[u8], u64),
        torn: &mut Torn,
    ) -> Result<()> {
        let head = head_in(bytes);
        let hash = hash_in(head);
        if !self.index.borrow().belongs(slot, hash) {
            // Left behind when its bucket was split.
            return self.remove_copy(slot, head, second).await;
        }
        let Some(record) = self.layout.record_in(bytes) else {
            torn.insert(head, slot);
            return Ok(());
        };
        if self.copy_of(record.key, hash).await?.is_some() {
            // Moved, and the original not removed: both are alike.
            self.remove_copy(slot, head, second).await?;
        } else {
            self.change_index(|index| index.assign(slot, hash));
        }
        Ok(())
    }

    async fn remove_copy(&self, slot: SlotNumber, head: u64, second: u64) -> Result<()> {
        let mut batch = Batch::default();
        self.kill(&mut batch, slot, head, second);
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
        newest: SlotRead,
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
