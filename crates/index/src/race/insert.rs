//! Putting a record under a key, and finding or putting.
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

use super::client::{Key, RaceTable};
use super::directory::Leaf;
use super::layout::Buckets;
use super::search::{Found, Learnt};
use super::view::View;
use super::word::{State, Word};
use crate::client::{pause, side_by_side};
use crate::heap::{BlockRef, Held, NamedBlocks, encode};
use crate::{BATCH_WIDTH, Result, Value};
use farslot_fabric::VerbFuture;
use farslot_fabric::{Endpoint, both};
use std::ops::Range;

/// A value on its way into a slot.
pub(super) struct Draft<'v> {
    value: &'v [u8],
    /// The record, from when it is written until a live slot names it.
    block: Option<Held>,
}

/// A slot and its word.
type Placed = (u64, Word);

/// What an insertion knows of others that are not decided.
#[derive(Default)]
struct Rivals {
    /// Those that it has met, and given the time to become live or to give way.
    met: Vec<Placed>,
    /// Whether to give them that time before it begins again.
    wait: bool,
}

/// A slot that an insertion has begun in.
#[derive(Clone, Copy)]
struct Stake {
    leaf: Leaf,
    slot: u64,
    begun: Word,
}

impl<E: Endpoint> RaceTable<E> {
    pub(super) async fn put_record(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let key = self.checked_key(key)?;
        loop {
            let mut draft = self.draft(value)?;
            let outcome = self.put_draft(&key, &mut draft).await;
            let outcome = self.settle(draft, outcome).await;
            if !self.has_room_again(&outcome).await {
                return outcome;
            }
        }
    }

    async fn put_draft(&self, key: &Key<'_>, draft: &mut Draft<'_>) -> Result<bool> {
        let (learnt, mut rivals) = (Learnt::default(), Rivals::default());
        let mut view = self.write_and_read(key, draft, &learnt).await?;
        loop {
            match self.search(key, &view, &learnt).await? {
                Found::Present { slot, word, .. } => {
                    if self.replace(key, view.leaf, (slot, word), draft).await? {
                        return Ok(false);
                    }
                    self.lost_race(&learnt, view.leaf, slot).await?;
                }
                Found::Absent => {
                    if self.insert(key, &view, draft, &learnt, &mut rivals).await? {
                        return Ok(true);
                    }
                }
                Found::Unclear { slot } => self.was_unclear(&learnt, view.leaf, slot).await?,
            }
            view = self.current(key, &learnt.attempts).await?;
        }
    }

