//! Putting, finding or putting, updating and removing, in steps.
//!
//! Invariant: the writer's coroutines hold the buckets of what they change, so that what one has
//! read stays so until it has written. Every change is a compare-and-swap of the word that
//! publishes a slot (its first, or the one that its bucket's slots share) from what was read; one
//! that fails shows that there is another writer.
//!
//! A write holds its key's buckets and reads them. If one slot may be the key's, and is, its word
//! is swapped; a new key goes into a free slot of the roomiest bucket. What is rarer is done beside
//! these steps: displacements and the cuckoo graph (`insert.rs`), buckets of signatures, and
//! several slots that may be the key's.

use super::buckets::Bucket;
use super::client::{CuckooTable, Key};
use super::layout::{CandidateBuckets, CuckooSlot, MOST_WAYS};
use super::path::roomiest;
use crate::client::locks::Held;
use crate::heap::{BlockRef, Draft, Heap, NewRecord, Purpose, TableWrite};
use crate::slot::{KeyRule, SlotHead, SlotKind, WordFormat, in_slot};
use crate::step::{
    Change, LIKELY, Lookup, NextStep, ReadPieces, Reads, Swap, ValueLocation, failed, has_key,
    record_in, view_to_write,
};
use crate::{IndexError, Operation, Result, SchemeClient};
use farslot_fabric::{Endpoint, InPlace, Piece};
use std::cell::Cell;

/// The writes of a table.
pub(super) struct Writes<'t, E> {
    pub(super) table: &'t CuckooTable<E>,
    /// Whether blocks of the heap may be used, as far as is known since the last wait: a look at
    /// the clock costs as much as a swap.
    may_use_blocks: Cell<bool>,
    is_mapped: Cell<bool>,
}

/// A write whose key and value were checked.
pub(crate) struct Write<'k> {
    pub(super) operation: Operation<'k>,
    /// The record that is to be changed is that in this block, and no other one.
    pub(super) only_in: Option<BlockRef>,
    pub(super) key: Key<'k>,
    /// The word of a Word slot that has the record.
    word: u64,
}

/// How far a write has come.
#[derive(Default)]
pub(crate) struct CuckooWriteState<'t> {
    pub(super) held: Option<Held<'t>>,
    stage: Stage,
    /// The buckets that are read, and a copy of them where none of them has a free slot.
    pub(super) set: CandidateBuckets,
    pub(super) buckets: Vec<Bucket>,
    /// A free slot for a new key.
    pub(super) free: Option<CuckooSlot>,
    pub(super) record: Draft,
    aim: CuckooSwapAim,
    /// The slot whose word is swapped, what it must be, and what it becomes.
    pub(super) place: CuckooSlot,
    pub(super) expected: u64,
    new: u64,
    /// How often room was made in the heap, which was full.
    pub(super) cleaned: u32,
}

/// What is read.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Buckets,
    /// The record that a slot names.
    Record,
}

/// What a swap is for.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum CuckooSwapAim {
    /// The key's own slot has another record, or none.
    #[default]
    Own,
    /// The same of a slot that holds its record itself, and names it out of band meanwhile: so that
    /// at every moment the slot has the key, with the old value or the new one.
    Return,
    /// A free slot becomes the key's.
    Insert,
}

/// What a write needs besides READs and changes.
#[derive(Clone, Copy)]
pub(crate) enum CuckooWriteSlowPath {
    /// Its buckets, or all, if it is to be alone; and to be the writer.
    Hold { alone: bool },
    /// Several slots may be the key's, or one that is not whole.
    Look,
    /// Its own slot is changed otherwise than by one swap.
    ChangeOwn,
    /// A place for a new key that finds none, or for which others have to move.
    Place,
    /// A block for the record.
    Block,
}

impl<E: Endpoint> CuckooTable<E> {
    /// Its writes.
    pub(super) fn writes(&self) -> Writes<'_, E> {
        Writes {
            table: self,
            may_use_blocks: Cell::new(false),
            is_mapped: Cell::new(false),
        }
    }

    /// Whether a slot with this first word may be the key's.
    #[inline]
    fn may_be_of(&self, word: u64, key: &Key<'_>) -> bool {
        match self.layout.kind {
            SlotKind::Word => WordFormat::is_live(word) && self.words.same_key(word, key.word),
            _ => self.head(word).may_be(key.hash),
        }
    }
}

