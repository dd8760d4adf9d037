//! Looking a key up (paper 001, section III-B), in steps.
//!
//! Invariant: the index names every key's slot, from before the first operation that could know of
//! the key returns until after the last that could. A lookup reads the slots whose fingerprints
//! match, one by one until it meets its key; nearly always there is one. It holds nothing: so if it
//! has not met its key, it sees whether the index has changed meanwhile, or may be about to, and if
//! so looks again with the key's buckets held. A slot says whose it is in its head; only the key's
//! has a block of the heap read.

use super::fast_path::OwnerFastPath;
use super::placement::Candidates;
use super::records::{SlotReading, SlotToMeet};
use super::state::{DuoTable, Key};
use crate::step::{self, FastPath, Lookup, NextStep, ReadPieces, Reads, ValueLocation, view};
use crate::{Operation, Result, Value};
use farslot_fabric::{Endpoint, InPlace, Piece, RemoteAddr};
use std::sync::atomic::{Ordering, fence};

/// What the index says of a key at one moment.
struct IndexedSlot {
    /// Where the next slot is that matches.
    slot: Option<RemoteAddr>,
    /// How often anything had changed.
    changes: u64,
    /// Whether, in spite of no slot, a reader beside the owner may have met the key already: it is
    /// about to be in the index.
    may_be_met: bool,
}

/// How far a lookup that holds nothing has come.
#[derive(Default)]
pub(crate) struct Search {
    /// Where the key may be, as things stood when its part of the index was fetched.
    fetched: Option<FetchedCandidates>,
    /// Slots that matched and were another key's.
    passed: usize,
    /// How often anything had changed when the index was asked for the slot that is read now.
    changes: u64,
    /// The slot that is read now.
    slot: SlotToMeet,
}

/// Where a key may be, as things stood when its part of the index was fetched.
#[derive(Clone, Copy)]
struct FetchedCandidates {
    of: Candidates,
    /// How often anything had changed.
    changes: u64,
}

/// A second look with the key's buckets held: what is written meanwhile may be in the way.
pub(crate) struct BucketHold;

impl<E: Endpoint> Lookup for DuoTable<E> {
    const PREPARES: bool = true;

    type Endpoint = E;
    type Asked<'k> = &'k [u8];
    type Key<'k> = Key<'k>;
    type Search = Search;
    type SlowPath = BucketHold;

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
        OwnerFastPath::of(self, view)
    }

    #[inline]
    fn key<'k>(&self, bytes: Self::Asked<'k>) -> Result<Key<'k>> {
        Self::key(self, bytes)
    }

    /// Most of a lookup is a look at the index: two buckets of it, anywhere in the client's memory.
    #[inline]
    fn prepare(&self, key: &Self::Key<'_>, search: &mut Search) {
        let index = self.index.borrow();
        let of = index.candidates(key.hash);
        index.prefetch(&of);
        let changes = self.changes();
        search.fetched = Some(FetchedCandidates { of, changes });
    }

    #[inline]
    fn begin(&self, key: &Self::Key<'_>, search: &mut Search) -> NextStep<BucketHold> {
        let fetched = search.fetched.take();
        search.passed = 0;
        match self.named(key, 0, fetched) {
            Some(named) => Self::follow(search, &named),
            None => NextStep::SlowPath(BucketHold),
        }
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
    ) -> NextStep<BucketHold> {
        let (layout, heap) = (&self.layout, self.heap.as_ref());
        let met = search
            .slot
            .look(layout, heap, (key.bytes, key.head()), read);
        // What follows looks at what the owner's other threads do, which they tell after they have
        // written.
        fence(Ordering::Acquire);
        match met {
            SlotReading::Named => NextStep::Read(Reads::ONE),
            SlotReading::Key(_) if self.may_be_new(key) => NextStep::SlowPath(BucketHold),
            SlotReading::Key(bytes) => NextStep::Found(ValueLocation::Bytes { piece: 0, bytes }),
            SlotReading::Other | SlotReading::Dead | SlotReading::Torn => self.pass(key, search),
        }
    }

    async fn slow_path(
        &self,
        key: &Self::Key<'_>,
        _: &mut Search,
        BucketHold: BucketHold,
    ) -> Result<NextStep<BucketHold>> {
        Ok(match self.find_holding(key).await? {
            Some(value) => NextStep::Found(ValueLocation::Value(Box::new(value))),
            None => NextStep::Absent,
        })
    }
}

