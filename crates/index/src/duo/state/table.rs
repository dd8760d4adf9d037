//! What a thread of a client keeps of a CuckooDuo table.

use super::growth::GrowthPolicy;
use super::owner::DuoOwner;
use crate::Result;
use crate::duo::bytes::{DuoLayout, live_head};
use crate::heap::{Heap, record_bytes};
use farslot_fabric::{Endpoint, RemoteAddr};
use std::cell::Cell;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A CuckooDuo table as one thread's coroutines see it: the [owner](DuoOwner), whether or not it
/// has other threads, and an endpoint.
pub struct DuoTable<E> {
    pub(in super::super) endpoint: Rc<E>,
    owner: Arc<DuoOwner>,
    /// Which of the owner's threads this is.
    pub(in super::super) thread: u32,
    /// If the records are there.
    pub(in super::super) heap: Option<Heap<E>>,
    /// As many of the owner's as this thread's heap knows of.
    pub(in super::super) heaps_lost_seen: Cell<u64>,
    pub(in super::super) growth: Option<GrowthPolicy>,
    work: Cell<DuoWork>,
}

impl<E> Deref for DuoTable<E> {
    type Target = DuoOwner;

    #[inline]
    fn deref(&self) -> &DuoOwner {
        &self.owner
    }
}

/// What a thread of a client has done besides what it was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DuoWork {
    /// Records that its insertions have moved to another slot.
    pub moved: u64,
    /// Keys that entered by a backup fingerprint, or made another key stand by one.
    pub adjusted: u64,
    /// Copies of records that it has removed: of moves and of splits that were cut short, its own
    /// or those of an owner before it.
    pub copies_removed: u64,
    /// Keys that it has moved from the stash back to a bucket.
    pub brought_back: u64,
    /// Updates that it has finished which were cut short.
    pub updates_finished: u64,
    /// Buckets that it has split, as the table grew.
    pub buckets_split: u64,
}

/// A key, checked and hashed.
pub(crate) struct Key<'k> {
    pub(in super::super) bytes: &'k [u8],
    pub(in super::super) hash: u64,
    /// Its buckets, numbered through both arrays, as they were when the index was last asked: they
    /// change when a bucket is split, if nobody holds them.
    pub(in super::super) buckets: Cell<[u64; 2]>,
}

impl Key<'_> {
    /// The head of its slot.
    pub(in super::super) const fn head(&self) -> u64 {
        live_head(self.hash)
    }
}

impl DuoOwner {
    /// The table for one thread, over an endpoint that no other thread uses.
    #[must_use]
    pub fn table<E: Endpoint>(self: &Arc<Self>, endpoint: Rc<E>) -> DuoTable<E> {
        let thread = self.threads.fetch_add(1, Ordering::Relaxed);
        DuoTable::of(Arc::clone(self), endpoint, thread)
    }
}

impl<E: Endpoint> DuoTable<E> {
    /// Opens the table that lies at `table`, for an owner of this thread alone; [`DuoOwner`] is for
    /// several. This asks nothing of it yet: the client becomes the owner with its first operation,
    /// and makes its index then.
    ///
    /// # Errors
    /// [`IndexError::BadOption`](crate::IndexError::BadOption) for a layout that no options give.
    pub fn open(endpoint: Rc<E>, table: RemoteAddr, layout: DuoLayout) -> Result<Self> {
        Ok(DuoOwner::of_threads(table, layout, false)?.table(endpoint))
    }

    /// The table of one of the owner's threads.
    fn of(owner: Arc<DuoOwner>, endpoint: Rc<E>, thread: u32) -> Self {
        let place = owner.layout.heap_place(owner.table);
        let layout = &owner.layout;
        let longest = record_bytes(layout.key.most(), layout.value.most());
        let heap = || Heap::new(Rc::clone(&endpoint), place, longest);
        Self {
            growth: (owner.layout.reserve_bytes > 0).then_some(GrowthPolicy::IN_RESERVE),
            heap: owner.layout.has_heap().then(heap),
            endpoint,
            heaps_lost_seen: Cell::new(owner.heaps_lost.load(Ordering::Acquire)),
            owner,
            thread,
            work: Cell::default(),
        }
    }

    /// The endpoint that the table is reached by.
    #[must_use]
    pub const fn endpoint(&self) -> &Rc<E> {
        &self.endpoint
    }

    /// What this thread has done besides what it was asked for.
    #[must_use]
    pub const fn work(&self) -> DuoWork {
        self.work.get()
    }

    /// Notes such work.
    pub(in super::super) fn worked(&self, note: impl FnOnce(&mut DuoWork)) {
        let mut work = self.work.get();
        note(&mut work);
        self.work.set(work);
    }

    #[inline]
    pub(in super::super) fn key<'k>(&self, bytes: &'k [u8]) -> Result<Key<'k>> {
        self.layout.shape().check_key(bytes)?;
        Ok(Key {
            bytes,
            hash: self.layout.hash_of(bytes),
            buckets: Cell::default(),
        })
    }

    /// Whether this thread has so much to report that it is to do so.
    #[inline]
    pub(in super::super) fn has_to_report(&self) -> bool {
        self.counts.has_to_report(self.heap.as_ref())
    }

    /// Adds this client's share to the counts in the table, and tells of what died.
    pub(in super::super) async fn report(&self) -> Result<()> {
        let heap = self.heap.as_ref();
        self.counts.report_all(&*self.endpoint, heap).await
    }
}
