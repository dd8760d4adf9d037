//! Many writes where the memory is mapped.
//!
//! Most puts are of new keys for which one of their buckets has a free slot, and nobody is in the way:
//! these are [done at once](crate::only_writer), as `insert.rs` does them over verbs. Left to that:
//! keys that may be there, full buckets, records out of band, the cuckoo graph, and who is not the
//! writer yet.

use super::client::{CuckooTable, Key};
use super::layout::{LookupOrder, MOST_WAYS, Place};
use super::path::roomiest;
use crate::only_writer::{AtOnce, OnlyWriter};
use crate::slot::{KeyRule, SlotKind, WordFormat};
use crate::step::view_for;
use crate::{Operation, Result};
use farslot_fabric::{Endpoint, InPlace, Piece, Rights, Steps, Tally};

/// The words that a slot is to have, of slots with few.
const WORDS: usize = 16;

impl<E: Endpoint> CuckooTable<E> {
    /// The memory of a table in which this client may insert at once.
    pub(super) fn view_to_insert(&self) -> Option<InPlace<'_>> {
        let needed = Rights::READ.and(Rights::WRITE).and(Rights::ATOMIC);
        let suits = matches!(self.layout.kind, SlotKind::Inline | SlotKind::Word)
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

    /// A free slot of the roomiest of a key's buckets, of equally roomy ones the first; nothing if one
    /// of their slots may be the key's, or none is free.
    fn free_slot_of(&self, view: InPlace<'_>, key: &Key<'_>) -> Option<Place> {
        let mut all = [(0, None); MOST_WAYS];
        let buckets = key.candidates.as_slice();
        for (&bucket, (free, first)) in buckets.iter().zip(&mut all) {
            let words = view.words(self.start_of(view, bucket)?);
            for slot in 0..self.layout.bucket_slots as usize {
                let word = words(self.word_index(slot));
                if word == 0 {
                    *free += 1;
                    *first = first.or(Some(Place { bucket, slot }));
                } else if self.may_be_of(word, key) {
                    return None;
                }
            }
        }
        view.acquire();
        roomiest(all.iter().map(|(free, _)| *free)).and_then(|at| all[at].1)
    }

    /// Whether a slot with this first word may be the key's.
    fn may_be_of(&self, word: u64, key: &Key<'_>) -> bool {
        match self.layout.kind {
            SlotKind::Word => WordFormat::is_live(word) && self.words.same_key(word, key.word),
            _ => self.head(word).may_be(key.hash),
        }
    }
}

impl<E: Endpoint> OnlyWriter for CuckooTable<E> {
    fn hash_of(&self, key: &[u8]) -> u64 {
        self.layout.hasher.hash(key)
    }

    fn prefetch_writes(&self, hashes: &[u64]) {
        let Some(view) = self.view_to_insert() else {
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
    }

    fn write_at_once(&self, write: &Operation<'_>, hash: u64) -> Option<Result<AtOnce>> {
        let (Operation::Put(key, value) | Operation::FindOrPut(key, value)) = *write else {
            return None;
        };
        if self.writer.get().is_none() || self.sealed.get() {
            return None;
        }
        let view = self.view_to_insert()?;
        let key = self.hashed_key(key, hash).ok()?;
        self.check_value(value).ok()?;
        let mut words = [0; WORDS];
        let words = &mut words[..self.layout.slot_words()];
        self.fill_words(&key, value, words).ok()?;
        let held = self.locks.try_take(key.candidates.as_slice())?;
        let place = self.free_slot_of(view, &key)?;
        let at = self.start_of(view, place.bucket)? + 8 * self.word_index(place.slot) as u64;
        let reads = key.candidates.as_slice().len();
        let mut steps = Steps::begun(reads as u32, (reads * self.bucket_bytes) as u64);
        let mut tally = Tally::default();
        match &words[1..] {
            [] => steps.swap(),
            body => {
                let len = 8 * body.len();
                view.write(at + 8, len, body);
                tally.write(len as u64);
                steps.write_and_swap(len as u64);
            }
        }
        let seen = view.compare_swap(at, 0, words[0]);
        tally.swap();
        tally.operation_ended(steps);
        self.endpoint.core().counters.add(write.class(), &tally);
        if seen != 0 {
            return Some(Err(self.lost(place)));
        }
        drop(held);
        // Used slots are as many as entries.
        let is_report_due = self.counts.change(1, 1);
        Some(Ok(AtOnce::Inserted { is_report_due }))
    }

    async fn inserted(&self, is_report_due: bool) {
        if is_report_due {
            // This cannot fail: the write that is counted is done, and counts may lag.
            let _ = self.report().await;
        }
    }
}
