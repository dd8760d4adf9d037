//! Building a whole table from known records, and sealing it.
//!
//! The places are found in local memory, so that a table can be filled close to its limit without a
//! round trip; then the slots are written in large pieces. A sealed table never changes: readers
//! need no second look at a miss, and keys may have several records.

use super::client::CuckooTable;
use super::layout::{CuckooSlot, SEALED_AT};
use super::signatures::SignatureWord;
use crate::client::side_by_side;
use crate::heap::encode;
use crate::slot::{SIGNATURES, SlotHead, SlotKind};
use crate::{IndexError, PUT, Result};
use farslot_fabric::{Endpoint, EndpointExt};
use std::collections::{HashSet, VecDeque};

/// Bytes of slots that one WRITE places.
const PIECE: usize = 64 << 10;
/// WRITEs under way at once.
const WIDTH: usize = 16;
/// Buckets that the search for one record's place looks at.
const MOST_BUCKETS: usize = 4096;
/// Marks a free slot of the plan.
const FREE: u32 = u32::MAX;

/// Which record goes into which slot.
struct Plan<'h> {
    bucket_slots: usize,
    /// By slot: a record's number, or [`FREE`].
    slots: Vec<u32>,
    /// By record: its key's hash.
    hashes: &'h [u64],
}

impl<E: Endpoint> CuckooTable<E> {
    /// Fills an empty table with these records and seals it. With unique keys, the caller sees to
    /// it that they are. Readers meet one record after the other until it is done.
    ///
    /// If this fails, the table is as empty as it was, unless the fabric fails: then there may be a
    /// part of the records, and the table is to be made anew.
    ///
    /// # Errors
    /// [`IndexError::Sealed`], [`IndexError::NotEmpty`], [`IndexError::Full`] where the records
    /// have no place, [`IndexError::HeapFull`], a record that does not fit,
    /// [`IndexError::WriterBusy`], or what the fabric says.
    pub async fn build(&self, records: &[(&[u8], &[u8])]) -> Result<()> {
        self.endpoint.operation(PUT, self.build_all(records)).await
    }

    async fn build_all(&self, records: &[(&[u8], &[u8])]) -> Result<()> {
        let mut hashes = Vec::with_capacity(records.len());
        for (key, value) in records {
            let key = self.checked_key(key)?;
            self.check_value(value)?;
            if self.layout.kind == SlotKind::Word {
                self.words.live_word(key.word, value)?;
            }
            hashes.push(key.hash);
        }
        // Nothing else of this client writes meanwhile.
        let _alone = self.locks.take_alone(&[]).await;
        self.forget_graph();
        self.become_writer_of_any("build").await?;
        self.check_empty().await?;
        let plan = self.plan(&hashes)?;
        let heads = match self.layout.kind {
            SlotKind::Heap => self.write_records(records, &hashes).await?,
            SlotKind::Signatures => self.write_heap_buckets(records, &plan).await?,
            _ => Vec::new(),
        };
        if !heads.is_empty() {
            self.show_records().await?;
        }
        self.write_slots(records, &plan, &heads).await?;
        if self.layout.kind == SlotKind::Heap {
            let named: Vec<_> = heads
                .iter()
                .filter_map(|head| self.block_in(*head))
                .collect();
            self.are_named(&named);
        }
        self.entries_changed(records.len() as i64).await;
        self.report().await?;
        self.seal().await
    }

    /// Has the records out of band be visible before what names them is: heap buckets may have been
    /// in use before, and what is left in them of then could be taken for what the words mean.
    async fn show_records(&self) -> Result<()> {
        // Any atomic does it.
        let nothing = self.endpoint.fetch_add(self.table.plus(SEALED_AT), 0);
        nothing.await?;
        Ok(())
    }

    /// Looks at all slots: the count of those in use may lag.
    async fn check_empty(&self) -> Result<()> {
        let buckets_a_piece = self.buckets_a_piece();
        let pieces = (0..self.layout.buckets).step_by(buckets_a_piece);
        let reads = pieces.map(|first| {
            let buckets = (self.layout.buckets - first).min(buckets_a_piece as u64);
            let bytes = buckets as usize * self.layout.bucket_bytes();
            let from = self.layout.bucket_at(self.table, first);
            async move { Ok(self.endpoint.read(from, bytes).await?) }
        });
        let mut used = 0;
        side_by_side(WIDTH, reads, |_, piece| {
            let bytes_a_bucket = self.layout.bucket_bytes();
            for words in piece.words().chunks_exact(bytes_a_bucket / 8) {
                used += self.slots_in_use(words);
            }
        })
        .await?;
        if used == 0 {
            return Ok(());
        }
        Err(IndexError::NotEmpty { slots: used })
    }

