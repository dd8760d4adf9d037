//! Writes of records out of band, done [at once](crate::at_once): as `insert.rs`, `update.rs` and
//! `remove.rs` do them over verbs.
//!
//! Left to those: a slot that is claimed or dead, two keys with one tag, a walk round the table's
//! end, a race that was lost often.

use super::client::{Key, LinearTable};
use super::cluster_hints::Until;
use super::walk::Seen;
use crate::at_once::{MOST_TRIES, Work, Write, WriteAtOnce};
use crate::heap::{BlockRef, Heap};
use crate::slot::{Head, KeyRule};
use crate::step::view_for;
use crate::{Operation, Outcome, Result};
use farslot_fabric::{Endpoint, InPlace, Piece, Rights, Steps};

/// How far a write has come.
pub(crate) struct Place<'k> {
    key: Key<'k>,
    /// The slot that it has come to, from the key's home, and the head that was there; nothing if
    /// that is not to be told here.
    distance: u64,
    head: Option<u64>,
}

impl<E: Endpoint> WriteAtOnce for LinearTable<E> {
    type Place<'k> = Place<'k>;

    fn of_heap(&self) -> Option<&Heap<E>> {
        self.heap.as_ref()
    }

    fn view_to_write(&self) -> Option<InPlace<'_>> {
        let needed = Rights::READ.and(Rights::WRITE).and(Rights::ATOMIC);
        let suits = self.heap.is_some()
            && self.layout.keys == KeyRule::Unique
            // What a client learns and remembers saves round trips, and here there are none.
            && self.hints.is_none()
            && self.records.is_none()
            && !self.sizes.look_ahead;
        suits.then(|| view_for(&*self.endpoint, self.table, needed))?
    }

    fn begin<'k>(&self, view: InPlace<'_>, operation: &Operation<'k>) -> Option<Place<'k>> {
        let goes_out = match *operation {
            // What is put goes out of band in any case, or else it is not known beforehand.
            Operation::Put(key, value) => self.layout.goes_out(key.len() + value.len()),
            Operation::Update(..) | Operation::Replace(..) => true,
            Operation::Remove(_) | Operation::RemoveIf(..) => true,
            Operation::Get(_) | Operation::GetAll(_) | Operation::FindOrPut(..) => false,
        };
        if !goes_out {
            return None;
        }
        if let Some(value) = operation.value() {
            self.check_value(value).ok()?;
        }
        let key = self.checked_key(operation.key()).ok()?;
        let from = self.layout.slot_at(self.table, key.home);
        if let Some(at) = view.offset_of(Piece { from, len: 8 }) {
            view.prefetch(at, 8);
        }
        Some(Place {
            key,
            distance: 0,
            head: None,
        })
    }

    /// Walks on from the write's place to the first slot that is empty or may be the key's.
    fn find_slot(&self, view: InPlace<'_>, write: &mut Write<'_, Place<'_>>) -> Option<BlockRef> {
        write.place.head = self.find_head(view, &mut write.place, &mut write.counted.steps);
        match Head::decode(write.place.head?) {
            Head::Out { block, .. } => Some(block),
            _ => None,
        }
    }

    fn finish(
        &self,
        view: InPlace<'_>,
        write: &mut Write<'_, Place<'_>>,
        work: &mut Work,
    ) -> Option<Outcome> {
        for _ in 0..MOST_TRIES {
            let head = write.place.head?;
            let is_there = match Head::decode(head) {
                Head::Empty => false,
                Head::Out { block, .. } => {
                    let key = write.place.key.bytes;
                    write
                        .counted
                        .steps
                        .read(1, self.heap().piece(block).len as u64);
                    let is_known =
                        write.needs_key_alone() && Work::has_key(view, self.heap(), block, key);
                    if !is_known {
                        let record = work.record(view, self.heap(), block)?;
                        if record.key != key {
                            return None;
                        }
                        if write.is_refused_by(&record) {
                            return Some(Outcome::Changed(false));
                        }
                    }
                    true
                }
                _ => return None,
            };
            let is_put = matches!(write.operation, Operation::Put(..));
            if !is_there && !is_put {
                return Some(Outcome::Changed(false));
            }
            if self.swap_head(view, write, head, work)? {
                // Of a put: whether the key is new.
                return Some(Outcome::Changed(is_there != is_put));
            }
            self.find_slot(view, write);
        }
        None
    }

    async fn report_counts(&self) -> Result<()> {
        self.report().await
    }
}

impl<E: Endpoint> LinearTable<E> {
    fn find_head(
        &self,
        view: InPlace<'_>,
        place: &mut Place<'_>,
        steps: &mut Steps,
    ) -> Option<u64> {
        let home = place.key.home;
        loop {
            let length = self.read_length(home, place.distance, Until::Match);
            let slot = self.slot_number(home, place.distance);
            if length.slots == 0 || slot + length.slots > self.layout.slots {
                return None;
            }
            let slots = length.slots as usize;
            let piece = Piece {
                from: self.layout.slot_at(self.table, slot),
                len: slots * self.layout.slot_bytes(),
            };
            let at = view.offset_of(piece)?;
            steps.read(1, piece.len as u64);
            let kind = self.layout.kind;
            let (passed, seen) = self.scan(kind, &place.key, 0..slots, view.words(at));
            view.acquire();
            place.distance += passed as u64;
            match seen {
                Seen::Nothing => {}
                Seen::Empty => return Some(0),
                Seen::Head(head) => return Some(head),
                Seen::Word(_) => return None,
            }
        }
    }

    /// Swaps the head of the write's slot, behind the record that it names; false if another was
    /// faster. Nothing if this client has no block for the record.
    fn swap_head(
        &self,
        view: InPlace<'_>,
        write: &mut Write<'_, Place<'_>>,
        head: u64,
        work: &mut Work,
    ) -> Option<bool> {
        let (heap, hash) = (self.heap(), write.place.key.hash);
        let slot = self.slot_number(write.place.key.home, write.place.distance);
        let from = self.layout.slot_at(self.table, slot);
        let at = view.offset_of(Piece { from, len: 8 })?;
        let held = match write.operation.value() {
            None => None,
            Some(value) => {
                Some(write.write_record(view, heap, (write.place.key.bytes, value), work)?)
            }
        };
        let new = match held {
            Some(held) => Head::out(hash, held.block),
            None => Head::dead(hash),
        };
        let freed = match Head::decode(head) {
            Head::Out { block, .. } => Some(block),
            _ => None,
        };
        if !write.swap((view, at), heap, (head, freed), (new, held), work) {
            return Some(false);
        }
        if head == 0 {
            self.slot_used();
        }
        let change = i64::from(held.is_some()) - i64::from(head != 0);
        if change != 0 {
            work.reports |= self.counts.change(0, change);
        }
        Some(true)
    }
}
