//! What a client keeps of a linear table: the layout, its share of the heap, and the load factor.

use super::layout::{ENTRIES_AT, LinearLayout, USED_AT};
use super::read_sizes::ReadSizes;
use crate::hash::{scale, word_of};
use crate::heap::Heap;
use crate::hints::ClusterHints;
use crate::slot::{SlotKind, WordFormat};
use crate::{IndexError, Occupancy, Result, UPKEEP};
use farslot_fabric::{Endpoint, EndpointExt, RemoteAddr, both};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A linear table as one thread's coroutines see it.
pub struct LinearTable<E> {
    pub(super) endpoint: Rc<E>,
    pub(super) layout: LinearLayout,
    pub(super) table: RemoteAddr,
    pub(super) words: WordFormat,
    /// Only of tables with records out of band.
    pub(super) heap: Option<Heap<E>>,
    pub(super) sizes: ReadSizes,
    /// What its lookups have learnt of clusters, if it asked for that.
    pub(super) hints: Option<Box<RefCell<ClusterHints>>>,
    load: Load,
}

/// Lookups after which a client asks for the load factor again.
const REFRESH_AFTER: u32 = 8192;
/// A lookup that needed this many READs suggests that the load factor has changed.
const MANY_READS: u32 = 4;

/// The load factor as the client knows it, and its own share that the others do not know yet.
struct Load {
    used: Cell<u64>,
    unreported_used: Cell<u64>,
    unreported_entries: Cell<i64>,
    lookups: Cell<u32>,
    read_size: Cell<u64>,
    report_after: u64,
}

/// A key, checked and hashed.
pub(super) struct Key<'k> {
    pub(super) bytes: &'k [u8],
    pub(super) hash: u64,
    pub(super) home: u64,
    /// The key's word in a Pair slot, or its dead form in a Word slot.
    pub(super) word: u64,
}

impl<E: Endpoint> LinearTable<E> {
    /// Opens the table that lies at `table`, and learns its load factor.
    ///
    /// # Errors
    /// [`IndexError::BadOption`] for a layout that no options give, or what the fabric says.
    pub async fn open(
        endpoint: Rc<E>,
        table: RemoteAddr,
        layout: LinearLayout,
        sizes: ReadSizes,
    ) -> Result<Self> {
        layout.check()?;
        let heap = (layout.kind.has_heads())
            .then(|| Heap::new(Rc::clone(&endpoint), layout.heap_place(table)));
        let opened = Self {
            words: layout.words(),
            load: Load {
                used: Cell::new(0),
                unreported_used: Cell::new(0),
                unreported_entries: Cell::new(0),
                lookups: Cell::new(0),
                read_size: Cell::new(1),
                report_after: (layout.slots / 4096).clamp(1, 1024),
            },
            endpoint,
            table,
            layout,
            heap,
            sizes,
            hints: None,
        };
        opened.refresh().await?;
        Ok(opened)
    }

    /// The table's layout.
    #[must_use]
    pub fn layout(&self) -> &LinearLayout {
        &self.layout
    }

    /// The endpoint that the table is reached by.
    #[must_use]
    pub fn endpoint(&self) -> &Rc<E> {
        &self.endpoint
    }

    /// Slots that the next READ fetches, unless a hint says otherwise.
    #[inline]
    #[must_use]
    pub fn read_size(&self) -> u64 {
        self.load.read_size.get()
    }

    /// The load factor as this client knows it, 0 to 1, dead slots included.
    #[must_use]
    pub fn load_factor(&self) -> f64 {
        let used = self.load.used.get() + self.load.unreported_used.get();
        used as f64 / self.layout.slots as f64
    }

