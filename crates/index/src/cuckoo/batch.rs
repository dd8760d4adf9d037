//! Batches of verbs that change slots: what of one takes effect is its first part, wherever the
//! writer or the fabric stops.

use super::client::CuckooTable;
use super::layout::{CuckooSlot, MOVES_AT, signature_of, stripe_of};
use crate::Result;
use crate::heap::BlockRef;
use farslot_fabric::{Buffer, Endpoint, EndpointExt, RemoteAddr, all_in_order};

/// A verb of a chain that takes effect in order.
pub(super) enum Step {
    Write {
        to: RemoteAddr,
        data: Buffer,
    },
    Swap {
        place: CuckooSlot,
        expected: u64,
        new: u64,
    },
    /// Counts a displacement from this bucket.
    CountMove {
        from: u64,
    },
    /// Looks whether this client is still the writer, behind a swap of this slot.
    CheckWriter {
        place: CuckooSlot,
    },
}

/// What one insertion or replacement changes.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) steps: Vec<Step>,
    /// Blocks of the heap that words will name.
    pub(super) taken: Vec<BlockRef>,
    /// Blocks of the heap that no word will name any more.
    pub(super) left: Vec<BlockRef>,
}

/// What a slot is to hold.
pub(super) enum SlotContent {
    /// Its words, of which the first publishes the others.
    Words(Vec<u64>),
    /// A record out of band that no slot names yet.
    Record(Entrant),
}

/// A record that is to go out of band.
pub(super) struct Entrant {
    /// The hash of its key.
    pub(super) hash: u64,
    /// Encoded; its stamp and checksum are set when it is known where it goes to.
    pub(super) record: Buffer,
}

impl Entrant {
    /// What a bucket of signatures has of its key.
    pub(super) const fn signature(&self) -> u8 {
        signature_of(self.hash)
    }
}

impl Step {
    pub(super) const fn swap(place: CuckooSlot, expected: u64, new: u64) -> Self {
        Self::Swap {
            place,
            expected,
            new,
        }
    }
}

impl<E: Endpoint> CuckooTable<E> {
    /// Runs a batch that was made, and gives back the blocks that no word names then. Those of a
    /// batch that has failed may still be written, or named.
    pub(super) async fn run_batch<T>(&self, batch: Batch, made: Result<T>) -> Result<T> {
        let Batch { steps, taken, left } = batch;
        if made.is_ok() {
            self.run(steps).await?;
            self.are_named(&taken);
            self.free_blocks(&left);
        } else {
            self.take_back_blocks(&taken);
        }
        made
    }

    /// Posts the steps in order. Behind one that has failed none is posted, or a key could be
    /// overwritten whose copy never came.
    async fn run(&self, chain: Vec<Step>) -> Result<()> {
        all_in_order(chain.into_iter().map(|step| self.step(step)).collect()).await
    }

    async fn step(&self, step: Step) -> Result<()> {
        match step {
            Step::Write { to, data } => Ok(self.endpoint.write(to, data).await?),
            Step::Swap {
                place,
                expected,
                new,
            } => self.swap(place, expected, new).await,
            Step::CountMove { from } => self.count_move(from).await,
            Step::CheckWriter { place } => self.check_writer(place).await,
        }
    }

    /// Counts a displacement from this bucket.
    pub(super) async fn count_move(&self, from: u64) -> Result<()> {
        let stripe = MOVES_AT + stripe_of(from) as u64 * 8;
        let count = self.endpoint.fetch_add(self.table.plus(stripe), 1);
        count.await?;
        Ok(())
    }

    /// Changes the word that publishes a slot, which nobody else does.
    pub(super) async fn swap(&self, place: CuckooSlot, expected: u64, new: u64) -> Result<()> {
        let seen = self
            .endpoint
            .compare_swap(self.slot_at(place), expected, new);
        if seen.await? == expected {
            return Ok(());
        }
        Err(self.lost(place))
    }
}
