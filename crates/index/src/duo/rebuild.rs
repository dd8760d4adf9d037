//! Making the index from the vault: what a new owner does.
//!
//! Every live slot says whose it is. An owner that died may have left a record twice, which it was moving, or
//! a new record in the journal with its old one in any state: both are set right here. Nothing writes
//! meanwhile: the verbs of the owner before are over, and this one's have not begun.

use super::client::DuoTable;
use super::layout::head_in;
use super::placement::{Placement, SlotNumber};
use super::records::SlotRead;
use crate::client::{scan, side_by_side};
use crate::{BATCH_WIDTH, Result};
use farslot_fabric::{Endpoint, EndpointExt};
use std::collections::{BTreeMap, HashMap};

/// Live slots whose records are not whole, by their heads: overwritten in part.
type Torn = HashMap<u64, SlotNumber>;

impl<E: Endpoint> DuoTable<E> {
    /// Makes the index anew. Called by the owner, alone.
    pub(super) async fn rebuild(&self) -> Result<()> {
        self.change_index(|index| *index = Placement::new(self.layout.index_shape()));
        let mut torn = Torn::new();
        let first_array = self.layout.slots() / 2;
        // The second array first: its keys stand by primary fingerprints and by no others, so that
        // those of the first that collide with them are known to stand by backup ones.
        let second_array = first_array..self.layout.key_slots();
        for range in [second_array, 0..first_array] {
            let mut next = range.start;
            while next < range.end {
                next = self.take_piece(next, range.end, &mut torn).await?;
            }
        }
        let journal: Vec<SlotNumber> = self.layout.journal().collect();
        let live = self.read_live(&journal).await?;
        let mut dead = self.batch();
        let is_dead = |slot: &&SlotNumber| !live.contains_key(slot);
        journal
            .iter()
            .filter(is_dead)
            .for_each(|slot| dead.spoil(*slot));
        self.run(dead).await?;
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

    /// Spoils a whole record in a dead slot, which an owner that died has left there.
    async fn spoil_dead(&self, slot: SlotNumber, bytes: &[u8]) -> Result<()> {
        if !self.layout.published || !self.layout.is_whole_behind(bytes) {
            return Ok(());
        }
        let mut batch = self.batch();
        batch.spoil(slot);
        self.run(batch).await
    }

    /// Takes a piece of the vault into the index; returns where the next begins.
    async fn take_piece(&self, first: u64, end: u64, torn: &mut Torn) -> Result<u64> {
        let slot_bytes = self.layout.slot_bytes();
        let slots = scan::piece(first, end, slot_bytes);
        let from = self.layout.slot_at(self.table, SlotNumber(first));
        let piece = self
            .endpoint
            .read(from, slots as usize * slot_bytes)
            .await?;
        let numbers = (first..).map(SlotNumber);
        let (mut live, mut named) = (Vec::new(), BTreeMap::new());
        for (slot, bytes) in numbers.zip(piece.chunks_exact(slot_bytes)) {
            if head_in(bytes) == 0 {
                self.spoil_dead(slot, bytes).await?;
            } else {
                live.push((slot, bytes));
            }
        }
        if self.heap.is_some() {
            let reads = live.iter().map(|(_, bytes)| self.resolved_of(bytes));
            side_by_side(BATCH_WIDTH, reads, |number, read| {
                named.insert(live[number].0, read);
            })
            .await?;
        }
        for (slot, bytes) in live {
            let bytes = named.get(&slot).map_or(bytes, |read| read);
            self.take_slot(slot, bytes, torn).await?;
        }
        Ok(first + slots)
    }

    /// Takes the key of a live slot into the index.
    async fn take_slot(&self, slot: SlotNumber, bytes: &[u8], torn: &mut Torn) -> Result<()> {
        let head = head_in(bytes);
        let Some(record) = self.layout.record_in(bytes) else {
            torn.insert(head, slot);
            return Ok(());
        };
        let hash = self.layout.hasher.hash(record.key);
        if self.copy_of(record.key, hash).await?.is_none() {
            self.change_index(|index| index.assign(slot, hash));
            return Ok(());
        }
        // Moved, and the original not removed: both are alike.
        let mut batch = self.batch();
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
        newest: SlotRead,
        torn: &mut Torn,
    ) -> Result<()> {
        let record = self.layout.record_in(&newest);
        let record = record.ok_or_else(|| self.unreadable(journal))?;
        let hash = self.layout.hasher.hash(record.key);
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
