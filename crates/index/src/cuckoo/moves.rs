//! The counts of displacements, by which a reader that has found nothing sees whether it was
//! misled.
//!
//! A displaced key leaves one of its buckets, and every count is of some of the buckets: a reader
//! looks at those of its own. All are read at once, so that a reader that misses now and then knows
//! all of them as they were of late, and the seal with them.

use super::client::CuckooTable;
use super::layout::{MOVES_AT, STRIPES};
use crate::{Result, UPKEEP};
use farslot_fabric::{Buffer, Endpoint, EndpointExt, Piece};

impl<E: Endpoint> CuckooTable<E> {
    /// Reads the counts, and whether the table is sealed.
    pub(super) async fn read_moves(&self) -> Result<Buffer> {
        let Piece { from, len } = self.piece_of_moves();
        let state = self.endpoint.read(from, len).await?;
        self.note_moves(|word| state.words()[word]);
        Ok(state)
    }

    /// Where the counts are, and the seal.
    pub(super) fn piece_of_moves(&self) -> Piece {
        Piece {
            from: self.table.plus(MOVES_AT),
            len: STRIPES * 8 + 8,
        }
    }

    /// Takes in the counts and the seal, which have these words.
    pub(super) fn note_moves(&self, word: impl Fn(usize) -> u64) {
        for (number, seen) in self.moves_seen.counts().iter().enumerate() {
            seen.set(word(number));
        }
        // A seal stays.
        if word(STRIPES) != 0 {
            self.sealed.set(true);
        }
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
