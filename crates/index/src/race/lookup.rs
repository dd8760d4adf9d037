//! Finding a key's record.
//!
//! Invariant: a key that is in the table has one live slot, and that stays where it is until the key is
//! removed: updates swap its word, and a split carries it to the same slot of another subtable, where a
//! reader looks for it too. A reader that has met it in no slot, each read at some moment of the lookup, has
//! therefore looked up a key that was absent at one of them.

use super::client::{Key, RaceTable};
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

/// What a search of a key's slots has come to.
pub(super) enum Found {
    /// The key's slot, its word, and the value.
    Present { slot: u64, word: Word, value: Value },
    /// No slot is the key's.
    Absent,
    /// A slot has changed meanwhile, and may be the key's.
    Unclear { slot: u64 },
}

/// Whose the record of a word is.
pub(super) enum Owner {
    Key(Record),
    OtherKey,
    /// None that the word can name: its block has had another use since.
    Unclear,
}

impl<E: Endpoint> RaceTable<E> {
    pub(super) async fn find(&self, key: &[u8]) -> Result<Option<Value>> {
        let key = self.key(key)?;
        let learnt = Learnt::default();
        loop {
            let leaf = self.leaf_of(&key);
            let Some(view) = self.view(leaf, key.buckets.spans()).await? else {
                learnt.attempts.lost_race(self.first_slot(&key))?;
                continue;
            };
            match self.search(&key, &view, &learnt).await? {
                Found::Present { value, .. } => return Ok(Some(value)),
                Found::Absent => return Ok(None),
                Found::Unclear { slot } => self.was_unclear(&learnt, &view, slot).await?,
            }
        }
    }

    /// The number of a slot of the key's, for errors.
    pub(super) fn first_slot(&self, key: &Key<'_>) -> u64 {
        self.number_of(self.leaf_of(key).subtable, key.buckets.pairs[0].main)
    }

    /// Waits before an unclear slot is looked at again.
    pub(super) async fn was_unclear(&self, learnt: &Learnt, view: &View, slot: u64) -> Result<()> {
        let slot = self.number_of(view.leaf.subtable, slot);
        learnt.attempts.unreadable(&*self.endpoint, slot).await
    }

    /// Looks for the key in slots that were read: the records of those with its tag are read side by side.
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
        Ok(match self.owner_of(key, slot, word).await? {
            Owner::Key(record) => Found::Present {
                slot,
                word,
                value: record.into_value(),
            },
            Owner::OtherKey => {
                learnt.others.borrow_mut().push(word.block());
                Found::Absent
            }
            Owner::Unclear => Found::Unclear { slot },
        })
    }

    async fn owner_of(&self, key: &Key<'_>, slot: u64, word: Word) -> Result<Owner> {
        Ok(match self.record_of(slot, word).await? {
            None => Owner::Unclear,
            Some(record) if record.key() == key.bytes => Owner::Key(record),
            Some(_) => Owner::OtherKey,
        })
    }

    /// The record that the word of a slot names; nothing if the block has had another use since.
    pub(super) async fn record_of(&self, slot: u64, word: Word) -> Result<Option<Record>> {
        let record = self.heap.read(word.block()).await?;
        // Generations come round: a key that cannot stand there is that of a later use.
        Ok(record.filter(|record| {
            let key = self.key(record.key());
            key.is_ok_and(|key| key.tag == word.tag() && key.buckets.contain(slot))
        }))
    }
}
