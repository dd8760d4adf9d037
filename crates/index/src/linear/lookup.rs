//! Finding a key's value, in steps.
//!
//! A chunk of slots after the other, and where a slot names a record out of band, that record. A
//! key that is remembered has its record and its slot read at once.
//!
//! Invariant: that of every walk along a probe (`walk.rs`). A record that turns out to be another
//! key's, and a slot whose record is not whole, have the chunk read on from that slot, as nothing
//! of it was kept.

use super::client::{Key, LinearTable};
use super::cluster_hints::Until;
use super::glance::PairGlance;
use super::probe::{MOST_RACES, Probe};
use super::walk::Seen;
use crate::client::{MANY_READS, MOST_READS, check_turn, pause};
use crate::hash::checksum;
use crate::heap::BlockRef;
use crate::record_locations::RecordLocation;
use crate::slot::{Head, KeyRule, SlotKind};
use crate::step::{Found, Glance, Lookup, Next, Read, Reads, drive_while, failed, record_in, view};
use crate::{IndexError, Result, Value};
use farslot_fabric::{Endpoint, InPlace, Piece};
use std::ops::{ControlFlow, Range};

/// How far a lookup has come.
#[derive(Default)]
pub(crate) struct Search {
    stage: Stage,
    /// From the key's home to the first slot that is, or was last, read; in slots.
    distance: u64,
    /// How many are read, and how many of them lie before the table's end.
    slots: u64,
    before_end: u64,
    /// The head that names the record that is read.
    head: u64,
    /// READs of slots so far.
    reads: u32,
    /// How often the slot was read again because the record of this head was not whole.
    rereads: u32,
    unreadable: u64,
    /// How often it had another head by then.
    races: u32,
}

/// What is read.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Slots,
    /// The record that a slot names.
    Record,
    /// The record and the slot that are remembered.
    Located,
}

/// What a lookup needs besides READs.
#[derive(Clone, Copy)]
pub(crate) enum Aside {
    /// The load factor, before it begins.
    Refresh,
    /// A walk that has the next chunk on its way before it has looked at this one.
    LookAhead,
    /// Time, before a slot is read again for the nth time.
    Pause(u32),
}

