//! Putting a record under a key, finding or putting, replacing a value and removing a key, in
//! steps.
//!
//! All of them look at the key's slots first, and at the records of those with its tag. A slot of
//! the key's own has its word swapped: for that of another record, or of an empty slot, which then
//! is there for whichever key comes next. That swap expects the word that named the record which
//! was seen, so that no other value is replaced or removed. If it is lost, the write begins again.
//!
//! Of a record that is to be replaced or removed whatever its value, the key and the generation are
//! enough: whoever then swaps the word that named the block knows that the block had this use all
//! the while, and that what a word names was whole before.
//!
//! How a new key is put, `insert.rs` says.

use super::client::{Key, RaceTable};
use super::directory::SubtableLeaf;
use super::search::Learnt;
use super::seen::{Marked, SlotWord, TaggedSlots, slots_of, span_of};
use super::view::View;
use super::word::{State, Word};
use crate::heap::{BlockRef, Draft, Heap, Purpose, RecordView, TableWrite};
use crate::step::{
    Change, FastPath, Lookup, MOST_PIECES, NextStep, ReadPieces, Reads, RecordPath, Swap,
    ValueLocation, drive, has_key, record_in, view_to_write,
};
use crate::{IndexError, Operation, Result};
use farslot_fabric::{Endpoint, InPlace, Piece, both};
use std::cell::Cell;

/// The writes of a table.
pub(super) struct Writes<'t, E> {
    pub(super) table: &'t RaceTable<E>,
    /// Whether blocks of the heap may be used, as far as is known since the last wait: a look at
    /// the clock costs as much as a swap.
    pub(super) may_use_blocks: Cell<bool>,
}

/// A write whose key and value were checked.
pub(crate) struct Write<'k> {
    pub(super) operation: Operation<'k>,
    /// The record that is to be changed is that in this block, and no other one.
    pub(super) only_in: Option<BlockRef>,
    pub(super) key: Key<'k>,
}

/// How far a write has come.
#[derive(Default)]
pub(crate) struct RaceWriteState {
    pub(super) stage: Stage,
    pub(super) leaf: SubtableLeaf,
    pub(super) seen: TaggedSlots,
    /// Slots with the key's tag; the first of those whose records are read, and how many are.
    candidates: Marked,
    first: usize,
    count: usize,
    pub(super) learnt: Learnt,
    pub(super) record: Draft,
    /// The slot whose word is swapped, what it must be, and what it becomes.
    pub(super) slot: u64,
    pub(super) expected: Word,
    pub(super) new: Word,
    /// What stands in that slot, while an insertion of its own is begun there.
    pub(super) begun: Option<Word>,
    pub(super) rivals: Rivals,
}

/// What is under way.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// The key's slots are read, behind the WRITE of the record if that is needed in any case.
    #[default]
    Slots,
    /// The records of those with its tag are read.
    Records,
    /// The word of the key's own slot is swapped.
    Own,
    /// An insertion is begun.
    Begin,
    /// It is made live.
    Live,
    /// It is undone.
    Undo,
}

/// What an insertion knows of others that are not decided.
#[derive(Default)]
pub(super) struct Rivals {
    /// Those that it has met, and given the time to become live or to give way.
    pub(super) met: Vec<SlotWord>,
    /// Whether to give them that time before it begins again.
    pub(super) wait: bool,
}

/// What a write needs besides READs and changes.
pub(crate) enum RaceWriteSlowPath {
    /// Some slots of a split that this client has begun are migrated beside it.
    CarryOver,
    /// A block for the record, before this stage.
    Block(Stage),
    /// The slots, of which this was seen, are not all of the depth that the directory has.
    Unsettled(Box<Result<View>>),
    /// The record of this slot is not that of its word.
    Unclear(u64),
    /// Another was faster at this slot.
    LostRace(u64),
    /// There is no empty slot for a new key.
    MakeRoom,
    /// Others have begun to insert the key too.
    Rivals,
    /// Its own insertion is undone: others are given some time, if they are to have it.
    GaveWay,
}

