//! The counts of displacements, by which a reader that has found nothing sees whether it was misled.
//!
//! A displaced key leaves one of its buckets, and every count is of some of the buckets: a reader looks
//! at those of its own. All are read at once, so that a reader that misses now and then knows all of
//! them as they were of late, and the seal with them.

use super::client::CuckooTable;
use super::layout::{Candidates, MOVES_AT, STRIPES};
use super::moves_seen::Before;
use crate::{Result, UPKEEP};
use farslot_fabric::{Buffer, Endpoint, EndpointExt};

impl<E: Endpoint> CuckooTable<E> {
    /// Reads the counts, and whether the table is sealed.
    pub(super) async fn read_moves(&self) -> Result<Buffer> {
        let from = self.table.plus(MOVES_AT);
        let state = self.endpoint.read(from, STRIPES * 8 + 8).await?;
        for (seen, count) in self.moves_seen.counts().iter().zip(state.words()) {
            seen.set(*count);
        }
        // A seal stays.
        if state.words()[STRIPES] != 0 {
            self.sealed.set(true);
        }
        Ok(state)
    }

    /// Whether nothing was displaced from the key's buckets since their counts were `before`.
    pub(super) async fn no_moves_since(
        &self,
        before: Before,
        candidates: &Candidates,
    ) -> Result<bool> {
        self.read_moves().await?;
        Ok(self.moves_seen.of(candidates) == before)
    }

    /// How many records the insertions of all clients have moved to another of their places.
    ///
    /// # Errors
    /// What the fabric says.
    pub async fn displacements(&self) -> Result<u64> {
        let counts = self.endpoint.operation(UPKEEP, self.read_moves()).await?;
        let counts = &counts.words()[..STRIPES];
        Ok(counts.iter().fold(0, |sum, count| sum.wrapping_add(*count)))
    }
}
