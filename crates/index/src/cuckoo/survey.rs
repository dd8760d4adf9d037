//! A look at every bucket: exact counts, and how full the buckets are.

use super::client::CuckooTable;
use crate::client::Parts;
use crate::{Result, SCAN};
use farslot_fabric::{Endpoint, EndpointExt};

/// Bytes of buckets that one READ fetches.
const PIECE: usize = 256 << 10;

/// What was seen, bucket by bucket. The writer may have written meanwhile: it is no snapshot.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Survey {
    /// All slots.
    pub slots: u64,
    /// Slots that hold a record. A key that a dead writer has left twice counts twice.
    pub live: u64,
    /// Slots in use per slot, in each of 64 equal parts of the table.
    pub parts: Vec<f64>,
    /// Buckets by their slots in use: entry i counts those in which i slots are in use.
    pub buckets: Vec<u64>,
    /// Records that the insertions of all clients have moved to another of their places.
    pub displacements: u64,
}

impl Survey {
    /// Slots in use per slot, 0 to 1.
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

impl<E: Endpoint> CuckooTable<E> {
    /// Reads the whole table and counts.
    ///
    /// # Errors
    /// What the fabric says.
    pub async fn survey(&self) -> Result<Survey> {
        let looking = self.endpoint.operation(SCAN, self.look_at_all());
        let survey = looking.await?;
        Ok(Survey {
            displacements: self.displacements().await?,
            ..survey
        })
    }

    async fn look_at_all(&self) -> Result<Survey> {
        let buckets = self.layout.buckets;
        let bucket_slots = self.layout.bucket_slots as usize;
        let bucket_bytes = self.layout.bucket_bytes();
        let piece = (PIECE / bucket_bytes).max(1) as u64;
        let mut parts = Parts::new(buckets);
        let mut by_used = vec![0; bucket_slots + 1];
        for first in (0..buckets).step_by(piece as usize) {
            let count = piece.min(buckets - first);
            let at = self.layout.bucket_at(self.table, first);
            let read = self
                .endpoint
                .read(at, count as usize * bucket_bytes)
                .await?;
            for (bucket, words) in (first..).zip(read.words().chunks_exact(bucket_bytes / 8)) {
                let used = self.slots_in_use(words);
                by_used[used as usize] += 1;
                parts.count(bucket, used, bucket_slots as u64);
            }
        }
        Ok(Survey {
            slots: self.layout.slots(),
            live: parts.used(),
            parts: parts.load_factors(),
            buckets: by_used,
            displacements: 0,
        })
    }
}
