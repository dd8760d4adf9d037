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

use super::buckets::Span;
use super::client::{Key, RaceTable};
use super::directory::Leaf;
use super::glance::RecordGlance;
use super::search::Learnt;
use super::seen::Marked;
use super::view::View;
use super::word::{Met, Word};
use crate::heap::{BlockRef, RecordView};
use crate::step::{Found, Glance, Lookup, MOST_PIECES, Next, Read, Reads, view};
use crate::{IndexError, Result};
use farslot_fabric::{Endpoint, InPlace, Piece};

/// How far a lookup has come.
#[derive(Default)]
pub(crate) struct Search {
    stage: Stage,
    leaf: Leaf,
    /// Slots with the key's tag; the first of those whose records are read, and how many are.
    candidates: Marked,
    first: usize,
    count: usize,
    /// Records with the key's tag that are those of other keys.
    others: Vec<BlockRef>,
}

/// What is read.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Slots,
    Records,
}

/// Why a lookup needs more than READs.
pub(crate) enum Aside {
    /// The slots, of which this was seen, are not all of the depth that the directory has.
    Unsettled(Box<View>),
    /// The record of this slot is not that of its word.
    Unclear(u64),
}

impl<E: Endpoint> Lookup for RaceTable<E> {
    type Endpoint = E;
    type Asked<'k> = &'k [u8];
    type Key<'k> = Key<'k>;
    type Search = Search;
    type Aside = Aside;

    #[inline(always)]
    fn endpoint(&self) -> &E {
        &self.endpoint
    }

    #[inline]
    fn in_place(&self) -> Option<InPlace<'_>> {
        view(&*self.endpoint, self.table)
    }

    #[inline]
    fn glance<'k>(
        &self,
        view: &InPlace<'_>,
        _: &[Self::Asked<'k>],
    ) -> Option<impl Glance<Self::Asked<'k>>> {
        RecordGlance::of(self, view)
    }

    #[inline(always)]
    fn key<'k>(&self, bytes: Self::Asked<'k>) -> Result<Key<'k>> {
        self.checked_key(bytes)
    }

    #[inline]
    fn begin(&self, key: &Self::Key<'_>, search: &mut Search) -> Next<Self::Aside> {
        search.stage = Stage::Slots;
        search.leaf = self.leaf_of(key);
        search.candidates.clear();
        search.others.clear();
        search.first = 0;
        search.count = 0;
        let (_, second) = key.buckets.spans();
        Next::Read(Reads::apart(1 + usize::from(second.is_some())))
    }

    #[inline]
    fn piece(&self, key: &Self::Key<'_>, search: &Search, number: usize) -> Piece {
        match search.stage {
            Stage::Slots => {
                let Span { first, slots } = span_of(key, number);
                self.piece_of(search.leaf.subtable, first, slots)
            }
            Stage::Records => {
                let (_, word) = search.candidates[search.first + number];
                self.heap.piece(word.block())
            }
        }
    }

    #[inline]
    fn look(
        &self,
        key: &Self::Key<'_>,
        search: &mut Search,
        read: &mut impl Read,
    ) -> Next<Self::Aside> {
        match search.stage {
            Stage::Slots => self.look_at_slots(key, search, read),
            Stage::Records => self.look_at_records(key, search, read),
        }
    }

    async fn aside(
        &self,
        key: &Self::Key<'_>,
        search: &mut Search,
        aside: Aside,
    ) -> Result<Next<Self::Aside>> {
        let mut learnt = Learnt::of_others(std::mem::take(&mut search.others));
        let seen = match aside {
            Aside::Unsettled(seen) => Some(*seen),
            Aside::Unclear(slot) => {
                self.was_unclear(&learnt, search.leaf, slot).await?;
                None
            }
        };
        let found = self.find_unsettled(key, seen, &mut learnt);
        Ok(match found.await? {
            Some(value) => Next::Found(Found::Value(Box::new(value))),
            None => Next::Absent,
        })
    }
}

/// The slots that are read as this piece.
#[inline]
fn span_of(key: &Key<'_>, number: usize) -> Span {
    match (number, key.buckets.spans()) {
        (1, (_, Some(second))) => second,
        (_, (first, _)) => first,
    }
}

impl<E: Endpoint> RaceTable<E> {
    #[inline]
    fn look_at_slots(
        &self,
        key: &Key<'_>,
        search: &mut Search,
        read: &mut impl Read,
    ) -> Next<Aside> {
        let (_, second) = key.buckets.spans();
        let pieces = 1 + usize::from(second.is_some());
        let depth = search.leaf.depth;
        let mut unsettled = 0;
        for piece in 0..pieces {
            let Span { first, slots } = span_of(key, piece);
            let slots = slots as usize;
            let mut met = Met::nothing(Word::live(depth, key.tag));
            read.each_word(piece, slots, |word| met.word(word));
            match met.quiet_among(slots) {
                Some(found) => {
                    let found = found.map(|(number, word)| (first + number, word));
                    search.candidates.extend(found);
                }
                // Several have the tag, or something is under way: they are looked at one by one.
                None => {
                    let words = read.words(piece);
                    for number in 0..slots {
                        let word = Word(words(number));
                        unsettled |= word.unsettled_at(depth);
                        if word.is_live_at(depth, key.tag) {
                            search.candidates.push((first + number as u64, word));
                        }
                    }
                }
            }
        }
        let is_known = || self.directory.borrow().leaf(search.leaf.subtable) == search.leaf;
        if unsettled == 0 && is_known() {
            return self.read_records(search);
        }
        let mut parts = [const { None }; 2];
        for (piece, part) in parts[..pieces].iter_mut().enumerate() {
            let Span { first, slots } = span_of(key, piece);
            let bytes = read.bytes(piece, 0..slots as usize * 8);
            match self.endpoint.core().buffers.copy_of(bytes) {
                Ok(copy) => *part = Some((first, copy)),
                Err(error) => return Next::Failed(Box::new(IndexError::from(error))),
            }
        }
        let seen = Box::new(View::new(search.leaf, parts));
        Next::Aside(Aside::Unsettled(seen))
    }

    /// Has the records of the next candidates read.
    #[inline]
    fn read_records(&self, search: &mut Search) -> Next<Aside> {
        search.first += search.count;
        search.count = (search.candidates.len() - search.first).min(MOST_PIECES);
        if search.count == 0 {
            return Next::Absent;
        }
        search.stage = Stage::Records;
        Next::Read(Reads::apart(search.count))
    }

    #[inline]
    fn look_at_records(
        &self,
        key: &Key<'_>,
        search: &mut Search,
        read: &mut impl Read,
    ) -> Next<Aside> {
        let mut unclear = None;
        for piece in 0..search.count {
            let (slot, word) = search.candidates[search.first + piece];
            let block = word.block();
            let record = read.bytes(piece, 0..self.heap.piece(block).len);
            match RecordView::decode(record, block) {
                Some(record) if record.key == key.bytes => {
                    let bytes = record.value_range();
                    return Next::Found(Found::Bytes { piece, bytes });
                }
                Some(record) if self.may_stand_at(record.key, slot, word) => {
                    search.others.push(block);
                }
                _ => unclear = Some(slot),
            }
        }
        match unclear {
            Some(slot) => Next::Aside(Aside::Unclear(slot)),
            None => self.read_records(search),
        }
    }
}