    #[inline(always)]
    pub(super) fn key<'k>(&self, bytes: &'k [u8]) -> Result<Key<'k>> {
        match self.word_of_key(bytes) {
            Some(word) => {
                let hash = self.layout.hasher.hash(bytes);
                Ok(Key {
                    bytes,
                    hash,
                    home: scale(hash, self.layout.slots),
                    word,
                })
            }
            None => Err(self.why_no_key(bytes)),
        }
    }

    /// The key's word, where the table can hold such a key.
    #[inline]
    fn word_of_key(&self, bytes: &[u8]) -> Option<u64> {
        if bytes.is_empty() || !self.layout.key.admits(bytes.len()) {
            return None;
        }
        match self.layout.kind {
            SlotKind::Word => self.words.dead_word(bytes).ok(),
            SlotKind::Pair => self.words.pair_key(bytes),
            SlotKind::Inline | SlotKind::Heap | SlotKind::Hybrid | SlotKind::Signatures => Some(0),
        }
    }

    #[cold]
    fn why_no_key(&self, bytes: &[u8]) -> IndexError {
        if let Err(error) = self.layout.shape().check_key(bytes) {
            return error;
        }
        match self.words.dead_word(bytes) {
            Err(error) if self.layout.kind == SlotKind::Word => error,
            _ => IndexError::ReservedPattern {
                field: "key",
                bits: word_of(bytes),
            },
        }
    }

    pub(super) fn check_value(&self, value: &[u8]) -> Result<()> {
        self.layout.shape().check_value(value)
    }

    /// Notes a slot that this client has claimed.
    pub(super) fn slot_used(&self) {
        let load = &self.load;
        load.unreported_used.set(load.unreported_used.get() + 1);
        self.choose_read_size();
    }

    /// Notes entries that came or went; tells the others when there is enough to tell. This cannot
    /// fail: the operation that is counted is done, and counts may lag.
    pub(super) async fn entries_changed(&self, change: i64) {
        let load = &self.load;
        let entries = load.unreported_entries.get() + change;
        load.unreported_entries.set(entries);
        let untold = load.unreported_used.get().max(entries.unsigned_abs());
        if untold >= load.report_after {
            let _ = self.report().await;
        }
    }

    /// Adds this client's share to the counts that all see.
    pub(super) async fn report(&self) -> Result<()> {
        let load = &self.load;
        let used = load.unreported_used.take();
        let entries = load.unreported_entries.take();
        if used == 0 && entries == 0 {
            return Ok(());
        }
        let add = |at: u64, amount: u64| self.endpoint.fetch_add(self.table.plus(at), amount);
        let adding = both(add(USED_AT, used), add(ENTRIES_AT, entries as u64));
        let (seen, added) = self.endpoint.operation(UPKEEP, adding).await;
        // What was certainly not added is added next time.
        if seen
            .as_ref()
            .is_err_and(|error| !error.may_have_taken_effect())
        {
            load.unreported_used.set(load.unreported_used.get() + used);
        }
        if added
            .as_ref()
            .is_err_and(|error| !error.may_have_taken_effect())
        {
            load.unreported_entries
                .set(load.unreported_entries.get() + entries);
        }
        load.used.set(seen? + used);
        added?;
        self.choose_read_size();
        Ok(())
    }

    /// Whether it is time to ask for the load factor again.
    #[inline]
    pub(super) fn refresh_is_due(&self) -> bool {
        let lookups = self.load.lookups.get() + 1;
        self.load.lookups.set(lookups);
        lookups > REFRESH_AFTER
    }

    /// Asks for the load factor.
    pub(super) async fn refresh(&self) -> Result<()> {
        self.load.lookups.set(0);
        let read = self.endpoint.read(self.table.plus(USED_AT), 8);
        let counts = self.endpoint.operation(UPKEEP, read).await?;
        self.load.used.set(counts.words()[0]);
        self.choose_read_size();
        Ok(())
    }

    /// Lets a lookup that took surprisingly many READs bring the next refresh nearer.
    #[inline]
    pub(super) fn lookup_took(&self, reads: u32) {
        if reads >= MANY_READS {
            let lookups = self.load.lookups.get();
            self.load.lookups.set(lookups + REFRESH_AFTER / 16);
        }
    }

    fn choose_read_size(&self) {
        let size = self.sizes.at_load(self.load_factor());
        self.load.read_size.set(size.min(self.layout.slots));
    }

    pub(super) async fn read_occupancy(&self) -> Result<Occupancy> {
        let place = self.layout.heap_place(self.table);
        let counts = self.endpoint.read(self.table.plus(USED_AT), 16);
        let mark = self.endpoint.read(place.header, 8);
        let (counts, mark) = both(counts, mark).await;
        let (counts, mark) = (counts?, mark?);
        Ok(Occupancy {
            entries: counts.words()[1].cast_signed().max(0).cast_unsigned(),
            used_slots: counts.words()[0].min(self.layout.slots),
            slots: self.layout.slots,
            heap_used: mark.words()[0].min(place.bytes),
            heap_bytes: place.bytes,
        })
    }
}
