//! Finding a key's record where slots are changing.
//!
//! Invariant: a key that is in the table has one live slot, and that stays where it is until the
//! key is removed: updates swap its word, and a split carries it to the same slot of another
//! subtable, where a reader looks for it too. A reader that has met it in no slot, each read at
//! some moment of the lookup, has therefore looked up a key that was absent at one of them.

use super::client::{Key, RaceTable};
use super::directory::SubtableLeaf;
use super::seen::{Marked, SlotWord};
use super::view::{RestartCounts, View};
use super::word::{State, Word};
use crate::Result;
use crate::heap::{BlockRef, Record};
use farslot_fabric::Endpoint;

/// What an operation has learnt of its key's slots on the way.
#[derive(Default)]
pub(super) struct Learnt {
    pub(super) attempts: RestartCounts,
    /// Records with the key's tag that are those of other keys.
    pub(super) foreign: Vec<BlockRef>,
}

impl Learnt {
    /// Begins anew.
    #[inline]
    pub(super) fn forget(&mut self) {
        self.attempts = RestartCounts::default();
        self.foreign.clear();
    }
}

impl<E: Endpoint> RaceTable<E> {
    /// The slots with a key's tag, where slots may be changing: those of a first view of them, if
    /// there is one, or else of another. Returns the leaf that they are of.
    pub(super) async fn look_unsettled(
        &self,
        key: &Key<'_>,
        mut first: Option<View>,
        learnt: &Learnt,
        marked: &mut Marked,
    ) -> Result<SubtableLeaf> {
        let spans = key.buckets.spans();
        loop {
            let (leaf, view) = match first.take() {
                Some(view) => (view.leaf, self.settled(view, spans).await?),
                None => {
                    let leaf = self.leaf_of(key);
                    (leaf, self.view(leaf, spans).await?)
                }
            };
            if let Some(view) = view {
                let is_live = |(_, word): &SlotWord| {
                    word.state() == State::Live
                        && word.tag() == key.tag
                        && !learnt.foreign.contains(&word.block())
                };
                marked.clear();
                marked.extend(view.words().filter(is_live));
                return Ok(leaf);
            }
            self.lost_race(learnt, leaf, key.buckets.pairs[0].main)
                .await?;
        }
    }

    /// Notes that others were faster at a slot.
    pub(super) async fn lost_race(
        &self,
        learnt: &Learnt,
        leaf: SubtableLeaf,
        slot: u64,
    ) -> Result<()> {
        let slot = self.number_of(leaf.subtable, slot);
        learnt.attempts.lost_race(&*self.endpoint, slot).await
    }

    /// Waits before an unclear slot is looked at again.
    pub(super) async fn was_unclear(
        &self,
        learnt: &Learnt,
        leaf: SubtableLeaf,
        slot: u64,
    ) -> Result<()> {
        let slot = self.number_of(leaf.subtable, slot);
        learnt.attempts.unreadable(&*self.endpoint, slot).await
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
