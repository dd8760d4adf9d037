//! Writing Word and Pair slots, in steps: putting, finding or putting (paper 002, figure 1),
//! replacing and removing.
//!
//! Invariant: that of every insertion. A key is only ever put into the first empty slot of its
//! probe, by a compare-and-swap from empty: clients that insert the same key race for the same
//! slot, and the loser sees whose it is. A lost compare-and-swap costs no READ: the word that it
//! found replaces what was read, and the slots behind it are looked at where they were read.
//!
//! A Word slot takes one compare-and-swap. In a Pair slot that of the key's word claims, and that
//! of the value's word publishes, replaces or removes: always in this order, as separate steps.

use super::client::{Key, LinearTable};
use super::cluster_hints::{LONG, Until};
use super::glance::PairWriteGlance;
use super::probe::{MOST_RACES, Probe};
use super::walk::{Seen, Spot};
use crate::client::check_turn;
use crate::slot::{KeyRule, SlotKind};
use crate::step::{Change, Found, Glance, Lookup, Next, Read, Reads, Swap, failed, view_for};
use crate::{IndexError, Operation, Result};
use farslot_fabric::{Endpoint, EndpointExt, InPlace, Piece, Rights};

/// The writes of a table's Word or Pair slots.
pub(super) struct WordWrites<'t, E>(pub(super) &'t LinearTable<E>);

/// A write whose key and value were checked.
pub(crate) struct Write<'k> {
    key: Key<'k>,
    operation: Operation<'k>,
    /// The word that will hold the value: a live Word slot, or the value's word of a Pair slot.
    word: u64,
}

/// How far a write has come.
#[derive(Default)]
pub(crate) struct Walk {
    /// From the key's home to the slot that is looked at; in slots.
    distance: u64,
    /// The first slot that was read.
    first: u64,
    /// How many were read, and how many of them lie before the table's end.
    slots: u64,
    before_end: u64,
    /// The compare-and-swap under way.
    swap: Wanted,
    /// How often another writer was faster.
    races: u32,
    /// Records that it has removed.
    removed: u64,
    /// Whether there is enough to report.
    is_report_due: bool,
}

/// A compare-and-swap of a word of the slot that is looked at.
#[derive(Clone, Copy, Default)]
struct Wanted {
    /// 0 or 1.
    word: u64,
    expected: u64,
    new: u64,
}

/// What a write needs besides READs and compare-and-swaps.
#[derive(Clone, Copy)]
pub(crate) enum Aside {
    /// A walk that has the next chunk on its way before it has looked at this one.
    LookAhead,
    /// The records of a multi-key table's key that may stand behind this dead slot.
    BehindDead(u64),
    /// A report of what this client has counted, once the write is done. The key was there, or not.
    Report { was_there: bool },
}

