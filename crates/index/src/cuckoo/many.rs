//! Many writes where the memory is mapped.
//!
//! Most writes are of new keys for which one of their buckets has a free slot, or of keys that are
//! there, and nobody is in the way: these are [done at once](crate::only_writer), as `insert.rs`
//! and `remove.rs` do them over verbs. Left to those: keys that several slots may have, full
//! buckets, buckets of signatures, the cuckoo graph, who has no block at hand, and who is not the
//! writer yet.

use super::client::{CuckooTable, Key};
use super::layout::{Candidates, LookupOrder, MOST_WAYS, Place};
use super::path::roomiest;
use crate::at_once::{LIKELY, Work};
use crate::hash::checksum;
use crate::heap::{BlockRef, Heap};
use crate::only_writer::OnlyWriter;
use crate::slot::{Head, KeyRule, SlotKind, WordFormat};
use crate::step::view_for;
use crate::{Operation, Result, Value};
use farslot_fabric::{Endpoint, InPlace, Piece, Rights, Steps, Tally};

/// The words that a slot is to have, of slots with few.
const WORDS: usize = 16;

/// What a key's buckets show.
struct Seen {
    /// A free slot of the roomiest of them, of equally roomy ones the first.
    free: Option<Place>,
    /// The only slot that may be the key's, and its first word.
    own: Option<(Place, u64)>,
}

/// The verbs that a write stands for.
struct Verbs {
    steps: Steps,
    tally: Tally,
}

impl Verbs {
    fn swap(&mut self) {
        self.steps.swap();
        self.tally.swap();
    }

    /// A WRITE of so many bytes, and a compare-and-swap that leaves with it.
    fn write_and_swap(&mut self, bytes: usize) {
        self.steps.write_and_swap(bytes as u64);
        self.tally.write(bytes as u64);
        self.tally.swap();
    }
}

