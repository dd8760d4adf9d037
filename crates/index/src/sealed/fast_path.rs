//! The first step of lookups, made ready for many keys, where keys and values are words.
//!
//! Of tables that are probed it looks on in the READs that follow, as the steps would, up to the
//! table's end; what has no answer by then is looked up in steps. Where each key has one slot, that
//! decides.

use super::client::Client;
use super::layout::{SealedForm, SlotOrder};
use super::perfect::{Function, PilotHash};
use super::slots::{InlineFormat, place};
use crate::hash::{Hasher, xxh3};
use crate::step::{FastPath, FastPathResult, slots_near};
use farslot_fabric::{Endpoint, InPlace, Piece, Steps};
use std::ops::ControlFlow::{self, Break, Continue};

/// Bytes of a slot, and of a key that is a word.
const SLOT: u64 = 16;
const KEY: usize = 8;
/// READs after which a lookup goes in steps.
const MOST_READS: u32 = 3;

/// The slots of a table whose keys and values are words.
#[derive(Clone, Copy)]
struct Pairs {
    /// The byte of the region at which they begin, and how many they are.
    first: u64,
    slots: u64,
    mask: u64,
}

impl Pairs {
    /// Those of a table that is known to be built.
    fn of<E: Endpoint>(client: &Client<E>, view: &InPlace<'_>) -> Option<Self> {
        let layout = &client.layout;
        let mask = client.known_build()?.mask;
        let format = client.inline_format(mask);
        let are_words = layout.form == SealedForm::Inline
            && layout.record_bytes().is_some()
            && matches!(format, InlineFormat { key: KEY, slot, .. } if slot as u64 == SLOT);
        let all = Piece {
            from: layout.slot_at(client.table, 0),
            len: (layout.slots * SLOT) as usize,
        };
        Some(Self {
            first: view.offset_of(all).filter(|_| are_words)?,
            slots: layout.slots,
            mask,
        })
    }

    /// What a key's slot begins with; nothing of the key that looks like an empty slot, which is
    /// absent.
    #[inline(always)]
    fn wanted(&self, key: &[u8; KEY]) -> Option<u64> {
        let wanted = u64::from_le_bytes(*key) ^ self.mask;
        (wanted != 0).then_some(wanted)
    }
}

/// Lookups in a table that is probed.
pub(super) struct SealedPairFastPath {
    pairs: Pairs,
    seed: u64,
    homes: u64,
    /// Slots of a READ.
    read: u64,
    is_ordered: bool,
}

impl SealedPairFastPath {
    /// That of a table whose lookups can do with it.
    pub(super) fn of<E: Endpoint>(client: &Client<E>, view: &InPlace<'_>) -> Option<Self> {
        let Hasher::Xxh3 { seed } = client.layout.hasher else {
            return None;
        };
        Some(Self {
            pairs: Pairs::of(client, view)?,
            seed,
            homes: client.layout.homes,
            read: client.read_size(),
            is_ordered: client.layout.order == SlotOrder::ByHash,
        })
    }
}

/// Where a key's probe begins, and what it looks for.
#[derive(Clone, Copy)]
pub(super) struct SealedPairProbe {
    /// What its slot begins with.
    wanted: u64,
    hash: u64,
    /// The byte of the region at which its first READ begins.
    start: u64,
}

/// Looks for the slot that begins with this word among some, so many from a byte on, after so many
/// READs more than usual; goes on, behind them, with what the last begins with.
#[inline(always)]
fn scan(
    wanted: u64,
    (start, slots): (u64, u64),
    took_more: u32,
    view: &InPlace<'_>,
) -> ControlFlow<FastPathResult, u64> {
    let mut last = 0;
    for slot in view.slots::<2>(start, slots as usize) {
        last = slot(0);
        if last == wanted {
            return Break(FastPathResult::Found(slot(1), took_more));
        }
        if last == 0 {
            return Break(FastPathResult::Absent(took_more));
        }
    }
    Continue(last)
}

impl FastPath<&[u8]> for SealedPairFastPath {
    type Prepared = ();
    type Place = SealedPairProbe;