impl<'t, E: Endpoint> Lookup for Writes<'t, E> {
    const WRITES: bool = true;

    type Endpoint = E;
    type Asked<'k> = TableWrite<'k>;
    type Key<'k> = Write<'k>;
    type Search = CuckooWriteState<'t>;
    type SlowPath = CuckooWriteSlowPath;

    #[inline(always)]
    fn endpoint(&self) -> &E {
        &self.table.endpoint
    }

    #[inline]
    fn in_place(&self) -> Option<InPlace<'_>> {
        let view = view_to_write(&*self.table.endpoint, self.table.table);
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
        let (table, TableWrite { operation, only_in }) = (self.table, asked);
        debug_assert!(only_in.is_none() || table.layout.kind.has_heads());
        if let Operation::Replace(..) | Operation::RemoveIf(..) = operation {
            return Err(CuckooTable::<E>::not_atomic());
        }
        let key = table.checked_key(operation.key())?;
        let mut word = 0;
        if let Some(value) = operation.value() {
            table.check_value(value)?;
            if table.layout.kind == SlotKind::Word {
                word = table.words.live_word(key.word, value)?;
            }
        }
        Ok(Write {
            operation,
            only_in,
            key,
            word,
        })
    }

    #[inline]
    fn begin(
        &self,
        write: &Self::Key<'_>,
        of: &mut CuckooWriteState<'t>,
    ) -> NextStep<CuckooWriteSlowPath> {
        of.record = Draft::None;
        of.cleaned = 0;
        of.held = None;
        let (table, kind) = (self.table, self.table.layout.kind);
        // What is looked at where it lies need not be held before: it is fetched meanwhile.
        let may_wait = self.is_mapped.get()
            && (table.writer.get().is_some() && !table.sealed.get())
            && (kind != SlotKind::Signatures && !table.predetermines);
        match may_wait || self.try_hold(write, of) {
            true => self.read_buckets(write, of),
            false => NextStep::SlowPath(CuckooWriteSlowPath::Hold { alone: false }),
        }
    }

    #[inline]
    fn piece(&self, _: &Self::Key<'_>, of: &CuckooWriteState<'t>, number: usize) -> Piece {
        match of.stage {
            Stage::Buckets => self.table.piece_of(of.set.as_slice()[number]),
            Stage::Record => self.table.heap().piece(BlockRef::unpack(of.expected)),
        }
    }

    #[inline]
    fn likely_bytes(&self, of: &CuckooWriteState<'t>, len: usize) -> usize {
        match of.stage {
            Stage::Buckets => len,
            Stage::Record => len.min(LIKELY),
        }
    }

    #[inline]
    fn look(
        &self,
        write: &Self::Key<'_>,
        of: &mut CuckooWriteState<'t>,
        read: &mut impl ReadPieces,
    ) -> NextStep<CuckooWriteSlowPath> {
        match of.stage {
            Stage::Buckets => self.look_at_buckets(write, of, read),
            Stage::Record => self.look_at_record(write, of, read),
        }
    }

    #[inline]
    fn change<'k>(&self, write: &Self::Key<'k>, of: &CuckooWriteState<'t>) -> Change<'k> {
        let (table, kind) = (self.table, self.table.layout.kind);
        let (at, record) = (table.slot_at(of.place), write.operation.record());
        let is_in_slot = kind == SlotKind::Inline && of.aim != CuckooSwapAim::Own;
        let record = match &table.heap {
            Some(_) if is_in_slot => Some(NewRecord::in_slot(at.plus(8), record)),
            Some(heap) => of.record.unwritten(heap, record),
            None => None,
        };
        let (expected, new) = (of.expected, of.new);
        let swap = Some(Swap { at, expected, new });
        Change { record, swap }
    }

    #[inline]
    fn changed(
        &self,
        write: &Self::Key<'_>,
        of: &mut CuckooWriteState<'t>,
        seen: u64,
        _: &mut impl ReadPieces,
    ) -> NextStep<CuckooWriteSlowPath> {
        if seen != of.expected {
            of.held = None;
            return failed(self.table.lost(of.place));
        }
        let kind = self.table.layout.kind;
        if of.aim == CuckooSwapAim::Own || of.aim == CuckooSwapAim::Insert && kind == SlotKind::Heap
        {
            // The slot names its block now, if there is one.
            self.is_named(of);
        }
        match of.aim {
            CuckooSwapAim::Own
                if write.operation.value().is_some() && of.is_in_slot(self.table) =>
            {
                (of.aim, of.expected) = (CuckooSwapAim::Return, of.new);
                of.new = write.head_in_slot(self.table);
                NextStep::Change(Reads::NONE)
            }
            CuckooSwapAim::Own | CuckooSwapAim::Return => self.changed_own(write, of),
            CuckooSwapAim::Insert => self.inserted(of),
        }
    }

    async fn slow_path(
        &self,
        write: &Self::Key<'_>,
        of: &mut CuckooWriteState<'t>,
        slow: CuckooWriteSlowPath,
    ) -> Result<NextStep<CuckooWriteSlowPath>> {
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

    async fn give_up(&self, _: &Self::Key<'_>, of: &mut CuckooWriteState<'t>, error: &IndexError) {
        let record = std::mem::take(&mut of.record);
        if let Some(heap) = self.own_heap() {
            record.give_up(heap, error);
        }
        of.held = None;
    }
}

