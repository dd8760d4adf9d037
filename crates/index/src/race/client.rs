//! What a client keeps of a RACE table: the layout, the directory, and its share of the heap.

use super::buckets::Buckets;
use super::directory::{RaceDirectory, SubtableLeaf, SubtableSplit};
use super::layout::RaceLayout;
use super::word::Word;
use crate::client::Counts;
use crate::client::locks::BucketLocks;
use crate::heap::Heap;
use crate::{IndexError, Result, UPKEEP};
use farslot_fabric::{Change, Endpoint, EndpointExt, Piece, RemoteAddr};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// A RACE table as one thread's coroutines see it.
pub struct RaceTable<E> {
    pub(super) endpoint: Rc<E>,
    pub(super) layout: RaceLayout,
    pub(super) table: RemoteAddr,
    /// Where the first subtable begins, and the bytes from there to the next.
    subtables_at: RemoteAddr,
    pub(super) subtable_bytes: u64,
    pub(super) directory: RefCell<RaceDirectory>,
    pub(super) heap: Heap<E>,
    pub(super) counts: Counts,
    /// Held by the coroutine that splits a subtable, so that the others do not do the same.
    pub(super) splitting: BucketLocks,
    /// Splits that this client has begun, each with the first slot that it has not come to.
    pub(super) to_finish: RefCell<VecDeque<(SubtableSplit, u64)>>,
    pub(super) work: Cell<RaceWork>,
}

/// What a client has done besides what it was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RaceWork {
    /// Subtables that it has split.
    pub splits: u64,
    /// Records that it has moved to another subtable.
    pub moved: u64,
    /// Slots that it has migrated to a subtable's next depth because an operation met them
    /// before the client that splits the subtable had come to them.
    pub helped: u64,
    /// Times that an insertion of its own has made way for another of the same key.
    pub yielded: u64,
    /// Insertions begun by others that it has undone: of clients that had died, or of slow ones,
    /// which then begin again.
    pub undone: u64,
}

/// Entries of the directory that one READ fetches.
const ENTRIES_READ: u64 = 64;

/// A key, checked and hashed.
pub(crate) struct Key<'k> {
    pub(super) bytes: &'k [u8],
    /// Where its slot's word tells it from others.
    pub(super) tag: u8,
    /// Which subtable it belongs to.
    pub(super) route: u64,
    pub(super) buckets: Buckets,
}

impl Key<'_> {
    /// Whether a slot with this word can be its own.
    #[inline]
    pub(super) fn may_stand_at(&self, slot: u64, word: Word) -> bool {
        self.tag == word.tag() && self.buckets.contain(slot)
    }
}

impl<E: Endpoint> RaceTable<E> {
    /// Opens the table that lies at `table`, and reads its directory.
    ///
    /// # Errors
    /// [`IndexError::BadOption`] for a layout that no options give, [`IndexError::BadDirectory`],
    /// or what the fabric says.
    pub async fn open(endpoint: Rc<E>, table: RemoteAddr, layout: RaceLayout) -> Result<Self> {
        layout.check()?;
        let opened = Self {
            directory: RefCell::new(RaceDirectory::new(layout.roots, layout.most_depth())),
            heap: layout.heap(Rc::clone(&endpoint), table),
            counts: Counts::new(table, layout.most_slots()),
            splitting: BucketLocks::default(),
            to_finish: RefCell::default(),
            work: Cell::default(),
            endpoint,
            subtables_at: layout.subtables_at(table),
            subtable_bytes: layout.subtable_stride() * 8,
            layout,
            table,
        };
        let reading = opened.read_directory();
        opened.endpoint.operation(UPKEEP, reading).await?;
        Ok(opened)
    }

    /// The same client, by whose clock in milliseconds records end whose values begin with the
    /// moment: where room is needed, they go first. The layout is one of records that end.
    #[must_use]
    pub fn with_clock(mut self, now: impl Fn() -> u64 + 'static) -> Self {
        self.heap.set_clock(now);
        self
    }

    /// The table's layout.
    #[must_use]
    pub const fn layout(&self) -> &RaceLayout {
        &self.layout
    }

    /// The endpoint that the table is reached by.
    #[must_use]
    pub const fn endpoint(&self) -> &Rc<E> {
        &self.endpoint
    }

