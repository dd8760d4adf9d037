//! Putting, finding or putting, updating and removing, in steps.
//!
//! Invariant: a write holds the buckets of what it changes. The index says where everything is: so
//! the path to a free slot is known, and held, before anything is read. What must be read, the
//! slots that match the key and those that are to be moved, is read at once, and all is written by
//! one batch. Where the memory is mapped, what is looked at first is fetched before it is held, so
//! that others are looked at meanwhile; and what would make room is read only for a key that needs
//! it.
//!
//! At every moment of an update, a slot with the key's head is whole and its record the last one
//! that was acknowledged, or a newer one: in its place, or in the journal, which goes first. So an
//! owner may stop anywhere.
//!
//! For a removal, a slot's head is the key's hash: so one compare-and-swap both sees whose record
//! it is and makes the slot dead. What stays of the record is behind a head of 0, which is none:
//! nothing brings it back. Where the index is published, the word that publishes the record is
//! swapped out before, and for that the slot is read first.
//!
//! What is done with the key's own slot is in `own.rs`, where a new key goes in `insert.rs`, and
//! what is waited for in `slow_path.rs`.

use super::batch::Body;
use super::bytes::{SLOT_HEADER, SlotNumber};
use super::changes::Batch;
use super::placement::{BucketMatch, Candidates, Entry, Path, Placement};
use super::state::{DuoTable, Key};
use crate::client::locks::Held;
use crate::heap::{BlockRef, Draft, Heap, Purpose, TableWrite};
use crate::step::{Counted, LIKELY, Lookup, MOST_PIECES, NextStep, ReadPieces, Reads, failed};
use crate::{IndexError, Operation, Result, SchemeClient};
use farslot_fabric::{Buffer, Endpoint, EndpointExt, InPlace, Piece, Pieces, Tally, both};
use smallvec::SmallVec;
use std::cell::Cell;

/// The writes of a table; also its lookups with the key's buckets held.
pub(super) struct Writes<'t, E> {
    pub(super) table: &'t DuoTable<E>,
    is_mapped: Cell<bool>,
    /// Whether blocks of the heap may be used, as far as is known since the last wait.
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
pub(crate) struct DuoWriteState<'t> {
    pub(super) held: Option<Held<'t>>,
    /// Whether nobody else holds anything.
    pub(super) alone: bool,
    pub(super) stage: Stage,
    pub(super) of: Candidates,
    /// How many buckets each array had then, if no growth was under way.
    buckets: Option<u64>,
    /// The slots that match the key, so many, and those whose records are to be moved; and how many
    /// of them were looked at.
    pub(super) slots: SmallVec<[SlotNumber; 4]>,
    pub(super) matches: usize,
    pub(super) looked: usize,
    /// How often slots were not whole that were read.
    pub(super) attempts: u32,
    /// Whether it was seen that the key is probably there.
    is_there: bool,
    /// The heads of the slots that match and are other keys'.
    pub(super) heads: SmallVec<[u64; 2]>,
    /// Slots with the key's head, and the words that name their blocks, which are still to be read.
    pub(super) named: SmallVec<[(SlotNumber, u64, BlockRef); 1]>,
    pub(super) moved: SmallVec<[RelocatedSlot; 2]>,
    /// The way by which a new key would enter, held, once that was looked for.
    pub(super) path: Option<Option<Path>>,
    pub(super) place: Option<InsertionPlace>,
    /// The key's own slot, and the word behind its head.
    pub(super) key_slot: SlotNumber,
    pub(super) second: u64,
    /// The block whose record is read.
    pub(super) block: Option<BlockRef>,
    /// A slot of the journal that nobody else uses.
    pub(super) journal: Option<SlotNumber>,
    pub(super) record: Draft,
    pub(super) aim: DuoWriteAim,
    pub(super) batch: Batch,
    /// Whether what names the block of a slot that was made dead could not be read.
    pub(super) is_unread: bool,
    /// The slot that was not as the index has it.
    unlike: Option<SlotNumber>,
    /// How often room was made in the heap, which was full.
    pub(super) cleaned: u32,
}

