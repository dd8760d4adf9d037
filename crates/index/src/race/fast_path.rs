//! The usual steps of lookups, made ready for many keys, where keys and values are words: two spans
//! of slots, and in each the one record that has the key's tag, if there is one.
//!
//! What is found whole there is the answer. Where something is under way in the slots, where
//! several of a span have the tag, or none of both, and where no record is the key's, it is looked
//! up in steps.

use super::client::RaceTable;
use super::directory::{RaceDirectory, SubtableLeaf};
use super::layout::RaceLayout;
use super::word::{TagMatches, Word};
use crate::hash::{Hasher, checksum, xxh3};
use crate::heap::{GRANULE, block_bytes, class_for, record_bytes};
use crate::step::{FastPath, FastPathResult};
use farslot_fabric::{Endpoint, InPlace, Piece, Steps};
use std::cell::Ref;

/// Bytes of a key, and of a value, that is a word; words of a record of both; and its second.
const WORD: usize = 8;
const RECORD_WORDS: usize = 4;
const LENGTHS: u64 = (WORD as u64) << 32 | WORD as u64;
/// Slots that are looked through in one piece, where spans are of such pieces.
const RUN: usize = 8;

/// Lookups in a table.
pub(super) struct RecordFastPath<'t> {
    layout: &'t RaceLayout,
    seed: u64,
    directory: Ref<'t, RaceDirectory>,
    /// The one subtable, if there is no other.
    only: Option<SubtableLeaf>,
    /// The byte of the region at which the first subtable begins, bytes of each, and of a bucket.
    first: u64,
    subtable_bytes: u64,
    bucket_bytes: u64,
    /// Slots of a span.
    slots: usize,
    /// The size class of records, and bytes of their blocks.
    class: usize,
    block: usize,
    /// The byte of the region at which the heap begins, and the last granule at which a block can.
    heap: u64,
    last_granule: u64,
}

impl<'t> RecordFastPath<'t> {
    /// That of a table whose lookups can do with it.
    pub(super) fn of<E: Endpoint>(table: &'t RaceTable<E>, view: &InPlace<'_>) -> Option<Self> {
        let layout = &table.layout;
        let Hasher::Xxh3 { seed } = layout.hasher else {
            return None;
        };
        let are_words = (layout.key.most(), layout.value.most()) == (WORD, WORD);
        let can_tell = are_words && layout.evicting.is_none();
        let class = class_for(record_bytes(WORD, WORD)).filter(|_| can_tell)?;
        let block = block_bytes(class);
        let subtables = Piece {
            from: table.slot_at(0, 0),
            len: layout.most_slots() as usize * 8,
        };
        let heap = table.heap.place();
        let all_of_heap = Piece {
            from: heap.start,
            len: heap.bytes as usize,
        };
        let directory = table.directory.borrow();
        Some(Self {
            only: (directory.subtables() == 1).then(|| directory.leaf(0)),
            directory,
            seed,
            first: view.offset_of(subtables)?,
            subtable_bytes: table.subtable_bytes,
            bucket_bytes: u64::from(layout.bucket_slots) * 8,
            slots: 2 * layout.bucket_slots as usize,
            class,
            block,
            heap: view.offset_of(all_of_heap)?,
            last_granule: heap.bytes.checked_sub(block as u64)? / GRANULE,
            layout,
        })
    }

    /// What is in a span of slots.
    #[inline(always)]
    fn meet(&self, wanted: Word, start: u64, view: &InPlace<'_>) -> TagMatches {
        let mut met = TagMatches::nothing(wanted);
        if self.slots.is_multiple_of(RUN) {
            for slots in view.slots::<RUN>(start, self.slots / RUN) {
                (0..RUN).for_each(|slot| met.word(slots(slot)));
            }
        } else {
            for slot in view.slots::<1>(start, self.slots) {
                met.word(slot(0));
            }
        }
        met
    }

    /// The record that a word names.
    #[inline(always)]
    fn record(&self, word: Word) -> Option<Record> {
        let block = word.block();
        let is_here = block.class == self.class && block.granule <= self.last_granule;
        is_here.then(|| Record {
            generation: block.generation,
            start: self.heap + block.granule * GRANULE,
        })
    }
}