impl<'t, E: Endpoint> Writes<'t, E> {
    /// Holds the key's buckets as the writer, if that needs no waiting.
    #[inline]
    fn try_hold(&self, write: &Write<'_>, of: &mut CuckooWriteState<'t>) -> bool {
        let table = self.table;
        let is_known = table.knows_graph() || !write.inserts();
        if is_known && table.layout.keys == KeyRule::Unique {
            of.held = table.locks.try_take(write.key.candidates.as_slice());
            if of.held.is_some() && !table.is_writing() {
                of.held = None;
            }
        }
        of.held.is_some()
    }

    /// Has the key's buckets read.
    #[inline]
    pub(super) fn read_buckets(
        &self,
        write: &Write<'_>,
        of: &mut CuckooWriteState<'t>,
    ) -> NextStep<CuckooWriteSlowPath> {
        of.stage = Stage::Buckets;
        of.set = self.table.buckets_of_key(&write.key);
        of.buckets.clear();
        of.free = None;
        match of.set.as_slice().len() {
            0 => self.is_absent(write, of),
            _ if self.table.layout.kind == SlotKind::Signatures => {
                NextStep::SlowPath(CuckooWriteSlowPath::Look)
            }
            buckets => NextStep::Read(self.table.reads_of(buckets)),
        }
    }

    #[inline]
    fn look_at_buckets<R: ReadPieces>(
        &self,
        write: &Write<'_>,
        of: &mut CuckooWriteState<'t>,
        read: &mut R,
    ) -> NextStep<CuckooWriteSlowPath> {
        let table = self.table;
        if of.held.is_none() && !(R::IS_LIVE && self.try_hold(write, of)) {
            return NextStep::SlowPath(CuckooWriteSlowPath::Hold { alone: false });
        }
        let (mut all, mut matched, mut matches) = ([(0, None); MOST_WAYS], None, 0);
        let buckets = of.set.as_slice();
        for (piece, (&bucket, (free, first))) in buckets.iter().zip(&mut all).enumerate() {
            let words = read.words(piece);
            for slot in 0..table.layout.bucket_slots as usize {
                let at = slot * table.slot_words;
                let (word, place) = (words(at), CuckooSlot { bucket, slot });
                if word == 0 {
                    *free += 1;
                    *first = first.or(Some(place));
                } else if table.may_be_of(word, &write.key) && self.may_be_own(write, word) {
                    (matched, matches) = (Some((piece, at, place, word)), matches + 1);
                }
            }
        }
        let roomiest = roomiest(all[..buckets.len()].iter().map(|(free, _)| *free));
        of.free = roomiest.and_then(|at| all[at].1);
        match matched {
            None if of.free.is_none() && write.inserts() && !table.predetermines => {
                match table.copies_of(buckets, read) {
                    Ok(buckets) => of.buckets = buckets,
                    Err(error) => return failed(error),
                }
                self.is_absent(write, of)
            }
            None => self.is_absent(write, of),
            Some((piece, at, place, word)) if matches == 1 => {
                (of.place, of.expected) = (place, word);
                self.look_at_own(write, of, (piece, at), read)
            }
            Some(_) => NextStep::SlowPath(CuckooWriteSlowPath::Look),
        }
    }