    /// Subtables, as far as this client knows.
    #[must_use]
    pub fn subtables(&self) -> u64 {
        self.directory.borrow().subtables()
    }

    /// What this client has done besides what it was asked for.
    #[must_use]
    pub const fn work(&self) -> RaceWork {
        self.work.get()
    }

    /// Notes such work.
    pub(super) fn worked(&self, note: impl FnOnce(&mut RaceWork)) {
        let mut work = self.work.get();
        note(&mut work);
        self.work.set(work);
    }

    #[inline]
    pub(super) fn checked_key<'k>(&self, bytes: &'k [u8]) -> Result<Key<'k>> {
        self.layout.shape().check_key(bytes)?;
        let hash = self.layout.hasher.hash(bytes);
        Ok(Key {
            bytes,
            // The first bucket comes from the hash's high bits.
            tag: hash as u8,
            route: self.layout.route_of(hash),
            buckets: self.layout.buckets_of(hash),
        })
    }

    /// The subtable of a key, as far as this client knows.
    #[inline]
    pub(super) fn leaf_of(&self, key: &Key<'_>) -> SubtableLeaf {
        self.directory.borrow().leaf_of(key.route)
    }

    /// Where a slot of a subtable is.
    #[inline]
    pub(super) fn slot_at(&self, subtable: u64, slot: u64) -> RemoteAddr {
        let offset = subtable * self.subtable_bytes + slot * 8;
        self.subtables_at.plus(offset)
    }

    /// So many slots of a subtable, from the first on.
    #[inline]
    pub(super) fn piece_of(&self, subtable: u64, first: u64, slots: u64) -> Piece {
        Piece {
            from: self.slot_at(subtable, first),
            len: slots as usize * 8,
        }
    }

    /// A slot's number within the table, for errors.
    pub(super) fn number_of(&self, subtable: u64, slot: u64) -> u64 {
        subtable * self.layout.subtable_slots() + slot
    }

    /// Replaces the word of a slot if it is the one expected; returns what it was.
    pub(super) async fn swap(
        &self,
        subtable: u64,
        slot: u64,
        expected: Word,
        new: Word,
    ) -> Result<Word> {
        let at = self.slot_at(subtable, slot);
        let swap = (at, expected.0, new.0);
        Ok(Word(self.endpoint.change(Change::swap(swap)).await?))
    }

    /// Reads the splits that this client does not know yet.
    pub(super) async fn read_directory(&self) -> Result<()> {
        loop {
            let first = self.directory.borrow().splits();
            let entries = ENTRIES_READ.min(self.layout.most_splits() - first);
            if entries == 0 {
                return Ok(());
            }
            let at = self.layout.split_at(self.table, first);
            let read = self.endpoint.read(at, entries as usize * 8).await?;
            // A word that is not there yet may stand before one that is: they were not read at
            // once.
            let written = read.words().iter().take_while(|entry| **entry != 0);
            let mut directory = self.directory.borrow_mut();
            for (entry, word) in (first..).zip(written) {
                // Another coroutine may have been faster.
                if entry == directory.splits() && !directory.append(*word) {
                    let word = *word;
                    return Err(IndexError::BadDirectory { entry, word });
                }
            }
            if directory.splits() < first + entries {
                return Ok(());
            }
        }
    }

    /// Reads the directory on: a slot of the subtable has been seen to be of that depth.
    ///
    /// # Errors
    /// [`IndexError::Unreadable`] where no split explains it: each is in the directory before any
    /// slot is touched.
    pub(super) async fn catch_up(&self, subtable: u64, slot: u64, depth: u32) -> Result<()> {
        self.read_directory().await?;
        if self.directory.borrow().leaf(subtable).depth >= depth {
            return Ok(());
        }
        Err(IndexError::Unreadable {
            slot: self.number_of(subtable, slot),
            attempts: 1,
        })
    }

    /// Whether this client has so much to report that it is to do so.
    #[inline]
    pub(super) fn has_to_report(&self) -> bool {
        self.counts.has_to_report(Some(&self.heap))
    }

    /// Adds this client's share to the counts that all see, and tells of what died.
    pub(super) async fn report_changes(&self) -> Result<()> {
        let heap = Some(&self.heap);
        self.counts.report_all(&*self.endpoint, heap).await
    }
}
