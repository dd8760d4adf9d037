//! What a sweep of the heap asks of the table, and when an operation begins one.
//!
//! Subtables come in the order in which they were made: a record that a split moves goes to one that
//! is younger. The word of an insertion that has begun names its block as that of a record does.

use super::client::RaceTable;
use super::word::{State, Word};
use crate::heap::{BlockRef, NamedBlocks};
use crate::{IndexError, Result};
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
        for first in slots.clone().step_by(PIECE as usize) {
            let count = (slots.end - first).min(PIECE);
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
        }
        Ok(())
    }
}

impl<E: Endpoint> RaceTable<E> {
    /// Whether an operation that has ended so can be tried again: the heap was full, and a sweep
    /// has found free memory.
    pub(super) async fn has_room_again<T>(&self, outcome: &Result<T>) -> bool {
        if !matches!(outcome, Err(IndexError::HeapFull { .. })) {
            return false;
        }
        // What the operation says is that the heap is full, whatever has become of the sweep.
        Box::pin(self.heap.sweep(self)).await.unwrap_or(false)
    }
}