impl<E: Endpoint> CuckooTable<E> {
    /// The memory of a table in which this client may write at once.
    pub(super) fn view_to_write(&self) -> Option<InPlace<'_>> {
        let needed = Rights::READ.and(Rights::WRITE).and(Rights::ATOMIC);
        let suits = self.layout.kind != SlotKind::Signatures
            && self.layout.keys == KeyRule::Unique
            && self.layout.slot_words() <= WORDS
            && self.order != LookupOrder::Gathered
            && !self.predetermines;
        suits.then(|| view_for(&*self.endpoint, self.table, needed))?
    }

    /// The bytes of the region at which a bucket begins.
    fn start_of(&self, view: InPlace<'_>, bucket: u64) -> Option<u64> {
        view.offset_of(Piece {
            from: self.layout.bucket_at(self.table, bucket),
            len: self.bucket_bytes,
        })
    }

    /// Looks at a key's buckets; nothing if several slots may be the key's.
    fn look_at(
        &self,
        view: InPlace<'_>,
        candidates: &Candidates,
        may_be_own: impl Fn(u64) -> bool,
    ) -> Option<Seen> {
        let mut all = [(0, None); MOST_WAYS];
        let mut own = None;
        for (&bucket, (free, first)) in candidates.as_slice().iter().zip(&mut all) {
            let words = view.words(self.start_of(view, bucket)?);
            for slot in 0..self.layout.bucket_slots as usize {
                let (place, word) = (Place { bucket, slot }, words(self.word_index(slot)));
                if word == 0 {
                    *free += 1;
                    *first = first.or(Some(place));
                } else if may_be_own(word) && own.replace((place, word)).is_some() {
                    return None;
                }
            }
        }
        view.acquire();
        let roomiest = roomiest(all.iter().map(|(free, _)| *free));
        let free = roomiest.and_then(|at| all[at].1);
        Some(Seen { free, own })
    }

    /// Whether a slot with this first word may be the key's.
    fn may_be_of(&self, word: u64, key: &Key<'_>) -> bool {
        match self.layout.kind {
            SlotKind::Word => WordFormat::is_live(word) && self.words.same_key(word, key.word),
            _ => self.head(word).may_be(key.hash),
        }
    }

    /// Inserts a new key into a free slot.
    fn insert_new(
        &self,
        (view, place): (InPlace<'_>, Place),
        (key, value): (&Key<'_>, &[u8]),
        verbs: &mut Verbs,
        work: &mut Work,
    ) -> Option<Result<()>> {
        let at = self.start_of(view, place.bucket)? + 8 * self.word_index(place.slot) as u64;
        let slot = (view, at);
        if self.layout.kind == SlotKind::Heap {
            let filled = self.fill_out_at(slot, (place, 0), (key, value), verbs, work)?;
            return Some(filled.map(|_| ()));
        }
        let words = self.words_of(key, value)?;
        let new = self.write_body(slot, &words, verbs);
        Some(self.swap_at(slot, (0, new), place))
    }

    /// The words of a slot that holds the record itself.
    fn words_of(&self, key: &Key<'_>, value: &[u8]) -> Option<[u64; WORDS]> {
        let mut words = [0; WORDS];
        let of_slot = &mut words[..self.layout.slot_words()];
        self.fill_words(key, value, of_slot).ok()?;
        Some(words)
    }

    /// Writes the words of a slot but for the first, which publishes them; books that word's swap
    /// with them, and returns it.
    fn write_body(
        &self,
        (view, at): (InPlace<'_>, u64),
        words: &[u64; WORDS],
        verbs: &mut Verbs,
    ) -> u64 {
        match &words[1..self.layout.slot_words()] {
            [] => verbs.swap(),
            body => {
                let len = 8 * body.len();
                view.write(at + 8, len, body);
                verbs.write_and_swap(len);
            }
        }
        words[0]
    }

    /// Swaps the word that publishes a slot.
    fn swap_at(
        &self,
        (view, at): (InPlace<'_>, u64),
        (was, new): (u64, u64),
        place: Place,
    ) -> Result<()> {
        match view.compare_swap(at, was, new) == was {
            true => Ok(()),
            false => Err(self.lost(place)),
        }
    }

    /// Does a write to the only slot that may be the key's; returns the value that was there, as
    /// far as that matters.
    fn write_there(
        &self,
        view: InPlace<'_>,
        (place, word): (Place, u64),
        (write, key): (&Operation<'_>, &Key<'_>),
        verbs: &mut Verbs,
        work: &mut Work,
    ) -> Option<Result<Value>> {
        let at = self.start_of(view, place.bucket)? + 8 * self.word_index(place.slot) as u64;
        let head = match self.layout.kind {
            SlotKind::Word => None,
            _ => Some(self.head(word)),
        };
        let was = match head {
            None => {
                let value = self.words.value_of_word(word);
                Value::of_word(value, self.layout.value.most())
            }
            Some(Head::Inline { sum, .. }) => self.value_inline((view, at), sum, (write, key))?,
            Some(Head::Out { block, .. }) => {
                let piece = self.heap().piece(block);
                verbs.steps.read(1, piece.len as u64);
                let record = work.record(view, self.heap(), block)?;
                let is_own = record.key == key.bytes;
                is_own.then(|| self.found(write, record.value))??
            }
            _ => return None,
        };
        if let Operation::FindOrPut(..) = write {
            return Some(Ok(was));
        }
        let slot = (view, at);
        let written = match (write.value(), head) {
            (None, _) => {
                verbs.swap();
                self.swap_at(slot, (word, 0), place)
            }
            (Some(value), None) => {
                let words = self.words_of(key, value)?;
                let new = self.write_body(slot, &words, verbs);
                self.swap_at(slot, (word, new), place)
            }
            (Some(value), Some(Head::Inline { .. })) => {
                self.replace_inline_at(slot, (place, word), (key, value), verbs, work)?
            }
            (Some(value), Some(_)) => {
                let swapped = self.fill_out_at(slot, (place, word), (key, value), verbs, work)?;
                swapped.map(|_| ())
            }
        };
        if let (Ok(()), Some(Head::Out { block, .. })) = (&written, head) {
            work.keep(self.heap(), block);
        }
        Some(written.map(|()| was))
    }

    /// Writes a record out of band and makes a slot name it; returns its block.
    fn fill_out_at(
        &self,
        (view, at): (InPlace<'_>, u64),
        (place, was): (Place, u64),
        (key, value): (&Key<'_>, &[u8]),
        verbs: &mut Verbs,
        work: &mut Work,
    ) -> Option<Result<BlockRef>> {
        let record = (key.bytes, value);
        let (held, len) = work.write_record(view, self.heap(), record)?;
        verbs.write_and_swap(len);
        let out = Head::out(key.hash, held.block);
        let swapped = self.swap_at((view, at), (was, out), place);
        Some(swapped.map(|()| held.block))
    }

    /// Replaces the record in an Inline slot by way of one out of band.
    fn replace_inline_at(
        &self,
        slot: (InPlace<'_>, u64),
        (place, was): (Place, u64),
        (key, value): (&Key<'_>, &[u8]),
        verbs: &mut Verbs,
        work: &mut Work,
    ) -> Option<Result<()>> {
        let words = self.words_of(key, value)?;
        let filled = self.fill_out_at(slot, (place, was), (key, value), verbs, work)?;
        Some(filled.and_then(|block| {
            let new = self.write_body(slot, &words, verbs);
            self.swap_at(slot, (Head::out(key.hash, block), new), place)?;
            work.keep(self.heap(), block);
            Ok(())
        }))
    }

    /// The value in an Inline slot, as far as it matters to a write; nothing if the record is not
    /// whole, or not the key's.
    fn value_inline(
        &self,
        (view, at): (InPlace<'_>, u64),
        sum: u32,
        (write, key): (&Operation<'_>, &Key<'_>),
    ) -> Option<Value> {
        let mut words = [0; WORDS];
        let of_key = self.layout.key.most();
        let len = of_key + self.layout.value.most();
        view.copy_out(at + 8, len, &mut words);
        view.acquire();
        let record = &bytemuck::cast_slice(&words)[..len];
        let is_own =
            checksum(record, self.layout.mask_seed) == sum && record[..of_key] == *key.bytes;
        is_own.then(|| self.found(write, &record[of_key..]))?
    }

    /// The value that a write has found, as far as that matters to it.
    fn found(&self, write: &Operation<'_>, value: &[u8]) -> Option<Value> {
        match write {
            Operation::FindOrPut(..) => Value::copied(value, &self.endpoint.core().buffers).ok(),
            _ => Some(Value::of_word(0, 0)),
        }
    }
}

impl<E: Endpoint> OnlyWriter for CuckooTable<E> {
    fn of_heap(&self) -> Option<&Heap<E>> {
        self.heap.as_ref()
    }

    fn hash_of(&self, key: &[u8]) -> u64 {
        self.layout.hasher.hash(key)
    }

    fn prefetch_writes(&self, hashes: &[u64]) {
        let Some(view) = self.view_to_write() else {
            return;
        };
        for hash in hashes {
            let buckets = self.layout.buckets_of(*hash);
            for bucket in buckets.as_slice() {
                if let Some(start) = self.start_of(view, *bucket) {
                    view.prefetch(start, self.bucket_bytes);
                }
            }
        }
        if self.layout.kind != SlotKind::Heap {
            return;
        }
        for hash in hashes {
            let may_be_own = |word| self.head(word).may_be(*hash);
            let seen = self.look_at(view, &self.layout.buckets_of(*hash), may_be_own);
            if let Some((_, word)) = seen.and_then(|seen| seen.own)
                && let Head::Out { block, .. } = self.head(word)
                && let piece = self.heap().piece(block)
                && let Some(at) = view.offset_of(piece)
            {
                view.prefetch(at, LIKELY.min(piece.len));
            }
        }
    }

    fn write_at_once(
        &self,
        write: &Operation<'_>,
        hash: u64,
        work: &mut Work,
    ) -> Option<Result<Option<Value>>> {
        let value = match *write {
            Operation::Put(_, value)
            | Operation::FindOrPut(_, value)
            | Operation::Update(_, value) => Some(value),
            Operation::Remove(_) => None,
            _ => return None,
        };
        if self.writer.get().is_none() || self.sealed.get() {
            return None;
        }
        let view = self.view_to_write()?;
        let key = self.hashed_key(write.key(), hash).ok()?;
        value.map_or(Ok(()), |value| self.check_value(value)).ok()?;
        let held = self.locks.try_take(key.candidates.as_slice())?;
        let seen = self.look_at(view, &key.candidates, |word| self.may_be_of(word, &key))?;
        let reads = key.candidates.as_slice().len();
        let mut verbs = Verbs {
            steps: Steps::begun(reads as u32, (reads * self.bucket_bytes) as u64),
            tally: Tally::default(),
        };
        let mut change = 0;
        let written = match (seen.own, value) {
            (Some(own), _) => {
                change = -i64::from(value.is_none());
                let written = self.write_there(view, own, (write, &key), &mut verbs, work)?;
                written.map(Some)
            }
            (None, Some(value)) if !matches!(write, Operation::Update(..)) => {
                change = 1;
                let at = (view, seen.free?);
                let written = self.insert_new(at, (&key, value), &mut verbs, work)?;
                written.map(|()| None)
            }
            (None, _) => Ok(None),
        };
        verbs.tally.operation_ended(verbs.steps);
        self.endpoint
            .core()
            .counters
            .add(write.class(), &verbs.tally);
        drop(held);
        if written.is_ok() && change != 0 {
            // Used slots are as many as entries.
            work.reports |= self.counts.change(change, change);
        }
        Some(written)
    }

    async fn after(&self, _: &Operation<'_>, _: u64, _: bool, work: &mut Work) {
        if let Some(heap) = &self.heap {
            work.give_surplus(heap).await;
        }
        if std::mem::take(&mut work.reports) {
            // This cannot fail: the writes that are counted are done, and counts may lag.
            let _ = self.report().await;
        }
    }
}
