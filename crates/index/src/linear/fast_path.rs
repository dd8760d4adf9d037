//! The first step of lookups in Pair slots, and of writes, made ready for many keys.
//!
//! Of tables of unique keys without hints and remembered records. It looks on in the READs that
//! follow, as the steps would, up to the table's end; what has no answer by then, or is to be read
//! round the end, is looked up in steps.

use super::client::{Key, LinearTable};
use super::slots::{MOST_RACES, SlotMatch, scan_pairs};
use crate::hash::{Hasher, scale, xxh3};
use crate::heap::{BlockRef, Heap, TableWrite};
use crate::slot::{KeyRule, SlotHead, SlotKind, WordFormat};
use crate::step::{
    FastPath, FastPathResult, More, NamingSlot, RecordPath, RecordSlots, slots_near,
};
use crate::{FieldSize, Operation};
use farslot_fabric::{Endpoint, InPlace, Piece, Steps};
use std::cell::Cell;
use std::ops::Range;

/// Bytes of a slot, and of a key that is a word.
const SLOT: u64 = 16;
const KEY: usize = 8;
/// READs that it looks at.
const MOST_READS: u64 = 64;

/// Lookups in the Pair slots of a table.
pub(super) struct LinearPairFastPath {
    words: WordFormat,
    seed: u64,
    slots: u64,
    /// The last home from which it can look as far as it does.
    last_home: u64,
    /// The byte of the region at which the slots begin.
    first: u64,
    /// Slots of a READ, and of all.
    read: u64,
    reach: usize,
    value: FieldSize,
}

impl LinearPairFastPath {
    /// That of a table whose lookups can do with it.
    pub(super) fn of<E: Endpoint>(table: &LinearTable<E>, view: &InPlace<'_>) -> Option<Self> {
        let layout = &table.layout;
        let Hasher::Xxh3 { seed } = layout.hasher else {
            return None;
        };
        let read = table.read_size();
        let reach = read * (layout.longest_probe / read).min(MOST_READS);
        let is_plain = layout.kind == SlotKind::Pair
            && layout.keys == KeyRule::Unique
            && layout.key.admits(KEY)
            && table.hints.is_none()
            && table.records.is_none()
            && reach > 0;
        let all = Piece {
            from: layout.slot_at(table.table, 0),
            len: (layout.slots * SLOT) as usize,
        };
        let first = view.offset_of(all).filter(|_| is_plain)?;
        Some(Self {
            words: table.words,
            seed,
            slots: layout.slots,
            last_home: layout.slots - reach,
            reach: reach as usize,
            first,
            read,
            value: layout.value,
        })
    }

    /// Slots from the home on that are fetched first.
    #[inline(always)]
    fn slots_near(&self, place: &LinearPairProbe) -> usize {
        (slots_near::<SLOT>(place.start) as usize).min(self.reach)
    }

    /// Has fetched what lies behind the slots near the home, as much as a READ brings.
    #[inline(always)]
    fn fetch_further(
        &self,
        place: &LinearPairProbe,
        near: usize,
        view: &InPlace<'_>,
    ) -> FastPathResult {
        let further = place.start + near as u64 * SLOT;
        view.prefetch(further, (self.read * SLOT) as usize);
        FastPathResult::Fetching
    }

    /// READs besides the first for an answer that lies behind so many slots.
    #[inline(always)]
    fn more_reads(&self, passed: usize) -> u32 {
        match passed as u64 >= self.read {
            true => passed as u32 / self.read as u32,
            false => 0,
        }
    }

    /// Looks for a key among some of the slots from its home on; nothing if it may lie behind them.
    #[inline(always)]
    fn scan(
        &self,
        place: &LinearPairProbe,
        slots: Range<usize>,
        view: &InPlace<'_>,
    ) -> Option<FastPathResult> {
        let from = place.start + slots.start as u64 * SLOT;
        let (passed, seen) = scan_pairs(place.wanted, view.slots::<2>(from, slots.len()));
        let reads = self.more_reads(slots.start + passed);
        match seen {
            SlotMatch::Nothing | SlotMatch::Head(_) => None,
            SlotMatch::Empty | SlotMatch::Word(0) => Some(FastPathResult::Absent(reads)),
            SlotMatch::Word(word) => {
                Some(FastPathResult::Found(self.words.value_of_pair(word), reads))
            }
        }
    }
}

/// Where a key's probe begins, and what it looks for.
#[derive(Clone, Copy)]
pub(super) struct LinearPairProbe {
    /// Its word.
    wanted: u64,
    /// The byte of the region at which its home begins.
    start: u64,
}

impl FastPath<&[u8]> for LinearPairFastPath {
    type Prepared = ();
    type Place = LinearPairProbe;

