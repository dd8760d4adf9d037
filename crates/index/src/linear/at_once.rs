//! Writing slots with heads where the memory is mapped: what is common, without waiting.
//!
//! The words that are read, written and swapped are those of the protocol over verbs (`insert.rs`,
//! `update.rs`, `remove.rs`), in the same order, and so is what is booked. Whatever is rare is left
//! to that protocol, with nothing changed: a slot that is claimed or dead, two keys with one tag, a
//! client without a block at hand, a race that was lost often.
//!
//! Invariant: a record does not change while a head names it. So a key is believed without a
//! checksum if the head was loaded before the key was read, and is still there afterwards: either
//! it is loaded once more, or it is swapped from what it was.

use super::client::{Key, LinearTable};
use super::cluster_hints::Until;
use super::walk::Seen;
use crate::client::let_others_run;
use crate::heap::{BlockRef, encode, record_bytes, seal};
use crate::slot::{Head, KeyRule};
use crate::step::view_for;
use crate::{Operation, Outcome, Result};
use farslot_fabric::counters::Tally;
use farslot_fabric::{Booking, Buffer, Endpoint, InPlace, Piece, Rights};

/// Writes that are done in turns: the slots of all are prefetched, then the records that they name.
const RUN: usize = 64;
/// How often a write begins again because another was faster.
const MOST_TRIES: u32 = 8;
/// Bytes of a record that hold its lengths and most keys.
const LIKELY: usize = 64;

/// A write that is under way.
struct Write<'k> {
    number: usize,
    operation: Operation<'k>,
    key: Key<'k>,
    /// The slot that it has come to, from the key's home, and what was in it.
    distance: u64,
    head: u64,
    /// Whether it has come to one.
    is_found: bool,
    /// What it has read and written.
    booking: Booking,
    tally: Tally,
}

/// A key and a value as they lie in memory: in a slot, or in a block.
struct Stored {
    /// Byte of the region at which the key starts, a multiple of 8.
    key_at: u64,
    key_len: usize,
    value_len: usize,
}

/// What the writes of a run leave to be done.
#[derive(Default)]
struct Work {
    reports: bool,
    /// A size class of which too many free blocks are kept.
    surplus: Option<usize>,
    /// Values that are compared.
    scratch: Vec<u64>,
}

