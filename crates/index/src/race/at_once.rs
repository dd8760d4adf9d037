//! Writing at once, where the memory is mapped ([`client::at_once`]).
//!
//! Left to the protocol over verbs are slots that a split has still to come to, keys that find no
//! room, insertions that meet another of their key, and all writes of a client that has a split to
//! go on with.
//!
//! [`client::at_once`]: crate::client::at_once

use super::client::{Key, RaceTable};
use super::directory::Leaf;
use super::insert::empty_slot;
use super::layout::Span;
use super::view::View;
use super::word::{State, Word};
use crate::Operation;
use crate::client::at_once::{AtOnce, Chores, Cost, MOST_TRIES};
use crate::heap::{Heap, Stored};
use crate::step::view_for;
use farslot_fabric::{Endpoint, InPlace, Piece, Rights};

/// A write that is under way.
pub(crate) struct Write<'k> {
    key: Key<'k>,
    /// The key's slots, if all of them are settled.
    seen: Option<View>,
}

/// What a look at the records with the key's tag has come to.
enum Found {
    /// The key's slot, its word, and the record.
    Present(u64, Word, Stored),
    Absent,
}

impl<E: Endpoint> AtOnce for RaceTable<E> {
    type Endpoint = E;
    type Write<'k> = Write<'k>;

    fn endpoint(&self) -> &E {
        &self.endpoint
    }

    fn blocks(&self) -> &Heap<E> {
        &self.heap
    }

    fn view_to_write(&self) -> Option<InPlace<'_>> {
        let needed = Rights::READ.and(Rights::WRITE).and(Rights::ATOMIC);
        let is_free = self.to_finish.borrow().is_empty();
        is_free.then(|| view_for(&*self.endpoint, self.table, needed))?
    }

    fn begin<'k>(&self, view: InPlace<'_>, operation: &Operation<'k>) -> Option<Write<'k>> {
        if let Some(value) = operation.value() {
            self.layout.shape().check_value(value).ok()?;
        }
        let key = self.checked_key(operation.key()).ok()?;
        let leaf = self.leaf_of(&key);
        for span in spans_of(&key) {
            let piece = self.piece_of(leaf, span);
            view.prefetch(view.offset_of(piece)?, piece.len);
        }
        Some(Write { key, seen: None })
    }

    fn find(&self, view: InPlace<'_>, write: &mut Write<'_>, cost: &mut Cost) {
        let leaf = self.leaf_of(&write.key);
        let (verbs, bytes) = self.cost_of_spans(&write.key);
        cost.read(verbs, bytes);
        write.seen = self.look_at_spans(view, &write.key, leaf);
        let tag = write.key.tag;
        for (_, word) in write.seen.iter().flat_map(View::words) {
            if is_live(word, tag) {
                self.heap.prefetch(view, word.block());
            }
        }
    }

    fn finish(
        &self,
        view: InPlace<'_>,
        write: &mut Write<'_>,
        operation: &Operation<'_>,
        cost: &mut Cost,
        chores: &mut Chores,
    ) -> Option<bool> {
        for _ in 0..MOST_TRIES {
            let seen = write.seen.as_ref()?;
            match self.find_record(view, &write.key, seen, cost)? {
                Found::Absent if operation.takes_absent() => {
                    let value = operation.value().unwrap_or_default();
                    if self.insert_at_once(view, &write.key, seen, value, cost, chores)? {
                        return Some(true);
                    }
                }
                Found::Absent => return Some(false),
                Found::Present(..) if matches!(operation, Operation::FindOrPut(..)) => return None,
                Found::Present(slot, word, stored) => {
                    let at = self.place(view, seen.leaf, slot)?;
                    let expected = operation.expected();
                    let scratch = &mut chores.scratch;
                    let fits =
                        expected.is_none_or(|expected| stored.has_value(view, expected, scratch));
                    if !fits {
                        view.acquire();
                        if Word(view.words(at)(0)) == word {
                            return Some(false);
                        }
                    } else if self.swap_at_once(view, write, (at, word), operation, cost, chores)? {
                        return Some(!operation.takes_absent());
                    }
                }
            }
            self.find(view, write, cost);
        }
        None
    }

    async fn report_counts(&self) {
        let _ = self.report().await;
    }
}

/// The spans that a key can be in.
fn spans_of(key: &Key<'_>) -> impl Iterator<Item = Span> + use<> {
    let (first, second) = key.buckets.spans();
    std::iter::once(first).chain(second)
}

fn is_live(word: Word, tag: u8) -> bool {
    word.state() == State::Live && word.tag() == tag
}

impl<E: Endpoint> RaceTable<E> {
    fn piece_of(&self, leaf: Leaf, span: Span) -> Piece {
        Piece {
            from: self.slot_at(leaf.subtable, span.first),
            len: span.slots as usize * 8,
        }
    }

    /// READs of a key's spans, and their bytes.
    fn cost_of_spans(&self, key: &Key<'_>) -> (u32, usize) {
        let spans = spans_of(key).map(|span| (1, span.slots as usize * 8));
        spans.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
    }

