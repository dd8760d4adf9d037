//! Putting a new key.
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
use super::directory::Leaf;
use super::search::Found;
use super::seen::{Placed, Seen};
use super::word::{State, Word};
use super::write::Write;
use crate::client::{pause, side_by_side};
use crate::{BATCH_WIDTH, Result};
use farslot_fabric::{Change, Endpoint};

/// A slot that an insertion has begun in.
#[derive(Clone, Copy)]
struct Stake {
    leaf: Leaf,
    slot: u64,
    begun: Word,
}

impl<E: Endpoint> RaceTable<E> {
    /// Inserts a key that was seen to be absent; false if that has to be looked at again.
    pub(super) async fn insert(&self, write: &mut Write<'_>, seen: &Seen) -> Result<bool> {
        let leaf = seen.leaf;
        let Some(slot) = seen.empty_slot(&write.key.buckets) else {
            // Boxed, for it is rare: every insertion would be as large.
            Box::pin(self.make_room(write, seen)).await?;
            let first = write.key.buckets.pairs[0].main;
            self.lost_race(&write.learnt, leaf, first).await?;
            return Ok(false);
        };
        let empty = Word::empty(leaf.depth);
        let mut change = Change::default();
        let block = self.add_record(write, &mut change).await?;
        let stake = Stake {
            leaf,
            slot,
            begun: Word::begun(leaf.depth, write.key.tag, block),
        };
        // In this order: whoever sees the swap can read the record, and the look sees whoever has
        // swapped before.
        let at = self.slot_at(leaf.subtable, slot);
        change.swap = Some((at, empty.0, stake.begun.0));
        let (found, looked) = self.change_and_look_at(change, leaf, &write.key).await?;
        if Word(found) != empty {
            self.lost_race(&write.learnt, leaf, slot).await?;
            return Ok(false);
        }
        let decided = match looked {
            Ok(Ok(seen)) => self.may_be_live(write, stake, seen).await,
            // A split has come: this insertion gives way.
            Ok(Err(_)) => Ok(false),
            Err(error) => Err(error),
        };
        if !matches!(decided, Ok(true)) {
            // If it was undone, there is nothing to take back.
            let taken_back = self.undo(leaf, (slot, stake.begun)).await;
            decided?;
            taken_back?;
            if std::mem::take(&mut write.rivals.wait) {
                pause(&*self.endpoint, 1).await?;
            }
            self.lost_race(&write.learnt, leaf, slot).await?;
            return Ok(false);
        }
        let live = stake.begun.in_state(State::Live);
        if self.swap(leaf.subtable, slot, stake.begun, live).await? != stake.begun {
            self.lost_race(&write.learnt, leaf, slot).await?;
            return Ok(false);
        }
        write.block = None;
        self.entries_changed(1).await;
        Ok(true)
    }

    /// Whether an insertion that has begun may become live: nobody else has put the key, and nobody
    /// who has begun to can any more.
    async fn may_be_live(
        &self,
        write: &mut Write<'_>,
        stake: Stake,
        mut seen: Seen,
    ) -> Result<bool> {
        loop {
            if !seen.marked.contains(&(stake.slot, stake.begun)) {
                return Ok(false);
            }
            let found = self.search(&write.key, &seen.marked, &mut write.learnt);
            let is_alone = match found.await? {
                Found::Present(..) => return Ok(false),
                Found::Unclear { slot } => {
                    self.was_unclear(&write.learnt, seen.leaf, slot).await?;
                    false
                }
                Found::Absent => {
                    let is_rival = |(slot, word): &&Placed| {
                        *slot != stake.slot && word.state() == State::Begun
                    };
                    let others: Vec<Placed> =
                        seen.marked.iter().filter(is_rival).copied().collect();
                    let goes_first =
                        |other: &Placed| other.0 < stake.slot && !write.rivals.met.contains(other);
                    if others.iter().any(goes_first) {
                        self.worked(|work| work.yielded += 1);
                        (write.rivals.met, write.rivals.wait) = (others, true);
                        return Ok(false);
                    }
                    others.is_empty() || Box::pin(self.undo_all(stake.leaf, others)).await?
                }
            };
            if is_alone {
                return Ok(true);
            }
            self.lost_race(&write.learnt, stake.leaf, stake.slot)
                .await?;
            let again = self.change_and_look_at(Change::default(), stake.leaf, &write.key);
            match again.await?.1? {
                Ok(again) => seen = again,
                Err(_) => return Ok(false),
            }
        }
    }

    /// Undoes insertions of others; true if none of them has become live or given way before.
    async fn undo_all(&self, leaf: Leaf, begun: Vec<Placed>) -> Result<bool> {
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
    async fn undo(&self, leaf: Leaf, (slot, begun): Placed) -> Result<bool> {
        let empty = Word::empty(begun.depth());
        Ok(self.swap(leaf.subtable, slot, begun, empty).await? == begun)
    }

    /// Makes an empty slot for a key that finds none: of insertions that their clients have left,
    /// and that are still there when it has waited, or else by splitting the subtable.
    async fn make_room(&self, write: &mut Write<'_>, seen: &Seen) -> Result<()> {
        let buckets = &write.key.buckets;
        if !seen.has_begun {
            return self.split(seen.leaf, buckets.slots()).await;
        }
        let view = self.read_spans(seen.leaf, buckets.spans()).await?;
        let of_state = |(_, word): &Placed| word.state() == State::Begun;
        let begun: Vec<Placed> = view.words().filter(of_state).collect();
        let left = begun.iter().filter(|of| write.rivals.met.contains(of));
        let left: Vec<Placed> = left.copied().collect();
        if left.is_empty() {
            write.rivals.met = begun;
            pause(&*self.endpoint, 1).await?;
            return Ok(());
        }
        self.undo_all(seen.leaf, left).await.map(drop)
    }
}