    /// How many slots of a bucket that was read hold a record.
    pub(super) fn slots_in_use(&self, bucket: &[u64]) -> u64 {
        let used = match self.layout.kind {
            SlotKind::Signatures => SignatureWord(bucket[0]).used().count(),
            _ => {
                let slots = bucket.chunks_exact(self.layout.slot_words());
                slots.filter(|slot| slot[0] != 0).count()
            }
        };
        used as u64
    }

    fn buckets_a_piece(&self) -> usize {
        (PIECE / self.layout.bucket_bytes()).max(1)
    }

    async fn seal(&self) -> Result<()> {
        self.endpoint
            .fetch_add(self.table.plus(SEALED_AT), 1)
            .await?;
        self.sealed.set(true);
        Ok(())
    }

    fn plan<'h>(&self, hashes: &'h [u64]) -> Result<Plan<'h>> {
        let slots = usize::try_from(self.layout.slots()).unwrap_or(usize::MAX);
        let full = || IndexError::Full {
            probed: slots as u64,
            slots: slots as u64,
        };
        if hashes.len() > slots || hashes.len() >= FREE as usize {
            return Err(full());
        }
        let mut plan = Plan {
            bucket_slots: self.layout.bucket_slots as usize,
            slots: vec![FREE; slots],
            hashes,
        };
        for record in 0..hashes.len() as u32 {
            if !self.place(&mut plan, record) {
                return Err(full());
            }
        }
        Ok(plan)
    }

    /// Finds a place for a record, breadth first, moving others along.
    fn place(&self, plan: &mut Plan<'_>, record: u32) -> bool {
        // A bucket that was reached, and the slot that led there.
        let mut reached: Vec<(u64, Option<(usize, usize)>)> = Vec::new();
        let candidates = self.layout.buckets_of(plan.hashes[record as usize]);
        for bucket in candidates.as_slice() {
            if let Some(free) = plan.free_slot(*bucket) {
                plan.move_along(&[(*bucket, None)], 0, free, record);
                return true;
            }
        }
        // No bucket is reached twice: a way that crosses itself would move a record that has gone.
        let mut seen: HashSet<u64> = candidates.as_slice().iter().copied().collect();
        let mut queue: VecDeque<_> = candidates.as_slice().iter().map(|to| (*to, None)).collect();
        while let Some((bucket, from)) = queue.pop_front() {
            let at = reached.len();
            reached.push((bucket, from));
            if let Some(free) = plan.free_slot(bucket) {
                plan.move_along(&reached, at, free, record);
                return true;
            }
            for slot in 0..plan.bucket_slots {
                if seen.len() >= MOST_BUCKETS {
                    break;
                }
                let occupant = plan.slots[plan.index(bucket, slot)];
                let buckets = self.layout.buckets_of(plan.hashes[occupant as usize]);
                for other in buckets.as_slice() {
                    if seen.insert(*other) {
                        queue.push_back((*other, Some((at, slot))));
                    }
                }
            }
        }
        false
    }

    /// Writes the records of Heap slots; returns their heads.
    async fn write_records(&self, records: &[(&[u8], &[u8])], hashes: &[u64]) -> Result<Vec<u64>> {
        let mut heads = vec![0; records.len()];
        let writes = records.iter().map(async |(key, value)| {
            let record = encode(&self.endpoint.core().buffers, key, value)?;
            self.heap().write(record).await
        });
        let written = side_by_side(WIDTH * 4, writes, |record, block| {
            heads[record] = SlotHead::out(hashes[record], block);
        })
        .await;
        if written.is_err() {
            // No slot names any of them.
            let written: Vec<_> = heads
                .iter()
                .filter_map(|head| self.block_in(*head))
                .collect();
            self.take_back_blocks(&written);
        }
        written.map(|()| heads)
    }

    /// Writes the heap buckets of Signatures slots; returns the words of all buckets.
    async fn write_heap_buckets(
        &self,
        records: &[(&[u8], &[u8])],
        plan: &Plan<'_>,
    ) -> Result<Vec<u64>> {
        let mut words = vec![0; self.layout.buckets as usize];
        let in_use = plan
            .slots
            .chunks(plan.bucket_slots)
            .enumerate()
            .filter(|(_, slots)| slots.iter().any(|record| *record != FREE));
        let writes = in_use.map(async |(bucket, slots)| {
            let word = self.write_heap_bucket(records, plan, slots).await?;
            Ok((bucket, word))
        });
        let write = |_, (bucket, word)| words[bucket] = word;
        let written = side_by_side(WIDTH * 4, writes, write).await;
        if written.is_err() {
            // No bucket names any of them.
            for word in words.iter().filter(|word| **word != 0) {
                let block = self.heap_buckets().block(SignatureWord(*word));
                self.take_back_blocks(&[block]);
            }
        }
        written.map(|()| words)
    }

    async fn write_heap_bucket(
        &self,
        records: &[(&[u8], &[u8])],
        plan: &Plan<'_>,
        slots: &[u32],
    ) -> Result<u64> {
        let mut word = SignatureWord(0);
        let mut entrants = [const { None }; SIGNATURES];
        for (position, record) in slots.iter().enumerate() {
            if *record != FREE {
                let (hash, (key, value)) =
                    (plan.hashes[*record as usize], records[*record as usize]);
                let entrant = self.entrant(hash, key, value)?;
                word = word.with(position, entrant.signature());
                entrants[position] = Some(entrant.record);
            }
        }
        let block = self.allocate_heap_bucket().await?;
        let data = self.joined(entrants, block)?;
        self.endpoint
            .write(self.uniform().at(block.granule), data)
            .await?;
        Ok(self.heap_buckets().naming(word, block).0)
    }

    async fn write_slots(
        &self,
        records: &[(&[u8], &[u8])],
        plan: &Plan<'_>,
        heads: &[u64],
    ) -> Result<()> {
        if self.layout.kind == SlotKind::Signatures {
            return self.write_words(heads).await;
        }
        let words = self.layout.slot_words();
        let buckets_a_piece = self.buckets_a_piece();
        let pieces = plan.slots.chunks(buckets_a_piece * plan.bucket_slots);
        let writes = pieces.enumerate().map(async |(piece, slots)| {
            let mut bytes = self.endpoint.core().buffers.take(slots.len() * words * 8)?;
            bytes.words_mut().fill(0);
            for (slot, record) in slots
                .iter()
                .enumerate()
                .filter(|(_, record)| **record != FREE)
            {
                let (record, hash) = (*record as usize, plan.hashes[*record as usize]);
                let (key, value) = records[record];
                let at = slot * words;
                bytes.words_mut()[at] = match self.layout.kind {
                    SlotKind::Word => self.words.live_word(self.words.dead_word(key)?, value)?,
                    SlotKind::Inline => {
                        let body = [key, value].concat();
                        bytes[at * 8 + 8..][..body.len()].copy_from_slice(&body);
                        SlotHead::inline(hash, &body, self.layout.mask_seed)
                    }
                    _ => heads[record],
                };
            }
            let place = CuckooSlot {
                bucket: (piece * buckets_a_piece) as u64,
                slot: 0,
            };
            Ok(self.endpoint.write(self.slot_at(place), bytes).await?)
        });
        side_by_side(WIDTH, writes, |_, ()| {}).await
    }

    /// Writes the words of all buckets.
    async fn write_words(&self, words: &[u64]) -> Result<()> {
        let pieces = words.chunks(PIECE / 8);
        let writes = pieces.enumerate().map(async |(piece, words)| {
            let bytes = bytemuck::cast_slice(words);
            let bytes = self.endpoint.core().buffers.copy_of(bytes)?;
            let first = (piece * (PIECE / 8)) as u64;
            let to = self.layout.bucket_at(self.table, first);
            Ok(self.endpoint.write(to, bytes).await?)
        });
        side_by_side(WIDTH, writes, |_, ()| {}).await
    }
}

impl Plan<'_> {
    fn index(&self, bucket: u64, slot: usize) -> usize {
        bucket as usize * self.bucket_slots + slot
    }

    fn free_slot(&self, bucket: u64) -> Option<usize> {
        (0..self.bucket_slots).find(|slot| self.slots[self.index(bucket, *slot)] == FREE)
    }

    /// Moves the records along the way that ends in a free slot, and puts the new one at its start.
    fn move_along(
        &mut self,
        reached: &[(u64, Option<(usize, usize)>)],
        end: usize,
        free: usize,
        record: u32,
    ) {
        let mut hole = self.index(reached[end].0, free);
        let mut at = end;
        while let Some((parent, slot)) = reached[at].1 {
            let from = self.index(reached[parent].0, slot);
            self.slots[hole] = self.slots[from];
            (hole, at) = (from, parent);
        }
        self.slots[hole] = record;
    }
}
