//! Batches of verbs that change slots: what of one takes effect is its first part, wherever the owner
//! or the fabric stops.

use super::client::DuoTable;
use super::layout::head_in;
use super::placement::SlotNumber;
use crate::Result;
use crate::client::in_order;
use farslot_fabric::{Buffer, Endpoint, EndpointExt};

/// A verb of a batch.
enum Step {
    /// Writes what is behind a slot's head.
    Body { slot: SlotNumber, body: Buffer },
    /// Changes a slot's head.
    Head {
        slot: SlotNumber,
        from: u64,
        to: u64,
    },
}

/// Changes of slots, in the order in which they take effect.
#[derive(Default)]
pub(super) struct Batch {
    steps: Vec<Step>,
    slots: Vec<SlotNumber>,
}

impl Batch {
    /// Makes a dead slot live.
    pub(super) fn fill(&mut self, slot: SlotNumber, head: u64, body: Buffer) {
        self.overwrite(slot, body);
        let (from, to) = (0, head);
        self.steps.push(Step::Head { slot, from, to });
    }

    /// Makes a live slot dead.
    pub(super) fn kill(&mut self, slot: SlotNumber, head: u64) {
        self.slots.push(slot);
        let (from, to) = (head, 0);
        self.steps.push(Step::Head { slot, from, to });
    }

    /// Replaces the record of a slot that keeps its head: readers may see some of each.
    pub(super) fn overwrite(&mut self, slot: SlotNumber, body: Buffer) {
        self.slots.push(slot);
        self.steps.push(Step::Body { slot, body });
    }
}

impl<E: Endpoint> DuoTable<E> {
    /// Runs a batch. Unless all of it is known to have taken effect, also if this is dropped half way, its
    /// slots are in doubt.
    pub(super) async fn run(&self, batch: Batch) -> Result<()> {
        let doubt = self.doubts.about(batch.slots, &self.journal);
        let steps = batch.steps.into_iter().map(|step| self.step(step));
        in_order(steps.collect()).await?;
        doubt.resolve();
        self.changes.set(self.changes.get().wrapping_add(1));
        Ok(())
    }

    async fn step(&self, step: Step) -> Result<()> {
        match step {
            Step::Body { slot, body } => {
                let at = self.slot_at(slot).plus(8);
                Ok(self.endpoint.write(at, body).await?)
            }
            Step::Head { slot, from, to } => {
                let at = self.slot_at(slot);
                let seen = self.endpoint.compare_swap(at, from, to).await?;
                if seen == from {
                    return Ok(());
                }
                Err(self.lost(slot))
            }
        }
    }

    /// What is behind the head of a slot that was read whole, to be written elsewhere.
    pub(super) fn body_in(&self, slot: &Buffer) -> Result<Buffer> {
        debug_assert!(head_in(slot) != 0);
        Ok(self.endpoint.core().buffers.copy_of(&slot[8..])?)
    }
}
