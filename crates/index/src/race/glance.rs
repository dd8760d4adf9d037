//! The usual steps of lookups, made ready for many keys, where keys and values are words: two spans of
//! slots, and the one record that has the key's tag.
//!
//! What is found whole there is the answer. Where slots are not settled, where none has the tag, or
//! several, and where the record is another, the key is looked up in steps.

use super::client::{Key, RaceTable};
use super::directory::Directory;
use super::layout::Span;
use super::word::Word;
use crate::hash::checksum;
use crate::heap::{block_bytes, class_for, record_bytes};
use crate::step::{Glance, Glanced};
use farslot_fabric::{Endpoint, InPlace, Piece, Steps};
use std::cell::Ref;

/// Bytes of a key, and of a value, that is a word; words of a record of both; and its second.
const WORD: usize = 8;
const RECORD_WORDS: usize = 4;
const LENGTHS: u64 = (WORD as u64) << 32 | WORD as u64;

/// Lookups in a table.
pub(super) struct RecordGlance<'t, E: Endpoint> {
    table: &'t RaceTable<E>,
    directory: Ref<'t, Directory>,
    /// Slots of a span.
    slots: u64,
    /// Bytes of a record's block.
    block: usize,
}

impl<'t, E: Endpoint> RecordGlance<'t, E> {
    /// That of a table whose lookups can do with it.
    pub(super) fn of(table: &'t RaceTable<E>) -> Option<Self> {
        let layout = &table.layout;
        let are_words = (layout.key.most(), layout.value.most()) == (WORD, WORD);
        let class = class_for(record_bytes(WORD, WORD))?;
        are_words.then(|| Self {
            table,
            directory: table.directory.borrow(),
            slots: 2 * u64::from(layout.bucket_slots),
            block: block_bytes(class),
        })
    }

    /// The byte of the region at which a span of a subtable begins.
    #[inline(always)]
    fn start_of(&self, subtable: u64, span: Span, view: &InPlace<'_>) -> Option<u64> {
        let start = view.offset_of(Piece {
            from: self.table.slot_at(subtable, span.first),
            len: span.slots as usize * 8,
        });
        start.filter(|_| span.slots == self.slots)
    }
}

/// What is known of a key.
#[derive(Clone, Copy, Default)]
pub(super) struct Spans {
    /// The bytes of the region at which they begin; none for keys that are looked up in steps.
    starts: Option<[u64; 2]>,
    depth: u32,
    tag: u8,
}

/// The record that may be its own.
#[derive(Clone, Copy, Default)]
pub(super) struct Candidate {
    key: u64,
    generation: u64,
    /// The byte of the region at which it begins.
    start: u64,
}

impl<E: Endpoint> Glance<&[u8]> for RecordGlance<'_, E> {
    type Prepared = Spans;
    type Place = Candidate;

    #[inline(always)]
    fn prepare(&self, key: &[u8], view: &InPlace<'_>) -> Spans {
        let Ok(Key {
            tag,
            route,
            buckets,
            ..
        }) = self.table.checked_key(key)
        else {
            return Spans::default();
        };
        let leaf = self.directory.leaf_of(route);
        let (first, second) = buckets.spans();
        let start = |span| self.start_of(leaf.subtable, span, view);
        let starts = start(first).zip(second.and_then(start));
        let starts = starts.map(|(first, second)| [first, second]);
        for start in starts.iter().flatten() {
            view.prefetch(*start, self.slots as usize * 8);
        }
        Spans {
            starts,
            depth: leaf.depth,
            tag,
        }
    }

    #[inline(always)]
    fn place(&self, key: &[u8], of: Spans, view: &InPlace<'_>) -> Option<Candidate> {
        let key = u64::from_le_bytes(key.try_into().ok()?);
        let (mut unsettled, mut found, mut count) = (0, Word(0), 0);
        for start in of.starts? {
            let words = view.words(start);
            for slot in 0..self.slots as usize {
                let word = Word(words(slot));
                unsettled |= word.unsettled_at(of.depth);
                if word.is_live_at(of.depth, of.tag) {
                    (found, count) = (word, count + 1);
                }
            }
        }
        if unsettled != 0 || count != 1 {
            return None;
        }
        let block = found.block();
        let piece = self.table.heap.piece(block);
        let start = view.offset_of(piece).filter(|_| piece.len == self.block)?;
        view.prefetch(start, RECORD_WORDS * 8);
        Some(Candidate {
            key,
            generation: block.generation,
            start,
        })
    }

    #[inline(always)]
    fn look(&self, of: &Candidate, view: &InPlace<'_>) -> Glanced {
        let words = view.words(of.start);
        let record: [u64; RECORD_WORDS - 1] = [1, 2, 3].map(words);
        let [lengths, key, value] = record;
        let record: [u8; 8 * (RECORD_WORDS - 1)] = bytemuck::cast(record);
        let sum = checksum(&record, of.generation);
        let is_whole = view.words(of.start)(0) == of.generation << 32 | u64::from(sum);
        match is_whole && lengths == LENGTHS && key == of.key {
            true => Glanced::Found(value, 0),
            false => Glanced::Undecided,
        }
    }

    #[inline]
    fn usual(&self) -> Steps {
        let mut steps = Steps::begun(2, 2 * self.slots * 8);
        steps.read(1, self.block as u64);
        steps
    }

    #[inline]
    fn value_len(&self) -> usize {
        WORD
    }
}
