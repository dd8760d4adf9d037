//! Lookups and updates of keys whose slot and record this client remembers: one round trip each.
//!
//! Invariant: a record is believed as ever, because its key's slot was seen to name it within the
//! operation, and because its bytes are whole and of that use of its block. Which of the two was
//! read first does not matter: a block does not change while a slot names it. An update swaps the
//! slot from what is remembered, so that it takes effect only where that is still so; the slot is
//! the key's for ever, and the location is that of no other key (see
//! [`record_locations`](crate::record_locations)). So a stale location costs a READ, or a record
//! that is written before its slot is looked for, and never an answer.

use super::client::{Key, LinearTable};
use crate::record_locations::{LocatedKey, RecordLocation, RecordLocations};
use crate::slot::{KeyRule, SlotHead};
use farslot_fabric::{Endpoint, Piece};

impl<'k> Key<'k> {
    /// The key as its location is asked for.
    #[inline]
    const fn located(&self) -> LocatedKey<'k> {
        LocatedKey {
            hash: self.hash,
            bytes: self.bytes,
        }
    }
}

impl<E: Endpoint> LinearTable<E> {
    /// The same client with record locations: it remembers where about `most` keys have their
    /// records out of band, those that it has met last, and asks for a key's slot and its record at
    /// once. 0 is without locations, as a table is opened. They take 16 bytes a key, and none until
    /// they are used; more than the table has slots are not kept.
    ///
    /// Lookups and updates of keys that are remembered take one round trip, of others two and
    /// three; for keys whose values others replace in between, a lookup has read a record too many.
    /// Without effect on tables of several records a key, and on those that have none out of band.
    #[must_use]
    pub fn with_record_locations(mut self, most: usize) -> Self {
        let wanted = most > 0 && self.heap.is_some() && self.layout.keys == KeyRule::Unique;
        let most = most.min(usize::try_from(self.layout.slots).unwrap_or(usize::MAX));
        self.records = wanted.then(|| Box::new(RecordLocations::new(most)));
        self
    }

    /// Where the key's record was, if that is remembered.
    #[inline]
    pub(super) fn known_location(&self, key: &Key<'_>) -> Option<RecordLocation> {
        self.records.as_ref()?.of(key.located())
    }

    /// Remembers that the key's slot, at that distance from its home, has this head.
    #[inline]
    pub(super) fn remember(&self, key: &Key<'_>, distance: u64, head: u64) {
        if let Some(records) = &self.records
            && let SlotHead::Out { block, .. } = SlotHead::decode(head)
        {
            records.note(key.located(), RecordLocation { distance, block });
        }
    }

    #[inline]
    pub(super) fn forget(&self, key: &Key<'_>) {
        if let Some(records) = &self.records {
            records.forget(key.located());
        }
    }

    /// What there is to read of a key's record and its slot: 0 is the record, 1 the slot.
    #[inline]
    pub(super) fn piece_at_location(
        &self,
        key: &Key<'_>,
        location: RecordLocation,
        number: usize,
    ) -> Piece {
        if number == 0 {
            return self.heap().piece(location.block);
        }
        let slot = self.slot_number(key.home, location.distance);
        Piece {
            from: self.layout.slot_at(self.table, slot),
            len: 8,
        }
    }
}
