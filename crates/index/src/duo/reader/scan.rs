//! Visiting every record beside an owner that goes on writing.
//!
//! A slot is read as a lookup reads it: what counts is a record that is whole and that the slot's
//! head is of. A key that is present all along is met, unless an insertion moves it meanwhile, or a
//! removal brings it back from the stash, from a slot that is not read yet to one that has been; or
//! it is met twice, the other way round.
//!
//! **A table that grows.** New buckets come behind those that they are split from. They count from
//! when the reader has seen that they are in use, before they were read; and a slot that its key
//! has left by a split, seen after it was read, counts for nothing. So a key is met in the bucket
//! that is split, or later in the new one; or, if that happens in between, in both.

use super::client::DuoReader;
use super::lookup::{ReaderKey, TORN_READS};
use crate::client::{MOST_READS, pause, side_by_side};
use crate::duo::bytes::{SlotNumber, VaultMap, hash_in, head_in, is_dead, live_head};
use crate::duo::records::with_record;
use crate::duo::scan::Piece;
use crate::{BATCH_WIDTH, Cursor, IndexError, Result, SCAN, Value};
use farslot_fabric::{Buffer, Endpoint, EndpointExt};
use std::ops::Range;
use std::rc::Rc;

/// What a slot turned out to have.
enum ScannedSlot {
    /// A slot, with its record.
    Slot(Buffer),
    /// The value of a key whose slot stayed torn, from the journal.
    Journal(Vec<u8>, Value),
    Nothing,
}

impl<E: Endpoint> DuoReader<E> {
    /// Visits a piece of the table from `cursor` on, of at most `most` slots, as
    /// [`Index::scan`](crate::Index::scan) does; returns where the next piece starts, or nothing at
    /// the end. Keys that the owner moves meanwhile may be met twice, or not at all; all
    /// others that are there, once.
    ///
    /// # Errors
    /// [`IndexError::Unreadable`] for a record that was changed at every look; what the fabric
    /// says.
    pub async fn scan(
        &self,
        cursor: Cursor,
        most: u64,
        visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        let scanning = self.scan_piece(cursor, most, visit);
        self.endpoint.operation(SCAN, scanning).await
    }

    /// As [`DuoReader::scan`], counted for no operation class.
    ///
    /// # Errors
    /// As [`DuoReader::scan`].
    pub async fn scan_piece(
        &self,
        cursor: Cursor,
        most: u64,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        self.learn_splits(cursor, most).await?;
        let (vault, in_use) = {
            let copy = self.copy.borrow();
            let vault = Rc::clone(&copy.vault);
            let buckets = self.buckets_of(&vault, cursor, most);
            let in_use: Vec<bool> = buckets.map(|bucket| copy.is_in_use(bucket)).collect();
            (vault, in_use)
        };
        let piece = Piece::read(&*self.endpoint, &self.layout, &vault, cursor, most).await?;
        self.learn_splits(cursor, most).await?;
        let first = self.buckets_of(&vault, cursor, most).start;
        let live: Vec<_> = {
            let copy = self.copy.borrow();
            let counts = |slot: SlotNumber, head: u64| {
                let bucket = slot.0 / u64::from(self.layout.bucket_slots);
                let in_use = slot.in_stash().is_some() || in_use[(bucket - first) as usize];
                in_use && copy.belongs(slot, hash_in(head))
            };
            let slots = piece.slots(&self.layout);
            let live = slots.filter(|(slot, bytes)| {
                let head = head_in(bytes);
                head != 0 && counts(*slot, head)
            });
            live.collect()
        };
        let looks = live.into_iter().map(|(slot, bytes)| self.meet(slot, bytes));
        side_by_side(BATCH_WIDTH, looks, |_, met| match met {
            ScannedSlot::Slot(bytes) => {
                if let Some(record) = self.layout.record_in(&bytes) {
                    visit(record.key, record.value);
                }
            }
            ScannedSlot::Journal(key, value) => visit(&key, &value),
            ScannedSlot::Nothing => {}
        })
        .await?;
        let Cursor(first) = cursor;
        if first >= SlotNumber::STASH.0 {
            return Ok(piece.next);
        }
        let next = first + in_use.len() as u64 / 2;
        // Behind the last bucket that there was there may be more now.
        if next < self.copy.borrow().vault.buckets() {
            return Ok(Some(Cursor(next)));
        }
        Ok(piece.next)
    }

    /// The buckets of the piece of at most so many slots that starts at a cursor, numbered through
    /// both arrays: of the stash's none.
    fn buckets_of(&self, vault: &VaultMap, Cursor(first): Cursor, most: u64) -> Range<u64> {
        match SlotNumber(first).in_stash() {
            Some(_) => 0..0,
            None => {
                let buckets = Piece::buckets(&self.layout, vault, first, most);
                2 * first..2 * (first + buckets)
            }
        }
    }

    /// Learns how the table has grown, and which of the buckets of the piece of at most so many
    /// slots that starts at a cursor are split, or come of one that is.
    async fn learn_splits(&self, cursor: Cursor, most: u64) -> Result<()> {
        self.learn_of_growth().await?;
        let words = {
            let copy = self.copy.borrow();
            copy.words_of_origins(self.buckets_of(&copy.vault, cursor, most))
        };
        let reads = words
            .iter()
            .map(|(first, count)| self.read_bits(*first, *count));
        side_by_side(BATCH_WIDTH, reads, |_, ()| {}).await
    }

    /// The record of a live slot that was read, or is read again until it is whole.
    async fn meet(&self, slot: SlotNumber, bytes: &[u8]) -> Result<ScannedSlot> {
        let mut bytes = self.endpoint.core().buffers.copy_of(bytes)?;
        for attempt in 0..MOST_READS {
            if let Some(heap) = &self.heap {
                let read = with_record(&self.layout, heap, bytes).await?;
                bytes = read.into_bytes();
            }
            match self.layout.record_in(&bytes) {
                // Else the head is of one use of the slot, and the record of another.
                Some(record) if head_in(&bytes) == live_head(self.layout.hash_of(record.key)) => {
                    return Ok(ScannedSlot::Slot(bytes));
                }
                None if is_dead(&bytes) => return Ok(ScannedSlot::Nothing),
                _ => {}
            }
            if attempt >= TORN_READS
                && self.heap.is_none()
                && let Some(met) = self.meet_in_journal(slot, head_in(&bytes)).await?
            {
                return Ok(met);
            }
            pause(&*self.endpoint, attempt).await?;
            let at = self.copy.borrow().vault.slot_at(&self.layout, slot);
            bytes = self.endpoint.read(at, self.layout.slot_bytes()).await?;
        }
        let SlotNumber(slot) = slot;
        Err(IndexError::Unreadable {
            slot,
            attempts: MOST_READS,
        })
    }

    /// The record of an update that has begun in a slot with this head, and may never end.
    async fn meet_in_journal(&self, slot: SlotNumber, head: u64) -> Result<Option<ScannedSlot>> {
        for journal in self.layout.journal() {
            let at = self.copy.borrow().vault.slot_at(&self.layout, journal);
            let bytes = self.endpoint.read(at, self.layout.slot_bytes()).await?;
            let record = self.layout.record_in(&bytes);
            let Some(record) = record.filter(|_| head_in(&bytes) == head) else {
                continue;
            };
            let wanted = ReaderKey {
                bytes: record.key,
                head,
            };
            let value = self.find_in_journal(slot, &wanted).await?;
            return Ok(value.map(|value| ScannedSlot::Journal(record.key.to_vec(), value)));
        }
        Ok(None)
    }
}
