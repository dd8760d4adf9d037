//! A look at every slot, whoever is the owner.

use super::bytes::{SlotNumber, hash_in, head_in};
use super::state::DuoTable;
use crate::client::{BucketCounter, scan};
use crate::{BucketCounts, Result, SCAN};
use farslot_fabric::{Endpoint, EndpointExt};

/// What was seen, slot by slot. The owner may have written meanwhile: it is no snapshot.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Survey {
    /// How full the buckets of both arrays are, those that the table is growing to included. The
    /// records of the stash are among the live ones, too. One that an owner was moving when it died
    /// counts twice.
    pub counts: BucketCounts,
    /// Slots of the stash with a record.
    pub stashed: u64,
    /// Buckets that the last growth has left to be split.
    pub unsplit: u64,
}

impl<E: Endpoint> DuoTable<E> {
    /// Reads the whole table and counts. This client need not be the owner for it, and does not
    /// become it.
    ///
    /// # Errors
    /// What the fabric says, or [`BadOption`](crate::IndexError::BadOption) for a header that is
    /// damaged.
    pub async fn survey(&self) -> Result<Survey> {
        self.endpoint.operation(SCAN, self.look_at_all()).await
    }

    async fn look_at_all(&self) -> Result<Survey> {
        let _alone = self.locks.take_alone(&[]).await;
        if !self.is_owner() {
            // The index then has no keys, but says which buckets there are.
            self.forget();
            self.learn_growths().await?;
        }
        let mut counter = BucketCounter::new(2 * self.vault.buckets(), self.layout.bucket_slots);
        for array in 0..2 {
            for run in self.vault.runs(array) {
                let (mut next, end) = (run.first, run.first + run.buckets);
                while next < end {
                    let piece = scan::piece(next, end, self.layout.bucket_bytes());
                    let first = 2 * next + array;
                    for (bucket, used) in (0..).zip(self.slots_in_use(first, piece).await?) {
                        counter.count(first + 2 * bucket, used);
                    }
                    next += piece;
                }
            }
        }
        let stashed = self.stash_in_use().await?;
        Ok(Survey {
            counts: counter.counts(self.slots(), stashed),
            stashed,
            unsplit: self.unsplit(),
        })
    }

    /// Slots in use of each of so many buckets of one array that lie side by side.
    async fn slots_in_use(&self, first: u64, buckets: u64) -> Result<Vec<u64>> {
        let bucket_bytes = self.layout.bucket_bytes();
        let from = self.vault.bucket_at(&self.layout, first);
        let len = buckets as usize * bucket_bytes;
        let read = self.endpoint.read(from, len).await?;
        let index = self.index.borrow();
        let in_use = |(bucket, bytes): (u64, &[u8])| {
            // What is in the others was written by a split that did not come about.
            if !index.is_in_use(bucket) {
                return 0;
            }
            let slots = u64::from(self.layout.bucket_slots);
            let slots = (bucket * slots..).map(SlotNumber);
            let heads = bytes.chunks_exact(self.layout.slot_bytes()).map(head_in);
            let live = slots
                .zip(heads)
                .filter(|(slot, head)| *head != 0 && index.belongs(*slot, hash_in(*head)));
            live.count() as u64
        };
        let numbers = (first..).step_by(2);
        Ok(numbers
            .zip(read.chunks_exact(bucket_bytes))
            .map(in_use)
            .collect())
    }

    /// Slots of the stash in use.
    async fn stash_in_use(&self) -> Result<u64> {
        if self.layout.stash == 0 {
            return Ok(0);
        }
        let slot_bytes = self.layout.slot_bytes();
        let len = self.layout.stash as usize * slot_bytes;
        let from = self.slot_at(SlotNumber::STASH);
        let read = self.endpoint.read(from, len).await?;
        let heads = read.chunks_exact(slot_bytes).map(head_in);
        Ok(heads.filter(|head| *head != 0).count() as u64)
    }
}
