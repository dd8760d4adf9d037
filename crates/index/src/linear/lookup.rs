//! Finding a key's value, in steps.
//!
//! A chunk of slots after the other, and where a slot names a record out of band, that record. A
//! key that is remembered has its record and its slot read at once. Writes walk as lookups do
//! (`write.rs`): they change what the walk has come to.
//!
//! Invariant: that of every walk along a probe (`slots.rs`). A record that turns out to be another
//! key's, and a slot whose record is not whole, have the chunk read on from that slot: lookups keep
//! nothing of it.

use super::client::{Key, LinearTable};
use super::cluster_hints::{ReadLength, WalkGoal};
use super::fast_path::LinearPairFastPath;
use super::slots::{MOST_RACES, SlotMatch};
use crate::client::{MANY_READS, MOST_READS, check_turn, pause};
use crate::hash::checksum;
use crate::heap::{BlockRef, Heap};
use crate::record_locations::RecordLocation;
use crate::slot::{KeyRule, SlotHead, SlotKind};
use crate::step::{
    FastPath, Lookup, NextStep, ReadPieces, Reads, ValueLocation, failed, record_in, view,
};
use crate::{IndexError, Result};
use farslot_fabric::{Endpoint, InPlace, Piece, Pieces};
use std::ops::Range;

/// How far a walk along a key's probe has come.
#[derive(Default)]
pub(crate) struct Search {
    pub(super) stage: Stage,
    pub(super) seeks: WalkTarget,
    /// What ends it, for the lengths of its READs.
    pub(super) goal: WalkGoal,
    /// From the key's home to the slot that is looked at, in slots.
    pub(super) distance: u64,
    /// The word of it that says whose it is, or holds its value.
    pub(super) word: u64,
    /// What it has ended at, where no record was found.
    pub(super) end: WalkEnd,
    /// The first slot that was read.
    first: u64,
    /// How many were read, and how many of them lie before the table's end.
    slots: u64,
    before_end: u64,
    /// Whether the last of them was empty when it was last seen.
    reaches_empty: bool,
    /// The slots behind them, from this one on, if these were asked for ahead.
    ahead: Option<(u64, ReadLength)>,
    /// Whether it looks on in what was read of the slots, once it has read a record.
    looks_on: bool,
    /// The first slot of the key without a record that it has passed, and its word.
    pub(super) passed: Option<(u64, u64)>,
    /// READs of slots so far.
    pub(super) reads: u32,
    /// How often the slot was read again because the record of this head was not whole.
    pub(super) rereads: u32,
    unreadable: u64,
    /// How often it had another head by then.
    races: u32,
}

/// What is read.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Stage {
    #[default]
    Slots,
    /// The record that a slot names.
    Record,
    /// The record and the slot that are remembered.
    Located,
}

/// What a walk looks for.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum WalkTarget {
    /// A record of the key.
    #[default]
    Record,
    /// The same, or else a place for one.
    RecordOrPlace,
    /// A place for one more record of the key.
    Place,
    /// The slot with this word, which names a record out of band.
    Slot(u64),
}

/// What a walk has ended at that has found no record.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum WalkEnd {
    /// The end of the longest probe: the key is absent, and there is no place for it.
    #[default]
    OfProbe,
    /// The first empty slot: the key is absent, and belongs there.
    Empty,
    /// A slot of the key's own, without a record.
    Own,
}

/// What a walk needs besides READs.
#[derive(Clone, Copy)]
pub(crate) enum LinearWalkSlowPath {
    /// The load factor, before it begins.
    Refresh,
    /// Time, before a slot is read again for the nth time.
    Pause(u32),
}

impl<E: Endpoint> Lookup for LinearTable<E> {
    type Endpoint = E;
    type Asked<'k> = &'k [u8];
    type Key<'k> = Key<'k>;
    type Search = Search;
    type SlowPath = LinearWalkSlowPath;

    #[inline(always)]
    fn endpoint(&self) -> &E {
        &self.endpoint
    }