impl<E: Endpoint> DuoTable<E> {
    /// Whether the key's record may be one that is being written: seen by this endpoint and not yet
    /// by others, who would answer with what was before.
    #[inline]
    fn may_be_new(&self, key: &Key<'_>) -> bool {
        self.has_others() && !self.is_quiet(key.buckets.get())
    }

    /// Passes a slot that is not the key's, or not whole.
    #[inline]
    fn pass(&self, key: &Key<'_>, search: &mut Search) -> NextStep<BucketHold> {
        // In this order: who changes something counts that before it says that it is in doubt or
        // settled, and says so before it releases the bucket.
        if !self.is_quiet(key.buckets.get()) || self.changes() != search.changes {
            return NextStep::SlowPath(BucketHold);
        }
        search.passed += 1;
        match self.named(key, search.passed, None) {
            // The slots that were passed were those of the index as it was then.
            Some(named) if named.changes == search.changes => Self::follow(search, &named),
            _ => NextStep::SlowPath(BucketHold),
        }
    }

    /// Looks a key up with its buckets held.
    pub(super) async fn find_holding(&self, key: &Key<'_>) -> Result<Option<Value>> {
        step::run(&self.writes(), Operation::Get(key.bytes).into()).await
    }

    /// Does what the index says.
    #[inline]
    fn follow(search: &mut Search, named: &IndexedSlot) -> NextStep<BucketHold> {
        search.changes = named.changes;
        match named.slot {
            Some(at) => {
                search.slot = SlotToMeet::new(at);
                NextStep::Read(Reads::ONE)
            }
            None if named.may_be_met => NextStep::SlowPath(BucketHold),
            None => NextStep::Absent,
        }
    }

    /// What the index says of a key at this moment, but for so many of the slots that match;
    /// nothing while the index is not that of the vault.
    #[inline]
    fn named(
        &self,
        key: &Key<'_>,
        passed: usize,
        fetched: Option<FetchedCandidates>,
    ) -> Option<IndexedSlot> {
        let index = self.index.borrow();
        // While nobody changes the index: else this could be one that is made anew.
        if !self.is_settled() {
            return None;
        }
        // Whoever changes the index counts it first, and not while this looks.
        let changes = self.changes();
        let of = match fetched {
            Some(fetched) if fetched.changes == changes => fetched.of,
            _ => index.candidates(key.hash),
        };
        key.buckets.set(index.buckets_of(&of));
        let slot = index.matches_of(key.hash, &of).nth(passed);
        Some(IndexedSlot {
            slot: slot.map(|slot| self.slot_at(slot)),
            changes,
            may_be_met: slot.is_none()
                && self.layout.published
                && self.is_any_held(key.buckets.get()),
        })
    }

    /// Whether there may be others who look keys up: other threads of the owner, or readers.
    #[inline]
    pub(super) fn has_others(&self) -> bool {
        self.has_threads || self.layout.published
    }

    /// Whether nobody writes in a key's buckets, and nothing is in doubt that was written there.
    pub(super) fn is_quiet(&self, buckets: [u64; 2]) -> bool {
        !self.is_any_held(buckets) && self.is_settled()
    }

    /// Whether somebody holds one of a key's buckets.
    pub(super) fn is_any_held(&self, buckets: [u64; 2]) -> bool {
        buckets.iter().any(|bucket| self.locks.is_held(*bucket))
    }
}
