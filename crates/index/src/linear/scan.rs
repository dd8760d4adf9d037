//! Visiting every record, a piece of the table at a time, without stopping anybody.
//!
//! A slot keeps its key for ever, so that a key that is present all along is met in its slot, once.

use super::client::LinearTable;
use crate::hash::checksum;
use crate::heap::Record;
use crate::slot::{Head, SlotKind, WordFormat};
use crate::{BATCH_WIDTH, Cursor, IndexError, Result, SCAN};
use farslot_fabric::{Buffer, Endpoint, EndpointExt, window};

/// Bytes of slots that one piece reads.
const PIECE: usize = 64 << 10;
/// How often a slot is read before its record is called unreadable.
const MOST_READS: u32 = 100;

/// A record that was met.
enum Met {
    /// Key and value, and the key's length.
    Here(Buffer, usize),
    Out(Record),
    Nothing,
}

impl<E: Endpoint> LinearTable<E> {
    pub(super) async fn scan_counted(
        &self,
        cursor: Cursor,
        visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        let operation = self.scan_piece(cursor, visit);
        self.endpoint.operation(SCAN, operation).await
    }

    async fn scan_piece(
        &self,
        Cursor(first): Cursor,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        let slot_bytes = self.layout.slot_bytes();
        let left = self.layout.slots.saturating_sub(first);
        let slots = left.min((PIECE / slot_bytes).max(1) as u64);
        if slots == 0 {
            return Ok(None);
        }
        let from = self.layout.slot_at(self.table, first);
        let piece = self
            .endpoint
            .read(from, slots as usize * slot_bytes)
            .await?;
        match self.layout.kind {
            SlotKind::Word | SlotKind::Pair => self.visit_words(piece.words(), visit),
            SlotKind::Inline | SlotKind::Heap | SlotKind::Hybrid | SlotKind::Signatures => {
                self.visit_heads(first, &piece, &mut visit).await?;
            }
        }
        let next = first + slots;
        Ok((next < self.layout.slots).then_some(Cursor(next)))
    }

    fn visit_words(&self, words: &[u64], mut visit: impl FnMut(&[u8], &[u8])) {
        let (key_len, value_len) = (self.layout.key.most(), self.layout.value.most());
        let mut give = |key: u64, value: u64| {
            visit(
                &key.to_le_bytes()[..key_len],
                &value.to_le_bytes()[..value_len],
            );
        };
        let format = self.words;
        if self.layout.kind == SlotKind::Pair {
            let live = words
                .chunks_exact(2)
                .filter(|pair| pair[0] != 0 && pair[1] != 0);
            live.for_each(|pair| give(format.key_of_pair(pair[0]), format.value_of_pair(pair[1])));
        } else {
            let live = words.iter().filter(|word| WordFormat::is_live(**word));
            live.for_each(|word| give(format.key_of_word(*word), format.value_of_word(*word)));
        }
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
        let mut failed = Ok(());
        window(BATCH_WIDTH, in_use, |_, met| match met {
            Ok(Met::Here(record, key_len)) => visit(&record[..key_len], &record[key_len..]),
            Ok(Met::Out(record)) => visit(record.key(), record.value()),
            Ok(Met::Nothing) => {}
            Err(error) => failed = Err(error),
        })
        .await;
        failed
    }

    /// The record of a slot that was read, or is read again until it is whole.
    async fn meet(&self, number: u64, slot: &[u8]) -> Result<Met> {
        let pool = &self.endpoint.core().buffers;
        let mut slot = pool.copy_of(slot)?;
        for attempt in 0..MOST_READS {
            let met = match Head::decode(slot.words()[0]) {
                Head::Inline { sum, .. } => {
                    let lengths = (self.layout.key.most(), self.layout.value.most());
                    self.meet_here(&slot, lengths, sum)?
                }
                Head::Sized {
                    key_len,
                    value_len,
                    sum,
                    ..
                } => self.meet_here(&slot, (key_len, value_len), sum)?,
                Head::Out { block, .. } => {
                    let head = slot.words()[0];
                    let record = self.heap().read(block).await?;
                    record
                        .filter(|record| self.may_stand_at(record.key(), head, number))
                        .map(Met::Out)
                }
                _ => Some(Met::Nothing),
            };
            if let Some(met) = met {
                return Ok(met);
            }
            if attempt > 0 {
                self.endpoint.sleep(1_000 << attempt.min(10)).await;
            }
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
    ) -> Result<Option<Met>> {
        let record = slot
            .get(8..8 + key_len + value_len)
            .filter(|record| checksum(record, self.layout.mask_seed) == sum);
        let copied = record.map(|record| self.endpoint.core().buffers.copy_of(record));
        Ok(copied.transpose()?.map(|record| Met::Here(record, key_len)))
    }
}
