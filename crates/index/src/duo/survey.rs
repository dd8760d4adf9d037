//! A look at every slot, whoever is the owner.

use super::client::DuoTable;
use super::layout::{hash_in, head_in};
use super::placement::SlotNumber;
use crate::client::Parts;
use crate::client::scan;
use crate::{Result, SCAN};
use farslot_fabric::{Endpoint, EndpointExt};

/// What was seen, slot by slot. The owner may have written meanwhile: it is no snapshot.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Survey {
    /// Slots of both arrays, those that the table is growing to included.
    pub slots: u64,
    /// Slots with a record, those of the stash included. One that an owner was moving when it died counts twice.
    pub live: u64,
    /// Slots of the stash with a record.
    pub stashed: u64,
    /// Buckets that the last growth has left to be split.
    pub unsplit: u64,
    /// Slots in use per slot, in each of 64 equal parts of the arrays.
    pub parts: Vec<f64>,
    /// Buckets by their slots in use: entry i counts those in which i slots are in use.
    pub buckets: Vec<u64>,
}

impl Survey {
    /// Records per slot: above 1 if the table is full and the stash is in use.
    #[must_use]
    pub fn load_factor(&self) -> f64 {
        self.live as f64 / self.slots.max(1) as f64
    }

    /// Buckets in which no slot is free.
    #[must_use]
    pub fn full_buckets(&self) -> u64 {
        self.buckets.last().copied().unwrap_or(0)
    }
}

impl<E: Endpoint> DuoTable<E> {
    /// Reads the whole table and counts. This client need not be the owner for it, and does not become it.
    ///
    /// # Errors
    /// What the fabric says, or [`BadOption`](crate::IndexError::BadOption) for a header that is damaged.
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
        let slots = u64::from(self.layout.bucket_slots);
        let mut parts = Parts::new(2 * self.vault.buckets());
        let mut buckets = vec![0; slots as usize + 1];
        for array in 0..2 {
            for run in self.vault.runs(array) {
                let (mut next, end) = (run.first, run.first + run.buckets);
                while next < end {
                    let piece = scan::piece(next, end, self.layout.bucket_bytes());
                    let first = 2 * next + array;
                    for (bucket, used) in (0..).zip(self.slots_in_use(first, piece).await?) {
                        parts.count(first + 2 * bucket, used, slots);
                        buckets[used as usize] += 1;
                    }
                    next += piece;
                }
            }
        }
        let stashed = self.stash_in_use().await?;
        Ok(Survey {
            slots: self.slots(),
            live: parts.used() + stashed,
            stashed,
            unsplit: self.unsplit(),
            parts: parts.load_factors(),
            buckets,
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
        let slots = self.index.borrow().stash_slots();
        let mut in_use = 0;
        // Those of one sub-table lie side by side.
        for first in slots.step_by(self.layout.stash as usize) {
            let read = self.endpoint.read(self.slot_at(first), len).await?;
            let heads = read.chunks_exact(slot_bytes).map(head_in);
            let index = self.index.borrow();
            let live = (first.0..)
                .map(SlotNumber)
                .zip(heads)
                .filter(|(slot, head)| *head != 0 && index.belongs(*slot, hash_in(*head)));
            in_use += live.count() as u64;
        }
        Ok(in_use)
    }
}
