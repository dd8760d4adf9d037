//! Putting a record under a key, finding or putting (paper 002, figure 1), replacing a value and
//! removing a key, in steps.
//!
//! A write walks to the key's slot as a lookup does (`lookup.rs`), and swaps a word of it: the one
//! that says whose the slot is, or, of a Pair slot that has its key, the one of the value. A record
//! that goes out of band is written before that swap, in the same batch.
//!
//! Invariant: a key is only ever put into the first empty slot of its probe, by a compare-and-swap
//! from empty. Whoever inserts the same key tries for the same slot, and who comes second sees
//! whose it is. A lost compare-and-swap costs no READ: the word that it found replaces what was
//! read, and the slots behind it are looked at where they were read. A value is replaced or removed
//! by a swap from the word that was read with it, so that no other value is. How an empty slot
//! becomes a key's, `insert.rs` says.
//!
//! Of a record that is to be replaced or removed whatever its value, the key and the generation are
//! enough: whoever then swaps the word that named the block knows that the block had this use all
//! the while, and that what a word names was whole before.

use super::client::{Key, LinearTable};
use super::cluster_hints::WalkGoal;
use super::fast_path::PairWriteFastPath;
use super::lookup::{self, Search, Stage, WalkEnd, WalkTarget};
use super::slots::{MOST_RACES, SlotMatch};
use crate::heap::{BlockRef, Draft, Heap, NewRecord, Purpose, TableWrite};
use crate::slot::{KeyRule, SlotHead, SlotKind};
use crate::step::{
    Change, FastPath, LIKELY, Lookup, NextStep, ReadPieces, Reads, Swap, ValueLocation, failed,
    has_key, view_for,
};
use crate::{IndexError, Operation, Result};
use farslot_fabric::{Endpoint, InPlace, Piece, Pieces, Rights};
use std::cell::Cell;

/// The writes of a table.
pub(super) struct Writes<'t, E> {
    pub(super) table: &'t LinearTable<E>,
    /// Whether blocks of the heap may be used, as far as is known since the last wait: a look at
    /// the clock costs as much as a swap.
    may_use_blocks: Cell<bool>,
}

/// A write whose key and value were checked.
pub(crate) struct Write<'k> {
    pub(super) key: Key<'k>,
    pub(super) operation: Operation<'k>,
    /// The record that is to be changed is that in this block, and no other one.
    pub(super) only_in: Option<BlockRef>,
    /// The word that will hold the value: a live Word slot, or the value's word of a Pair slot.
    pub(super) word: u64,
}

/// How far a write has come.
#[derive(Default)]
pub(crate) struct LinearWriteState {
    pub(super) search: Search,
    record: Draft,
    pub(super) aim: LinearSwapAim,
    /// The word of the slot that is swapped, 0 or 1, what it must be, and what it becomes.
    pub(super) number: u64,
    pub(super) expected: u64,
    pub(super) new: u64,
    /// How often another writer was faster.
    races: u32,
    /// Records that it has removed.
    removed: u64,
}

/// What a swap is for.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum LinearSwapAim {
    /// The key's own slot has another record, or none.
    #[default]
    Own,
    /// The same of a slot that is remembered, and was not read.
    Located,
    /// An empty slot becomes the key's.
    Claim,
    /// What a slot holds that this client has claimed is published.
    Publish,
    /// The key leaves its slot, which is nobody's then.
    Retire,
}

/// What a write needs besides READs and changes.
#[derive(Clone, Copy)]
pub(crate) enum LinearWriteSlowPath {
    OfWalk(lookup::LinearWalkSlowPath),
    /// A block for the record.
    Block,
}

impl<E: Endpoint> LinearTable<E> {
    /// Its writes.
    pub(super) fn writes(&self) -> Writes<'_, E> {
        Writes {
            table: self,
            may_use_blocks: Cell::new(false),
        }
    }
}

