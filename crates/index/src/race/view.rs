//! Reading slots, and what a reader or a writer may make of what was read.
//!
//! Every word says how deep its subtable was when it was written, so that no READ of slots can be
//! taken for one of a subtable that has been split since: a word that is *ahead* of the client's
//! directory has the directory read on. A word that is *behind* is that of a slot that a split has
//! not come to yet. Writers carry it over first; readers, who may have no right to write, look
//! where its record still is.

use super::buckets::SlotSpan;
use super::client::{Key, RaceTable};
use super::directory::{SubtableLeaf, SubtableSplit};
use super::word::{State, Word};
use crate::client::{MOST_READS, pause, side_by_side};
use crate::step::ReadPieces;
use crate::{BATCH_WIDTH, IndexError, Result};
use farslot_fabric::{Buffer, BufferPool, Endpoint, EndpointExt, both};
use std::cell::Cell;

/// How often others may be faster before an operation gives up.
///
/// With the pauses between, that is about a second: far longer than any client needs for what it
/// does between two verbs, so that what still stands in the way then is damaged, or its writer has
/// stopped for good.
const MOST_RACES: u32 = 1_000;

/// How often others may be faster before an operation pauses: races are mostly won by the second
/// attempt.
const RACES_WITHOUT_PAUSE: u32 = 8;

/// Spans of slots of one subtable, as they were read.
pub(crate) struct View {
    pub(super) leaf: SubtableLeaf,
    parts: [Option<(u64, Buffer)>; 2],
}

impl View {
    /// What was read of a key's slots.
    ///
    /// # Errors
    /// Where there is no buffer for it.
    #[cold]
    pub(super) fn copied(
        read: &mut impl ReadPieces,
        leaf: SubtableLeaf,
        key: &Key<'_>,
        pool: &BufferPool,
    ) -> Result<Self> {
        let mut parts = [const { None }; 2];
        for (piece, (span, part)) in key.buckets.each_span().zip(&mut parts).enumerate() {
            let words = pool.copy_of(read.bytes(piece, 0..span.slots as usize * 8))?;
            *part = Some((span.first, words));
        }
        Ok(Self { leaf, parts })
    }

    /// The slots with their words.
    #[inline]
    pub(super) fn words(&self) -> impl Iterator<Item = (u64, Word)> {
        let parts = self.parts.iter().flatten();
        parts
            .flat_map(|(first, words)| (*first..).zip(words.words().iter().map(|word| Word(*word))))
    }

    /// The word of a slot that was read.
    fn word(&self, slot: u64) -> Option<Word> {
        let mut words = self.words();
        words.find(|(of, _)| *of == slot).map(|(_, word)| word)
    }

    /// Sets words right.
    fn correct(&mut self, right: impl Fn(u64, Word) -> Word) {
        for (first, words) in self.parts.iter_mut().flatten() {
            for (slot, word) in (*first..).zip(words.words_mut()) {
                *word = right(slot, Word(*word)).0;
            }
        }
    }

    /// A word that the directory does not explain yet: the slot, and the depth that its subtable
    /// has reached.
    fn ahead(&self) -> Option<(u64, u32)> {
        let depths = self.words().map(|(slot, word)| (slot, word.reaches()));
        depths
            .max_by_key(|(_, depth)| *depth)
            .filter(|(_, depth)| *depth > self.leaf.depth)
    }

    /// Slots that the last split has not come to, with their words.
    fn behind(&self) -> impl Iterator<Item = (u64, Word)> {
        self.words()
            .filter(|(_, word)| word.depth() < self.leaf.depth)
    }
}

/// How often an operation has begun again, and why.
#[derive(Default)]
pub(super) struct RestartCounts {
    races: Cell<u32>,
    unreadable: Cell<u32>,
}

impl RestartCounts {
    /// Others were faster.
    pub(super) async fn lost_race<E: Endpoint>(&self, endpoint: &E, slot: u64) -> Result<()> {
        let attempts = self.races.get() + 1;
        self.races.set(attempts);
        if attempts > MOST_RACES {
            return Err(IndexError::Contended { slot, attempts });
        }
        pause(endpoint, attempts.saturating_sub(RACES_WITHOUT_PAUSE)).await
    }

    /// The record of a slot was not that of its word. Mostly another has replaced it: it is looked
    /// for at once the first time, then after ever longer pauses.
    pub(super) async fn unreadable<E: Endpoint>(&self, endpoint: &E, slot: u64) -> Result<()> {
        let attempts = self.unreadable.get() + 1;
        self.unreadable.set(attempts);
        if attempts > MOST_READS {
            return Err(IndexError::Unreadable { slot, attempts });
        }
        pause(endpoint, attempts - 1).await
    }
}

