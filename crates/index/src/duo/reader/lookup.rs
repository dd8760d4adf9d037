//! Looking a key up by the copy, and in the published index where that is old.

use super::client::{DuoReader, ReaderPromise};
use super::copy::{ReaderView, State};
use super::fast_path::ReaderFastPath;
use crate::client::{MOST_READS, pause, side_by_side};
use crate::duo::bytes::{SlotNumber, hash_in, head_in, is_dead, live_head};
use crate::duo::placement::Candidates;
use crate::duo::records::{SlotReading, SlotToMeet, with_record};
use crate::step::{self, FastPath, Lookup, NextStep, ReadPieces, Reads, ValueLocation, view};
use crate::{Answers, GET, IndexError, Result, Value};
use farslot_fabric::{Endpoint, EndpointExt, InPlace, Piece, Pieces};

/// Reads of a torn slot before the journal is looked into.
pub(super) const TORN_READS: u32 = 3;

/// A key that is looked up.
pub(crate) struct ReaderKey<'k> {
    pub(super) bytes: &'k [u8],
    pub(super) head: u64,
}

impl ReaderKey<'_> {
    const fn hash(&self) -> u64 {
        hash_in(self.head)
    }
}

/// How far a lookup by the copy alone has come.
#[derive(Default)]
pub(crate) struct Search {
    /// Where the key may be, and how often the copy had changed, when its part of it was fetched.
    fetched: Option<(Candidates, u64)>,
    /// The slots that may be the key's, as the copy had it.
    matches: Vec<SlotNumber>,
    /// How many of them have been looked at.
    passed: usize,
    /// The one that is read now.
    slot: SlotToMeet,
    looked: SlotDefects,
    /// How often the copy had changed.
    changes: u64,
}

/// What the slots were that the copy has for a key.
#[derive(Clone, Copy, Default)]
struct SlotDefects {
    dead: u32,
    torn: Option<SlotNumber>,
}

/// A look into the published index: the copy does not have the key.
pub(crate) struct PublishedLookup;

/// What a slot turned out to be.
enum SlotVerdict {
    Key(Value),
    /// Of another key, and has been all along.
    Other,
    Dead,
    /// The key's, but not whole.
    Torn,
}

impl<E: Endpoint> Lookup for DuoReader<E> {
    const PREPARES: bool = true;

    type Endpoint = E;
    type Asked<'k> = &'k [u8];
    type Key<'k> = ReaderKey<'k>;
    type Search = Search;
    type SlowPath = PublishedLookup;

    #[inline(always)]
    fn endpoint(&self) -> &E {
        &self.endpoint
    }

    #[inline]
    fn in_place(&self) -> Option<InPlace<'_>> {
        view(&*self.endpoint, self.table)
    }

    #[inline]
    fn fast_path<'k>(
        &self,
        view: &InPlace<'_>,
        _: (Self::Asked<'k>, usize),
    ) -> Option<impl FastPath<Self::Asked<'k>>> {
        ReaderFastPath::of(self, view)
    }

    #[inline]
    fn key<'k>(&self, bytes: Self::Asked<'k>) -> Result<ReaderKey<'k>> {
        self.layout.shape().check_key(bytes)?;
        let head = live_head(self.layout.hash_of(bytes));
        Ok(ReaderKey { bytes, head })
    }

    #[inline]
    fn prepare(&self, key: &Self::Key<'_>, search: &mut Search) {
        let copy = self.copy.borrow();
        search.fetched = Some((copy.prefetch(key.hash()), copy.changes()));
    }

    #[inline]
    fn begin(&self, key: &Self::Key<'_>, search: &mut Search) -> NextStep<PublishedLookup> {
        let copy = self.copy.borrow();
        search.matches.clear();
        let hash = key.hash();
        match search.fetched.take() {
            Some((of, changes)) if changes == copy.changes() => {
                search.matches.extend(copy.matches_of(hash, &of));
            }
            _ => search.matches.extend(copy.matches(hash)),
        }
        search.passed = 0;
        search.looked = SlotDefects::default();
        search.changes = copy.changes();
        self.next_slot(search)
    }

    #[inline]
    fn piece(&self, _key: &Self::Key<'_>, search: &Search, _number: usize) -> Piece {
        search.slot.piece(&self.layout, self.heap.as_ref())
    }

    #[inline]
    fn look(
        &self,
        key: &Self::Key<'_>,
        search: &mut Search,
        read: &mut impl ReadPieces,
    ) -> NextStep<PublishedLookup> {
        let (layout, heap) = (&self.layout, self.heap.as_ref());
        match search.slot.look(layout, heap, (key.bytes, key.head), read) {
            SlotReading::Named => return NextStep::Read(Reads::ONE),
            SlotReading::Key(bytes) => {
                return NextStep::Found(ValueLocation::Bytes { piece: 0, bytes });
            }
            SlotReading::Dead => search.looked.dead += 1,
            SlotReading::Torn => search.looked.torn = Some(search.matches[search.passed]),
            SlotReading::Other => {}
        }
        search.passed += 1;
        self.next_slot(search)
    }

    async fn slow_path(
        &self,
        key: &Self::Key<'_>,
        search: &mut Search,
        PublishedLookup: PublishedLookup,
    ) -> Result<NextStep<PublishedLookup>> {
        let looked = {
            let copy = self.copy.borrow();
            // What was looked at is what the copy says; of another it would have to be looked at
            // anew.
            let is_as_it_was = copy.changes() == search.changes;
            is_as_it_was.then(|| (copy.view(key.hash()), search.looked))
        };
        Ok(match self.find_from(key, looked).await? {
            Some(value) => NextStep::Found(ValueLocation::Value(Box::new(value))),
            None => NextStep::Absent,
        })
    }
}

