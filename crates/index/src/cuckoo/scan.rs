//! Visiting every record, a piece of the table at a time.

use super::client::CuckooTable;
use super::lookup::Bucket;
use crate::hash::checksum;
use crate::heap::Record;
use crate::slot::{Head, SlotKind, WordFormat};
use crate::{BATCH_WIDTH, Cursor, IndexError, Result, SCAN};
use farslot_fabric::{Buffer, Endpoint, EndpointExt, window};

/// Bytes of buckets that one piece reads.
const PIECE: usize = 64 << 10;
/// How often a bucket is read before a record in it is called unreadable.
const MOST_READS: u32 = 100;

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
        failed?;
        let next = first + buckets;
        Ok((next < self.layout.buckets).then_some(Cursor(next)))
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