impl<E: Endpoint> RaceTable<E> {
    /// Reads spans of a subtable, side by side.
    pub(super) async fn read_spans(
        &self,
        leaf: SubtableLeaf,
        (first, second): (SlotSpan, Option<SlotSpan>),
    ) -> Result<View> {
        let read = async |span: SlotSpan| {
            let at = self.slot_at(leaf.subtable, span.first);
            let words = self.endpoint.read(at, span.slots as usize * 8).await?;
            Ok::<_, IndexError>(Some((span.first, words)))
        };
        let parts = match second {
            None => [read(first).await?, None],
            Some(second) => {
                let (first, second) = both(read(first), read(second)).await;
                [first?, second?]
            }
        };
        Ok(View { leaf, parts })
    }

    /// The spans of a subtable as a reader may take them; nothing if the directory was out of date,
    /// which it no longer is.
    ///
    /// A slot that a split has not filled yet has what the same slot of the parent has, or had.
    /// That is read next, and the slot itself again after it: if it is still not filled, the
    /// parent's slot was what counts when it was read.
    pub(super) async fn view(
        &self,
        leaf: SubtableLeaf,
        spans: (SlotSpan, Option<SlotSpan>),
    ) -> Result<Option<View>> {
        let view = self.read_spans(leaf, spans).await?;
        self.settled(view, spans).await
    }

    /// [`RaceTable::view`] of what was read already.
    pub(super) async fn settled(
        &self,
        view: View,
        spans: (SlotSpan, Option<SlotSpan>),
    ) -> Result<Option<View>> {
        let leaf = view.leaf;
        if self.was_ahead(&view).await? {
            return Ok(None);
        }
        if self.directory.borrow().leaf(leaf.subtable) != leaf {
            // Another coroutine has read of a later split, which says nothing about slots that are
            // behind.
            return Ok(None);
        }
        let Some(split) = self
            .unfinished_of(&view)
            .filter(|split| split.child == leaf.subtable)
        else {
            return Ok(Some(view));
        };
        let parent = self.directory.borrow().leaf(split.parent);
        let before = self.read_spans(parent, spans).await?;
        let mut view = self.read_spans(leaf, spans).await?;
        if self.was_ahead(&view).await? {
            return Ok(None);
        }
        view.correct(|slot, word| {
            if word.depth() == leaf.depth {
                return word;
            }
            match before.word(slot) {
                Some(of) if of.depth() == split.depth && of.state().has_record() => {
                    of.in_state(State::Live).at_depth(leaf.depth)
                }
                _ => Word::empty(leaf.depth),
            }
        });
        Ok(Some(view))
    }

    /// Reads the directory on, or lets a split come to a key's slots, where this view of them was
    /// not current.
    pub(super) async fn make_current(
        &self,
        view: View,
        key: &Key<'_>,
        attempts: &RestartCounts,
    ) -> Result<()> {
        if self.is_current(&view).await? {
            return Ok(());
        }
        let slot = self.number_of(view.leaf.subtable, key.buckets.pairs[0].main);
        attempts.lost_race(&*self.endpoint, slot).await
    }

    /// Whether what was read is current; makes the directory, or the slots, current if not.
    async fn is_current(&self, view: &View) -> Result<bool> {
        if self.was_ahead(view).await? {
            return Ok(false);
        }
        if view.behind().next().is_none() {
            return Ok(true);
        }
        match self.unfinished_of(view) {
            Some(split) => self.migrate(split, view).await?,
            // The directory has been read on meanwhile, or the word is none that a client writes.
            None if self.directory.borrow().leaf(view.leaf.subtable) != view.leaf => {}
            None => {
                let slot = view.behind().next().map_or(0, |(slot, _)| slot);
                return Err(IndexError::Unreadable {
                    slot: self.number_of(view.leaf.subtable, slot),
                    attempts: 1,
                });
            }
        }
        Ok(false)
    }

    /// Reads the directory on if some word is ahead of it.
    async fn was_ahead(&self, view: &View) -> Result<bool> {
        let Some((slot, depth)) = view.ahead() else {
            return Ok(false);
        };
        self.catch_up(view.leaf.subtable, slot, depth).await?;
        Ok(true)
    }

    /// The split that has still to come to some of the slots.
    fn unfinished_of(&self, view: &View) -> Option<SubtableSplit> {
        let (_, behind) = view.behind().next()?;
        let split = self.directory.borrow().last_split(view.leaf.subtable)?;
        // A child's slots were never written before their split comes to them.
        let is_its = if split.child == view.leaf.subtable {
            behind == Word(0)
        } else {
            behind.depth() == split.depth
        };
        (is_its && split.depth + 1 == view.leaf.depth).then_some(split)
    }

    /// Lets a split come to the slots of a view that it has not come to.
    async fn migrate(&self, split: SubtableSplit, view: &View) -> Result<()> {
        let slots: Vec<_> = if split.child == view.leaf.subtable {
            // What the parent's slots hold is read by whoever moves each.
            let parent = Word::empty(split.depth);
            view.behind().map(|(slot, _)| (slot, parent)).collect()
        } else {
            view.behind().collect()
        };
        let helped = slots.len() as u64;
        let jobs = slots
            .into_iter()
            .map(|(slot, seen)| self.move_slot(split, slot, seen));
        side_by_side(BATCH_WIDTH, jobs, |_, ()| {}).await?;
        self.worked(|work| work.helped += helped);
        Ok(())
    }
}
