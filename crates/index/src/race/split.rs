//! Splitting a subtable in two while everybody goes on reading and writing it.
//!
//! A split is decided by one swap, which appends it to the directory. From then on the key with the
//! next bit set in its route belongs to the child. Slot by slot, whoever comes to it first carries
//! it over: the client that splits, and any writer that meets a slot which has not been.
//!
//! ```text
//! the parent's slot             then the same slot of the child
//! empty            d -> d + 1   0 -> empty, d + 1
//! begun            d -> empty   0 -> empty, d + 1        its client begins again
//! live, stays      d -> d + 1   0 -> empty, d + 1
//! live, goes       d -> moving  0 -> live, d + 1         then the parent's: moving -> empty, d + 1
//! ```
//! Each step is a swap of a word that has been seen, and no step is ever taken back, so that any
//! number of clients may take them together, and any may die. A word of depth d + 1 in the parent
//! says that no key of the child's can come to that slot any more. A child's word goes from 0 once
//! and never back to it: a late step of a client that has slept does nothing.
//!
//! A slot moves to the same slot of the child, which has no other use before. So a record can be
//! lost neither to a full bucket nor between two places: it counts where it was until the child's
//! slot has it. The record itself is not copied.
//!
//! The client that has begun a split migrates the slots that its key needs, and goes on with
//! its insertion. With each write that follows it migrates some more, so that no operation
//! takes long, however large the subtables are. One that flushes migrates the rest. What a
//! client leaves that is gone is migrated by whoever needs it.
//!
//! A subtable that a split has not come to the end of is not split again before that: who wants to
//! finishes it first. The entry's finished bit says that all slots have been migrated.

use super::buckets::SlotSpan;
use super::client::RaceTable;
use super::directory::{SubtableLeaf, SubtableSplit, finished, is_finished};
use super::seen::SlotWord;
use super::view::RestartCounts;
use super::word::{State, Word};
use crate::client::check_turn;
use crate::step::{self, LIKELY};
use crate::{IndexError, Result};
use farslot_fabric::{Endpoint, EndpointExt, Piece, in_order, prefetched_window};

/// Slots that are migrated at once.
const SLOTS_MIGRATED: u64 = 128;
/// What a coroutine holds, in place of a subtable, that carries slots over beside its write.
const MIGRATING: u64 = u64::MAX;

impl<E: Endpoint> RaceTable<E> {
    /// Splits a subtable that has no room for a key, whose slots were so many; or finishes what
    /// another has begun. The slots are migrated later, beside this client's next writes.
    ///
    /// # Errors
    /// [`IndexError::Full`] if the table cannot grow, or what the fabric says.
    pub(super) async fn split(&self, leaf: SubtableLeaf, probed: u64) -> Result<()> {
        let _turn = self.splitting.take(&[leaf.subtable]).await;
        let (last, next) = {
            let directory = self.directory.borrow();
            if directory.leaf(leaf.subtable) != leaf {
                return Ok(());
            }
            let last = directory.last_split(leaf.subtable);
            (last, directory.next_split(leaf))
        };
        let deepest = leaf.depth == self.layout.most_depth();
        if deepest || next.number == self.layout.most_splits() {
            return Err(IndexError::Full {
                probed,
                slots: next.child * self.layout.subtable_slots(),
            });
        }
        if let Some(last) = last {
            self.finish_if_open(last).await?;
        }
        if !self.provide_for(next).await? {
            return Err(IndexError::Full {
                probed,
                slots: next.child * self.layout.subtable_slots(),
            });
        }
        let at = self.layout.split_at(self.table, next.number);
        let found = self.endpoint.compare_swap(at, 0, next.entry()).await?;
        if found != 0 {
            // Another subtable was split, or this one by another client.
            return self.read_directory().await;
        }
        if self.directory.borrow().splits() == next.number {
            self.directory.borrow_mut().append(next.entry());
        }
        self.worked(|work| work.splits += 1);
        self.to_finish.borrow_mut().push_back((next, 0));
        Ok(())
    }

