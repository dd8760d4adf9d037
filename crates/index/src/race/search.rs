//! Finding a key's record as its writers do, and where slots are changing.
//!
//! Invariant: a key that is in the table has one live slot, and that stays where it is until the
//! key is removed: updates swap its word, and a split carries it to the same slot of another
//! subtable, where a reader looks for it too. A reader that has met it in no slot, each read at
//! some moment of the lookup, has therefore looked up a key that was absent at one of them.

use super::client::{Key, RaceTable};
use super::directory::Leaf;
use super::view::{Attempts, View};
use super::word::{State, Word};
use crate::client::side_by_side;
use crate::heap::{BlockRef, Record};
use crate::{BATCH_WIDTH, Result, Value};
use farslot_fabric::Endpoint;
use std::cell::RefCell;

/// What an operation has learnt of its key's slots on the way.
#[derive(Default)]
pub(super) struct Learnt {
    pub(super) attempts: Attempts,
    /// Records with the key's tag that are those of other keys.
    others: RefCell<Vec<BlockRef>>,
}

impl Learnt {
    /// That these records are those of other keys.
    pub(super) fn of_others(others: Vec<BlockRef>) -> Self {
        Self {
            others: RefCell::new(others),
            ..Self::default()
        }
    }
}

/// What a search of a key's slots has come to.
pub(super) enum Found {
    /// The key's slot, its word, and the value.
    Present { slot: u64, word: Word, value: Value },
    /// No slot is the key's.
    Absent,
    /// A slot has changed meanwhile, and may be the key's.
    Unclear { slot: u64 },
}

impl<E: Endpoint> RaceTable<E> {
    /// Finds a key whose slots may be changing, from a first view of them on if there is one.
    pub(super) async fn find_unsettled(
        &self,
        key: &Key<'_>,
        mut first: Option<View>,
        learnt: &Learnt,
    ) -> Result<Option<Value>> {
        let spans = key.buckets.spans();
        loop {
            let (leaf, view) = match first.take() {
                Some(view) => (view.leaf, self.settled(view, spans).await?),
                None => {
                    let leaf = self.leaf_of(key);
                    (leaf, self.view(leaf, spans).await?)
                }
            };
            let Some(view) = view else {
                self.lost_race(learnt, leaf, key.buckets.pairs[0].main)
                    .await?;
                continue;
            };
            match self.search(key, &view, learnt).await? {
                Found::Present { value, .. } => return Ok(Some(value)),
                Found::Absent => return Ok(None),
                Found::Unclear { slot } => self.was_unclear(learnt, leaf, slot).await?,
            }
        }
    }

    /// Notes that others were faster at a slot.
    pub(super) async fn lost_race(&self, learnt: &Learnt, leaf: Leaf, slot: u64) -> Result<()> {
        let slot = self.number_of(leaf.subtable, slot);
        learnt.attempts.lost_race(&*self.endpoint, slot).await
    }

    /// Waits before an unclear slot is looked at again.
    pub(super) async fn was_unclear(&self, learnt: &Learnt, leaf: Leaf, slot: u64) -> Result<()> {
        let slot = self.number_of(leaf.subtable, slot);
        learnt.attempts.unreadable(&*self.endpoint, slot).await
    }

    /// Looks for the key in slots that were read: the records of those with its tag are read side
    /// by side.
    pub(super) async fn search(
        &self,
        key: &Key<'_>,
        view: &View,
        learnt: &Learnt,
    ) -> Result<Found> {
        let may_be = |(_, word): &(u64, Word)| {
            word.state() == State::Live
                && word.tag() == key.tag
                && !learnt.others.borrow().contains(&word.block())
        };
        let mut candidates = view.words().filter(may_be);
        let Some(first) = candidates.next() else {
            return Ok(Found::Absent);
        };
        let Some(second) = candidates.next() else {
            return self.look_closer(key, first, learnt).await;
        };
        let all: Vec<_> = [first, second].into_iter().chain(candidates).collect();
        let mut found = Found::Absent;
        let looks = all.into_iter().map(|of| self.look_closer(key, of, learnt));
        side_by_side(BATCH_WIDTH, looks, |_, seen| match (&found, &seen) {
            (Found::Present { .. }, _) | (_, Found::Absent) => {}
            _ => found = seen,
        })
        .await?;
        Ok(found)
    }

    async fn look_closer(
        &self,
        key: &Key<'_>,
        (slot, word): (u64, Word),
        learnt: &Learnt,
    ) -> Result<Found> {
        Ok(match self.record_of(slot, word).await? {
            None => Found::Unclear { slot },
            Some(record) if record.key() == key.bytes => Found::Present {
                slot,
                word,
                value: record.into_value(),
            },
            Some(_) => {
                learnt.others.borrow_mut().push(word.block());
                Found::Absent
            }
        })
    }

    /// The record that the word of a slot names; nothing if the block has had another use since.
    pub(super) async fn record_of(&self, slot: u64, word: Word) -> Result<Option<Record>> {
        let record = self.heap.read(word.block()).await?;
        Ok(record.filter(|record| self.may_stand_at(record.key(), slot, word)))
    }

    /// Whether a slot with this word can be that of a key. Generations come round: a key that
    /// cannot stand there is that of a later use.
    pub(super) fn may_stand_at(&self, key: &[u8], slot: u64, word: Word) -> bool {
        let key = self.checked_key(key);
        key.is_ok_and(|key| key.may_stand_at(slot, word))
    }
}
