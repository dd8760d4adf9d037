//! What a write does beside its steps: it waits for its buckets or for room in the heap, moves
//! other records out of the way of a new key, or puts that where the graph says, changes buckets of
//! signatures, and meets keys that a writer that died has left twice.
//!
//! By the invariant of `write.rs`: whatever is changed here is held.

use super::batch::{Batch, Entrant, SlotContent, Step};
use super::buckets::{Bucket, BucketRecord};
use super::client::{CuckooTable, Key};
use super::layout::CuckooSlot;
use super::path::{Hole, Move, Search};
use super::signatures::SignatureWord;
use super::write::{CuckooWriteSlowPath, CuckooWriteState, Write, Writes};
use crate::heap::{BlockRef, Purpose, Relocate};
use crate::slot::{SlotHead, SlotKind};
use crate::step::{self, NextStep};
use crate::{IndexError, Result};
use farslot_fabric::Endpoint;

impl<'t, E: Endpoint> Writes<'t, E> {
    /// Does what is not done in steps.
    pub(super) async fn take_slow_path(
        &self,
        write: &Write<'_>,
        of: &mut CuckooWriteState<'t>,
        slow: CuckooWriteSlowPath,
    ) -> Result<NextStep<CuckooWriteSlowPath>> {
        let slow = match slow {
            _ if self.table.writer.get().is_none() => CuckooWriteSlowPath::Hold { alone: false },
            _ => slow,
        };
        match slow {
            CuckooWriteSlowPath::Hold { alone } => self.hold(write, of, alone).await,
            CuckooWriteSlowPath::Look => self.look_closely(write, of).await,
            CuckooWriteSlowPath::ChangeOwn => self.change_own_by_slow_path(write, of).await,
            CuckooWriteSlowPath::Place => self.find_place(write, of).await,
            CuckooWriteSlowPath::Block => {
                let (heap, record) = (self.table.heap(), write.operation.record());
                let taken = of
                    .record
                    .take_block(heap, record, Purpose::of(write.only_in))
                    .await;
                taken.map(|()| self.name_record(write, of))
            }
        }
    }

    /// Waits until it holds its buckets, and is the writer.
    async fn hold(
        &self,
        write: &Write<'_>,
        of: &mut CuckooWriteState<'t>,
        alone: bool,
    ) -> Result<NextStep<CuckooWriteSlowPath>> {
        let (table, operation) = (self.table, write.operation.name());
        let buckets = write.key.candidates.as_slice();
        self.take_back(of);
        of.held = None;
        if write.inserts() && !alone {
            table.know_graph(operation).await?;
        }
        of.held = Some(match alone {
            true => table.locks.take_alone(buckets).await,
            false => table.locks.take(buckets).await,
        });
        table.become_writer(operation).await?;
        Ok(self.read_buckets(write, of))
    }

    /// Has room made in the heap while it holds nothing, and begins again if there is some.
    pub(super) async fn clean(
        &self,
        of: &mut CuckooWriteState<'t>,
        full: IndexError,
    ) -> Result<NextStep<CuckooWriteSlowPath>> {
        self.take_back(of);
        of.held = None;
        let making = self.table.make_room_again(&mut of.cleaned, full);
        making.await?;
        Ok(NextStep::SlowPath(CuckooWriteSlowPath::Hold {
            alone: false,
        }))
    }

    /// Looks at all slots that may be the key's. If a writer that died has left it twice, one copy
    /// is removed first.
    async fn look_closely(
        &self,
        write: &Write<'_>,
        of: &mut CuckooWriteState<'t>,
    ) -> Result<NextStep<CuckooWriteSlowPath>> {
        let mut buckets = self.table.read_buckets(of.set.as_slice()).await?;
        let Some(found) = self.table.only_copy(&write.key, &mut buckets).await? else {
            (of.free, of.buckets) = (None, buckets);
            return Ok(self.is_absent(write, of));
        };
        of.place = found.place;
        of.expected = self.table.word_in(&buckets, found.place);
        if !self.may_be_own(write, of.expected) {
            return Ok(self.is_absent(write, of));
        }
        Ok(self.at_own(write, of, step::ValueLocation::Value(Box::new(found.value))))
    }

    /// Changes the key's own slot of a bucket of signatures, or empties one that the graph has.
    async fn change_own_by_slow_path(
        &self,
        write: &Write<'_>,
        of: &mut CuckooWriteState<'t>,
    ) -> Result<NextStep<CuckooWriteSlowPath>> {
        let (table, key) = (self.table, &write.key);
        match write.operation.value() {
            Some(value) => {
                let entrant = table.entrant(key.hash, key.bytes, value)?;
                table.replace_signed(of.place, of.expected, entrant).await?;
            }
            None => _ = table.vacate(of.place, of.expected).await?,
        }
        Ok(self.changed_own(write, of))
    }