    pub(super) async fn find_or_put_record(
        &self,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<Value>> {
        let key = self.checked_key(key)?;
        loop {
            let mut draft = self.draft(value)?;
            let outcome = self.find_or_put_draft(&key, &mut draft).await;
            let outcome = self.settle(draft, outcome).await;
            if !self.has_room_again(&outcome).await {
                return outcome;
            }
        }
    }

    async fn find_or_put_draft(
        &self,
        key: &Key<'_>,
        draft: &mut Draft<'_>,
    ) -> Result<Option<Value>> {
        let (learnt, mut rivals) = (Learnt::default(), Rivals::default());
        loop {
            let view = self.current(key, &learnt.attempts).await?;
            match self.search(key, &view, &learnt).await? {
                Found::Present { value, .. } => return Ok(Some(value)),
                Found::Absent => {
                    if self.insert(key, &view, draft, &learnt, &mut rivals).await? {
                        return Ok(None);
                    }
                }
                Found::Unclear { slot } => self.was_unclear(&learnt, view.leaf, slot).await?,
            }
        }
    }

    /// Checks a value that is to be put.
    pub(super) fn draft<'v>(&self, value: &'v [u8]) -> Result<Draft<'v>> {
        self.layout.shape().check_value(value)?;
        Ok(Draft { value, block: None })
    }

    /// Writes the record out of band and reads the key's slots, in one batch: of operations that
    /// need the record in any case.
    pub(super) async fn write_and_read(
        &self,
        key: &Key<'_>,
        draft: &mut Draft<'_>,
        learnt: &Learnt,
    ) -> Result<View> {
        let write = self.write_out(key, draft);
        let (written, view) = both(write, self.current(key, &learnt.attempts)).await;
        written?;
        view
    }

    /// Writes the draft's record out of band, unless it is there already in a block that is still
    /// this client's.
    async fn write_out(&self, key: &Key<'_>, draft: &mut Draft<'_>) -> Result<BlockRef> {
        loop {
            match self.record_to_write(key, draft).await? {
                (block, None) => return Ok(block),
                // If this fails, the write may come yet: the block is not used again.
                (_, Some(write)) => {
                    let held = draft.block.take();
                    write.await?;
                    draft.block = held;
                }
            }
        }
    }

    /// Replaces the word of the key's own slot; false if another was faster.
    pub(super) async fn replace(
        &self,
        key: &Key<'_>,
        leaf: Leaf,
        (slot, seen): Placed,
        draft: &mut Draft<'_>,
    ) -> Result<bool> {
        let block = self.write_out(key, draft).await?;
        let since = self.heap.epoch();
        let new = Word::begun(seen.depth(), seen.tag(), block).in_state(State::Live);
        let replaced = self.swap(leaf.subtable, slot, seen, new).await? == seen;
        if replaced {
            draft.block = None;
            self.heap.free_since(seen.block(), since).await;
        }
        Ok(replaced)
    }

    /// Inserts a key that was absent from the view; false if that has to be looked at again.
    async fn insert(
        &self,
        key: &Key<'_>,
        view: &View,
        draft: &mut Draft<'_>,
        learnt: &Learnt,
        rivals: &mut Rivals,
    ) -> Result<bool> {
        let Some(slot) = empty_slot(&key.buckets, |slots| view.empty_in(slots)) else {
            // Boxed, for it is rare: every insertion would be as large.
            Box::pin(self.make_room(key, view, rivals)).await?;
            self.lost_race(learnt, view.leaf, key.buckets.pairs[0].main)
                .await?;
            return Ok(false);
        };
        let leaf = view.leaf;
        let empty = Word::empty(leaf.depth);
        let (block, write) = self.record_to_write(key, draft).await?;
        let stake = Stake {
            leaf,
            slot,
            begun: Word::begun(leaf.depth, key.tag, block),
        };
        // One batch, in this order: whoever sees the swap can read the record, and the READ sees
        // whoever has swapped before.
        let begin = self.swap(leaf.subtable, slot, empty, stake.begun);
        let look = self.read_spans(leaf, key.buckets.spans());
        let (written, (found, look)) = both(
            async {
                match write {
                    Some(write) => write.await,
                    None => Ok(()),
                }
            },
            both(begin, look),
        )
        .await;
        written?;
        if found? != empty {
            self.lost_race(learnt, leaf, slot).await?;
            return Ok(false);
        }
        let decided = match look {
            Ok(view) => self.may_be_live(key, stake, view, learnt, rivals).await,
            Err(error) => Err(error),
        };
        if !matches!(decided, Ok(true)) {
            // If it was undone, there is nothing to take back.
            let taken_back = self.undo(leaf, (slot, stake.begun)).await;
            decided?;
            taken_back?;
            if std::mem::take(&mut rivals.wait) {
                pause(&*self.endpoint, 1).await?;
            }
            self.lost_race(learnt, leaf, slot).await?;
            return Ok(false);
        }
        let live = stake.begun.in_state(State::Live);
        if self.swap(leaf.subtable, slot, stake.begun, live).await? != stake.begun {
            self.lost_race(learnt, leaf, slot).await?;
            return Ok(false);
        }
        draft.block = None;
        self.entries_changed(1).await;
        Ok(true)
    }

    /// The block of the draft, and its WRITE if that is still to be posted.
    async fn record_to_write(
        &self,
        key: &Key<'_>,
        draft: &mut Draft<'_>,
    ) -> Result<(BlockRef, Option<VerbFuture<'_, E, ()>>)> {
        if let Some(held) = draft.block {
            if self.heap.still_holds(held).await? {
                return Ok((held.block, None));
            }
            draft.block = None;
        }
        let mut record = encode(&self.endpoint.core().buffers, key.bytes, draft.value)?;
        let block = self.heap.assign(&mut record).await?;
        draft.block = Some(self.heap.held(block));
        Ok((block, Some(self.heap.write_at(block, record))))
    }

    /// Whether an insertion that has begun may become live: nobody else has put the key, and nobody
    /// who has begun to can any more.
    async fn may_be_live(
        &self,
        key: &Key<'_>,
        stake: Stake,
        mut view: View,
        learnt: &Learnt,
        rivals: &mut Rivals,
    ) -> Result<bool> {
        loop {
            if !view.is_current() || view.word(stake.slot) != Some(stake.begun) {
                return Ok(false);
            }
            let undone = match self.search(key, &view, learnt).await? {
                Found::Present { .. } => return Ok(false),
                Found::Unclear { slot } => {
                    self.was_unclear(learnt, view.leaf, slot).await?;
                    false
                }
                Found::Absent => {
                    let of_key = |(slot, word): &Placed| {
                        *slot != stake.slot && word.state() == State::Begun && word.tag() == key.tag
                    };
                    let others: Vec<Placed> = view.words().filter(of_key).collect();
                    let goes_first =
                        |other: &Placed| other.0 < stake.slot && !rivals.met.contains(other);
                    if others.iter().any(goes_first) {
                        self.worked(|work| work.yielded += 1);
                        (rivals.met, rivals.wait) = (others, true);
                        return Ok(false);
                    }
                    self.undo_all(stake.leaf, others).await?
                }
            };
            if undone {
                return Ok(true);
            }
            self.lost_race(learnt, stake.leaf, stake.slot).await?;
            view = self.read_spans(stake.leaf, key.buckets.spans()).await?;
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
    async fn make_room(&self, key: &Key<'_>, view: &View, rivals: &mut Rivals) -> Result<()> {
        let of_state = |(_, word): &Placed| word.state() == State::Begun;
        let begun: Vec<Placed> = view.words().filter(of_state).collect();
        if begun.is_empty() {
            return self.split(view.leaf, key.buckets.slots()).await;
        }
        let left = begun.iter().filter(|of| rivals.met.contains(of)).copied();
        let left: Vec<Placed> = left.collect();
        if left.is_empty() {
            rivals.met = begun;
            pause(&*self.endpoint, 1).await?;
            return Ok(());
        }
        self.undo_all(view.leaf, left).await.map(drop)
    }

    /// Ends an operation: gives back the draft's block if no slot has come to name it. If that is
    /// in doubt, the block is left to a sweep.
    pub(super) async fn settle<T>(&self, draft: Draft<'_>, outcome: Result<T>) -> Result<T> {
        let in_doubt = matches!(&outcome, Err(error) if error.may_have_taken_effect());
        if let (Some(held), false) = (draft.block, in_doubt) {
            self.heap.give_up(held).await;
        }
        outcome
    }
}

/// The slot that a new key goes to: one of the less loaded of its pairs of buckets, of the main
/// bucket before that for what it overflows. `empty_in` says of a bucket's slots what
/// [`empty_among`](super::view::empty_among) says of their words.
pub(super) fn empty_slot(
    buckets: &Buckets,
    empty_in: impl Fn(Range<u64>) -> (usize, Option<u64>),
) -> Option<u64> {
    let bucket = |first: u64| first..first + buckets.bucket;
    let [first, second] = buckets.pairs.map(|pair| {
        let (in_main, main) = empty_in(bucket(pair.main));
        let (in_overflow, overflow) = empty_in(bucket(pair.overflow));
        (in_main + in_overflow, main.or(overflow))
    });
    match second.0 > first.0 {
        true => second.1.or(first.1),
        false => first.1.or(second.1),
    }
}