/// What a write needs besides READs and changes.
#[derive(Clone, Copy)]
pub(crate) enum DuoWriteSlowPath {
    /// Its buckets, split if it inserts, or all, if it is to be alone; and to be the owner, with
    /// nothing in doubt.
    Hold { alone: bool },
    /// A slot that is not whole may be so later.
    ReadAgain(SlotNumber),
    /// A slot of the journal.
    Journal,
    /// A block for the record.
    Block,
    /// Scans are to see that records move.
    CountMoves,
    /// There is no place for a new key: the table is to grow.
    Full,
    /// It is done; the table grows, or keys leave the stash.
    After { was_there: bool },
}

/// A place for a new key, held.
pub(crate) struct InsertionPlace {
    pub(super) path: Path,
    pub(super) entry: Entry,
}

/// A slot that was read, whose record is to be moved.
pub(crate) struct RelocatedSlot {
    pub(super) head: u64,
    pub(super) second: u64,
    pub(super) body: Body,
}

/// What is read.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// The slot that is probably the key's, or will be, while nothing is held.
    #[default]
    Ahead,
    /// Slots.
    Slots,
    /// The record that a slot names.
    Record,
}

/// What is changed.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum DuoWriteAim {
    #[default]
    Insert,
    Replace,
    Remove,
}

impl<E: Endpoint> DuoTable<E> {
    /// Its writes.
    pub(super) fn writes(&self) -> Writes<'_, E> {
        Writes {
            table: self,
            is_mapped: Cell::new(false),
            may_use_blocks: Cell::new(false),
        }
    }
}

impl<'t, E: Endpoint> Lookup for Writes<'t, E> {
    const WRITES: bool = true;
    const LOOKS_ON: bool = false;
    const MAKES_CHANGES: bool = true;
    const PREPARES: bool = true;

    type Endpoint = E;
    type Asked<'k> = TableWrite<'k>;
    type Key<'k> = Write<'k>;
    type Search = DuoWriteState<'t>;
    type SlowPath = DuoWriteSlowPath;

    #[inline(always)]
    fn endpoint(&self) -> &E {
        &self.table.endpoint
    }