    #[inline(always)]
    fn prepare(&self, _: &[u8], _: &InPlace<'_>) {}

    #[inline(always)]
    fn place(&self, key: &[u8], (): (), _: &InPlace<'_>) -> Option<LinearPairProbe> {
        let key: &[u8; KEY] = key.try_into().ok()?;
        let wanted = self.words.pair_key(key)?;
        let home = scale(xxh3(key, self.seed), self.slots);
        if home > self.last_home {
            return None;
        }
        let start = self.first + home * SLOT;
        Some(LinearPairProbe { wanted, start })
    }

    #[inline(always)]
    fn fetch(&self, place: &LinearPairProbe, view: &InPlace<'_>) {
        view.prefetch(place.start, 2 * SLOT as usize);
    }

    /// Looks at the slots of the lines that were fetched: they suffice for most.
    #[inline(always)]
    fn look(&self, place: &LinearPairProbe, view: &InPlace<'_>) -> FastPathResult {
        let near = self.slots_near(place);
        let seen = self.scan(place, 0..near, view);
        seen.unwrap_or_else(|| self.fetch_further(place, near, view))
    }

    #[inline(always)]
    fn look_on(&self, place: &LinearPairProbe, view: &InPlace<'_>) -> FastPathResult {
        let further = self.slots_near(place)..self.reach;
        let seen = self.scan(place, further, view);
        seen.unwrap_or(FastPathResult::Undecided)
    }

    #[inline]
    fn usual(&self) -> Steps {
        Steps::begun(1, self.read * SLOT)
    }

    #[inline]
    fn more_bytes(&self) -> u64 {
        self.read * SLOT
    }

    #[inline]
    fn value_len(&self) -> usize {
        self.value.most()
    }
}

/// The slots of a key that the first READ brings.
#[derive(Clone, Copy)]
pub(crate) struct NearSlots {
    hash: u64,
    /// The byte of the region at which its home begins.
    start: u64,
    slots: usize,
}

impl<E: Endpoint> LinearTable<E> {
    /// The usual steps where slots name records: of tables of unique keys, without hints and
    /// remembered records.
    pub(super) fn usual_steps(&self, may_use_blocks: bool) -> Option<RecordPath<'_, Self>> {
        let is_plain = self.layout.kind == SlotKind::Heap
            && self.layout.keys == KeyRule::Unique
            && self.hints.is_none()
            && self.records.is_none();
        is_plain.then(|| RecordPath::new(self, may_use_blocks))
    }
}

impl<E: Endpoint> RecordSlots for LinearTable<E> {
    type Endpoint = E;
    type Slots = NearSlots;

    #[inline(always)]
    fn heap_of_slots(&self) -> &Heap<E> {
        self.heap()
    }

    #[inline(always)]
    fn admits(&self, value: &[u8]) -> bool {
        self.layout.value.admits(value.len())
    }

    #[inline(always)]
    fn slots_of(&self, key: &[u8], view: &InPlace<'_>) -> Option<NearSlots> {
        let Key { hash, home, .. } = self.checked_key(key).ok()?;
        let slots = self.read_size().min(self.layout.longest_probe);
        let of_home = |kind| self.piece_of_slots(kind, (home, 0), (slots, slots), 0);
        let piece = of_home(SlotKind::Heap);
        let start = view
            .offset_of(piece)
            .filter(|_| home + slots <= self.layout.slots)?;
        view.prefetch(start, piece.len / 2);
        let slots = slots as usize;
        Some(NearSlots { hash, start, slots })
    }

    #[inline(always)]
    fn naming_slots(
        &self,
        of: &NearSlots,
        view: &InPlace<'_>,
    ) -> Option<([Option<NamingSlot>; 2], Steps)> {
        let words = view.words(of.start);
        for slot in 0..of.slots {
            let word = words(slot);
            if word == 0 {
                return Some(([None; 2], Steps::begun(1, of.slots as u64 * 8)));
            }
            let head = SlotHead::decode(word);
            if head.may_be(of.hash) {
                let named = head
                    .is_out_of(of.hash)
                    .then_some((of.start + slot as u64 * 8, word));
                return Some(([Some(named?), None], Steps::begun(1, of.slots as u64 * 8)));
            }
        }
        None
    }

    #[inline(always)]
    fn block_in(word: u64) -> BlockRef {
        BlockRef::unpack(word)
    }

    #[inline(always)]
    fn renamed(word: u64, block: BlockRef) -> u64 {
        word >> BlockRef::BITS << BlockRef::BITS | block.pack()
    }
}

/// Puts and find-or-puts in the Pair slots of a table: as `write.rs` does them, and the same swaps.
pub(super) struct PairWriteFastPath<'t, E> {
    table: &'t LinearTable<E>,
    pairs: LinearPairFastPath,
    /// Whether a value that is there stays.
    finds: bool,
    /// Slots that were claimed, and entries that came.
    claimed: Cell<u32>,
    entered: Cell<u32>,
}

