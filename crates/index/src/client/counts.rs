//! How many slots are in use, and how many entries there are, as the clients count them together.

use crate::heap::{Heap, HeapUse};
use crate::{IndexError, Occupancy, Result, UPKEEP};
use farslot_fabric::{Endpoint, EndpointExt, RemoteAddr, Rights, both};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// Byte of the count of slots in use, from the table's start.
const USED_AT: u64 = 0;
/// Byte of the count of entries.
const ENTRIES_AT: u64 = 8;

/// The counts that all see, and a client's share that it adds to them in steps. Threads of one
/// client may share it: each number is for itself, and what lags behind is no worse for it.
pub(crate) struct Counts {
    table: RemoteAddr,
    slots: AtomicU64,
    /// Slots in use, when they were last asked for.
    known_used: AtomicU64,
    unreported_used: AtomicI64,
    unreported_entries: AtomicI64,
    report_after: u64,
}

impl Counts {
    pub(crate) fn new(table: RemoteAddr, slots: u64) -> Self {
        Self {
            table,
            slots: AtomicU64::new(slots),
            known_used: AtomicU64::new(0),
            unreported_used: AtomicI64::new(0),
            unreported_entries: AtomicI64::new(0),
            report_after: (slots / 4096).clamp(1, 1024),
        }
    }

    /// The table has so many slots from now on.
    pub(crate) fn set_slots(&self, slots: u64) {
        self.slots.store(slots, Relaxed);
    }

    /// The load factor as this client knows it, 0 to 1.
    pub(crate) fn load_factor(&self) -> f64 {
        let unreported = self.unreported_used.load(Relaxed);
        let used = self
            .known_used
            .load(Relaxed)
            .saturating_add_signed(unreported);
        used as f64 / self.slots.load(Relaxed) as f64
    }

    /// Notes a change of this client's; true when there is enough to report.
    pub(crate) fn change(&self, used: i64, entries: i64) -> bool {
        let add = |count: &AtomicI64, change: i64| match change {
            0 => count.load(Relaxed),
            change => count.fetch_add(change, Relaxed) + change,
        };
        let used = add(&self.unreported_used, used);
        let entries = add(&self.unreported_entries, entries);
        used.unsigned_abs().max(entries.unsigned_abs()) >= self.report_after
    }

    /// Whether there is enough to report.
    fn are_due(&self) -> bool {
        self.change(0, 0)
    }

    /// Whether a client has so much to report, of the counts or of its table's heap, that it is to
    /// do so.
    #[inline]
    pub(crate) fn has_to_report<E: Endpoint>(&self, heap: Option<&Heap<E>>) -> bool {
        self.are_due() || Heap::has_to_tell(heap)
    }

    /// Adds this client's share to the counts that all see, and tells of what died in the heap.
    pub(crate) async fn report_all<E: Endpoint>(
        &self,
        endpoint: &E,
        heap: Option<&Heap<E>>,
    ) -> Result<()> {
        let reported = self.report(endpoint).await;
        Heap::tell_if_due(heap).await;
        reported
    }

    /// Adds this client's share to the counts that all see.
    async fn report<E: Endpoint>(&self, endpoint: &E) -> Result<()> {
        let (used, entries) = (&self.unreported_used, &self.unreported_entries);
        if used.load(Relaxed) == 0 && entries.load(Relaxed) == 0 {
            return Ok(());
        }
        let add = async |count: &AtomicI64, at: u64| {
            let share = count.swap(0, Relaxed);
            let adding = endpoint.fetch_add(self.table.plus(at), share.cast_unsigned());
            let before = adding.await.map_err(IndexError::from);
            // What was certainly not added is added next time.
            if (before.as_ref()).is_err_and(|error| !error.may_have_taken_effect()) {
                count.fetch_add(share, Relaxed);
            }
            Ok(before?.wrapping_add_signed(share))
        };
        let adding = both(add(used, USED_AT), add(entries, ENTRIES_AT));
        let (used, entries): (Result<u64>, Result<u64>) = endpoint.operation(UPKEEP, adding).await;
        self.known_used.store(used?, Relaxed);
        entries.map(drop)
    }

    /// Asks for the slots in use.
    pub(crate) async fn refresh<E: Endpoint>(&self, endpoint: &E) -> Result<()> {
        let read = endpoint.read(self.table.plus(USED_AT), 8);
        let used = endpoint.operation(UPKEEP, read).await?;
        self.known_used.store(used.words()[0], Relaxed);
        Ok(())
    }

    /// Sets the counts right, which nobody else changes: the table has so many entries, and no dead
    /// slots. What others see lags behind, as ever.
    pub(crate) async fn correct<E: Endpoint>(&self, endpoint: &E, entries: u64) -> Result<()> {
        let counts = endpoint.read(self.table.plus(USED_AT), 16).await?;
        let missing = |word: usize| entries.wrapping_sub(counts.words()[word]).cast_signed();
        self.known_used.store(counts.words()[0], Relaxed);
        self.unreported_used.store(missing(0), Relaxed);
        self.unreported_entries.store(missing(1), Relaxed);
        Ok(())
    }

    /// Sets the counts right by a look at every slot. What a client that was killed had counted and
    /// not reported is lost otherwise. A difference smaller than what one live client may not have
    /// reported yet is left, and so are all where this client may not write.
    pub(crate) async fn seen<E: Endpoint>(
        &self,
        endpoint: &E,
        used: u64,
        entries: u64,
    ) -> Result<()> {
        let info = endpoint.node(self.table.node)?;
        // One that is made of segments of the first has the rights of that.
        let region = info.regions.get(usize::from(self.table.region.0));
        let region = region.or(info.regions.first());
        if !region.is_some_and(|region| region.rights.allow(Rights::ATOMIC)) {
            return Ok(());
        }
        self.report(endpoint).await?;
        let correcting = async {
            let counts = endpoint.read(self.table.plus(USED_AT), 16).await?;
            for (word, seen, at) in [(0, used, USED_AT), (1, entries, ENTRIES_AT)] {
                let counted = counts.words()[word];
                let missing = seen.wrapping_sub(counted).cast_signed().unsigned_abs();
                if missing >= self.report_after {
                    // If a report or another look comes between, the next look does it.
                    let correcting = endpoint.compare_swap(self.table.plus(at), counted, seen);
                    correcting.await?;
                }
            }
            Ok(())
        };
        endpoint.operation(UPKEEP, correcting).await
    }

    /// Asks for all that the clients count, of a table whose heap is used so.
    pub(crate) async fn occupancy<E: Endpoint>(
        &self,
        endpoint: &E,
        heap: HeapUse,
    ) -> Result<Occupancy> {
        let counts = endpoint.read(self.table.plus(USED_AT), 16).await?;
        // What was in doubt may have been added or not.
        let count = |word: usize| counts.words()[word].cast_signed().max(0).cast_unsigned();
        Ok(Occupancy {
            entries: count(1),
            used_slots: count(0).min(self.slots.load(Relaxed)),
            slots: self.slots.load(Relaxed),
            heap_used: heap.used.min(heap.bytes),
            heap_dead: heap.dead,
            heap_bytes: heap.bytes,
            evicted: heap.evicted,
        })
    }
}