impl<E: Endpoint> Lookup for Writes<'_, E> {
    const WRITES: bool = true;

    type Endpoint = E;
    type Asked<'k> = TableWrite<'k>;
    type Key<'k> = Write<'k>;
    type Search = LinearWriteState;
    type SlowPath = LinearWriteSlowPath;

    #[inline(always)]
    fn endpoint(&self) -> &E {
        &self.table.endpoint
    }

    #[inline]
    fn in_place(&self) -> Option<InPlace<'_>> {
        let (table, mut needed) = (self.table, Rights::READ.and(Rights::ATOMIC));
        if table.heap.is_some() {
            needed = needed.and(Rights::WRITE);
        }
        // Looking ahead is for READs that take their time. Where a key may have many records, what
        // was read of the slots is kept while these are read one after the other.
        let suits = !table.sizes.look_ahead
            && (table.heap.is_none() || table.layout.keys == KeyRule::Unique);
        let view = suits.then(|| view_for(&*table.endpoint, table.table, needed))?;
        let heap = table.heap.as_ref();
        self.may_use_blocks
            .set(Heap::may_use_blocks(heap, view.is_some()));
        view
    }

    #[inline]
    fn fast_path<'k>(
        &self,
        view: &InPlace<'_>,
        (first, _): (Self::Asked<'k>, usize),
    ) -> Option<impl FastPath<Self::Asked<'k>>> {
        PairWriteFastPath::of(self.table, view, &first.operation)
    }

    #[inline]
    fn record_path<'k>(
        &self,
        _: &InPlace<'_>,
        (first, writes): (Self::Asked<'k>, usize),
    ) -> Option<impl FastPath<Self::Asked<'k>>> {
        let path = self.table.usual_steps(self.may_use_blocks.get());
        path.filter(|_| self.table.heap().replaces_some(first, writes))
    }

    #[inline]
    fn most_at_once(&self, first: Self::Asked<'_>) -> usize {
        let heap = self.table.heap.as_ref();
        heap.map_or(usize::MAX, |heap| heap.most_at_once(first))
    }

    #[inline]
    fn has_to_report(&self) -> bool {
        self.table.has_to_report()
    }

    async fn report(&self) {
        let _ = self.table.report().await;
    }

    #[inline(always)]
    fn key<'k>(&self, asked: Self::Asked<'k>) -> Result<Write<'k>> {
        let (table, TableWrite { operation, only_in }) = (self.table, asked);
        debug_assert!(only_in.is_none() || table.heap.is_some());
        if table.layout.keys == KeyRule::Multi && only_in.is_none() {
            check_multi_key(&operation)?;
        }
        let key = table.checked_key(operation.key())?;
        let mut word = 0;
        if let Some(value) = operation.value() {
            table.check_value(value)?;
            word = match table.layout.kind {
                SlotKind::Pair => table.words.pair_value(value)?,
                SlotKind::Word => table.words.live_word(key.word, value)?,
                _ => 0,
            };
        }
        Ok(Write {
            key,
            operation,
            only_in,
            word,
        })
    }

    #[inline(always)]
    fn begin(
        &self,
        write: &Self::Key<'_>,
        of: &mut LinearWriteState,
    ) -> NextStep<LinearWriteSlowPath> {
        of.record = Draft::None;
        of.races = 0;
        of.removed = 0;
        let (table, key) = (self.table, &write.key);
        let is_multi = table.layout.keys == KeyRule::Multi;
        if let Some(block) = write.only_in {
            let seeks = WalkTarget::Slot(SlotHead::out(key.hash, block));
            of.search.begin(seeks, WalkGoal::Match);
            return self.read_on(write, of);
        }
        let (seeks, goal) = match write.operation {
            Operation::Put(..) if is_multi => (WalkTarget::Place, WalkGoal::EmptySlot),
            Operation::Remove(_) if is_multi => (WalkTarget::Record, WalkGoal::EmptySlot),
            Operation::Put(..) | Operation::FindOrPut(..) => {
                (WalkTarget::RecordOrPlace, WalkGoal::Match)
            }
            _ => (WalkTarget::Record, WalkGoal::Match),
        };
        of.search.begin(seeks, goal);
        if let Operation::Put(..) | Operation::Update(..) = write.operation
            && let Some(location) = table.known_location(key)
        {
            of.search.go_to(location.distance);
            of.search.word = SlotHead::out(key.hash, location.block);
            return self.change_own(write, of, LinearSwapAim::Located);
        }
        table
            .begin_reading(key, &mut of.search)
            .map_slow_path(LinearWriteSlowPath::OfWalk)
    }

    #[inline(always)]
    fn piece(&self, write: &Self::Key<'_>, of: &LinearWriteState, number: usize) -> Piece {
        self.table.piece(&write.key, &of.search, number)
    }

    fn pieces_ahead(&self, write: &Self::Key<'_>, of: &mut LinearWriteState) -> Pieces {
        self.table.pieces_ahead(&write.key, &mut of.search)
    }

    #[inline(always)]
    fn likely_bytes(&self, of: &LinearWriteState, len: usize) -> usize {
        let likely = self.table.likely_bytes(&of.search, len);
        match of.search.stage {
            // Processors go on by themselves behind these.
            Stage::Record => likely.min(LIKELY),
            _ => likely,
        }
    }

    #[inline(always)]
    fn look(
        &self,
        write: &Self::Key<'_>,
        of: &mut LinearWriteState,
        read: &mut impl ReadPieces,
    ) -> NextStep<LinearWriteSlowPath> {
        let (table, key) = (self.table, &write.key);
        let key_is_enough = write.operation.takes_any_value();
        if of.search.stage == Stage::Record && key_is_enough {
            let block = BlockRef::unpack(of.search.word);
            let len = table.heap().piece(block).len;
            if has_key(read, 0, block, len, key.bytes) {
                return self.change_own(write, of, LinearSwapAim::Own);
            }
        }
        match table.walk(key, &mut of.search, read) {
            NextStep::Found(found) => self.at_record(write, of, found, read),
            NextStep::Absent => self.at_end(write, of),
            NextStep::Failed(error) => failed(of.in_doubt_if_removed(*error)),
            next => next.map_slow_path(LinearWriteSlowPath::OfWalk),
        }
    }

    #[inline(always)]
    fn read_on(
        &self,
        write: &Self::Key<'_>,
        of: &mut LinearWriteState,
    ) -> NextStep<LinearWriteSlowPath> {
        match self.table.read_on(&write.key, &mut of.search) {
            NextStep::Absent => self.at_end(write, of),
            NextStep::Failed(error) => failed(of.in_doubt_if_removed(*error)),
            next => next.map_slow_path(LinearWriteSlowPath::OfWalk),
        }
    }

    #[inline(always)]
    fn change<'k>(&self, write: &Self::Key<'k>, of: &LinearWriteState) -> Change<'k> {
        let table = self.table;
        let slot = table.slot_number(write.key.home, of.search.distance);
        let at = table.layout.slot_at(table.table, slot);
        let record = match (of.aim, &table.heap) {
            (LinearSwapAim::Publish, Some(_)) => {
                Some(NewRecord::in_slot(at.plus(8), write.operation.record()))
            }
            (_, Some(heap)) => of.record.unwritten(heap, write.operation.record()),
            (_, None) => None,
        };
        let swap = Swap {
            at: at.plus(of.number * 8),
            expected: of.expected,
            new: of.new,
        };
        Change {
            record,
            swap: Some(swap),
        }
    }

    #[inline(always)]
    fn changed(
        &self,
        write: &Self::Key<'_>,
        of: &mut LinearWriteState,
        seen: u64,
        read: &mut impl ReadPieces,
    ) -> NextStep<LinearWriteSlowPath> {
        of.record.is_written();
        if seen != of.expected {
            return self.was_slower(write, of, seen, read);
        }
        match of.aim {
            LinearSwapAim::Claim => {
                self.table.slot_used();
                self.claimed(write, of)
            }
            LinearSwapAim::Retire => {
                self.table.forget(&write.key);
                of.pass()
            }
            LinearSwapAim::Own | LinearSwapAim::Located | LinearSwapAim::Publish => {
                self.is_done(write, of)
            }
        }
    }

    fn gather_less(
        &self,
        write: &Self::Key<'_>,
        of: &mut LinearWriteState,
    ) -> Option<NextStep<LinearWriteSlowPath>> {
        let next = self.table.gather_less(&write.key, &mut of.search)?;
        Some(next.map_slow_path(LinearWriteSlowPath::OfWalk))
    }

    async fn slow_path(
        &self,
        write: &Self::Key<'_>,
        of: &mut LinearWriteState,
        slow: LinearWriteSlowPath,
    ) -> Result<NextStep<LinearWriteSlowPath>> {
        self.may_use_blocks.set(false);
        let table = self.table;
        let next = match slow {
            LinearWriteSlowPath::OfWalk(slow) => {
                let next = table.slow_path(&write.key, &mut of.search, slow).await;
                match next.map_err(|error| of.in_doubt_if_removed(error))? {
                    NextStep::Absent => self.at_end(write, of),
                    next => next.map_slow_path(LinearWriteSlowPath::OfWalk),
                }
            }
            LinearWriteSlowPath::Block => {
                let record = write.operation.record();
                let purpose = Purpose::of(write.only_in);
                let got = of.record.get_block(table.heap(), record, purpose, table);
                match got.await {
                    Ok(()) => self.name_record(write, of),
                    Err(full @ IndexError::HeapFull { .. }) => self.retire(write, of, full)?,
                    Err(error) => return Err(error),
                }
            }
        };
        Ok(next)
    }

    async fn give_up(&self, _: &Self::Key<'_>, of: &mut LinearWriteState, error: &IndexError) {
        if let Some(heap) = &self.table.heap {
            std::mem::take(&mut of.record).give_up(heap, error);
        }
    }

    #[inline]
    fn while_waiting(&self) {
        self.table.while_waiting();
    }
}

