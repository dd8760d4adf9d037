//! Putting a new key, in steps.
//!
//! An insertion takes two swaps. The first *begins* it in an empty slot, where no lookup sees it;
//! the READ of the key's slots that leaves in the same batch takes effect behind that swap. If it
//! shows neither the key nor another insertion of it that has begun, the second swap makes the slot
//! live. Otherwise one of two gives way: the insertion, if the key is there; and of several that
//! have begun, all but one.
//!
//! Invariant: no key has two live slots. Of two insertions of a key, begun in two slots, each looks
//! at the other's slot after its own has begun. Who began last therefore sees the other's, begun or
//! live. If it is live he gives way; if it is begun he becomes live only when he has undone it, and
//! then its client's second swap fails. This holds of the dead as of the living, so that nobody
//! waits for anybody.
//!
//! To undo another's insertion is always allowed, for it has had no effect, and its client begins
//! again. So that two do not undo each other for ever, the one in the later slot gives way to one
//! that it meets for the first time, waits, and undoes it only if it then is still there.

use super::client::RaceTable;
use super::directory::SubtableLeaf;
use super::seen::SlotWord;
use super::word::{State, Word};
use super::write::{RaceWriteSlowPath, RaceWriteState, Stage, Write, Writes};
use crate::client::{pause, side_by_side};
use crate::step::{NextStep, Reads};
use crate::{BATCH_WIDTH, IndexError, Result};
use farslot_fabric::Endpoint;

impl<E: Endpoint> Writes<'_, E> {
    /// Begins to insert a key that was seen to be absent.
    #[inline]
    pub(super) fn insert(
        &self,
        write: &Write<'_>,
        of: &mut RaceWriteState,
    ) -> NextStep<RaceWriteSlowPath> {
        let Some(slot) = of.seen.empty_slot(&write.key.buckets) else {
            return NextStep::SlowPath(RaceWriteSlowPath::MakeRoom);
        };
        (of.slot, of.expected) = (slot, Word::empty(of.leaf.depth));
        // In this order: whoever sees the swap can read the record, and the look sees whoever has
        // swapped before.
        self.with_record(write, of, Stage::Begin)
    }

    /// Makes an insertion live that is begun, where no record is the key's: unless others have
    /// begun to insert it too.
    #[inline]
    pub(super) fn is_alone(&self, of: &mut RaceWriteState) -> NextStep<RaceWriteSlowPath> {
        match of.seen.has_begun && self.rivals(of).next().is_some() {
            true => NextStep::SlowPath(RaceWriteSlowPath::Rivals),
            false => Self::become_live(of),
        }
    }

    fn become_live(of: &mut RaceWriteState) -> NextStep<RaceWriteSlowPath> {
        Self::decide(of, Stage::Live, |begun| begun.in_state(State::Live))
    }

    /// Has an insertion that is begun undone.
    pub(super) fn give_way(&self, of: &mut RaceWriteState) -> NextStep<RaceWriteSlowPath> {
        Self::decide(of, Stage::Undo, |begun| Word::empty(begun.depth()))
    }

    #[inline]
    fn decide(
        of: &mut RaceWriteState,
        stage: Stage,
        becomes: impl Fn(Word) -> Word,
    ) -> NextStep<RaceWriteSlowPath> {
        if let Some(begun) = of.begun {
            (of.expected, of.new) = (begun, becomes(begun));
        }
        of.stage = stage;
        NextStep::Change(Reads::NONE)
    }

    /// Other insertions of the key, as it seems by its tag.
    fn rivals(&self, of: &RaceWriteState) -> impl Iterator<Item = SlotWord> {
        let is_rival = |(slot, word): &SlotWord| *slot != of.slot && word.state() == State::Begun;
        of.seen.marked.iter().copied().filter(is_rival)
    }

    /// Gives way to others that have begun to insert the key, or undoes what they have begun;
    /// nothing if one of them has become live or given way meanwhile.
    pub(super) async fn meet_rivals(
        &self,
        of: &mut RaceWriteState,
    ) -> Result<Option<NextStep<RaceWriteSlowPath>>> {
        let rivals: Vec<SlotWord> = self.rivals(of).collect();
        let goes_first = |other: &SlotWord| other.0 < of.slot && !of.rivals.met.contains(other);
        if rivals.iter().any(goes_first) {
            self.table.worked(|work| work.yielded += 1);
            (of.rivals.met, of.rivals.wait) = (rivals, true);
            return Ok(Some(self.give_way(of)));
        }
        let are_undone = self.table.undo_all(of.leaf, rivals).await?;
        Ok(are_undone.then(|| Self::become_live(of)))
    }

    /// Gives those some time that an insertion has given way to.
    pub(super) async fn let_rivals_go_first(&self, of: &mut RaceWriteState) -> Result<()> {
        match std::mem::take(&mut of.rivals.wait) {
            true => pause(&*self.table.endpoint, 1).await,
            false => Ok(()),
        }
    }
}

impl<E: Endpoint> RaceTable<E> {
    /// Undoes insertions of others; true if none of them has become live or given way before.
    async fn undo_all(&self, leaf: SubtableLeaf, begun: Vec<SlotWord>) -> Result<bool> {
        let mut all = true;
        let undoing = begun.into_iter().map(|of| self.undo(leaf, of));
        side_by_side(BATCH_WIDTH, undoing, |_, undone| {
            all &= undone;
            self.worked(|work| work.undone += u64::from(undone));
        })
        .await?;
        Ok(all)
    }

    /// Empties a slot that an insertion has begun in; false if it is not that any more.
    pub(super) async fn undo(&self, leaf: SubtableLeaf, (slot, begun): SlotWord) -> Result<bool> {
        let empty = Word::empty(begun.depth());
        Ok(self.swap(leaf.subtable, slot, begun, empty).await? == begun)
    }

    /// Makes an empty slot for a key that finds none: of insertions that their clients have left,
    /// and that are still there when it has waited, or else by splitting the subtable.
    pub(super) async fn make_room(&self, write: &Write<'_>, of: &mut RaceWriteState) -> Result<()> {
        let buckets = &write.key.buckets;
        if !of.seen.has_begun {
            return match self.split(of.leaf, buckets.slots()).await {
                Err(full @ IndexError::Full { .. }) => self.evict_one(write, of, full).await,
                split => split,
            };
        }
        let view = self.read_spans(of.leaf, buckets.spans()).await?;
        let of_state = |(_, word): &SlotWord| word.state() == State::Begun;
        let begun: Vec<SlotWord> = view.words().filter(of_state).collect();
        let left = begun.iter().filter(|other| of.rivals.met.contains(other));
        let left: Vec<SlotWord> = left.copied().collect();
        if left.is_empty() {
            of.rivals.met = begun;
            return pause(&*self.endpoint, 1).await;
        }
        self.undo_all(of.leaf, left).await.map(drop)
    }

    /// Forgets a record in the buckets of a key that finds no room there, if the table forgets any.
    async fn evict_one(
        &self,
        write: &Write<'_>,
        of: &RaceWriteState,
        full: IndexError,
    ) -> Result<()> {
        if !self.heap.evicts() {
            return Err(full);
        }
        let view = self.read_spans(of.leaf, write.key.buckets.spans()).await?;
        let live = view.words().filter(|(_, word)| word.state() == State::Live);
        let blocks: Vec<_> = live.map(|(_, word)| word.block()).collect();
        match Box::pin(self.heap.evict_one_of(&blocks, self)).await? {
            true => Ok(()),
            false => Err(full),
        }
    }
}
