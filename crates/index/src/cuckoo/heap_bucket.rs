//! Reading and writing the records of a Signatures bucket, which lie together in a heap bucket.
//!
//! Invariant: while a position's signature is not 0, its region does not change; a record is
//! written into a free position, or a whole heap bucket that no word names yet, and one
//! compare-and-swap of the bucket's word publishes it.

use super::batch::{Batch, Entrant, Step};
use super::buckets::{Bucket, BucketRecord};
use super::client::{CuckooTable, Key};
use super::layout::{CuckooSlot, signature_of};
use super::path::Hole;
use super::signatures::SignatureWord;
use crate::client::{MOST_READS, pause, side_by_side};
use crate::heap::{BlockRef, Record, encode, seal};
use crate::slot::SIGNATURES;
use crate::{BATCH_WIDTH, IndexError, Result};
use farslot_fabric::{Buffer, Endpoint, EndpointExt, RemoteAddr};

/// The records of a bucket, by position.
pub(super) type Residents = [Option<Record>; SIGNATURES];

impl<E: Endpoint> CuckooTable<E> {
    /// Reads the records whose signatures are the key's, side by side.
    ///
    /// A word is all of its bucket at one moment. A record that is found whole and no later than
    /// the word is what the word meant: another key's says that this one was not there. All else
    /// says that the word has been replaced since it was read.
    pub(super) async fn search_heap_buckets(
        &self,
        key: &Key<'_>,
        buckets: &mut [Bucket],
    ) -> Result<Vec<BucketRecord>> {
        let (signature, mut found) = (signature_of(key.hash), Vec::new());
        let mut unsettled: Vec<usize> = (0..buckets.len()).collect();
        for attempt in 0..MOST_READS {
            let matches: Vec<(usize, usize)> = unsettled
                .iter()
                .flat_map(|index| {
                    let positions = buckets[*index].signatures().positions_of(signature);
                    positions.map(|position| (*index, position))
                })
                .collect();
            let reads = matches.iter().map(|(index, position)| {
                let word = buckets[*index].signatures();
                self.read_position(word, *position)
            });
            let (mut replaced, mut met) = (Vec::new(), Vec::new());
            side_by_side(matches.len(), reads, |number, record| match record {
                Some(record) if record.key() == key.bytes => met.push((number, record)),
                Some(_) => {}
                None => replaced.push(matches[number].0),
            })
            .await?;
            // All of a bucket is read again, or nothing of it.
            for (number, record) in met {
                let (index, slot) = matches[number];
                if !replaced.contains(&index) {
                    let bucket = buckets[index].number;
                    let (place, value) = (CuckooSlot { bucket, slot }, record.into_value());
                    found.push(BucketRecord { place, value });
                }
            }
            replaced.sort_unstable();
            replaced.dedup();
            if replaced.is_empty() {
                return Ok(found);
            }
            pause(&*self.endpoint, attempt).await?;
            let numbers: Vec<u64> = replaced
                .iter()
                .map(|index| buckets[*index].number)
                .collect();
            let again = self.read_buckets(&numbers).await?;
            for (index, bucket) in replaced.iter().zip(again) {
                buckets[*index] = bucket;
            }
            unsettled = replaced;
        }
        Err(self.unreadable(buckets[unsettled[0]].number))
    }

    pub(super) fn unreadable(&self, bucket: u64) -> IndexError {
        IndexError::Unreadable {
            slot: bucket * u64::from(self.layout.bucket_slots),
            attempts: MOST_READS,
        }
    }

    pub(super) fn region_at(&self, block: BlockRef, position: usize) -> RemoteAddr {
        let within = position * self.heap_buckets().region;
        self.uniform().at(block.granule).plus(within as u64)
    }

    /// The record at a position; nothing if the word is not the bucket's any more.
    pub(super) async fn read_position(
        &self,
        word: SignatureWord,
        position: usize,
    ) -> Result<Option<Record>> {
        let of = self.heap_buckets();
        let block = of.block(word);
        let region = self
            .endpoint
            .read(self.region_at(block, position), of.region);
        Ok(self.record_of(word, region.await?))
    }

