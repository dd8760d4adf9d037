//! A look at every bucket: exact counts, and how full the buckets are.

use super::client::CuckooTable;
use crate::client::BucketCounter;
use crate::{BucketCounts, Result, SCAN};
use farslot_fabric::{Endpoint, EndpointExt};

/// Bytes of buckets that one READ fetches.
const PIECE: usize = 256 << 10;

/// What was seen, bucket by bucket. The writer may have written meanwhile: it is no snapshot.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Survey {
    /// How full the buckets are. A key that a dead writer has left twice counts twice.
    pub counts: BucketCounts,
    /// Records that the insertions of all clients have moved to another of their places.
    pub displacements: u64,
}

impl<E: Endpoint> CuckooTable<E> {
    /// Reads the whole table and counts.
    ///
    /// # Errors
    /// What the fabric says.
    pub async fn survey(&self) -> Result<Survey> {
        let looking = self.endpoint.operation(SCAN, self.look_at_all());
        Ok(Survey {
            counts: looking.await?,
            displacements: self.displacements().await?,
        })
    }

    async fn look_at_all(&self) -> Result<BucketCounts> {
        let buckets = self.layout.buckets;
        let bucket_bytes = self.layout.bucket_bytes();
        let piece = (PIECE / bucket_bytes).max(1) as u64;
        let mut counter = BucketCounter::new(buckets, self.layout.bucket_slots);
        for first in (0..buckets).step_by(piece as usize) {
            let count = piece.min(buckets - first);
            let at = self.layout.bucket_at(self.table, first);
            let read = self
                .endpoint
                .read(at, count as usize * bucket_bytes)
                .await?;
            for (bucket, words) in (first..).zip(read.words().chunks_exact(bucket_bytes / 8)) {
                counter.count(bucket, self.slots_in_use(words));
            }
        }
        Ok(counter.counts(self.layout.slots(), 0))
    }
}
