//! Values of keys that are present, replaced [at once](crate::at_once): as `update.rs`, and
//! `insert.rs` of such keys, replace them over verbs.
//!
//! Left to those: a key that is absent, slots that a split or an insertion is under way in, more than
//! a few records with the key's tag, a client with a split to finish, a race that was lost often.

use super::client::{Key, RaceTable};
use super::word::{State, Word};
use crate::at_once::{MOST_TRIES, Work, Write, WriteAtOnce};
use crate::heap::{BlockRef, Heap};
use crate::step::view_for;
use crate::{Operation, Result};
use farslot_fabric::{Endpoint, InPlace, Piece, Rights, Steps};

/// Slots with a key's tag, at most. (With 32 slots and 8 bits one write in ten meets a second.)
const MOST_CANDIDATES: usize = 4;

/// How far a write has come.
pub(crate) struct Place<'k> {
    key: Key<'k>,
    candidates: Candidates,
}

/// The live slots with a key's tag: where each begins, and its word. None if that is not to be told
/// here.
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
        let (Operation::Put(_, value)
        | Operation::Update(_, value)
        | Operation::Replace(_, _, value)) = *operation
        else {
            return None;
        };
        self.layout.shape().check_value(value).ok()?;
        let key = self.checked_key(operation.key()).ok()?;
        for piece in self.pieces(&key) {
            let at = view.offset_of(piece)?;
            view.prefetch(at, piece.len);
        }
        Some(Place {
            key,
            candidates: Candidates::NONE,
        })
    }

    fn find_slot(&self, view: InPlace<'_>, write: &mut Write<'_, Place<'_>>) -> Option<BlockRef> {
        let found = self.candidates(view, &write.place.key, &mut write.steps);
        write.place.candidates = found.unwrap_or(Candidates::NONE);
        let first = write.place.candidates.all().first();
        first.map(|(_, word)| word.block())
    }

    fn finish(
        &self,
        view: InPlace<'_>,
        write: &mut Write<'_, Place<'_>>,
        work: &mut Work,
    ) -> Option<bool> {
        let value = write.operation.value()?;
        for _ in 0..MOST_TRIES {
            let key = write.place.key.bytes;
            let candidates = write.place.candidates.all();
            let lengths = candidates
                .iter()
                .map(|(_, word)| self.heap.piece(word.block()).len);
            let bytes = lengths.sum::<usize>() as u64;
            write.steps.read(candidates.len() as u32, bytes);
            let mut slot = None;
            for &(at, word) in candidates {
                let record = work.record(view, &self.heap, word.block())?;
                if record.key == key {
                    if write.is_refused_by(&record) {
                        return Some(false);
                    }
                    slot = Some((at, word));
                    break;
                }
            }
            let (at, seen) = slot?;
            let held = write.write_record(view, &self.heap, (key, value), work)?;
            let new = Word::begun(seen.depth(), seen.tag(), held.block).in_state(State::Live);
            let was = (seen.0, Some(seen.block()));
            if write.swap((view, at), &self.heap, was, (new.0, Some(held)), work) {
                // Of a put: whether the key is new.
                return Some(!matches!(write.operation, Operation::Put(..)));
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
    /// The spans of a key's slots, in the subtable that is its own as far as this client knows.
    fn pieces(&self, key: &Key<'_>) -> impl Iterator<Item = Piece> {
        let leaf = self.leaf_of(key);
        let (first, second) = key.buckets.spans();
        [Some(first), second]
            .into_iter()
            .flatten()
            .map(move |span| Piece {
                from: self.slot_at(leaf.subtable, span.first),
                len: span.slots as usize * 8,
            })
    }

    /// The live slots with the key's tag, where nothing is under way in the key's slots.
    fn candidates(
        &self,
        view: InPlace<'_>,
        key: &Key<'_>,
        steps: &mut Steps,
    ) -> Option<Candidates> {
        let depth = self.leaf_of(key).depth;
        let mut found = Candidates::NONE;
        let (mut reads, mut bytes) = (0, 0);
        for piece in self.pieces(key) {
            let at = view.offset_of(piece)?;
            let slots = view.words(at);
            for slot in 0..piece.len / 8 {
                let word = Word(slots(slot));
                if word.unsettled_at(depth) != 0 || word.state() == State::Begun {
                    return None;
                }
                if word.is_live_at(depth, key.tag) {
                    *found.slots.get_mut(found.count)? = (at + slot as u64 * 8, word);
                    found.count += 1;
                }
            }
            reads += 1;
            bytes += piece.len as u64;
        }
        view.acquire();
        steps.read(reads, bytes);
        Some(found)
    }
}

impl Candidates {
    const NONE: Self = Self {
        slots: [(0, Word(0)); MOST_CANDIDATES],
        count: 0,
    };

    fn all(&self) -> &[(u64, Word)] {
        &self.slots[..self.count]
    }
}
