//! Putting, finding or putting, and updating.
//!
//! Invariant: the writer's coroutines hold the buckets of what they change, so that what one has
//! read stays so until it has written. Every change is a compare-and-swap of the word that
//! publishes a slot (its first, or the one that its bucket's slots share) from what was read; one
//! that fails shows that there is another writer.

use super::batch::{Batch, Content, Entrant, Step};
use super::buckets::{Bucket, Found};
use super::client::{CuckooTable, Key};
use super::layout::Place;
use super::path::{Hole, Move, Search};
use super::signatures::SignatureWord;
use crate::client::locks::Held;
use crate::heap::{BlockRef, Heap};
use crate::slot::{Head, SlotKind};
use crate::{IndexError, Result};
use farslot_fabric::Endpoint;

/// What a write does with a key that is there, or is not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Put,
    FindOrPut,
    Update,
}

impl Mode {
    /// Whether it may insert.
    fn inserts(self) -> bool {
        self != Self::Update
    }

    const fn operation(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::FindOrPut => "find_or_put",
            Self::Update => "update",
        }
    }
}

/// What a write has done.
pub(super) enum Written {
    Inserted,
    Replaced,
    Found(crate::Value),
    Absent,
}

impl<E: Endpoint> CuckooTable<E> {
    pub(super) async fn write_value(
        &self,
        key: &[u8],
        value: &[u8],
        mode: Mode,
    ) -> Result<Written> {
        let write = async || self.write_once(key, value, mode).await;
        Heap::with_room(self.heap.as_ref(), self, write).await
    }

    async fn write_once(&self, key: &[u8], value: &[u8], mode: Mode) -> Result<Written> {
        let key = self.checked_key(key)?;
        self.check_value(value)?;
        if self.layout.kind == SlotKind::Word {
            self.words.live_word(key.word, value)?;
        }
        if mode.inserts() {
            self.know_graph(mode.operation()).await?;
        }
        let candidates = key.candidates.as_slice();
        let held = self.locks.take(candidates).await;
        self.become_writer(mode.operation()).await?;
        if let Some(written) = self.write_holding(&key, value, mode, held).await? {
            return Ok(written);
        }
        // Two that are in each other's way could be so again and again.
        let held = self.locks.take_alone(candidates).await;
        self.become_writer(mode.operation()).await?;
        let written = self.write_holding(&key, value, mode, held).await?;
        Ok(written.expect("nothing is in the way of one that is alone"))
    }

    /// Writes; nothing if other coroutines hold buckets that may be needed.
    async fn write_holding(
        &self,
        key: &Key<'_>,
        value: &[u8],
        mode: Mode,
        held: Held<'_>,
    ) -> Result<Option<Written>> {
        let of_key = self.buckets_of_key(key);
        let mut buckets = self.read_buckets(of_key.as_slice()).await?;
        if let Some(found) = self.only_copy(key, &mut buckets).await? {
            if mode == Mode::FindOrPut {
                return Ok(Some(Written::Found(found.value)));
            }
            let word = self.word_in(&buckets, found.place);
            self.replace(key, found.place, word, value).await?;
            return Ok(Some(Written::Replaced));
        }
        if mode == Mode::Update {
            return Ok(Some(Written::Absent));
        }
        let search = match self.known_place(key, &held).await? {
            Some(search) => search,
            None => {
                if of_key != key.candidates {
                    // What was known is not any more.
                    buckets = self.read_buckets(key.candidates.as_slice()).await?;
                }
                self.search_place(buckets, &held).await?
            }
        };
        match search {
            Search::Full { buckets } => Err(IndexError::Full {
                probed: buckets * u64::from(self.layout.bucket_slots),
                slots: self.layout.slots(),
            }),
            Search::Place(hole, moves) => {
                self.insert(key, value, hole, moves).await?;
                drop(held);
                self.entries_changed(1).await;
                Ok(Some(Written::Inserted))
            }
            Search::Blind(hole) => {
                self.insert_blindly(key, value, hole).await?;
                drop(held);
                self.entries_changed(1).await;
                Ok(Some(Written::Inserted))
            }
            Search::InTheWay => Ok(None),
        }
    }

    /// The key's record in buckets that are held. If a writer that died has left it twice, one copy
    /// is removed first.
    pub(super) async fn only_copy(
        &self,
        key: &Key<'_>,
        buckets: &mut [Bucket],
    ) -> Result<Option<Found>> {
        // All slots: an insertion may have displaced one copy to where the other is.
        let mut copies = self.records_in(key, buckets).await?.into_iter();
        let only = copies.next();
        for copy in copies {
            // The writer that died may have counted no move: whoever has looked where the other
            // copy is before it came there must not miss the key here.
            self.count_move(copy.place.bucket).await?;
            // What both copies name stays in use.
            self.vacate(buckets, copy.place).await?;
        }
        Ok(only)
    }

    /// Empties a slot of a bucket that is held. What its record lay in alone is not given back.
    pub(super) async fn vacate(&self, buckets: &mut [Bucket], place: Place) -> Result<()> {
        let word = self.word_in(buckets, place);
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
        for bucket in buckets {
            if bucket.number == place.bucket {
                let at = self.word_index(place.slot);
                bucket.bytes.words_mut()[at] = emptied;
            }
        }
        if self.layout.kind == SlotKind::Signatures && emptied == 0 {
            let block = self.heap_buckets().block(SignatureWord(word));
            self.heap().free(block).await;
        }
        Ok(())
    }

