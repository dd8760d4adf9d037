//! Batches of verbs that change slots: what of one takes effect is its first part, wherever the
//! owner or the fabric stops.

use super::bytes::{SLOT_HEADER, SlotNumber, head_in, second_in};
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
    pub(super) fn fill(&mut self, slot: SlotNumber, head: u64, body: Buffer) -> Result<()> {
        if !self.table.layout.published {
            self.overwrite(slot, body);
            self.swap_head(slot, 0, head);
            return Ok(());
        }
        let (at, record) = (self.table.slot_at(slot), &body[8..]);
        self.changes.push(Change::WriteWord(at, head));
        if !record.is_empty() {
            let record = self.table.endpoint.core().buffers.copy_of(record)?;
            let at = at.plus(SLOT_HEADER as u64);
            self.changes.push(Change::Write(at, record));
        }
        self.refer(slot, 0, body.words()[0]);
        Ok(())
    }

    /// Makes a live slot with these words dead.
    pub(super) fn kill(&mut self, slot: SlotNumber, head: u64, second: u64) {
        self.hide(slot, second);
        self.clear_head(slot, head);
    }

    /// Makes a live slot dead for readers beside the owner, if there may be any. Its head is to be
    /// cleared in the same batch.
    pub(super) fn hide(&mut self, slot: SlotNumber, second: u64) {
        if self.table.layout.published {
            self.refer(slot, second, 0);
        }
    }

    /// Clears the head of a slot that no reader takes for a live one. It is an atomic: what was
    /// written is visible when this is done.
    pub(super) fn clear_head(&mut self, slot: SlotNumber, head: u64) {
        self.slots.push(slot);
        self.swap_head(slot, head, 0);
    }

    /// Clears what is left in a slot whose insertion, removal or going elsewhere was cut off.
    pub(super) fn clear_dead(&mut self, slot: SlotNumber, words: &[u8]) {
        match (head_in(words), second_in(words)) {
            (0, second) if second != 0 => self.hide(slot, second),
            (head, 0) if head != 0 => self.clear_head(slot, head),
            _ => {}
        }
    }

    fn swap_head(&mut self, slot: SlotNumber, from: u64, to: u64) {
        let at = self.table.slot_at(slot);
        self.changes.push(Change::Swap { at, from, to, slot });
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

    /// Swaps the word behind a slot's head: it publishes a record, or names another block.
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

    /// Runs the batch that an operation ends with, where all of what it changes is in memory;
    /// returns what it has done, and books the operation with the steps before.
    pub(super) fn run_at_once(
        &self,
        batch: Batch<'_, E>,
        class: OperationClass,
        mut steps: Steps,
    ) -> Option<Result<()>> {
        let view = self.view_of(&batch.changes)?;
        let mut tally = Tally::default();
        let (changed, (verbs, bytes)) = self.change_in(view, &batch.changes, &mut tally);
        steps.read(verbs, bytes);
        match &changed {
            Ok(()) => self.note_change(),
            Err(_) => drop(self.doubt(batch.slots)),
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
