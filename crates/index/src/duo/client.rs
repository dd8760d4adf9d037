//! What a client keeps of a CuckooDuo table.

use super::doubts::Doubts;
use super::growth::{Growth, Vault};
use super::journal::Journal;
use super::layout::{DuoLayout, live_head};
use super::placement::{Placement, SlotNumber};
use super::publish::Stamps;
use crate::Result;
use crate::client::Counts;
use crate::client::locks::{BucketLocks, Held};
use crate::heap::Heap;
use crate::slot::bad_option;
use farslot_fabric::{Endpoint, RemoteAddr};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A CuckooDuo table as one thread's coroutines see it.
pub struct DuoTable<E> {
    pub(super) endpoint: Rc<E>,
    pub(super) layout: DuoLayout,
    pub(super) table: RemoteAddr,
    /// Good while this client is the owner.
    pub(super) index: RefCell<Placement>,
    /// How often the index has changed. A lookup holds no bucket, and sees by this that what it went
    /// by is out of date.
    pub(super) changes: Cell<u64>,
    pub(super) locks: BucketLocks,
    pub(super) journal: Journal,
    pub(super) doubts: Doubts,
    /// If the records are there.
    pub(super) heap: Option<Heap<E>>,
    /// Where the index is published.
    pub(super) stamps: Option<Stamps>,
    pub(super) vault: Vault,
    pub(super) growth: Option<Growth>,
    /// What this client writes into the owner's word; 0 until it has drawn one.
    pub(super) mark: Cell<u64>,
    /// Whether this client is the owner, and its index is that of the vault.
    pub(super) owns: Cell<bool>,
    /// Whether verbs of the owner that this client has taken over from may still be under way.
    pub(super) unsettled: Cell<bool>,
    pub(super) unverified_updates: bool,
    pub(super) counts: Counts,
    pub(super) work: Cell<Work>,
}

/// What a client has done besides what it was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// Records that its insertions have moved to another slot.
    pub moved: u64,
    /// Keys that entered by a backup fingerprint, or made another key stand by one.
    pub adjusted: u64,
    /// Copies of records that it has removed: of moves and of splits that were cut short, its own or those of
    /// an owner before it.
    pub copies_removed: u64,
    /// Keys that it has moved from the stash back to a bucket.
    pub brought_back: u64,
    /// Updates that it has finished which were cut short.
    pub updates_finished: u64,
    /// Buckets that it has split, as the table grew.
    pub buckets_split: u64,
}

/// A key, checked and hashed.
pub(super) struct Key<'k> {
    pub(super) bytes: &'k [u8],
    pub(super) hash: u64,
    /// Its buckets, numbered through both arrays: they change when a bucket is split, if nobody holds them.
    pub(super) buckets: Cell<[u64; 2]>,
}

impl Key<'_> {
    /// The head of its slot.
    pub(super) const fn head(&self) -> u64 {
        live_head(self.hash)
    }
}

impl<E: Endpoint> DuoTable<E> {
    /// Opens the table that lies at `table`. This asks nothing of it yet: the client becomes the owner
    /// with its first operation, and makes its index then.
    ///
    /// # Errors
    /// [`IndexError::BadOption`](crate::IndexError::BadOption) for a layout that no options give.
    pub fn open(endpoint: Rc<E>, table: RemoteAddr, layout: DuoLayout) -> Result<Self> {
        layout.check()?;
        Ok(Self {
            index: RefCell::new(Placement::new(layout.index_shape())),
            counts: Counts::new(table, layout.slots()),
            journal: Journal::new(&layout),
            heap: layout
                .has_heap()
                .then(|| Heap::new(Rc::clone(&endpoint), layout.heap_place(table))),
            stamps: layout.published.then(|| Stamps::new(&layout)),
            vault: Vault::new(table, &layout),
            growth: (layout.reserve_bytes > 0).then_some(Growth::IN_RESERVE),
            endpoint,
            layout,
            table,
            changes: Cell::new(0),
            locks: BucketLocks::default(),
            doubts: Doubts::default(),
            mark: Cell::new(0),
            owns: Cell::new(false),
            unsettled: Cell::new(false),
            unverified_updates: false,
            work: Cell::default(),
        })
    }

