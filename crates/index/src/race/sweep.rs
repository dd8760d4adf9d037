//! What a sweep of the heap asks of the table.
//!
//! Subtables lie in the order in which they were made: a split moves a record to a younger one. The
//! word of an insertion that has begun names its block as that of a record does.

use super::client::RaceTable;
use super::word::{State, Word};
use crate::Result;
use crate::heap::{BlockRef, NamedBlocks};
use farslot_fabric::{Endpoint, EndpointExt};
use std::ops::Range;

/// Slots that one READ fetches.
const PIECE: u64 = 32 << 10;

impl<E: Endpoint> NamedBlocks for RaceTable<E> {
    async fn slots(&self) -> Result<u64> {
        self.read_directory().await?;
        Ok(self.subtables() * self.layout.subtable_slots())
    }

    async fn visit(&self, slots: Range<u64>, mut visit: impl FnMut(BlockRef)) -> Result<()> {
        let subtable_slots = self.layout.subtable_slots();
        let mut first = slots.start;
        while first < slots.end {
            // A READ may see its words in any order, so one READ never covers two subtables.
            let end = (first / subtable_slots + 1) * subtable_slots;
            let count = PIECE.min(end.min(slots.end) - first);
            // The subtables lie one behind the other.
            let read = self
                .endpoint
                .read(self.slot_at(0, first), count as usize * 8);
            for word in read.await?.words() {
                let word = Word(*word);
                if word.state() != State::Empty {
                    visit(word.block());
                }
            }
            first += count;
        }
        Ok(())
    }

    async fn make_room(&self, refused: usize) -> Result<bool> {
        self.heap.sweep(self, refused).await
    }
}
