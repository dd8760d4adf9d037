//! Visiting every record, a piece of the vault at a time. Nobody writes while a piece is read.

use super::client::DuoTable;
use super::layout::head_in;
use super::placement::SlotNumber;
use crate::client::{scan, side_by_side};
use crate::{BATCH_WIDTH, Cursor, Result};
use farslot_fabric::{Endpoint, EndpointExt};

impl<E: Endpoint> DuoTable<E> {
    pub(super) async fn scan_piece(
        &self,
        Cursor(first): Cursor,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        let (end, slot_bytes) = (self.layout.key_slots(), self.layout.slot_bytes());
        let slots = scan::piece(first, end, slot_bytes);
        if slots == 0 {
            return Ok(None);
        }
        let alone = self.hold_alone(&[]).await?;
        let from = self.layout.slot_at(self.table, SlotNumber(first));
        let piece = self
            .endpoint
            .read(from, slots as usize * slot_bytes)
            .await?;
        if self.heap.is_some() {
            self.visit_named(first, &piece, &mut visit).await?;
            return Ok(scan::next(first + slots, end));
        }
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

    /// Visits the records that the slots of a piece name.
    async fn visit_named(
        &self,
        first: u64,
        piece: &[u8],
        visit: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let slots = (first..).zip(piece.chunks_exact(self.layout.slot_bytes()));
        let live = slots.filter(|(_, bytes)| head_in(bytes) != 0);
        let reads = live.map(async |(slot, bytes)| {
            let read = self.resolved_of(bytes).await?;
            match self.layout.record_in(&read) {
                Some(_) => Ok(read),
                None => Err(self.unreadable(SlotNumber(slot))),
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