    /// Sees to it that there is memory for a split's entry and its child; false if there is none.
    async fn provide_for(&self, split: SubtableSplit) -> Result<bool> {
        if self.layout.segment == 0 {
            return Ok(true);
        }
        let entry = Piece {
            from: self.layout.split_at(self.table, split.number),
            len: 8,
        };
        let child = self.piece_of(split.child, 0, self.layout.subtable_slots());
        Ok(self.endpoint.provide(entry, true).await? && self.endpoint.provide(child, true).await?)
    }

    async fn finish_if_open(&self, split: SubtableSplit) -> Result<()> {
        let at = self.layout.split_at(self.table, split.number);
        let entry = self.endpoint.read(at, 8).await?;
        if is_finished(entry.words()[0]) {
            return Ok(());
        }
        let carried = |(of, first): &(SubtableSplit, u64)| (*of == split).then_some(*first);
        let begun = self.to_finish.borrow().iter().find_map(carried);
        let mut first = begun.unwrap_or(0);
        while first < self.layout.subtable_slots() {
            if let Err(error) = check_turn(&*self.endpoint) {
                // The next turn goes on from here.
                let mut to_finish = self.to_finish.borrow_mut();
                to_finish.retain(|(of, _)| *of != split);
                to_finish.push_back((split, first));
                return Err(error);
            }
            first = self.migrate_from(split, first).await?;
        }
        self.say_finished(split).await
    }

    /// Finishes all splits that this client has begun.
    pub(super) async fn finish_splits(&self) -> Result<()> {
        while !self.to_finish.borrow().is_empty() {
            check_turn(&*self.endpoint)?;
            let _turn = self.splitting.take(&[MIGRATING]).await;
            self.migrate_next().await?;
        }
        Ok(())
    }

    /// Carries over some more slots of a split that this client has begun.
    pub(super) async fn go_on_splitting(&self) -> Result<()> {
        if self.splitting.is_held(MIGRATING) {
            return Ok(());
        }
        let _turn = self.splitting.take(&[MIGRATING]).await;
        self.migrate_next().await
    }

    /// Carries over the next slots of the first split that this client has to finish.
    async fn migrate_next(&self) -> Result<()> {
        let Some((split, first)) = self.to_finish.borrow().front().copied() else {
            return Ok(());
        };
        let carried = match self.migrate_from(split, first).await {
            Ok(next) if next < self.layout.subtable_slots() => {
                if let Some((_, first)) = self.to_finish.borrow_mut().front_mut() {
                    *first = next;
                }
                return Ok(());
            }
            Ok(_) => self.say_finished(split).await,
            // The fabric may be well again with the next write, which has a turn of its own too.
            Err(error @ (IndexError::Fabric(_) | IndexError::TurnOver { .. })) => {
                return Err(error);
            }
            Err(error) => Err(error),
        };
        self.to_finish.borrow_mut().pop_front();
        carried
    }

    /// Carries over some slots; returns the first that it has not come to.
    async fn migrate_from(&self, split: SubtableSplit, first: u64) -> Result<u64> {
        let end = self
            .layout
            .subtable_slots()
            .min(first.saturating_add(SLOTS_MIGRATED));
        let slots = end - first;
        let parent = self.directory.borrow().leaf(split.parent);
        let read = self
            .read_spans(parent, (SlotSpan { first, slots }, None))
            .await?;
        self.prefetch_records(read.words());
        let jobs = read
            .words()
            .map(|(slot, seen)| self.move_slot(split, slot, seen));
        let mut moved = Ok(());
        prefetched_window(SLOTS_MIGRATED as usize, jobs, |_, one| {
            if one.is_err() {
                moved = one;
            }
        })
        .await;
        moved.map(|()| end)
    }