    #[inline]
    fn in_place(&self) -> Option<InPlace<'_>> {
        // Looking ahead is for READs that take their time.
        (!self.sizes.look_ahead).then(|| view(&*self.endpoint, self.table))?
    }

    #[inline]
    fn fast_path<'k>(
        &self,
        view: &InPlace<'_>,
        (_, keys): (Self::Asked<'k>, usize),
    ) -> Option<impl FastPath<Self::Asked<'k>>> {
        let is_fresh = keys <= self.lookups_to_refresh();
        LinearPairFastPath::of(self, view).filter(|_| is_fresh)
    }

    #[inline]
    fn record_path<'k>(
        &self,
        _: &InPlace<'_>,
        (_, keys): (Self::Asked<'k>, usize),
    ) -> Option<impl FastPath<Self::Asked<'k>>> {
        self.usual_steps(false)
            .filter(|_| keys <= self.lookups_to_refresh())
    }

    #[inline]
    fn most_at_once(&self, _: Self::Asked<'_>) -> usize {
        self.lookups_to_refresh()
    }

    #[inline]
    fn note_fast_paths(&self, keys: usize, with_many_reads: usize) {
        self.looked_up(keys as u32, with_many_reads as u32);
    }

    #[inline(always)]
    fn key<'k>(&self, bytes: Self::Asked<'k>) -> Result<Key<'k>> {
        self.checked_key(bytes)
    }

    #[inline(always)]
    fn begin(&self, key: &Self::Key<'_>, search: &mut Search) -> NextStep<LinearWalkSlowPath> {
        search.begin(WalkTarget::Record, WalkGoal::Match);
        search.looks_on = false;
        if self.refresh_is_due() {
            return NextStep::SlowPath(LinearWalkSlowPath::Refresh);
        }
        self.begin_reading(key, search)
    }

    #[inline(always)]
    fn piece(&self, key: &Self::Key<'_>, search: &Search, number: usize) -> Piece {
        let of_slots = |kind| {
            let (from, slots) = (search.first, (search.slots, search.before_end));
            self.piece_of_slots(kind, (key.home, from), slots, number)
        };
        match (self.layout.kind, search.stage) {
            (SlotKind::Pair, _) => of_slots(SlotKind::Pair),
            (kind, Stage::Slots) => of_slots(kind),
            (_, Stage::Record) => self.heap().piece(BlockRef::unpack(search.word)),
            (_, Stage::Located) => self.piece_at_location(key, search.location(), number),
        }
    }

    fn pieces_ahead(&self, key: &Self::Key<'_>, search: &mut Search) -> Pieces {
        let behind = search.first + search.slots;
        let length = self.read_length(key.home, behind, search.goal);
        if search.reaches_empty || length.slots == 0 {
            return Pieces::new();
        }
        search.ahead = Some((behind, length));
        let mut next = Search {
            ahead: search.ahead,
            distance: behind,
            ..Search::default()
        };
        self.choose_slots(key, &mut next);
        let piece = |number| self.piece(key, &next, number);
        (0..next.chunk().pieces).map(piece).collect()
    }

    #[inline(always)]
    fn likely_bytes(&self, search: &Search, len: usize) -> usize {
        match search.stage {
            // A probe mostly ends in the first half of what is read, lest a second READ be needed.
            Stage::Slots => len / 2,
            Stage::Record | Stage::Located => len,
        }
    }

    #[inline(always)]
    fn look(
        &self,
        key: &Self::Key<'_>,
        search: &mut Search,
        read: &mut impl ReadPieces,
    ) -> NextStep<LinearWalkSlowPath> {
        let next = self.walk(key, search, read);
        if matches!(next, NextStep::Found(_) | NextStep::Absent) {
            self.lookup_took(search.reads);
        }
        next
    }

    fn gather_less(
        &self,
        key: &Self::Key<'_>,
        search: &mut Search,
    ) -> Option<NextStep<LinearWalkSlowPath>> {
        (search.stage == Stage::Located).then(|| {
            self.forget(key);
            search.go_to(0);
            self.read_on(key, search)
        })
    }

    /// Has the slots read at the lookup's place.
    #[inline(always)]
    fn read_on(&self, key: &Self::Key<'_>, search: &mut Search) -> NextStep<LinearWalkSlowPath> {
        search.stage = Stage::Slots;
        if !self.choose_slots(key, search) {
            search.end = WalkEnd::OfProbe;
            return NextStep::Absent;
        }
        if search.reads >= MANY_READS
            && let Err(error) = check_turn(&*self.endpoint)
        {
            return failed(error);
        }
        search.reads += 1;
        NextStep::Read(Reads {
            ahead: self.sizes.look_ahead,
            ..search.chunk()
        })
    }

    async fn slow_path(
        &self,
        key: &Self::Key<'_>,
        search: &mut Search,
        slow: LinearWalkSlowPath,
    ) -> Result<NextStep<LinearWalkSlowPath>> {
        match slow {
            LinearWalkSlowPath::Refresh => {
                self.refresh().await?;
                Ok(self.begin_reading(key, search))
            }
            LinearWalkSlowPath::Pause(attempt) => {
                pause(&*self.endpoint, attempt).await?;
                Ok(self.read_on(key, search))
            }
        }
    }

    #[inline]
    fn while_waiting(&self) {
        self.merge_hints();
    }
}

