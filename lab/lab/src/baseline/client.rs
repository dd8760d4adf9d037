//! What the one client of a table keeps, and how it reads and writes slots.

use super::counts::Counts;
use super::homes::{BucketWindow, Homes};
use super::layout::BaselineLayout;
use super::slots::{Slot, SlotWrite, is_free};
use super::waiting::{MOST_READS, pause};
use farslot::fabric::{Buffer, Endpoint, EndpointExt, RemoteAddr, all_in_order};
use farslot::index::internals::locks::{BucketLocks, Held};
use farslot::index::{IndexError, Result};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

/// A table for comparison as the coroutines of its one client see it.
pub struct BaselineTable<E, P> {
    pub(super) endpoint: Rc<E>,
    pub(super) layout: Cell<BaselineLayout>,
    /// Where it lies: it moves when it grows.
    pub(super) place: Cell<RemoteAddr>,
    pub(super) placing: P,
    pub(super) locks: BucketLocks,
    /// Writes that may have taken effect or not, and are to.
    unfinished: RefCell<Vec<SlotWrite>>,
    /// How often anything has changed: the slots, the stash, or where the table lies. Who sees the
    /// same number twice has missed nothing.
    changes: Cell<u64>,
    /// Keys that found no slot, with their values.
    pub(super) stash: RefCell<ClientStash>,
    /// Those of the memory that it lies in now.
    pub(super) counts: RefCell<Rc<Counts>>,
    pub(super) work: Cell<InsertionWork>,
}

/// What a client has done besides what it was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct InsertionWork {
    /// Insertions that had to make room.
    pub plans: u64,
    /// Records that they have moved to another bucket.
    pub moved: u64,
    /// Keys that found no slot and went into the stash.
    pub stashed: u64,
}

/// Keys and their values.
pub(super) type ClientStash = HashMap<Box<[u8]>, Box<[u8]>>;

/// A key, checked and hashed.
pub(super) struct Key<'k> {
    pub(super) bytes: &'k [u8],
    pub(super) hash: u64,
}

impl<E: Endpoint, P: Homes> BaselineTable<E, P> {
    /// Takes the memory at `place`, which must be all zeros, for a new table of this design.
    pub(super) fn new(
        endpoint: Rc<E>,
        place: RemoteAddr,
        layout: BaselineLayout,
        placing: P,
    ) -> Self {
        Self {
            counts: RefCell::new(Rc::new(Counts::new(place, layout.slots()))),
            endpoint,
            layout: Cell::new(layout),
            place: Cell::new(place),
            placing,
            locks: BucketLocks::default(),
            unfinished: RefCell::default(),
            changes: Cell::new(0),
            stash: RefCell::default(),
            work: Cell::default(),
        }
    }

    /// The table's layout.
    #[must_use]
    pub fn layout(&self) -> BaselineLayout {
        self.layout.get()
    }

    /// The endpoint that the table is reached by.
    #[must_use]
    pub const fn endpoint(&self) -> &Rc<E> {
        &self.endpoint
    }

    /// The design, with its state.
    #[must_use]
    pub const fn design(&self) -> &P {
        &self.placing
    }

    /// Keys in the stash.
    #[must_use]
    pub fn stashed(&self) -> usize {
        self.stash.borrow().len()
    }

    /// What this client has done besides what it was asked for.
    #[must_use]
    pub const fn work(&self) -> InsertionWork {
        self.work.get()
    }

    pub(super) fn worked(&self, note: impl FnOnce(&mut InsertionWork)) {
        let mut work = self.work.get();
        note(&mut work);
        self.work.set(work);
    }

