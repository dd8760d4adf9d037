//! Writing slots with heads at once, where the memory is mapped ([`client::at_once`]).
//!
//! Left to the protocol over verbs are slots that are claimed or dead, records that go into their
//! slots, and two keys with one tag.
//!
//! [`client::at_once`]: crate::client::at_once

use super::client::{Key, LinearTable};
use super::cluster_hints::Until;
use super::walk::Seen;
use crate::Operation;
use crate::client::at_once::{AtOnce, Chores, Cost, MOST_TRIES};
use crate::heap::{Heap, Stored};
use crate::slot::{Head, KeyRule};
use crate::step::view_for;
use farslot_fabric::{Endpoint, InPlace, Piece, Rights};

/// A write that is under way.
pub(crate) struct Write<'k> {
    key: Key<'k>,
    /// From the key's home to the slot that it has come to.
    distance: u64,
    /// What is in that slot, which is empty or may be the key's; nothing if there is none.
    head: Option<u64>,
}

impl<E: Endpoint> AtOnce for LinearTable<E> {
    type Endpoint = E;
    type Write<'k> = Write<'k>;

    fn endpoint(&self) -> &E {
        &self.endpoint
    }

    fn blocks(&self) -> &Heap<E> {
        self.heap()
    }

    fn view_to_write(&self) -> Option<InPlace<'_>> {
        let needed = Rights::READ.and(Rights::WRITE).and(Rights::ATOMIC);
        let suits = self.heap.is_some()
            && self.layout.keys == KeyRule::Unique
            // Looking ahead is for READs that take their time.
            && !self.sizes.look_ahead;
        suits.then(|| view_for(&*self.endpoint, self.table, needed))?
    }

    fn begin<'k>(&self, view: InPlace<'_>, operation: &Operation<'k>) -> Option<Write<'k>> {
        if let Some(value) = operation.value() {
            self.check_value(value).ok()?;
        }
        let key = self.checked_key(operation.key()).ok()?;
        let from = self.layout.slot_at(self.table, key.home);
        view.prefetch(view.offset_of(Piece { from, len: 8 })?, 8);
        Some(Write {
            key,
            distance: 0,
            head: None,
        })
    }

    fn find(&self, view: InPlace<'_>, write: &mut Write<'_>, cost: &mut Cost) {
        write.head = self.find_head(view, write, cost);
        if let Some(Head::Out { block, .. }) = write.head.map(Head::decode) {
            self.heap().prefetch(view, block);
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
            let head = write.head?;
            let slot = self.slot_number(write.key.home, write.distance);
            let from = self.layout.slot_at(self.table, slot);
            let at = view.offset_of(Piece { from, len: 8 })?;
            let is_there = head != 0;
            let fits = match is_there {
                false => operation.takes_absent(),
                true => {
                    let stored = self.stored(view, (at, head), cost)?;
                    let is_its = stored.has_key(view, write.key.bytes);
                    if !is_its || matches!(operation, Operation::FindOrPut(..)) {
                        return None;
                    }
                    let expected = operation.expected();
                    let scratch = &mut chores.scratch;
                    expected.is_none_or(|expected| stored.has_value(view, expected, scratch))
                }
            };
            if !fits {
                view.acquire();
                if view.words(at)(0) == head {
                    return Some(false);
                }
            } else if self.swap_head(view, write, (at, head), operation, cost, chores)? {
                return Some(is_there != operation.takes_absent());
            }
            self.find(view, write, cost);
        }
        None
    }

    async fn report_counts(&self) {
        let _ = self.report().await;
    }
}

impl<E: Endpoint> LinearTable<E> {
    /// Walks on from the write's place to the first slot that is empty or may be the key's.
    fn find_head(&self, view: InPlace<'_>, write: &mut Write<'_>, cost: &mut Cost) -> Option<u64> {
        let home = write.key.home;
        loop {
            let length = self.read_length(home, write.distance, Until::Match);
            if length.slots == 0 {
                return None;
            }
            let slot = self.slot_number(home, write.distance);
            let slots = length.slots.min(self.layout.slots - slot);
            let piece = Piece {
                from: self.layout.slot_at(self.table, slot),
                len: slots as usize * self.layout.slot_bytes(),
            };
            let at = view.offset_of(piece)?;
            cost.read(1, piece.len);
            let (passed, seen) = self.scan(&write.key, 0..slots as usize, view.words(at));
            view.acquire();
            write.distance += passed as u64;
            match seen {
                Seen::Nothing => {}
                Seen::Empty => return Some(0),
                Seen::Head(head) => return Some(head),
                Seen::Word(_) => return None,
            }
        }
    }

    /// The record that the slot at a byte of the region has, or names by its head; nothing if that
    /// is not to be told at once.
    fn stored(&self, view: InPlace<'_>, (at, head): (u64, u64), cost: &mut Cost) -> Option<Stored> {
        let inline = |key_len: usize, value_len: usize| {
            let fits = 8 + key_len + value_len <= self.layout.slot_bytes();
            fits.then_some(Stored {
                key_at: at + 8,
                key_len,
                value_len,
            })
        };
        match Head::decode(head) {
            Head::Out { block, .. } => {
                cost.read(1, self.heap().piece(block).len);
                self.heap().stored(view, block)
            }
            Head::Sized {
                key_len, value_len, ..
            } => inline(key_len, value_len),
            Head::Inline { .. } => inline(self.layout.key.most(), self.layout.value.most()),
            Head::Empty | Head::Claimed { .. } | Head::Dead { .. } | Head::Unknown => None,
        }
    }

    /// Swaps a head, behind the record that the new one names; false if another was faster. Nothing
    /// if this client has no block for the record.
    fn swap_head(
        &self,
        view: InPlace<'_>,
        write: &Write<'_>,
        (at, head): (u64, u64),
        operation: &Operation<'_>,
        cost: &mut Cost,
        chores: &mut Chores,
    ) -> Option<bool> {
        let (key, heap) = (&write.key, self.heap());
        let drafted = match operation.value() {
            None => None,
            Some(value) => {
                if head == 0 && !self.layout.goes_out(key.bytes.len() + value.len()) {
                    return None;
                }
                Some(heap.write_at_once(view, key.bytes, value)?)
            }
        };
        let new = match drafted {
            Some((block, bytes)) => {
                cost.write_and_swap(bytes, (0, 0));
                Head::out(key.hash, block)
            }
            None => {
                cost.swap();
                Head::dead(key.hash)
            }
        };
        if view.compare_swap(at, head, new) != head {
            if let Some((block, _)) = drafted {
                chores.free(heap, block);
            }
            return Some(false);
        }
        if let Head::Out { block, .. } = Head::decode(head) {
            chores.free(heap, block);
        }
        if head == 0 {
            self.slot_used();
            chores.reports |= self.counts.change(0, 1);
        }
        match drafted {
            Some(_) => self.remember(key, write.distance, new),
            None => {
                self.forget(key);
                chores.reports |= self.counts.change(0, -1);
            }
        }
        Some(true)
    }
}