impl<E: Endpoint> Lookup for WordWrites<'_, E> {
    const WRITES: bool = true;

    type Endpoint = E;
    type Asked<'k> = Operation<'k>;
    type Key<'k> = Write<'k>;
    type Search = Walk;
    type Aside = Aside;

    #[inline(always)]
    fn endpoint(&self) -> &E {
        &self.0.endpoint
    }

    #[inline]
    fn in_place(&self) -> Option<InPlace<'_>> {
        let table = self.0;
        let needed = Rights::READ.and(Rights::ATOMIC);
        // Looking ahead is for READs that take their time.
        (!table.sizes.look_ahead).then(|| view_for(&*table.endpoint, table.table, needed))?
    }

    #[inline]
    fn glance<'k>(
        &self,
        view: &InPlace<'_>,
        writes: &[Self::Asked<'k>],
    ) -> Option<impl Glance<Self::Asked<'k>>> {
        PairWriteGlance::of(self.0, view, writes.first()?)
    }

    async fn report_if_due(&self) {
        if self.0.counts.are_due() {
            // This cannot fail: the writes that are counted are done, and counts may lag.
            let _ = self.0.report().await;
        }
    }

    #[inline(always)]
    fn key<'k>(&self, operation: Self::Asked<'k>) -> Result<Write<'k>> {
        let table = self.0;
        if table.layout.keys == KeyRule::Multi {
            check_multi_key(&operation)?;
        }
        let key = table.checked_key(operation.key())?;
        let word = match operation.value() {
            Some(value) => self.word_of_value(&key, value)?,
            None => 0,
        };
        Ok(Write {
            key,
            operation,
            word,
        })
    }

    #[inline(always)]
    fn begin(&self, write: &Self::Key<'_>, walk: &mut Walk) -> Next<Aside> {
        walk.distance = 0;
        walk.races = 0;
        walk.removed = 0;
        walk.is_report_due = false;
        self.read_on(write, walk)
    }

    #[inline(always)]
    fn piece(&self, write: &Self::Key<'_>, walk: &Walk, number: usize) -> Piece {
        let slots = (walk.slots, walk.before_end);
        let of_slots =
            |kind| (self.0).piece_of_slots(kind, (write.key.home, walk.first), slots, number);
        match self.0.layout.kind {
            SlotKind::Pair => of_slots(SlotKind::Pair),
            kind => of_slots(kind),
        }
    }

    #[inline(always)]
    fn likely_bytes(&self, _: &Walk, len: usize) -> usize {
        // As of a lookup.
        len / 2
    }

    #[inline(always)]
    fn look(&self, write: &Self::Key<'_>, walk: &mut Walk, read: &mut impl Read) -> Next<Aside> {
        match self.0.layout.kind {
            SlotKind::Pair => self.look_at(SlotKind::Pair, write, walk, read),
            kind => self.look_at(kind, write, walk, read),
        }
    }

    #[inline(always)]
    fn read_on(&self, write: &Self::Key<'_>, walk: &mut Walk) -> Next<Aside> {
        let table = self.0;
        if table.sizes.look_ahead {
            return Next::Aside(Aside::LookAhead);
        }
        let home = write.key.home;
        let length = table.read_length(home, walk.distance, self.until(write));
        if length.slots == 0 {
            return self.at_end(write, walk);
        }
        if walk.distance >= LONG && check_turn(&*table.endpoint).is_err() {
            let in_doubt = walk.removed > 0;
            return failed(IndexError::TurnOver { in_doubt });
        }
        walk.first = walk.distance;
        walk.slots = length.slots;
        let to_end = table.layout.slots - table.slot_number(home, walk.distance);
        walk.before_end = length.slots.min(to_end);
        if walk.before_end < walk.slots {
            // Round the table's end (paper 002, section 3.2).
            Next::Read(Reads::gathered(2))
        } else {
            Next::Read(Reads::ONE)
        }
    }

    #[inline(always)]
    fn change<'k>(&self, write: &Self::Key<'k>, walk: &Walk) -> Change<'k> {
        let table = self.0;
        let slot = table.slot_number(write.key.home, walk.distance);
        let Wanted {
            word,
            expected,
            new,
        } = walk.swap;
        let swap = Swap {
            at: table.layout.slot_at(table.table, slot).plus(word * 8),
            expected,
            new,
        };
        Change {
            record: None,
            swap: Some(swap),
        }
    }

    #[inline(always)]
    fn changed(
        &self,
        write: &Self::Key<'_>,
        walk: &mut Walk,
        seen: u64,
        _: &mut impl Read,
    ) -> Next<Aside> {
        self.swapped(write, walk, seen)
    }

    async fn aside(
        &self,
        write: &Self::Key<'_>,
        walk: &mut Walk,
        aside: Aside,
    ) -> Result<Next<Aside>> {
        let table = self.0;
        match aside {
            Aside::LookAhead => self.walk_ahead(write, walk).await,
            Aside::BehindDead(word) => {
                let behind = table.find_behind_dead(&write.key).await?;
                Ok(match behind {
                    Some(value) => Next::Found(Found::Value(Box::new(value))),
                    None => self.wants_value(walk, word, write.word),
                })
            }
            Aside::Report { was_there } => {
                // This cannot fail: the write that is counted is done, and counts may lag.
                let _ = table.report().await;
                Ok(answer(was_there))
            }
        }
    }

    #[inline]
    fn while_waiting(&self) {
        self.0.merge_hints();
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

/// Has a word of the slot that is looked at swapped.
#[inline(always)]
fn wants(walk: &mut Walk, word: u64, expected: u64, new: u64) -> Next<Aside> {
    walk.swap = Wanted {
        word,
        expected,
        new,
    };
    Next::Change(Reads::NONE)
}

/// Ends a write; whether the key was there is its answer.
#[inline(always)]
fn done(walk: &Walk, was_there: bool) -> Next<Aside> {
    if walk.is_report_due {
        return Next::Aside(Aside::Report { was_there });
    }
    answer(was_there)
}

#[inline(always)]
fn answer(was_there: bool) -> Next<Aside> {
    match was_there {
        true => Next::Found(Found::Word { word: 0, len: 0 }),
        false => Next::Absent,
    }
}

impl<E: Endpoint> WordWrites<'_, E> {
    /// Looks at slots of the table's kind.
    #[inline(always)]
    fn look_at(
        &self,
        kind: SlotKind,
        write: &Write<'_>,
        walk: &mut Walk,
        read: &mut impl Read,
    ) -> Next<Aside> {
        let table = self.0;
        for (piece, slots) in [(0, 0..walk.before_end), (1, walk.before_end..walk.slots)] {
            while walk.distance - walk.first < slots.end {
                let from = (walk.distance - walk.first - slots.start) as usize;
                let end = (slots.end - slots.start) as usize;
                let (slot, seen) = table.scan(kind, &write.key, from..end, read.words(piece));
                walk.distance = walk.first + slots.start + slot as u64;
                let next = match seen {
                    Seen::Nothing => break,
                    Seen::Empty => {
                        self.note_run(write, walk, (piece, slot..end), read);
                        Some(self.at_empty(write, walk))
                    }
                    Seen::Word(word) => self.at_own(kind, write, walk, word),
                    Seen::Head(_) => None,
                };
                match next {
                    Some(next) => return next,
                    None => walk.distance += 1,
                }
            }
        }
        self.read_on(write, walk)
    }

    /// Looks at what the word had that was to be swapped: what was expected, if it was.
    #[inline(always)]
    fn swapped(&self, write: &Write<'_>, walk: &mut Walk, seen: u64) -> Next<Aside> {
        let table = self.0;
        let Wanted {
            word,
            expected,
            new,
        } = walk.swap;
        if seen != expected {
            return self.was_slower(write, walk, seen);
        }
        if word == 0 && expected == 0 {
            table.slot_used();
            if table.layout.kind == SlotKind::Pair {
                return wants(walk, 1, 0, write.word);
            }
        }
        let (was_there, is_there) = (
            table.has_value(table.layout.kind, expected),
            table.has_value(table.layout.kind, new),
        );
        if was_there != is_there {
            let change = i64::from(is_there) - i64::from(was_there);
            walk.is_report_due |= table.counts.change(0, change);
        }
        if let Operation::Remove(_) = write.operation {
            walk.removed += 1;
            if table.layout.keys == KeyRule::Multi {
                walk.distance += 1;
                return Next::LookOn;
            }
        }
        done(walk, was_there)
    }

    /// What a Word or Pair slot's word becomes.
    #[inline(always)]
    fn word_of_value(&self, key: &Key<'_>, value: &[u8]) -> Result<u64> {
        let table = self.0;
        table.check_value(value)?;
        match table.layout.kind {
            SlotKind::Pair => table.words.pair_value(value),
            _ => table.words.live_word(key.word, value),
        }
    }

    #[inline(always)]
    fn until(&self, write: &Write<'_>) -> Until {
        match write.operation {
            Operation::Put(..) | Operation::Remove(_) => self.0.until_all(),
            _ => Until::Match,
        }
    }

    /// At the first empty slot: the key is absent, and belongs here.
    #[inline(always)]
    fn at_empty(&self, write: &Write<'_>, walk: &mut Walk) -> Next<Aside> {
        match (write.operation, self.0.layout.kind) {
            (Operation::Put(..) | Operation::FindOrPut(..), SlotKind::Pair) => {
                wants(walk, 0, 0, write.key.word)
            }
            (Operation::Put(..) | Operation::FindOrPut(..), _) => wants(walk, 0, 0, write.word),
            _ => done(walk, walk.removed > 0),
        }
    }

    /// At the end of the longest probe: the key is absent, and there is no place for it.
    #[cold]
    fn at_end(&self, write: &Write<'_>, walk: &Walk) -> Next<Aside> {
        match write.operation {
            Operation::Put(..) | Operation::FindOrPut(..) => failed(self.0.full()),
            _ => done(walk, walk.removed > 0),
        }
    }

    /// At a slot of the key, whose value this word holds or does not: nothing where the write goes
    /// on to the next slot.
    #[inline(always)]
    fn at_own(
        &self,
        kind: SlotKind,
        write: &Write<'_>,
        walk: &mut Walk,
        word: u64,
    ) -> Option<Next<Aside>> {
        let table = self.0;
        let is_multi = table.layout.keys == KeyRule::Multi;
        Some(match (write.operation, table.has_value(kind, word)) {
            (Operation::Put(..), true) if is_multi => return None,
            (Operation::Put(..), _) | (Operation::Update(..), true) => {
                self.wants_value(walk, word, write.word)
            }
            (Operation::FindOrPut(..), true) => Next::Found(table.found_in(kind, word)),
            (Operation::FindOrPut(..), false) if is_multi => Next::Aside(Aside::BehindDead(word)),
            (Operation::FindOrPut(..), false) => self.wants_value(walk, word, write.word),
            (Operation::Replace(_, expected, _), true) => {
                let there = table.value_of(word);
                match there.as_deref() == Some(expected) {
                    true => self.wants_value(walk, word, write.word),
                    false => done(walk, false),
                }
            }
            (Operation::Remove(_), true) => self.wants_dead(walk, word),
            (Operation::RemoveIf(_, expected), true) => {
                let there = table.value_of(word);
                match there.as_deref() == Some(expected) {
                    true => self.wants_dead(walk, word),
                    false => done(walk, false),
                }
            }
            (Operation::Remove(_), false) if is_multi => return None,
            _ => done(walk, false),
        })
    }

    /// Has the key's own slot made dead.
    #[inline(always)]
    fn wants_dead(&self, walk: &mut Walk, word: u64) -> Next<Aside> {
        let dead = match self.0.layout.kind {
            SlotKind::Pair => 0,
            _ => self.0.words.bury(word),
        };
        self.wants_value(walk, word, dead)
    }

    /// Has the word of the key's own slot that holds the value swapped.
    #[inline(always)]
    fn wants_value(&self, walk: &mut Walk, expected: u64, new: u64) -> Next<Aside> {
        let word = u64::from(self.0.layout.kind == SlotKind::Pair);
        wants(walk, word, expected, new)
    }

    /// Another writer was faster: the word that it has left says how this write goes on.
    #[cold]
    fn was_slower(&self, write: &Write<'_>, walk: &mut Walk, word: u64) -> Next<Aside> {
        let table = self.0;
        walk.races += 1;
        if walk.races > MOST_RACES {
            return failed(IndexError::Contended {
                slot: table.slot_number(write.key.home, walk.distance),
                attempts: walk.races,
            });
        }
        let seen = match walk.swap.word {
            0 => {
                // Of a slot that was empty when it was read, a value was not seen yet.
                let words = |number| if number == 0 { word } else { 0 };
                table.scan(table.layout.kind, &write.key, 0..1, words).1
            }
            _ => Seen::Word(word),
        };
        let next = match seen {
            Seen::Empty => Some(self.at_empty(write, walk)),
            Seen::Word(word) => self.at_own(table.layout.kind, write, walk, word),
            Seen::Nothing | Seen::Head(_) => None,
        };
        next.unwrap_or_else(|| {
            walk.distance += 1;
            Next::LookOn
        })
    }

    /// Walks on with the next chunk under way while this one is looked at, as far as READs and
    /// compare-and-swaps lead: what was read is kept between them.
    async fn walk_ahead(&self, write: &Write<'_>, walk: &mut Walk) -> Result<Next<Aside>> {
        let table = self.0;
        let mut probe = Probe::new(&write.key, self.until(write));
        loop {
            probe.distance = walk.distance;
            let spot = table.locate(&write.key, &mut probe).await?;
            walk.distance = probe.distance;
            let mut next = match spot {
                Spot::End => self.at_end(write, walk),
                Spot::Empty => {
                    table.probe_met_in_use(&probe);
                    self.at_empty(write, walk)
                }
                Spot::Mine { word, .. } => self
                    .at_own(table.layout.kind, write, walk, word)
                    .unwrap_or_else(|| {
                        walk.distance += 1;
                        Next::LookOn
                    }),
            };
            while let Next::Change(_) = next
                && let Some(Swap { at, expected, new }) = self.change(write, walk).swap
            {
                let seen = table.endpoint.compare_swap(at, expected, new).await?;
                next = self.swapped(write, walk, seen);
            }
            if !matches!(next, Next::LookOn) {
                return Ok(next);
            }
        }
    }

    /// Notes that the first of these slots is in use, as it is once the write or a faster one has
    /// claimed it, and where its run ends.
    #[inline(always)]
    fn note_run(
        &self,
        write: &Write<'_>,
        walk: &Walk,
        (piece, slots): (usize, std::ops::Range<usize>),
        read: &impl Read,
    ) {
        let table = self.0;
        let claims = matches!(
            write.operation,
            Operation::Put(..) | Operation::FindOrPut(..)
        );
        if table.hints.is_some() && claims {
            let slot_words = table.layout.slot_bytes() / 8;
            let heads = slots.map(|slot| read.word(piece, slot * slot_words));
            table.met_in_use(write.key.home, walk.distance, heads);
        }
    }
}
