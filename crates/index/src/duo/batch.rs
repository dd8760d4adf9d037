//! Batches of verbs that change slots: what of one takes effect is its first part, wherever the
//! owner or the fabric stops.

use super::bytes::{SLOT_HEADER, SlotNumber, head_in, second_in};
use super::changes::{Batch, Change};
use super::state::DuoTable;
use crate::Result;
use farslot_fabric::{Buffer, Endpoint, RemoteAddr};

/// What a slot gets behind its head.
pub(super) enum Body {
    /// This.
    Of(Buffer),
    /// The [record](Batch::record) of the batch.
    New,
    /// The block that this word names.
    Named(u64),
}

impl Body {
    /// Writes it there.
    fn written_to(self, at: RemoteAddr) -> Change {
        match self {
            Self::Of(body) => Change::Write(at, body),
            Self::New => Change::WriteRecord(at, 0),
            Self::Named(word) => Change::WriteWord(at, word),
        }
    }
}

impl<E: Endpoint> DuoTable<E> {
    /// Makes a dead slot live.
    pub(super) fn fill(
        &self,
        batch: &mut Batch,
        slot: SlotNumber,
        head: u64,
        body: Body,
    ) -> Result<()> {
        let at = self.slot_at(slot);
        if !self.layout.published {
            batch.slots.push(slot);
            batch.changes.push(body.written_to(at.plus(8)));
            let (from, to) = (0, head);
            batch.changes.push(Change::Swap { at, from, to, slot });
            return Ok(());
        }
        batch.changes.push(Change::WriteWord(at, head));
        let behind = at.plus(SLOT_HEADER as u64);
        let second = match body {
            Body::Of(body) => {
                if let record @ [_, ..] = &body[8..] {
                    let record = self.endpoint.core().buffers.copy_of(record)?;
                    batch.changes.push(Change::Write(behind, record));
                }
                body.words()[0]
            }
            Body::New => {
                batch.changes.push(Change::WriteRecord(behind, 1));
                batch.record[0]
            }
            Body::Named(word) => word,
        };
        self.refer(batch, slot, 0, second);
        Ok(())
    }

    /// Makes a live slot with these words dead.
    pub(super) fn kill(&self, batch: &mut Batch, slot: SlotNumber, head: u64, second: u64) {
        self.hide(batch, slot, second);
        self.clear_head(batch, slot, head);
    }

    /// Makes a live slot with these words dead, and takes its entry out of the published index.
    pub(super) fn take_out(&self, batch: &mut Batch, slot: SlotNumber, (head, second): (u64, u64)) {
        self.hide(batch, slot, second);
        // Not behind the last atomic: what another thread of the owner publishes there next must
        // not become visible before this.
        self.unpublish(batch, slot);
        self.clear_head(batch, slot, head);
    }

    /// Makes a live slot dead for readers beside the owner, if there may be any. Its head is to be
    /// cleared in the same batch.
    fn hide(&self, batch: &mut Batch, slot: SlotNumber, second: u64) {
        if self.layout.published {
            self.refer(batch, slot, second, 0);
        }
    }

    /// Clears the head of a slot that no reader takes for a live one. It is an atomic: what was
    /// written is visible when this is done.
    pub(super) fn clear_head(&self, batch: &mut Batch, slot: SlotNumber, head: u64) {
        batch.slots.push(slot);
        self.swap_head(batch, slot, head, 0);
    }

    /// Clears what is left in a slot whose insertion, removal or going elsewhere was cut off.
    pub(super) fn clear_dead(&self, batch: &mut Batch, slot: SlotNumber, words: &[u8]) {
        match (head_in(words), second_in(words)) {
            (0, second) if second != 0 => self.hide(batch, slot, second),
            (head, 0) if head != 0 => self.clear_head(batch, slot, head),
            _ => {}
        }
    }

    fn swap_head(&self, batch: &mut Batch, slot: SlotNumber, from: u64, to: u64) {
        let at = self.slot_at(slot);
        batch.changes.push(Change::Swap { at, from, to, slot });
    }

    /// Swaps the word behind a slot's head: it publishes a record, or names another block.
    pub(super) fn refer(&self, batch: &mut Batch, slot: SlotNumber, from: u64, to: u64) {
        batch.slots.push(slot);
        let at = self.body_at(slot);
        batch.changes.push(Change::Swap { at, from, to, slot });
    }

    /// Replaces the record of a slot that keeps its head: readers may see some of each.
    pub(super) fn overwrite(&self, batch: &mut Batch, slot: SlotNumber, body: Body) {
        batch.slots.push(slot);
        batch.changes.push(body.written_to(self.body_at(slot)));
    }

    /// Where what is behind a slot's head begins.
    fn body_at(&self, slot: SlotNumber) -> RemoteAddr {
        self.slot_at(slot).plus(8)
    }

    /// What is behind the head of a slot that was read whole, to be written elsewhere.
    pub(super) fn body_in(&self, slot: &[u8]) -> Result<Body> {
        debug_assert!(head_in(slot) != 0);
        let body = self.endpoint.core().buffers.copy_of(&slot[8..])?;
        Ok(Body::Of(body))
    }
}