impl<E: Endpoint> LinearTable<E> {
    /// The table's memory, where it is mapped and this client may write records there.
    fn view_to_write(&self) -> Option<InPlace<'_>> {
        let needed = Rights::READ.and(Rights::WRITE).and(Rights::ATOMIC);
        let suits = self.heap.is_some()
            && self.layout.keys == KeyRule::Unique
            // Looking ahead is for READs that take their time.
            && !self.sizes.look_ahead;
        suits.then(|| view_for(&*self.endpoint, self.table, needed))?
    }

    /// Does those of many writes that can be done at once, each booked to its class; returns the
    /// numbers of the others.
    pub(super) async fn write_many_at_once(
        &self,
        writes: &[Operation<'_>],
        mut done: impl FnMut(usize, Result<Outcome>),
    ) -> Vec<usize> {
        let mut left = Vec::new();
        let mut ended = Vec::with_capacity(writes.len().min(RUN));
        for (run, some) in writes.chunks(RUN).enumerate() {
            let first = run * RUN;
            let mut work = Work::default();
            match self.view_to_write() {
                Some(view) => {
                    let writes = some.iter().enumerate();
                    let begun = writes.filter_map(|(at, write)| self.begin(first + at, write));
                    let mut begun: Vec<_> = begun.collect();
                    left.extend((first..first + some.len()).filter(|number| {
                        begun
                            .binary_search_by_key(number, |write| write.number)
                            .is_err()
                    }));
                    begun.iter().for_each(|write| self.prefetch_slot(view, write));
                    begun.iter_mut().for_each(|write| {
                        if self.find(view, write) {
                            self.prefetch_record(view, write);
                        }
                    });
                    for mut write in begun {
                        match self.finish(view, &mut write, &mut work) {
                            Some(changed) => {
                                write.tally.operation_ended(write.booking);
                                let class = write.operation.class();
                                self.endpoint.core().counters.add(class, &write.tally);
                                ended.push((write.number, write.operation.changed(changed)));
                            }
                            None => left.push(write.number),
                        }
                    }
                }
                None => left.extend(first..first + some.len()),
            }
            self.clean_up(&work).await;
            for (number, outcome) in ended.drain(..) {
                done(number, Ok(outcome));
            }
            let mut turns = 0..some.len().div_ceil(8);
            if turns.any(|_| self.endpoint.core().is_turn_over()) {
                let_others_run().await;
            }
        }
        left.sort_unstable();
        left
    }

    /// Does a write if it can be done at once, booked to the operation that runs; whether it has
    /// changed anything. Of a find-or-put: whether it has put.
    pub(super) async fn write_at_once(&self, operation: Operation<'_>) -> Option<bool> {
        let mut work = Work::default();
        let changed = {
            let view = self.view_to_write()?;
            let mut write = self.begin(0, &operation)?;
            self.find(view, &mut write);
            let changed = self.finish(view, &mut write, &mut work)?;
            let counters = &self.endpoint.core().counters;
            counters.done_in_place(&write.tally, write.booking);
            changed
        };
        self.clean_up(&work).await;
        if self.endpoint.core().is_turn_over() {
            let_others_run().await;
        }
        Some(changed)
    }

    /// What there is to do for all clients once writes are done. This cannot fail: they are done.
    async fn clean_up(&self, work: &Work) {
        if work.reports {
            let _ = self.report().await;
        }
        if let Some(class) = work.surplus {
            self.heap().give_surplus(class).await;
        }
    }

    /// Begins a write; nothing of one that is refused, or is none.
    fn begin<'k>(&self, number: usize, operation: &Operation<'k>) -> Option<Write<'k>> {
        if operation.is_lookup() {
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
            head: 0,
            is_found: false,
            booking: Booking::default(),
            tally: Tally::default(),
        })
    }

    fn prefetch_slot(&self, view: InPlace<'_>, write: &Write<'_>) {
        let from = self.layout.slot_at(self.table, write.key.home);
        if let Some(at) = view.offset_of(Piece { from, len: 8 }) {
            view.prefetch(at, 8);
        }
    }

    /// Asks for the record that a write's slot names.
    fn prefetch_record(&self, view: InPlace<'_>, write: &Write<'_>) {
        if let Head::Out { block, .. } = Head::decode(write.head)
            && let piece = self.heap().piece(block)
            && let Some(at) = view.offset_of(piece)
        {
            view.prefetch(at, LIKELY.min(piece.len));
        }
    }

    /// Walks on from the write's place to the first slot that is empty or may be the key's; whether
    /// there is one.
    fn find(&self, view: InPlace<'_>, write: &mut Write<'_>) -> bool {
        let head = self.find_head(view, write);
        write.is_found = head.is_some();
        write.head = head.unwrap_or_default();
        write.is_found
    }

    fn find_head(&self, view: InPlace<'_>, write: &mut Write<'_>) -> Option<u64> {
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
            write.read(piece.len);
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

    /// The record that a write's slot has or names, at byte `slot` of the region; nothing if that is
    /// not to be told at once.
    fn stored(&self, view: InPlace<'_>, write: &mut Write<'_>, slot: u64) -> Option<Stored> {
        let inline = |key_len: usize, value_len: usize| {
            let fits = 8 + key_len + value_len <= self.layout.slot_bytes();
            fits.then_some(Stored {
                key_at: slot + 8,
                key_len,
                value_len,
            })
        };
        match Head::decode(write.head) {
            Head::Out { block, .. } => {
                let piece = self.heap().piece(block);
                let at = view.offset_of(piece)?;
                write.read(piece.len);
                let word = view.words(at);
                let lengths = word(1);
                let (key_len, value_len) = (lengths as u32 as usize, (lengths >> 32) as usize);
                let is_its = word(0) >> 32 == block.generation;
                let fits = record_bytes(key_len, value_len) <= piece.len;
                (is_its && fits).then_some(Stored {
                    key_at: at + record_bytes(0, 0) as u64,
                    key_len,
                    value_len,
                })
            }
            Head::Sized {
                key_len, value_len, ..
            } => inline(key_len, value_len),
            Head::Inline { .. } => inline(self.layout.key.most(), self.layout.value.most()),
            Head::Empty | Head::Claimed { .. } | Head::Dead { .. } | Head::Unknown => None,
        }
    }

    /// Does a write whose slot was found; whether it has changed anything. Nothing if it is left,
    /// and then nothing has changed.
    fn finish(
        &self,
        view: InPlace<'_>,
        write: &mut Write<'_>,
        work: &mut Work,
    ) -> Option<bool> {
        for _ in 0..MOST_TRIES {
            if !write.is_found {
                return None;
            }
            let slot = self.slot_number(write.key.home, write.distance);
            let from = self.layout.slot_at(self.table, slot);
            let at = view.offset_of(Piece { from, len: 8 })?;
            let is_there = write.head != 0;
            let fits = match is_there {
                false => write.operation.takes_absent(),
                true => {
                    let stored = self.stored(view, write, at)?;
                    let is_key = stored.key_len == write.key.bytes.len()
                        && are_same(view.words(stored.key_at), write.key.bytes);
                    if !is_key || matches!(write.operation, Operation::FindOrPut(..)) {
                        return None;
                    }
                    match write.operation.expected() {
                        None => true,
                        Some(expected) => is_value(view, &stored, expected, &mut work.scratch),
                    }
                }
            };
            if !fits {
                view.acquire();
                if view.words(at)(0) == write.head {
                    return Some(false);
                }
            } else if self.swap_head(view, write, at, work)? {
                // Of a put: whether the key is new.
                return Some(is_there != write.operation.takes_absent());
            }
            self.find(view, write);
        }
        None
    }

    /// Swaps the head at byte `at` of the region, behind the record that it names; false if another
    /// was faster. Nothing if this client has no block for the record.
    fn swap_head(
        &self,
        view: InPlace<'_>,
        write: &mut Write<'_>,
        at: u64,
        work: &mut Work,
    ) -> Option<bool> {
        let hash = write.key.hash;
        let drafted = match write.operation.value() {
            None => None,
            Some(value) => Some(self.write_record(view, write, value)?),
        };
        let new = match &drafted {
            Some((block, _)) => Head::out(hash, *block),
            None => Head::dead(hash),
        };
        let is_swapped = view.compare_swap(at, write.head, new) == write.head;
        write.tally.swap();
        match &drafted {
            Some((_, record)) => {
                write.tally.write(record.len() as u64);
                write.booking.write_and_swap(record.len() as u64);
            }
            None => write.booking.swap(),
        }
        // The block that no slot names, or names any more.
        let freed = match (is_swapped, &drafted, Head::decode(write.head)) {
            (false, Some((block, _)), _) => Some(*block),
            (true, _, Head::Out { block, .. }) => Some(block),
            _ => None,
        };
        if let Some(block) = freed
            && self.heap().keep(block)
        {
            work.surplus = Some(block.class);
        }
        if !is_swapped {
            return Some(false);
        }
        let change = match (write.head, &drafted) {
            (0, _) => {
                self.slot_used();
                1
            }
            (_, None) => -1,
            _ => 0,
        };
        if change != 0 {
            work.reports |= self.counts.change(0, change);
        }
        match drafted {
            Some(_) => self.remember(&write.key, write.distance, new),
            None => self.forget(&write.key),
        }
        Some(true)
    }

    /// Writes the record of a write into a block that this client has.
    fn write_record(
        &self,
        view: InPlace<'_>,
        write: &Write<'_>,
        value: &[u8],
    ) -> Option<(BlockRef, Buffer)> {
        let (key, heap) = (write.key.bytes, self.heap());
        if write.head == 0 && !self.layout.goes_out(key.len() + value.len()) {
            return None;
        }
        let mut record = encode(&self.endpoint.core().buffers, key, value).ok()?;
        let block = heap.allocate_own(record.len())?;
        let piece = Piece {
            from: heap.at(block.granule),
            len: record.len(),
        };
        // A block that is not in the memory is lost: nobody can use it.
        let at = view.offset_of(piece)?;
        seal(&mut record, block);
        view.write(at, record.len(), record.words());
        Some((block, record))
    }
}