    /// Lets `update` replace a record without reading it first: one round trip for two. It then goes by
    /// the fingerprint alone: an update of a key that is *absent* overwrites the record of another key
    /// with probability 2d/2^32, 4 in 10^9 with 8 slots a bucket, and says that it
    /// has updated. Updates of keys that are present are always right.
    ///
    /// # Errors
    /// [`IndexError::BadOption`](crate::IndexError::BadOption) for fingerprints of fewer than 32 bits, or
    /// records in a heap.
    pub fn with_unverified_updates(mut self) -> Result<Self> {
        if self.layout.has_heap() {
            let limit = "only where records are in the slots";
            return Err(bad_option("unverified updates", "Heap", limit));
        }
        let bits = self.layout.fingerprint_bits;
        if bits < 32 {
            let limit = "only with fingerprints of 32 bits";
            return Err(bad_option(
                "unverified updates",
                format!("f = {bits}"),
                limit,
            ));
        }
        self.unverified_updates = true;
        Ok(self)
    }

    /// The table's layout.
    #[must_use]
    pub const fn layout(&self) -> &DuoLayout {
        &self.layout
    }

    /// The endpoint that the table is reached by.
    #[must_use]
    pub const fn endpoint(&self) -> &Rc<E> {
        &self.endpoint
    }

    /// Whether this client is the owner, as far as it knows.
    #[must_use]
    pub const fn is_owner(&self) -> bool {
        self.owns.get()
    }

    /// Keys in the stash, as this client's index has them.
    #[must_use]
    pub fn stashed(&self) -> usize {
        self.index.borrow().stashed()
    }

    /// What this client has done besides what it was asked for.
    #[must_use]
    pub const fn work(&self) -> Work {
        self.work.get()
    }

    /// Notes such work.
    pub(super) fn worked(&self, note: impl FnOnce(&mut Work)) {
        let mut work = self.work.get();
        note(&mut work);
        self.work.set(work);
    }

    #[inline]
    pub(super) fn key<'k>(&self, bytes: &'k [u8]) -> Result<Key<'k>> {
        self.layout.shape().check_key(bytes)?;
        let hash = self.layout.hash_of(bytes);
        Ok(Key {
            bytes,
            hash,
            buckets: Cell::new(self.buckets_now(hash)),
        })
    }

    /// The buckets of a key with this hash, as things stand.
    #[inline]
    fn buckets_now(&self, hash: u64) -> [u64; 2] {
        let index = self.index.borrow();
        index.buckets_of(&index.candidates(hash))
    }

    /// Holds a key's buckets as the owner, with nothing in doubt.
    pub(super) async fn hold(&self, key: &Key<'_>) -> Result<Held<'_>> {
        loop {
            key.buckets.set(self.buckets_now(key.hash));
            let held = self.locks.take(&key.buckets.get()).await;
            if self.is_settled() && key.buckets.get() == self.buckets_now(key.hash) {
                return Ok(held);
            }
            let settled = self.is_settled();
            drop(held);
            if !settled {
                drop(self.hold_alone().await?);
            }
        }
    }

    /// Is the owner, with nothing in doubt and nobody else holding anything.
    pub(super) async fn hold_alone(&self) -> Result<Held<'_>> {
        let alone = self.locks.take_alone(&[]).await;
        self.become_owner().await?;
        self.settle_doubts().await?;
        Ok(alone)
    }

    /// Takes a key's buckets, as things stand, which nobody else can hold.
    pub(super) fn add_buckets(&self, key: &Key<'_>, held: &Held<'_>) {
        key.buckets.set(self.buckets_now(key.hash));
        for bucket in key.buckets.get() {
            held.try_add(bucket);
        }
    }

    /// Whether the index is that of the vault, but for what is under way.
    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        self.owns.get() && self.doubts.is_empty()
    }

    /// Changes the index.
    pub(super) fn change_index<R>(&self, change: impl FnOnce(&mut Placement) -> R) -> R {
        self.changes.set(self.changes.get().wrapping_add(1));
        change(&mut self.index.borrow_mut())
    }

    /// Where a slot is.
    #[inline]
    pub(super) fn slot_at(&self, slot: SlotNumber) -> RemoteAddr {
        self.vault.slot_at(&self.layout, slot)
    }

    /// Forgets all that was known of the vault: as if it were new.
    pub(super) fn forget(&self) {
        let empty = Placement::new(self.layout.index_shape());
        self.change_index(|index| *index = empty);
        self.vault.forget();
        self.counts.set_slots(self.layout.slots());
    }

    /// Notes entries that came or went; tells the table when there is enough to tell. This cannot fail:
    /// the operation that is counted is done, and counts may lag.
    pub(super) async fn entries_changed(&self, change: i64) {
        if self.counts.change(change, change) {
            let _ = self.report().await;
        }
    }

    /// Adds this client's share to the counts in the table.
    pub(super) async fn report(&self) -> Result<()> {
        self.counts.report(&*self.endpoint).await
    }
}