impl WalkTarget {
    /// Whether it is a place for a record, should the key have none.
    #[inline(always)]
    const fn a_place(self) -> bool {
        matches!(self, Self::RecordOrPlace | Self::Place)
    }
}

impl Search {
    #[inline(always)]
    pub(super) fn begin(&mut self, seeks: WalkTarget, goal: WalkGoal) {
        (self.seeks, self.goal) = (seeks, goal);
        self.looks_on = true;
        self.go_to(0);
        self.passed = None;
        self.ahead = None;
        self.reads = 0;
        self.rereads = 0;
        self.unreadable = 0;
        self.races = 0;
    }

    /// Goes to a slot of which nothing was read.
    #[inline(always)]
    pub(super) fn go_to(&mut self, distance: u64) {
        (self.distance, self.first) = (distance, distance);
        (self.slots, self.before_end) = (0, 0);
    }

    /// What is remembered, as the head that it was.
    #[inline]
    fn location(&self) -> RecordLocation {
        RecordLocation {
            distance: self.distance,
            block: BlockRef::unpack(self.word),
        }
    }

    /// The READ of the slots that were chosen. Round the table's end it has two pieces (paper 002,
    /// section 3.2).
    #[inline(always)]
    const fn chunk(&self) -> Reads {
        match self.before_end < self.slots {
            true => Reads::gathered(2),
            false => Reads::ONE,
        }
    }
}

impl<E: Endpoint> LinearTable<E> {
    /// Begins where the key's record is remembered to be, or else at its home.
    #[inline(always)]
    pub(super) fn begin_reading(
        &self,
        key: &Key<'_>,
        search: &mut Search,
    ) -> NextStep<LinearWalkSlowPath> {
        if let Some(location) = self.known_location(key) {
            search.stage = Stage::Located;
            search.go_to(location.distance);
            search.word = SlotHead::out(key.hash, location.block);
            return NextStep::Read(Reads {
                is_last: true,
                ..Reads::gathered(2)
            });
        }
        self.read_on(key, search)
    }

    /// Chooses the slots that are read at a walk's place; false at the end of the longest probe.
    #[inline(always)]
    fn choose_slots(&self, key: &Key<'_>, search: &mut Search) -> bool {
        let length = match search.ahead {
            Some((first, length)) if first == search.distance => length,
            _ => self.read_length(key.home, search.distance, search.goal),
        };
        search.first = search.distance;
        search.slots = length.slots;
        search.reaches_empty = length.reaches_empty;
        let to_end = self.layout.slots - self.slot_number(key.home, search.distance);
        search.before_end = length.slots.min(to_end);
        length.slots > 0
    }

    /// Looks at what was read for a walk.
    #[inline(always)]
    pub(super) fn walk(
        &self,
        key: &Key<'_>,
        search: &mut Search,
        read: &mut impl ReadPieces,
    ) -> NextStep<LinearWalkSlowPath> {
        // Pair slots apart, for which the compiler leaves out what other kinds need.
        match (self.layout.kind, search.stage) {
            (SlotKind::Pair, _) => self.look_at_slots(SlotKind::Pair, key, search, read),
            (kind, Stage::Slots) => self.look_at_slots(kind, key, search, read),
            (_, Stage::Record) => self.look_at_record(key, search, read),
            (_, Stage::Located) => self.look_at_location(key, search, read),
        }
    }