    #[inline]
    fn in_place(&self) -> Option<InPlace<'_>> {
        let view = self.table.view_to_change();
        let heap = self.table.heap.as_ref();
        self.may_use_blocks
            .set(Heap::may_use_blocks(heap, view.is_some()));
        self.is_mapped.set(view.is_some());
        view
    }

    #[inline]
    fn has_to_report(&self) -> bool {
        self.table.has_to_report()
    }

    async fn report(&self) {
        let _ = self.table.report().await;
    }

    #[inline]
    fn key<'k>(&self, asked: Self::Asked<'k>) -> Result<Write<'k>> {
        let TableWrite { operation, only_in } = asked;
        debug_assert!(only_in.is_none() || self.table.heap.is_some());
        if let Operation::Replace(..) | Operation::RemoveIf(..) = operation {
            return Err(DuoTable::<E>::not_atomic());
        }
        let key = self.table.key(operation.key())?;
        if let Some(value) = operation.value() {
            self.table.layout.shape().check_value(value)?;
        }
        Ok(Write {
            operation,
            only_in,
            key,
        })
    }

    #[inline]
    fn prepare(&self, write: &Self::Key<'_>, of: &mut DuoWriteState<'t>) {
        let index = self.table.index.borrow();
        of.buckets = None;
        index.prefetch(&of.candidates(&index, write));
    }

    #[inline]
    fn begin(
        &self,
        write: &Self::Key<'_>,
        of: &mut DuoWriteState<'t>,
    ) -> NextStep<DuoWriteSlowPath> {
        of.held = None;
        (of.attempts, of.is_there) = (0, false);
        (of.journal, of.record) = (None, Draft::None);
        of.cleaned = 0;
        match self.is_mapped.get() {
            true => self.fetch(write, of),
            false => self.plan(write, of),
        }
    }

    #[inline]
    fn piece(&self, write: &Self::Key<'_>, of: &DuoWriteState<'t>, number: usize) -> Piece {
        let table = self.table;
        let piece = |slot, len| Piece {
            from: table.slot_at(slot),
            len,
        };
        match of.stage {
            Stage::Ahead if number == 1 => table.published_word(of.slots[0]),
            Stage::Ahead | Stage::Slots => match write.removes() {
                true => piece(of.slots[of.looked], SLOT_HEADER),
                false => piece(of.slots[of.looked + number], table.layout.slot_bytes()),
            },
            Stage::Record => self.heap().piece(of.block()),
        }
    }

    #[inline]
    fn likely_bytes(&self, of: &DuoWriteState<'t>, len: usize) -> usize {
        match of.stage {
            Stage::Record => len.min(LIKELY),
            _ => len,
        }
    }

    #[inline]
    fn look(
        &self,
        write: &Self::Key<'_>,
        of: &mut DuoWriteState<'t>,
        read: &mut impl ReadPieces,
    ) -> NextStep<DuoWriteSlowPath> {
        match of.stage {
            Stage::Ahead => self.look_ahead(write, of, read),
            Stage::Record => self.look_at_record(write, of, read),
            _ if write.removes() => self.look_at_header(write, of, read),
            _ => self.look_at_slots(write, of, (read, MOST_PIECES)),
        }
    }

    #[inline]
    fn make(
        &self,
        of: &mut DuoWriteState<'t>,
        view: InPlace<'_>,
        tally: &mut Tally,
    ) -> Option<(u32, u64)> {
        // One that was deposed is told so where it would post.
        let is_owner = self.table.is_owner();
        let made = is_owner.then(|| self.table.make(view, &of.batch, tally));
        let (unlike, verbs, bytes) = made.flatten()?;
        of.unlike = unlike;
        self.is_named(of);
        Some((verbs, bytes))
    }

    async fn post(&self, of: &mut DuoWriteState<'t>, pieces: Pieces) -> Result<Vec<Buffer>> {
        let (table, endpoint) = (self.table, &self.table.endpoint);
        let is_owner = self.check_owner(of);
        if let Err(error) = is_owner.and_then(|()| table.take_buffers(&mut of.batch)) {
            // Nothing was posted.
            let journal = of.journal.take();
            journal.inspect(|slot| table.journal.give_back(*slot));
            return Err(error);
        }
        // From now on a slot may name its block.
        let record = std::mem::take(&mut of.record);
        let posting = table.post(&mut of.batch);
        let Some(Piece { from, len }) = pieces.first() else {
            of.unlike = posting.await?;
            of.record = record;
            self.is_named(of);
            return Ok(Vec::new());
        };
        let (unlike, read) = both(posting, endpoint.read(*from, *len)).await;
        of.unlike = unlike?;
        of.record = record;
        self.is_named(of);
        // The slot is dead already: if it could not be read, the block is lost.
        of.is_unread = read.is_err();
        Ok(read.into_iter().collect())
    }

    #[inline]
    fn changed(
        &self,
        write: &Self::Key<'_>,
        of: &mut DuoWriteState<'t>,
        _: u64,
        read: &mut impl ReadPieces,
    ) -> NextStep<DuoWriteSlowPath> {
        match of.unlike.take() {
            Some(_) if of.batch.is_attempt => {
                of.looked += 1;
                return self.remove_next(write, of);
            }
            Some(slot) => return failed(self.table.lost(slot)),
            None => {}
        }
        match of.aim {
            DuoWriteAim::Insert => self.inserted(write, of),
            DuoWriteAim::Replace => {
                let journal = of.journal.take();
                journal.inspect(|slot| self.table.journal.give_back(*slot));
                self.free(of);
                self.ended(write, of, true)
            }
            DuoWriteAim::Remove => {
                if of.batch.is_attempt && self.table.heap.is_some() && !of.is_unread {
                    of.second = read.word(0, 1);
                }
                self.table.change_index(|index| index.vacate(of.key_slot));
                self.table.counts.change(-1, -1);
                self.free(of);
                self.ended(write, of, true)
            }
        }
    }

    async fn slow_path(
        &self,
        write: &Self::Key<'_>,
        of: &mut DuoWriteState<'t>,
        slow: DuoWriteSlowPath,
    ) -> Result<NextStep<DuoWriteSlowPath>> {
        self.may_use_blocks.set(false);
        // Boxed, for it is rare: every write would be as large.
        let next = match Box::pin(self.take_slow_path(write, of, slow)).await {
            // Room for a record that moves is made by who moves it.
            Err(full @ IndexError::HeapFull { .. }) if write.only_in.is_none() => {
                Box::pin(self.clean(of, full)).await
            }
            next => next,
        };
        // Others have looked meanwhile.
        self.may_use_blocks.set(false);
        next
    }

    async fn give_up(&self, _: &Self::Key<'_>, of: &mut DuoWriteState<'t>, _: &IndexError) {
        // Of one whose change was posted the record is gone: a slot may name its block.
        if let Some(heap) = self.table.current_heap()
            && self.table.is_owner()
        {
            of.record.take_back(heap);
        }
        of.held = None;
    }
}

