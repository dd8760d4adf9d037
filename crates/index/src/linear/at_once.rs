//! Writing records out of band where the memory is mapped: what is common, without waiting.
//!
//! The words that are read, written and swapped are those of the protocol over verbs (`insert.rs`,
//! `update.rs`, `remove.rs`), in the same order, and so is what is booked. A record that is there is
//! believed by its checksum, as there. Blocks come of what this client holds, and go back to it, by
//! the heap's rules of epochs.
//!
//! Whatever is rare is left to that protocol, with nothing changed: a slot that is claimed or dead,
//! two keys with one tag, a walk round the table's end, a client without a block at hand or with a
//! look at the heap's epoch due, a race that was lost often.

use super::client::{Key, LinearTable};
use super::cluster_hints::Until;
use super::walk::Seen;
use crate::client::let_others_run;
use crate::heap::{Held, RecordView, bytes_by_lengths, encode_in, seal_words};
use crate::slot::{Head, KeyRule};
use crate::step::view_for;
use crate::{Operation, Outcome, Result};
use farslot_fabric::{Endpoint, InPlace, OperationClass, Piece, Rights, Steps, Tally};

/// Writes that are done in turns: the slots of all are prefetched, then the records that they name.
const RUN: usize = 32;
/// How often a write begins again because another was faster.
const MOST_TRIES: u32 = 8;
/// Bytes of a record that are prefetched: processors go on by themselves behind these.
const LIKELY: usize = 256;

/// A write that is under way.
struct Write<'k> {
    number: usize,
    operation: Operation<'k>,
    key: Key<'k>,
    /// The slot that it has come to, from the key's home, and the head that was there; nothing if
    /// that is not to be told here.
    distance: u64,
    head: Option<u64>,
    /// What it has read and written. Of one that is left nothing is counted: the protocol counts all.
    steps: Steps,
    /// How often it has swapped, each time behind a WRITE of so many bytes, if it puts any.
    swaps: u32,
    written: u64,
}

/// What the writes of a batch share.
#[derive(Default)]
struct Work {
    /// What has ended and is not counted yet: of one class.
    tally: Tally,
    class: Option<OperationClass>,
    /// Whether there is enough to report, and to give to all.
    reports: bool,
    surplus: bool,
    /// The record that is there, and the one that is to be.
    there: Vec<u64>,
    draft: Vec<u64>,
}

impl<E: Endpoint> LinearTable<E> {
    /// The table's memory, where it is mapped and this client may write records there.
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