    #[inline(always)]
    fn look_at_slots(
        &self,
        kind: SlotKind,
        key: &Key<'_>,
        search: &mut Search,
        read: &mut impl ReadPieces,
    ) -> NextStep<LinearWalkSlowPath> {
        let (before_end, slots) = (search.before_end, search.slots);
        for (piece, slots) in [(0, 0..before_end), (1, before_end..slots)] {
            while search.distance - search.first < slots.end {
                let from = (search.distance - search.first - slots.start) as usize;
                let end = (slots.end - slots.start) as usize;
                let (slot, seen) = self.scan(kind, key, from..end, read.words(piece));
                search.distance = search.first + slots.start + slot as u64;
                let next = match seen {
                    SlotMatch::Nothing => break,
                    SlotMatch::Empty => {
                        search.end = WalkEnd::Empty;
                        if !search.seeks.a_place() {
                            self.met_empty(key.home, search.distance);
                        }
                        Some(NextStep::Absent)
                    }
                    SlotMatch::Head(head) if SlotHead::decode(head).is_in_slot() => {
                        self.look_in_slot(key, search, (piece, slot), head, read)
                    }
                    seen => self.came_to(kind, search, seen),
                };
                let Some(next) = next else {
                    search.distance += 1;
                    continue;
                };
                // An empty slot that a writer claims is in use as soon as he, or a faster one, has.
                let claims = search.seeks.a_place() && search.passed.is_none();
                let is_used = !matches!(seen, SlotMatch::Empty) || claims;
                if self.hints.is_some() && is_used {
                    self.met_in_use_of(key, search.distance, (piece, slot..end), read);
                }
                return next;
            }
            if before_end == search.slots {
                break;
            }
        }
        self.read_on(key, search)
    }

    /// At a slot of the key, or, with the head of a record out of band, one that may be its:
    /// nothing where the walk goes on to the next slot.
    #[inline(always)]
    pub(super) fn came_to(
        &self,
        kind: SlotKind,
        search: &mut Search,
        seen: SlotMatch,
    ) -> Option<NextStep<LinearWalkSlowPath>> {
        let (SlotMatch::Word(word) | SlotMatch::Head(word)) = seen else {
            return None;
        };
        search.word = word;
        if self.has_value(kind, word) {
            return match (search.seeks, seen) {
                (WalkTarget::Place, _) => None,
                // Its record is known to be the key's.
                (WalkTarget::Slot(wanted), _) => {
                    (word == wanted).then_some(NextStep::was_there(true))
                }
                (_, SlotMatch::Word(word)) => Some(NextStep::Found(self.found_in(kind, word))),
                _ => {
                    search.stage = Stage::Record;
                    Some(NextStep::Read(Reads::ONE_MORE))
                }
            };
        }
        if self.layout.keys == KeyRule::Multi && search.seeks != WalkTarget::Place {
            search.passed.get_or_insert((search.distance, word));
            return None;
        }
        search.end = WalkEnd::Own;
        Some(NextStep::Absent)
    }

    /// Looks at a slot whose head says that it holds the key's record: nothing if it is another
    /// key's.
    #[inline]
    fn look_in_slot(
        &self,
        key: &Key<'_>,
        search: &mut Search,
        (piece, slot): (usize, usize),
        head: u64,
        read: &mut impl ReadPieces,
    ) -> Option<NextStep<LinearWalkSlowPath>> {
        if let WalkTarget::Place | WalkTarget::Slot(_) = search.seeks {
            return None;
        }
        search.word = head;
        let (lengths, sum) = match SlotHead::decode(head) {
            SlotHead::Sized {
                key_len,
                value_len,
                sum,
                ..
            } => ((key_len, value_len), sum),
            SlotHead::Inline { sum, .. } => {
                ((self.layout.key.most(), self.layout.value.most()), sum)
            }
            _ => return None,
        };
        let (key_len, bytes) = (lengths.0, lengths.0 + lengths.1);
        let body = slot * self.layout.slot_bytes() + 8;
        // A head that says more than the slot can hold is none that this table's clients write.
        if bytes + 8 <= self.layout.slot_bytes() {
            let record = read.bytes(piece, body..body + bytes);
            if checksum(record, self.layout.mask_seed) == sum {
                let is_own = record[..key_len] == *key.bytes;
                let bytes = body + key_len..body + bytes;
                return is_own.then_some(NextStep::Found(ValueLocation::Bytes { piece, bytes }));
            }
        }
        Some(self.read_again(key, search, head))
    }