impl<E: Endpoint> RaceTable<E> {
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
    type Search = RaceWriteState;
    type SlowPath = RaceWriteSlowPath;

    #[inline(always)]
    fn endpoint(&self) -> &E {
        &self.table.endpoint
    }

    #[inline]
    fn in_place(&self) -> Option<InPlace<'_>> {
        let view = view_to_write(&*self.table.endpoint, self.table.table);
        let heap = Some(&self.table.heap);
        self.may_use_blocks
            .set(Heap::may_use_blocks(heap, view.is_some()));
        view
    }

    #[inline]
    fn record_path<'k>(
        &self,
        _: &InPlace<'_>,
        (first, writes): (Self::Asked<'k>, usize),
    ) -> Option<impl FastPath<Self::Asked<'k>>> {
        let replaces_some = self.table.heap.replaces_some(first, writes);
        let is_usual = replaces_some && self.table.to_finish.borrow().is_empty();
        is_usual.then(|| RecordPath::new(self.table, self.may_use_blocks.get()))
    }

    #[inline]
    fn most_at_once(&self, first: Self::Asked<'_>) -> usize {
        self.table.heap.most_at_once(first)
    }

    #[inline]
    fn has_to_report(&self) -> bool {
        self.table.has_to_report()
    }

    async fn report(&self) {
        let _ = self.table.report_changes().await;
    }

    #[inline]
    fn key<'k>(&self, asked: Self::Asked<'k>) -> Result<Write<'k>> {
        let TableWrite { operation, only_in } = asked;
        if let Some(value) = operation.value() {
            self.table.layout.shape().check_value(value)?;
        }
        let key = self.table.checked_key(operation.key())?;
        Ok(Write {
            operation,
            only_in,
            key,
        })
    }

    #[inline]
    fn begin(&self, write: &Self::Key<'_>, of: &mut RaceWriteState) -> NextStep<RaceWriteSlowPath> {
        of.learnt.forget();
        of.rivals.met.clear();
        of.rivals.wait = false;
        of.record = Draft::None;
        of.begun = None;
        match self.table.to_finish.borrow().is_empty() {
            true => self.look_first(write, of),
            false => NextStep::SlowPath(RaceWriteSlowPath::CarryOver),
        }
    }

    #[inline]
    fn piece(&self, write: &Self::Key<'_>, of: &RaceWriteState, number: usize) -> Piece {
        match of.stage {
            Stage::Records => {
                let (_, word) = of.candidates[of.first + number];
                self.table.heap.piece(word.block())
            }
            _ => {
                let span = span_of(&write.key, number);
                self.table
                    .piece_of(of.leaf.subtable, span.first, span.slots)
            }
        }
    }

    #[inline]
    fn look(
        &self,
        write: &Self::Key<'_>,
        of: &mut RaceWriteState,
        read: &mut impl ReadPieces,
    ) -> NextStep<RaceWriteSlowPath> {
        match of.stage {
            Stage::Records => self.look_at_records(write, of, read),
            _ => self.look_at_slots(write, of, read),
        }
    }

    #[inline]
    fn change<'k>(&self, write: &Self::Key<'k>, of: &RaceWriteState) -> Change<'k> {
        let record = of
            .record
            .unwritten(&self.table.heap, write.operation.record());
        let swap = (of.stage != Stage::Slots).then(|| Swap {
            at: self.table.slot_at(of.leaf.subtable, of.slot),
            expected: of.expected.0,
            new: of.new.0,
        });
        Change { record, swap }
    }

    #[inline]
    fn changed(
        &self,
        write: &Self::Key<'_>,
        of: &mut RaceWriteState,
        seen: u64,
        read: &mut impl ReadPieces,
    ) -> NextStep<RaceWriteSlowPath> {
        of.record.is_written();
        let is_swapped = seen == of.expected.0;
        match of.stage {
            Stage::Slots | Stage::Records => self.look_at_slots(write, of, read),
            Stage::Undo => {
                // If it was undone before, there is nothing to take back.
                of.begun = None;
                NextStep::SlowPath(RaceWriteSlowPath::GaveWay)
            }
            Stage::Live if !is_swapped => {
                of.begun = None;
                NextStep::SlowPath(RaceWriteSlowPath::LostRace(of.slot))
            }
            Stage::Own | Stage::Begin if !is_swapped => {
                NextStep::SlowPath(RaceWriteSlowPath::LostRace(of.slot))
            }
            Stage::Own => self.replaced(write, of),
            Stage::Begin => {
                of.begun = Some(of.new);
                self.look_at_slots(write, of, read)
            }
            Stage::Live => {
                of.record.is_named(&self.table.heap);
                self.table.counts.change(1, 1);
                self.done(of, false)
            }
        }
    }

    async fn slow_path(
        &self,
        write: &Self::Key<'_>,
        of: &mut RaceWriteState,
        slow: RaceWriteSlowPath,
    ) -> Result<NextStep<RaceWriteSlowPath>> {
        self.may_use_blocks.set(false);
        let (table, leaf) = (self.table, of.leaf);
        match slow {
            RaceWriteSlowPath::CarryOver => {
                let writing = async {
                    let next = self.look_first(write, of);
                    drive(self, write, of, next).await
                };
                let (was, _) = Box::pin(both(writing, table.go_on_splitting())).await;
                return Ok(match was? {
                    Some(value) => NextStep::Found(ValueLocation::Value(Box::new(value))),
                    None => NextStep::Absent,
                });
            }
            RaceWriteSlowPath::Block(stage) => {
                let record = write.operation.record();
                let purpose = Purpose::of(write.only_in);
                let got = of.record.get_block(&table.heap, record, purpose, table);
                got.await?;
                return Ok(self.with_record(write, of, stage));
            }
            RaceWriteSlowPath::Unsettled(view) => {
                table
                    .make_current((*view)?, &write.key, &of.learnt.attempts)
                    .await?;
            }
            RaceWriteSlowPath::Unclear(slot) => table.was_unclear(&of.learnt, leaf, slot).await?,
            RaceWriteSlowPath::LostRace(slot) => table.lost_race(&of.learnt, leaf, slot).await?,
            RaceWriteSlowPath::MakeRoom => {
                table.make_room(write, of).await?;
                let first = write.key.buckets.pairs[0].main;
                table.lost_race(&of.learnt, leaf, first).await?;
            }
            RaceWriteSlowPath::Rivals => match self.meet_rivals(of).await? {
                Some(next) => return Ok(next),
                None => table.lost_race(&of.learnt, leaf, of.slot).await?,
            },
            RaceWriteSlowPath::GaveWay => {
                self.let_rivals_go_first(of).await?;
                table.lost_race(&of.learnt, leaf, of.slot).await?;
            }
        }
        Ok(self.look_again(write, of))
    }

    async fn give_up(&self, _: &Self::Key<'_>, of: &mut RaceWriteState, error: &IndexError) {
        // A swap that was to begin it may have done so, though what was to be read behind it was
        // not.
        let may_be_begun = (of.stage == Stage::Begin).then_some(of.new);
        let is_undone = match of.begun.take().or(may_be_begun) {
            // If it cannot be undone now, whoever meets it does so.
            Some(begun) => self.table.undo(of.leaf, (of.slot, begun)).await.is_ok(),
            None => true,
        };
        let record = std::mem::take(&mut of.record);
        // One that left with a swap may be named by the slot, wherever a split has carried that.
        let may_be_named = of.stage != Stage::Slots && !matches!(record, Draft::Written(_));
        if is_undone && !may_be_named {
            record.give_up(&self.table.heap, error);
        }
    }
}

