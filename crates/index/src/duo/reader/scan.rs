//! Visiting every record beside an owner that goes on writing.
//!
//! A slot is read as a lookup reads it: what counts is a record that is whole and that the slot's head is of. A key that
//! is present all along is met, unless an insertion moves it meanwhile, or a removal brings it back from the stash, from
//! a slot that is not read yet to one that has been; or it is met twice, the other way round.

use super::super::layout::{head_in, live_head};
use super::super::placement::SlotNumber;
use super::super::records::with_record;
use super::super::scan::Piece;
use super::{DuoReader, TORN_READS, Wanted};
use crate::client::{MOST_READS, pause, side_by_side};
use crate::{BATCH_WIDTH, Cursor, IndexError, Result, SCAN, Value};
use farslot_fabric::{Buffer, Endpoint, EndpointExt};

/// What a slot turned out to have.
enum Met {
    /// A slot, with its record.
    Slot(Buffer),
    /// The value of a key whose slot stayed torn, from the journal.
    Journal(Vec<u8>, Value),
    Nothing,
}

impl<E: Endpoint> DuoReader<E> {
    /// Visits a piece of the table from `cursor` on; returns where the next piece starts, or nothing at the end. Keys that
    /// the owner moves meanwhile may be met twice, or not at all; all others that are there, once.
    ///
    /// # Errors
    /// [`IndexError::Unreadable`] for a record that was changed at every look; what the fabric says.
    pub async fn scan(
        &self,
        cursor: Cursor,
        visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        let scanning = self.scan_piece(cursor, visit);
        self.endpoint.operation(SCAN, scanning).await
    }

    async fn scan_piece(
        &self,
        cursor: Cursor,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        let piece = Piece::read(&*self.endpoint, &self.layout, &self.vault, cursor).await?;
        let live = piece.slots(&self.layout);
        let live = live.filter(|(_, bytes)| head_in(bytes) != 0);
        let looks = live.map(|(slot, bytes)| self.meet(slot, bytes));
        side_by_side(BATCH_WIDTH, looks, |_, met| match met {
            Met::Slot(bytes) => {
                if let Some(record) = self.layout.record_in(&bytes) {
                    visit(record.key, record.value);
                }
            }
            Met::Journal(key, value) => visit(&key, &value),
            Met::Nothing => {}
        })
        .await?;
        Ok(piece.next)
    }

    /// The record of a live slot that was read, or is read again until it is whole.
    async fn meet(&self, slot: SlotNumber, bytes: &[u8]) -> Result<Met> {
        let mut bytes = self.endpoint.core().buffers.copy_of(bytes)?;
        for attempt in 0..MOST_READS {
            if let Some(heap) = &self.heap {
                let read = with_record(&self.layout, heap, bytes).await?;
                bytes = read.into_bytes();
            }
            if head_in(&bytes) == 0 {
                return Ok(Met::Nothing);
            }
            // Else the head may be of one use of the slot, and the record of the next.
            let whole = self.layout.record_in(&bytes).is_some_and(|record| {
                head_in(&bytes) == live_head(self.layout.hash_of(record.key))
            });
            if whole {
                return Ok(Met::Slot(bytes));
            }
            if attempt >= TORN_READS
                && self.heap.is_none()
                && let Some(met) = self.meet_in_journal(slot, head_in(&bytes)).await?
            {
                return Ok(met);
            }
            pause(&*self.endpoint, attempt).await;
            let at = self.vault.slot_at(&self.layout, slot);
            bytes = self.endpoint.read(at, self.layout.slot_bytes()).await?;
        }
        let SlotNumber(slot) = slot;
        Err(IndexError::Unreadable {
            slot,
            attempts: MOST_READS,
        })
    }

    /// The record of an update that has begun in a slot with this head, and may never end.
    async fn meet_in_journal(&self, slot: SlotNumber, head: u64) -> Result<Option<Met>> {
        for journal in self.layout.journal() {
            let at = self.vault.slot_at(&self.layout, journal);
            let bytes = self.endpoint.read(at, self.layout.slot_bytes()).await?;
            let record = self.layout.record_in(&bytes);
            let Some(record) = record.filter(|_| head_in(&bytes) == head) else {
                continue;
            };
            let wanted = Wanted {
                bytes: record.key,
                head,
            };
            let value = self.find_in_journal(slot, &wanted).await?;
            return Ok(value.map(|value| Met::Journal(record.key.to_vec(), value)));
        }
        Ok(None)
    }
}
