//! Finding a key's record as its writers do, and where slots are changing.
//!
//! Invariant: a key that is in the table has one live slot, and that stays where it is until the
//! key is removed: updates swap its word, and a split carries it to the same slot of another
//! subtable, where a reader looks for it too. A reader that has met it in no slot, each read at
//! some moment of the lookup, has therefore looked up a key that was absent at one of them.

use super::client::{Key, RaceTable};
use super::directory::Leaf;
use super::seen::{Marked, Placed};
use super::view::{Attempts, View};
use super::word::{State, Word};
use crate::heap::{BlockRef, Record};
use crate::{BATCH_WIDTH, IndexError, Result, Value};
use farslot_fabric::{Endpoint, EndpointExt, Pieces};

/// What an operation has learnt of its key's slots on the way.
#[derive(Default)]
pub(super) struct Learnt {
    pub(super) attempts: Attempts,
    /// Records with the key's tag that are those of other keys.
    others: Vec<BlockRef>,
}

impl Learnt {
    /// That these records are those of other keys.
    pub(super) fn of_others(others: Vec<BlockRef>) -> Self {
        Self {
            others,
            ..Self::default()
        }
    }
}

/// What a search of a key's slots has come to.
pub(super) enum Found {
    /// The key's slot with its word, and the record.
    Present(Placed, Record),
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
        learnt: &mut Learnt,
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
            let marked: Marked = view.words().collect();
            match self.search(key, &marked, learnt).await? {
                Found::Present(_, record) => return Ok(Some(record.into_value())),
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

    /// Looks for the key in slots that were seen: the records of those that are live and have its
    /// tag are read side by side.
    pub(super) async fn search(
        &self,
        key: &Key<'_>,
        seen: &[Placed],
        learnt: &mut Learnt,
    ) -> Result<Found> {
        let may_be = |(_, word): &&Placed| {
            word.state() == State::Live
                && word.tag() == key.tag
                && !learnt.others.contains(&word.block())
        };
        let mut candidates = Marked::new();
        for placed in seen.iter().filter(may_be) {
            candidates.push(*placed);
        }
        let mut found = Found::Absent;
        for some in candidates.chunks(BATCH_WIDTH) {
            let mut pieces = Pieces::new();
            for (_, word) in some {
                pieces.push(self.heap.piece(word.block()));
            }
            let looking = self.endpoint.look(pieces, |fetched| {
                for (number, (slot, word)) in some.iter().enumerate() {
                    match Record::fetched(fetched, number, word.block())? {
                        Some(record) if record.key() == key.bytes => {
                            found = Found::Present((*slot, *word), record);
                            break;
                        }
                        Some(record) if self.may_stand_at(record.key(), *slot, *word) => {
                            learnt.others.push(word.block());
                        }
                        _ => found = Found::Unclear { slot: *slot },
                    }
                }
                Ok::<_, IndexError>(())
            });
            looking.await??;
            if let Found::Present(..) = found {
                break;
            }
        }
        Ok(found)
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