    /// Puts a new key into the place that the graph knows, or that a search finds; waits until it
    /// is alone if others are in the way.
    async fn find_place(
        &self,
        write: &Write<'_>,
        of: &mut CuckooWriteState<'t>,
    ) -> Result<NextStep<CuckooWriteSlowPath>> {
        let (table, key) = (self.table, &write.key);
        let held = of.held.as_ref().expect("a write that looks holds buckets");
        let search = match table.known_place(key, held).await? {
            Some(search) => search,
            None => {
                let mut buckets = std::mem::take(&mut of.buckets);
                if buckets.is_empty() || of.set != key.candidates {
                    buckets = table.read_buckets(key.candidates.as_slice()).await?;
                }
                table.search_place(buckets, held).await?
            }
        };
        let value = write.operation.value().unwrap_or_default();
        match search {
            Search::Full { buckets } => {
                return Err(IndexError::Full {
                    probed: buckets * u64::from(table.layout.bucket_slots),
                    slots: table.layout.slots(),
                });
            }
            Search::Place(hole, moves) => table.insert(key, value, hole, moves).await?,
            Search::Blind(hole) => table.insert_blindly(key, value, hole).await?,
            // Two that are in each other's way could be so again and again.
            Search::InTheWay => {
                return Ok(NextStep::SlowPath(CuckooWriteSlowPath::Hold {
                    alone: true,
                }));
            }
        }
        Ok(self.inserted(of))
    }
}

impl<E: Endpoint> CuckooTable<E> {
    /// The key's record in buckets that are held. If a writer that died has left it twice, one copy
    /// is removed first.
    pub(super) async fn only_copy(
        &self,
        key: &Key<'_>,
        buckets: &mut [Bucket],
    ) -> Result<Option<BucketRecord>> {
        // All slots: an insertion may have displaced one copy to where the other is.
        let mut copies = self.records_in(key, buckets).await?.into_iter();
        let only = copies.next();
        for copy in copies {
            // The writer that died may have counted no move: whoever has looked where the other
            // copy is before it came there must not miss the key here.
            self.count_move(copy.place.bucket).await?;
            // What both copies name stays in use.
            let emptied = self.vacate(copy.place, self.word_in(buckets, copy.place));
            let emptied = emptied.await?;
            for bucket in &mut *buckets {
                if bucket.number == copy.place.bucket {
                    let at = self.word_index(copy.place.slot);
                    bucket.bytes.words_mut()[at] = emptied;
                }
            }
        }
        Ok(only)
    }

    /// Empties a slot with this word of a bucket that is held; returns what the word is then. What
    /// its record lay in alone is not given back.
    pub(super) async fn vacate(&self, place: CuckooSlot, word: u64) -> Result<u64> {
        let emptied = match self.layout.kind {
            SlotKind::Signatures => match SignatureWord(word).with(place.slot, 0) {
                emptied if emptied.is_vacant() => 0,
                emptied => emptied.0,
            },
            _ => 0,
        };
        let changing = self.changing_if(true);
        self.swap(place, word, emptied).await?;
        changing.done(|graph| graph.vacate(place));
        if self.layout.kind == SlotKind::Signatures && emptied == 0 {
            let block = self.heap_buckets().block(SignatureWord(word));
            self.free_blocks(&[block]);
        }
        Ok(emptied)
    }

    /// Replaces a record of a bucket of signatures with this word.
    pub(super) async fn replace_signed(
        &self,
        place: CuckooSlot,
        word: u64,
        entrant: Entrant,
    ) -> Result<()> {
        let mut batch = Batch::default();
        let replaced = self.replace_position(&mut batch, place, SignatureWord(word), entrant);
        let (to, made) = match replaced.await {
            Ok(to) => (to, Ok(())),
            Err(error) => (place, Err(error)),
        };
        let changing = self.changing_if(made.is_ok());
        self.run_batch(batch, made).await?;
        changing.done(|graph| {
            if to != place {
                graph.move_record(place, to);
                graph.vacate(place);
            }
        });
        Ok(())
    }

    /// Makes room by moving others along, and publishes the record there: all in one batch, which
    /// takes effect in order.
    pub(super) async fn insert(
        &self,
        key: &Key<'_>,
        value: &[u8],
        hole: Hole,
        moves: Vec<Move>,
    ) -> Result<()> {
        let new = self.content_of(key, value)?;
        let mut batch = Batch::default();
        // In the order in which they are filled, each but the last from the next one.
        let mut filled: Vec<CuckooSlot> = moves.iter().map(|step| step.to.place).collect();
        filled.push(hole.place);
        let made = self.fill_all(&mut batch, hole, moves, new).await;
        let changing = self.changing_if(made.is_ok());
        self.run_batch(batch, made).await?;
        changing.done(|graph| {
            for pair in filled.windows(2) {
                graph.move_record(pair[1], pair[0]);
            }
            graph.fill(hole.place, &key.candidates);
        });
        Ok(())
    }

    /// Publishes the record in a vacant slot that was not read. Another writer may have been there,
    /// so that the writer's word is looked at behind it, by the same doorbell.
    pub(super) async fn insert_blindly(
        &self,
        key: &Key<'_>,
        value: &[u8],
        hole: Hole,
    ) -> Result<()> {
        let new = self.content_of(key, value)?;
        let place = hole.place;
        let mut batch = Batch::default();
        let made = self.fill(&mut batch, &hole, new).await;
        batch.steps.push(Step::CheckWriter { place });
        let changing = self.changing_if(made.is_ok());
        self.run_batch(batch, made).await?;
        changing.done(|graph| graph.fill(place, &key.candidates));
        Ok(())
    }

