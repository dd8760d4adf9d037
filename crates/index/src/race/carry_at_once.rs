//! Slots that a split carries over, at once, where the memory is mapped: as `split.rs` does it over
//! verbs, with the same swaps in the same order.
//!
//! Left to those: a slot from whose record on something is in the way, and all behind it.

use super::client::RaceTable;
use super::directory::Split;
use super::word::{State, Word};
use crate::at_once::{LIKELY, MOST_TRIES, Work};
use crate::step::view_for;
use farslot_fabric::{Endpoint, InPlace, Rights, Steps, Tally};
use std::ops::Range;

/// What has been done for some slots.
#[derive(Default)]
struct Carried {
    work: Work,
    /// Records that were read, and their bytes.
    records: u32,
    bytes: u64,
    swaps: u32,
    moved: u64,
}

impl<E: Endpoint> RaceTable<E> {
    /// Carries over those of some slots that can be carried over without waiting, booked to the
    /// operation that runs; returns the first that is left.
    pub(super) fn carry_at_once(&self, split: Split, slots: Range<u64>) -> u64 {
        let needed = Rights::READ.and(Rights::ATOMIC);
        let Some(view) = view_for(&*self.endpoint, self.table, needed) else {
            return slots.start;
        };
        let count = slots.end - slots.start;
        let starts = [split.parent, split.child]
            .map(|subtable| view.offset_of(self.piece_of(subtable, slots.start, count)));
        let [Some(parent), Some(child)] = starts else {
            return slots.start;
        };
        let words = view.words(parent);
        for number in 0..count as usize {
            let word = Word(words(number));
            if word.state() == State::Live
                && let piece = self.heap.piece(word.block())
                && let Some(at) = view.offset_of(piece)
            {
                view.prefetch(at, LIKELY.min(piece.len));
            }
        }
        let mut carried = Carried::default();
        let first_left = slots.clone().find(|slot| {
            let at = (slot - slots.start) * 8;
            !self.move_at_once(view, split, *slot, (parent + at, child + at), &mut carried)
        });
        self.book_carried(&carried, count * 8);
        first_left.unwrap_or(slots.end)
    }

    /// As `move_slot`; false if the slot is left.
    fn move_at_once(
        &self,
        view: InPlace<'_>,
        split: Split,
        slot: u64,
        (parent, child): (u64, u64),
        carried: &mut Carried,
    ) -> bool {
        let after = split.depth + 1;
        for _ in 0..MOST_TRIES {
            let seen = Word(view.words(parent)(0));
            view.acquire();
            if seen.depth() > split.depth {
                carried.swap(view, child, Word(0), Word::empty(after));
                return true;
            }
            let next = match seen.state() {
                State::Empty | State::Begun => Word::empty(after),
                State::Live => match self.goes_at_once(view, split, slot, seen, carried) {
                    Some(true) => seen.in_state(State::Moving),
                    Some(false) => seen.at_depth(after),
                    None => return false,
                },
                State::Moving => {
                    let live = seen.in_state(State::Live).at_depth(after);
                    let arrived = carried.swap(view, child, Word(0), live);
                    carried.moved += u64::from(arrived);
                    carried.swap(view, parent, seen, Word::empty(after));
                    return true;
                }
            };
            carried.swap(view, parent, seen, next);
        }
        false
    }

    /// Whether the record of a slot goes to the child; nothing if it is not whole, or not its own.
    fn goes_at_once(
        &self,
        view: InPlace<'_>,
        split: Split,
        slot: u64,
        word: Word,
        carried: &mut Carried,
    ) -> Option<bool> {
        carried.records += 1;
        carried.bytes += self.heap.piece(word.block()).len as u64;
        let record = carried.work.record(view, &self.heap, word.block())?;
        self.key_goes_to_child(split, slot, word, record.key)
    }

    /// The words of all slots are one READ, and so is each record; swaps leave together.
    fn book_carried(&self, carried: &Carried, bytes: u64) {
        let (mut tally, mut steps) = (Tally::default(), Steps::begun(1, bytes));
        if carried.records > 0 {
            steps.read(carried.records, carried.bytes);
        }
        if carried.swaps > 0 {
            steps.read(carried.swaps, u64::from(carried.swaps) * 8);
        }
        for _ in 0..carried.swaps {
            tally.swap();
        }
        self.endpoint.core().counters.done_in_place(tally, steps);
        self.worked(|work| work.moved += carried.moved);
    }
}

impl Carried {
    fn swap(&mut self, view: InPlace<'_>, at: u64, seen: Word, new: Word) -> bool {
        self.swaps += 1;
        view.compare_swap(at, seen.0, new.0) == seen.0
    }
}