    /// Whether a slot of the key with this word may be the one that is to be changed.
    #[inline]
    pub(super) fn may_be_own(&self, write: &Write<'_>, word: u64) -> bool {
        let Some(block) = write.only_in else {
            return true;
        };
        self.table.block_in(word) == Some(block)
    }

    /// Looks at the only slot that may be the key's: its first word's number in a piece.
    #[inline]
    fn look_at_own(
        &self,
        write: &Write<'_>,
        of: &mut CuckooWriteState<'t>,
        at: (usize, usize),
        read: &mut impl ReadPieces,
    ) -> NextStep<CuckooWriteSlowPath> {
        let table = self.table;
        if table.layout.kind == SlotKind::Word {
            let word = table.words.value_of_word(of.expected);
            let len = table.layout.value.most();
            return self.at_own(write, of, ValueLocation::Word { word, len });
        }
        match table.head(of.expected) {
            SlotHead::Inline { sum, .. } => match table.inline_in(&write.key, sum, at, read) {
                Some(Some(found)) => self.at_own(write, of, found),
                Some(None) => self.is_absent(write, of),
                None => NextStep::SlowPath(CuckooWriteSlowPath::Look),
            },
            // Its record is known to be the key's.
            SlotHead::Out { .. } if write.only_in.is_some() => self.change_own(write, of),
            SlotHead::Out { .. } => {
                of.stage = Stage::Record;
                NextStep::Read(Reads::ONE)
            }
            _ => self.is_absent(write, of),
        }
    }

    /// Looks at the record that this slot names.
    #[inline]
    fn look_at_record(
        &self,
        write: &Write<'_>,
        of: &mut CuckooWriteState<'t>,
        read: &mut impl ReadPieces,
    ) -> NextStep<CuckooWriteSlowPath> {
        if self.table.writer.get().is_none() {
            return NextStep::SlowPath(CuckooWriteSlowPath::Hold { alone: false });
        }
        let block = BlockRef::unpack(of.expected);
        let len = self.table.heap().piece(block).len;
        let key = write.key.bytes;
        if write.operation.takes_any_value() && has_key(read, 0, block, len, key) {
            return self.change_own(write, of);
        }
        match record_in(read, 0, block, len) {
            Some(record) if record.key == key => {
                let bytes = record.value_range();
                self.at_own(write, of, ValueLocation::Bytes { piece: 0, bytes })
            }
            Some(_) => self.is_absent(write, of),
            None => NextStep::SlowPath(CuckooWriteSlowPath::Look),
        }
    }

    /// The key has this value.
    #[inline]
    pub(super) fn at_own(
        &self,
        write: &Write<'_>,
        of: &mut CuckooWriteState<'t>,
        found: ValueLocation,
    ) -> NextStep<CuckooWriteSlowPath> {
        match write.operation {
            Operation::FindOrPut(..) | Operation::Get(_) | Operation::GetAll(_) => {
                of.held = None;
                NextStep::Found(found)
            }
            _ => self.change_own(write, of),
        }
    }

    /// Has the word of the key's own slot swapped for that of the new record, or of none.
    #[inline]
    fn change_own(
        &self,
        write: &Write<'_>,
        of: &mut CuckooWriteState<'t>,
    ) -> NextStep<CuckooWriteSlowPath> {
        of.aim = CuckooSwapAim::Own;
        match (write.operation.value(), self.table.layout.kind) {
            (_, SlotKind::Signatures) => NextStep::SlowPath(CuckooWriteSlowPath::ChangeOwn),
            (None, _) if self.table.predetermines => {
                NextStep::SlowPath(CuckooWriteSlowPath::ChangeOwn)
            }
            (None, _) => {
                of.new = 0;
                NextStep::Change(Reads::NONE)
            }
            (Some(_), SlotKind::Word) => {
                of.new = write.word;
                NextStep::Change(Reads::NONE)
            }
            (Some(_), _) => self.name_record(write, of),
        }
    }

