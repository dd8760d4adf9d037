//! The count by which a scan that was cut off sees whether records have moved since.
//!
//! It is odd while a scan goes by it. Before the owner moves a record, it counts on an odd one: so
//! moves cost nothing while nobody asks, and one round trip once after somebody has.

use super::bytes::{MOVES_AT, SlotNumber};
use super::state::DuoTable;
use crate::{Result, UPKEEP};
use farslot_fabric::{Endpoint, EndpointExt};
use std::sync::atomic::Ordering;

impl<E: Endpoint> DuoTable<E> {
    /// A number that is another once a record has moved to another slot, or a bucket was split;
    /// whoever was the owner then.
    ///
    /// # Errors
    /// [`IndexError::WriterBusy`](crate::IndexError::WriterBusy), or what the fabric says.
    pub async fn moves(&self) -> Result<u64> {
        let asking = async {
            // A move that is in doubt has begun before.
            let _alone = self.hold_alone().await?;
            match self.moves.load(Ordering::Relaxed) {
                odd if odd % 2 == 1 => Ok(odd),
                even => self.count_on(even).await,
            }
        };
        self.endpoint.operation(UPKEEP, asking).await
    }

    /// Whether a scan goes by the count, which is to [notice](Self::before_moving) moves.
    pub(super) fn counts_moves(&self) -> bool {
        self.moves.load(Ordering::Relaxed) % 2 == 1
    }

    /// Sees to it that a scan which goes by the count notices what moves from now on. Called by who
    /// holds something, before it moves anything.
    pub(super) async fn before_moving(&self) -> Result<()> {
        match self.moves.load(Ordering::Relaxed) {
            odd if odd % 2 == 1 => self.count_on(odd).await.map(drop),
            _ => Ok(()),
        }
    }

    /// Counts on from what the count is, unless another thread has.
    async fn count_on(&self, from: u64) -> Result<u64> {
        let to = from.wrapping_add(1);
        // It may still be under way when this fails.
        let doubt = self.doubt(Vec::new());
        let count = self.table.plus(MOVES_AT);
        let seen = self.endpoint.compare_swap(count, from, to).await?;
        doubt.resolve();
        if seen != from && seen != to {
            return Err(self.lost(SlotNumber(0)));
        }
        self.moves.store(to, Ordering::Relaxed);
        Ok(to)
    }
}
