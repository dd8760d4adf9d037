//! Visiting every record, a piece of the vault at a time. Nobody writes while a piece is read.

use super::client::DuoTable;
use super::layout::{hash_in, head_in};
use super::placement::SlotNumber;
use crate::client::scan;
use crate::{Cursor, Result};
use farslot_fabric::{Endpoint, EndpointExt, both};

impl<E: Endpoint> DuoTable<E> {
    pub(super) async fn scan_piece(
        &self,
        Cursor(first): Cursor,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        if first >= SlotNumber::STASH.0 {
            return self.scan_stash(first, visit).await;
        }
        let end = self.vault.buckets();
        let bucket_bytes = self.layout.bucket_bytes();
        let alone = self.hold_alone().await?;
        let buckets = scan::piece(first, end, 2 * bucket_bytes);
        let buckets = buckets.min(self.vault.side_by_side(first));
        let read = async |array: u64| {
            let from = self.vault.bucket_at(&self.layout, 2 * first + array);
            self.endpoint
                .read(from, buckets as usize * bucket_bytes)
                .await
        };
        let (of_first, of_second) = both(read(0), read(1)).await;
        drop(alone);
        for (array, piece) in [(0, of_first?), (1, of_second?)] {
            for (bucket, bytes) in (first..).zip(piece.chunks_exact(bucket_bytes)) {
                self.visit_bucket(2 * bucket + array, bytes, &mut visit)?;
            }
        }
        let next = scan::next(first + buckets, end);
        Ok(Some(next.unwrap_or(Cursor(SlotNumber::STASH.0))))
    }

    /// Visits the keys of a bucket that was read.
    fn visit_bucket(
        &self,
        bucket: u64,
        bytes: &[u8],
        visit: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let index = self.index.borrow();
        let first = bucket * u64::from(self.layout.bucket_slots);
        let slots = bytes.chunks_exact(self.layout.slot_bytes());
        for (slot, bytes) in (first..).map(SlotNumber).zip(slots) {
            let head = head_in(bytes);
            if head != 0 && index.belongs(slot, hash_in(head)) {
                let record = self.layout.record_in(bytes);
                let record = record.ok_or_else(|| self.unreadable(slot))?;
                visit(record.key, record.value);
            }
        }
        Ok(())
    }

    /// Visits the keys of the stash from this slot on.
    async fn scan_stash(
        &self,
        first: u64,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        let slot_bytes = self.layout.slot_bytes();
        let end = SlotNumber::STASH.0 + u64::from(self.layout.stash);
        let slots = scan::piece(first, end, slot_bytes);
        if slots == 0 {
            return Ok(None);
        }
        let alone = self.hold_alone().await?;
        let from = self.slot_at(SlotNumber(first));
        let piece = self.endpoint.read(from, slots as usize * slot_bytes);
        let piece = piece.await?;
        drop(alone);
        for (slot, bytes) in (first..).zip(piece.chunks_exact(slot_bytes)) {
            if head_in(bytes) == 0 {
                continue;
            }
            let record = self.layout.record_in(bytes);
            let record = record.ok_or_else(|| self.unreadable(SlotNumber(slot)))?;
            visit(record.key, record.value);
        }
        Ok(scan::next(first + slots, end))
    }
}
