//! What a client keeps of a linear table: the layout, its share of the heap, and the load factor.

use super::layout::LinearLayout;
use super::read_sizes::ReadSizes;
use crate::client::{Counts, MANY_READS};
use crate::cluster_hints::ClusterHints;
use crate::hash::{scale, word_of};
use crate::heap::{Heap, record_bytes};
use crate::record_locations::RecordLocations;
use crate::slot::{SlotKind, WordFormat};
use crate::{IndexError, Result};
use farslot_fabric::{Endpoint, RemoteAddr};
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
    /// Where it remembers records to be, if it was asked to.
    pub(super) records: Option<Box<RecordLocations>>,
    pub(super) counts: Counts,
    /// Lookups since the load factor was asked for.
    lookups: Cell<u32>,
    /// What follows from the load factor.
    read_size: Cell<u64>,
}

/// Lookups after which a client asks for the load factor again.
const REFRESH_AFTER: u32 = 8192;

/// A key, checked and hashed.
pub(crate) struct Key<'k> {
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
        let place = layout.map().heap_place(table);
        let longest = record_bytes(layout.key.most(), layout.value.most());
        let heap = || Heap::new(Rc::clone(&endpoint), place, longest).ending(layout.expiring);
        let heap = layout.kind.has_heads().then(heap);
        let opened = Self {
            words: layout.shape().words(layout.kind, layout.mask_seed),
            counts: Counts::new(table, layout.slots),
            lookups: Cell::new(0),
            read_size: Cell::new(1),
            endpoint,
            table,
            layout,
            heap,
            sizes,
            hints: None,
            records: None,
        };
        opened.refresh().await?;
        Ok(opened)
    }

    /// The same client, by whose clock in milliseconds records end whose values begin with the
    /// moment: where the heap needs room, they go first. The layout is one of records that end.
    #[must_use]
    pub fn with_clock(mut self, now: impl Fn() -> u64 + 'static) -> Self {
        if let Some(heap) = &mut self.heap {
            heap.set_clock(now);
        }
        self
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
        self.read_size.get()
    }

    /// The load factor as this client knows it, 0 to 1, dead slots included.
    #[must_use]
    pub fn load_factor(&self) -> f64 {
        self.counts.load_factor()
    }

    #[inline(always)]
    pub(super) fn checked_key<'k>(&self, bytes: &'k [u8]) -> Result<Key<'k>> {
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
        self.slots_used(1, 0);
    }

    /// Notes slots that this client has claimed, and entries that it has brought.
    pub(super) fn slots_used(&self, slots: i64, entries: i64) {
        self.counts.change(slots, entries);
        if slots != 0 {
            self.choose_read_size();
        }
    }

    /// Whether this client has so much to report that it is to do so.
    #[inline]
    pub(super) fn has_to_report(&self) -> bool {
        self.counts.has_to_report(self.heap.as_ref())
    }

    /// Adds this client's share to the counts that all see, and tells of what died.
    pub(super) async fn report(&self) -> Result<()> {
        let heap = self.heap.as_ref();
        let reported = self.counts.report_all(&*self.endpoint, heap).await;
        self.choose_read_size();
        reported
    }

    /// Whether it is time to ask for the load factor again: for one of those who ask, who then
    /// does.
    #[inline]
    pub(super) fn refresh_is_due(&self) -> bool {
        let lookups = self.lookups.get() + 1;
        if lookups > REFRESH_AFTER {
            self.lookups.set(lookups - (REFRESH_AFTER + 1));
            return true;
        }
        self.lookups.set(lookups);
        false
    }

    /// How many lookups may come before the load factor is asked for again.
    pub(super) fn lookups_to_refresh(&self) -> usize {
        REFRESH_AFTER.saturating_sub(self.lookups.get()) as usize
    }

    /// Counts lookups, of which so many have taken many READs.
    pub(super) fn looked_up(&self, lookups: u32, with_many_reads: u32) {
        let many = with_many_reads * (REFRESH_AFTER / 16);
        self.lookups.set(self.lookups.get() + lookups + many);
    }

    /// Asks for the load factor.
    pub(super) async fn refresh(&self) -> Result<()> {
        self.counts.refresh(&*self.endpoint).await?;
        self.choose_read_size();
        Ok(())
    }

    /// Lets a lookup that took surprisingly many READs bring the next refresh nearer.
    #[inline]
    pub(super) fn lookup_took(&self, reads: u32) {
        // It suggests that the load factor has changed.
        if reads >= MANY_READS {
            let lookups = self.lookups.get();
            self.lookups.set(lookups + REFRESH_AFTER / 16);
        }
    }

    fn choose_read_size(&self) {
        let size = self.sizes.at_load(self.load_factor());
        self.read_size.set(size.min(self.layout.slots));
    }
}