impl Write<'_> {
    /// Books a READ of so many bytes.
    fn read(&mut self, bytes: usize) {
        self.tally.read(1, false, bytes as u64);
        self.booking.read(1, bytes as u64);
    }
}

impl<'r> Operation<'r> {
    /// The value that must be there.
    const fn expected(&self) -> Option<&'r [u8]> {
        match self {
            Self::Replace(_, expected, _) | Self::RemoveIf(_, expected) => Some(expected),
            _ => None,
        }
    }

    /// Whether it puts a key that is absent.
    const fn takes_absent(&self) -> bool {
        matches!(self, Self::Put(..) | Self::FindOrPut(..))
    }

    /// The outcome of a write that has changed something or not, or, of a find-or-put, has put.
    const fn changed(&self, changed: bool) -> Outcome {
        match self {
            Self::FindOrPut(..) => Outcome::Value(None),
            _ => Outcome::Changed(changed),
        }
    }
}

/// Whether words begin with these bytes.
#[inline]
fn are_same(word: impl Fn(usize) -> u64, bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<8>();
    let are_same = words.iter().enumerate();
    if !are_same.fold(true, |same, (at, bytes)| {
        same & (word(at) == u64::from_le_bytes(*bytes))
    }) {
        return false;
    }
    let mask = !(u64::MAX << (8 * rest.len()));
    rest.is_empty() || word(words.len()) & mask == crate::hash::word_of(rest)
}

/// Whether a record has this value.
fn is_value(view: InPlace<'_>, stored: &Stored, value: &[u8], scratch: &mut Vec<u64>) -> bool {
    if stored.value_len != value.len() {
        return false;
    }
    scratch.clear();
    let start = stored.key_at + stored.key_len as u64;
    view.append_to(start, value.len(), scratch);
    bytemuck::cast_slice::<_, u8>(scratch)[..value.len()] == *value
}