    /// Has a slot's word swapped for one that names the record, which is written with that.
    #[inline]
    pub(super) fn name_record(
        &self,
        write: &Write<'_>,
        of: &mut CuckooWriteState<'t>,
    ) -> NextStep<CuckooWriteSlowPath> {
        let (heap, record) = (self.table.heap(), write.operation.record());
        let Some(block) = of.record.hold(heap, record, self.uses(write)) else {
            return NextStep::SlowPath(CuckooWriteSlowPath::Block);
        };
        of.new = SlotHead::out(write.key.hash, block);
        NextStep::Change(Reads::NONE)
    }

    /// Whether blocks may be used without a claim, and what for.
    #[inline]
    fn uses(&self, write: &Write<'_>) -> (bool, Purpose) {
        (self.may_use_blocks.get(), Purpose::of(write.only_in))
    }

    /// The key's own slot has what the write was for.
    #[inline]
    pub(super) fn changed_own(
        &self,
        write: &Write<'_>,
        of: &mut CuckooWriteState<'t>,
    ) -> NextStep<CuckooWriteSlowPath> {
        if let (Some(heap), Some(block)) = (self.own_heap(), self.table.block_in(of.expected)) {
            heap.free(block);
        }
        if write.operation.value().is_none() {
            self.table.counts.change(-1, -1);
        }
        self.done(of, true)
    }

    /// No slot is the key's.
    #[inline]
    pub(super) fn is_absent(
        &self,
        write: &Write<'_>,
        of: &mut CuckooWriteState<'t>,
    ) -> NextStep<CuckooWriteSlowPath> {
        if !write.inserts() {
            return self.done(of, false);
        }
        let Some(free) = of.free.filter(|_| !self.table.predetermines) else {
            return NextStep::SlowPath(CuckooWriteSlowPath::Place);
        };
        (of.aim, of.place, of.expected) = (CuckooSwapAim::Insert, free, 0);
        match self.table.layout.kind {
            SlotKind::Word => of.new = write.word,
            SlotKind::Inline => of.new = write.head_in_slot(self.table),
            _ => return self.name_record(write, of),
        }
        NextStep::Change(Reads::NONE)
    }

    #[inline]
    pub(super) fn inserted(&self, of: &mut CuckooWriteState<'t>) -> NextStep<CuckooWriteSlowPath> {
        // Used slots are as many as entries, but for what could not be told: no slot is ever dead.
        self.table.counts.change(1, 1);
        self.done(of, false)
    }

    /// Gives the block back of a record that no slot has come to name.
    #[inline]
    pub(super) fn take_back(&self, of: &mut CuckooWriteState<'t>) {
        match self.own_heap() {
            Some(heap) => of.record.take_back(heap),
            None => of.record = Draft::None,
        }
    }

    #[inline]
    fn is_named(&self, of: &mut CuckooWriteState<'t>) {
        if let Some(heap) = &self.table.heap {
            of.record.is_named(heap);
        }
    }

    /// The heap, of which a client that was deposed has nothing.
    #[inline]
    fn own_heap(&self) -> Option<&'t Heap<E>> {
        let is_writer = self.table.writer.get().is_some();
        self.table.heap.as_ref().filter(|_| is_writer)
    }

    /// Ends a write; whether the key was there is its answer.
    #[inline]
    fn done(
        &self,
        of: &mut CuckooWriteState<'t>,
        was_there: bool,
    ) -> NextStep<CuckooWriteSlowPath> {
        self.take_back(of);
        of.held = None;
        NextStep::was_there(was_there)
    }
}

impl CuckooWriteState<'_> {
    /// Whether the slot whose word was swapped holds its record itself.
    fn is_in_slot<E: Endpoint>(&self, table: &CuckooTable<E>) -> bool {
        matches!(table.head(self.expected), SlotHead::Inline { .. })
    }
}

impl Write<'_> {
    pub(super) const fn inserts(&self) -> bool {
        matches!(
            self.operation,
            Operation::Put(..) | Operation::FindOrPut(..)
        )
    }

    /// The first word of a slot that holds the record itself.
    fn head_in_slot<E>(&self, table: &CuckooTable<E>) -> u64 {
        let record = in_slot(self.operation.record());
        SlotHead::inline(self.key.hash, &record, table.layout.mask_seed)
    }
}