impl<E: Endpoint> Lookup for LinearTable<E> {
    type Endpoint = E;
    type Asked<'k> = &'k [u8];
    type Key<'k> = Key<'k>;
    type Search = Search;
    type Aside = Aside;

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
    fn glance<'k>(
        &self,
        view: &InPlace<'_>,
        keys: &[Self::Asked<'k>],
    ) -> Option<impl Glance<Self::Asked<'k>>> {
        let is_fresh = keys.len() <= self.lookups_to_refresh();
        PairGlance::of(self, view).filter(|_| is_fresh)
    }

    #[inline]
    fn most_at_once(&self) -> usize {
        self.lookups_to_refresh()
    }

    #[inline]
    fn glanced(&self, keys: usize, with_many_reads: usize) {
        self.looked_up(keys as u32, with_many_reads as u32);
    }

    #[inline(always)]
    fn key<'k>(&self, bytes: Self::Asked<'k>) -> Result<Key<'k>> {
        self.checked_key(bytes)
    }

    #[inline(always)]
    fn begin(&self, key: &Self::Key<'_>, search: &mut Search) -> Next<Aside> {
        search.distance = 0;
        search.reads = 0;
        search.rereads = 0;
        search.unreadable = 0;
        search.races = 0;
        if self.refresh_is_due() {
            return Next::Aside(Aside::Refresh);
        }
        self.begin_reading(key, search)
    }

    #[inline(always)]
    fn piece(&self, key: &Self::Key<'_>, search: &Search, number: usize) -> Piece {
        let of_slots = |kind| {
            let (from, slots) = (search.distance, (search.slots, search.before_end));
            self.piece_of_slots(kind, (key.home, from), slots, number)
        };
        match (self.layout.kind, search.stage) {
            (SlotKind::Pair, _) => of_slots(SlotKind::Pair),
            (kind, Stage::Slots) => of_slots(kind),
            (_, Stage::Record) => self.heap().piece(BlockRef::unpack(search.head)),
            (_, Stage::Located) => self.piece_at_location(key, search.location(), number),
        }
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
    fn look(&self, key: &Self::Key<'_>, search: &mut Search, read: &mut impl Read) -> Next<Aside> {
        // Pair slots apart, for which the compiler leaves out what other kinds need.
        match (self.layout.kind, search.stage) {
            (SlotKind::Pair, _) => self.look_at_slots(SlotKind::Pair, key, search, read),
            (kind, Stage::Slots) => self.look_at_slots(kind, key, search, read),
            (_, Stage::Record) => self.look_at_record(key, search, read),
            (_, Stage::Located) => self.look_at_location(key, search, read),
        }
    }

    fn gather_less(&self, key: &Self::Key<'_>, search: &mut Search) -> Option<Next<Aside>> {
        (search.stage == Stage::Located).then(|| {
            self.forget(key);
            search.distance = 0;
            self.read_on(key, search)
        })
    }

    async fn aside(
        &self,
        key: &Self::Key<'_>,
        search: &mut Search,
        aside: Aside,
    ) -> Result<Next<Aside>> {
        match aside {
            Aside::Refresh => {
                self.refresh().await?;
                Ok(self.begin_reading(key, search))
            }
            Aside::LookAhead => {
                let mut probe = Probe::new(key, Until::Match);
                let found = self.find_from(key, &mut probe).await?;
                Ok(found.map_or(Next::Absent, |value| {
                    Next::Found(Found::Value(Box::new(value)))
                }))
            }
            Aside::Pause(attempt) => {
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

impl Search {
    /// What is remembered, as the head that it was.
    #[inline]
    fn location(&self) -> RecordLocation {
        RecordLocation {
            distance: self.distance,
            block: BlockRef::unpack(self.head),
        }
    }
}

impl<E: Endpoint> LinearTable<E> {
    #[inline(always)]
    fn begin_reading(&self, key: &Key<'_>, search: &mut Search) -> Next<Aside> {
        if let Some(location) = self.known_location(key) {
            search.stage = Stage::Located;
            search.distance = location.distance;
            search.head = location.block.pack();
            return Next::Read(Reads {
                is_last: true,
                ..Reads::gathered(2)
            });
        }
        self.read_on(key, search)
    }

    /// Has the slots read at the lookup's place.
    #[inline(always)]
    fn read_on(&self, key: &Key<'_>, search: &mut Search) -> Next<Aside> {
        if self.sizes.look_ahead {
            return Next::Aside(Aside::LookAhead);
        }
        search.stage = Stage::Slots;
        let length = self.read_length(key.home, search.distance, Until::Match);
        if length.slots == 0 {
            self.lookup_took(search.reads);
            return Next::Absent;
        }
        if search.reads >= MANY_READS
            && let Err(error) = check_turn(&*self.endpoint)
        {
            return failed(error);
        }
        search.reads += 1;
        search.slots = length.slots;
        let to_end = self.layout.slots - self.slot_number(key.home, search.distance);
        search.before_end = length.slots.min(to_end);
        if search.before_end < search.slots {
            // Round the table's end (paper 002, section 3.2).
            Next::Read(Reads::gathered(2))
        } else {
            Next::Read(Reads::ONE)
        }
    }

    /// Of the slots that are read from a distance of a key's home: those before the table's end, or
    /// those that follow at its start.
    #[inline(always)]
    pub(super) fn piece_of_slots(
        &self,
        kind: SlotKind,
        (home, distance): (u64, u64),
        (slots, before_end): (u64, u64),
        number: usize,
    ) -> Piece {
        let (slot, slots) = match number {
            0 => (self.slot_number(home, distance), before_end),
            _ => (0, slots - before_end),
        };
        let slot_bytes = self.layout.slot_bytes_of(kind);
        Piece {
            from: self.layout.slot_at_of(kind, self.table, slot),
            len: slots as usize * slot_bytes,
        }
    }

    #[inline(always)]
    fn look_at_slots(
        &self,
        kind: SlotKind,
        key: &Key<'_>,
        search: &mut Search,
        read: &mut impl Read,
    ) -> Next<Aside> {
        let wrapped = search.slots - search.before_end;
        for (piece, slots) in [(0, search.before_end), (1, wrapped)] {
            match self.look_at_piece(kind, key, search, (piece, 0..slots as usize), read) {
                ControlFlow::Break(next) => return next,
                ControlFlow::Continue(()) => search.distance += slots,
            }
            if wrapped == 0 {
                break;
            }
        }
        self.read_on(key, search)
    }

    /// Looks at slots that lie side by side. Their first one is at the search's distance.
    #[inline(always)]
    fn look_at_piece(
        &self,
        kind: SlotKind,
        key: &Key<'_>,
        search: &mut Search,
        (piece, mut slots): (usize, Range<usize>),
        read: &mut impl Read,
    ) -> ControlFlow<Next<Aside>> {
        loop {
            let (slot, seen) = self.scan(kind, key, slots.clone(), read.words(piece));
            let distance = search.distance + slot as u64;
            let next = match seen {
                Seen::Nothing => return ControlFlow::Continue(()),
                Seen::Empty => {
                    self.met_empty(key.home, distance);
                    Next::Absent
                }
                Seen::Word(word) if self.has_value(kind, word) => {
                    self.met_in_use_of(key, distance, (piece, slot..slots.end), read);
                    Next::Found(self.found_in(kind, word))
                }
                Seen::Head(head) if Head::decode(head).is_live() => {
                    let at = (piece, slot..slots.end);
                    match self.look_at_head(key, search, (head, distance), at, read) {
                        ControlFlow::Break(next) => return ControlFlow::Break(next),
                        ControlFlow::Continue(Some(found)) => Next::Found(found),
                        ControlFlow::Continue(None) => {
                            slots.start = slot + 1;
                            continue;
                        }
                    }
                }
                // The key's own slot, without a value.
                Seen::Word(_) | Seen::Head(_) if self.layout.keys == KeyRule::Multi => {
                    slots.start = slot + 1;
                    continue;
                }
                Seen::Word(_) | Seen::Head(_) => {
                    self.met_in_use_of(key, distance, (piece, slot..slots.end), read);
                    Next::Absent
                }
            };
            self.lookup_took(search.reads);
            return ControlFlow::Break(next);
        }
    }

    /// Looks at a slot whose head says that it may hold the key's record: what to read, or, if that
    /// needs no READ, the record's value if it is the key's.
    #[inline]
    fn look_at_head(
        &self,
        key: &Key<'_>,
        search: &mut Search,
        (head, distance): (u64, u64),
        (piece, slots): (usize, Range<usize>),
        read: &mut impl Read,
    ) -> ControlFlow<Next<Aside>, Option<Found>> {
        let (lengths, sum) = match Head::decode(head) {
            Head::Inline { sum, .. } => ((self.layout.key.most(), self.layout.value.most()), sum),
            Head::Sized {
                key_len,
                value_len,
                sum,
                ..
            } => ((key_len, value_len), sum),
            _ => {
                self.met_in_use_of(key, distance, (piece, slots), read);
                search.stage = Stage::Record;
                search.distance = distance;
                search.head = head;
                return ControlFlow::Break(Next::Read(Reads::ONE));
            }
        };
        let (key_len, bytes) = (lengths.0, lengths.0 + lengths.1);
        let body = slots.start * self.layout.slot_bytes() + 8;
        // A head that says more than the slot can hold is none that this table's clients write.
        if bytes + 8 <= self.layout.slot_bytes() {
            let record = read.bytes(piece, body..body + bytes);
            if checksum(record, self.layout.mask_seed) == sum {
                if record[..key_len] != *key.bytes {
                    return ControlFlow::Continue(None);
                }
                let bytes = body + key_len..body + bytes;
                self.met_in_use_of(key, distance, (piece, slots), read);
                return ControlFlow::Continue(Some(Found::Bytes { piece, bytes }));
            }
        }
        search.distance = distance;
        ControlFlow::Break(self.read_again(key, search, head))
    }

    /// Looks at the record that a slot names.
    #[inline]
    fn look_at_record(
        &self,
        key: &Key<'_>,
        search: &mut Search,
        read: &mut impl Read,
    ) -> Next<Aside> {
        let head = search.head;
        let block = BlockRef::unpack(head);
        match record_in(read, 0, block, self.heap().piece(block).len) {
            None => self.read_again(key, search, head),
            Some(record) if record.key == key.bytes => {
                self.remember(key, search.distance, head);
                self.lookup_took(search.reads);
                let bytes = record.value_range();
                Next::Found(Found::Bytes { piece: 0, bytes })
            }
            Some(record) => {
                let slot = self.slot_number(key.home, search.distance);
                if self.may_stand_at(record.key, head, slot) {
                    search.distance += 1;
                    self.read_on(key, search)
                } else {
                    // A later use of the block, whose generation has come round.
                    self.read_again(key, search, head)
                }
            }
        }
    }

    /// Looks at the record and the slot that were remembered.
    #[inline]
    fn look_at_location(
        &self,
        key: &Key<'_>,
        search: &mut Search,
        read: &mut impl Read,
    ) -> Next<Aside> {
        let location = search.location();
        let head = read.word(1, 0);
        if head == Head::out(key.hash, location.block) {
            let len = self.heap().piece(location.block).len;
            if let Some(record) = record_in(read, 0, location.block, len)
                && record.key == key.bytes
            {
                let bytes = record.value_range();
                return Next::Found(Found::Bytes { piece: 0, bytes });
            }
        }
        self.forget(key);
        if Head::decode(head).is_out_of(key.hash) {
            // As good as a slot that was looked for: it names the key's record, or does not.
            search.stage = Stage::Record;
            search.head = head;
            return Next::Read(Reads::ONE);
        }
        search.distance = 0;
        self.read_on(key, search)
    }

    /// Has the slot at the lookup's place read again, as the record of its head was not whole: at
    /// once the first time, then after ever longer pauses. If the head is another one than last
    /// time, others are writing, and that is no fault.
    #[cold]
    fn read_again(&self, key: &Key<'_>, search: &mut Search, head: u64) -> Next<Aside> {
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
            return Next::Aside(Aside::Pause(search.rereads));
        }
        self.read_on(key, search)
    }

    /// Finds a key where it is remembered; nothing if it has to be looked for.
    pub(super) async fn find_at_location(&self, key: &Key<'_>) -> Result<Option<Value>> {
        let mut search = Search::default();
        let Some(_) = self.known_location(key) else {
            return Ok(None);
        };
        let next = self.begin_reading(key, &mut search);
        let found = drive_while(self, key, &mut search, next, |search| {
            search.stage != Stage::Slots
        });
        Ok(found.await?.flatten())
    }

    /// The value that a Word or Pair slot's word stands for.
    #[inline(always)]
    pub(super) fn found_in(&self, kind: SlotKind, word: u64) -> Found {
        let word = match kind {
            SlotKind::Pair => self.words.value_of_pair(word),
            _ => self.words.value_of_word(word),
        };
        let len = self.layout.value.most();
        Found::Word { word, len }
    }

    /// Notes that the first of these slots, at this distance from the key's home, is in use, and
    /// where its run ends.
    #[inline(always)]
    fn met_in_use_of(
        &self,
        key: &Key<'_>,
        distance: u64,
        (piece, slots): (usize, Range<usize>),
        read: &impl Read,
    ) {
        if self.hints.is_some() {
            let slot_words = self.layout.slot_bytes() / 8;
            let heads = slots.map(|slot| read.word(piece, slot * slot_words));
            self.met_in_use(key.home, distance, heads);
        }
    }
}