    /// Has the records of live slots fetched, where the memory is mapped.
    fn prefetch_records(&self, words: impl Iterator<Item = SlotWord>) {
        let Some(view) = step::view(&*self.endpoint, self.table) else {
            return;
        };
        for (_, word) in words.filter(|(_, word)| word.state() == State::Live) {
            let piece = self.heap.piece(word.block());
            if let Some(at) = view.offset_of(piece) {
                view.prefetch(at, LIKELY.min(piece.len));
            }
        }
    }

    /// Says in the directory that all slots have been migrated.
    async fn say_finished(&self, split: SubtableSplit) -> Result<()> {
        let at = self.layout.split_at(self.table, split.number);
        let entry = split.entry();
        self.endpoint
            .compare_swap(at, entry, finished(entry))
            .await?;
        Ok(())
    }

    /// Carries a slot over, whose word in the parent was `seen`, or may have been.
    pub(super) async fn move_slot(
        &self,
        split: SubtableSplit,
        slot: u64,
        mut seen: Word,
    ) -> Result<()> {
        let attempts = RestartCounts::default();
        let after = split.depth + 1;
        loop {
            if seen.depth() > split.depth {
                let nothing = Word::empty(after);
                self.swap(split.child, slot, Word(0), nothing).await?;
                return Ok(());
            }
            let next = match seen.state() {
                State::Empty | State::Begun => Word::empty(after),
                State::Live => match self.goes_to_child(split, slot, seen).await? {
                    Some(true) => seen.in_state(State::Moving),
                    Some(false) => seen.at_depth(after),
                    None => {
                        let number = self.number_of(split.parent, slot);
                        attempts.unreadable(&*self.endpoint, number).await?;
                        seen = self.read_word(split.parent, slot).await?;
                        continue;
                    }
                },
                State::Moving => return self.hand_over(split, slot, seen).await,
            };
            let found = self.swap(split.parent, slot, seen, next).await?;
            if found == seen {
                seen = next;
            } else {
                attempts
                    .lost_race(&*self.endpoint, self.number_of(split.parent, slot))
                    .await?;
                seen = found;
            }
        }
    }

    /// Makes a moving record live in the child, then its slot in the parent empty. Both leave in
    /// one batch, if the send queue has room: nothing takes effect behind a swap that was lost, and
    /// the second is not posted behind a first that has failed. Else the record would be nowhere.
    async fn hand_over(&self, split: SubtableSplit, slot: u64, moving: Word) -> Result<()> {
        let after = split.depth + 1;
        let live = moving.in_state(State::Live).at_depth(after);
        let step = async |subtable, expected, new| {
            let found = self.swap(subtable, slot, expected, new).await?;
            let arrived = subtable == split.child && found == expected;
            self.worked(|work| work.moved += u64::from(arrived));
            Ok(())
        };
        let arriving = step(split.child, Word(0), live);
        let leaving = step(split.parent, moving, Word::empty(after));
        in_order(arriving, leaving).await?
    }

    /// Whether the record of a slot goes to the child; nothing if its word is not what it was.
    async fn goes_to_child(
        &self,
        split: SubtableSplit,
        slot: u64,
        word: Word,
    ) -> Result<Option<bool>> {
        let record = self.heap.read(word.block()).await?;
        Ok(record.and_then(|record| self.key_goes_to_child(split, slot, word, record.key())))
    }

    /// Whether this key goes to the child; nothing if it [cannot stand](Self::may_stand_at) there.
    pub(super) fn key_goes_to_child(
        &self,
        split: SubtableSplit,
        slot: u64,
        word: Word,
        key: &[u8],
    ) -> Option<bool> {
        let key = self.checked_key(key).ok()?;
        let directory = self.directory.borrow();
        key.may_stand_at(slot, word)
            .then(|| directory.goes_to_child(key.route, split))
    }

    pub(super) async fn read_word(&self, subtable: u64, slot: u64) -> Result<Word> {
        let word = self.endpoint.read(self.slot_at(subtable, slot), 8).await?;
        Ok(Word(word.words()[0]))
    }
}
