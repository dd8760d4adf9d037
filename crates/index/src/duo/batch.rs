//! Batches of verbs that change slots: what of one takes effect is its first part, wherever the
//! owner or the fabric stops.

use super::bytes::{SlotNumber, head_in};
use super::records::NewRecord;
use super::state::DuoTable;
use crate::Result;
use farslot_fabric::{Buffer, Endpoint, EndpointExt, RemoteAddr, all_in_order};

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
    /// Writes a record into the heap.
    Record { at: RemoteAddr, record: Buffer },
    /// Lets a live slot name another record.
    Refer {
        slot: SlotNumber,
        from: u64,
        to: u64,
    },
    /// Writes a word of the published index.
    Publish { page: u64, word: u32, entries: u64 },
    /// Counts a change of the published index.
    CountChange { segment: u64 },
    /// Spoils what is behind a dead slot's head, so that it is no whole record. It is an atomic:
    /// what was written is visible when this is done.
    Spoil { slot: SlotNumber },
}

/// Changes of slots, in the order in which they take effect.
pub(super) struct Batch {
    steps: Vec<Step>,
    slots: Vec<SlotNumber>,
    /// Whether there are readers beside the owner.
    published: bool,
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
        self.spoil(slot);
    }

    /// Spoils the bytes of a dead slot, where readers beside the owner could take them for a
    /// record.
    pub(super) fn spoil(&mut self, slot: SlotNumber) {
        if self.published {
            self.slots.push(slot);
            self.steps.push(Step::Spoil { slot });
        }
    }

    /// Writes a word of the published index.
    pub(super) fn publish(&mut self, page: u64, word: u32, entries: u64) {
        let publishing = Step::Publish {
            page,
            word,
            entries,
        };
        self.steps.push(publishing);
    }

    /// Counts a change of a segment of the published index.
    pub(super) fn count_change(&mut self, segment: u64) {
        self.steps.push(Step::CountChange { segment });
    }

    /// Writes a record that no slot names yet.
    pub(super) fn record(&mut self, new: NewRecord) {
        let NewRecord { at, record, .. } = new;
        self.steps.push(Step::Record { at, record });
    }

    /// Lets a live slot name another record than it does.
    pub(super) fn refer(&mut self, slot: SlotNumber, from: u64, to: u64) {
        self.slots.push(slot);
        self.steps.push(Step::Refer { slot, from, to });
    }

    /// Replaces the record of a slot that keeps its head: readers may see some of each.
    pub(super) fn overwrite(&mut self, slot: SlotNumber, body: Buffer) {
        self.slots.push(slot);
        self.steps.push(Step::Body { slot, body });
    }
}

impl<E: Endpoint> DuoTable<E> {
    /// A batch of nothing yet.
    pub(super) fn batch(&self) -> Batch {
        Batch {
            steps: Vec::new(),
            slots: Vec::new(),
            published: self.layout.published,
        }
    }

    /// Runs a batch. Unless all of it is known to have taken effect, also if this is dropped half
    /// way, its slots are in doubt.
    pub(super) async fn run(&self, batch: Batch) -> Result<()> {
        let doubt = self.doubt(batch.slots);
        let steps = batch.steps.into_iter().map(|step| self.step(step));
        all_in_order(steps.collect()).await?;
        doubt.resolve();
        self.note_change();
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
            Step::Record { at, record } => Ok(self.endpoint.write(at, record).await?),
            Step::Refer { slot, from, to } => {
                let at = self.slot_at(slot).plus(8);
                let seen = self.endpoint.compare_swap(at, from, to).await?;
                if seen == from {
                    return Ok(());
                }
                Err(self.lost(slot))
            }
            Step::Publish {
                page,
                word,
                entries,
            } => {
                let at = self.vault.page_at(&self.layout, page);
                let entries = self
                    .endpoint
                    .core()
                    .buffers
                    .copy_of(&entries.to_le_bytes())?;
                let writing = self.endpoint.write(at.plus(u64::from(word) * 8), entries);
                Ok(writing.await?)
            }
            Step::CountChange { segment } => {
                let at = self.vault.count_at(segment);
                self.endpoint.fetch_add(at, 1).await?;
                Ok(())
            }
            Step::Spoil { slot } => {
                let at = self.slot_at(slot).plus(8);
                self.endpoint.fetch_add(at, self.layout.spoiling()).await?;
                Ok(())
            }
        }
    }

    /// What is behind the head of a slot that was read whole, to be written elsewhere.
    pub(super) fn body_in(&self, slot: &Buffer) -> Result<Buffer> {
        debug_assert!(head_in(slot) != 0);
        Ok(self.endpoint.core().buffers.copy_of(&slot[8..])?)
    }
}
