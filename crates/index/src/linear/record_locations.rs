//! Lookups and updates of keys whose slot and record this client remembers: one round trip each.
//!
//! Invariant: a record is believed as ever, because its key's slot was seen to name it within the operation, and
//! because its bytes are whole and of that use of its block. Which of the two was read first does not matter: a block
//! does not change while a slot names it. An update swaps the slot from what is remembered, so that it takes effect
//! only where that is still so; the slot is the key's for ever, and the location is that of no other key (see
//! [`record_locations`](crate::record_locations)). So a stale location costs a READ, or a record that is
//! written before its slot is looked for, and never an answer.

use super::client::{Key, LinearTable};
use super::cluster_hints::Until;
use super::insert::Draft;
use super::probe::Probe;
use crate::heap::Record;
use crate::record_locations::{LocatedKey, RecordLocation, RecordLocations};
use crate::slot::{Head, KeyRule};
use crate::{Result, Value};
use farslot_fabric::verb::Pieces;
use farslot_fabric::{Buffer, Endpoint, EndpointExt, FabricError, Piece};

/// What READs of a remembered slot and its record have shown.
pub(super) enum AtLocation {
    /// The slot names that record still.
    Value(Value),
    /// The slot has this head by now.
    Changed(u64),
}

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
    /// The same client with record locations: it remembers where about `most` keys have their records out of band, those
    /// that it has met last, and asks for a key's slot and its record at once. 0 is without locations, as a table is opened.
    /// They take 16 bytes a key, and none until they are used; more than the table has slots are not kept.
    ///
    /// Lookups and updates of keys that are remembered take one round trip, of others two and three; for keys whose
    /// values others replace in between, a lookup has read a record too many. Without effect on tables of several
    /// records a key, and on those that have none out of band.
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
            && let Head::Out { block, .. } = Head::decode(head)
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

    /// What to read of a key's record and slot, in this order.
    #[inline]
    pub(super) fn pieces_of(&self, key: &Key<'_>, location: RecordLocation) -> Pieces {
        let slot = self.slot_number(key.home, location.distance);
        let head = Piece {
            from: self.layout.slot_at(self.table, slot),
            len: 8,
        };
        [self.heap().piece(location.block), head].into()
    }

    /// Judges what was read of a key's record and slot.
    #[inline]
    pub(super) fn at_location(
        &self,
        key: &Key<'_>,
        location: RecordLocation,
        read: Buffer,
    ) -> AtLocation {
        let head = read.words().last().copied().unwrap_or(0);
        if head == Head::out(key.hash, location.block)
            && let Some(value) = self.value_in(key, head, read)
        {
            return AtLocation::Value(value);
        }
        self.forget(key);
        AtLocation::Changed(head)
    }

    /// The key's value, if this was read from the block that the head names, whole, and is the key's record.
    #[inline]
    pub(super) fn value_in(&self, key: &Key<'_>, head: u64, read: Buffer) -> Option<Value> {
        let Head::Out { block, .. } = Head::decode(head) else {
            return None;
        };
        let record = Record::decode(read, block)?;
        (record.key() == key.bytes).then(|| record.into_value())
    }

    /// Finds a key where it is remembered; nothing if it has to be looked for.
    pub(super) async fn find_at_location(&self, key: &Key<'_>) -> Result<Option<Value>> {
        let Some(location) = self.known_location(key) else {
            return Ok(None);
        };
        let read = match self.endpoint.read_many(self.pieces_of(key, location)).await {
            Err(error) if is_too_much_at_once(&error) => {
                self.forget(key);
                return Ok(None);
            }
            read => read?,
        };
        let head = match self.at_location(key, location, read) {
            AtLocation::Value(value) => return Ok(Some(value)),
            AtLocation::Changed(head) => head,
        };
        let Head::Out { block, .. } = Head::decode(head) else {
            return Ok(None);
        };
        // As good as a slot that was looked for: it names the key's record, or does not.
        let Piece { from, len } = self.heap().piece(block);
        let value = self.value_in(key, head, self.endpoint.read(from, len).await?);
        if value.is_some() {
            self.remember(key, location.distance, head);
        }
        Ok(value)
    }

    /// Replaces the value of a key where it is remembered; false if its slot has to be looked for. The draft's record
    /// may be written then.
    pub(super) async fn replace_at_location(
        &self,
        key: &Key<'_>,
        draft: &mut Draft<'_>,
    ) -> Result<bool> {
        let Some(location) = self.known_location(key) else {
            return Ok(false);
        };
        let mut probe = Probe::new(key, Until::Match);
        probe.distance = location.distance;
        let mut seen = Head::out(key.hash, location.block);
        // The slot is the key's: a record that others have put there meanwhile is replaced as well.
        while Head::decode(seen).is_out_of(key.hash) {
            if self.replace(key, &mut probe, seen, draft).await? {
                return Ok(true);
            }
            seen = probe.found;
        }
        self.forget(key);
        Ok(false)
    }
}

/// Whether an endpoint cannot read record and slot together, though it may be able to read each.
pub(super) const fn is_too_much_at_once(error: &FabricError) -> bool {
    matches!(
        error,
        FabricError::BufferTooLarge { .. } | FabricError::TooManyPieces { .. }
    )
}