    /// Looks at the record that a slot names.
    #[inline]
    fn look_at_record(
        &self,
        key: &Key<'_>,
        search: &mut Search,
        read: &mut impl ReadPieces,
    ) -> NextStep<LinearWalkSlowPath> {
        let head = search.word;
        let block = BlockRef::unpack(head);
        match record_in(read, 0, block, self.heap().piece(block).len) {
            None => self.read_again(key, search, head),
            Some(record) if record.key == key.bytes => {
                self.remember(key, search.distance, head);
                let bytes = record.value_range();
                NextStep::Found(ValueLocation::Bytes { piece: 0, bytes })
            }
            Some(record) => {
                let slot = self.slot_number(key.home, search.distance);
                if self.may_stand_at(record.key, head, slot) {
                    self.pass(key, search)
                } else {
                    // A later use of the block, whose generation has come round.
                    self.read_again(key, search, head)
                }
            }
        }
    }

    /// Goes on behind the slot that is looked at.
    #[inline]
    pub(super) fn pass(&self, key: &Key<'_>, search: &mut Search) -> NextStep<LinearWalkSlowPath> {
        search.distance += 1;
        search.stage = Stage::Slots;
        match search.looks_on {
            true => NextStep::LookOn,
            false => self.read_on(key, search),
        }
    }

    /// Looks at the record and the slot that were remembered.
    #[inline]
    fn look_at_location(
        &self,
        key: &Key<'_>,
        search: &mut Search,
        read: &mut impl ReadPieces,
    ) -> NextStep<LinearWalkSlowPath> {
        let head = read.word(1, 0);
        if head == search.word {
            let block = BlockRef::unpack(head);
            let len = self.heap().piece(block).len;
            if let Some(record) = record_in(read, 0, block, len)
                && record.key == key.bytes
            {
                let bytes = record.value_range();
                return NextStep::Found(ValueLocation::Bytes { piece: 0, bytes });
            }
        }
        self.forget(key);
        if SlotHead::decode(head).is_out_of(key.hash) {
            // As good as a slot that was looked for: it names the key's record, or does not.
            search.stage = Stage::Record;
            search.word = head;
            return NextStep::Read(Reads::ONE);
        }
        search.go_to(0);
        self.read_on(key, search)
    }

    /// Has the slot at the walk's place read again, as the record of its head was not whole: at
    /// once the first time, then after ever longer pauses. If the head is another one than last
    /// time, others are writing, and that is no fault.
    #[cold]
    pub(super) fn read_again(
        &self,
        key: &Key<'_>,
        search: &mut Search,
        head: u64,
    ) -> NextStep<LinearWalkSlowPath> {
        if head == search.unreadable {
            search.rereads += 1;
        } else {
            search.races += 1;
            search.rereads = 1;
            search.unreadable = head;
        }
        if search.rereads > MOST_READS || search.races > MOST_RACES {
            return failed(IndexError::Unreadable {
                slot: self.slot_number(key.home, search.distance),
                attempts: search.rereads.max(search.races),
            });
        }
        if search.rereads > 1 {
            return NextStep::SlowPath(LinearWalkSlowPath::Pause(search.rereads));
        }
        self.read_on(key, search)
    }

    /// The value that a Word or Pair slot's word stands for.
    #[inline(always)]
    pub(super) fn found_in(&self, kind: SlotKind, word: u64) -> ValueLocation {
        let word = match kind {
            SlotKind::Pair => self.words.value_of_pair(word),
            _ => self.words.value_of_word(word),
        };
        let len = self.layout.value.most();
        ValueLocation::Word { word, len }
    }

    /// Notes that the first of these slots, at this distance from the key's home, is in use, and
    /// where its run ends.
    fn met_in_use_of(
        &self,
        key: &Key<'_>,
        distance: u64,
        (piece, slots): (usize, Range<usize>),
        read: &impl ReadPieces,
    ) {
        let slot_words = self.layout.slot_bytes() / 8;
        let heads = slots.map(|slot| read.word(piece, slot * slot_words));
        self.met_in_use(key.home, distance, heads);
    }

    /// What ends a walk over all records of a key.
    pub(super) fn until_all(&self) -> WalkGoal {
        match self.layout.keys {
            KeyRule::Unique => WalkGoal::Match,
            KeyRule::Multi => WalkGoal::EmptySlot,
        }
    }

    pub(super) fn heap(&self) -> &Heap<E> {
        self.heap.as_ref().expect("tables with heads have a heap")
    }
}
