//! Reading the buckets of a key, and all of its records in them: for its writer, and for who wants
//! all. Lookups of one record take the same steps (`lookup.rs`).

use super::client::{CuckooTable, Key};
use super::layout::{CuckooSlot, LookupOrder, MOST_WAYS};
use crate::client::{MOST_READS, pause, side_by_side};
use crate::heap::BlockRef;
use crate::slot::{KeyRule, SlotHead, SlotKind, WordFormat};
use crate::step::ReadPieces;
use crate::{IndexError, Result, Value, step};
use farslot_fabric::{Buffer, Endpoint, EndpointExt, Piece};

/// A record that was found in a bucket.
pub(super) struct BucketRecord {
    pub(super) place: CuckooSlot,
    pub(super) value: Value,
}

/// A bucket as it was read.
pub(super) struct Bucket {
    pub(super) number: u64,
    pub(super) bytes: Buffer,
}

impl<E: Endpoint> CuckooTable<E> {
    pub(super) async fn find_all(&self, key: &[u8], mut found: impl FnMut(&[u8])) -> Result<usize> {
        if self.layout.keys == KeyRule::Unique {
            let value = step::run(self, key).await?;
            value.iter().for_each(|value| found(value));
            return Ok(usize::from(value.is_some()));
        }
        // Sealed: nothing moves, and every match stays where it is.
        let key = self.checked_key(key)?;
        let mut buckets = self.read_buckets(key.candidates.as_slice()).await?;
        let records = self.records_in(&key, &mut buckets).await?;
        records.iter().for_each(|record| found(&record.value));
        Ok(records.len())
    }

    /// All records of the key in buckets that were read.
    pub(super) async fn records_in(
        &self,
        key: &Key<'_>,
        buckets: &mut [Bucket],
    ) -> Result<Vec<BucketRecord>> {
        if self.layout.kind == SlotKind::Signatures {
            return self.search_heap_buckets(key, buckets).await;
        }
        let mut all = Vec::new();
        for bucket in buckets {
            for slot in 0..self.layout.bucket_slots as usize {
                all.extend(self.match_in(key, bucket, slot).await?);
            }
        }
        Ok(all)
    }

    /// What a slot's head says. A head that no client of this table writes is unknown: where it
    /// says that its record lies, there may be none.
    #[inline]
    pub(super) fn head(&self, word: u64) -> SlotHead {
        match SlotHead::decode(word) {
            SlotHead::Inline { .. } if self.layout.kind != SlotKind::Inline => SlotHead::Unknown,
            SlotHead::Sized { .. } => SlotHead::Unknown,
            head => head,
        }
    }

    /// The block that a slot with this word names.
    pub(super) fn block_in(&self, word: u64) -> Option<BlockRef> {
        match (self.layout.kind, self.head(word)) {
            (SlotKind::Inline | SlotKind::Heap, SlotHead::Out { block, .. }) => Some(block),
            _ => None,
        }
    }

    /// Buckets as they were read as the pieces of a step.
    pub(super) fn copies_of(
        &self,
        numbers: &[u64],
        read: &mut impl ReadPieces,
    ) -> Result<Vec<Bucket>> {
        let pool = &self.endpoint.core().buffers;
        let copy = |(piece, number): (usize, &u64)| {
            let bytes = pool.copy_of(read.bytes(piece, 0..self.bucket_bytes))?;
            let number = *number;
            Ok(Bucket { number, bytes })
        };
        numbers.iter().enumerate().map(copy).collect()
    }

    pub(super) async fn read_bucket(&self, number: u64) -> Result<Bucket> {
        let at = self.layout.bucket_at(self.table, number);
        let bytes = self.endpoint.read(at, self.layout.bucket_bytes()).await?;
        Ok(Bucket { number, bytes })
    }

    /// Reads buckets side by side; none needs no READ.
    pub(super) async fn read_buckets(&self, numbers: &[u64]) -> Result<Vec<Bucket>> {
        if numbers.is_empty() {
            return Ok(Vec::new());
        }
        if self.order == LookupOrder::Gathered && numbers.len() <= MOST_WAYS {
            return self.gather_buckets(numbers).await;
        }
        let mut buckets: Vec<Option<Bucket>> = numbers.iter().map(|_| None).collect();
        let reads = numbers.iter().map(|number| self.read_bucket(*number));
        let read = |index: usize, bucket| buckets[index] = Some(bucket);
        side_by_side(numbers.len(), reads, read).await?;
        Ok(buckets.into_iter().flatten().collect())
    }

