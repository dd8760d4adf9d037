//! Visiting every record, a piece of the table at a time, without stopping anybody.
//!
//! A slot keeps its key for ever, so that a key that is present all along is met in its slot, once.

use super::client::LinearTable;
use crate::client::scan::{self, ScannedRecord};
use crate::client::{MOST_READS, pause};
use crate::hash::checksum;
use crate::slot::{SlotHead, SlotKind};
use crate::{Cursor, IndexError, Result};
use farslot_fabric::{Endpoint, EndpointExt};

impl<E: Endpoint> LinearTable<E> {
    pub(super) async fn scan_piece(
        &self,
        Cursor(first): Cursor,
        most: u64,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        let slot_bytes = self.layout.slot_bytes();
        let slots = scan::piece_of(first, self.layout.slots, slot_bytes, most);
        if slots == 0 {
            return Ok(None);
        }
        let from = self.layout.slot_at(self.table, first);
        let piece = self
            .endpoint
            .read(from, slots as usize * slot_bytes)
            .await?;
        match self.layout.kind {
            SlotKind::Word | SlotKind::Pair => {
                let shape = self.layout.shape();
                self.words
                    .visit(self.layout.kind, shape, piece.words(), visit);
            }
            SlotKind::Inline | SlotKind::Heap | SlotKind::Hybrid | SlotKind::Signatures => {
                self.visit_heads(first, &piece, &mut visit).await?;
            }
        }
        Ok(scan::next(first + slots, self.layout.slots))
    }

    async fn visit_heads(
        &self,
        first: u64,
        piece: &[u8],
        visit: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let slots = piece.chunks_exact(self.layout.slot_bytes());
        let in_use = slots
            .enumerate()
            .filter(|(_, slot)| slot[..8] != [0; 8])
            .map(|(index, slot)| self.meet(first + index as u64, slot));
        scan::visit_all(in_use, visit).await
    }

    /// The record of a slot that was read, or is read again until it is whole.
    async fn meet(&self, number: u64, slot: &[u8]) -> Result<ScannedRecord> {
        let pool = &self.endpoint.core().buffers;
        let mut slot = pool.copy_of(slot)?;
        for attempt in 0..MOST_READS {
            let met = match SlotHead::decode(slot.words()[0]) {
                SlotHead::Inline { sum, .. } => {
                    let lengths = (self.layout.key.most(), self.layout.value.most());
                    self.meet_here(&slot, lengths, sum)?
                }
                SlotHead::Sized {
                    key_len,
                    value_len,
                    sum,
                    ..
                } => self.meet_here(&slot, (key_len, value_len), sum)?,
                SlotHead::Out { block, .. } => {
                    let head = slot.words()[0];
                    let record = self.heap().read(block).await?;
                    record
                        .filter(|record| self.may_stand_at(record.key(), head, number))
                        .map(ScannedRecord::Out)
                }
                _ => Some(ScannedRecord::Nothing),
            };
            if let Some(met) = met {
                return Ok(met);
            }
            pause(&*self.endpoint, attempt).await?;
            let at = self.layout.slot_at(self.table, number);
            slot = self.endpoint.read(at, self.layout.slot_bytes()).await?;
        }
        Err(IndexError::Unreadable {
            slot: number,
            attempts: MOST_READS,
        })
    }

    /// The record in a slot, whose key and value have these lengths, if it is whole.
    fn meet_here(
        &self,
        slot: &[u8],
        (key_len, value_len): (usize, usize),
        sum: u32,
    ) -> Result<Option<ScannedRecord>> {
        let record = slot
            .get(8..8 + key_len + value_len)
            .filter(|record| checksum(record, self.layout.mask_seed) == sum);
        let copied = record.map(|record| self.endpoint.core().buffers.copy_of(record));
        Ok(copied
            .transpose()?
            .map(|record| ScannedRecord::Here(record, key_len)))
    }
}
