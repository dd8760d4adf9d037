//! Visiting every record, a piece of the table at a time.

use super::buckets::Bucket;
use super::client::CuckooTable;
use super::heap_bucket::Residents;
use super::signatures::SignatureWord;
use crate::client::scan::{self, ScannedRecord};
use crate::client::{MOST_READS, pause, side_by_side};
use crate::hash::checksum;
use crate::slot::{SlotHead, SlotKind};
use crate::{BATCH_WIDTH, Cursor, IndexError, Result};
use farslot_fabric::{Buffer, Endpoint, EndpointExt};

impl<E: Endpoint> CuckooTable<E> {
    pub(super) async fn scan_piece(
        &self,
        Cursor(first): Cursor,
        most: u64,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        let bucket_bytes = self.layout.bucket_bytes();
        let most = most / u64::from(self.layout.bucket_slots);
        let buckets = scan::piece_of(first, self.layout.buckets, bucket_bytes, most);
        if buckets == 0 {
            return Ok(None);
        }
        let from = self.layout.bucket_at(self.table, first);
        let piece = self
            .endpoint
            .read(from, buckets as usize * bucket_bytes)
            .await?;
        match self.layout.kind {
            SlotKind::Word => {
                let shape = self.layout.shape();
                self.words
                    .visit(SlotKind::Word, shape, piece.words(), visit);
            }
            SlotKind::Signatures => self.visit_heap_buckets(first, &piece, &mut visit).await?,
            _ => self.visit_heads(first, &piece, &mut visit).await?,
        }
        Ok(scan::next(first + buckets, self.layout.buckets))
    }

    async fn visit_heads(
        &self,
        first: u64,
        piece: &Buffer,
        visit: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let slots = self.layout.bucket_slots as usize;
        let in_use = piece
            .words()
            .chunks_exact(self.layout.slot_words())
            .enumerate()
            .filter(|(_, slot)| slot[0] != 0)
            .map(|(index, slot)| self.meet(first + (index / slots) as u64, index % slots, slot));
        scan::visit_all(in_use, visit).await
    }

    /// Visits the records of Signatures buckets. Those of one are all of the same moment: an update
    /// may take one from a position that is not read yet to one that has been.
    async fn visit_heap_buckets(
        &self,
        first: u64,
        piece: &Buffer,
        visit: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let words = piece.words().iter().zip(first..);
        let in_use = words
            .map(|(word, number)| (SignatureWord(*word), number))
            .filter(|(word, _)| !word.is_vacant())
            .map(|(word, number)| self.meet_residents(number, word));
        side_by_side(BATCH_WIDTH, in_use, |_, residents| {
            for record in residents.iter().flatten() {
                visit(record.key(), record.value());
            }
        })
        .await
    }

    async fn meet_residents(&self, number: u64, mut word: SignatureWord) -> Result<Residents> {
        for attempt in 0..MOST_READS {
            if let Some(residents) = self.read_residents(word).await? {
                return Ok(residents);
            }
            pause(&*self.endpoint, attempt).await?;
            word = self.read_bucket(number).await?.signatures();
        }
        Err(self.unreadable(number))
    }

    /// The record of a slot that was read, or is read again until it is whole.
    async fn meet(&self, number: u64, slot: usize, words: &[u64]) -> Result<ScannedRecord> {
        let pool = &self.endpoint.core().buffers;
        let mut words = pool.copy_of(bytemuck::cast_slice(words))?;
        for attempt in 0..MOST_READS {
            let met = match self.head(words.words()[0]) {
                SlotHead::Inline { sum, .. } => {
                    let record = self.inline_record(&words, 0);
                    let is_intact = checksum(record, self.layout.mask_seed) == sum;
                    let record = is_intact.then(|| pool.copy_of(record)).transpose()?;
                    record.map(|record| ScannedRecord::Here(record, self.layout.key.most()))
                }
                SlotHead::Out { block, .. } => {
                    self.heap().read(block).await?.map(ScannedRecord::Out)
                }
                _ => Some(ScannedRecord::Nothing),
            };
            if let Some(met) = met {
                return Ok(met);
            }
            pause(&*self.endpoint, attempt).await?;
            let Bucket { bytes, .. } = self.read_bucket(number).await?;
            words = pool.copy_of(bytemuck::cast_slice(self.slot_words(&bytes, slot)))?;
        }
        Err(IndexError::Unreadable {
            slot: number * u64::from(self.layout.bucket_slots) + slot as u64,
            attempts: MOST_READS,
        })
    }
}