/// What is known of a record that is to be written.
#[derive(Clone, Copy)]
pub(super) struct PairToWrite {
    place: LinearPairProbe,
    /// The word of the value.
    value: u64,
}

impl<'t, E: Endpoint> PairWriteFastPath<'t, E> {
    /// That of operations of the class of this one.
    pub(super) fn of(
        table: &'t LinearTable<E>,
        view: &InPlace<'_>,
        operation: &Operation<'_>,
    ) -> Option<Self> {
        let finds = match operation {
            Operation::FindOrPut(..) => true,
            Operation::Put(..) => false,
            _ => return None,
        };
        Some(Self {
            table,
            pairs: LinearPairFastPath::of(table, view)?,
            finds,
            claimed: Cell::new(0),
            entered: Cell::new(0),
        })
    }

    /// Writes to the first of some of the slots from the home on that is the key's, or empty;
    /// nothing if all were others'.
    #[inline(always)]
    fn write_among(
        &self,
        write: &PairToWrite,
        slots: Range<usize>,
        view: &InPlace<'_>,
    ) -> Option<FastPathResult> {
        let wanted = write.place.wanted;
        let mut swaps = 0;
        let from = write.place.start + slots.start as u64 * SLOT;
        for (passed, slot) in slots.clone().zip(view.slots::<2>(from, slots.len())) {
            let at = write.place.start + passed as u64 * SLOT;
            let (mut head, mut current) = (slot(0), 0);
            if head == wanted {
                current = slot(1);
            } else if head == 0 {
                head = view.compare_swap(at, 0, wanted);
                swaps += 1;
                if head == 0 {
                    self.claimed.set(self.claimed.get() + 1);
                    head = wanted;
                }
            }
            if head != wanted {
                continue;
            }
            let reads = self.pairs.more_reads(passed);
            for _ in 0..=MOST_RACES {
                if self.finds && current != 0 {
                    let value = self.pairs.words.value_of_pair(current);
                    return Some(FastPathResult::Written(Some(value), More { reads, swaps }));
                }
                let seen = view.compare_swap(at + 8, current, write.value);
                swaps += 1;
                if seen == current {
                    self.entered
                        .set(self.entered.get() + u32::from(current == 0));
                    let was = (current != 0).then_some(current);
                    return Some(FastPathResult::Written(was, More { reads, swaps }));
                }
                current = seen;
            }
            return Some(FastPathResult::Undecided);
        }
        // Where a swap lost a race, all is begun again in steps.
        (swaps > 0).then_some(FastPathResult::Undecided)
    }
}

impl<E: Endpoint> FastPath<TableWrite<'_>> for PairWriteFastPath<'_, E> {
    type Prepared = ();
    type Place = PairToWrite;

    #[inline(always)]
    fn prepare(&self, _: TableWrite<'_>, _: &InPlace<'_>) {}

    #[inline(always)]
    fn place(&self, write: TableWrite<'_>, (): (), view: &InPlace<'_>) -> Option<PairToWrite> {
        let (key, value) = match write.operation {
            Operation::FindOrPut(key, value) if self.finds => (key, value),
            Operation::Put(key, value) if !self.finds => (key, value),
            _ => return None,
        };
        if !self.pairs.value.admits(value.len()) {
            return None;
        }
        let value = self.pairs.words.pair_value(value).ok()?;
        let place = self.pairs.place(key, (), view)?;
        Some(PairToWrite { place, value })
    }

    #[inline(always)]
    fn fetch(&self, write: &PairToWrite, view: &InPlace<'_>) {
        self.pairs.fetch(&write.place, view);
    }

    #[inline(always)]
    fn look(&self, write: &PairToWrite, view: &InPlace<'_>) -> FastPathResult {
        let near = self.pairs.slots_near(&write.place);
        let seen = self.write_among(write, 0..near, view);
        seen.unwrap_or_else(|| self.pairs.fetch_further(&write.place, near, view))
    }

    #[inline(always)]
    fn look_on(&self, write: &PairToWrite, view: &InPlace<'_>) -> FastPathResult {
        let further = self.pairs.slots_near(&write.place)..self.pairs.reach;
        let seen = self.write_among(write, further, view);
        seen.unwrap_or(FastPathResult::Undecided)
    }

    #[inline]
    fn usual(&self) -> Steps {
        self.pairs.usual()
    }

    #[inline]
    fn more_bytes(&self) -> u64 {
        self.pairs.more_bytes()
    }

    #[inline]
    fn value_len(&self) -> usize {
        match self.finds {
            true => self.pairs.value_len(),
            // Whether the key was there is all that is told.
            false => 0,
        }
    }

    #[inline]
    fn ended(&self) {
        self.table
            .slots_used(self.claimed.get().into(), self.entered.get().into());
    }
}
