//! Looking a key up (paper 001, section III-B).
//!
//! Invariant: the index names every key's slot, from before the first operation that could know of
//! the key returns until after the last that could. A lookup reads the slots whose fingerprints
//! match, one by one until it meets its key; nearly always there is one. It holds nothing: so if it
//! has not met its key, it sees whether the index has changed meanwhile, or may be about to, and if
//! so looks again with the key's buckets held.

use super::bytes::SlotNumber;
use super::placement::Candidates;
use super::records::SlotRead;
use super::state::{DuoTable, Key};
use crate::{Result, Value};
use farslot_fabric::{Endpoint, RemoteAddr};

/// What the index says of a key at one moment.
struct Glance {
    /// Where the next slot is that matches.
    slot: Option<RemoteAddr>,
    /// How often anything had changed.
    changes: u64,
    /// Whether, in spite of no slot, a reader beside the owner may have met the key already: it is
    /// about to be in the index.
    may_be_met: bool,
}

/// How far a lookup that holds nothing has come.
#[derive(Clone, Copy, Default)]
pub(super) struct Search {
    /// Slots that matched and were another key's.
    passed: usize,
    /// How often anything had changed when the index was asked for the slot that is read now.
    changes: u64,
}

/// Where a key may be, as things stood when its part of the index was fetched.
#[derive(Clone, Copy)]
pub(super) struct Fetched {
    of: Candidates,
    /// How often anything had changed.
    changes: u64,
}

/// What a lookup that holds nothing does next.
pub(super) enum Next {
    /// Reads this slot.
    Read(RemoteAddr),
    /// Ends.
    Answer(Option<Value>),
    /// Looks again with the key's buckets held: what is written meanwhile may be in the way.
    Hold,
}

impl<E: Endpoint> DuoTable<E> {
    pub(super) async fn find(&self, key: &[u8]) -> Result<Option<Value>> {
        let key = self.key(key)?;
        let mut search = Search::default();
        let mut next = self.begin_search(&mut search, &key, None);
        loop {
            match next {
                Next::Read(at) => {
                    let slot = self.read_slot_at(at).await?;
                    next = self.judge(&mut search, &key, slot);
                }
                Next::Answer(answer) => return Ok(answer),
                Next::Hold => return self.find_holding(&key).await,
            }
        }
    }

    /// Looks a key up with its buckets held.
    pub(super) async fn find_holding(&self, key: &Key<'_>) -> Result<Option<Value>> {
        let _held = self.hold(key).await?;
        let found = self.find_held(key).await?;
        Ok(found.map(|(_, slot)| self.value_in(slot)))
    }

    /// Has the key's part of the index fetched, for a lookup to begin soon.
    #[inline]
    pub(super) fn fetch(&self, key: &Key<'_>) -> Fetched {
        let index = self.index.borrow();
        let of = index.candidates(key.hash);
        index.prefetch(&of);
        Fetched {
            of,
            changes: self.changes(),
        }
    }

    /// Begins a lookup that holds nothing.
    #[inline]
    pub(super) fn begin_search(
        &self,
        search: &mut Search,
        key: &Key<'_>,
        fetched: Option<Fetched>,
    ) -> Next {
        *search = Search::default();
        match self.glance(key, 0, fetched) {
            Some(glance) => Self::follow(search, &glance),
            None => Next::Hold,
        }
    }

    /// Looks at the slot that was read.
    #[inline]
    pub(super) fn judge(&self, search: &mut Search, key: &Key<'_>, slot: SlotRead) -> Next {
        if self.is_key(&slot, key) {
            // What is being written over it may be seen by this endpoint and not yet by others, who
            // would answer with what was before.
            let is_shared = self.has_threads || self.layout.published;
            if is_shared && self.is_any_held(key) {
                return Next::Hold;
            }
            return Next::Answer(Some(self.value_in(slot)));
        }
        // In this order: who changes something counts that before it says that it is in doubt or
        // settled, and says so before it releases the bucket.
        let quiet = !self.is_any_held(key) && self.is_settled();
        if !quiet || self.changes() != search.changes {
            return Next::Hold;
        }
        search.passed += 1;
        match self.glance(key, search.passed, None) {
            // The slots that were passed were those of the index as it was then.
            Some(glance) if glance.changes == search.changes => Self::follow(search, &glance),
            _ => Next::Hold,
        }
    }

    /// Does what the index says.
    #[inline]
    fn follow(search: &mut Search, glance: &Glance) -> Next {
        search.changes = glance.changes;
        match glance.slot {
            Some(at) => Next::Read(at),
            None if glance.may_be_met => Next::Hold,
            None => Next::Answer(None),
        }
    }

    /// What the index says of a key at this moment, but for so many of the slots that match;
    /// nothing while the index is not that of the vault.
    #[inline]
    fn glance(&self, key: &Key<'_>, passed: usize, fetched: Option<Fetched>) -> Option<Glance> {
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
        Some(Glance {
            slot: slot.map(|slot| self.slot_at(slot)),
            changes,
            may_be_met: slot.is_none() && self.layout.published && self.is_any_held(key),
        })
    }

    /// Whether somebody holds one of the key's buckets.
    fn is_any_held(&self, key: &Key<'_>) -> bool {
        let mut buckets = key.buckets.get().into_iter();
        buckets.any(|bucket| self.locks.is_held(bucket))
    }

    /// The slot of a key whose buckets are held, and its bytes.
    pub(super) async fn find_held(&self, key: &Key<'_>) -> Result<Option<(SlotNumber, SlotRead)>> {
        let matches = self.matches(key);
        for slot in matches {
            let bytes = self.read_whole(slot).await?;
            if self.is_key(&bytes, key) {
                return Ok(Some((slot, bytes)));
            }
        }
        Ok(None)
    }

    /// The slots that may be the key's.
    pub(super) fn matches(&self, key: &Key<'_>) -> Vec<SlotNumber> {
        self.index.borrow().matches(key.hash).collect()
    }
}