impl<E: Endpoint> Writes<'_, E> {
    /// The key has this record, in the slot that is looked at.
    #[inline(always)]
    fn at_record(
        &self,
        write: &Write<'_>,
        of: &mut LinearWriteState,
        found: ValueLocation,
        read: &impl ReadPieces,
    ) -> NextStep<LinearWriteSlowPath> {
        match write.operation {
            Operation::FindOrPut(..) | Operation::Get(_) | Operation::GetAll(_) => {
                self.take_back(of);
                NextStep::Found(found)
            }
            Operation::Replace(_, expected, _) | Operation::RemoveIf(_, expected)
                if !read.is_value(&found, expected) =>
            {
                self.done(of, false)
            }
            _ => self.change_own(write, of, LinearSwapAim::Own),
        }
    }

    /// The walk has come to its end without a record.
    #[inline(always)]
    fn at_end(
        &self,
        write: &Write<'_>,
        of: &mut LinearWriteState,
    ) -> NextStep<LinearWriteSlowPath> {
        let (Operation::Put(..) | Operation::FindOrPut(..)) = write.operation else {
            return self.done(of, of.removed > 0);
        };
        if let Some((distance, word)) = of.search.passed.take() {
            of.search.go_to(distance);
            (of.search.word, of.search.end) = (word, WalkEnd::Own);
        }
        match of.search.end {
            WalkEnd::OfProbe => failed(self.table.full()),
            WalkEnd::Empty => self.claim(write, of),
            WalkEnd::Own => self.change_own(write, of, LinearSwapAim::Own),
        }
    }

    /// Has the word of the key's own slot swapped for that of the new record, or of none.
    #[inline(always)]
    fn change_own(
        &self,
        write: &Write<'_>,
        of: &mut LinearWriteState,
        aim: LinearSwapAim,
    ) -> NextStep<LinearWriteSlowPath> {
        let (table, kind) = (self.table, self.table.layout.kind);
        (of.aim, of.expected) = (aim, of.search.word);
        of.number = u64::from(kind == SlotKind::Pair);
        let is_put = write.operation.value().is_some();
        of.new = match kind {
            SlotKind::Word | SlotKind::Pair if is_put => write.word,
            SlotKind::Pair => 0,
            SlotKind::Word => table.words.bury(of.expected),
            _ if is_put => return self.name_record(write, of),
            _ => SlotHead::dead(write.key.hash),
        };
        NextStep::Change(Reads::NONE)
    }

    /// Has a slot's head swapped for one that names the record, which is written with that unless
    /// it is already.
    #[inline]
    pub(super) fn name_record(
        &self,
        write: &Write<'_>,
        of: &mut LinearWriteState,
    ) -> NextStep<LinearWriteSlowPath> {
        let (heap, record) = (self.table.heap(), write.operation.record());
        let Some(block) = of.record.hold(heap, record, self.uses(write)) else {
            return NextStep::SlowPath(LinearWriteSlowPath::Block);
        };
        of.new = SlotHead::out(write.key.hash, block);
        NextStep::Change(Reads::NONE)
    }

    /// Whether blocks may be used without a claim, and what for.
    #[inline(always)]
    fn uses(&self, write: &Write<'_>) -> (bool, Purpose) {
        (self.may_use_blocks.get(), Purpose::of(write.only_in))
    }

    /// The slot has what the write was for.
    #[inline(always)]
    pub(super) fn is_done(
        &self,
        write: &Write<'_>,
        of: &mut LinearWriteState,
    ) -> NextStep<LinearWriteSlowPath> {
        let (table, kind) = (self.table, self.table.layout.kind);
        let is_there = write.operation.value().is_some();
        let was_there = table.has_value(kind, of.expected);
        let change = i64::from(is_there) - i64::from(was_there);
        if change != 0 {
            table.counts.change(0, change);
        }
        if let Some(heap) = &table.heap {
            // Beside a record that stands in its slot there may be a draft still, for another slot.
            if of.aim != LinearSwapAim::Publish {
                of.record.is_named(heap);
            }
            match is_there {
                true => table.remember(&write.key, of.search.distance, of.new),
                false => table.forget(&write.key),
            }
            if let SlotHead::Out { block, .. } = SlotHead::decode(of.expected) {
                heap.free(block);
            }
        }
        if let Operation::Remove(_) = write.operation {
            of.removed += 1;
            if table.layout.keys == KeyRule::Multi && write.only_in.is_none() {
                return of.pass();
            }
        }
        self.done(of, was_there)
    }

    /// Another writer was faster: the word that it has left says how this write goes on.
    #[cold]
    fn was_slower(
        &self,
        write: &Write<'_>,
        of: &mut LinearWriteState,
        word: u64,
        read: &impl ReadPieces,
    ) -> NextStep<LinearWriteSlowPath> {
        let (table, key, kind) = (self.table, &write.key, self.table.layout.kind);
        of.races += 1;
        if of.races > MOST_RACES {
            return failed(IndexError::Contended {
                slot: table.slot_number(key.home, of.search.distance),
                attempts: of.races,
            });
        }
        if of.aim == LinearSwapAim::Located {
            // The slot is the key's: a record that others have put there meanwhile is replaced as
            // well.
            if SlotHead::decode(word).is_out_of(key.hash) {
                of.search.word = word;
                return self.change_own(write, of, LinearSwapAim::Located);
            }
            table.forget(key);
            of.search.go_to(0);
            return self.read_on(write, of);
        }
        let seen = match of.number {
            // Of a slot that was empty when it was read, a value was not seen yet.
            0 => {
                table
                    .scan(kind, key, 0..1, |at| if at == 0 { word } else { 0 })
                    .1
            }
            _ => SlotMatch::Word(word),
        };
        let next = match seen {
            SlotMatch::Nothing => return of.pass(),
            SlotMatch::Empty => {
                of.search.end = WalkEnd::Empty;
                Some(NextStep::Absent)
            }
            SlotMatch::Head(head) if SlotHead::decode(head).is_in_slot() => {
                return match table.read_again(key, &mut of.search, head) {
                    NextStep::Failed(error) => failed(of.in_doubt_if_removed(*error)),
                    next => next.map_slow_path(LinearWriteSlowPath::OfWalk),
                };
            }
            seen => table.came_to(kind, &mut of.search, seen),
        };
        match next {
            Some(NextStep::Found(found)) => self.at_record(write, of, found, read),
            Some(NextStep::Absent) => self.at_end(write, of),
            Some(next) => next.map_slow_path(LinearWriteSlowPath::OfWalk),
            None => of.pass(),
        }
    }

    /// Ends a write; whether the key was there is its answer.
    #[inline(always)]
    fn done(&self, of: &mut LinearWriteState, was_there: bool) -> NextStep<LinearWriteSlowPath> {
        self.take_back(of);
        NextStep::was_there(was_there)
    }

    /// Gives the block back of a record that no slot has come to name.
    #[inline(always)]
    fn take_back(&self, of: &mut LinearWriteState) {
        if let Some(heap) = &self.table.heap {
            of.record.take_back(heap);
        }
    }
}

