//! Finding a key's value, in steps: its slots, then the records of those with its tag.
//!
//! Slots that are all of the depth that the directory has need no more than that. Where a split is
//! under way, where the directory is out of date, or a record is not that of its word any more, the
//! lookup goes on as that of a writer (`search.rs`), with what was read and learnt.
//!
//! Invariant: a key that is in the table has one live slot, and that stays where it is until the
//! key is removed: updates swap its word, and a split carries it to the same slot of another
//! subtable, where a reader looks for it too. A reader that has met it in no slot, each read at
//! some moment of the lookup, has therefore looked up a key that was absent at one of them.

use super::client::{Key, RaceTable};
use super::directory::SubtableLeaf;
use super::search::Learnt;
use super::seen::{TaggedSlots, slots_of, span_of};
use super::view::View;
use crate::Result;
use crate::step::{
    FastPath, Lookup, MOST_PIECES, NextStep, ReadPieces, Reads, RecordPath, ValueLocation,
    record_in, view,
};
use farslot_fabric::{Endpoint, InPlace, Piece};

/// How far a lookup has come.
#[derive(Default)]
pub(crate) struct Search {
    stage: Stage,
    leaf: SubtableLeaf,
    seen: TaggedSlots,
    /// The first of the slots with the key's tag whose records are read, and how many are.
    first: usize,
    count: usize,
    learnt: Learnt,
}

/// What is read.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Slots,
    Records,
}

/// Why a lookup needs more than READs.
pub(crate) enum RaceLookupSlowPath {
    /// The slots, of which this was seen, are not all of the depth that the directory has.
    Unsettled(Box<View>),
    /// The record of this slot is not that of its word.
    Unclear(u64),
}

impl<E: Endpoint> Lookup for RaceTable<E> {
    const REPORTS: bool = true;

    type Endpoint = E;
    type Asked<'k> = &'k [u8];
    type Key<'k> = Key<'k>;
    type Search = Search;
    type SlowPath = RaceLookupSlowPath;

    #[inline(always)]
    fn endpoint(&self) -> &E {
        &self.endpoint
    }

    #[inline]
    fn in_place(&self) -> Option<InPlace<'_>> {
        // Who has much to report does so behind a lookup that may wait.
        if self.heap.has_hints() {
            return None;
        }
        view(&*self.endpoint, self.table)
    }

    #[inline]
    fn has_to_report(&self) -> bool {
        self.heap.has_hints()
    }

    async fn report(&self) {
        self.heap.report_hints().await;
    }

    #[inline]
    fn record_path<'k>(
        &self,
        _: &InPlace<'_>,
        _: (Self::Asked<'k>, usize),
    ) -> Option<impl FastPath<Self::Asked<'k>>> {
        Some(RecordPath::new(self, false))
    }

    #[inline(always)]
    fn key<'k>(&self, bytes: Self::Asked<'k>) -> Result<Key<'k>> {
        self.checked_key(bytes)
    }

    #[inline]
    fn begin(&self, key: &Self::Key<'_>, search: &mut Search) -> NextStep<Self::SlowPath> {
        search.stage = Stage::Slots;
        search.leaf = self.leaf_of(key);
        search.learnt.forget();
        search.first = 0;
        search.count = 0;
        NextStep::Read(slots_of(key))
    }

    #[inline]
    fn piece(&self, key: &Self::Key<'_>, search: &Search, number: usize) -> Piece {
        match search.stage {
            Stage::Slots => {
                let span = span_of(key, number);
                self.piece_of(search.leaf.subtable, span.first, span.slots)
            }
            Stage::Records => {
                let (_, word) = search.seen.marked[search.first + number];
                self.heap.piece(word.block())
            }
        }
    }

    #[inline]
    fn look(
        &self,
        key: &Self::Key<'_>,
        search: &mut Search,
        read: &mut impl ReadPieces,
    ) -> NextStep<Self::SlowPath> {
        match search.stage {
            Stage::Slots => self.look_at_slots(key, search, read),
            Stage::Records => self.look_at_records(key, search, read),
        }
    }

    async fn slow_path(
        &self,
        key: &Self::Key<'_>,
        search: &mut Search,
        slow: RaceLookupSlowPath,
    ) -> Result<NextStep<Self::SlowPath>> {
        let seen = match slow {
            RaceLookupSlowPath::Unsettled(seen) => Some(*seen),
            RaceLookupSlowPath::Unclear(slot) => {
                self.was_unclear(&search.learnt, search.leaf, slot).await?;
                None
            }
        };
        let marked = &mut search.seen.marked;
        search.leaf = self
            .look_unsettled(key, seen, &search.learnt, marked)
            .await?;
        (search.first, search.count) = (0, 0);
        Ok(self.read_records(search))
    }
}

impl<E: Endpoint> RaceTable<E> {
    #[inline]
    fn look_at_slots(
        &self,
        key: &Key<'_>,
        search: &mut Search,
        read: &mut impl ReadPieces,
    ) -> NextStep<RaceLookupSlowPath> {
        let leaf = search.leaf;
        let is_settled = search.seen.look::<false>(read, leaf, key);
        if !is_settled || self.directory.borrow().leaf(leaf.subtable) != leaf {
            let view = View::copied(read, leaf, key, &self.endpoint.core().buffers);
            return match view {
                Ok(seen) => NextStep::SlowPath(RaceLookupSlowPath::Unsettled(Box::new(seen))),
                Err(error) => NextStep::Failed(Box::new(error)),
            };
        }
        if search.seen.has_begun {
            let marked = &mut search.seen.marked;
            marked.retain(|(_, word)| word.is_live_at(leaf.depth, key.tag));
        }
        self.read_records(search)
    }

    /// Has the records of the next candidates read.
    #[inline]
    fn read_records(&self, search: &mut Search) -> NextStep<RaceLookupSlowPath> {
        search.first += search.count;
        search.count = (search.seen.marked.len() - search.first).min(MOST_PIECES);
        if search.count == 0 {
            return NextStep::Absent;
        }
        search.stage = Stage::Records;
        NextStep::Read(Reads::apart(search.count))
    }

    #[inline]
    fn look_at_records(
        &self,
        key: &Key<'_>,
        search: &mut Search,
        read: &mut impl ReadPieces,
    ) -> NextStep<RaceLookupSlowPath> {
        let mut unclear = None;
        for piece in 0..search.count {
            let (slot, word) = search.seen.marked[search.first + piece];
            let block = word.block();
            match record_in(read, piece, block, self.heap.piece(block).len) {
                Some(record) if record.key == key.bytes => {
                    let bytes = record.value_range();
                    self.heap.was_read(block, record.head);
                    return NextStep::Found(ValueLocation::Bytes { piece, bytes });
                }
                Some(record) if self.may_stand_at(record.key, slot, word) => {
                    search.learnt.foreign.push(block);
                }
                _ => unclear = Some(slot),
            }
        }
        match unclear {
            Some(slot) => NextStep::SlowPath(RaceLookupSlowPath::Unclear(slot)),
            None => self.read_records(search),
        }
    }
}
