//! Batches of verbs that change slots: what of one takes effect is its first part, wherever the
//! owner or the fabric stops.

use super::bytes::{SlotNumber, head_in};
use super::changes::Change;
use super::records::NewRecord;
use super::state::DuoTable;
use crate::Result;
use farslot_fabric::{Buffer, Endpoint, OperationClass, RemoteAddr, Steps, Tally};

/// Changes of slots, in the order in which they take effect.
pub(super) struct Batch<'t, E> {
    table: &'t DuoTable<E>,
    changes: Vec<Change>,
    slots: Vec<SlotNumber>,
}

impl<E: Endpoint> Batch<'_, E> {
    /// Makes a dead slot live.
    pub(super) fn fill(&mut self, slot: SlotNumber, head: u64, body: Buffer) {
        self.overwrite(slot, body);
        self.swap_head(slot, 0, head);
    }

    /// Makes a live slot dead.
    pub(super) fn kill(&mut self, slot: SlotNumber, head: u64) {
        self.clear_head(slot, head);
        self.spoil(slot);
    }

    /// The same without what is behind the head, which is still to be [spoilt](Self::spoil).
    pub(super) fn clear_head(&mut self, slot: SlotNumber, head: u64) {
        self.slots.push(slot);
        self.swap_head(slot, head, 0);
    }

    fn swap_head(&mut self, slot: SlotNumber, from: u64, to: u64) {
        let at = self.table.slot_at(slot);
        self.changes.push(Change::Swap { at, from, to, slot });
    }

    /// Spoils what is behind a dead slot's head, so that it is no whole record, where readers
    /// beside the owner could take it for one. It is an atomic: what was written is visible when
    /// this is done.
    pub(super) fn spoil(&mut self, slot: SlotNumber) {
        let layout = &self.table.layout;
        if layout.published {
            self.slots.push(slot);
            let change = Change::Add(self.body_at(slot), layout.spoiling());
            self.changes.push(change);
        }
    }

    /// Writes a word of the published index.
    pub(super) fn publish(&mut self, page: u64, word: u32, entries: u64) {
        let at = self.table.vault.page_at(&self.table.layout, page);
        let at = at.plus(u64::from(word) * 8);
        self.changes.push(Change::WriteWord(at, entries));
    }

    /// Counts a change of a segment of the published index.
    pub(super) fn count_change(&mut self, segment: u64) {
        let at = self.table.vault.count_at(segment);
        self.changes.push(Change::Add(at, 1));
    }

    /// Writes a record that no slot names yet.
    pub(super) fn record(&mut self, new: NewRecord) {
        let NewRecord { at, record, .. } = new;
        self.changes.push(Change::Write(at, record));
    }

    /// Lets a live slot name another record than it does.
    pub(super) fn refer(&mut self, slot: SlotNumber, from: u64, to: u64) {
        self.slots.push(slot);
        let at = self.body_at(slot);
        self.changes.push(Change::Swap { at, from, to, slot });
    }

    /// Replaces the record of a slot that keeps its head: readers may see some of each.
    pub(super) fn overwrite(&mut self, slot: SlotNumber, body: Buffer) {
        self.slots.push(slot);
        let at = self.body_at(slot);
        self.changes.push(Change::Write(at, body));
    }

    /// Where what is behind a slot's head begins.
    fn body_at(&self, slot: SlotNumber) -> RemoteAddr {
        self.table.slot_at(slot).plus(8)
    }
}

impl<E: Endpoint> DuoTable<E> {
    /// A batch of nothing yet.
    pub(super) fn batch(&self) -> Batch<'_, E> {
        Batch {
            table: self,
            changes: Vec::new(),
            slots: Vec::new(),
        }
    }

    /// Runs a batch. Unless all of it is known to have taken effect, also if this is dropped half
    /// way, its slots are in doubt.
    pub(super) async fn run(&self, batch: Batch<'_, E>) -> Result<()> {
        let doubt = self.doubt(batch.slots);
        self.change(batch.changes).await?;
        doubt.resolve();
        self.note_change();
        Ok(())
    }

    /// Runs batches of an operation that ends with them, each behind the one before, where all of
    /// what they change is in memory; returns what they have done, and books the operation with the
    /// steps before.
    pub(super) fn run_at_once(
        &self,
        batches: &[Batch<'_, E>],
        class: OperationClass,
        mut steps: Steps,
    ) -> Option<Result<()>> {
        let views = batches.iter().map(|batch| self.view_of(&batch.changes));
        let view = views.reduce(Option::and)??;
        let (mut tally, mut changed) = (Tally::default(), Ok(()));
        for batch in batches.iter().filter(|batch| !batch.changes.is_empty()) {
            let (done, (verbs, bytes)) = self.change_in(view, &batch.changes, &mut tally);
            steps.read(verbs, bytes);
            changed = done;
            match &changed {
                Ok(()) => self.note_change(),
                Err(_) => {
                    drop(self.doubt(batch.slots.clone()));
                    break;
                }
            }
        }
        tally.operation_ended(steps);
        self.endpoint.core().counters.add(class, &tally);
        Some(changed)
    }

    /// What is behind the head of a slot that was read whole, to be written elsewhere.
    pub(super) fn body_in(&self, slot: &Buffer) -> Result<Buffer> {
        debug_assert!(head_in(slot) != 0);
        Ok(self.endpoint.core().buffers.copy_of(&slot[8..])?)
    }
}