impl<E: Endpoint> Writes<'_, E> {
    /// Looks at the key's slots, and with that writes the record, of operations that need it in any
    /// case.
    #[inline]
    fn look_first(
        &self,
        write: &Write<'_>,
        of: &mut RaceWriteState,
    ) -> NextStep<RaceWriteSlowPath> {
        of.leaf = self.table.leaf_of(&write.key);
        match write.operation {
            Operation::Put(..) | Operation::Update(..) | Operation::Replace(..)
                if write.only_in.is_none() =>
            {
                self.with_record(write, of, Stage::Slots)
            }
            _ => self.look_again(write, of),
        }
    }

    /// Looks at the key's slots: while an insertion of its own is begun, at those that it is begun
    /// in.
    #[inline]
    fn look_again(
        &self,
        write: &Write<'_>,
        of: &mut RaceWriteState,
    ) -> NextStep<RaceWriteSlowPath> {
        if of.begun.is_none() {
            of.leaf = self.table.leaf_of(&write.key);
        }
        of.stage = Stage::Slots;
        NextStep::Read(slots_of(&write.key))
    }

    #[inline]
    fn look_at_slots(
        &self,
        write: &Write<'_>,
        of: &mut RaceWriteState,
        read: &mut impl ReadPieces,
    ) -> NextStep<RaceWriteSlowPath> {
        let (table, key) = (self.table, &write.key);
        let is_settled = of.seen.look::<true>(read, of.leaf, key);
        if !is_settled || table.directory.borrow().leaf(of.leaf.subtable) != of.leaf {
            return match of.begun {
                // A split has come: this insertion gives way.
                Some(_) => self.give_way(of),
                None => {
                    let view = View::copied(read, of.leaf, key, &table.endpoint.core().buffers);
                    NextStep::SlowPath(RaceWriteSlowPath::Unsettled(Box::new(view)))
                }
            };
        }
        if let Some(begun) = of.begun
            && !of.seen.marked.contains(&(of.slot, begun))
        {
            // Another has undone it.
            return self.give_way(of);
        }
        if let Some(block) = write.only_in {
            // Its record is known to be the key's.
            let published = Word::begun(of.leaf.depth, key.tag, block).in_state(State::Live);
            let begun = Word::begun(of.leaf.depth, key.tag, block);
            let mut marked = of.seen.marked.iter();
            return match marked.find(|(_, word)| *word == published || *word == begun) {
                Some(&published) if published.1 != begun => self.at_own(write, of, published),
                // That insertion is not to become live with a block that is about to be freed.
                Some(&(slot, begun)) => {
                    (of.slot, of.begun) = (slot, Some(begun));
                    self.give_way(of)
                }
                None => self.done(of, false),
            };
        }
        of.candidates.clear();
        for (slot, word) in &of.seen.marked {
            let is_live = word.is_live_at(of.leaf.depth, key.tag);
            if is_live && !of.learnt.foreign.contains(&word.block()) {
                of.candidates.push((*slot, *word));
            }
        }
        (of.first, of.count) = (0, 0);
        self.read_records(write, of)
    }

    /// Has the records of the next candidates read.
    #[inline]
    fn read_records(
        &self,
        write: &Write<'_>,
        of: &mut RaceWriteState,
    ) -> NextStep<RaceWriteSlowPath> {
        of.first += of.count;
        of.count = (of.candidates.len() - of.first).min(MOST_PIECES);
        if of.count == 0 {
            return match of.begun {
                Some(_) => self.is_alone(of),
                None => self.is_absent(write, of),
            };
        }
        of.stage = Stage::Records;
        NextStep::Read(Reads::apart(of.count))
    }

    #[inline]
    fn look_at_records(
        &self,
        write: &Write<'_>,
        of: &mut RaceWriteState,
        read: &mut impl ReadPieces,
    ) -> NextStep<RaceWriteSlowPath> {
        let key_is_enough = write.operation.takes_any_value();
        let key = write.key.bytes;
        let mut unclear = None;
        for piece in 0..of.count {
            let (slot, word) = of.candidates[of.first + piece];
            let block = word.block();
            let len = self.table.heap.piece(block).len;
            if key_is_enough && of.begun.is_none() && has_key(read, piece, block, len, key) {
                return self.at_own(write, of, (slot, word));
            }
            match record_in(read, piece, block, len) {
                Some(record) if record.key == key => match of.begun {
                    Some(_) => return self.give_way(of),
                    None => return self.at_record(write, of, (slot, word), (piece, record)),
                },
                Some(record) if self.table.may_stand_at(record.key, slot, word) => {
                    of.learnt.foreign.push(block);
                }
                _ => unclear = Some(slot),
            }
        }
        match unclear {
            Some(slot) => NextStep::SlowPath(RaceWriteSlowPath::Unclear(slot)),
            None => self.read_records(write, of),
        }
    }

    /// The key has this record.
    #[inline]
    fn at_record(
        &self,
        write: &Write<'_>,
        of: &mut RaceWriteState,
        published: SlotWord,
        (piece, record): (usize, RecordView<'_>),
    ) -> NextStep<RaceWriteSlowPath> {
        match write.operation {
            Operation::FindOrPut(..) | Operation::Get(_) | Operation::GetAll(_) => {
                let bytes = record.value_range();
                let block = of.candidates[of.first + piece].1.block();
                self.table.heap.was_read(block, record.head);
                of.record.take_back(&self.table.heap);
                NextStep::Found(ValueLocation::Bytes { piece, bytes })
            }
            Operation::Replace(_, expected, _) | Operation::RemoveIf(_, expected)
                if record.value != expected =>
            {
                self.done(of, false)
            }
            _ => self.at_own(write, of, published),
        }
    }

    /// Has the word of the key's own slot swapped, for that of an empty one if the key is removed.
    #[inline]
    fn at_own(
        &self,
        write: &Write<'_>,
        of: &mut RaceWriteState,
        (slot, word): SlotWord,
    ) -> NextStep<RaceWriteSlowPath> {
        (of.slot, of.expected) = (slot, word);
        if write.operation.value().is_some() {
            return self.with_record(write, of, Stage::Own);
        }
        of.new = Word::empty(word.depth());
        of.stage = Stage::Own;
        NextStep::Change(Reads::NONE)
    }

    /// The word of the key's own slot is swapped.
    #[inline]
    fn replaced(&self, write: &Write<'_>, of: &mut RaceWriteState) -> NextStep<RaceWriteSlowPath> {
        of.record.is_named(&self.table.heap);
        self.table.heap.free(of.expected.block());
        if write.operation.value().is_none() {
            self.table.counts.change(-1, -1);
        }
        self.done(of, true)
    }

    /// No record is the key's.
    #[inline]
    fn is_absent(&self, write: &Write<'_>, of: &mut RaceWriteState) -> NextStep<RaceWriteSlowPath> {
        match write.operation {
            Operation::Put(..) | Operation::FindOrPut(..) => self.insert(write, of),
            _ => self.done(of, false),
        }
    }

    /// Makes the change of a stage that needs the record, which is written with it if that has not
    /// been done.
    #[inline]
    pub(super) fn with_record(
        &self,
        write: &Write<'_>,
        of: &mut RaceWriteState,
        stage: Stage,
    ) -> NextStep<RaceWriteSlowPath> {
        let uses = (self.may_use_blocks.get(), Purpose::of(write.only_in));
        let record = write.operation.record();
        let Some(block) = of.record.hold(&self.table.heap, record, uses) else {
            return NextStep::SlowPath(RaceWriteSlowPath::Block(stage));
        };
        // No slot is made to name a record live that is not known to be written.
        let is_written = matches!(of.record, Draft::Written(_));
        let stage = match stage {
            Stage::Own if !is_written => Stage::Slots,
            stage => stage,
        };
        of.stage = stage;
        let begun = |depth| Word::begun(depth, write.key.tag, block);
        match stage {
            Stage::Own => {
                of.new = begun(of.expected.depth()).in_state(State::Live);
                NextStep::Change(Reads::NONE)
            }
            Stage::Begin => {
                of.new = begun(of.expected.depth());
                NextStep::Change(slots_of(&write.key))
            }
            _ => NextStep::Change(slots_of(&write.key)),
        }
    }

    /// Ends a write; whether the key was there is its answer.
    #[inline]
    pub(super) fn done(
        &self,
        of: &mut RaceWriteState,
        was_there: bool,
    ) -> NextStep<RaceWriteSlowPath> {
        of.record.take_back(&self.table.heap);
        NextStep::was_there(was_there)
    }
}
