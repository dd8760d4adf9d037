//! Resolving doubts: what became of a batch that failed.
//!
//! A verb that failed may have taken effect or not, and so may the verbs behind it. The owner does
//! nothing else until it knows: the next operation reads the slots of such batches, finishes what
//! was begun, and corrects the index. By then none of the verbs in question is in flight: verbs of
//! one endpoint take effect in order, and a thread that resolves what another thread left first
//! waits for the verb timeout. The other thread cannot be asked to do it, as it may be gone.
//!
//! Verbs on words other than slots can be in doubt too: the owner's word, the published index, the
//! count of extents. There is nothing to find out about them, but other threads must not act before
//! these verbs are over.

use super::bytes::{SlotNumber, hash_in, head_in, is_dead};
use super::changes::Batch;
use super::records::SlotRead;
use super::state::{Doubt, DuoTable};
use crate::client::side_by_side;
use crate::{BATCH_WIDTH, Result};
use farslot_fabric::{Endpoint, EndpointExt};
use std::collections::BTreeMap;

impl<E: Endpoint> DuoTable<E> {
    /// Of verbs that this thread is about to post, and that change these slots, or something else
    /// than slots.
    pub(super) fn doubt(&self, slots: Vec<SlotNumber>) -> Doubt<'_> {
        let longest = self.endpoint.core().limits.verb_timeout;
        Doubt::new(&self.doubts, &self.journal, slots, (self.thread, longest))
    }

    /// Waits until no verb of the owner's other threads that is in doubt can be under way. Called
    /// by who is alone: so none that is not in doubt is.
    pub(super) async fn outlive_doubts(&self) {
        let longest = self.doubts.longest_of_others(self.thread);
        if longest > 0 {
            self.endpoint.sleep(longest).await;
            self.doubts.outlived_others(self.thread);
        }
    }

    /// Finishes or undoes what is in doubt. Called by who is alone.
    pub(super) async fn settle_doubts(&self) -> Result<()> {
        if self.doubts.is_empty() {
            return Ok(());
        }
        self.outlive_doubts().await;
        let slots = self.doubts.slots();
        self.learn_splits(&slots).await?;
        // Some of them may be of a split that did not come about.
        self.vault.set_touched(self.index.borrow().unsplit() > 0);
        let mut live = self.read_live(&slots).await?;
        let (mut keys, mut journal) = (BTreeMap::new(), Vec::new());
        let (mut left_behind, mut left) = (Batch::default(), 0);
        while let Some((slot, bytes)) = live.pop_last() {
            if slot.is_journal() {
                journal.push((slot, bytes));
                continue;
            }
            let (index, head) = (self.index.borrow(), head_in(&bytes));
            if !index.belongs(slot, hash_in(head)) {
                // Left behind by a split, or written by one that did not come about.
                self.kill(&mut left_behind, slot, head, bytes.second);
                left += 1;
                continue;
            }
            // The copies of a record that was being moved are alike.
            let copies: &mut Vec<_> = keys.entry(head_in(&bytes)).or_default();
            copies.push((slot, bytes));
        }
        for (slot, newest) in journal {
            let head = head_in(&newest);
            let place = keys.get_mut(&head).and_then(|copies| copies.first_mut());
            let (place, bytes) = place.ok_or_else(|| self.unreadable(slot))?;
            self.finish_update(slot, *place, &newest).await?;
            *bytes = newest;
        }
        self.run(left_behind).await?;
        self.worked(|work| work.copies_removed += left);
        let mut certain = Vec::new();
        for (head, copies) in keys {
            let mut batch = Batch::default();
            for (copy, bytes) in &copies[1..] {
                self.kill(&mut batch, *copy, head, bytes.second);
            }
            self.run(batch).await?;
            self.worked(|work| work.copies_removed += copies.len() as u64 - 1);
            let (slot, bytes) = &copies[0];
            let record = self.layout.record_in(bytes);
            let record = record.ok_or_else(|| self.unreadable(*slot))?;
            certain.push((*slot, self.layout.hash_of(record.key)));
        }
        self.change_index(|index| {
            let of_keys = slots.iter().filter(|slot| !slot.is_journal());
            of_keys.for_each(|slot| index.vacate(*slot));
            certain
                .iter()
                .for_each(|(slot, hash)| index.assign(*slot, *hash));
        });
        // What was to be published may have been, or not.
        let of_keys = slots.iter().filter(|slot| !slot.is_journal());
        self.publish_pages_of(&of_keys.copied().collect::<Vec<_>>())
            .await?;
        self.doubts.clear();
        let journal = slots.into_iter().filter(|slot| slot.is_journal());
        journal.for_each(|slot| self.journal.give_back(slot));
        Ok(())
    }

    /// Reads slots; gives those that are live, and clears the others.
    pub(super) async fn read_live(
        &self,
        slots: &[SlotNumber],
    ) -> Result<BTreeMap<SlotNumber, SlotRead>> {
        let (mut live, mut dead) = (BTreeMap::new(), Batch::default());
        let reads = slots.iter().map(|slot| self.read_slot(*slot));
        side_by_side(BATCH_WIDTH, reads, |number, bytes| {
            if is_dead(&bytes) {
                self.clear_dead(&mut dead, slots[number], &bytes);
            } else {
                live.insert(slots[number], bytes);
            }
        })
        .await?;
        self.run(dead).await?;
        Ok(live)
    }

    /// Writes a record of the journal over what is left of its old one.
    pub(super) async fn finish_update(
        &self,
        journal: SlotNumber,
        place: SlotNumber,
        newest: &SlotRead,
    ) -> Result<()> {
        if self.layout.record_in(newest).is_none() {
            return Err(self.unreadable(journal));
        }
        let mut batch = Batch::default();
        self.overwrite(&mut batch, place, self.body_in(newest)?);
        self.kill(&mut batch, journal, head_in(newest), newest.second);
        self.run(batch).await?;
        self.worked(|work| work.updates_finished += 1);
        Ok(())
    }
}