    /// The byte of the region at which a slot is.
    fn place(&self, view: InPlace<'_>, leaf: Leaf, slot: u64) -> Option<u64> {
        let from = self.slot_at(leaf.subtable, slot);
        view.offset_of(Piece { from, len: 8 })
    }

    /// A key's slots, if all are of the depth that the directory has.
    fn look_at_spans(&self, view: InPlace<'_>, key: &Key<'_>, leaf: Leaf) -> Option<View> {
        let mut parts = [const { None }; 2];
        for (span, part) in spans_of(key).zip(&mut parts) {
            let piece = self.piece_of(leaf, span);
            let at = view.offset_of(piece)?;
            let mut words = self.endpoint.core().buffers.take(piece.len).ok()?;
            view.copy_out(at, piece.len, words.words_mut());
            *part = Some((span.first, words));
        }
        let seen = View::new(leaf, parts);
        seen.is_current().then_some(seen)
    }

    /// Looks for the key among the records of those slots that have its tag. Nothing if one of them
    /// has changed meanwhile.
    fn find_record(
        &self,
        view: InPlace<'_>,
        key: &Key<'_>,
        seen: &View,
        cost: &mut Cost,
    ) -> Option<Found> {
        let (mut verbs, mut bytes) = (0, 0);
        let mut found = Found::Absent;
        for (slot, word) in seen.words().filter(|(_, word)| is_live(*word, key.tag)) {
            verbs += 1;
            bytes += self.heap.piece(word.block()).len;
            let stored = self.heap.stored(view, word.block())?;
            if stored.has_key(view, key.bytes) {
                found = Found::Present(slot, word, stored);
                continue;
            }
            // Another key's, if it was whole.
            view.acquire();
            let at = self.place(view, seen.leaf, slot)?;
            if Word(view.words(at)(0)) != word {
                return None;
            }
        }
        if verbs > 0 {
            cost.read(verbs, bytes);
        }
        Some(found)
    }

    /// Swaps the word of the key's slot, behind the record that the new one names; false if another
    /// was faster. Nothing if this client has no block for the record.
    fn swap_at_once(
        &self,
        view: InPlace<'_>,
        write: &Write<'_>,
        (at, word): (u64, Word),
        operation: &Operation<'_>,
        cost: &mut Cost,
        chores: &mut Chores,
    ) -> Option<bool> {
        let drafted = match operation.value() {
            None => None,
            Some(value) => Some(self.heap.write_at_once(view, write.key.bytes, value)?),
        };
        let new = match drafted {
            Some((block, bytes)) => {
                cost.write_and_swap(bytes, (0, 0));
                Word::begun(word.depth(), word.tag(), block).in_state(State::Live)
            }
            None => {
                cost.swap();
                Word::empty(word.depth())
            }
        };
        if Word(view.compare_swap(at, word.0, new.0)) != word {
            if let Some((block, _)) = drafted {
                chores.free(&self.heap, block);
            }
            return Some(false);
        }
        chores.free(&self.heap, word.block());
        if drafted.is_none() {
            chores.reports |= self.counts.change(-1, -1);
        }
        Some(true)
    }

    /// Inserts a key that is in none of the slots that were seen; false if another was faster at
    /// the slot. Nothing, and then the key was not inserted, if there is no room, or another
    /// insertion of the key may be under way: see [`insert`](super::insert), whose steps these are.
    fn insert_at_once(
        &self,
        view: InPlace<'_>,
        key: &Key<'_>,
        seen: &View,
        value: &[u8],
        cost: &mut Cost,
        chores: &mut Chores,
    ) -> Option<bool> {
        let leaf = seen.leaf;
        let slot = empty_slot(key, seen)?;
        let at = self.place(view, leaf, slot)?;
        let (block, bytes) = self.heap.write_at_once(view, key.bytes, value)?;
        let empty = Word::empty(leaf.depth);
        let begun = Word::begun(leaf.depth, key.tag, block);
        cost.write_and_swap(bytes, self.cost_of_spans(key));
        if Word(view.compare_swap(at, empty.0, begun.0)) != empty {
            chores.free(&self.heap, block);
            return Some(false);
        }
        // The slots as they are behind that swap: whoever of two insertions began last sees the
        // other. Records that were another key's when they were looked at are that still.
        let is_alone = |look: &View| {
            look.words().all(|(of, word)| match word.state() {
                _ if of == slot => word == begun,
                State::Live if word.tag() == key.tag => seen.word(of) == Some(word),
                State::Begun => word.tag() != key.tag,
                State::Empty | State::Live | State::Moving => true,
            })
        };
        let look = self.look_at_spans(view, key, leaf);
        let next = match look.is_some_and(|look| is_alone(&look)) {
            true => begun.in_state(State::Live),
            // If another has undone it, there is nothing to take back.
            false => empty,
        };
        cost.swap();
        let is_done = Word(view.compare_swap(at, begun.0, next.0)) == begun;
        if is_done && next != empty {
            chores.reports |= self.counts.change(1, 1);
            return Some(true);
        }
        chores.free(&self.heap, block);
        None
    }
}