    async fn fill_all(
        &self,
        batch: &mut Batch,
        hole: Hole,
        moves: Vec<Move>,
        new: SlotContent,
    ) -> Result<()> {
        for Move { from, to, content } in moves {
            self.fill(batch, &to, content).await?;
            batch.steps.push(Step::CountMove { from });
        }
        self.fill(batch, &hole, new).await
    }

    /// What a new record's slot is to hold.
    fn content_of(&self, key: &Key<'_>, value: &[u8]) -> Result<SlotContent> {
        Ok(match self.layout.kind {
            SlotKind::Word | SlotKind::Inline => {
                let mut words = vec![0; self.layout.slot_words()];
                self.fill_words(key, value, &mut words)?;
                SlotContent::Words(words)
            }
            _ => SlotContent::Record(self.entrant(key.hash, key.bytes, value)?),
        })
    }

    /// The words of a Word or Inline slot that holds the record itself. They are 0 before.
    pub(super) fn fill_words(&self, key: &Key<'_>, value: &[u8], words: &mut [u64]) -> Result<()> {
        words[0] = match self.layout.kind {
            SlotKind::Word => self.words.live_word(key.word, value)?,
            _ => {
                let body: &mut [u8] = bytemuck::cast_slice_mut(&mut words[1..]);
                let record = &mut body[..key.bytes.len() + value.len()];
                let (of_key, of_value) = record.split_at_mut(key.bytes.len());
                of_key.copy_from_slice(key.bytes);
                of_value.copy_from_slice(value);
                SlotHead::inline(key.hash, record, self.layout.mask_seed)
            }
        };
        Ok(())
    }

    /// The steps that fill a slot.
    async fn fill(&self, batch: &mut Batch, hole: &Hole, content: SlotContent) -> Result<()> {
        match content {
            SlotContent::Record(entrant) if self.layout.kind == SlotKind::Signatures => {
                self.fill_position(batch, hole, entrant).await
            }
            SlotContent::Record(entrant) => self.fill_out(batch, hole, entrant).await.map(drop),
            SlotContent::Words(words) => {
                let mut hole = *hole;
                if words.len() > 1 && hole.word != 0 {
                    // Emptied first: should this be cut off here, the old head would stay over the
                    // new body, unreadable for ever.
                    batch.steps.push(Step::swap(hole.place, hole.word, 0));
                    hole.word = 0;
                }
                self.fill_words_of(batch, &hole, &words)
            }
        }
    }

    /// The steps that write a slot's words, of which the first publishes the others.
    fn fill_words_of(&self, batch: &mut Batch, hole: &Hole, words: &[u64]) -> Result<()> {
        let Hole { place, word } = *hole;
        if let [_, body @ ..] = words
            && !body.is_empty()
        {
            let body = bytemuck::cast_slice(body);
            batch.steps.push(Step::Write {
                to: self.slot_at(place).plus(8),
                data: self.endpoint.core().buffers.copy_of(body)?,
            });
        }
        batch.steps.push(Step::swap(place, word, words[0]));
        Ok(())
    }

    /// The steps that write a record out of band and make a slot name it; returns its block.
    async fn fill_out(
        &self,
        batch: &mut Batch,
        hole: &Hole,
        Entrant { hash, mut record }: Entrant,
    ) -> Result<BlockRef> {
        let Hole { place, word } = *hole;
        let block = self.heap().assign(&mut record).await?;
        batch.taken.push(block);
        let to = self.heap().at(block.granule);
        batch.steps.push(Step::Write { to, data: record });
        batch
            .steps
            .push(Step::swap(place, word, SlotHead::out(hash, block)));
        Ok(block)
    }

    /// The word that publishes a slot of buckets that were read.
    pub(super) fn word_in(&self, buckets: &[Bucket], place: CuckooSlot) -> u64 {
        let bucket = buckets.iter().find(|bucket| bucket.number == place.bucket);
        bucket.map_or(0, |bucket| self.word_of(bucket, place.slot))
    }

    /// The hash of the key in a slot, which says where its record may go to.
    pub(super) async fn key_hash_of(&self, bucket: &Bucket, slot: usize) -> Result<Option<u64>> {
        let word = self.slot_words(&bucket.bytes, slot)[0];
        let hasher = self.layout.hasher;
        if self.layout.kind == SlotKind::Word {
            let key = self.words.key_of_word(word).to_le_bytes();
            return Ok(Some(hasher.hash(&key[..self.layout.key.most()])));
        }
        match self.head(word) {
            SlotHead::Inline { .. } => {
                let record = self.inline_record(&bucket.bytes, slot);
                Ok(Some(hasher.hash(&record[..self.layout.key.most()])))
            }
            SlotHead::Out { block, .. } => {
                let record = self.heap().read(block).await?;
                Ok(record.map(|record| hasher.hash(record.key())))
            }
            _ => Ok(None),
        }
    }
}
