//! What a client keeps of a cuckoo table.

use super::layout::{Candidates, CuckooLayout, MOVES_AT, SEALED_AT, USED_AT};
use super::locks::BucketLocks;
use super::lookup::LookupOrder;
use crate::heap::Heap;
use crate::slot::{SlotKind, WordFormat};
use crate::{Occupancy, Result, UPKEEP};
use farslot_fabric::{Endpoint, EndpointExt, RemoteAddr, both};
use std::cell::Cell;
use std::rc::Rc;

/// A cuckoo table as one thread's coroutines see it.
pub struct CuckooTable<E> {
    pub(super) endpoint: Rc<E>,
    pub(super) layout: CuckooLayout,
    pub(super) table: RemoteAddr,
    pub(super) words: WordFormat,
    /// Only of tables with records out of band.
    pub(super) heap: Option<Heap<E>>,
    pub(super) order: LookupOrder,
    /// The count of displacements when it was last read.
    pub(super) moves_seen: Cell<u64>,
    pub(super) sealed: Cell<bool>,
    /// What this client writes into the writer's word; 0 until it has drawn one.
    pub(super) mark: Cell<u64>,
    /// The mark, while this client is the writer.
    pub(super) writer: Cell<Option<u64>>,
    pub(super) locks: BucketLocks,
    unreported_entries: Cell<i64>,
    report_after: u64,
}

/// A key, checked and hashed.
pub(super) struct Key<'k> {
    pub(super) bytes: &'k [u8],
    pub(super) hash: u64,
    pub(super) candidates: Candidates,
    /// The dead form of the key's Word slot.
    pub(super) word: u64,
}

impl<E: Endpoint> CuckooTable<E> {
    /// Opens the table that lies at `table`.
    ///
    /// # Errors
    /// What the fabric says.
    pub async fn open(
        endpoint: Rc<E>,
        table: RemoteAddr,
        layout: CuckooLayout,
        order: LookupOrder,
    ) -> Result<Self> {
        let heap = matches!(layout.kind, SlotKind::Inline | SlotKind::Heap)
            .then(|| Heap::new(Rc::clone(&endpoint), layout.heap_place(table)));
        let opened = Self {
            words: layout.words(),
            report_after: (layout.slots() / 4096).clamp(1, 1024),
            endpoint,
            layout,
            table,
            heap,
            order,
            moves_seen: Cell::new(0),
            sealed: Cell::new(false),
            mark: Cell::new(0),
            writer: Cell::new(None),
            locks: BucketLocks::default(),
            unreported_entries: Cell::new(0),
        };
        let state = opened.endpoint.read(table.plus(MOVES_AT), 16);
        let state = opened.endpoint.operation(UPKEEP, state).await?;
        opened.moves_seen.set(state.words()[0]);
        let sealed_word = ((SEALED_AT - MOVES_AT) / 8) as usize;
        opened.sealed.set(state.words()[sealed_word] != 0);
        Ok(opened)
    }

    /// The table's layout.
    #[must_use]
    pub fn layout(&self) -> &CuckooLayout {
        &self.layout
    }

    /// How many records the insertions of all clients have moved to another of their places.
    ///
    /// # Errors
    /// What the fabric says.
    pub async fn displacements(&self) -> Result<u64> {
        let moves = self.endpoint.read(self.table.plus(MOVES_AT), 8);
        Ok(self.endpoint.operation(UPKEEP, moves).await?.words()[0])
    }

    /// The endpoint that the table is reached by.
    #[must_use]
    pub fn endpoint(&self) -> &Rc<E> {
        &self.endpoint
    }

    /// Whether the table can never change again.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.sealed.get()
    }

    #[inline]
    pub(super) fn key<'k>(&self, bytes: &'k [u8]) -> Result<Key<'k>> {
        self.layout.shape().check_key(bytes)?;
        let hash = self.layout.hasher.hash(bytes);
        let word = match self.layout.kind {
            SlotKind::Word => self.words.dead_word(bytes)?,
            _ => 0,
        };
        Ok(Key {
            bytes,
            hash,
            candidates: self.layout.buckets_of(hash),
            word,
        })
    }

    pub(super) fn check_value(&self, value: &[u8]) -> Result<()> {
        self.layout.shape().check_value(value)
    }

    pub(super) fn heap(&self) -> &Heap<E> {
        self.heap.as_ref().expect("tables with heads have a heap")
    }

    /// The address of a slot.
    pub(super) fn slot_at(&self, place: Place) -> RemoteAddr {
        let within = place.slot * self.layout.slot_words() * 8;
        self.layout
            .bucket_at(self.table, place.bucket)
            .plus(within as u64)
    }

    /// Notes entries that came or went; tells the others when there is enough to tell. This cannot
    /// fail: the operation that is counted is done, and counts may lag.
    pub(super) async fn entries_changed(&self, change: i64) {
        let entries = self.unreported_entries.get() + change;
        self.unreported_entries.set(entries);
        if entries.unsigned_abs() >= self.report_after {
            let _ = self.report().await;
        }
    }

    /// Adds this client's share to the counts that all see.
    pub(super) async fn report(&self) -> Result<()> {
        let entries = self.unreported_entries.take();
        if entries == 0 {
            return Ok(());
        }
        // Used slots and entries are the same here: no slot is ever dead.
        let add = |at: u64| self.endpoint.fetch_add(self.table.plus(at), entries as u64);
        let adding = both(add(USED_AT), add(USED_AT + 8));
        let (used, entries) = self.endpoint.operation(UPKEEP, adding).await;
        used?;
        entries?;
        Ok(())
    }

    pub(super) async fn read_occupancy(&self) -> Result<Occupancy> {
        let place = self.layout.heap_place(self.table);
        let counts = self.endpoint.read(self.table.plus(USED_AT), 16);
        let mark = self.endpoint.read(place.header, 8);
        let (counts, mark) = both(counts, mark).await;
        let (counts, mark) = (counts?, mark?);
        let count = |word: usize| counts.words()[word].cast_signed().max(0).cast_unsigned();
        Ok(Occupancy {
            entries: count(1),
            used_slots: count(0),
            slots: self.layout.slots(),
            heap_used: mark.words()[0].min(place.bytes),
            heap_bytes: place.bytes,
        })
    }
}

/// A slot: its bucket, and its number in there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) bucket: u64,
    pub(super) slot: usize,
}
