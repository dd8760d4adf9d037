//! Keys that are put or removed, and values that are replaced, [at once](crate::at_once): as
//! `insert.rs`, `update.rs` and `remove.rs` do it over verbs.
//!
//! Left to those: an absent key that has no slot, or is put by another too, or is to be updated;
//! slots that a split or an insertion is under way in; more than a few records with the key's tag;
//! a client with a split to finish; a race that was lost often.

use super::client::{Key, RaceTable};
use super::directory::Leaf;
use super::word::{Met, State, Word};
use crate::at_once::{MOST_TRIES, Work, Write, WriteAtOnce};
use crate::heap::{BlockRef, Heap};
use crate::step::view_for;
use crate::{Operation, Outcome, Result, Value};
use farslot_fabric::{Endpoint, InPlace, Rights};
use std::ops::Range;

/// Slots with a key's tag, at most. (With 32 slots and 8 bits one write in ten meets a second.)
const MOST_CANDIDATES: usize = 4;

/// How far a write has come.
pub(crate) struct Place<'k> {
    key: Key<'k>,
    /// Nothing if that is not to be told here.
    candidates: Option<Candidates>,
}

/// The live slots with a key's tag: where each begins, and its word.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Candidates {
    slots: [(u64, Word); MOST_CANDIDATES],
    count: usize,
}

impl<E: Endpoint> WriteAtOnce for RaceTable<E> {
    type Place<'k> = Place<'k>;

    fn of_heap(&self) -> Option<&Heap<E>> {
        Some(&self.heap)
    }

    fn view_to_write(&self) -> Option<InPlace<'_>> {
        let needed = Rights::READ.and(Rights::WRITE).and(Rights::ATOMIC);
        // Splits are finished beside writes that are not done at once.
        let suits = self.to_finish.borrow().is_empty();
        suits.then(|| view_for(&*self.endpoint, self.table, needed))?
    }

    fn begin<'k>(&self, view: InPlace<'_>, operation: &Operation<'k>) -> Option<Place<'k>> {
        if operation.is_lookup() {
            return None;
        }
        if let Some(value) = operation.value() {
            self.layout.shape().check_value(value).ok()?;
        }
        let key = self.checked_key(operation.key()).ok()?;
        for piece in self.pieces(self.leaf_of(&key), &key) {
            let at = view.offset_of(piece)?;
            view.prefetch(at, piece.len);
        }
        Some(Place {
            key,
            candidates: None,
        })
    }

    fn find_slot(&self, view: InPlace<'_>, write: &mut Write<'_, Place<'_>>) -> Option<BlockRef> {
        let (found, reads, bytes) = self.candidates(view, &write.place.key, None);
        write.counted.steps.read(reads, bytes);
        write.place.candidates = found;
        let first = *write.place.candidates.as_ref()?.all().first()?;
        Some(first.1.block())
    }

    fn finish(
        &self,
        view: InPlace<'_>,
        write: &mut Write<'_, Place<'_>>,
        work: &mut Work,
    ) -> Option<Outcome> {
        for _ in 0..MOST_TRIES {
            let candidates = write.place.candidates?;
            let slot = match self.slot_among(view, write, candidates.all(), work)? {
                Looked::Answered(outcome) => return Some(outcome),
                Looked::Found(slot) => Some(slot),
                Looked::Absent => None,
            };
            let outcome = match (&write.operation, slot) {
                (Operation::Put(..), _) => Outcome::Changed(slot.is_none()),
                (Operation::FindOrPut(..), _) => Outcome::Value(None),
                (_, Some(_)) => Outcome::Changed(true),
                (Operation::Remove(_) | Operation::RemoveIf(..), None) => {
                    return Some(Outcome::Changed(false));
                }
                (_, None) => return None,
            };
            let is_done = match slot {
                Some(slot) => self.replace_at_once(view, write, slot, work)?,
                None => self.insert_at_once(view, write, candidates, work)?,
            };
            if is_done {
                return Some(outcome);
            }
            self.find_slot(view, write);
        }
        None
    }

    async fn report_counts(&self) -> Result<()> {
        self.report().await
    }
}