    fn record_of(&self, word: SignatureWord, region: Buffer) -> Option<Record> {
        let of = self.heap_buckets();
        let (stamp, block) = (region.words()[0] >> 32, of.block(word));
        let stamped = BlockRef {
            generation: stamp,
            ..block
        };
        of.is_of(stamp, block)
            .then(|| Record::decode(region, stamped))
            .flatten()
    }

    /// All records of a bucket, read at once; nothing if the word is not the bucket's any more.
    pub(super) async fn read_residents(&self, word: SignatureWord) -> Result<Option<Residents>> {
        let mut residents = [const { None }; SIGNATURES];
        if word.is_vacant() {
            return Ok(Some(residents));
        }
        let of = self.heap_buckets();
        let from = self.region_at(of.block(word), 0);
        let all = self.endpoint.read(from, of.region * SIGNATURES).await?;
        for position in word.used() {
            let region = &all[position * of.region..(position + 1) * of.region];
            let region = self.endpoint.core().buffers.copy_of(region)?;
            match self.record_of(word, region) {
                Some(record) => residents[position] = Some(record),
                None => return Ok(None),
            }
        }
        Ok(Some(residents))
    }

    /// The records of a bucket that the writer holds: nobody replaces them meanwhile.
    pub(super) async fn residents_of(&self, bucket: &Bucket) -> Result<Residents> {
        let residents = self.read_residents(bucket.signatures()).await?;
        residents.ok_or_else(|| self.unreadable(bucket.number))
    }

    /// The hashes of the keys in buckets that the writer holds: slot by slot.
    pub(super) async fn hashes_in(&self, buckets: &[&Bucket]) -> Result<Vec<Option<u64>>> {
        let mut hashes = vec![None; buckets.len() * SIGNATURES];
        let reads = buckets.iter().map(|bucket| self.residents_of(bucket));
        side_by_side(BATCH_WIDTH, reads, |index, residents| {
            for (position, record) in residents.iter().enumerate() {
                hashes[index * SIGNATURES + position] = record
                    .as_ref()
                    .map(|record| self.layout.hasher.hash(record.key()));
            }
        })
        .await?;
        Ok(hashes)
    }

    /// A record as it goes into a position.
    pub(super) fn entrant(&self, hash: u64, key: &[u8], value: &[u8]) -> Result<Entrant> {
        Ok(Entrant {
            hash,
            record: encode(&self.endpoint.core().buffers, key, value)?,
        })
    }

    /// The record of a slot that is to be displaced.
    pub(super) async fn entrant_from(&self, bucket: &Bucket, slot: usize) -> Result<Entrant> {
        let word = bucket.signatures();
        let record = self.read_position(word, slot).await?;
        let record = record.ok_or_else(|| self.unreadable(bucket.number))?;
        let hash = self.layout.hasher.hash(record.key());
        self.entrant(hash, record.key(), record.value())
    }

    /// The steps that put a record into a hole. The record that was there is emptied out first, and
    /// nothing is written into a position before its signature is 0.
    pub(super) async fn fill_position(
        &self,
        batch: &mut Batch,
        hole: &Hole,
        entrant: Entrant,
    ) -> Result<()> {
        let Hole { place, word } = *hole;
        let mut word = SignatureWord(word);
        let of = self.heap_buckets();
        if word.0 == 0 {
            let block = self.take_heap_bucket(batch).await?;
            let new = of.naming(word.with(place.slot, entrant.signature()), block);
            self.place_record(batch, place, word, new, entrant.record);
            return Ok(());
        }
        let Some(next) = of.next_use(of.block(word)) else {
            return self.copy_heap_bucket(batch, place, word, entrant).await;
        };
        if word.signature(place.slot) != 0 {
            let emptied = word.with(place.slot, 0);
            batch.steps.push(Step::swap(place, word.0, emptied.0));
            word = emptied;
        }
        let new = of.naming(word.with(place.slot, entrant.signature()), next);
        self.place_record(batch, place, word, new, entrant.record);
        Ok(())
    }

