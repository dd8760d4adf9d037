//! What the threads of an owner share, and how they keep out of each other's way.
//!
//! **One mechanism for coroutines and threads.** Whatever changes the vault holds the buckets that it changes
//! ([`BucketLocks`]), be it a coroutine of the same thread or of another: a path of moves all at once, and one that
//! meets a bucket which is held is gone round (`insert.rs`). Who waits, waits as a coroutine: no thread blocks. The
//! index is behind a lock of its own for the few instructions of a look or of a change; no
//! verb runs meanwhile, and nobody takes another bucket's word for anything that it saw before it held the bucket.
//!
//! **Lookups hold nothing.** Paper 001 has a lookup lock the slot that it reads. Here its slot says
//! whether it is whole and whose: one that reads its key has its answer, at the moment of the READ. One that
//! does not, asks whether anything that was written meanwhile may be the reason, and only then holds the
//! key's buckets (`lookup.rs`).
//!
//! **Verbs of several endpoints are in no order**, as those of one are. So (a) who releases what it has changed
//! lets an atomic be the last verb on what others go by: what was written is then visible to all; and (b) of verbs
//! that failed or were given up, the other threads wait until they cannot take effect any more, as long as a verb
//! may take, before they find out what became of them (`doubts.rs`). A thread's own later verbs are behind them
//! anyway. As a take-over does, (b) trusts that a verb takes effect within its timeout or never: a thread that gives up an
//! operation, and is not run by its machine for so long before its verbs leave, is beyond what is promised.

use super::doubts::Doubts;
use super::index::{SharedIndex, index_shape};
use super::journal::Journal;
use super::stamps::Stamps;
use crate::Result;
use crate::client::Counts;
use crate::client::locks::BucketLocks;
use crate::duo::bytes::{DuoLayout, SlotNumber, Vault};
use crate::duo::placement::Placement;
use farslot_fabric::RemoteAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The owner of a CuckooDuo table, for the threads of a process that use the table together: it has the index.
///
/// Each thread has a [`DuoTable`](super::DuoTable) of it, over an endpoint of its own. Every promise of the table holds for all
/// coroutines of all of these threads. To everybody else they are one client: what one of them does to become the owner
/// ([`DuoTable::take_over`](super::DuoTable::take_over)), or to stop being it ([`DuoTable::resign`](super::DuoTable::resign)), it does for all.
///
/// A thread that ends, or drops what it was in the middle of, keeps nobody waiting: what it held is released, and what it
/// leaves in doubt is found out by whichever comes next. If that is another thread, it waits for
/// as long as a verb of the one that is gone may take ([`Limits::verb_timeout`](farslot_fabric::Limits)), and
/// all writers with it. A thread that keeps a write unpolled for ever does keep others waiting.
pub struct DuoOwner {
    pub(in super::super) layout: DuoLayout,
    pub(in super::super) table: RemoteAddr,
    /// Good while this client is the owner.
    pub(in super::super) index: SharedIndex,
    /// How often the vault or the index has changed. A lookup holds no bucket, and sees by this that what it
    /// went by is out of date.
    changes: AtomicU64,
    pub(in super::super) locks: BucketLocks,
    pub(in super::super) journal: Journal,
    pub(in super::super) doubts: Doubts,
    /// Where the index is published.
    pub(in super::super) stamps: Option<Stamps>,
    pub(in super::super) vault: Vault,
    pub(in super::super) counts: Counts,
    /// What this client writes into the owner's word; 0 until it has drawn one.
    pub(in super::super) mark: AtomicU64,
    /// Whether this client is the owner, and its index is that of the vault.
    pub(in super::super) owns: AtomicBool,
    /// Whether verbs of the owner that this client has taken over from may still be under way.
    pub(in super::super) unsettled: AtomicBool,
    /// Threads that there were.
    pub(super) threads: AtomicU32,
    /// Whether there may be several.
    pub(in super::super) has_threads: bool,
}

impl DuoOwner {
    /// An owner, for threads to come, of the table that lies at `table`. This asks nothing of it yet: the client
    /// becomes the owner with its first operation, and makes its index then.
    ///
    /// # Errors
    /// [`IndexError::BadOption`](crate::IndexError::BadOption) for a layout that no options give.
    pub fn new(table: RemoteAddr, layout: DuoLayout) -> Result<Arc<Self>> {
        Self::of_threads(table, layout, true)
    }

    /// An owner of one thread, or of more.
    pub(in super::super) fn of_threads(
        table: RemoteAddr,
        layout: DuoLayout,
        has_threads: bool,
    ) -> Result<Arc<Self>> {
        layout.check()?;
        Ok(Arc::new(Self {
            index: SharedIndex::new(Placement::new(index_shape(&layout))),
            changes: AtomicU64::new(0),
            locks: BucketLocks::default(),
            journal: Journal::new(&layout),
            doubts: Doubts::default(),
            stamps: layout.published.then(|| Stamps::new(&layout)),
            vault: Vault::new(table, &layout),
            counts: Counts::new(table, layout.slots()),
            mark: AtomicU64::new(0),
            owns: AtomicBool::new(false),
            unsettled: AtomicBool::new(false),
            threads: AtomicU32::new(0),
            has_threads,
            layout,
            table,
        }))
    }

    /// The table's layout.
    #[must_use]
    pub const fn layout(&self) -> &DuoLayout {
        &self.layout
    }

    /// Whether this client is the owner, as far as it knows.
    #[must_use]
    pub fn is_owner(&self) -> bool {
        self.owns.load(Ordering::Acquire)
    }

    /// Keys in the stash, as this client's index has them.
    #[must_use]
    pub fn stashed(&self) -> usize {
        self.index.borrow().stashed()
    }

    /// Whether the index is that of the vault, but for what is under way.
    #[inline]
    pub(in super::super) fn is_settled(&self) -> bool {
        self.owns.load(Ordering::Acquire) && self.doubts.is_empty()
    }

    /// How often anything has changed. To be compared with what it is later, after a look at what is held and in
    /// doubt: who changes something counts it before it releases anything.
    #[inline]
    pub(in super::super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Notes that the vault has changed.
    pub(in super::super) fn note_change(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// Changes the index.
    pub(in super::super) fn change_index<R>(&self, change: impl FnOnce(&mut Placement) -> R) -> R {
        self.index.change(|index| {
            self.note_change();
            change(index)
        })
    }

    /// Where a slot is.
    #[inline]
    pub(in super::super) fn slot_at(&self, slot: SlotNumber) -> RemoteAddr {
        self.vault.slot_at(&self.layout, slot)
    }

    /// Forgets all that was known of the vault: as if it were new. Called by who is alone, and not the owner.
    pub(in super::super) fn forget(&self) {
        debug_assert!(!self.owns.load(Ordering::Relaxed));
        let empty = Placement::new(index_shape(&self.layout));
        self.change_index(|index| *index = empty);
        self.vault.forget();
        self.counts.set_slots(self.layout.slots());
    }
}
