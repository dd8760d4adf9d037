//! How many slots are in use, and how many entries there are, as the clients count them together.

use crate::heap::HeapPlace;
use crate::{IndexError, Occupancy, Result, UPKEEP};
use farslot_fabric::{Endpoint, EndpointExt, RemoteAddr, both};
use std::cell::Cell;

/// Byte of the count of slots in use, from the table's start.
const USED_AT: u64 = 0;
/// Byte of the count of entries.
const ENTRIES_AT: u64 = 8;

/// The counts that all see, and a client's share that it adds to them in steps.
pub(crate) struct Counts {
    table: RemoteAddr,
    slots: Cell<u64>,
    /// Slots in use, when they were last asked for.
    known_used: Cell<u64>,
    unreported_used: Cell<i64>,
    unreported_entries: Cell<i64>,
    report_after: u64,
}

impl Counts {
    pub(crate) fn new(table: RemoteAddr, slots: u64) -> Self {
        Self {
            table,
            slots: Cell::new(slots),
            known_used: Cell::new(0),
            unreported_used: Cell::new(0),
            unreported_entries: Cell::new(0),
            report_after: (slots / 4096).clamp(1, 1024),
        }
    }

    /// The table has so many slots from now on.
    pub(crate) fn set_slots(&self, slots: u64) {
        self.slots.set(slots);
    }

    /// The load factor as this client knows it, 0 to 1.
    pub(crate) fn load_factor(&self) -> f64 {
        let unreported = self.unreported_used.get();
        let used = self.known_used.get().saturating_add_signed(unreported);
        used as f64 / self.slots.get() as f64
    }

    /// Notes a change of this client's; true when there is enough to report.
    pub(crate) fn change(&self, used: i64, entries: i64) -> bool {
        let used = self.unreported_used.get() + used;
        let entries = self.unreported_entries.get() + entries;
        self.unreported_used.set(used);
        self.unreported_entries.set(entries);
        used.unsigned_abs().max(entries.unsigned_abs()) >= self.report_after
    }

    /// Adds this client's share to the counts that all see.
    pub(crate) async fn report<E: Endpoint>(&self, endpoint: &E) -> Result<()> {
        let (used, entries) = (&self.unreported_used, &self.unreported_entries);
        if used.get() == 0 && entries.get() == 0 {
            return Ok(());
        }
        let add = async |count: &Cell<i64>, at: u64| {
            let share = count.take();
            let adding = endpoint.fetch_add(self.table.plus(at), share.cast_unsigned());
            let before = adding.await.map_err(IndexError::from);
            // What was certainly not added is added next time.
            if (before.as_ref()).is_err_and(|error| !error.may_have_taken_effect()) {
                count.set(count.get() + share);
            }
            Ok(before?.wrapping_add_signed(share))
        };
        let adding = both(add(used, USED_AT), add(entries, ENTRIES_AT));
        let (used, entries): (Result<u64>, Result<u64>) = endpoint.operation(UPKEEP, adding).await;
        self.known_used.set(used?);
        entries.map(drop)
    }

    /// Asks for the slots in use.
    pub(crate) async fn refresh<E: Endpoint>(&self, endpoint: &E) -> Result<()> {
        let read = endpoint.read(self.table.plus(USED_AT), 8);
        let used = endpoint.operation(UPKEEP, read).await?;
        self.known_used.set(used.words()[0]);
        Ok(())
    }

    /// Sets the counts right, which nobody else changes: the table has so many entries, and no dead
    /// slots. What others see lags behind, as ever.
    pub(crate) async fn correct<E: Endpoint>(&self, endpoint: &E, entries: u64) -> Result<()> {
        let counts = endpoint.read(self.table.plus(USED_AT), 16).await?;
        let missing = |word: usize| entries.wrapping_sub(counts.words()[word]).cast_signed();
        self.known_used.set(counts.words()[0]);
        self.unreported_used.set(missing(0));
        self.unreported_entries.set(missing(1));
        Ok(())
    }

    /// Asks for all that the clients count, and for the mark of the heap.
    pub(crate) async fn occupancy<E: Endpoint>(
        &self,
        endpoint: &E,
        heap: HeapPlace,
    ) -> Result<Occupancy> {
        let counts = endpoint.read(self.table.plus(USED_AT), 16);
        let (counts, mark) = both(counts, endpoint.read(heap.header, 8)).await;
        let (counts, mark) = (counts?, mark?);
        // What was in doubt may have been added or not.
        let count = |word: usize| counts.words()[word].cast_signed().max(0).cast_unsigned();
        Ok(Occupancy {
            entries: count(1),
            used_slots: count(0).min(self.slots.get()),
            slots: self.slots.get(),
            heap_used: mark.words()[0].min(heap.bytes),
            heap_bytes: heap.bytes,
        })
    }
}