    pub(super) fn key<'k>(&self, bytes: &'k [u8]) -> Result<Key<'k>> {
        let layout = self.layout();
        layout.format.check_key(bytes)?;
        Ok(Key {
            bytes,
            hash: layout.hasher.hash(bytes),
        })
    }

    /// Holds the buckets that a key may be in, with nothing unfinished.
    pub(super) async fn hold(&self, key: &Key<'_>) -> Result<(Held<'_>, Option<BucketWindow>)> {
        loop {
            let window = self.placing.window(key.hash);
            let held = self.locks.take(&buckets(window)).await;
            if !self.unfinished.borrow().is_empty() {
                drop(held);
                self.finish(&self.locks.take_alone(&[]).await).await?;
            } else if self.placing.window(key.hash) == window {
                return Ok((held, window));
            }
        }
    }

    /// The buckets of a window that are to be cleaned.
    pub(super) fn unclean(&self, window: Option<BucketWindow>) -> Vec<u64> {
        let mut buckets = buckets(window);
        buckets.retain(|bucket| self.placing.unclean_with(*bucket).is_some());
        buckets
    }

    /// Holds everything, with nothing unfinished.
    pub(super) async fn hold_alone(&self) -> Result<Held<'_>> {
        let alone = self.locks.take_alone(&[]).await;
        self.finish(&alone).await?;
        Ok(alone)
    }

    /// Reads a window, all of its records whole.
    pub(super) async fn read_window(&self, window: BucketWindow) -> Result<Buffer> {
        for attempt in 0..MOST_READS {
            let bytes = self.read_once(window).await?;
            if !self.is_torn(&bytes) {
                return Ok(bytes);
            }
            pause(&*self.endpoint, attempt).await;
        }
        Err(IndexError::Unreadable {
            slot: window.first * u64::from(self.layout().bucket_slots),
            attempts: MOST_READS,
        })
    }

    async fn read_once(&self, window: BucketWindow) -> Result<Buffer> {
        let layout = self.layout();
        let at = layout.bucket_at(self.place.get(), window.first);
        let len = window.count as usize * layout.bucket_bytes();
        Ok(self.endpoint.read(at, len).await?)
    }

    fn is_torn(&self, window: &Buffer) -> bool {
        let layout = self.layout();
        let mut slots = window.chunks_exact(layout.slot_bytes());
        slots.any(|slot| matches!(layout.format.decode(slot), Slot::Torn))
    }

    /// Reads a window and looks for a key there: the bytes, and as [`Self::find_in`].
    pub(super) async fn look(
        &self,
        window: BucketWindow,
        key: &Key<'_>,
    ) -> Result<(Buffer, WindowHit)> {
        let bytes = self.read_once(window).await?;
        if let Some(found) = self.find_in(&bytes, key) {
            return Ok((bytes, Some(found)));
        }
        // Absent, if all that is there can be read.
        if !self.is_torn(&bytes) {
            return Ok((bytes, None));
        }
        let bytes = self.read_window(window).await?;
        let found = self.find_in(&bytes, key);
        Ok((bytes, found))
    }

    /// The slot of a key in a window that was read, counted from the window's start, and where in
    /// the window its value is.
    fn find_in(&self, window: &Buffer, key: &Key<'_>) -> WindowHit {
        let layout = self.layout();
        let slots = (0..).zip(window.chunks_exact(layout.slot_bytes()));
        slots
            .filter(|(_, bytes)| !is_free(bytes))
            .find_map(|(slot, bytes)| match layout.format.decode(bytes) {
                Slot::Record(record) if record.key == key.bytes => {
                    let start = slot as usize * layout.slot_bytes() + record.value_at;
                    Some((slot, start..start + record.value.len()))
                }
                _ => None,
            })
    }

    /// Writes slots, in one batch. What the last write does is what was asked for; those before it
    /// change nothing that anybody can see, and are finished by whoever comes next if this fails or
    /// is dropped.
    pub(super) async fn write_slots(&self, writes: Vec<SlotWrite>) -> Result<()> {
        if writes.is_empty() {
            return Ok(());
        }
        self.changed();
        let mut writing = UnfinishedWrites {
            unfinished: &self.unfinished,
            writes,
        };
        let outcome = self.post(&writing.writes).await;
        match &outcome {
            Ok(()) => writing.writes.clear(),
            // The first write that failed had no effect, so the last was not posted.
            Err(error) if !error.may_have_taken_effect() => drop(writing.writes.pop()),
            Err(_) => {}
        }
        outcome
    }

    /// Does what is unfinished. It takes who holds everything: nothing is under way.
    async fn finish(&self, _alone: &Held<'_>) -> Result<()> {
        let writes = self.unfinished.borrow().clone();
        if !writes.is_empty() {
            self.changed();
            self.post(&writes).await?;
            self.unfinished.borrow_mut().clear();
        }
        Ok(())
    }

    /// What was seen of the table before is out of date.
    pub(super) fn changed(&self) {
        self.changes.set(self.changes.get().wrapping_add(1));
    }

    /// How often anything has changed.
    pub(super) fn changes(&self) -> u64 {
        self.changes.get()
    }

    async fn post(&self, writes: &[SlotWrite]) -> Result<()> {
        let (layout, place) = (self.layout(), self.place.get());
        let steps = writes.iter().map(async |write: &SlotWrite| {
            let bytes = self.endpoint.core().buffers.copy_of(&write.bytes)?;
            let at = layout.slot_at(place, write.slot);
            Ok(self.endpoint.write(at, bytes).await?)
        });
        all_in_order(steps.collect()).await
    }

    /// Adds what this client has counted to the counts in the table.
    pub(super) async fn report(&self) -> Result<()> {
        let counts = Rc::clone(&self.counts.borrow());
        counts.report(&*self.endpoint).await
    }

    /// Notes entries that came or went. This cannot fail: the operation that is counted is done,
    /// and counts may lag.
    pub(super) async fn entries_changed(&self, change: i64) {
        let enough = self.counts.borrow().change(change);
        if enough {
            let _ = self.report().await;
        }
    }
}

/// The slot of a key in a window that was read, and where in the window its value is; nothing if
/// the key is not there.
pub(super) type WindowHit = Option<(u64, Range<usize>)>;

/// Writes that are under way; unfinished if this is dropped with any of them.
struct UnfinishedWrites<'t> {
    unfinished: &'t RefCell<Vec<SlotWrite>>,
    writes: Vec<SlotWrite>,
}

impl Drop for UnfinishedWrites<'_> {
    fn drop(&mut self) {
        self.unfinished.borrow_mut().append(&mut self.writes);
    }
}

/// The buckets of a window, if there is one.
fn buckets(window: Option<BucketWindow>) -> Vec<u64> {
    window.into_iter().flat_map(BucketWindow::buckets).collect()
}