impl<'t, E: Endpoint> Writes<'t, E> {
    /// The heap of a table that has one.
    pub(super) fn heap(&self) -> &'t Heap<E> {
        let heap = self.table.heap.as_ref();
        heap.expect("a slot names a block of a heap")
    }

    /// Fails if a write of another lane or thread has found meanwhile that another client is the
    /// owner.
    #[inline]
    pub(super) fn check_owner(&self, of: &DuoWriteState<'t>) -> Result<()> {
        match self.table.is_owner() {
            true => Ok(()),
            false => Err(self.table.lost(of.slot_to_change())),
        }
    }

    /// Has the slot fetched that is probably the key's, or that a new key would get, and what
    /// publishes it.
    #[inline]
    fn fetch(&self, write: &Write<'_>, of: &mut DuoWriteState<'t>) -> NextStep<DuoWriteSlowPath> {
        let table = self.table;
        let met = {
            let index = table.index.borrow();
            index.met_by(&of.candidates(&index, write))
        };
        let (slot, is_match) = match met {
            BucketMatch::Match(slot) => (slot, true),
            BucketMatch::Free(slot) if write.inserts() => (slot, false),
            BucketMatch::Free(_) | BucketMatch::Full => return self.plan(write, of),
        };
        (of.stage, of.looked, of.is_there) = (Stage::Ahead, 0, is_match);
        of.slots.clear();
        of.slots.push(slot);
        let is_published = table.versions.is_some();
        let reads = match is_match && (!write.removes() || self.looks_first(write)) {
            true => Reads::ONE,
            false => Reads::fetched(1 + usize::from(is_published)),
        };
        // Of memory that the table has grown into nothing is fetched by READs.
        if slot.0 >= table.layout.slots() && !self.are_mapped(write, of, reads.pieces) {
            return self.plan(write, of);
        }
        if let Some(versions) = &table.versions {
            versions.prefetch(table.layout.page_of(slot).0);
        }
        NextStep::Read(reads)
    }

    /// Whether a removal looks at the word behind a slot's head before it makes the slot dead.
    #[inline]
    pub(super) fn looks_first(&self, write: &Write<'_>) -> bool {
        self.table.layout.published || write.only_in.is_some()
    }

    /// Whether so many pieces are in the mapping.
    #[cold]
    fn are_mapped(&self, write: &Write<'_>, of: &DuoWriteState<'t>, pieces: usize) -> bool {
        self.table.view_to_change().is_some_and(|view| {
            let mut pieces = (0..pieces).map(|number| self.piece(write, of, number));
            pieces.all(|piece| view.offset_of(piece).is_some())
        })
    }

    /// Holds what was fetched, and looks at it if that is still what is to be looked at.
    #[inline]
    fn look_ahead<R: ReadPieces>(
        &self,
        write: &Write<'_>,
        of: &mut DuoWriteState<'t>,
        read: &mut R,
    ) -> NextStep<DuoWriteSlowPath> {
        // A free slot was fetched without being booked as read: should it be a match by now, it is
        // read once it is held.
        let fetched = Some(of.slots[0]).filter(|_| of.is_there);
        // A slot that will be filled need not be waited for.
        of.is_there = of.is_there && R::IS_LIVE && read.word(0, 0) == write.key.head();
        let next = self.plan(write, of);
        match next {
            NextStep::Read(_) if !R::IS_LIVE || Some(of.slots[0]) != fetched => next,
            NextStep::Read(_) if write.removes() => self.look_at_header(write, of, read),
            // Over verbs, those that are to be moved are read with it.
            NextStep::Read(_) => match self.look_at_slots(write, of, (read, 1)) {
                NextStep::Read(reads) if of.stage == Stage::Slots => NextStep::Read(Reads {
                    counted: Counted::WithLast,
                    ..reads
                }),
                next => next,
            },
            next => next,
        }
    }

    /// Holds the key's buckets, if that needs no waiting.
    #[inline]
    fn try_hold(&self, index: &Placement, write: &Write<'_>, of: &mut DuoWriteState<'t>) -> bool {
        let table = self.table;
        let buckets = index.buckets_of(&of.of);
        of.held = table.locks.try_take(&buckets);
        let is_split = !write.inserts() || index.are_split(buckets);
        if of.held.is_some() && !(is_split && table.is_settled()) {
            of.held = None;
        }
        of.alone = false;
        of.held.is_some()
    }

    /// Asks the index for the slots that match the key, and for the place of a new one.
    #[inline]
    pub(super) fn plan(
        &self,
        write: &Write<'_>,
        of: &mut DuoWriteState<'t>,
    ) -> NextStep<DuoWriteSlowPath> {
        let index = self.table.index.borrow();
        of.candidates(&index, write);
        if of.held.is_none() && !self.try_hold(&index, write, of) {
            return NextStep::SlowPath(DuoWriteSlowPath::Hold { alone: false });
        }
        (of.stage, of.looked) = (Stage::Slots, 0);
        (of.path, of.place) = (None, None);
        of.slots.clear();
        of.heads.clear();
        of.named.clear();
        of.moved.clear();
        let matches = index.matches_of(write.key.hash, &of.of);
        matches.for_each(|slot| of.slots.push(slot));
        of.matches = of.slots.len();
        if write.removes() {
            drop(index);
            return self.remove_next(write, of);
        }
        // What is found here is still so when it is held: who changes the index waits.
        if of.matches == 0
            && write.inserts()
            && let [first, second] = index.buckets_of(&of.of)
            && let Some(slot) = index.room_in([second, first])
        {
            drop(index);
            return self.insert_at(write, of, InsertionPlace::free(slot));
        }
        // So it takes no round trip more, should the key be new.
        if write.inserts() && !of.is_there {
            Self::find_path(&index, of);
            // What is held since then may be in doubt: who has left it so has said so before it
            // released it.
            if of.slots.len() > of.matches && self.is_in_doubt(of) {
                return NextStep::SlowPath(DuoWriteSlowPath::Hold { alone: true });
            }
        }
        drop(index);
        self.read_slots(write, of)
    }

    /// Frees the block that the key's slot has named, if it is one of a heap.
    #[inline]
    fn free(&self, of: &mut DuoWriteState<'t>) {
        if let Some(heap) = self.table.current_heap()
            && let Some(block) = self.table.layout.block_of(of.second)
        {
            heap.free(block);
        }
    }

    #[inline]
    fn is_named(&self, of: &mut DuoWriteState<'t>) {
        if let Some(heap) = &self.table.heap {
            of.record.is_named(heap);
        }
    }

    /// Whether blocks may be used without a claim, and what for.
    #[inline]
    pub(super) fn uses(&self, write: &Write<'_>) -> (bool, Purpose) {
        (self.may_use_blocks.get(), Purpose::of(write.only_in))
    }

    /// Ends a write that has changed something.
    #[inline]
    pub(super) fn ended(
        &self,
        write: &Write<'_>,
        of: &mut DuoWriteState<'t>,
        was_there: bool,
    ) -> NextStep<DuoWriteSlowPath> {
        let table = self.table;
        let has_more_to_do = match of.aim {
            DuoWriteAim::Insert => table.growth.is_some() && table.step_due().is_some(),
            DuoWriteAim::Replace => false,
            DuoWriteAim::Remove => table.stashed() > 0 && table.is_any_returning(write.key.hash),
        };
        if has_more_to_do {
            return NextStep::SlowPath(DuoWriteSlowPath::After { was_there });
        }
        of.held = None;
        NextStep::was_there(was_there)
    }
}

impl DuoWriteState<'_> {
    /// Where its key may be: the index is asked again only if that may have changed.
    #[inline(always)]
    fn candidates(&mut self, index: &Placement, write: &Write<'_>) -> Candidates {
        let buckets = index.buckets_without_growth();
        if buckets.is_none() || buckets != self.buckets {
            self.of = index.candidates(write.key.hash);
            self.buckets = buckets;
        }
        self.of
    }

    /// The slot of the key that it changes.
    fn slot_to_change(&self) -> SlotNumber {
        let new = self.place.as_ref();
        new.map_or(self.key_slot, |place| place.path.slots[0])
    }

    pub(super) fn block(&self) -> BlockRef {
        self.block.expect("a record is read of a block")
    }
}

impl Write<'_> {
    #[inline]
    pub(super) const fn inserts(&self) -> bool {
        matches!(
            self.operation,
            Operation::Put(..) | Operation::FindOrPut(..)
        )
    }

    #[inline]
    pub(super) const fn removes(&self) -> bool {
        matches!(self.operation, Operation::Remove(_))
    }
}
