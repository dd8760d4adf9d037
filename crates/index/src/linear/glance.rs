//! The first step of lookups in Pair slots, made ready for many keys.
//!
//! Of tables of unique keys without hints and remembered records. It looks on in the READs that
//! follow, as the steps would, up to the table's end; what has no answer by then, or is to be read
//! round the end, is looked up in steps.

use super::client::LinearTable;
use super::walk::{Seen, scan_pairs};
use crate::hash::{Hasher, scale, xxh3};
use crate::slot::{KeyRule, SlotKind, WordFormat};
use crate::step::{Glance, Glanced};
use crate::{FieldSize, Operation};
use farslot_fabric::{Endpoint, InPlace, Piece, Steps};

/// Bytes of a slot, and of a key that is a word.
const SLOT: u64 = 16;
const KEY: usize = 8;
/// READs that it looks at.
const MOST_READS: u64 = 64;

/// Lookups in the Pair slots of a table.
pub(super) struct PairGlance {
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

impl PairGlance {
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
}

/// What is known of a key.
#[derive(Clone, Copy)]
pub(super) struct PairPlace {
    /// Its word.
    wanted: u64,
    /// The byte of the region at which its home begins.
    start: u64,
}

impl Glance<&[u8]> for PairGlance {
    type Prepared = ();
    type Place = PairPlace;

    #[inline(always)]
    fn prepare(&self, _: &[u8], _: &InPlace<'_>) {}

    #[inline(always)]
    fn place(&self, key: &[u8], (): (), view: &InPlace<'_>) -> Option<PairPlace> {
        let key: &[u8; KEY] = key.try_into().ok()?;
        let wanted = self.words.pair_key(key)?;
        let home = scale(xxh3(key, self.seed), self.slots);
        if home > self.last_home {
            return None;
        }
        let start = self.first + home * SLOT;
        // As much as of the steps.
        view.prefetch(start, (self.read * SLOT) as usize / 2);
        Some(PairPlace { wanted, start })
    }

    #[inline(always)]
    fn look(&self, place: &PairPlace, view: &InPlace<'_>) -> Glanced {
        let slots = view.slots::<2>(place.start, self.reach);
        let took_more = |passed: usize| match passed as u64 >= self.read {
            true => passed as u32 / self.read as u32,
            false => 0,
        };
        match scan_pairs(place.wanted, slots) {
            (_, Seen::Nothing | Seen::Head(_)) => Glanced::Undecided,
            (passed, Seen::Empty | Seen::Word(0)) => Glanced::Absent(took_more(passed)),
            (passed, Seen::Word(word)) => {
                Glanced::Found(self.words.value_of_pair(word), took_more(passed))
            }
        }
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

/// Those of find-or-puts, which write nothing where the key is there. Where it is not, they go in
/// steps.
pub(super) struct FindOrPutGlance(pub(super) PairGlance);

impl Glance<Operation<'_>> for FindOrPutGlance {
    type Prepared = ();
    type Place = PairPlace;

    #[inline(always)]
    fn prepare(&self, _: Operation<'_>, _: &InPlace<'_>) {}

    #[inline(always)]
    fn place(&self, write: Operation<'_>, (): (), view: &InPlace<'_>) -> Option<PairPlace> {
        let Operation::FindOrPut(key, value) = write else {
            return None;
        };
        let is_fit = self.0.value.admits(value.len()) && self.0.words.pair_value(value).is_ok();
        is_fit.then(|| self.0.place(key, (), view))?
    }

    #[inline(always)]
    fn look(&self, place: &PairPlace, view: &InPlace<'_>) -> Glanced {
        match self.0.look(place, view) {
            Glanced::Absent(_) => Glanced::Undecided,
            glanced => glanced,
        }
    }

    #[inline]
    fn usual(&self) -> Steps {
        self.0.usual()
    }

    #[inline]
    fn more_bytes(&self) -> u64 {
        self.0.more_bytes()
    }

    #[inline]
    fn value_len(&self) -> usize {
        self.0.value_len()
    }
}