    #[inline(always)]
    fn prepare(&self, _: &[u8], _: &InPlace<'_>) {}

    #[inline(always)]
    fn place(&self, key: &[u8], (): (), _: &InPlace<'_>) -> Option<SealedPairProbe> {
        let key: &[u8; KEY] = key.try_into().ok()?;
        let wanted = self.pairs.wanted(key)?;
        let hash = xxh3(key, self.seed);
        let (home, _) = place(hash, self.homes);
        if home + u64::from(MOST_READS) * self.read > self.pairs.slots {
            return None;
        }
        let start = self.pairs.first + home * SLOT;
        Some(SealedPairProbe {
            wanted,
            hash,
            start,
        })
    }

    #[inline(always)]
    fn fetch(&self, place: &SealedPairProbe, view: &InPlace<'_>) {
        view.prefetch(place.start, 2 * SLOT as usize);
    }

    /// Looks at the slots that were fetched: they suffice for most.
    #[inline(always)]
    fn look(&self, place: &SealedPairProbe, view: &InPlace<'_>) -> FastPathResult {
        let near = slots_near::<SLOT>(place.start).min(self.read);
        if let Break(glanced) = scan(place.wanted, (place.start, near), 0, view) {
            return glanced;
        }
        let further = place.start + near * SLOT;
        view.prefetch(further, (self.read * SLOT) as usize);
        FastPathResult::Fetching
    }

    #[inline(always)]
    fn look_on(&self, place: &SealedPairProbe, view: &InPlace<'_>) -> FastPathResult {
        for took_more in 0..MOST_READS {
            let start = place.start + u64::from(took_more) * self.read * SLOT;
            let last = match scan(place.wanted, (start, self.read), took_more, view) {
                Break(glanced) => return glanced,
                Continue(last) => (last ^ self.pairs.mask).to_le_bytes(),
            };
            if self.is_ordered && xxh3(&last, self.seed) > place.hash {
                return FastPathResult::Absent(took_more);
            }
        }
        FastPathResult::Undecided
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
        8
    }
}

/// Lookups in a table with one slot for each key.
pub(super) struct ExactFastPath<'t> {
    pairs: Pairs,
    function: &'t Function,
}

impl<'t> ExactFastPath<'t> {
    /// That of a table whose lookups can do with it. Where there is a filter, absent keys mostly
    /// have no slot.
    pub(super) fn of<E: Endpoint>(client: &'t Client<E>, view: &InPlace<'_>) -> Option<Self> {
        Some(Self {
            pairs: Pairs::of(client, view)?,
            function: client.function()?,
        })
    }
}

impl FastPath<&[u8]> for ExactFastPath<'_> {
    type Prepared = PilotHash;
    type Place = SealedPairProbe;

    #[inline(always)]
    fn prepare(&self, key: &[u8], _: &InPlace<'_>) -> PilotHash {
        let hashed = self.function.hashed(key);
        self.function.prefetch(hashed);
        hashed
    }

    #[inline(always)]
    fn place(&self, key: &[u8], hashed: PilotHash, _: &InPlace<'_>) -> Option<SealedPairProbe> {
        let wanted = self.pairs.wanted(key.try_into().ok()?)?;
        let slot = self.function.slot(hashed)?;
        if slot >= self.pairs.slots {
            return None;
        }
        let start = self.pairs.first + slot * SLOT;
        Some(SealedPairProbe {
            wanted,
            hash: 0,
            start,
        })
    }

    #[inline(always)]
    fn fetch(&self, place: &SealedPairProbe, view: &InPlace<'_>) {
        view.prefetch(place.start, SLOT as usize);
    }

    #[inline(always)]
    fn look(&self, place: &SealedPairProbe, view: &InPlace<'_>) -> FastPathResult {
        let slot = view.slot::<2>(place.start);
        match slot(0) == place.wanted {
            true => FastPathResult::Found(slot(1), 0),
            false => FastPathResult::Absent(0),
        }
    }

    #[inline]
    fn usual(&self) -> Steps {
        Steps::begun(1, SLOT)
    }

    #[inline]
    fn value_len(&self) -> usize {
        8
    }
}