impl LinearWriteState {
    /// Goes on behind the slot that is looked at.
    #[inline]
    fn pass(&mut self) -> NextStep<LinearWriteSlowPath> {
        self.search.distance += 1;
        self.search.stage = Stage::Slots;
        NextStep::LookOn
    }

    /// What an error says where some of the key's records are gone: that a turn was over does not
    /// mean that nothing has changed.
    fn in_doubt_if_removed(&self, error: IndexError) -> IndexError {
        match error {
            IndexError::TurnOver { .. } if self.removed > 0 => {
                IndexError::TurnOver { in_doubt: true }
            }
            error => error,
        }
    }
}

impl Write<'_> {
    /// Whether the first record of a slot goes out of band if it is this one.
    pub(super) fn goes_out<E>(&self, table: &LinearTable<E>) -> bool {
        let (key, value) = self.operation.record();
        table.layout.goes_out(key.len() + value.len())
    }
}

/// Refuses what needs unique keys.
fn check_multi_key(operation: &Operation<'_>) -> Result<()> {
    let operation = match operation {
        Operation::Update(..) => "update",
        Operation::Replace(..) => "replacing a value",
        Operation::RemoveIf(..) => "removing a value",
        _ => return Ok(()),
    };
    Err(IndexError::MultiKey { operation })
}
