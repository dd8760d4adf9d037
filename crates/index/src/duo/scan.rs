//! Visiting every record, a piece of the vault at a time. Nobody writes while a piece is read.

use super::client::DuoTable;
use super::layout::{hash_in, head_in};
use super::placement::SlotNumber;
use crate::client::{scan, side_by_side};
use crate::{BATCH_WIDTH, Cursor, Result};
use farslot_fabric::{Endpoint, EndpointExt, both};

impl<E: Endpoint> DuoTable<E> {
    pub(super) async fn scan_piece(
        &self,
        Cursor(first): Cursor,
        visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        if first >= SlotNumber::STASH.0 {
            return self.scan_stash(first, visit).await;
        }
        let bucket_bytes = self.layout.bucket_bytes();
        let alone = self.hold_alone().await?;
        // Not before: who becomes the owner learns then how far the table has grown, and it may grow until then.
        let end = self.vault.buckets();
        let buckets = scan::piece(first, end, 2 * bucket_bytes);
        let buckets = buckets.min(self.vault.side_by_side(first));
        let read = async |array: u64| {
            let from = self.vault.bucket_at(&self.layout, 2 * first + array);
            self.endpoint
                .read(from, buckets as usize * bucket_bytes)
                .await
        };
        let (of_first, of_second) = both(read(0), read(1)).await;
        let (of_first, of_second) = (of_first?, of_second?);
        let mut live = Vec::new();
        for (array, piece) in [(0, &of_first), (1, &of_second)] {
            for (bucket, bytes) in (first..).zip(piece.chunks_exact(bucket_bytes)) {
                live.extend(self.live_in(2 * bucket + array, bytes));
            }
        }
        self.visit_slots(&live, visit).await?;
        drop(alone);
        let next = scan::next(first + buckets, end);
        Ok(Some(next.unwrap_or(Cursor(SlotNumber::STASH.0))))
    }

    /// The live slots of a bucket that was read.
    fn live_in<'b>(&self, bucket: u64, bytes: &'b [u8]) -> Vec<(SlotNumber, &'b [u8])> {
        let index = self.index.borrow();
        let first = bucket * u64::from(self.layout.bucket_slots);
        let slots = bytes.chunks_exact(self.layout.slot_bytes());
        let slots = (first..).map(SlotNumber).zip(slots);
        let live = slots.filter(|(slot, bytes)| {
            let head = head_in(bytes);
            head != 0 && index.belongs(*slot, hash_in(head))
        });
        live.collect()
    }

    /// Visits the keys of the stash from this slot on.
    async fn scan_stash(
        &self,
        first: u64,
        visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        let slot_bytes = self.layout.slot_bytes();
        if self.layout.stash == 0 {
            return Ok(None);
        }
        let alone = self.hold_alone().await?;
        let end = SlotNumber::STASH.0 + self.index.borrow().stash_slots().count() as u64;
        // Those of one sub-table lie side by side.
        let stash = u64::from(self.layout.stash);
        let of_one = stash - (first - SlotNumber::STASH.0) % stash;
        let slots = scan::piece(first, end, slot_bytes).min(of_one);
        if slots == 0 {
            return Ok(None);
        }
        let from = self.slot_at(SlotNumber(first));
        let piece = self.endpoint.read(from, slots as usize * slot_bytes);
        let piece = piece.await?;
        let slots_read = (first..).map(SlotNumber);
        let slots_read = slots_read.zip(piece.chunks_exact(slot_bytes));
        let live: Vec<_> = slots_read
            .filter(|(_, bytes)| head_in(bytes) != 0)
            .collect();
        self.visit_slots(&live, visit).await?;
        drop(alone);
        Ok(scan::next(first + slots, end))
    }

    /// Visits the records of live slots that were read, and that nobody changes.
    async fn visit_slots(
        &self,
        slots: &[(SlotNumber, &[u8])],
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        if self.heap.is_none() {
            for (slot, bytes) in slots {
                let record = self.layout.record_in(bytes);
                let record = record.ok_or_else(|| self.unreadable(*slot))?;
                visit(record.key, record.value);
            }
            return Ok(());
        }
        let reads = slots.iter().map(async |(slot, bytes)| {
            let read = self.resolved_of(bytes).await?;
            match self.layout.record_in(&read) {
                Some(_) => Ok(read),
                None => Err(self.unreadable(*slot)),
            }
        });
        side_by_side(BATCH_WIDTH, reads, |_, read| {
            if let Some(record) = self.layout.record_in(&read) {
                visit(record.key, record.value);
            }
        })
        .await
    }
}