    async fn gather_buckets(&self, numbers: &[u64]) -> Result<Vec<Bucket>> {
        let len = self.layout.bucket_bytes();
        let piece = |number: &u64| Piece {
            from: self.layout.bucket_at(self.table, *number),
            len,
        };
        let gathered = self
            .endpoint
            .read_many(numbers.iter().map(piece).collect())
            .await?;
        let pool = &self.endpoint.core().buffers;
        let split = numbers.iter().zip(gathered.chunks_exact(len));
        split
            .map(|(number, bytes)| {
                let bytes = pool.copy_of(bytes)?;
                Ok(Bucket {
                    number: *number,
                    bytes,
                })
            })
            .collect()
    }

    /// The record of a slot, if it is the key's. Reads the bucket again while the record is not
    /// whole.
    async fn match_in(
        &self,
        key: &Key<'_>,
        bucket: &mut Bucket,
        slot: usize,
    ) -> Result<Option<BucketRecord>> {
        let place = CuckooSlot {
            bucket: bucket.number,
            slot,
        };
        for attempt in 0..MOST_READS {
            let words = self.slot_words(&bucket.bytes, slot);
            let word = words[0];
            let found = |value| BucketRecord { place, value };
            if self.layout.kind == SlotKind::Word {
                let mine = WordFormat::is_live(word) && self.words.same_key(word, key.word);
                let value =
                    || Value::of_word(self.words.value_of_word(word), self.layout.value.most());
                return Ok(mine.then(|| found(value())));
            }
            let head = self.head(word);
            if !head.may_be(key.hash) {
                return Ok(None);
            }
            match head {
                SlotHead::Inline { sum, .. } => {
                    let record = self.inline_record(&bucket.bytes, slot);
                    if crate::hash::checksum(record, self.layout.mask_seed) == sum {
                        let key_len = self.layout.key.most();
                        if record[..key_len] != *key.bytes {
                            return Ok(None);
                        }
                        return Ok(Some(found(Value::from(&record[key_len..]))));
                    }
                }
                SlotHead::Out { block, .. } => {
                    if let Some(record) = self.heap().read(block).await? {
                        let mine = record.key() == key.bytes;
                        return Ok(mine.then(|| found(record.into_value())));
                    }
                }
                _ => return Ok(None),
            }
            pause(&*self.endpoint, attempt).await?;
            *bucket = self.read_bucket(bucket.number).await?;
        }
        Err(IndexError::Unreadable {
            slot: bucket.number * u64::from(self.layout.bucket_slots) + slot as u64,
            attempts: MOST_READS,
        })
    }

    /// Which of a bucket's words publishes a slot.
    pub(super) const fn word_index(&self, slot: usize) -> usize {
        match self.layout.kind {
            SlotKind::Signatures => 0,
            _ => slot * self.layout.slot_words(),
        }
    }

    /// The word that publishes a slot of a bucket that was read.
    pub(super) fn word_of(&self, bucket: &Bucket, slot: usize) -> u64 {
        bucket.bytes.words()[self.word_index(slot)]
    }

    /// Whether a slot of a bucket that was read can take a record.
    pub(super) fn is_free(&self, bucket: &Bucket, slot: usize) -> bool {
        match self.layout.kind {
            SlotKind::Signatures => bucket.signatures().signature(slot) == 0,
            _ => self.word_of(bucket, slot) == 0,
        }
    }

    /// The words of a slot in a bucket that was read.
    pub(super) fn slot_words<'b>(&self, bucket: &'b Buffer, slot: usize) -> &'b [u64] {
        let words = self.layout.slot_words();
        &bucket.words()[slot * words..(slot + 1) * words]
    }

    /// Key and value of an Inline slot in a bucket that was read.
    pub(super) fn inline_record<'b>(&self, bucket: &'b Buffer, slot: usize) -> &'b [u8] {
        let from = slot * self.layout.slot_words() * 8 + 8;
        &bucket[from..from + self.layout.key.most() + self.layout.value.most()]
    }
}