    /// The steps that replace a slot's record by another of the same key; returns the slot where
    /// that is.
    pub(super) async fn replace_position(
        &self,
        batch: &mut Batch,
        place: CuckooSlot,
        word: SignatureWord,
        entrant: Entrant,
    ) -> Result<CuckooSlot> {
        let of = self.heap_buckets();
        let (Some(next), Some(free)) = (of.next_use(of.block(word)), word.free_position()) else {
            self.copy_heap_bucket(batch, place, word, entrant).await?;
            return Ok(place);
        };
        let new = word.with(place.slot, 0).with(free, entrant.signature());
        let place = CuckooSlot {
            slot: free,
            ..place
        };
        self.place_record(batch, place, word, of.naming(new, next), entrant.record);
        Ok(place)
    }

    /// Writes a record at a position that is free in `word`, and publishes it.
    fn place_record(
        &self,
        batch: &mut Batch,
        place: CuckooSlot,
        word: SignatureWord,
        new: SignatureWord,
        mut record: Buffer,
    ) {
        let block = self.heap_buckets().block(new);
        seal(&mut record, block);
        let to = self.region_at(block, place.slot);
        batch.steps.push(Step::Write { to, data: record });
        batch.steps.push(Step::swap(place, word.0, new.0));
    }

    /// The steps that put a record into a slot by way of another heap bucket, to which the others
    /// are copied: where no position is free, or where stamps could be mistaken.
    async fn copy_heap_bucket(
        &self,
        batch: &mut Batch,
        place: CuckooSlot,
        word: SignatureWord,
        entrant: Entrant,
    ) -> Result<()> {
        let of = self.heap_buckets();
        let residents = self.read_residents(word).await?;
        let mut residents = residents.ok_or_else(|| self.unreadable(place.bucket))?;
        residents[place.slot] = None;
        let mut records = [const { None }; SIGNATURES];
        for (record, resident) in records.iter_mut().zip(&residents) {
            if let Some(resident) = resident {
                let pool = &self.endpoint.core().buffers;
                *record = Some(encode(pool, resident.key(), resident.value())?);
            }
        }
        let signature = entrant.signature();
        records[place.slot] = Some(entrant.record);
        let block = self.take_heap_bucket(batch).await?;
        let new = of.naming(word.with(place.slot, signature), block);
        let data = self.joined(records, of.block(new))?;
        let to = self.region_at(block, 0);
        batch.steps.push(Step::Write { to, data });
        batch.steps.push(Step::swap(place, word.0, new.0));
        batch.left.push(of.block(word));
        Ok(())
    }

    /// A whole heap bucket's bytes.
    pub(super) fn joined(
        &self,
        records: [Option<Buffer>; SIGNATURES],
        block: BlockRef,
    ) -> Result<Buffer> {
        let region = self.heap_buckets().region;
        let mut bytes = self.endpoint.core().buffers.take(region * SIGNATURES)?;
        bytes.words_mut().fill(0);
        for (position, record) in records.into_iter().enumerate() {
            if let Some(mut record) = record {
                seal(&mut record, block);
                bytes[position * region..][..record.len()].copy_from_slice(&record);
            }
        }
        Ok(bytes)
    }

    async fn take_heap_bucket(&self, batch: &mut Batch) -> Result<BlockRef> {
        let block = self.allocate_heap_bucket().await?;
        batch.taken.push(block);
        Ok(block)
    }

    /// A heap bucket that no word names. Its generation is one that words can have.
    pub(super) async fn allocate_heap_bucket(&self) -> Result<BlockRef> {
        let of = self.heap_buckets();
        let block = self.uniform().allocate().await?;
        Ok(of.block(of.naming(SignatureWord(0), block)))
    }
}

impl Bucket {
    /// The word of a Signatures bucket.
    pub(super) fn signatures(&self) -> SignatureWord {
        SignatureWord(self.bytes.words()[0])
    }
}
