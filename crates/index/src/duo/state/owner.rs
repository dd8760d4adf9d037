//! The state that the threads of an owner share, and how they synchronize.
//!
//! **Bucket locks.** An operation that changes buckets first locks them ([`BucketLocks`]), whether
//! it competes with a coroutine of its own thread or with another thread. A path of moves locks all
//! of its buckets at once; paths through a locked bucket are skipped (`insert.rs`). Waiting
//! suspends the coroutine, never the thread. The index has a lock of its own, held for the few
//! instructions of one look or change and never across a verb. Anything an operation saw before it
//! locked a bucket, it checks again afterwards.
//!
//! **Lookups lock nothing.** In paper 001 a lookup locks the slot that it reads. Here each slot
//! tells whether it is whole and whose it is. A lookup that reads its key is answered as of the
//! moment of the READ. Any other lookup checks whether a concurrent write may be the reason, and
//! only then locks the key's buckets (`lookup.rs`).
//!
//! **Verbs of different endpoints are unordered.** Two rules follow. (a) Before an operation
//! unlocks what it changed, its last verb on anything that other threads rely on is an atomic, so
//! its writes are visible to all. (b) If verbs failed or were abandoned, the other threads wait
//! until those verbs can no longer take effect, which takes up to the verb timeout, before they
//! find out what happened (`settle.rs`). A thread's own later verbs are ordered behind its earlier
//! ones. Like a take-over, (b) relies on a verb taking effect within its timeout or never. A thread
//! that abandons an operation and is then descheduled for longer than that, before its verbs leave
//! the machine, breaks this assumption.

use super::doubts::Doubts;
use super::index::{SharedIndex, index_shape};
use super::journal::JournalSlots;
use super::versions::PageVersions;
use crate::Result;
use crate::client::Counts;
use crate::client::locks::BucketLocks;
use crate::duo::bytes::{DuoLayout, SlotNumber, VaultMap};
use crate::duo::placement::Placement;
use farslot_fabric::RemoteAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The owner of a CuckooDuo table, shared by the threads of a process that write it together. It
/// holds the index.
///
/// Each thread has its own [`DuoTable`](super::DuoTable) over its own endpoint. The table's
/// promises hold across all coroutines of all these threads. Other processes see one client: when
/// one thread becomes the owner ([`take_over`](super::DuoTable::take_over)) or resigns
/// ([`resign`](super::DuoTable::resign)), it does so for all.
///
/// A thread that ends, or drops an operation half-way, blocks nobody: its locks are released, and
/// the next operation of any thread resolves what it left in doubt. If that is another thread, it
/// first waits for up to the verb timeout ([`Limits::verb_timeout`](farslot_fabric::Limits)), and
/// all writers with it. A thread that neither polls nor drops a write blocks the others.
pub struct DuoOwner {
    pub(in super::super) layout: DuoLayout,
    pub(in super::super) table: RemoteAddr,
    /// Good while this client is the owner.
    pub(in super::super) index: SharedIndex,
    /// How often the vault or the index has changed. A lookup holds no bucket, and sees by this
    /// that what it went by is out of date.
    changes: AtomicU64,
    /// How often what the threads have of the heap was lost to another owner.
    pub(in super::super) heaps_lost: AtomicU64,
    pub(in super::super) locks: BucketLocks,
    pub(in super::super) journal: JournalSlots,
    pub(in super::super) doubts: Doubts,
    /// Where the index is published.
    pub(in super::super) versions: Option<PageVersions>,
    pub(in super::super) vault: VaultMap,
    pub(in super::super) counts: Counts,
    /// What this client writes into the owner's word; 0 until it has drawn one.
    pub(in super::super) mark: AtomicU64,
    /// Whether this client is the owner, and its index is that of the vault.
    pub(in super::super) owns: AtomicBool,
    /// Whether verbs of the owner that this client has taken over from may still be under way.
    pub(in super::super) unsettled: AtomicBool,
    /// The count by which a scan sees that records have moved.
    pub(in super::super) moves: AtomicU64,
    /// Threads that there were.
    pub(super) threads: AtomicU32,
    /// Whether there may be several.
    pub(in super::super) has_threads: bool,
}

impl DuoOwner {
    /// An owner, for threads to come, of the table that lies at `table`. This asks nothing of it
    /// yet: the client becomes the owner with its first operation, and makes its index then.
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
            heaps_lost: AtomicU64::new(0),
            locks: BucketLocks::default(),
            journal: JournalSlots::new(&layout),
            doubts: Doubts::default(),
            versions: layout.published.then(|| PageVersions::new(&layout)),
            vault: VaultMap::new(table, &layout),
            counts: Counts::new(table, layout.slots()),
            mark: AtomicU64::new(0),
            owns: AtomicBool::new(false),
            unsettled: AtomicBool::new(false),
            moves: AtomicU64::new(0),
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

    /// How often anything has changed. To be compared with what it is later, after a look at what
    /// is held and in doubt: who changes something counts it before it releases anything.
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

    /// Has every thread forget the heap memory that it holds: another owner may have found that no
    /// slot names it, and use it.
    pub(in super::super) fn forget_heap(&self) {
        self.heaps_lost.fetch_add(1, Ordering::AcqRel);
    }

    /// Forgets all that was known of the vault: as if it were new. Called by who is alone, and not
    /// the owner.
    pub(in super::super) fn forget(&self) {
        debug_assert!(!self.owns.load(Ordering::Relaxed));
        let empty = Placement::new(index_shape(&self.layout));
        self.change_index(|index| *index = empty);
        self.vault.forget();
        self.counts.set_slots(self.layout.slots());
    }
}