/// What is known of a key.
#[derive(Clone, Copy, Default)]
pub(super) struct KeySpans {
    /// The bytes of the region at which they begin.
    starts: [u64; 2],
    /// Its slot's word, but for the block; nothing of keys that are looked up in steps.
    wanted: Option<Word>,
}

/// A record that may be the key's.
#[derive(Clone, Copy)]
struct Record {
    generation: u64,
    /// The byte of the region at which it begins.
    start: u64,
}

/// The records that may be the key's, one or two.
#[derive(Clone, Copy)]
pub(super) struct RecordCandidates {
    key: u64,
    first: Record,
    second: Option<Record>,
}

impl Record {
    /// The value, if this is the key's record, and whole.
    #[inline(always)]
    fn value_of(self, wanted: u64, view: &InPlace<'_>) -> Option<u64> {
        let [head, lengths, key, value] = [0, 1, 2, 3].map(view.slot::<RECORD_WORDS>(self.start));
        let record: [u8; 8 * (RECORD_WORDS - 1)] = bytemuck::cast([lengths, key, value]);
        let sum = checksum(&record, self.generation);
        let is_whole = head == self.generation << 32 | u64::from(sum);
        (is_whole && lengths == LENGTHS && key == wanted).then_some(value)
    }
}

impl FastPath<&[u8]> for RecordFastPath<'_> {
    const MORE_BESIDE: bool = true;

    type Prepared = KeySpans;
    type Place = RecordCandidates;

    #[inline(always)]
    fn prepare(&self, key: &[u8], view: &InPlace<'_>) -> KeySpans {
        let Ok(key) = <&[u8; WORD]>::try_from(key) else {
            return KeySpans::default();
        };
        let hash = xxh3(key, self.seed);
        let leaf = match self.only {
            Some(only) => only,
            None => self.directory.leaf_of(self.layout.route_of(hash)),
        };
        let Some(before) = self.layout.before_reads_of(hash) else {
            return KeySpans::default();
        };
        let subtable = self.first + leaf.subtable * self.subtable_bytes;
        let starts = before.map(|buckets| subtable + buckets * self.bucket_bytes);
        for start in starts {
            view.prefetch(start, self.slots * 8);
        }
        KeySpans {
            starts,
            wanted: Some(Word::live(leaf.depth, hash as u8)),
        }
    }

    #[inline(always)]
    fn place(&self, key: &[u8], of: KeySpans, view: &InPlace<'_>) -> Option<RecordCandidates> {
        let key = u64::from_le_bytes(key.try_into().ok()?);
        let wanted = of.wanted?;
        let [first, second] = of.starts;
        let first = self.meet(wanted, first, view);
        let second = self.meet(wanted, second, view);
        if !first.is_quiet() || !second.is_quiet() {
            return None;
        }
        let (first, second) = match (first.found()?, second.found()?) {
            (Some(first), second) => (first, second),
            (None, second) => (second?, None),
        };
        Some(RecordCandidates {
            key,
            first: self.record(first)?,
            second: match second {
                Some(second) => Some(self.record(second)?),
                None => None,
            },
        })
    }

    #[inline(always)]
    fn fetch(&self, of: &RecordCandidates, view: &InPlace<'_>) {
        view.prefetch(of.first.start, RECORD_WORDS * 8);
        if let Some(second) = of.second {
            view.prefetch(second.start, RECORD_WORDS * 8);
        }
    }

    #[inline(always)]
    fn look(&self, of: &RecordCandidates, view: &InPlace<'_>) -> FastPathResult {
        let more = u32::from(of.second.is_some());
        if let Some(value) = of.first.value_of(of.key, view) {
            return FastPathResult::Found(value, more);
        }
        let second = of.second.and_then(|record| record.value_of(of.key, view));
        second.map_or(FastPathResult::Undecided, |value| {
            FastPathResult::Found(value, more)
        })
    }

    #[inline]
    fn usual(&self) -> Steps {
        let mut steps = Steps::begun(2, 2 * self.slots as u64 * 8);
        steps.read(1, self.block as u64);
        steps
    }

    #[inline]
    fn more_bytes(&self) -> u64 {
        self.block as u64
    }

    #[inline]
    fn value_len(&self) -> usize {
        WORD
    }
}
