//! How many entries there are, as the table says.

use farslot::fabric::{Endpoint, EndpointExt, RemoteAddr, both};
use farslot::index::{IndexError, Occupancy, Result, UPKEEP};
use std::cell::Cell;

/// Byte of the count of slots in use, from the table's start.
const USED_AT: u64 = 0;
/// Byte of the count of entries.
const ENTRIES_AT: u64 = 8;
/// Byte where other tables have the mark of their heap.
const MARK_AT: u64 = 64;

/// What the client has counted and not yet added to the counts in the table. Every entry is one
/// slot in use.
pub(super) struct Counts {
    table: RemoteAddr,
    slots: u64,
    unreported: Cell<i64>,
}

impl Counts {
    pub(super) const fn new(table: RemoteAddr, slots: u64) -> Self {
        Self {
            table,
            slots,
            unreported: Cell::new(0),
        }
    }

    /// Notes entries that came or went; true when there is enough to report.
    pub(super) fn change(&self, entries: i64) -> bool {
        let all = self.unreported.get() + entries;
        self.unreported.set(all);
        all.unsigned_abs() >= (self.slots / 4096).clamp(1, 1024)
    }

    /// Adds what was counted to the counts in the table.
    pub(super) async fn report<E: Endpoint>(&self, endpoint: &E) -> Result<()> {
        let change = self.unreported.replace(0);
        if change == 0 {
            return Ok(());
        }
        let add = |at| endpoint.fetch_add(self.table.plus(at), change.cast_unsigned());
        let adding = both(add(USED_AT), add(ENTRIES_AT));
        let (used, entries) = endpoint.operation(UPKEEP, adding).await;
        let used = used.map_err(IndexError::from);
        // What was certainly not added is added next time.
        if (used.as_ref()).is_err_and(|error| !error.may_have_taken_effect()) {
            self.unreported.set(self.unreported.get() + change);
        }
        used?;
        entries?;
        Ok(())
    }

    /// Asks for what has been reported.
    pub(super) async fn occupancy<E: Endpoint>(&self, endpoint: &E) -> Result<Occupancy> {
        // The word of a heap's mark too, though there is no heap: designs that are compared ask for
        // their occupancy by the same verbs.
        let counts = endpoint.read(self.table.plus(USED_AT), 16);
        let (counts, mark) = both(counts, endpoint.read(self.table.plus(MARK_AT), 8)).await;
        let (counts, _) = (counts?, mark?);
        // What was in doubt may have been added or not.
        let count = |word: usize| counts.words()[word].cast_signed().max(0).cast_unsigned();
        Ok(Occupancy {
            entries: count(1),
            used_slots: count(0).min(self.slots),
            slots: self.slots,
            heap_used: 0,
            heap_dead: 0,
            heap_bytes: 0,
            evicted: 0,
        })
    }
}
