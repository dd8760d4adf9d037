//! What a client keeps of a cuckoo table.

use super::graph::CuckooGraph;
use super::layout::{CandidateBuckets, CuckooLayout, CuckooSlot, LookupOrder};
use super::moves_seen::MovesSeen;
use super::signatures::HeapBuckets;
use crate::client::Counts;
use crate::client::locks::BucketLocks;
use crate::heap::{Heap, UniformBlocks, record_bytes};
use crate::slot::{SlotKind, WordFormat};
use crate::{Result, UPKEEP};
use farslot_fabric::{Endpoint, EndpointExt, RemoteAddr};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A cuckoo table as one thread's coroutines see it.
pub struct CuckooTable<E> {
    pub(super) endpoint: Rc<E>,
    pub(super) layout: CuckooLayout,
    pub(super) table: RemoteAddr,
    /// What follows from the layout, for lookups: where the first bucket is, bytes of each, and
    /// words of a slot.
    pub(super) first_bucket: RemoteAddr,
    pub(super) bucket_bytes: usize,
    pub(super) slot_words: usize,
    pub(super) words: WordFormat,
    /// Only of tables with records out of band.
    pub(super) heap: Option<Heap<E>>,
    /// The blocks of a table of signatures, which has no other heap.
    pub(super) uniform: Option<UniformBlocks<E>>,
    /// Only of tables of signatures.
    pub(super) heap_buckets: Option<HeapBuckets>,
    pub(super) order: LookupOrder,
    pub(super) moves_seen: MovesSeen,
    pub(super) sealed: Cell<bool>,
    /// What this client writes into the writer's word; 0 until it has drawn one.
    pub(super) mark: Cell<u64>,
    /// The mark, while this client is the writer.
    pub(super) writer: Cell<Option<u64>>,
    /// Whether it has not looked yet for what writers before it had open in the heap.
    pub(super) inherits: Cell<bool>,
    /// Whether another client has taken over since this one was last the writer.
    pub(super) was_deposed: Cell<bool>,
    /// Whether verbs of the writer that this client has taken over from may still be under way.
    pub(super) unsettled: Cell<bool>,
    pub(super) locks: BucketLocks,
    /// Whether this client, as the writer, keeps the graph.
    pub(super) predetermines: bool,
    /// What it knows of the slots, if it does.
    pub(super) graph: RefCell<Option<CuckooGraph>>,
    pub(super) counts: Counts,
}

/// A key, checked and hashed.
pub(crate) struct Key<'k> {
    pub(super) bytes: &'k [u8],
    pub(super) hash: u64,
    pub(super) candidates: CandidateBuckets,
    /// The dead form of the key's Word slot.
    pub(super) word: u64,
}

impl<E: Endpoint> CuckooTable<E> {
    /// Opens the table that lies at `table`.
    ///
    /// # Errors
    /// [`IndexError::BadOption`](crate::IndexError::BadOption) for a layout that no options give,
    /// or what the fabric says.
    pub async fn open(
        endpoint: Rc<E>,
        table: RemoteAddr,
        layout: CuckooLayout,
        order: LookupOrder,
    ) -> Result<Self> {
        layout.check()?;
        let heap_buckets = layout.heap_buckets()?;
        let place = layout.map().heap_place(table);
        let longest = record_bytes(layout.key.most(), layout.value.most());
        let heap = match (layout.kind, heap_buckets) {
            (SlotKind::Word | SlotKind::Pair, _) | (_, Some(_)) => None,
            _ => Some(Heap::new(Rc::clone(&endpoint), place, longest)),
        };
        let uniform =
            heap_buckets.map(|of| UniformBlocks::new(Rc::clone(&endpoint), place, of.class));
        let opened = Self {
            first_bucket: layout.bucket_at(table, 0),
            bucket_bytes: layout.bucket_bytes(),
            slot_words: layout.slot_words(),
            words: layout.shape().words(layout.kind, layout.mask_seed),
            counts: Counts::new(table, layout.slots()),
            endpoint,
            layout,
            table,
            heap,
            uniform,
            heap_buckets,
            order,
            moves_seen: MovesSeen::default(),
            sealed: Cell::new(false),
            mark: Cell::new(0),
            writer: Cell::new(None),
            inherits: Cell::new(false),
            was_deposed: Cell::new(false),
            unsettled: Cell::new(false),
            locks: BucketLocks::default(),
            predetermines: false,
            graph: RefCell::new(None),
        };
        let reading = opened.read_moves();
        opened.endpoint.operation(UPKEEP, reading).await?;
        Ok(opened)
    }

    /// The table's layout.
    #[must_use]
    pub fn layout(&self) -> &CuckooLayout {
        &self.layout
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
    pub(super) fn checked_key<'k>(&self, bytes: &'k [u8]) -> Result<Key<'k>> {
        self.hashed_key(bytes, self.layout.hasher.hash(bytes))
    }

    /// A key with this hash, checked.
    #[inline]
    pub(super) fn hashed_key<'k>(&self, bytes: &'k [u8], hash: u64) -> Result<Key<'k>> {
        self.layout.shape().check_key(bytes)?;
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

    /// The blocks of a table of signatures.
    pub(super) fn uniform(&self) -> &UniformBlocks<E> {
        self.uniform
            .as_ref()
            .expect("tables of signatures have heap buckets")
    }

    /// What the heap buckets of a table of signatures are.
    pub(super) fn heap_buckets(&self) -> HeapBuckets {
        self.heap_buckets
            .expect("tables of signatures have heap buckets")
    }

    /// The address of a slot's first word, or of the word that a bucket's slots share.
    pub(super) fn slot_at(&self, place: CuckooSlot) -> RemoteAddr {
        if self.layout.kind == SlotKind::Signatures {
            return self.layout.bucket_at(self.table, place.bucket);
        }
        let within = place.slot * self.layout.slot_words() * 8;
        self.layout
            .bucket_at(self.table, place.bucket)
            .plus(within as u64)
    }

    /// Notes entries that came or went; tells the others when there is enough to tell. This cannot
    /// fail: the operation that is counted is done, and counts may lag.
    pub(super) async fn entries_changed(&self, change: i64) {
        // Used slots are as many as entries, but for what could not be told: no slot is ever dead.
        if self.counts.change(change, change) {
            let _ = self.report().await;
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
        self.counts.report_all(&*self.endpoint, heap).await
    }
}
