//! Visiting every record, a piece of the table at a time.

use super::client::CuckooTable;
use super::heap_bucket::Residents;
use super::lookup::{Bucket, MOST_READS};
use super::signatures::SignatureWord;
use crate::hash::checksum;
use crate::heap::Record;
use crate::slot::{Head, SlotKind, WordFormat};
use crate::{BATCH_WIDTH, Cursor, IndexError, Result, SCAN};
use farslot_fabric::{Buffer, Endpoint, EndpointExt, window};

/// Bytes of buckets that one piece reads.
const PIECE: usize = 64 << 10;

/// A record that was met.
enum Met {
    Word(u64),
    Here(Buffer),
    Out(Record),
    Nothing,
}

impl<E: Endpoint> CuckooTable<E> {
    pub(super) async fn scan_counted(
        &self,
        cursor: Cursor,
        visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        self.endpoint
            .operation(SCAN, self.scan_piece(cursor, visit))
            .await
    }

    async fn scan_piece(
        &self,
        Cursor(first): Cursor,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        let bucket_bytes = self.layout.bucket_bytes();
        let left = self.layout.buckets.saturating_sub(first);
        let buckets = left.min((PIECE / bucket_bytes).max(1) as u64);
        if buckets == 0 {
            return Ok(None);
        }
        let from = self.layout.bucket_at(self.table, first);
        let piece = self
            .endpoint
            .read(from, buckets as usize * bucket_bytes)
            .await?;
        if self.layout.kind == SlotKind::Signatures {
            self.visit_heap_buckets(first, &piece, &mut visit).await?;
        } else {
            self.visit_slots(first, &piece, &mut visit).await?;
        }
        let next = first + buckets;
        Ok((next < self.layout.buckets).then_some(Cursor(next)))
    }

    async fn visit_slots(
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
        let (key_len, value_len) = (self.layout.key.most(), self.layout.value.most());
        let mut failed = Ok(());
        window(BATCH_WIDTH, in_use, |_, met| match met {
            Ok(Met::Word(word)) => {
                let key = self.words.key_of_word(word).to_le_bytes();
                let value = self.words.value_of_word(word).to_le_bytes();
                visit(&key[..key_len], &value[..value_len]);
            }
            Ok(Met::Here(record)) => visit(&record[..key_len], &record[key_len..]),
            Ok(Met::Out(record)) => visit(record.key(), record.value()),
            Ok(Met::Nothing) => {}
            Err(error) => failed = Err(error),
        })
        .await;
        failed
    }

    /// Visits the records of Signatures buckets. Those of one are all of the same moment: an update may
    /// take one from a position that is not read yet to one that has been.
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
        let mut failed = Ok(());
        window(BATCH_WIDTH, in_use, |_, met| match met {
            Ok(residents) => {
                for record in residents.iter().flatten() {
                    visit(record.key(), record.value());
                }
            }
            Err(error) => failed = Err(error),
        })
        .await;
        failed
    }

    async fn meet_residents(&self, number: u64, mut word: SignatureWord) -> Result<Residents> {
        for attempt in 0..MOST_READS {
            if let Some(residents) = self.read_residents(word).await? {
                return Ok(residents);
            }
            self.pause(attempt).await;
            word = self.read_bucket(number).await?.signatures();
        }
        Err(self.unreadable(number))
    }

    /// The record of a slot that was read, or is read again until it is whole.
    async fn meet(&self, number: u64, slot: usize, words: &[u64]) -> Result<Met> {
        if self.layout.kind == SlotKind::Word {
            let live = WordFormat::is_live(words[0]);
            return Ok(if live {
                Met::Word(words[0])
            } else {
                Met::Nothing
            });
        }
        let pool = &self.endpoint.core().buffers;
        let mut words = pool.copy_of(bytemuck::cast_slice(words))?;
        for attempt in 0..MOST_READS {
            let met = match Head::decode(words.words()[0]) {
                Head::Inline { sum, .. } => {
                    let record = self.inline_record(&words, 0);
                    let whole = checksum(record, self.layout.mask_seed) == sum;
                    whole
                        .then(|| pool.copy_of(record))
                        .transpose()?
                        .map(Met::Here)
                }
                Head::Out { block, .. } => self.heap().read(block).await?.map(Met::Out),
                _ => Some(Met::Nothing),
            };
            if let Some(met) = met {
                return Ok(met);
            }
            self.pause(attempt).await;
            let Bucket { bytes, .. } = self.read_bucket(number).await?;
            words = pool.copy_of(bytemuck::cast_slice(self.slot_words(&bytes, slot)))?;
        }
        Err(IndexError::Unreadable {
            slot: number * u64::from(self.layout.bucket_slots) + slot as u64,
            attempts: MOST_READS,
        })
    }
}