impl<E: Endpoint> RaceTable<E> {
    /// The live slots with the key's tag, where nothing is under way in the key's slots but what is
    /// begun in its `own`; and the READs of that, with their bytes.
    fn candidates(
        &self,
        view: InPlace<'_>,
        key: &Key<'_>,
        own: Option<(u64, Word)>,
    ) -> (Option<Candidates>, u32, u64) {
        let wanted = Word::live(self.leaf_of(key).depth, key.tag);
        let mut found = Some(Candidates::NONE);
        let (mut reads, mut bytes) = (0, 0);
        for piece in self.pieces(self.leaf_of(key), key) {
            let Some(start) = view.offset_of(piece) else {
                return (None, reads, bytes);
            };
            let slots = piece.len / 8;
            let mut met = Met::nothing(wanted);
            view.each_word(start, slots, |word| met.word(word));
            found = match met.quiet_among(slots) {
                Some(None) => found,
                Some(Some((number, word))) => {
                    found.and_then(|found| found.and((start + number * 8, word)))
                }
                // Several have the tag, or its own is begun there.
                None => found.and_then(|found| found.and_of(view, (start, slots), wanted, own)),
            };
            reads += 1;
            bytes += piece.len as u64;
        }
        view.acquire();
        (found, reads, bytes)
    }

    /// Which of the slots with the key's tag is its own. Nothing if a record is not whole.
    fn slot_among(
        &self,
        view: InPlace<'_>,
        write: &mut Write<'_, Place<'_>>,
        candidates: &[(u64, Word)],
        work: &mut Work,
    ) -> Option<Looked> {
        if candidates.is_empty() {
            return Some(Looked::Absent);
        }
        let lengths = candidates
            .iter()
            .map(|(_, word)| self.heap.piece(word.block()).len);
        let bytes = lengths.sum::<usize>() as u64;
        write.counted.steps.read(candidates.len() as u32, bytes);
        for &(at, word) in candidates {
            let key = write.place.key.bytes;
            if write.needs_key_alone() && Work::has_key(view, &self.heap, word.block(), key) {
                return Some(Looked::Found((at, word)));
            }
            let record = work.record(view, &self.heap, word.block())?;
            if record.key == write.place.key.bytes {
                return Some(match write.operation {
                    Operation::FindOrPut(..) => {
                        let there = Value::from(record.value);
                        Looked::Answered(Outcome::Value(Some(there)))
                    }
                    _ if write.is_refused_by(&record) => Looked::Answered(Outcome::Changed(false)),
                    _ => Looked::Found((at, word)),
                });
            }
        }
        Some(Looked::Absent)
    }

    /// Replaces the word of the key's own slot, by that of an empty one if the key is removed;
    /// false if another was faster.
    fn replace_at_once(
        &self,
        view: InPlace<'_>,
        write: &mut Write<'_, Place<'_>>,
        (at, seen): (u64, Word),
        work: &mut Work,
    ) -> Option<bool> {
        let held = match write.operation.value() {
            None => None,
            Some(value) => {
                let record = (write.place.key.bytes, value);
                Some(write.write_record(view, &self.heap, record, work)?)
            }
        };
        let new = match held {
            None => Word::empty(seen.depth()),
            Some(held) => Word::begun(seen.depth(), seen.tag(), held.block).in_state(State::Live),
        };
        let was = (seen.0, Some(seen.block()));
        let is_swapped = write.swap((view, at), &self.heap, was, (new.0, held), work);
        if is_swapped && held.is_none() {
            work.reports |= self.counts.change(-1, -1);
        }
        Some(is_swapped)
    }