impl<E: Endpoint> DuoReader<E> {
    /// The key's value.
    ///
    /// # Errors
    /// [`IndexError::KeyLength`] or [`IndexError::EmptyKey`]; [`IndexError::Contended`] or
    /// [`IndexError::Unreadable`] if the key's buckets, or its record, were changed at every look;
    /// [`IndexError::BadOption`] for a table whose header is damaged; what the fabric says.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.endpoint.operation(GET, self.find(key)).await
    }

    /// Looks up many keys side by side, as [`Index::look_up`](crate::Index::look_up).
    pub async fn look_up(&self, keys: &[&[u8]], done: &mut dyn FnMut(Answers<'_>)) {
        step::find_many(self, keys, done).await;
    }

    /// As [`DuoReader::get`], counted for no operation class.
    ///
    /// # Errors
    /// As [`DuoReader::get`].
    pub async fn find(&self, key: &[u8]) -> Result<Option<Value>> {
        step::run(self, key).await
    }

    /// Has the next slot read that may be the key's.
    #[inline]
    fn next_slot(&self, search: &mut Search) -> NextStep<PublishedLookup> {
        match search.matches.get(search.passed) {
            Some(slot) => {
                let at = self.copy.borrow().vault.slot_at(&self.layout, *slot);
                search.slot = SlotToMeet::new(at);
                NextStep::Read(Reads::ONE)
            }
            None => NextStep::SlowPath(PublishedLookup),
        }
    }

    /// Looks a key up, from what was looked at on, if that is still what the copy says.
    async fn find_from(
        &self,
        key: &ReaderKey<'_>,
        mut looked: Option<(ReaderView, SlotDefects)>,
    ) -> Result<Option<Value>> {
        let hash = key.hash();
        let mut quiet_before = None;
        let mut torn = None;
        for attempt in 0..MOST_READS {
            let (view, seen) = match looked.take() {
                Some((view, seen)) => (view, seen),
                None => {
                    let view = self.copy.borrow().view(hash);
                    match self.look_at_matches(key, &view).await? {
                        (Some(value), _) => return Ok(Some(value)),
                        (None, seen) => (view, seen),
                    }
                }
            };
            if view.matches.is_empty() && self.is_known_well(&view) {
                return Ok(None);
            }
            torn = seen.torn;
            if let Some(slot) = torn {
                if attempt >= TORN_READS
                    && self.heap.is_none()
                    && let Some(value) = self.find_in_journal(slot, key).await?
                {
                    return Ok(Some(value));
                }
                pause(&*self.endpoint, attempt).await?;
            }
            let quiet = self.read_pages(hash, &view).await?;
            let twice = quiet_before == Some(view.state);
            if quiet && torn.is_none() && (seen.dead <= 1 || twice) {
                return Ok(None);
            }
            quiet_before = quiet.then_some(view.state);
        }
        Err(match torn {
            Some(SlotNumber(slot)) => IndexError::Unreadable {
                slot,
                attempts: MOST_READS,
            },
            None => IndexError::Contended {
                slot: self
                    .layout
                    .first_of_page(self.copy.borrow().state(hash).buckets[0])
                    .0,
                attempts: MOST_READS,
            },
        })
    }

    /// Looks at the slots that may be the key's, one after the other until one is.
    async fn look_at_matches(
        &self,
        key: &ReaderKey<'_>,
        view: &ReaderView,
    ) -> Result<(Option<Value>, SlotDefects)> {
        let mut looked = SlotDefects::default();
        for slot in &view.matches {
            match self.look_at(*slot, key).await? {
                SlotVerdict::Key(value) => return Ok((Some(value), looked)),
                SlotVerdict::Torn => looked.torn = Some(*slot),
                SlotVerdict::Dead => looked.dead += 1,
                SlotVerdict::Other => {}
            }
        }
        Ok((None, looked))
    }

    /// Whether the copy alone says what the reader has promised.
    fn is_known_well(&self, view: &ReaderView) -> bool {
        let ReaderPromise::BoundedStaleness { most } = self.promise else {
            return false;
        };
        let known = self.copy.borrow().known_at(view.state.buckets);
        known.is_some_and(|at| self.endpoint.now().saturating_sub(at) <= most)
    }

    /// Reads a slot that may be the key's.
    async fn look_at(&self, slot: SlotNumber, key: &ReaderKey<'_>) -> Result<SlotVerdict> {
        let at = self.copy.borrow().vault.slot_at(&self.layout, slot);
        let bytes = self.endpoint.read(at, self.layout.slot_bytes()).await?;
        let bytes = match &self.heap {
            Some(heap) if head_in(&bytes) == key.head => {
                let read = with_record(&self.layout, heap, bytes).await?;
                read.into_bytes()
            }
            _ => bytes,
        };
        Ok(match head_in(&bytes) {
            0 => SlotVerdict::Dead,
            head if head != key.head => SlotVerdict::Other,
            _ => match self.layout.record_in(&bytes) {
                None if is_dead(&bytes) => SlotVerdict::Dead,
                None => SlotVerdict::Torn,
                Some(record) if record.key != key.bytes => SlotVerdict::Other,
                Some(record) => {
                    let value = record.value_range();
                    SlotVerdict::Key(Value::of_buffer(bytes, value))
                }
            },
        })
    }

    /// Reads all that there is of the key in the published index into the copy: its pages and the
    /// stash, how often the table has grown, and whether its buckets are split that were not.
    /// Whether it is as it was in the copy when the search began.
    async fn read_pages(&self, hash: u64, view: &ReaderView) -> Result<bool> {
        let State { buckets, .. } = view.state;
        let words = self.layout.bucket_page().words() as usize;
        let pieces: Pieces = {
            let copy = self.copy.borrow();
            let page_at = |page| copy.vault.page_at(&self.layout, page);
            let piece = |from, words| Piece {
                from,
                len: words * 8,
            };
            let pages = buckets.map(|page| piece(page_at(page), words));
            let bits = view.bits.iter().map(|word| piece(word.at, 1));
            // The count of growths is in front of the stash's pages.
            let from = self.layout.growths_at(self.table);
            let stash = piece(from, 1 + self.layout.stash as usize);
            std::iter::once(stash).chain(pages).chain(bits).collect()
        };
        let read = self.endpoint.read_many(pieces).await?;
        let (stash, rest) = read.words().split_at(1 + self.layout.stash as usize);
        let (counted, stashed) = (stash[0], &stash[1..]);
        {
            let mut copy = self.copy.borrow_mut();
            copy.take(SlotNumber::STASH.0, stashed);
            copy.take(buckets[0], &rest[..words]);
            copy.take(buckets[1], &rest[words..2 * words]);
            for (word, bits) in view.bits.iter().zip(&rest[2 * words..]) {
                copy.take_bits(*word, &[*bits]);
            }
        }
        self.learn_growths(counted).await?;
        Ok(self.copy.borrow().state(hash) == view.state)
    }

    /// The key's record, if it is that of an update which has begun: see the module's page.
    pub(super) async fn find_in_journal(
        &self,
        slot: SlotNumber,
        key: &ReaderKey<'_>,
    ) -> Result<Option<Value>> {
        let mut newest = None;
        let journal: Vec<SlotNumber> = self.layout.journal().collect();
        let looks = journal.iter().map(|slot| self.look_at(*slot, key));
        side_by_side(journal.len(), looks, |_, seen| {
            if let SlotVerdict::Key(value) = seen {
                newest = Some(value);
            }
        })
        .await?;
        match self.look_at(slot, key).await? {
            SlotVerdict::Torn => Ok(newest),
            SlotVerdict::Key(value) => Ok(Some(value)),
            SlotVerdict::Dead | SlotVerdict::Other => Ok(None),
        }
    }
}