    /// Does those of many writes that can be done at once, each booked to its class; returns the
    /// numbers of the others.
    pub(super) async fn write_many_at_once(
        &self,
        writes: &[Operation<'_>],
        done: &mut impl FnMut(usize, Result<Outcome>),
    ) -> Vec<usize> {
        let mut left = Vec::new();
        if self.view_to_write().is_none() {
            left.extend(0..writes.len());
            return left;
        }
        let (mut work, mut ended) = (Work::default(), Vec::with_capacity(RUN));
        for (run, some) in writes.chunks(RUN).enumerate() {
            let first = run * RUN;
            let Some(view) = self.view_to_write() else {
                left.extend(first..writes.len());
                break;
            };
            let mut begun = Vec::with_capacity(some.len());
            for (at, operation) in some.iter().enumerate() {
                match self.begin(first + at, operation) {
                    Some(write) => {
                        self.prefetch_slot(view, &write.key);
                        begun.push(write);
                    }
                    None => left.push(first + at),
                }
            }
            for write in &mut begun {
                self.find(view, write);
                self.prefetch_record(view, write);
            }
            for mut write in begun {
                match self.finish(view, &mut write, &mut work) {
                    Some(changed) => {
                        self.book(&write, &mut work);
                        ended.push((write.number, Outcome::Changed(changed)));
                    }
                    None => left.push(write.number),
                }
                if work.surplus {
                    // Before others, so that no client ever holds more than it may.
                    work.surplus = false;
                    self.heap().give_surplus().await;
                }
            }
            self.count(&mut work);
            if std::mem::take(&mut work.reports) {
                // This cannot fail: the writes that are counted are done, and counts may lag.
                let _ = self.report().await;
            }
            for (number, outcome) in ended.drain(..) {
                done(number, Ok(outcome));
            }
            let mut turns = 0..some.len().div_ceil(8);
            if turns.any(|_| self.endpoint.core().is_turn_over()) {
                let_others_run().await;
            }
        }
        left
    }

    /// Begins a write; nothing of one that is left, or refused.
    fn begin<'k>(&self, number: usize, operation: &Operation<'k>) -> Option<Write<'k>> {
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
        Some(Write {
            number,
            operation: *operation,
            key: self.checked_key(operation.key()).ok()?,
            distance: 0,
            head: None,
            steps: Steps::default(),
            swaps: 0,
            written: 0,
        })
    }

    fn prefetch_slot(&self, view: InPlace<'_>, key: &Key<'_>) {
        let from = self.layout.slot_at(self.table, key.home);
        if let Some(at) = view.offset_of(Piece { from, len: 8 }) {
            view.prefetch(at, 8);
        }
    }

    /// Asks for the record that a write's slot names.
    fn prefetch_record(&self, view: InPlace<'_>, write: &Write<'_>) {
        if let Head::Out { block, .. } = Head::decode(write.head.unwrap_or(0))
            && let piece = self.heap().piece(block)
            && let Some(at) = view.offset_of(piece)
        {
            view.prefetch(at, LIKELY.min(piece.len));
        }
    }

    /// Walks on from the write's place to the first slot that is empty or may be the key's.
    fn find(&self, view: InPlace<'_>, write: &mut Write<'_>) {
        write.head = self.find_head(view, write);
    }

    fn find_head(&self, view: InPlace<'_>, write: &mut Write<'_>) -> Option<u64> {
        let home = write.key.home;
        loop {
            let length = self.read_length(home, write.distance, Until::Match);
            let slot = self.slot_number(home, write.distance);
            if length.slots == 0 || slot + length.slots > self.layout.slots {
                return None;
            }
            let slots = length.slots as usize;
            let piece = Piece {
                from: self.layout.slot_at(self.table, slot),
                len: slots * self.layout.slot_bytes(),
            };
            let at = view.offset_of(piece)?;
            write.steps.read(1, piece.len as u64);
            let kind = self.layout.kind;
            let (passed, seen) = self.scan(kind, &write.key, 0..slots, view.words(at));
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

    /// Does a write whose slot was looked for; returns its answer. Nothing if it is left, and then
    /// nothing has changed.
    fn finish(&self, view: InPlace<'_>, write: &mut Write<'_>, work: &mut Work) -> Option<bool> {
        for _ in 0..MOST_TRIES {
            let head = write.head?;
            let is_there = match Head::decode(head) {
                Head::Empty => false,
                Head::Out { block, .. } => {
                    let piece = self.heap().piece(block);
                    let at = view.offset_of(piece)?;
                    write.steps.read(1, piece.len as u64);
                    let bytes = bytes_by_lengths(view.words(at)(1), piece.len);
                    let there = room(&mut work.there, bytes);
                    view.copy_out(at, bytes, there);
                    let bytes = &bytemuck::cast_slice(there)[..bytes];
                    let record = RecordView::decode(bytes, block)?;
                    if record.key != write.key.bytes {
                        return None;
                    }
                    match write.operation {
                        Operation::Replace(_, expected, _) | Operation::RemoveIf(_, expected)
                            if record.value != expected =>
                        {
                            return Some(false);
                        }
                        _ => true,
                    }
                }
                _ => return None,
            };
            let is_put = matches!(write.operation, Operation::Put(..));
            if !is_there && !is_put {
                return Some(false);
            }
            if self.swap_head(view, write, head, work)? {
                // Of a put: whether the key is new.
                return Some(is_there != is_put);
            }
            self.find(view, write);
        }
        None
    }

    /// Swaps the head of the write's slot, behind the record that it names; false if another was
    /// faster. Nothing if this client has no block for the record.
    fn swap_head(
        &self,
        view: InPlace<'_>,
        write: &mut Write<'_>,
        head: u64,
        work: &mut Work,
    ) -> Option<bool> {
        let (hash, heap) = (write.key.hash, self.heap());
        let slot = self.slot_number(write.key.home, write.distance);
        let from = self.layout.slot_at(self.table, slot);
        let at = view.offset_of(Piece { from, len: 8 })?;
        let drafted = match write.operation.value() {
            None => None,
            Some(value) => Some(self.write_record(view, write, value, work)?),
        };
        let new = match drafted {
            Some(held) => Head::out(hash, held.block),
            None => Head::dead(hash),
        };
        // The block was allocated at this epoch, and nothing was awaited since.
        let since = heap.epoch();
        let is_swapped = view.compare_swap(at, head, new) == head;
        write.swaps += 1;
        match drafted {
            Some(_) => write.steps.write_and_swap(write.written),
            None => write.steps.swap(),
        }
        let freed = match (is_swapped, drafted, Head::decode(head)) {
            (false, Some(held), _) => Some(held.block),
            (true, _, Head::Out { block, .. }) => Some(block),
            _ => None,
        };
        if let Some(block) = freed {
            work.surplus |= heap.keep_since(block, since);
        }
        if !is_swapped {
            return Some(false);
        }
        if head == 0 {
            self.slot_used();
        }
        let change = i64::from(drafted.is_some()) - i64::from(head != 0);
        if change != 0 {
            work.reports |= self.counts.change(0, change);
        }
        Some(true)
    }

    /// Writes the record of a write into a block that this client has.
    fn write_record(
        &self,
        view: InPlace<'_>,
        write: &mut Write<'_>,
        value: &[u8],
        work: &mut Work,
    ) -> Option<Held> {
        let len = encode_in(&mut work.draft, write.key.bytes, value);
        let held = self.heap().allocate_own(len)?;
        let from = self.heap().at(held.block.granule);
        // A block that is not in the memory is lost: nobody can use it.
        let at = view.offset_of(Piece { from, len })?;
        seal_words(&mut work.draft, len, held.block);
        view.write(at, len, &work.draft);
        write.written = len as u64;
        Some(held)
    }

    /// Counts a write that has ended.
    fn book(&self, write: &Write<'_>, work: &mut Work) {
        let class = write.operation.class();
        if work.class.is_some_and(|of| of != class) {
            self.count(work);
        }
        work.class = Some(class);
        for _ in 0..write.swaps {
            work.tally.swap();
            if write.operation.value().is_some() {
                work.tally.write(write.written);
            }
        }
        work.tally.operation_ended(write.steps);
    }

    /// Adds what was counted to the endpoint's counters.
    fn count(&self, work: &mut Work) {
        let tally = std::mem::take(&mut work.tally);
        if let Some(class) = work.class.take() {
            self.endpoint.core().counters.add(class, &tally);
        }
    }
}

/// The first words of these that so many bytes need.
fn room(words: &mut Vec<u64>, bytes: usize) -> &mut [u64] {
    let needed = bytes.div_ceil(8);
    if words.len() < needed {
        words.resize(needed, 0);
    }
    &mut words[..needed]
}