    async fn replace(&self, key: &Key<'_>, place: Place, word: u64, value: &[u8]) -> Result<()> {
        if self.layout.kind == SlotKind::Signatures {
            let mut batch = Batch::default();
            let entrant = self.entrant(key.hash, key.bytes, value)?;
            let word = SignatureWord(word);
            let replaced = self.replace_position(&mut batch, place, word, entrant);
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
            return Ok(());
        }
        let hole = Hole { place, word };
        let was_out = match (self.layout.kind, self.head(word)) {
            (SlotKind::Inline | SlotKind::Heap, Head::Out { block, .. }) => Some(block),
            (SlotKind::Inline, _) => return self.replace_inline(key, hole, value).await,
            _ => None,
        };
        let content = match was_out {
            Some(_) => Content::Record(self.entrant(key.hash, key.bytes, value)?),
            None => self.content_of(key, value)?,
        };
        let mut batch = Batch::default();
        let made = self.fill(&mut batch, &hole, content).await;
        batch.left.extend(was_out);
        self.run_batch(batch, made).await
    }

    /// Replaces the record in an Inline slot. Before the slot's bytes are overwritten its word
    /// names the new record out of band, so that at every moment the slot has the key, with the old
    /// value or the new one. A slot that is found to name a record stays so: a writer that was
    /// taken for dead may be about to overwrite the bytes.
    async fn replace_inline(&self, key: &Key<'_>, hole: Hole, value: &[u8]) -> Result<()> {
        let mut words = vec![0; self.layout.slot_words()];
        self.fill_words(key, value, &mut words)?;
        let mut batch = Batch::default();
        let entrant = self.entrant(key.hash, key.bytes, value)?;
        let made = self.fill_out(&mut batch, &hole, entrant).await;
        let block = self.run_batch(batch, made).await?;
        // Once it is known that this client is the writer still.
        let mut batch = Batch::default();
        let word = Head::out(key.hash, block);
        let made = self.fill_words_of(&mut batch, &Hole { word, ..hole }, &words);
        batch.left.push(block);
        self.run_batch(batch, made).await
    }

    /// Makes room by moving others along, and publishes the record there: all in one batch, which
    /// takes effect in order.
    async fn insert(
        &self,
        key: &Key<'_>,
        value: &[u8],
        hole: Hole,
        moves: Vec<Move>,
    ) -> Result<()> {
        let new = self.content_of(key, value)?;
        let mut batch = Batch::default();
        // In the order in which they are filled, each but the last from the next one.
        let mut filled: Vec<Place> = moves.iter().map(|step| step.to.place).collect();
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
    async fn insert_blindly(&self, key: &Key<'_>, value: &[u8], hole: Hole) -> Result<()> {
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
        new: Content,
    ) -> Result<()> {
        for Move { from, to, content } in moves {
            self.fill(batch, &to, content).await?;
            batch.steps.push(Step::CountMove { from });
        }
        self.fill(batch, &hole, new).await
    }

    /// What a new record's slot is to hold.
    fn content_of(&self, key: &Key<'_>, value: &[u8]) -> Result<Content> {
        Ok(match self.layout.kind {
            SlotKind::Word | SlotKind::Inline => {
                let mut words = vec![0; self.layout.slot_words()];
                self.fill_words(key, value, &mut words)?;
                Content::Words(words)
            }
            _ => Content::Record(self.entrant(key.hash, key.bytes, value)?),
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
                Head::inline(key.hash, record, self.layout.mask_seed)
            }
        };
        Ok(())
    }

    /// The steps that fill a slot.
    async fn fill(&self, batch: &mut Batch, hole: &Hole, content: Content) -> Result<()> {
        match content {
            Content::Record(entrant) if self.layout.kind == SlotKind::Signatures => {
                self.fill_position(batch, hole, entrant).await
            }
            Content::Record(entrant) => self.fill_out(batch, hole, entrant).await.map(drop),
            Content::Words(words) => {
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
            .push(Step::swap(place, word, Head::out(hash, block)));
        Ok(block)
    }

    /// The word that publishes a slot of buckets that were read.
    pub(super) fn word_in(&self, buckets: &[Bucket], place: Place) -> u64 {
        let bucket = buckets.iter().find(|bucket| bucket.number == place.bucket);
        bucket.map_or(0, |bucket| self.word_of(bucket, place.slot))
    }

    /// Gives back the block that a head named.
    pub(super) async fn free_block_of(&self, word: u64) {
        if let (SlotKind::Inline | SlotKind::Heap, Head::Out { block, .. }) =
            (self.layout.kind, self.head(word))
        {
            self.heap().free(block).await;
        }
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
            Head::Inline { .. } => {
                let record = self.inline_record(&bucket.bytes, slot);
                Ok(Some(hasher.hash(&record[..self.layout.key.most()])))
            }
            Head::Out { block, .. } => {
                let record = self.heap().read(block).await?;
                Ok(record.map(|record| hasher.hash(record.key())))
            }
            _ => Ok(None),
        }
    }
}