    /// Inserts a key that no slot is the own of: begun in an empty one, and live if a second look
    /// at the key's slots shows what the first did. False if another was faster.
    fn insert_at_once(
        &self,
        view: InPlace<'_>,
        write: &mut Write<'_, Place<'_>>,
        candidates: Candidates,
        work: &mut Work,
    ) -> Option<bool> {
        let leaf = self.leaf_of(&write.place.key);
        let buckets = &write.place.key.buckets;
        let slot = buckets.empty_slot(|slots| self.empty_in(view, leaf, slots))?;
        let at = view.offset_of(self.piece_of(leaf.subtable, slot, 1))?;
        let record = (write.place.key.bytes, write.operation.value()?);
        let held = write.write_record(view, &self.heap, record, work)?;
        let empty = Word::empty(leaf.depth);
        let begun = Word::begun(leaf.depth, write.place.key.tag, held.block);
        let swapped = (begun.0, Some(held));
        if !write.swap((view, at), &self.heap, (empty.0, None), swapped, work) {
            return Some(false);
        }
        // Over verbs, this look leaves with that swap.
        let (look, reads, bytes) = self.candidates(view, &write.place.key, Some((at, begun)));
        write.counted.steps.beside(reads, bytes);
        if look != Some(candidates) {
            // If it was undone, there is nothing to take back.
            view.compare_swap(at, begun.0, empty.0);
            work.keep(&self.heap, held.block);
            return None;
        }
        let live = begun.in_state(State::Live);
        if !write.swap(
            (view, at),
            &self.heap,
            (begun.0, None),
            (live.0, None),
            work,
        ) {
            work.keep(&self.heap, held.block);
            return Some(false);
        }
        work.reports |= self.counts.change(1, 1);
        Some(true)
    }

    /// How many of some slots are empty, and the first of them.
    fn empty_in(&self, view: InPlace<'_>, leaf: Leaf, slots: Range<u64>) -> (u64, Option<u64>) {
        let piece = self.piece_of(leaf.subtable, slots.start, slots.end - slots.start);
        let Some(at) = view.offset_of(piece) else {
            return (0, None);
        };
        let words = view.words(at);
        let is_empty = |(_, number): &(u64, usize)| Word(words(*number)).state() == State::Empty;
        let mut empty = slots.zip(0..).filter(is_empty);
        let first = empty.next().map(|(slot, _)| slot);
        (u64::from(first.is_some()) + empty.count() as u64, first)
    }
}

/// What a look at the records of a key's tag has come to.
enum Looked {
    /// The key has this slot, with this word.
    Found((u64, Word)),
    /// It has, and nothing is to be changed.
    Answered(Outcome),
    /// No record is its own.
    Absent,
}

impl Candidates {
    const NONE: Self = Self {
        slots: [(0, Word(0)); MOST_CANDIDATES],
        count: 0,
    };

    fn all(&self) -> &[(u64, Word)] {
        &self.slots[..self.count]
    }

    /// Those of some slots, which are looked at once more one by one: nothing where something is
    /// under way there but what is begun in the key's `own`.
    #[cold]
    fn and_of(
        mut self,
        view: InPlace<'_>,
        (start, slots): (u64, usize),
        wanted: Word,
        own: Option<(u64, Word)>,
    ) -> Option<Self> {
        let words = view.words(start);
        for slot in 0..slots {
            let placed = (start + slot as u64 * 8, Word(words(slot)));
            let (_, word) = placed;
            if own == Some(placed) {
                continue;
            }
            if word.unsettled_at(wanted.depth()) != 0 || word.state() == State::Begun {
                return None;
            }
            if word.is_live_at(wanted.depth(), wanted.tag()) {
                self = self.and(placed)?;
            }
        }
        Some(self)
    }

    /// One more, if there is room for it.
    fn and(mut self, candidate: (u64, Word)) -> Option<Self> {
        *self.slots.get_mut(self.count)? = candidate;
        self.count += 1;
        Some(self)
    }
}
